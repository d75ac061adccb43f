"""One worker, look by look: what makes it run, what holds it, and what it tells."""

import os
import threading
from pathlib import Path

import pytest
from tidegate.errors import (
    BadRecord,
    ConfigurationError,
    NothingToDo,
    PublishedElsewhere,
    RetryLater,
    SomeTablesFailed,
    TooFewRecords,
)
from tidegate.monitoring.failure_streak import FailureStreak
from tidegate.runner.schedule import Schedule
from tidegate.runner.work import RunOutcome, Work
from tidegate.runner.worker import Shared, Slots, Worker

DONE, BEHIND = RunOutcome(), RunOutcome(is_behind=True)
ANY = 0


class Task:
    """A work that ends as it is told to, one entry for each run; then it finds nothing to do."""

    name = "pipeline=orders"

    def __init__(self, file: Path, *ends: RunOutcome | Exception, schedule: Schedule | Exception | None = None) -> None:
        self.file, self.ends, self.schedule = file, list(ends), schedule or Schedule(60)
        self.shared_files = (file.with_name("defaults.yaml"),)
        self.inputs = "as it was"
        self.runs: list[int] = []

    def read_schedule(self) -> Schedule:
        if isinstance(self.schedule, Exception):
            raise self.schedule
        return self.schedule

    def run(self, at_least: int) -> RunOutcome:
        self.runs.append(at_least)
        end = self.ends.pop(0) if self.ends else NothingToDo("nothing waits")
        if isinstance(end, Exception):
            raise end
        return end

    def digest_inputs(self) -> str:
        return self.inputs


class Ear:
    """A reporter that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []

    def report_run(self, work: Work, outcome: RunOutcome) -> None:
        self.heard.append(("done", outcome))

    def report_failure(self, work: Work, streak: FailureStreak) -> None:
        self.heard.append(("failed", (streak.reason, streak.runs)))

    def report_recovery(self, work: Work, streak: FailureStreak) -> None:
        self.heard.append(("recovered", streak.runs))


class Hand:
    """A worker whose clock stands still until the test moves it; `look` is what its thread does between two pauses."""

    def __init__(self, task: Task) -> None:
        self.now, self.ear, self.task, self.stop = 1e9, Ear(), task, threading.Event()
        self.slots = Slots(1)
        self.worker = Worker(task, Shared(self.slots, self.stop, self.ear, lambda: self.now))

    def look(self, *after: float) -> list[int]:
        """Look once after each of these pauses; the runs that came of it."""
        before = len(self.task.runs)
        for seconds in after or (0.0,):
            self.now += seconds
            self.worker.step()
        return self.task.runs[before:]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text("source:\n")
    return path


def test_work_runs_at_once_and_then_when_its_interval_has_passed(file: Path) -> None:
    hand = Hand(Task(file, DONE, DONE))
    assert hand.look() == [ANY]
    assert hand.look(1, 58) == []
    assert hand.worker.step() == pytest.approx(1)
    assert hand.look(1) == [ANY]
    assert hand.ear.heard == [("done", DONE), ("done", DONE)]


def test_called_work_runs_at_once_with_any_number_of_records(file: Path) -> None:
    hand = Hand(Task(file, schedule=Schedule(600, at_least=500)))
    assert hand.look() == [500]
    hand.worker.call()
    assert hand.look(1) == [ANY]
    assert hand.look(1) == []


def test_work_that_is_behind_runs_again_at_once(file: Path) -> None:
    hand = Hand(Task(file, BEHIND, BEHIND, DONE))
    assert hand.look(0, 0, 0, 0) == [ANY, ANY, ANY]


def test_times_of_a_cron_expression_start_a_run_each_the_first_one_too(file: Path) -> None:
    hand = Hand(Task(file, schedule=Schedule(cron="*/5 * * * *")))  # the clock stands 200 seconds before such a time
    assert hand.look(0, 199, 0.9) == []
    assert hand.look(0.2, 1, 298) == [ANY]
    assert hand.look(1) == [ANY]


def test_times_of_a_cron_expression_come_also_behind_a_clock_that_was_set_back(file: Path) -> None:
    hand = Hand(Task(file, schedule=Schedule(cron="*/5 * * * *")))
    assert hand.look(0, 200, 300) == [ANY, ANY]
    assert hand.look(-1e8, 99) == []  # it stands 100 seconds before such a time now
    assert hand.look(1, 300) == [ANY, ANY]


def test_delay_before_the_first_run_counts_from_a_clock_that_was_set_back(file: Path) -> None:
    hand = Hand(Task(file, schedule=Schedule(600, delay_seconds=60)))
    assert hand.look(0, -1e8, 59) == []
    assert hand.look(1) == [ANY]


def test_file_that_changes_at_a_time_of_its_cron_expression_takes_no_run_away_and_makes_none(file: Path) -> None:
    hand = Hand(Task(file, schedule=Schedule(cron="*/5 * * * *")))
    assert hand.look(0, 200, 100) == [ANY]
    os.utime(file, ns=(1, 1))
    assert hand.look(0, 100) == []
    os.utime(file, ns=(2, 2))
    assert hand.look(100, 1) == [ANY]


@pytest.mark.parametrize("before", [Schedule(cron="0 2 * * *"), Schedule(86_400)])
def test_cron_expression_that_is_new_starts_a_run_at_its_next_time_and_none_for_times_before_it(
    file: Path, before: Schedule
) -> None:
    """The last run was at two o'clock, the file is changed at half past twelve."""
    hand = Hand(Task(file, schedule=before))
    hand.look()
    assert hand.look(840) == ([ANY] if before.cron else [])
    hand.task.schedule = Schedule(cron="0 * * * *")
    os.utime(file, ns=(1, 1))
    assert hand.look(10.5 * 3600 - 60, 1, 1760) == []
    assert hand.look(60) == [ANY]
    assert hand.look(1, 3500) == []
    assert hand.look(100) == [ANY]


