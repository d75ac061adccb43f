"""The pipeline's file is changed between the steps of a run: each works with the tables that the file names then."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from fakes.draining import drain
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, RetryLater, TableRemoved
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import commit_offsets, heartbeat
from tidegate.flush.merge_queue import group_by_table, merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.table.session import find_table

ORDERS, OTHER = "lake.shop.orders", "lake.shop.other"


def build_named_pipeline(*names: str) -> Pipeline:
    return build_pipeline(*(build_table(name) for name in names))


ONE, OTHER_ALONE, BOTH = build_named_pipeline(ORDERS), build_named_pipeline(OTHER), build_named_pipeline(ORDERS, OTHER)
STEPS = 5


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 1)
    produce(world, "a")
    return world


def produce(world: World, key: str) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})


def run(world: World, *files: Pipeline) -> list[str]:
    """The steps of one run, each with the file that stands when it begins; the tables whose merge is skipped."""
    skipped = []
    session = [world.open_session(file) for file in files]
    staged = stage(session[1], plan(session[0]))
    for queue in group_by_table(staged):
        try:
            assert merge_queue(session[2], queue).failure is None
        except TableRemoved:
            skipped.append(queue[0].table)
    commit_offsets(session[3])
    clean_up(session[4])
    heartbeat(session[4])
    return skipped


@pytest.mark.parametrize("step", range(1, STEPS))
@pytest.mark.parametrize(("before", "after"), [(ONE, BOTH), (BOTH, ONE), (BOTH, OTHER_ALONE)])
def test_tables_that_change_before_any_step_lose_no_row_and_the_run_goes_on(
    world: World, before: Pipeline, after: Pipeline, step: int
) -> None:
    result = run(world, *[before] * step, *[after] * (STEPS - step))
    removed_names = {table.name for table in before.tables} - {table.name for table in after.tables}
    assert {*result} == (removed_names if step == 2 else set())
    produce(world, "b")
    drain(world, after)
    for table in after.tables:
        assert [row["id"] for row in world.read_rows(table.name)] == ["a", "b"]
    assert world.broker.groups["tidegate-shop"]["orders"] == {0: 2}


VERSIONS = {
    "columns": {"columns": (Column("id", "STRING"), Column("name", "STRING"), Column("Colour", "STRING"))},
    "mode": {"mode": "upsert"},
    "condition": {"when": "name <> 'y'"},
}


@pytest.mark.parametrize("is_rolled_back", [False, True])
@pytest.mark.parametrize("step", range(1, STEPS))
@pytest.mark.parametrize("change", VERSIONS)
def test_dag_bundle_whose_version_changes_before_any_step_gives_the_rows_of_one_version(
    change: str, step: int, is_rolled_back: bool
) -> None:
    """The version that staged and merged: the older one where its merge was over, else the newer one."""
    versions = [ONE, build_pipeline(build_table(ORDERS, **VERSIONS[change]))]
    before, after = reversed(versions) if is_rolled_back else versions
    changed = produce_two_batches(before)
    with suppress(GiveUp):
        run_with_versions(changed, [before] * step + [after] * (STEPS - step))
    drain(changed, after)
    whole = produce_two_batches(before)
    drain(whole, before if step > 2 else after)
    assert changed.read_rows(ORDERS) == whole.read_rows(ORDERS)
    assert changed.broker.groups["tidegate-shop"]["orders"] == {0: 3, 1: 3}
    for world in (changed, whole):
        world.broker.produce("orders", {"id": "d"}, {"id": "d", "name": "z", "Colour": "red"}, 1)
        drain(world, after)
    assert changed.read_rows(ORDERS) == whole.read_rows(ORDERS)


def produce_two_batches(pipeline: Pipeline) -> World:
    """Two partitions: the first batch is published by this version, the second one waits."""
    world = World()
    world.engine.conditions["name <> 'y'"] = lambda row: row["name"] != "y"
    world.broker.create("orders", 2)
    for key, partition in (("a", 0), ("b", 1)):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x", "Colour": "red"}, partition)
    flush(world.open_session(pipeline))
    world.broker.produce("orders", {"id": "a"}, None, 0)
    world.broker.produce("orders", {"id": "e"}, {"id": "e", "name": "y", "Colour": "blue"}, 0)
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "z", "Colour": "blue"}, 1)
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "x", "Colour": "green"}, 1)
    return world


def run_with_versions(world: World, files: list[Pipeline]) -> None:
    """As `run`, where a merge that refuses its batch ends the run, as its task would be red."""
    planning, staging, merging, committing, ending = (world.open_session(file) for file in files)
    for queue in group_by_table(stage(staging, plan(planning))):
        failure = merge_queue(merging, queue).failure
        if failure is not None:
            raise failure
    commit_offsets(committing)
    clean_up(ending)
    heartbeat(ending)


def test_run_whose_only_table_the_file_names_no_more_has_nothing_to_do(world: World) -> None:
    planned = plan(world.open_session(ONE))
    with pytest.raises(NothingToDo, match=rf"table={ORDERS} is not in the file any more"):
        stage(world.open_session(OTHER_ALONE), planned)


def test_table_that_comes_back_goes_on_with_what_was_staged_for_it(world: World) -> None:
    run(world, BOTH, BOTH, ONE, ONE, ONE)
    drain(world, BOTH)
    assert world.read_rows(OTHER) == world.read_rows(ORDERS)


@pytest.mark.guard(
    "rows that were staged for another shape are not merged",
    file="plugins/tidegate/flush/merge.py",
    text="    check_shape(work.table, work.staged)\n",
    off="",
)
@pytest.mark.parametrize("settings", [{"mode": "upsert"}, {"mode": "append"}, {"when": "name <> 'y'"}])
def test_rows_that_were_staged_for_another_file_are_staged_again_and_not_merged(
    world: World, settings: dict[str, Any]
) -> None:
    """A delete that was staged for a table that deletes would become a row of NULLs in one that only upserts."""
    world.engine.conditions["name <> 'y'"] = lambda row: row["name"] != "y"
    world.broker.create("orders", 2)
    for key, partition in (("a", 0), ("b", 1)):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "y"}, partition)
    flush(world.open_session(ONE))
    world.broker.produce("orders", {"id": "a"}, None, 0)
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"}, 1)
    staged = stage(world.open_session(ONE), plan(world.open_session(ONE)))
    changed = world.open_session(build_pipeline(build_table(ORDERS, **settings)))
    failure = merge_queue(changed, staged).failure
    assert isinstance(failure, GiveUp)
    assert "since the batch was staged" in str(failure)
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b"]
    flush(changed)
    kept = [] if "when" in settings else [{"id": "a", "name": "y"}]
    assert world.read_rows(ORDERS) == [*kept, {"id": "b", "name": "y"}, {"id": "c", "name": "z"}]


@pytest.mark.guard(
    "rows in the columns of the destination are not merged for another file",
    file="plugins/tidegate/table/queue.py",
    text="    if not file_shape or file_shape != _compute_file_shape(table):\n",
    off="    if False:\n",
)
@pytest.mark.parametrize("is_stated_before", [False, True])
@pytest.mark.parametrize("settings", [{"mode": "upsert"}, {"mode": "append"}, {"when": "name <> 'y'"}])
def test_rows_in_the_columns_of_the_table_are_staged_again_for_another_file(
    world: World, settings: dict[str, Any], is_stated_before: bool
) -> None:
    """The second file has no value schema, and the first has one or not: both say the same columns."""
    world.engine.conditions["name <> 'y'"] = lambda row: row["name"] != "y"
    world.broker.create("orders", 2)
    for key, partition in (("a", 0), ("b", 1)):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "y"}, partition)
    flush(world.open_session(ONE))
    before = world.open_session(ONE if is_stated_before else build_pipeline(build_unstated_table()))
    world.broker.produce("orders", {"id": "a"}, None, 0)
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"}, 1)
    staged = stage(before, plan(before))
    changed = world.open_session(build_pipeline(build_unstated_table(**settings)))
    failure = merge_queue(changed, staged).failure
    assert isinstance(failure, GiveUp)
    assert "since the batch was staged" in str(failure)
    flush(changed)
    kept = [] if "when" in settings else [{"id": "a", "name": "y"}]
    assert world.read_rows(ORDERS) == [*kept, {"id": "b", "name": "y"}, {"id": "c", "name": "z"}]


def build_unstated_table(**settings: Any) -> Table:
    """Without a value schema; the key has one."""
    table = build_table(ORDERS, columns=None, **settings)
    return replace(table, key=replace(table.key, columns=(Column("id", "STRING"),)))


def test_merge_that_fails_behind_adding_the_key_to_the_table_succeeds_when_it_is_tried_again(world: World) -> None:
    """Without a value schema the rows have the table's columns, and these are others by then."""
    world.destination.create(ORDERS, (Column("name", "STRING"),))
    world.broker.create("orders", 2)
    for partition, key in enumerate("ab"):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"}, partition)
    pipeline = build_pipeline(build_unstated_table())
    staged = stage(world.open_session(pipeline), plan(world.open_session(pipeline)))
    failing = world.open_session(pipeline, engine=FailsToMerge(world.engine, ORDERS))
    assert isinstance(merge_queue(failing, staged).failure, RetryLater)
    assert [column.name for column in world.destination.tables[ORDERS].columns] == ["name", "id"]
    assert merge_queue(world.open_session(pipeline), staged).failure is None
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "x"}, {"id": "b", "name": "x"}]


