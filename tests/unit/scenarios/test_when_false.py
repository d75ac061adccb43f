"""`when_false: delete`: a record for which the condition does not hold takes its key's row away, as Flink retracts."""

from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.flush.flush import flush
from tidegate.flush.key_deduplication import can_keep_last_per_key
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import History
from tidegate.table.columns import compute_shape, find_retracting_answers

NAME, OPEN, CLOSED = "lake.shop.open_orders", "state = 'open'", "state = 'closed'"
COLUMNS = (Column("id", "STRING"), Column("state", "STRING"), Column("lsn", "INT"))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    for text, state in ((OPEN, "open"), (CLOSED, "closed")):
        world.engine.conditions[text] = lambda row, state=state: row["state"] and row["state"] == state
    return world


def build_conditional_table(name: str = NAME, condition: str = OPEN, **options: Any):
    return build_table(name, columns=COLUMNS, when=condition, when_false="delete", **options)


def produce(world: World, *changes: tuple[str, str | None, int]) -> None:
    for key, state, lsn in changes:
        world.broker.produce("orders", {"id": key}, {"id": key, "state": state, "lsn": lsn}, ord(key) % 2)


def read_states(world: World, name: str = NAME) -> dict[str, str]:
    return {row["id"]: row["state"] for row in world.read_rows(name)}


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_row_leaves_the_table_when_its_condition_no_longer_holds(world: World, in_one_batch: bool) -> None:
    pipeline = build_pipeline(build_conditional_table())
    for changes in (
        [("k", "open", 1), ("l", "open", 1), ("m", "closed", 1), ("n", "open", 1)],
        [("k", "closed", 2), ("n", None, 2)],
    ):
        produce(world, *changes)
        if not in_one_batch:
            flush(world.open_session(pipeline))
    if in_one_batch:
        flush(world.open_session(pipeline))
    assert read_states(world) == {"l": "open"}


def test_each_table_of_a_fan_out_has_its_own_answer(world: World) -> None:
    tables = (
        build_conditional_table(),
        build_conditional_table("lake.shop.closed_orders", CLOSED),
        build_table("lake.shop.ever_open", columns=COLUMNS, when=OPEN),
    )
    pipeline = build_pipeline(*tables)
    produce(world, ("k", "open", 1), ("l", "open", 1))
    flush(world.open_session(pipeline))
    produce(world, ("k", "closed", 2))
    flush(world.open_session(pipeline))
    assert read_states(world) == {"l": "open"}
    assert read_states(world, "lake.shop.closed_orders") == {"k": "closed"}
    assert read_states(world, "lake.shop.ever_open") == {"k": "open", "l": "open"}


def test_delete_carries_its_sequence_so_that_late_upserts_stay_out(world: World) -> None:
    pipeline = build_pipeline(build_conditional_table(sequence_by=("lsn",)))
    produce(world, ("k", "open", 1), ("l", "open", 6))
    flush(world.open_session(pipeline))
    produce(world, ("k", "closed", 5), ("l", "closed", 5))
    flush(world.open_session(pipeline))
    produce(world, ("k", "open", 4))
    flush(world.open_session(pipeline))
    assert read_states(world) == {"l": "open"}
    produce(world, ("k", "open", 5))
    flush(world.open_session(pipeline))
    assert read_states(world) == {"k": "open", "l": "open"}


def test_soft_delete_marks_the_row_and_keeps_its_values(world: World) -> None:
    pipeline = build_pipeline(build_conditional_table(deletes="soft"))
    produce(world, ("k", "open", 1), ("k", "closed", 2))
    flush(world.open_session(pipeline))
    assert [(row["state"], row["lsn"], row["_deleted"]) for row in world.read_rows(NAME)] == [("open", 1, True)]


def test_history_closes_the_row(world: World) -> None:
    pipeline = build_pipeline(build_conditional_table(sequence_by=("lsn",), history=History()))
    produce(world, ("k", "open", 1))
    flush(world.open_session(pipeline))
    produce(world, ("k", "closed", 5))
    flush(world.open_session(pipeline))
    assert [(row["valid_from"], row["valid_to"], row["is_current"]) for row in world.read_rows(NAME)] == [(1, 5, False)]


def test_partial_update_that_does_not_say_what_the_condition_reads_is_left_out(world: World) -> None:
    pipeline = build_pipeline(build_conditional_table(partial_updates=True))
    produce(world, ("k", "open", 1), ("k", None, 2))
    flush(world.open_session(pipeline))
    assert [(row["state"], row["lsn"]) for row in world.read_rows(NAME)] == [("open", 1)]
    produce(world, ("k", "closed", 3))
    flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == []


def test_default_stages_as_before(world: World) -> None:
    plain, ignoring = (build_table(columns=COLUMNS, when=OPEN, **options) for options in ({}, {"when_false": "ignore"}))
    assert compute_shape(plain) == compute_shape(ignoring) != compute_shape(build_conditional_table())
    assert find_retracting_answers(plain) == ()
    pipeline: Pipeline = build_pipeline(build_conditional_table())
    assert not can_keep_last_per_key(pipeline, pipeline.tables[0])
