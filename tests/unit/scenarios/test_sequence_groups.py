"""Random partial updates with sequence groups, late ones of two partitions included, against one record at a time."""

import json
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from examples import choose_number
from fakes import Crash, CrashAt, World, build_pipeline, build_table
from fakes.grouped import GROUPS, NAMES, Change, compute_rows
from fakes.queueing import stage_behind
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.errors import BadRecord, ConfigurationError, GiveUp, NothingToDo, RetryLater
from tidegate.flush.flush import flush
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.table.columns import compute_shape, find_sequences

NAME, UNCHANGED_MARK = "lake.shop.wide", "__debezium_unavailable_value"
TYPES = {"id": "INT", "va": "INT", "vb": "INT"}
COLUMNS = tuple(Column(name, TYPES.get(name, "STRING")) for name in ("id", *NAMES))
SHAPES = (("upsert_delete", "hard"), ("upsert_delete", "soft"), ("upsert", "hard"))
SEQUENCES, TEXTS = st.sampled_from([None, 1, 2, 3, 4]), st.sampled_from([None, "p", "q", "r"])
RECORDS = st.fixed_dictionaries({name: SEQUENCES if name in GROUPS else TEXTS for name in NAMES})
FLUSHES = st.one_of(st.tuples(st.just("flush"), st.integers(1, 6), st.integers(1, 80)), st.tuples(st.just("stage")))
STEPS = st.one_of(st.tuples(st.just("change"), st.integers(0, 2), st.one_of(st.none(), RECORDS, RECORDS)), FLUSHES)
PARTS = st.tuples(st.just("part"), st.integers(0, 1), st.sampled_from(sorted(GROUPS)), st.integers(0, 1), TEXTS)


def build_grouped_table(mode: str = "upsert_delete", deletes: str = "hard", **options: Any) -> Table:
    groups = tuple(GROUPS.items())
    columns = options.pop("columns", COLUMNS)
    return build_table(
        NAME, mode, columns=columns, deletes=deletes, partial_updates=True, sequence_groups=groups, **options
    )


def sort_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


class Runner:
    """Plays one sequence of steps in a world of its own."""

    def __init__(self, mode: str, deletes: str) -> None:
        self.mode, self.deletes, self.world, self.numbers = mode, deletes, World(), count(1)
        self.world.broker.create("orders", 2)
        self.changes: list[Change] = []

    def pipeline(self, cap: int = 100) -> Pipeline:
        return build_pipeline(build_grouped_table(self.mode, self.deletes), max_records=cap)

    def change(self, key: int, record: dict[str, Any] | None, partition: int | None = None) -> None:
        value = None if record is None else {"id": key, **record}
        self.world.broker.produce("orders", {"id": key}, value, key % 2 if partition is None else partition)
        if record is not None or self.mode == "upsert_delete":
            self.changes.append((key, record))

    def part(self, key: int, sequence: str, partition: int, text: str | None) -> None:
        """One group of a key, by whichever partition; the later half comes out of order."""
        number = next(self.numbers)
        sequence_value = number if number % 3 else -number
        self.change(key, {sequence: sequence_value, **dict.fromkeys(GROUPS[sequence], text)}, partition)

    def flush(self, cap: int = 100, at: int = 999) -> None:
        with suppress(NothingToDo, Crash, RetryLater):
            flush(self.world.open_session(self.pipeline(cap), CrashAt(at)))

    def stage(self) -> None:
        """One more batch in the queue, whatever waits there."""
        stage_behind(self.world, self.pipeline())

    def play(self, steps: list) -> None:
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
        for _ in range(100):
            try:
                flush(self.world.open_session(self.pipeline()))
            except NothingToDo:
                break

    def check(self) -> None:
        assert sort_rows(self.world.read_rows(NAME)) == sort_rows(compute_rows(self.deletes == "soft", self.changes))


@settings(max_examples=choose_number(500))
@given(st.sampled_from(SHAPES), st.lists(STEPS, min_size=3, max_size=24))
def test_table_equals_the_model_wherever_batches_are_cut(shape: tuple[str, str], steps: list) -> None:
    runner = Runner(*shape)
    runner.play(steps)
    runner.check()


@settings(max_examples=choose_number(300))
@given(st.lists(st.one_of(PARTS, PARTS, FLUSHES), min_size=3, max_size=24))
def test_groups_of_one_key_may_come_by_several_partitions(steps: list) -> None:
    runner = Runner("upsert", "hard")
    runner.play(steps)
    runner.check()


