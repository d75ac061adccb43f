"""Random records with and without a sequence, late ones included, against a model that takes them one at a time."""

import json
from itertools import count
from typing import Any

import pytest
from examples import choose_number
from fakes import build_pipeline, build_table
from fakes.interrupted_runner import InterruptedRunner
from fakes.one_at_a_time import Change, compute_rows
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tidegate.errors import GiveUp
from tidegate.flush.flush import flush
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline

NAME, PARTITIONS, DELETE_CONDITION = "lake.shop.orders", 2, "gone"
COLUMNS = tuple(Column(name, "INT") for name in ("id", "n", "lsn", "sub"))
SHAPES = (("upsert_delete", "hard"), ("upsert_delete", "soft"), ("upsert", "hard"))
SEQUENCES = st.tuples(st.sampled_from([0, 1, 2, 3, None]), st.sampled_from([None, None, 0]))
CHANGES = st.tuples(
    st.just("change"), st.integers(0, 1), st.sampled_from(["upsert", "upsert", "delete", "tombstone"]), SEQUENCES
)
CUTS = st.tuples(st.just("flush"), st.integers(1, 6))
STEPS = st.one_of(
    CHANGES,
    CHANGES,
    CHANGES,
    CUTS,
    CUTS,
    st.tuples(st.just("crash"), st.integers(1, 6), st.integers(1, 90)),
    st.tuples(st.just("pause"), st.integers(1, 6), st.integers(1, 60), st.integers(1, 2)),
    st.tuples(st.just("stage"), st.integers(1, 6)),
    st.tuples(st.just("queue"), st.integers(1, 3), st.integers(2, 4)),
    st.tuples(st.just("merge_as_zombie"), st.integers(0, 5)),
)
SETTINGS = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "phases": [Phase.generate, Phase.shrink],
}


class Runner(InterruptedRunner):
    """Plays one sequence of steps in a world of its own."""

    def __init__(self, mode: str, deletes: str) -> None:
        super().__init__()
        self.mode, self.deletes, self.numbers = mode, deletes, count()
        self.world.broker.create("orders", PARTITIONS)
        self.world.engine.conditions[DELETE_CONDITION] = lambda row: row.get("n") == -1
        self.changes: list[Change] = []

    def build_pipeline(self, cap: int) -> Pipeline:
        options = {"sequence_by": ("lsn", "sub"), "deletes": self.deletes, "delete_when": DELETE_CONDITION}
        return build_pipeline(build_table(NAME, self.mode, columns=COLUMNS, **options), max_records=cap)

    def change(self, key: int, kind: str, sequence: tuple[int | None, int | None]) -> None:
        n = next(self.numbers)
        row = {"id": key, "n": n if kind == "upsert" else -1, "lsn": sequence[0], "sub": sequence[1]}
        value = None if kind == "tombstone" else row
        self.world.broker.produce("orders", {"id": key}, value, key % PARTITIONS)
        self.changes.append((key, kind, sequence, n))

    def check(self) -> None:
        model = compute_rows(self.mode, self.deletes, self.changes)
        assert sort_rows(self.world.read_rows(NAME)) == sort_rows(model)


def sort_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@settings(max_examples=choose_number(700), **SETTINGS)
@given(st.sampled_from(SHAPES), st.lists(STEPS, min_size=4, max_size=30))
def test_highest_sequence_stands_after_any_cuts_deaths_and_zombies(shape: tuple[str, str], steps: list) -> None:
    runner = Runner(*shape)
    for name, *arguments in steps:
        getattr(runner, name)(*arguments)
    runner.finish()
    runner.check()


@settings(max_examples=choose_number(300), **SETTINGS)
@given(st.sampled_from(SHAPES), st.lists(st.lists(CHANGES, min_size=1, max_size=3), min_size=3, max_size=8))
def test_every_batch_leaves_what_one_record_at_a_time_would_leave(shape: tuple[str, str], batches: list) -> None:
    runner = Runner(*shape)
    for changes in batches:
        for _, *arguments in changes:
            runner.change(*arguments)
        runner.flush(50)
        runner.check()


@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("kind", ["delete", "tombstone"])
def test_late_upsert_does_not_bring_back_what_was_deleted_after_a_later_sequence(deletes: str, kind: str) -> None:
    runner = Runner("upsert_delete", deletes)
    for change in ((0, "upsert", (5, None)), (0, kind, (5, None)), (0, "upsert", (4, None))):
        runner.change(*change)
        runner.flush(50)
    runner.check()
    assert [row.get("_deleted") for row in runner.world.read_rows(NAME)] == ([True] if deletes == "soft" else [])


def test_late_upsert_comes_back_once_its_delete_is_forgotten() -> None:
    runner, day = Runner("upsert_delete", "hard"), 86_400_000
    for lsn, kind, at in ((5, "upsert", 0), (5, "delete", 0), (1, "upsert", 6 * day), (2, "upsert", 8 * day)):
        runner.world.clock.ms = 1_000_000 + at
        runner.change(0, kind, (lsn, None))
        runner.change(1, "tombstone", (None, None))  # each partition has come as far
        runner.flush(50)
    assert runner.world.read_rows(NAME) == []  # forgotten after the last flush, not before it
    runner.change(0, "upsert", (3, None))
    runner.flush(50)
    assert [row["lsn"] for row in runner.world.read_rows(NAME)] == [3]


def test_nothing_is_forgotten_while_a_partition_has_shown_no_record() -> None:
    runner = Runner("upsert_delete", "hard")
    runner.change(0, "delete", (5, None))
    runner.flush(50)
    runner.world.clock.tick(30 * 86_400_000)
    runner.change(2, "upsert", (1, None))
    runner.flush(50)
    assert [row["id"] for row in runner.world.read_rows(f"{NAME}_deletes")] == [0]


def test_sequence_by_other_columns_is_refused_while_deletes_are_remembered_by_the_old_ones() -> None:
    runner = Runner("upsert_delete", "hard")
    runner.change(0, "delete", (5, None))
    runner.flush(50)
    runner.change(0, "upsert", (1, None))
    pipeline = build_pipeline(build_table(NAME, columns=COLUMNS, sequence_by=("lsn",), delete_when=DELETE_CONDITION))
    with pytest.raises(GiveUp, match=rf"table={NAME}_deletes, .*another sequence_by.* or drop this table"):
        flush(runner.world.open_session(pipeline))
    assert runner.world.read_rows(NAME) == []


def test_memory_of_deletes_that_is_dropped_while_its_columns_are_looked_at_is_made_again() -> None:
    runner, calls = Runner("upsert_delete", "hard"), list[str]()
    runner.change(0, "delete", (5, None))
    runner.flush(50)
    runner.change(1, "delete", (6, None))

    def drop_memory(call: str, moment: str) -> None:
        if (call, moment) == ("tables.read_state", "after") and f"{NAME}_deletes" in statements and not calls:
            calls.append(call)
            runner.world.destination.tables.pop(f"{NAME}_deletes", None)

    statements = list[str]()
    claim = runner.world.destination.claim

    def note_claim(table: str, own: Any) -> Any:
        statements.append(table)
        return claim(table, own)

    runner.world.destination.claim = note_claim  # type: ignore[method-assign]
    flush(runner.world.open_session(runner.build_pipeline(50), drop_memory))
    assert calls
    assert [row["id"] for row in runner.world.read_rows(f"{NAME}_deletes")] == [1]