def test_changed_file_is_due_at_once_with_its_new_interval(file: Path) -> None:
    hand = Hand(Task(file))
    hand.look()
    hand.task.schedule = Schedule(5)
    assert hand.look(10) == [], "nobody has touched the file"
    os.utime(file, ns=(1, 1))
    assert hand.look(0, 5, 5) == [ANY, ANY, ANY]


def test_changed_defaults_count_from_the_last_run_on(file: Path) -> None:
    hand = Hand(Task(file, schedule=Schedule(600)))
    assert hand.look() == [ANY]
    hand.task.schedule = Schedule(5)
    hand.task.shared_files[0].write_text("heartbeat: {interval: 5s}\n")
    assert hand.look(1, 3) == [], "it is no work of this file's own that is due now"
    assert hand.look(1, 5) == [ANY, ANY]
    hand.task.schedule = Schedule(60)
    hand.task.shared_files[0].unlink()
    assert hand.look(5, 5, 49) == []
    assert hand.look(1) == [ANY]


def test_wrong_defaults_are_told_and_work_is_due_when_they_are_right_again(file: Path) -> None:
    hand = Hand(Task(file))
    assert hand.look() == [ANY]
    hand.task.schedule = ConfigurationError("defaults.yaml:1: wrong")
    hand.task.shared_files[0].write_text("heartbeat: []\n")
    assert hand.look(1) == []
    assert hand.ear.heard == [("failed", ("defaults.yaml:1: wrong", 1))]
    hand.task.schedule = Schedule(60)
    os.utime(hand.task.shared_files[0], ns=(1, 1))
    assert hand.look(1) == [ANY]


def test_changed_file_brings_nothing_forward_that_begins_with_a_delay(file: Path) -> None:
    hand = Hand(Task(file, schedule=Schedule(600, delay_seconds=60)))
    assert hand.look(0, 59) == []
    assert hand.look(1) == [ANY]
    os.utime(file, ns=(1, 1))
    assert hand.look(0, 599) == []
    assert hand.look(1) == [ANY]


def test_file_that_is_wrong_is_told_once_and_read_again_when_it_changes_or_after_a_while(file: Path) -> None:
    hand = Hand(Task(file, DONE, schedule=ConfigurationError("orders.yaml:1: wrong")))
    assert hand.look(0, 1, 1) == []
    assert hand.ear.heard == [("failed", ("orders.yaml:1: wrong", 1))]
    hand.task.schedule = Schedule(60)
    assert hand.look(1) == []
    os.utime(file, ns=(1, 1))
    assert hand.look() == [ANY]
    assert hand.ear.heard[1:] == [("done", DONE), ("recovered", 1)]
    hand.task.schedule = ConfigurationError("another file takes its table")
    os.utime(file, ns=(2, 2))
    assert hand.look(60) == []
    hand.task.schedule = Schedule(60)
    assert hand.look(11) == [ANY]


