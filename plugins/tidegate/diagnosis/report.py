"""Findings in the order in which they are fixed, each told once."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tidegate.diagnosis.checks import ADVICE, ORDER
from tidegate.diagnosis.finding import Finding, SecretMask, Severity

SEVERITIES = tuple(Severity)


def order_findings(findings: Iterable[Finding], mask: SecretMask) -> list[Finding]:
    """Errors first, then warnings, then what is right; each of these by the order of the checks.

    The same finding of several pipelines is listed once, with all their names. Secrets are masked.
    """
    merged_findings: dict[tuple[str, Severity, str], Finding] = {}
    for finding in (mask.mask_finding(finding) for finding in findings):
        key = finding.check, finding.severity, finding.cause
        first = merged_findings.get(key, finding)
        users = tuple(dict.fromkeys((*first.used_by, *finding.used_by)))
        advice = first.advice or ("" if first.severity is Severity.OK else ADVICE[first.check])
        merged_findings[key] = replace(first, used_by=users, advice=advice)
    return sorted(
        merged_findings.values(), key=lambda finding: (SEVERITIES.index(finding.severity), ORDER[finding.check])
    )


def count_severities(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each severity."""
    counts = dict.fromkeys((severity.value for severity in SEVERITIES), 0)
    for finding in findings:
        counts[finding.severity.value] += 1
    return counts


def build_report(findings: list[Finding], seconds: float) -> dict[str, Any]:
    """The report for programs."""
    counts = count_severities(findings)
    return {
        "errors": counts[Severity.ERROR.value],
        "warnings": counts[Severity.WARNING.value],
        "ok": counts[Severity.OK.value],
        "seconds": round(seconds, 1),
        "findings": [finding.to_dict() for finding in findings],
    }


def format_findings(findings: list[Finding], seconds: float) -> str:
    """The report for people: what to fix first stands first."""
    lines = []
    for finding in findings:
        users = f" (for {', '.join(finding.used_by)})" if finding.used_by else ""
        lines.append(f"{finding.severity.value:<8} {finding.check}: {finding.cause}{users}")
        lines += [f"{'':<8} do: {finding.advice}"] if finding.advice else []
    counts = count_severities(findings)
    totals = ", ".join(
        f"{number} {word}" for word, number in zip(("errors", "warnings", "ok"), counts.values(), strict=True)
    )
    return "\n".join([*lines, f"{totals}, in {seconds:.1f} s"])
