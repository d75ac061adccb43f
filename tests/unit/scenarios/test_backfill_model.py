"""Backfills of random ranges at random times, beside flushes, deaths and zombies: an up-to-date table never changes."""

import json
from contextlib import suppress
from typing import Any

from examples import choose_number
from fakes import Crash, CrashAt, PauseAt
from fakes.interrupted_runner import InterruptedRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tidegate.errors import CommitRefused, ConfigurationError, GiveUp, NothingToDo, RetryLater
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from unit.scenarios import test_model, test_sequence_model

SETTINGS: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "phases": [Phase.generate, Phase.shrink],
}
SHARES = st.tuples(st.floats(0, 1), st.floats(0, 1))
BACKFILLS = st.one_of(
    st.tuples(st.just("backfill"), SHARES, st.integers(1, 8)),
    st.tuples(st.just("dying_backfill"), SHARES, st.integers(1, 8), st.integers(1, 150)),
    st.tuples(st.just("overtaken_backfill"), SHARES, st.integers(1, 8), st.integers(1, 80), st.integers(1, 2)),
)


class Backfilling(InterruptedRunner):
    """What a runner of either model learns: backfills of a share of what each partition has flushed."""

    def backfill(self, shares: tuple[float, float], cap: int, hook: Any = None) -> None:
        state = self.world.destination.read_state("lake.shop.orders", "shop")
        if state is None or state.position is None:
            return
        low, high = sorted(shares)
        flushed = state.position.offsets["orders"]
        ranges = {"orders": {p: [int(low * o), round(high * o)] for p, o in flushed.items()}}
        session = self.world.open_session(self.build_pipeline(cap), hook)
        with suppress(NothingToDo, ConfigurationError, GiveUp, RetryLater, CommitRefused, Crash):
            apply_backfill(
                session, propose_backfill(session, parse_request(ranges, None, None)).backfill, lambda _: None
            )

    def dying_backfill(self, shares: tuple[float, float], cap: int, at: int) -> None:
        self.backfill(shares, cap, CrashAt(at))

    def overtaken_backfill(self, shares: tuple[float, float], cap: int, at: int, flush_count: int) -> None:
        self.backfill(shares, cap, PauseAt(at, lambda: [self.flush(9) for _ in range(flush_count)]))

    def lose(self, keep: int) -> None:
        """Another writer deletes rows; every `keep`-th stays."""
        rows = tuple(row for n, row in enumerate(self.world.read_rows("lake.shop.orders")) if n % 3 == keep)
        self.world.destination.add_snapshot("lake.shop.orders", "main", rows, {"operation": "delete"})

    def merge_as_zombie(self, index: int) -> None:
        with suppress(GiveUp):  # a batch from the middle of the log is not what a table without a position begins with
            super().merge_as_zombie(index)


class Plain(Backfilling, test_model.Runner):
    pass


class Sequenced(Backfilling, test_sequence_model.Runner):
    pass


def play(runner: Any, steps: list) -> None:
    for name, *arguments in steps:
        getattr(runner, name)(*arguments)


def sort_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@settings(max_examples=choose_number(500), **SETTINGS)
@given(
    st.sampled_from(test_model.MODES),
    st.lists(st.one_of(test_model.STEPS, test_model.STEPS, BACKFILLS), min_size=4, max_size=30),
)
def test_up_to_date_table_equals_the_model_after_any_backfills(mode: str, steps: list) -> None:
    runner = Plain(mode)
    play(runner, steps)
    runner.finish()
    assert sort_rows(runner.world.read_rows(test_model.NAME)) == sort_rows(
        test_model.compute_rows(mode, runner.changes)
    )


@settings(max_examples=choose_number(500), **SETTINGS)
@given(
    st.sampled_from(test_sequence_model.SHAPES),
    st.lists(st.one_of(test_sequence_model.STEPS, test_sequence_model.STEPS, BACKFILLS), min_size=4, max_size=30),
)
def test_up_to_date_table_with_sequences_equals_the_model_after_any_backfills(shape: tuple, steps: list) -> None:
    runner = Sequenced(*shape)
    play(runner, steps)
    runner.finish()
    runner.check()


REPAIRS = st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(0, 150))


def damage_and_repair(runner: Any, repair: tuple[int, int, int]) -> None:
    """Damage, a backfill of everything that may die, new changes flushed meanwhile, and the same backfill again."""
    keep, cap, at = repair
    runner.finish()
    if runner.world.destination.read_state("lake.shop.orders", "shop") is None:
        return
    runner.lose(keep)
    if at:
        runner.dying_backfill((0.0, 1.0), cap, at)
    runner.backfill((0.0, 1.0), cap)


@settings(max_examples=choose_number(300), **SETTINGS)
@given(st.sampled_from(("upsert_delete", "upsert")), st.lists(test_model.CHANGES, min_size=1, max_size=20), REPAIRS)
def test_backfill_of_everything_restores_what_another_writer_deleted(mode: str, changes: list, repair: tuple) -> None:
    runner = Plain(mode)
    play(runner, changes)
    damage_and_repair(runner, repair)
    assert sort_rows(runner.world.read_rows(test_model.NAME)) == sort_rows(
        test_model.compute_rows(mode, runner.changes)
    )


@settings(max_examples=choose_number(300), **SETTINGS)
@given(
    st.sampled_from((("upsert_delete", "hard"), ("upsert", "hard"))),
    st.lists(test_sequence_model.CHANGES, min_size=1, max_size=20),
    REPAIRS,
)
def test_backfill_of_everything_restores_the_highest_sequences(shape: tuple, changes: list, repair: tuple) -> None:
    runner = Sequenced(*shape)
    play(runner, changes)
    damage_and_repair(runner, repair)
    runner.check()
