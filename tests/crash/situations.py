"""The situations in which a run on real components meets a fault: what it passes there, and one fault of it."""

from collections.abc import Callable
from typing import Any

from crash.points import Point
from crash.runner import Runners
from crash.trial import Trial

PUBLISHED = Point("commit_offsets/broker.commit", "before")


class LaterBatch:
    """A batch on tables that are there.

    One pipeline goes from fault to fault; after one that failed a new one is begun.
    """

    def __init__(self, workbench: Any, runners: Runners) -> None:
        self.workbench, self.runners, self.begun = workbench, runners, 0
        self.trial = self._begin()

    def _begin(self) -> Trial:
        trial = Trial(self.workbench, self.runners, f"later{self.begun}", last_format=2 + self.begun % 2)
        trial.produce_batch(0)
        self.workbench.drain(trial.name)
        self.begun += 1
        return trial

    def list_points(self) -> list[Point]:
        """The points of a flush without a fault, whose result is checked."""
        points = _list_common_points(self.trial, self.trial.produce_batch)
        self.trial.check()
        return points

    def meet(self, number: int, at: Point, kind: str) -> None:
        """The fault, the flushes behind it, and what must be true then. `number` counts from 1."""
        self.trial.produce_batch(number + 2)
        try:
            self.trial.flush_with_fault(at, kind)
        except BaseException:
            self.trial = self._begin()
            raise


class FirstBatch:
    """A topic, a namespace and tables that are made by the batch: new ones for each fault."""

    def __init__(self, workbench: Any, runners: Runners) -> None:
        self.workbench, self.runners = workbench, runners

    def _begin(self, number: int) -> Trial:
        self.trial = Trial(self.workbench, self.runners, f"first{number}", "last")
        self.trial.produce_batch(1)
        return self.trial

    def list_points(self) -> list[Point]:
        return self._begin(0).list_points()

    def meet(self, number: int, at: Point, kind: str) -> None:
        self._begin(number).flush_with_fault(at, kind)


class Recovery:
    """The run before was killed between its publish and everything that follows."""

    def __init__(self, workbench: Any, runners: Runners) -> None:
        self.trial = Trial(workbench, runners, "recovers", "all")
        self.trial.produce_batch(0)
        workbench.drain(self.trial.name)

    def _interrupt(self, number: int) -> None:
        self.trial.produce_batch(number)
        assert self.trial.flush(PUBLISHED, "killed").code == -9

    def list_points(self) -> list[Point]:
        return _list_common_points(self.trial, self._interrupt)

    def meet(self, number: int, at: Point, kind: str) -> None:
        self._interrupt(number + 2)
        self.trial.flush_with_fault(at, kind)


class Queue:
    """Three batches of each table wait, and are merged as one."""

    def __init__(self, workbench: Any, runners: Runners) -> None:
        self.trial = Trial(workbench, runners, "queue", last_format=3)
        self.trial.produce_batch(0)
        workbench.drain(self.trial.name)

    def _wait(self, number: int) -> None:
        for place in range(3):
            self.trial.produce_batch(3 * number + place)
            self.trial.stage()

    def list_points(self) -> list[Point]:
        return _list_common_points(self.trial, self._wait)

    def meet(self, number: int, at: Point, kind: str) -> None:
        self._wait(number + 2)
        self.trial.flush_with_fault(at, kind)


class Half:
    """One of the two clocks, `stage` or `merge`, behind a batch that was staged and not merged."""

    def __init__(self, workbench: Any, runners: Runners, command: str) -> None:
        self.command = command
        self.trial = Trial(workbench, runners, f"half-{command}", stage={"interval": "10s"})
        self.trial.produce_batch(0)
        workbench.drain(self.trial.name)

    def _begin(self, number: int) -> None:
        for part in (0, 1):
            self.trial.produce_batch(2 * number + part)
            if part == 0 or self.command == "merge":
                assert self.trial.flush(command="stage").code == 0

    def list_points(self) -> list[Point]:
        points = _list_common_points(self.trial, self._begin, self.command)
        self.trial.run_both_clocks()
        self.trial.check()
        return points

    def meet(self, number: int, at: Point, kind: str) -> None:
        self._begin(number + 2)
        self.trial.flush_with_fault(at, kind, self.command)


Situation = LaterBatch | FirstBatch | Recovery | Queue | Half


def _list_common_points(trial: Trial, begin: Callable[[int], None], command: str = "flush") -> list[Point]:
    """The points that two runs pass, one after the other: the first clean-up has more files to remove than others."""
    begin(1)
    first = set(trial.list_points(command))
    begin(2)
    return [point for point in trial.list_points(command) if point in first]
