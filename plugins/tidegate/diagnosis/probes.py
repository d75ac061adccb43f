"""Runs probes side by side: each has its own time limit, and waits for the probes that it needs."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.diagnosis.finding import Finding, Severity, make_error
from tidegate.errors import TidegateError

PROBE_SECONDS = 15.0  # of one probe; servers that answer take a tenth of it
MAX_AT_ONCE = 16
MAX_TEXT_CHARACTERS = 600
log = logging.getLogger(__name__)


@dataclass
class Probe:
    """A look at one server, or at one pipeline; `run` yields findings.

    An error from `run`, or a late answer, is a finding of `check`. The probe is left out if one of `needs` found an
    error: its
    own would follow from that. `least_seconds`: the time limit of a probe that starts a process.
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


def run_probes(probes: Mapping[str, Probe], seconds: float = PROBE_SECONDS) -> list[Finding]:
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