@settings(max_examples=choose_number(200))
@given(st.sampled_from(SHAPES), st.lists(STEPS, min_size=3, max_size=16))
def test_records_that_are_read_again_leave_the_same_rows(shape: tuple[str, str], steps: list) -> None:
    runner = Runner(*shape)
    runner.play([step for step in steps if step[0] == "change"])
    runner.check()
    for key, record in list(runner.changes):  # the log once more, behind itself
        runner.change(key, record)
    runner.flush()
    if not any(record is None for _, record in runner.changes):
        assert sort_rows(runner.world.read_rows(NAME)) == sort_rows(
            compute_rows(runner.deletes == "soft", runner.changes[: len(runner.changes) // 2])
        )
    runner.check()


def play_records(*records: dict[str, Any] | None, in_one_batch: bool = True) -> list[dict[str, Any]]:
    runner = Runner("upsert_delete", "hard")
    for record in records:
        runner.change(0, record)
        if not in_one_batch:
            runner.flush()
    runner.flush()
    return [{name: value for name, value in row.items() if value is not None} for row in runner.world.read_rows(NAME)]


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_records_of_one_batch_are_combined_group_by_group(in_one_batch: bool) -> None:
    records = (
        {"va": 5, "a": "new", "x": "y"},
        {"vb": 1, "b": "b"},
        {"va": 4, "a": "late", "vb": 2, "b": "c", "name": "n"},
    )
    row = {"id": 0, "va": 5, "a": "new", "x": "y", "vb": 2, "b": "c", "name": "n"}
    assert play_records(*records, in_one_batch=in_one_batch) == [row]


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_group_is_written_as_a_whole_and_not_without_a_sequence(in_one_batch: bool) -> None:
    first, second, third = {"a": "first", "x": "first"}, {"va": 1, "a": "second"}, {"a": "third", "x": "third"}
    assert play_records(first, in_one_batch=in_one_batch) == [{"id": 0, **first}]
    assert play_records(first, third, in_one_batch=in_one_batch) == [{"id": 0, **first}]
    assert play_records(first, second, third, in_one_batch=in_one_batch) == [{"id": 0, **second}]


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_delete_goes_by_the_log_and_what_follows_it_starts_anew(in_one_batch: bool) -> None:
    records = ({"va": 5, "a": "x"}, None, {"va": 1, "a": "y"})
    assert play_records(*records[:2], in_one_batch=in_one_batch) == []
    assert play_records(*records, in_one_batch=in_one_batch) == [{"id": 0, "va": 1, "a": "y"}]


def run_backfill(runner: Runner, pipeline: Pipeline, ranges: str) -> None:
    session = runner.world.open_session(pipeline)
    apply_backfill(session, propose_backfill(session, parse_request(ranges, None, None)).backfill, lambda _: None)


def test_backfill_is_refused_where_offsets_decide() -> None:
    runner = Runner("upsert_delete", "hard")
    runner.change(0, {"va": 1, "a": "x"})
    runner.flush()
    with pytest.raises(GiveUp, match="read the range again in order: tidegate rebase"):
        run_backfill(runner, runner.pipeline(), '{"orders": {"0": [0, 1]}}')


def test_backfill_of_groups_writes_what_is_missing_and_changes_nothing_else() -> None:
    """Where two records have the same sequence, the one that stands is left alone."""
    runner = Runner("upsert", "hard")
    pipeline = build_pipeline(build_grouped_table("upsert", columns=COLUMNS[:-1]), max_records=2)
    for key, record in (
        (0, {"va": 2, "a": "old", "vb": 1, "b": "b"}),
        (0, {"va": 1, "a": "late"}),
        (0, {"va": 2, "a": "new"}),
        (1, {"vb": 3, "b": "c"}),
        (1, {"vb": 4, "b": "d"}),
    ):
        runner.change(key, record)
    with suppress(NothingToDo):
        for _ in range(9):
            flush(runner.world.open_session(pipeline))
    whole, before = '{"orders": {"0": [0, 3], "1": [0, 2]}}', runner.world.read_rows(NAME)
    assert [(row["id"], row["a"], row["b"]) for row in before] == [(0, "new", "b"), (1, None, "d")]
    run_backfill(runner, pipeline, whole)
    assert runner.world.read_rows(NAME) == before
    damaged = tuple({**row, "vb": None, "b": None} for row in before if row["id"] == 0)
    runner.world.destination.add_snapshot(NAME, "main", damaged, {})
    run_backfill(runner, pipeline, whole)
    rows = [(row["id"], row["a"], row["vb"], row["b"]) for row in runner.world.read_rows(NAME)]
    assert rows == [(0, "new", 1, "b"), (1, None, 4, "d")]


def test_placeholder_of_a_column_in_a_group_is_a_bad_record_and_of_another_keeps_its_value() -> None:
    runner = Runner("upsert_delete", "hard")
    pipeline = build_pipeline(build_grouped_table(unavailable=UNCHANGED_MARK))
    runner.change(0, {"va": 1, "a": "x", "name": "n"})
    runner.change(0, {"va": 2, "a": "y", "name": UNCHANGED_MARK})
    flush(runner.world.open_session(pipeline))
    (row,) = runner.world.read_rows(NAME)
    assert (row["a"], row["name"]) == ("y", "n")
    runner.change(0, {"va": 3, "a": UNCHANGED_MARK})
    with pytest.raises(BadRecord, match="the value of a is not in the event"):
        flush(runner.world.open_session(pipeline))


def test_groups_name_columns_of_the_table_without_case() -> None:
    table = build_grouped_table(columns=tuple(Column(c.name.upper(), c.type) for c in COLUMNS))
    columns = [c.name.upper() for c in COLUMNS[1:]]
    assert find_sequences(table, columns) == {"A": "VA", "X": "VA", "VA": "VA", "B": "VB", "VB": "VB"}
    with pytest.raises(ConfigurationError, match=r"a of sequence_groups is no column of the table.*there are VA, VB"):
        find_sequences(table, ["VA", "VB"])


def test_rows_staged_under_other_groups_are_staged_anew() -> None:
    plain = build_table(NAME, columns=COLUMNS, partial_updates=True)
    assert compute_shape(plain) != compute_shape(build_grouped_table())
