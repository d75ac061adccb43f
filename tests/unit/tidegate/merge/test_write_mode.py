"""How a batch is written: appended where none of its keys is in the table that is cut, merged wherever one may be."""

import pytest
from examples import choose_number
from fakes import World, build_pipeline, build_table
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.flush.flush import flush
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.jobs import evaluation
from tidegate.jobs.evaluation import INTERPRETED_CONF, choose_evaluation
from tidegate.model.batch import PublishedBatch

NAME = "lake.shop.orders"
PIPELINE = build_pipeline()
CHANGES = st.lists(st.tuples(st.sampled_from("abcdefghi"), st.sampled_from(["x", "y", None])), min_size=1, max_size=5)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def produce(world: World, *changes: tuple[str, str | None]) -> None:
    for key, name in changes:
        world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def write_changes(world: World, *changes: tuple[str, str | None], pipeline=PIPELINE, hook=None) -> PublishedBatch:
    produce(world, *changes)
    session = world.open_session(pipeline)
    (batch,) = stage(session, plan(session))
    return merge(world.open_session(pipeline, hook), batch)


def list_statements(world: World) -> list[str]:
    return [job.statements[-1].split('"')[3] for job in world.engine.merges]


def test_batch_of_new_keys_is_appended_with_the_last_record_of_each(world: World) -> None:
    assert write_changes(world, ("a", "x"), ("b", "x")).written_as == "append"
    published = write_changes(world, ("c", "x"), ("d", "x"), ("c", "y"), ("d", None), ("e", "x"))
    assert (published.written_as, published.inserted, published.updated, published.deleted) == ("append", 2, 0, 0)
    assert {row["id"]: row["name"] for row in world.read_rows(NAME)} == {"a": "x", "b": "x", "c": "y", "e": "x"}


def test_one_key_that_may_be_there_makes_it_a_merge(world: World) -> None:
    write_changes(world, ("a", "x"), ("d", "x"))
    published = write_changes(world, ("c", "y"), ("e", "y"))
    assert (published.written_as, published.inserted, published.updated) == ("merge", 2, 0)
    published = write_changes(world, ("e", "z"), ("f", "z"))
    assert (published.written_as, published.inserted, published.updated) == ("merge", 1, 1)
    assert list_statements(world) == ["merge_new", "merge_upsert_delete", "merge_upsert_delete"]


def test_deletes_of_keys_that_are_not_there_change_nothing(world: World) -> None:
    write_changes(world, ("a", "x"))
    published = write_changes(world, ("m", None), ("n", None))
    assert (published.written_as, published.inserted, published.deleted) == ("append", 0, 0)
    assert [row["id"] for row in world.read_rows(NAME)] == ["a"]


@pytest.mark.guard(
    "appended keys are new in the snapshot of the cut",
    file="plugins/tidegate/merge/write_mode.py",
    text='"at": snapshot_id',
    off='"at": table.session.commits.read_head(table.name, "main").parent_id',
)
def test_key_of_the_newest_snapshot_is_not_new(world: World) -> None:
    write_changes(world, ("a", "x"))
    write_changes(world, ("b", "x"))
    assert write_changes(world, ("b", "y")).written_as == "merge"
    assert {row["id"]: row["name"] for row in world.read_rows(NAME)} == {"a": "x", "b": "y"}


@pytest.mark.parametrize("target_call", ["commits.start_branch", "engine.run", "commits.publish"])
def test_key_that_another_writer_brings_meanwhile_is_found_by_the_next_cut(world: World, target_call: str) -> None:
    write_changes(world, ("a", "x"))
    calls = []

    def meanwhile(call: str, moment: str) -> None:
        if (call, moment) == (target_call, "before") and not calls:
            calls.append(world.destination.append_foreign_rows(NAME, {"id": "b", "name": "theirs"}))

    published = write_changes(world, ("b", "ours"), hook=meanwhile)
    assert (published.written_as, published.updated) == ("merge", 1)
    assert {row["id"]: row["name"] for row in world.read_rows(NAME)} == {"a": "x", "b": "ours"}


@pytest.mark.parametrize(
    "given_table",
    [
        {"deletes": "soft"},
        {"sequence_by": ("name",)},
        {"partial_updates": True},
        {"mode": "delete"},
    ],
    ids=str,
)
def test_tables_in_which_more_than_the_last_record_counts_are_merged(world: World, given_table: dict) -> None:
    assert write_changes(world, ("a", "x"), pipeline=build_pipeline(build_table(**given_table))).written_as == "merge"


def test_table_that_is_only_appended_to_says_so(world: World) -> None:
    pipeline = build_pipeline(build_table(mode="append"))
    assert write_changes(world, ("a", "x"), ("a", "x"), pipeline=pipeline).written_as == "append"
    assert len(world.read_rows(NAME)) == 2


def test_history_tells_how_each_batch_was_written(world: World) -> None:
    for name in ("x", "y"):
        world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": name})
        flush(world.open_session(PIPELINE))
    (rows,) = world.destination.control.values()
    assert [row["written_as"] for row in rows] == ["append", "merge"]


@settings(max_examples=choose_number(60), deadline=None)
@given(batches=st.lists(CHANGES, min_size=1, max_size=6), mode=st.sampled_from(["upsert_delete", "upsert"]))
def test_table_is_the_same_as_if_every_batch_were_merged(batches: list, mode: str) -> None:
    world = World()
    world.broker.create("orders")
    rows: dict[str, str] = {}
    for changes in batches:
        produce(world, *changes)
        flush(world.open_session(build_pipeline(build_table(mode=mode))))
        for key, name in changes:
            if name is not None:
                rows[key] = name
            elif mode == "upsert_delete":
                rows.pop(key, None)
        assert {row["id"]: row["name"] for row in world.read_rows(NAME)} == rows
        assert len(world.read_rows(NAME)) == len(rows)


def is_interpreted(world: World) -> list[bool]:
    return [job.conf.items() >= INTERPRETED_CONF.items() for job in world.engine.merges]


def test_no_code_is_generated_for_the_few_rows_of_a_batch_and_of_the_files_that_it_touches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MAX_INTERPRETED_ROWS", 4)
    write_changes(world, *((key, "x") for key in "abcde"))
    write_changes(world, *((key, "x") for key in "fghi"))
    write_changes(world, ("a", "y"), ("d", "y"))
    write_changes(world, ("a", "z"), ("c", "z"))
    assert [job.statements[-1].split('"')[3] for job in world.engine.merges] == [
        "merge_new", "merge_new", "merge_upsert_delete", "merge_upsert_delete"
    ]  # fmt: skip
    assert is_interpreted(world) == [False, True, False, False]
    write_changes(world, ("i", "z"))
    assert is_interpreted(world)[-1]


def test_code_is_generated_from_some_thousand_rows_on() -> None:
    assert choose_evaluation(5_000) == INTERPRETED_CONF
    assert choose_evaluation(5_001) == {}