@pytest.mark.guard(
    "rows in the columns of the destination are not merged into columns of other types",
    file="plugins/tidegate/table/queue.py",
    text="    columns = (*(value.columns or ()), *_list_found_columns(table))\n",
    off="    columns = value.columns or ()\n",
)
@pytest.mark.parametrize("kind", ["INT", "STRUCT<a: STRING>"])
def test_column_that_another_writer_makes_anew_in_another_type_gets_no_row_that_was_staged_for_the_old_one(
    world: World, kind: str
) -> None:
    """Without a value schema the rows were staged in the old type, and Spark would cut a fraction to a whole number."""
    world.broker.create("orders", 2)
    world.destination.create(ORDERS, (Column("id", "STRING"), Column("name", "DOUBLE")))
    pipeline = build_pipeline(build_unstated_table())
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": 1.7}, 0)
    staged = stage(world.open_session(pipeline), plan(world.open_session(pipeline)))
    world.destination.tables[ORDERS].columns = (Column("id", "STRING"), Column("name", kind))
    failure = merge_queue(world.open_session(pipeline), staged).failure
    assert isinstance(failure, GiveUp)
    assert "since the batch was staged" in str(failure)
    assert (world.read_rows(ORDERS), plan(world.open_session(pipeline)).tables[0].is_resumed) == ([], False)


def test_batch_that_is_published_is_a_success_also_for_a_changed_file(world: World) -> None:
    staged = stage(world.open_session(ONE), plan(world.open_session(ONE)))
    assert merge_queue(world.open_session(ONE), staged).failure is None
    changed = world.open_session(build_pipeline(build_table(ORDERS, mode="upsert")))
    (published,) = merge_queue(changed, staged).published
    assert published.outcome == "already published"


def test_table_that_is_asked_for_by_name_and_not_in_the_file_is_refused(world: World) -> None:
    with pytest.raises(ConfigurationError, match=f"table={OTHER} is not in the file"):
        find_table(world.open_session(ONE), OTHER)
