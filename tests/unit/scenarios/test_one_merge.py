"""A queue that is merged as one batch leaves the rows, and the memory, that its batches leave in turn.

Keys may come by any partition here: between partitions no offset says which record is the later one, so what a batch
brought in after another has to stay the later, as it is where each is merged by itself. With history the order in the
log decides instead, and where runs of both clocks meet, die and stand still, batches are cut anywhere: so each key
keeps to its partition there. Truncates have one partition.
"""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from examples import choose_number
from fakes import World, build_pipeline, build_table
from fakes.interrupted_runner import STEPS_OF_TWO_CLOCKS, InterruptedRunner
from fakes.queueing import stage_behind
from fakes.record_decoder import TRUNCATE
from fakes.sequenced import build_sort_key
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.flush.merge_queue import merge_queue
from tidegate.model.batch import PublishedBatch, StagedBatch
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, Stage
from tidegate.spec.table import History

NAME, MARK = "lake.shop.Orders", "__debezium_unavailable_value"
COLUMNS = (*(Column(name, "STRING") for name in ("Id", "a", "B")), Column("lsn", "INT"))
TIMED = {"columns": (*COLUMNS[:3], Column("lsn", "TIMESTAMP")), "sequence_by": ("lsn",), "history": History()}
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
    "history": {"history": History()},
    "history, upsert": {"history": History(), "mode": "upsert"},
    "history, sequenced": TIMED,
    "truncate": {"options": {"truncate": "apply"}},
    "truncate, unchanged": {"options": {"truncate": "apply"}, "unavailable": MARK},
    "truncate, first": {"options": {"truncate": "apply"}, "update_columns": ("a",), "unavailable": MARK},
}
TEXTS = st.sampled_from([None, "x", "y", MARK])
VALUES = st.one_of(st.none(), st.just(TRUNCATE), st.tuples(TEXTS, TEXTS, st.sampled_from([None, 1, 2, 3])))
TIMES = st.integers(0, 4)
RECORDS = st.tuples(st.sampled_from("kl"), VALUES, TIMES, st.integers(0, 1))
BATCHES = st.lists(st.lists(RECORDS, max_size=4), min_size=2, max_size=4)


def build_kind(kind: str) -> Pipeline:
    options = {"mode": "upsert_delete", "keys": ("Id",), "columns": COLUMNS, **KINDS[kind]}
    return build_pipeline(build_table(NAME, **options))


def applies_truncates(kind: str) -> bool:
    return kind.startswith("truncate")


def create_topic(world: World, kind: str) -> None:
    world.broker.create("orders", 1 if applies_truncates(kind) else 2)


def produce(world: World, kind: str, record: tuple[Any, ...]) -> None:
    """A truncate is a delete where none are applied, and a version without a time is bad."""
    key, value, timestamp, partition = record
    has_history = kind.startswith("history")
    if value == TRUNCATE and not applies_truncates(kind):
        value = None
    elif value not in (None, TRUNCATE):
        lsn = value[2] or 0 if has_history else value[2]
        value = {"Id": key, "a": value[0], "B": value[1], "lsn": lsn}
    if applies_truncates(kind):
        partition = 0
    elif has_history:
        partition = "kl".index(key)
    world.broker.produce("orders", None if value == TRUNCATE else {"Id": key}, value, partition, timestamp)


def merge_copy(world: World, pipeline: Pipeline, queue: list[StagedBatch]) -> tuple[World, tuple[PublishedBatch, ...]]:
    copy = pickle.loads(pickle.dumps(world))
    result = merge_queue(copy.open_session(pipeline), queue)
    assert result.failure is None
    return copy, result.published


def read_tables(world: World) -> tuple[list[dict[str, Any]], ...]:
    """The rows, which keys are remembered as deleted at what sequence, of equal deletes any, and the changes.

    Where a row stands at that sequence, or above, it alone decides. A delete without a sequence is remembered at the
    highest one of its batch, that of a later record too.
    """
    rows = world.read_rows(NAME)
    standing = {row["Id"]: build_sort_key([row["lsn"]]) for row in rows}
    deletes = [
        (row["Id"], row["sequence"])
        for row in world.read_rows(f"{NAME}_deletes")
        if row["Id"] not in standing or build_sort_key(row["sequence"]) > standing[row["Id"]]
    ]
    return rows, sorted(deletes), world.read_rows(f"{NAME}_changes")


@pytest.mark.guard(
    "of batches that are merged as one, the later one has the later record",
    file="plugins/tidegate/merge/statements.py",
    text="    if staged_batch.ahead and table.history is None:",
    off="    if False:",
)
@settings(max_examples=choose_number(700), deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(KINDS)), st.lists(RECORDS, max_size=3), BATCHES)
def test_queue_leaves_what_its_batches_leave_in_turn(kind: str, ahead: list[Any], batches: list[Any]) -> None:
    world, pipeline = World(), build_kind(kind)
    create_topic(world, kind)
    queue = list[StagedBatch]()
    for number, records in enumerate([ahead, *batches]):
        for record in records:
            produce(world, kind, record)
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


CHANGES = st.tuples(st.just("change"), st.sampled_from("kl"), VALUES, TIMES)
STEPS = st.one_of(CHANGES, CHANGES, CHANGES, STEPS_OF_TWO_CLOCKS)


class Runner(InterruptedRunner):
    """Runs of both clocks for a table of one kind; `stage_seconds=None`: whole flushes."""

    table = NAME

    def __init__(self, kind: str, stage_seconds: int | None) -> None:
        super().__init__()
        self.kind, self.stage_clock = kind, Stage(stage_seconds)
        create_topic(self.world, kind)

    def build_pipeline(self, cap: int) -> Pipeline:
        pipeline = build_kind(self.kind)
        merge = replace(pipeline.merge, max_records=cap)
        return replace(pipeline, merge=merge, stage=self.stage_clock, on_rollback="rewind")

    def change(self, key: str, value: Any, timestamp: int) -> None:
        produce(self.world, self.kind, (key, value, timestamp, "kl".index(key)))


@settings(max_examples=choose_number(1100), deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(KINDS)), st.lists(STEPS, min_size=4, max_size=30))
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
