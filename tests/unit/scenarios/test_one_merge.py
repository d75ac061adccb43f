"""A queue that is merged as one batch leaves the rows, and the memory, that its batches leave in turn.

Keys may come by any partition here: between partitions no offset says which record is the later one, so what a batch
brought in after another has to stay the later, as it is where each is merged by itself. Where runs of both clocks
meet, die and stand still, batches are cut anywhere, so each key keeps to its partition.
"""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from examples import choose_number
from fakes import World, build_pipeline, build_table
from fakes.interrupted_runner import InterruptedRunner
from fakes.queueing import stage_behind
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.flush.merge_queue import merge_queue
from tidegate.model.batch import PublishedBatch, StagedBatch
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, Stage

NAME, MARK = "lake.shop.Orders", "__debezium_unavailable_value"
COLUMNS = (*(Column(name, "STRING") for name in ("Id", "a", "B")), Column("lsn", "INT"))
KINDS: dict[str, dict[str, Any]] = {
    "upsert and delete": {},
    "upsert": {"mode": "upsert"},
    "delete": {"mode": "delete"},
    "append": {"mode": "append"},
    "soft": {"deletes": "soft"},
    "sequenced": {"sequence_by": ("lsn",)},
    "sequenced, soft": {"sequence_by": ("lsn",), "deletes": "soft"},
    "sequenced, upsert": {"sequence_by": ("lsn",), "mode": "upsert"},
    "partial": {"partial_updates": True},
    "partial, soft": {"partial_updates": True, "deletes": "soft"},
    "unchanged": {"unavailable": MARK},
    "unchanged, soft": {"unavailable": MARK, "deletes": "soft"},
    "first": {"update_columns": ("a",), "unavailable": MARK},
    "first, soft": {"update_columns": ("a",), "deletes": "soft"},
    "groups": {"partial_updates": True, "sequence_groups": (("lsn", ("a",)),)},
    "groups, soft": {"partial_updates": True, "sequence_groups": (("lsn", ("a",)),), "deletes": "soft"},
}
TEXTS = st.sampled_from([None, "x", "y", MARK])
VALUES = st.one_of(st.none(), st.tuples(TEXTS, TEXTS, st.sampled_from([None, 1, 2, 3])))
RECORDS = st.tuples(st.sampled_from("kl"), st.integers(0, 1), VALUES)
BATCHES = st.lists(st.lists(RECORDS, max_size=4), min_size=2, max_size=4)


def build_kind(kind: str, **options: Any) -> Pipeline:
    mode = KINDS[kind].get("mode", "upsert_delete")
    table_options = {name: value for name, value in KINDS[kind].items() if name != "mode"}
    return build_pipeline(build_table(NAME, mode, keys=("Id",), columns=COLUMNS, **table_options, **options))


def produce(world: World, key: str, partition: int, value: tuple[Any, ...] | None) -> None:
    row = value and {"Id": key, "a": value[0], "B": value[1], "lsn": value[2]}
    world.broker.produce("orders", {"Id": key}, row, partition)


def merge_copy(world: World, pipeline: Pipeline, queue: list[StagedBatch]) -> tuple[World, tuple[PublishedBatch, ...]]:
    copy = pickle.loads(pickle.dumps(world))
    result = merge_queue(copy.open_session(pipeline), queue)
    assert result.failure is None
    return copy, result.published


def read_tables(world: World) -> tuple[list[dict[str, Any]], list[tuple[str, Any]]]:
    """The rows, and which keys are remembered as deleted at what sequence; of equal deletes any may be named."""
    deletes = [(row["Id"], row["sequence"]) for row in world.read_rows(f"{NAME}_deletes")]
    return world.read_rows(NAME), sorted(deletes)


@pytest.mark.guard(
    "of batches that are merged as one, the later one has the later record",
    file="plugins/tidegate/merge/statements.py",
    text="    if staged_batch.ahead and table.history is None:",
    off="    if False:",
)
@settings(max_examples=choose_number(500), deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(KINDS)), st.lists(RECORDS, max_size=3), BATCHES)
def test_queue_leaves_what_its_batches_leave_in_turn(kind: str, ahead: list[Any], batches: list[Any]) -> None:
    world, pipeline = World(), build_kind(kind)
    world.broker.create("orders", 2)
    queue = list[StagedBatch]()
    for number, records in enumerate([ahead, *batches]):
        for record in records:
            produce(world, *record)
        queue = stage_behind(world, pipeline) or queue
        if number == 0 and queue:
            assert merge_queue(world.open_session(pipeline), queue).failure is None
            queue = []
    if queue:
        one, published = merge_copy(world, pipeline, queue)
        in_turn, _ = merge_copy(world, replace(pipeline, merge=replace(pipeline.merge, max_records=1)), queue)
        assert read_tables(one) == read_tables(in_turn)
        assert sum(batch.batches for batch in published) == len(queue)
        assert len(published) == 1


HALVES = st.sampled_from(["stage", "stage", "merge"])
MEANWHILE = st.lists(st.sampled_from(["stage", "stage", "merge", "rollback"]), min_size=1, max_size=4)
CAPS, CALLS = st.integers(1, 8), st.integers(1, 90)
CHANGES = st.tuples(st.just("change"), st.sampled_from("kl"), VALUES)
STEPS_OF_TWO_CLOCKS = st.one_of(
    CHANGES,
    CHANGES,
    CHANGES,
    st.tuples(st.just("run_half"), HALVES, CAPS),
    st.tuples(st.just("crash_half"), HALVES, CAPS, CALLS),
    st.tuples(st.just("pause_half"), HALVES, CAPS, CALLS, MEANWHILE),
    st.tuples(st.just("stage"), CAPS),
    st.tuples(st.just("merge_as_zombie"), st.integers(0, 5)),
    st.tuples(st.just("rollback"), st.integers(1, 3)),
)


class Runner(InterruptedRunner):
    """Runs of both clocks for a table of one kind; `stage_seconds=None`: whole flushes."""

    def __init__(self, kind: str, stage_seconds: int | None) -> None:
        super().__init__()
        self.kind, self.stage_clock = kind, Stage(stage_seconds)
        self.world.broker.create("orders", 2)

    def build_pipeline(self, cap: int) -> Pipeline:
        pipeline = build_kind(self.kind)
        merge = replace(pipeline.merge, max_records=cap)
        return replace(pipeline, merge=merge, stage=self.stage_clock, on_rollback="rewind")

    def change(self, key: str, value: tuple[Any, ...] | None) -> None:
        produce(self.world, key, "kl".index(key), value)

    def rollback(self, back: int = 1) -> None:
        """Somebody takes the table back; the next run reads again what that undid."""
        state = self.world.destination.tables.get(NAME)
        ancestors = state.ancestors() if state else []
        if back < len(ancestors):
            self.world.destination.rollback(NAME, ancestors[back].id)


@settings(max_examples=choose_number(800), deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(KINDS)), st.lists(STEPS_OF_TWO_CLOCKS, min_size=4, max_size=30))
def test_runs_of_two_clocks_beside_each_other_leave_what_whole_flushes_leave(kind: str, steps: list[Any]) -> None:
    clocks, whole = Runner(kind, 10), Runner(kind, None)
    for name, *arguments in steps:
        getattr(clocks, name)(*arguments)
        if name == "change":
            whole.change(*arguments)
            whole.flush(1)
    clocks.finish()
    whole.finish()
    assert clocks.world.read_rows(NAME) == whole.world.read_rows(NAME)