def test_file_that_is_gone_and_comes_back_is_read_again(file: Path) -> None:
    hand = Hand(Task(file))
    hand.look()
    file.unlink()
    hand.task.schedule = ConfigurationError("pipeline=orders: no such pipeline")
    assert hand.look(60) == []
    hand.task.schedule = Schedule(60)
    file.write_text("source:\n")
    assert hand.look() == [ANY]


def test_passing_failures_are_tried_at_each_interval_and_counted_by_reason(file: Path) -> None:
    hand = Hand(
        Task(file, RetryLater("no broker answers"), RetryLater("no broker answers"), RetryLater("no Spark"), DONE)
    )
    assert hand.look(0, 60, 60, 60) == [ANY] * 4
    reasons = [("no broker answers", 1), ("no broker answers", 2), ("no Spark", 1)]
    assert hand.ear.heard == [*(("failed", reason) for reason in reasons), ("done", DONE), ("recovered", 1)]


@pytest.mark.parametrize(("schedule", "first"), [(Schedule(86_400), 0), (Schedule(cron="0 3 * * *"), 4400)])
def test_work_that_is_seldom_due_waits_no_day_for_a_server_that_was_down(
    file: Path, schedule: Schedule, first: float
) -> None:
    hand = Hand(Task(file, *[RetryLater("Spark took no connection")] * 4, DONE, schedule=schedule))
    assert hand.look() + hand.look(first) == [ANY]
    assert hand.look(59, 1, 59, 1, 119, 1, 239, 1) == [ANY] * 4
    assert hand.ear.heard[-2:] == [("done", DONE), ("recovered", 4)]
    assert hand.look(3600) == [], "its time has not come"


def test_maintenance_that_fails_in_passing_waits_for_its_interval(file: Path) -> None:
    hand = Hand(Task(file, RetryLater("Spark took no connection"), DONE, schedule=Schedule(600, delay_seconds=60)))
    assert hand.look(0, 60) == [ANY]
    assert hand.look(60, 539) == []
    assert hand.look(1) == [ANY]


def test_work_that_is_only_called_for_runs_when_the_process_starts_and_when_its_file_changes(file: Path) -> None:
    """What it was called for before the process ended is called for by nobody any more."""
    hand = Hand(Task(file, schedule=Schedule(runs_at_start=True)))
    assert hand.look(0, 1, 86_400) == [ANY]
    os.utime(file, (2e9, 2e9))
    assert hand.look(1, 86_400) == [ANY]
    hand.worker.call()
    assert hand.look(0, 86_400) == [ANY]


def test_work_that_is_only_called_for_is_tried_again_behind_a_failure(file: Path) -> None:
    faults = [RetryLater("broker=b gave no answer")] * 4
    hand = Hand(Task(file, *faults, DONE, schedule=Schedule(runs_at_start=True)))
    assert hand.look(0, 59, 1, 59, 1, 119, 1, 239, 1) == [ANY] * 5
    assert hand.look(1, 86_400) == []
    assert hand.ear.heard[-2:] == [("done", DONE), ("recovered", 4)]


def test_work_that_is_only_called_for_looks_again_behind_another_runner_that_was_faster(file: Path) -> None:
    """The other one may have been on its way to an older state of the table."""
    hand = Hand(Task(file, PublishedElsewhere("publication=out"), DONE, schedule=Schedule(runs_at_start=True)))
    assert hand.look(0, 59, 1, 86_400) == [ANY, ANY]


def test_work_whose_interval_was_taken_away_is_not_tried_again_behind_a_failure(file: Path) -> None:
    hand = Hand(Task(file, RetryLater("broker=b gave no answer")))
    assert hand.look() == [ANY]
    hand.task.schedule = Schedule()
    file.with_name("defaults.yaml").write_text("maintenance: {interval: -1}\n")
    assert hand.look(1, 86_400) == []


