"""All crash points on a real broker, Spark and catalog, each with every fault, in a process of its own.

Takes about half an hour; ``make test-crash`` runs it. ``ARGS="-k later"`` runs a part.
"""

from collections.abc import Callable

import pytest

from crash.bigquery_trial import FIRST, LATER, walk
from crash.points import Point, cases
from crash.publishing import OVERTAKEN, judge, walked
from crash.trial import Trial


@pytest.fixture
def failures(record_property, capsys):
    """Runs cases one after the other; those that fail are told together at the end."""

    def run(walked: list[tuple[Point, str]], one: Callable[[int, Point, str], None]) -> None:
        told = []
        for number, (at, kind) in enumerate(walked, start=1):
            try:
                one(number, at, kind)
            except Exception as error:
                told.append(f"{kind} at {at}: {type(error).__name__}: {error}")
            with capsys.disabled():
                print(f"\r{number} of {len(walked)}, {len(told)} failed: {kind} at {at}".ljust(110), end="", flush=True)
        record_property("counted", {"crash cases on real components": len(walked) - len(told)})
        assert not told, "\n".join(told)

    return run


def walk_twice(trial: Trial, begin: Callable[[int], None]) -> list[Point]:
    """The points that two runs pass, one after the other: the first clean-up has more files to remove than others."""
    begin(1)
    first = set(trial.points())
    begin(2)
    return [point for point in trial.points() if point in first]


def test_every_fault_at_every_point_of_a_later_batch(workbench, runners, failures, record_property) -> None:
    """One pipeline goes from fault to fault; after one that failed a new one is begun."""
    current: list[Trial] = []

    def begin() -> Trial:
        trial = Trial(workbench, runners, f"later{len(current)}")
        trial.next_batch(0)
        workbench.drain(trial.name)
        current.append(trial)
        return trial

    trial = begin()
    points = walk_twice(trial, trial.next_batch)
    trial.check()
    record_property("counted", {"crash points on real components": len(points)})

    def one(number: int, at: Point, kind: str) -> None:
        trial = current[-1]
        trial.next_batch(number + 2)
        try:
            trial.suffers(at, kind)
        except BaseException:
            begin()
            raise

    failures(cases(points), one)


def test_every_fault_at_every_point_of_a_first_batch(workbench, runners, failures, record_property) -> None:
    """A topic, a namespace and tables of its own for each."""

    def begin(number: int) -> Trial:
        trial = Trial(workbench, runners, f"first{number}", "last")
        trial.next_batch(1)
        return trial

    points = begin(0).points()
    record_property("counted", {"crash points on real components": len(points)})
    failures(cases(points), lambda number, at, kind: begin(number).suffers(at, kind))


def test_every_fault_at_every_point_of_a_run_that_recovers(workbench, runners, failures, record_property) -> None:
    """The run before was killed between its publish and everything that follows."""
    trial = Trial(workbench, runners, "recovers", "all")
    trial.next_batch(0)
    workbench.drain(trial.name)
    published = Point("commit_offsets/broker.commit", "before")

    def interrupted(number: int) -> None:
        trial.next_batch(number)
        assert trial.flush(published, "killed").code == -9

    points = walk_twice(trial, interrupted)
    record_property("counted", {"crash points on real components": len(points)})

    def one(number: int, at: Point, kind: str) -> None:
        interrupted(number + 2)
        trial.suffers(at, kind)

    failures(cases(points), one)


@pytest.mark.parametrize("fault", ["SIGKILL", "SIGSTOP", OVERTAKEN])
def test_every_call_of_producers_killed_or_woken_up_late(workbench, fault: str, record_property) -> None:
    told, records = walked(workbench, "exactly-once", fault, 1)
    judge(records, told["snapshots"])
    record_property("counted", {"crash cases on real components": told["cases"]})


def test_every_point_of_bigquerys_own(dwh, runners, record_property) -> None:
    walk(dwh, runners)
    record_property("counted", {"crash cases on real components": len(FIRST) + len(LATER)})
