"""One finding of a check: what is so, how bad it is, and what to do next."""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
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


MAX_AT_ONCE = 16
MAX_TEXT_CHARACTERS = 600
log = logging.getLogger(__name__)


@dataclass
class Probe:
    """A look at one server, or at one pipeline; `run` yields findings.

    An error from `run`, or a late answer, is a finding of `check`. The probe is left out if one of `needs` found an
    error: its own would follow from that. `least_seconds`: the time limit of a probe that starts a process.
    """

    name: str
    check: str
    run: Callable[[], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    least_seconds: float = 0.0
    used_by: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    is_left_out: bool = False
    is_late: bool = False
    started_at: float | None = None
    end_event: threading.Event = field(default_factory=threading.Event)

    @property
    def has_failed(self) -> bool:
        return self.is_left_out or any(finding.severity is Severity.ERROR for finding in self.findings)

    def add(self, finding: Finding) -> None:
        """A finding that names nobody concerns all users of the probe."""
        # a late probe goes on, so that it removes what it made, and reports nothing more
        if not self.is_late:
            self.findings.append(replace(finding, used_by=finding.used_by or tuple(dict.fromkeys(self.used_by))))


def run_probes(probes: Mapping[str, Probe], seconds: float) -> list[Finding]:
    """`seconds`: a probe that takes longer ends with an error."""
    slots = threading.Semaphore(MAX_AT_ONCE)
    for probe in probes.values():
        threading.Thread(target=_run, args=(probe, probes, slots), name=f"doctor {probe.name}", daemon=True).start()
    for probe in probes.values():
        _await_end(probe, seconds, slots)
    return [finding for probe in probes.values() for finding in probe.findings]


def _await_end(probe: Probe, seconds: float, slots: threading.Semaphore) -> None:
    seconds = max(seconds, probe.least_seconds)
    while not probe.end_event.wait(0.02):
        if probe.started_at is not None and time.monotonic() - probe.started_at > seconds:
            text = f"{probe.name} gave no answer within {seconds:.0f} s"
            probe.add(make_error(probe.check, f"{text}; check that it runs, and its address, and see its log"))
            probe.is_late = True
            probe.end_event.set()
            slots.release()  # its thread may wait for ever


def _run(probe: Probe, probes: Mapping[str, Probe], slots: threading.Semaphore) -> None:
    needed_probes = [probes[name] for name in probe.needs if name in probes]
    for other_probe in needed_probes:
        other_probe.end_event.wait()
    if any(other_probe.has_failed for other_probe in needed_probes):
        probe.is_left_out = True
        probe.end_event.set()
        return
    slots.acquire()
    try:
        findings = probe.run()  # which loads the libraries that it needs: that is no server's time
        probe.started_at = time.monotonic()
        for finding in findings:
            probe.add(finding)
    except TidegateError as error:
        probe.add(make_error(probe.check, error))
    except Exception as error:
        log.info("unexpected: probe=%s", probe.name, exc_info=error)
        text = str(error)[:MAX_TEXT_CHARACTERS].replace("; ", ", ")  # no way out of the product's
        probe.add(make_error(probe.check, f"{probe.name}: an unexpected {type(error).__name__}: {text}"))
    finally:
        if not probe.is_late:
            slots.release()
        probe.end_event.set()
