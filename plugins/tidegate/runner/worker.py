"""A thread that does one thing again and again: when its time comes, when it is called, or when its file changes."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidegate.errors import (
    GiveUp,
    NothingToDo,
    NotTried,
    PublishedElsewhere,
    RetryLater,
    SomeTables,
    TidegateError,
)
from tidegate.monitoring.failure_streak import (
    Ending,
    FailedTask,
    Failure,
    FailureStreak,
    Streaks,
    compute_pause,
    identify_reason,
)
from tidegate.redaction import mask_addresses
from tidegate.runner.schedule import Schedule
from tidegate.runner.work import RunOutcome, Work
from tidegate.settings import FileStamp, read_file_stamp


class Slots:
    """A number of runs at once; the one that has waited longest is next.

    Not a `threading.Semaphore`: a few pipelines that always have work would keep all others out.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._waiting = deque[object]()
        self._changed = threading.Condition()

    def acquire(self, must_end: Callable[[], bool]) -> bool:
        """Wait for a slot; return False if `must_end` became true."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                while not self._free or self._waiting[0] is not ticket:
                    if must_end():
                        return False
                    self._changed.wait(LOOK_SECONDS)
                self._free -= 1
                return True
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()


log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0  # seconds between two looks at the file, and at whether to stop
REREAD_SECONDS = 10.0  # seconds after which a file that was wrong is read again: another file may be the reason
RUN = "run"  # the one kind of failure here


class Reporter(Protocol):
    """Reports runs to people. Several threads call at once."""

    def report_run(self, work: Work, outcome: RunOutcome) -> None: ...

    def report_failure(self, work: Work, streak: FailureStreak) -> None: ...

    def report_recovery(self, work: Work, streak: FailureStreak) -> None: ...


@dataclass(frozen=True)
class Shared:
    """What all workers of a process share. `slots` bounds how many run at once; `now` returns Unix seconds."""

    slots: Slots
    stop: threading.Event
    reporter: Reporter
    now: Callable[[], float] = time.time


class Worker:
    """One thing and its thread. It ends when `stop` is set or it is retired, after the run that is under way.

    `reports_file`: it says what is wrong with its file; of several kinds of work of one file only one does.
    """

    def __init__(self, work: Work, shared: Shared, *, reports_file: bool = True) -> None:
        self.work = work
        self._shared = shared
        self._reports_file = reports_file
        self._wake = threading.Event()
        self._retired = threading.Event()
        self._called = threading.Event()
        self._schedule: Schedule | None = None
        self._cron: str | None = None  # that of the last file that was right
        self._stamps = tuple[FileStamp, ...]()  # of its own file, and of shared ones
        self._read_at = self._last = 0.0
        self._began = shared.now()
        self._has_run = False
        self._was_late = False
        self._failed_in_passing = False
        self._runs = 0
        self._streaks = Streaks()
        self._thread = threading.Thread(target=self._loop, name=f"tidegate {work.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self) -> None:
        self._called.set()
        self._wake.set()

    @property
    def rests(self) -> bool:
        """Whether it failed so lately that who calls for it again and again leaves it alone."""
        streak = self._streak
        return streak is not None and streak.rests(self._shared.now())

    def retire(self) -> None:
        """End after the run that is under way: its file is gone."""
        self._retired.set()
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        while not self._must_end():
            wait = self.step()
            self._wake.wait(wait)
            self._wake.clear()

    @property
    def _streak(self) -> FailureStreak | None:
        return self._streaks.get(self.work.name, RUN)

    def _must_end(self) -> bool:
        return self._shared.stop.is_set() or self._retired.is_set()

    def step(self) -> float:
        """Do what is due; return the seconds until the next look."""
        self._reread_schedule()
        if self._schedule is None:
            return LOOK_SECONDS
        is_called = self._called.is_set()
        now = self._shared.now()
        self._began = min(self._began, now)  # the clock was set back
        if self._schedule.cron is not None:
            self._last = min(self._last, now)
        due_at = self._find_due(self._schedule, now)
        if not is_called and (due_at is None or due_at > now):
            return LOOK_SECONDS if due_at is None else min(LOOK_SECONDS, due_at - now)
        if not self._shared.slots.acquire(self._must_end):
            return 0.0
        try:
            self._called.clear()
            self._run_once(0 if is_called else self._schedule.at_least)
        finally:
            self._shared.slots.release()
        return 0.0

    def _find_due(self, schedule: Schedule, now: float) -> float | None:
        due_at = schedule.find_due(self._last if self._has_run else None, now, self._began)
        if due_at is None:
            return self._find_retry(now) if schedule.runs_at_start else None
        # not of maintenance or a verification: they take long, and a delay of theirs delays no rows
        if not self._failed_in_passing or schedule.delay_seconds:
            return due_at
        return min(due_at, self._find_retry(now) or due_at)

    def _find_retry(self, now: float) -> float | None:
        if not self._has_run or not (self._streak or self._was_late):
            return None
        self._last = min(self._last, now)  # the clock was set back
        return self._last + compute_pause(self._streak.runs if self._streak else 1)

    def _reread_schedule(self) -> None:
        now = self._shared.now()
        stamps = tuple(map(read_file_stamp, (self.work.file, *self.work.shared_files)))
        was_wrong = self._schedule is None
        is_old = was_wrong and not 0 <= now - self._read_at < REREAD_SECONDS
        is_own = stamps[:1] != self._stamps[:1] or was_wrong
        if stamps == self._stamps and not is_old:
            return
        self._read_at = now
        self._stamps = stamps
        try:
            self._schedule = self.work.read_schedule()
            if self._schedule.cron is None:
                # a change of its own file makes it due at once; a shared file only changes its times
                self._has_run = self._has_run and (self._schedule.delay_seconds > 0 or not is_own)
            elif self._schedule.cron != self._cron:  # its times count from here on, not from each look or the last run
                self._last = now
                self._has_run = True
            self._cron = self._schedule.cron
        except TidegateError as problem:
            self._schedule = None
            if self._reports_file:
                self._runs = self._runs + 1
                self._extend_streak(problem, str(problem), inputs="")

    def _run_once(self, at_least: int) -> None:
        now = self._shared.now()
        self._last = now
        self._has_run = True
        self._was_late = False
        self._failed_in_passing = False
        self._runs = self._runs + 1
        try:
            streak = self._streak
            if streak is not None and bool(streak.inputs) and streak.must_wait(self._digest_inputs(), now):
                return  # too early, and nothing was changed
            outcome = self.work.run(at_least)
        except NotTried:
            return
        except NothingToDo:
            self._note_success(None)
        except PublishedElsewhere as reason:
            self._was_late = True  # the other run may lead to an older state than the one that this one was called for
            log.info("%s: %s", self.work.name, reason)
        except SomeTables as problem:
            if problem.published:
                self._shared.reporter.report_run(self.work, RunOutcome(problem.published))
            self._note_failure(problem)
        except Exception as problem:
            self._note_failure(problem)
        else:
            if outcome.failure is None and outcome.ends_failures:
                self._note_success(outcome)
                return
            self._shared.reporter.report_run(self.work, outcome)
            if outcome.failure is not None:
                self._note_failure(outcome.failure)

    def _note_success(self, outcome: RunOutcome | None) -> None:
        over = self._streaks.note_success(self.work.name, RUN, self._end_run())
        if outcome is not None:
            self._shared.reporter.report_run(self.work, outcome)
            if outcome.is_behind:
                self._called.set()
        if over is not None:
            self._shared.reporter.report_recovery(self.work, over)

    def _note_failure(self, problem: Exception) -> None:
        is_ours = isinstance(problem, TidegateError)
        self._failed_in_passing = isinstance(problem, RetryLater)
        if not is_ours:
            log.error("%s", self.work.name, exc_info=problem)
        words = mask_addresses(f"{self.work.name}: {type(problem).__name__}: {problem}")
        message = str(problem) if is_ours else words
        self._extend_streak(problem, message, self._digest_inputs() if isinstance(problem, GiveUp) else "")

    def _extend_streak(self, problem: Exception, message: str, inputs: str) -> None:
        failed_task = FailedTask(self.work.name, type(problem).__name__, message)
        failure = Failure(identify_reason(message, [failed_task]), message, inputs)
        streak = self._streaks.note_failure(self.work.name, RUN, failure, self._end_run())
        self._shared.reporter.report_failure(self.work, streak)

    def _end_run(self) -> Ending:
        return Ending(str(self._runs), self._shared.now())

    def _digest_inputs(self) -> str:
        try:
            return self.work.digest_inputs()
        except Exception as fault:  # a file that cannot be read, a catalog that does not answer: it is tried again
            log.info("%s: what a person may change is not known: %s", self.work.name, type(fault).__name__)
            return ""
