"""One finding of a check: what is so, how bad it is, and what to do next."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tidegate.errors import TidegateError
from tidegate.redaction import SecretMask

# What a step's message says of its batch: a diagnosis has none.
STEP_PATTERN = re.compile(r";?\s*(it will be (tried|staged|merged) again|nothing was (written|changed))(?=;|$)")


class Severity(StrEnum):
    """No flush succeeds, some flush will suffer, or all is well."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """`check` is one of `CHECKS`. `used_by`: the pipelines and publications concerned."""

    check: str
    severity: Severity
    cause: str
    advice: str = ""
    used_by: tuple[str, ...] = ()


def make_error(check: str, message: TidegateError | str) -> Finding:
    """A flush fails. `message`: the cause, then the way out behind a semicolon."""
    return _split_message(check, Severity.ERROR, message)


def make_warning(check: str, message: TidegateError | str) -> Finding:
    """Trouble later, or needless work."""
    return _split_message(check, Severity.WARNING, message)


def make_ok(check: str, cause: str) -> Finding:
    return Finding(check, Severity.OK, cause)


def _split_message(check: str, severity: Severity, message: TidegateError | str) -> Finding:
    cause, _, advice = STEP_PATTERN.sub("", " ".join(str(message).split())).partition("; ")
    return Finding(check, severity, cause.rstrip(";"), advice)


CHECKS = (  # each one needs those before it
    "files.environment", "files.catalogs", "files.pipelines", "files.publications", "files.secrets",
    "files.connections", "kafka.reachable", "kafka.topics", "kafka.group", "kafka.clock", "catalog.reachable",
    "catalog.commit", "registry.schema", "catalog.tables", "pipeline.position", "spark.reachable", "spark.version",
    "spark.jars", "spark.catalogs", "airflow.environment", "airflow.plugin", "airflow.services",
)  # fmt: skip
SEVERITIES = tuple(Severity)
DEFAULT_ADVICE = "run it again with `tidegate -v doctor`, which shows where the error came from"


def order_findings(findings: Iterable[Finding], mask: SecretMask) -> list[Finding]:
    """Errors, then warnings, then what is right; inside, by the order of the checks. Masks secrets."""
    masked_findings = [
        replace(finding, cause=mask.mask(finding.cause), advice=mask.mask(finding.advice)) for finding in findings
    ]
    masked_findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), CHECKS.index(finding.check)))
    # a cause that several checks or pipelines report is listed once, with all their names
    merged_findings: dict[tuple[Severity, str], Finding] = {}
    for finding in masked_findings:
        key = (finding.severity, finding.cause)
        first = merged_findings.get(key, finding)
        users = tuple(dict.fromkeys((*first.used_by, *finding.used_by)))
        advice = first.advice or ("" if first.severity is Severity.OK else DEFAULT_ADVICE)
        merged_findings[key] = replace(first, used_by=users, advice=advice)
    return list(merged_findings.values())


def count_findings(findings: Iterable[Finding], severity: Severity) -> int:
    return sum(finding.severity is severity for finding in findings)


def build_report(findings: list[Finding], seconds: float) -> dict[str, Any]:
    """For programs."""
    errors, warnings, ok = (count_findings(findings, severity) for severity in SEVERITIES)
    rows = [asdict(finding) for finding in findings]
    return {"errors": errors, "warnings": warnings, "ok": ok, "seconds": round(seconds, 1), "findings": rows}


def format_findings(findings: list[Finding], seconds: float) -> str:
    """For people: what to fix first comes first."""
    lines = []
    for finding in findings:
        users = f" (for {', '.join(finding.used_by)})" if finding.used_by else ""
        lines.append(f"{finding.severity.value:<8} {finding.check}: {finding.cause}{users}")
        lines += [f"{'':<8} do: {finding.advice}"] if finding.advice else []
    errors, warnings, ok = (count_findings(findings, severity) for severity in SEVERITIES)
    return "\n".join([*lines, f"{errors} errors, {warnings} warnings, {ok} ok, in {seconds:.1f} s"])
