"""Every place where a run touches the world, by name, and the faults that can happen there.

A point is ``<step>/<port>.<call>`` with *before* and *after*, or ``<step>/<place>`` *inside* of such a call, where a
job or an adapter calls `hit_failpoint`. No step line can touch the world without passing one: steps have nothing but
ports.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fakes.world import Watched
from tidegate import failpoints
from tidegate.errors import OutcomeUnknown, RetryLater
from tidegate.ports.broker import Broker
from tidegate.ports.destination import BatchHistory, BranchCommits, DeadLetterStore, StagingStore, TableStore
from tidegate.ports.session import Engine, Session

PORTS = {
    "broker": Broker,
    "tables": TableStore,
    "commits": BranchCommits,
    "staging": StagingStore,
    "dead_letters": DeadLetterStore,
    "history": BatchHistory,
    "engine": Engine,
}
READS = {
    "broker": {
        "list_topics", "read_log", "read_topic_ids", "find_offsets_at", "read_timestamps", "read_committed",
        "read_end_offsets", "read_newest_timestamps",
    },
    "tables": {
        "read_state", "count_rows", "list_tables", "find_bounds", "list_pipelines", "read_property",
        "list_folder_limits",
    },
    "commits": {"read_head", "has_branches", "list_rolled_back", "find_snapshots"},
    "staging": {
        "list_staged", "read_staged_outcome", "find_highest_batch", "read_job_answers", "find_landing_folder",
        "list_signed_attempts", "holds_rows",
    },
    "dead_letters": {"read_dead_letters", "count_letters_of_others", "list_waiting_letters"},
    "history": {"read_history"},
    "engine": set(),
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """The `nth` visit, from 1, of one place in one run."""

    name: str
    when: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.name}:{self.when}:{self.nth}"

    @classmethod
    def parse(cls, text: str) -> "Point":
        """ValueError for a call that no port has: no run would ever come to it."""
        name, moment, nth = text.split(":")
        step, _, call = name.partition("/")
        port, _, method = call.partition(".")
        if moment != "inside" and not callable(getattr(PORTS[port], method, None)):
            raise ValueError(f"{step} never calls {call}: no such method of {PORTS[port].__name__}")
        return cls(name, moment, int(nth))

    @property
    def place(self) -> tuple[str, str]:
        """Where it is, whichever visit."""
        return self.name, self.when

    @property
    def reads(self) -> bool:
        """A call that changes nothing."""
        port, _, call = self.name.partition("/")[2].partition(".")
        return call in READS.get(port, ())


class Journey:
    """A hook that numbers the points which one run passes and shows each to `meet`."""

    def __init__(self, meet: Callable[[Point], None] = lambda _: None) -> None:
        self.meet, self.passed, self._visits = meet, list[Point](), Counter[tuple[str, str]]()

    def __call__(self, call: str, moment: str) -> None:
        name = f"{_find_step()}/{call}"
        self._visits[name, moment] += 1
        self.passed.append(Point(name, moment, self._visits[name, moment]))
        self.meet(self.passed[-1])

    def open_session(self, session: Session) -> Session:
        """The ports with this journey between them and the steps."""
        watched_session: dict[str, Any] = {name: Watched(name, getattr(session, name), self) for name in PORTS}
        return replace(session, **watched_session)

    @contextmanager
    def inside(self) -> Iterator["Journey"]:
        """Visit the places inside of jobs and adapters too."""
        with failpoints.install_visitor(lambda place: self(place, "inside")):
            yield self


# the module, or the function where a module holds several, that is a step; an action is named by its module
STEPS = {
    **{f"tidegate.flush.{step}": step for step in ("plan", "stage", "clean_up", "heartbeat", "maintain", "complete")},
    "tidegate.flush.merge.merge": "merge",
    "tidegate.flush.heartbeat.commit_offsets": "commit_offsets",
    "tidegate.merge.owed.record_history": "batch_history",
}
ACTIONS = "tidegate.reprocess."


def _find_step() -> str:
    """The step that the run is in: the outermost one on the stack."""
    frame, step = sys._getframe(2), "flush"
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "_pytest.python":  # what follows runs the test
            break
        action = module.rpartition(".")[2] if module.startswith(ACTIONS) else ""
        step = STEPS.get(f"{module}.{frame.f_code.co_name}") or STEPS.get(module) or action or step
        frame = frame.f_back
    return step


class Broken(OSError):
    """The world failed in a way that no adapter has a word for."""


def list_cases(points: list[Point]) -> list[tuple[Point, str]]:
    """Every point with every fault that can happen there.

    Killed: at each point. Raised: before a call, which then has no effect, or inside. Lost: after a call that had
    its effect. After a read nothing is different from before the next call, so it is killed before only.
    """
    cases = []
    for point in points:
        if point.when in ("before", "inside"):
            cases += [(point, "killed"), (point, "raised")]
        elif not point.reads:
            cases += [(point, "killed"), (point, "lost")]
    return cases


def choose_cases(points: list[Point], turn: int) -> list[tuple[Point, str]]:
    """Every place with one of the faults that can happen there, at one of its visits.

    With `turn` 0 at its first visit, with 1 at its last, and each time by another fault.
    """
    visits: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        visits.setdefault(point.place, []).append(point)
    possible = [faults for point_visits in visits.values() if (faults := list_cases([point_visits[-turn]]))]
    return [faults[(number + turn) % len(faults)] for number, faults in enumerate(possible)]


def build_fault(kind: str, at: Point, die: Callable[[], None]) -> Callable[[Point], None]:
    """What happens once, at that point; `die` ends the process."""

    def meet_fault(point: Point) -> None:
        if point != at:
            return
        if kind == "killed":
            die()
        elif kind == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            raise (_build_lost_answer if kind == "lost" else _build_refusal)(point)

    return meet_fault


def _build_refusal(point: Point) -> Exception:
    return RetryLater(f"injected {point}") if "engine." in point.name else Broken(f"injected {point}")


def _build_lost_answer(point: Point) -> Exception:
    """An effect that took place and an answer that never came, in the words of the port's adapter."""
    call = point.name.partition("/")[2]
    if call.startswith(("engine.", "broker.")):
        return RetryLater(f"injected {point}")
    if call in ("history.append_history", "staging.clean_up", "tables.evolve"):
        return Broken(f"injected {point}")
    return OutcomeUnknown(f"injected {point}")
