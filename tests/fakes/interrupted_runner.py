"""Flushes of one pipeline in a world of its own: whole ones, killed ones, and those that stand still beside others."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from hypothesis import strategies as st
from tidegate.errors import NothingToDo, PositionLost, PublishedElsewhere, RetryLater
from tidegate.flush.flush import flush, merge_staged_batches, stage_new_batches
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import StagedBatch
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline

from fakes.clock import Crash
from fakes.queueing import stage_behind
from fakes.world import CrashAt, Hook, PauseAt, World

MAX_FLUSHES = 400
HALVES: dict[str, Callable[[Session], object]] = {"stage": stage_new_batches, "merge": merge_staged_batches}
HEARTBEAT_MS = 600_000  # a heartbeat is due then: batches without rows advance
CAPS, CALLS = st.integers(1, 8), st.integers(1, 90)
CLOCKS = st.sampled_from(["stage", "stage", "merge"])
MEANWHILE = st.lists(st.sampled_from(["stage", "stage", "merge", "foreign", "rollback"]), min_size=1, max_size=4)
STEPS_OF_TWO_CLOCKS = st.one_of(
    st.tuples(st.just("run_half"), CLOCKS, CAPS),
    st.tuples(st.just("crash_half"), CLOCKS, CAPS, CALLS),
    st.tuples(st.just("pause_half"), CLOCKS, CAPS, CALLS, MEANWHILE),
    st.tuples(st.just("flush"), CAPS),
    st.tuples(st.just("crash"), CAPS, CALLS),
    st.tuples(st.just("stage"), CAPS),
    st.tuples(st.just("merge_as_zombie"), st.integers(0, 5)),
    st.tuples(st.just("foreign")),
    st.tuples(st.just("rollback"), st.integers(1, 3)),
)


class InterruptedRunner(ABC):
    """Each method is a step of a random walk; `cap` is the most records that a batch takes."""

    table = "lake.shop.orders"

    def __init__(self) -> None:
        self.world = World()
        self.staged: list[StagedBatch] = []

    @abstractmethod
    def build_pipeline(self, cap: int) -> Pipeline:
        """The pipeline whose batches take at most `cap` records."""

    def flush(self, cap: int, hook: Hook | None = None) -> bool:
        """Whether there was work."""
        try:
            flush(self.world.open_session(self.build_pipeline(cap), hook))
        except NothingToDo:
            return False
        except (PublishedElsewhere, RetryLater, Crash):
            pass
        return True

    def crash(self, cap: int, call_number: int) -> None:
        self.flush(cap, CrashAt(call_number))

    def pause(self, cap: int, call_number: int, flush_count: int) -> None:
        self.flush(cap, PauseAt(call_number, lambda: [self.flush(cap) for _ in range(flush_count)]))

    def run_half(self, half: str, cap: int, hook: Hook | None = None) -> None:
        """A run of one of the two clocks, `stage` or `merge`."""
        with suppress(NothingToDo, PublishedElsewhere, RetryLater, Crash):
            HALVES[half](self.world.open_session(self.build_pipeline(cap), hook))

    def crash_half(self, half: str, cap: int, call_number: int) -> None:
        self.run_half(half, cap, CrashAt(call_number))

    def pause_half(self, half: str, cap: int, call_number: int, others: list[str]) -> None:
        """A run stands still between two calls while others of both clocks go on, or another step of the walk."""

        def act() -> None:
            for other in others:
                self.run_half(other, cap) if other in HALVES else getattr(self, other)()

        self.run_half(half, cap, PauseAt(call_number, act))

    def stage(self, cap: int) -> None:
        """Stage and walk away; a zombie may come back for it at any later time."""
        session = self.world.open_session(self.build_pipeline(cap))
        with suppress(NothingToDo):
            self.staged += stage(session, plan(session))

    def queue(self, cap: int, batches: int) -> None:
        """Stage some batches while none is merged: the next flush merges all of them as one."""
        for _ in range(batches):
            self.staged += stage_behind(self.world, self.build_pipeline(cap))

    def merge_as_zombie(self, index: int) -> None:
        if index < len(self.staged):
            with suppress(PublishedElsewhere, RetryLater, PositionLost):  # one behind others comes in with them alone
                merge(self.world.open_session(self.build_pipeline(9)), self.staged[index])

    def foreign(self) -> None:
        """A compaction: main moves, rows do not."""
        if "main" in getattr(self.world.destination.tables.get(self.table), "refs", {}):
            self.world.destination.append_foreign_rows(self.table)

    def rollback(self, back: int = 1) -> None:
        """Somebody takes the table some snapshots back; `on_rollback: rewind` reads again what that undid."""
        state = self.world.destination.tables.get(self.table)
        ancestors = state.ancestors() if state else []
        if back < len(ancestors):
            self.world.destination.rollback(self.table, ancestors[back].id)

    def finish(self) -> None:
        for _ in range(MAX_FLUSHES):
            self.world.clock.tick(HEARTBEAT_MS)
            if not self.flush(50):
                return
        raise AssertionError("the pipeline never came to rest")