def test_failure_that_a_person_must_fix_waits_longer_each_time_and_not_when_something_was_changed(file: Path) -> None:
    bad = BadRecord("topic=orders partition=1 offset=7: not JSON")
    hand = Hand(Task(file, *[bad] * 4, schedule=Schedule(10)))
    runs = [bool(hand.look(10)) for _ in range(30)]
    assert [number for number, has_run in enumerate(runs) if has_run] == [0, 6, 12, 24]  # after 1, 1, 2, 4 minutes
    hand.task.inputs = "the table was changed"
    assert hand.look(10) == [ANY]
    assert hand.ear.heard[-1] == ("recovered", 4)


def test_failure_of_unknown_inputs_is_tried_at_each_interval(file: Path) -> None:
    hand = Hand(Task(file, BadRecord("bad"), BadRecord("bad")))
    hand.task.inputs = ""
    assert hand.look(0, 60) == [ANY, ANY]


def test_inputs_that_cannot_be_read_make_a_try(file: Path) -> None:
    hand = Hand(Task(file, BadRecord("bad"), BadRecord("bad")))
    assert hand.look() == [ANY]
    hand.task.digest_inputs = lambda: 1 / 0
    assert hand.look(60) == [ANY]


def test_work_that_failed_rests_longer_each_time_and_until_it_is_well(file: Path) -> None:
    hand = Hand(Task(file, DONE, *[RetryLater("no Spark")] * 4, DONE))
    found = []
    for pause in (0, 60, 60, 120, 240, 0):
        hand.look(60)
        rests = [hand.worker.rests]
        for seconds in (pause - 1, 1):
            hand.now += max(0, seconds)
            rests.append(hand.worker.rests)
        found.append(rests)
    assert found == [[False] * 3, *[[True, True, False]] * 4, [False] * 3]


def test_work_of_another_runner_is_no_failure_and_no_success(file: Path) -> None:
    hand = Hand(Task(file, RetryLater("no Spark"), PublishedElsewhere("batch=3"), TooFewRecords("waiting=3"), DONE))
    assert hand.look(0, 60, 60) == [ANY] * 3
    assert hand.ear.heard == [("failed", ("no Spark", 1))]
    hand.look(60)
    assert hand.ear.heard[1:] == [("done", DONE), ("recovered", 1)]


def test_tables_that_went_on_are_told_beside_those_that_failed(file: Path) -> None:
    hand = Hand(Task(file, SomeTablesFailed("table=b failed", ("a batch",))))
    hand.look()
    assert hand.ear.heard == [("done", RunOutcome(("a batch",))), ("failed", ("table=b failed", 1))]


def test_fault_that_is_not_ours_ends_no_worker(file: Path) -> None:
    hand = Hand(Task(file, ZeroDivisionError("division by zero"), DONE))
    assert hand.look(0, 60) == [ANY, ANY]
    message = ("pipeline=orders: ZeroDivisionError: division by zero", 1)
    assert hand.ear.heard == [("failed", message), ("done", DONE), ("recovered", 1)]
    assert hand.slots.acquire(lambda: True), "the slot is free again"


def test_fault_that_is_not_ours_is_told_without_secrets_of_an_address(file: Path) -> None:
    hand = Hand(Task(file, ValueError("Invalid URL 'htps://u:geheim@h/x'")))
    hand.look()
    assert hand.ear.heard == [("failed", ("pipeline=orders: ValueError: Invalid URL 'htps://***@h/x'", 1))]


def test_worker_that_waits_for_a_slot_ends_when_it_is_told_to(file: Path) -> None:
    hand = Hand(Task(file))
    assert hand.slots.acquire(lambda: True)
    hand.worker.start()
    hand.stop.set()
    assert hand.worker.join(30)
    assert hand.task.runs == []


def test_retired_worker_ends(file: Path) -> None:
    hand = Hand(Task(file))
    hand.worker.start()
    hand.worker.retire()
    assert hand.worker.join(30)


def test_run_that_did_a_part_tells_of_it_before_it_counts_as_failed(file: Path) -> None:
    part = RunOutcome(calls_merge=True, failure=RetryLater("table=copy: its registry does not answer"))
    hand = Hand(Task(file, part, DONE))
    assert hand.look(0, 60) == [ANY, ANY]
    reason = "table=copy: its registry does not answer"
    assert hand.ear.heard == [("done", part), ("failed", (reason, 1)), ("done", DONE), ("recovered", 1)]
