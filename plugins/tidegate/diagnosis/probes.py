"""Runs probes side by side: each has its own time limit, and waits for those whose servers it needs."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.diagnosis.checks import ADVICE
from tidegate.diagnosis.finding import Finding, Severity, from_error, from_unexpected, make_error
from tidegate.errors import TidegateError

PROBE_SECONDS = 15.0  # of one probe; servers that answer take a tenth of it
MAX_AT_ONCE = 16
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probe:
    """A look at one server, or at one pipeline.

    `check` is what a time-out, or an error that `run` lets through, is told as. The probe is left out where one of
    `needs` has found an error that concerns it: what it would find follows from that. `blocks` are the checks whose
    errors concern all that need this one, `blocks_users` those whose errors concern the pipelines that they name.
    `least_seconds` are for what starts a process of its own: that takes long on a machine that is busy.
    """

    name: str
    check: str
    run: Callable[[], Iterable[Finding]]
    used_by: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    blocks_users: tuple[str, ...] = ()
    least_seconds: float = 0.0


@dataclass
class _Running:
    probe: Probe
    findings: list[Finding] = field(default_factory=list)
    started_at: float | None = None
    is_late: bool = False
    end_event: threading.Event = field(default_factory=threading.Event)
    failed_users: set[str] = field(default_factory=set)

    def add(self, finding: Finding) -> None:
        """Note a finding; one that names nobody concerns all that use the probe's server.

        Behind a time-out nothing is noted. The probe goes on all the same, so that it removes what it has made.
        """
        if self.is_late:
            return
        if finding.severity is Severity.ERROR and finding.check in self.probe.blocks_users:
            self.failed_users |= {*finding.used_by}
        self.findings.append(replace(finding, used_by=finding.used_by or self.probe.used_by))

    def concerns(self, other_probe: Probe) -> bool:
        """Whether an error of this one leaves another one out."""
        errors = {finding.check for finding in self.findings if finding.severity is Severity.ERROR}
        return self.is_late or bool(errors & {*self.probe.blocks} or self.failed_users & {*other_probe.used_by})


def run_probes(probes: Sequence[Probe], seconds: float = PROBE_SECONDS) -> tuple[list[Finding], bool]:
    """The findings of all probes, and whether one is late: its thread may still wait for a server.

    A probe that takes longer than `seconds` is told as one that got no answer, with what it has found until then.
    """
    running = {probe.name: _Running(probe) for probe in probes}
    slots = threading.Semaphore(MAX_AT_ONCE)
    for probe in running.values():
        threading.Thread(
            target=_run, args=(probe, running, slots), name=f"doctor {probe.probe.name}", daemon=True
        ).start()
    for probe in running.values():
        _await_end(probe, seconds, slots)
    return [finding for run in running.values() for finding in run.findings], any(r.is_late for r in running.values())


def _await_end(running: _Running, seconds: float, slots: threading.Semaphore) -> None:
    seconds = max(seconds, running.probe.least_seconds)
    while not running.end_event.wait(0.02):
        if running.started_at is not None and time.monotonic() - running.started_at > seconds:
            running.is_late = True
            cause = f"{running.probe.name} gave no answer within {seconds:.0f} s"
            late = make_error(running.probe.check, cause, ADVICE[running.probe.check])
            running.findings = [*running.findings, replace(late, used_by=running.probe.used_by)]
            running.end_event.set()
            slots.release()  # its thread may wait for ever


def _run(running: _Running, runs: dict[str, _Running], slots: threading.Semaphore) -> None:
    needed = [runs[name] for name in running.probe.needs if name in runs]
    for run in needed:
        run.end_event.wait()
    if any(other_run.concerns(running.probe) for other_run in needed):
        running.end_event.set()
        return
    slots.acquire()
    try:
        findings = running.probe.run()  # which loads the libraries that it needs: that is no server's time
        running.started_at = time.monotonic()
        for finding in findings:
            running.add(finding)
    except TidegateError as error:
        running.add(from_error(running.probe.check, error))
    except Exception as error:
        log.info("unexpected: probe=%s", running.probe.name, exc_info=error)
        running.add(from_unexpected(running.probe.check, running.probe.name, error))
    finally:
        if not running.is_late:
            slots.release()
        running.end_event.set()
