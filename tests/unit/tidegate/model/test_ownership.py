"""Tables that are called like ours and are not: nothing drops them, fills them or takes rows out of them."""

from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import GiveUp, TidegateError
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush
from tidegate.flush.maintain import list_maintained_tables
from tidegate.model import resource_names
from tidegate.model.ownership import describe_control, describe_intermediate, describe_memory
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.spec.table import History

NAME = "lake.shop.orders"
COLUMNS = tuple(Column(name, "INT") for name in ("id", "lsn"))
OTHER_ROWS = ({"id": 7, "theirs": "kept"},)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": partition}, {"id": partition, "lsn": 1, "name": "x"}, partition)
        world.broker.produce("orders", {"id": partition}, None, partition)
    return world


def put(world: World, table: str, **properties: str) -> None:
    """A table with a row, of somebody else."""
    destination_table = world.destination.create(table, (Column("id", "INT"), Column("theirs", "STRING")))
    destination_table.properties |= properties
    world.destination.add_snapshot(table, "main", OTHER_ROWS, {})


def is_unchanged(world: World, table: str) -> bool:
    return world.read_rows(table) == list(OTHER_ROWS)


def build_sequenced_pipeline(**options: Any) -> Pipeline:
    return build_pipeline(build_table(NAME, columns=COLUMNS, sequence_by=("lsn",), **options))


def build_history_pipeline(name: str = "shop") -> Pipeline:
    return build_pipeline(build_table(NAME, columns=COLUMNS, history=History("a", "b", "c")), name=name)


@pytest.mark.parametrize(
    "marks", [{}, describe_intermediate(build_pipeline(name="orders_shop"), build_table()).properties]
)
def test_intermediate_table_of_somebody_else_is_not_dropped(world: World, marks: dict[str, str]) -> None:
    foreign_table = f"{NAME}_shop_tmp"
    put(world, foreign_table, **marks)
    with pytest.raises(
        GiveUp, match=f"table={foreign_table} is needed as kind=intermediate pipeline=shop table=shop.orders"
    ):
        flush(world.open_session(build_pipeline()))
    assert is_unchanged(world, foreign_table)
    assert NAME not in world.destination.tables
    assert world.engine.jobs == []


@pytest.mark.guard(
    "a table of remembered deletes or changes is claimed before it is evolved",
    file="plugins/tidegate/merge/owed.py",
    text="tables.claim(memory, describe_memory(spec)) is not None",
    off="True",
)
@pytest.mark.parametrize(
    ("pipeline", "memory"), [(build_sequenced_pipeline(), "deletes"), (build_history_pipeline(), "changes")]
)
def test_memory_of_somebody_else_is_neither_written_nor_evolved(world: World, pipeline: Pipeline, memory: str) -> None:
    foreign_table = f"{NAME}_{memory}"
    put(world, foreign_table)
    before = world.destination.tables[foreign_table].columns
    with pytest.raises(
        GiveUp, match=f"table={foreign_table} is needed as kind={memory} table=shop.orders, and it is not"
    ):
        flush(world.open_session(pipeline))
    assert (is_unchanged(world, foreign_table), world.destination.tables[foreign_table].columns) == (True, before)
    assert world.read_rows(NAME) == []


def test_deletes_are_not_taken_out_of_a_table_of_somebody_else(world: World) -> None:
    flush(world.open_session(build_sequenced_pipeline()))
    del world.destination.tables[f"{NAME}_deletes"]
    put(world, f"{NAME}_deletes")
    (report,) = clean_up(world.open_session(build_sequenced_pipeline()))
    assert (report.forgotten_deletes, is_unchanged(world, f"{NAME}_deletes")) == (0, True)


@pytest.mark.guard(
    "a table of ours is no destination",
    file="plugins/tidegate/flush/merge.py",
    text="    check_is_destination(work.prefix, table.state)\n",
    off="",
)
def test_memory_of_another_pipelines_table_is_no_destination(world: World) -> None:
    """Whatever the order in which the two were written, and on the command line too."""
    flush(world.open_session(build_history_pipeline()))
    before = world.read_rows(f"{NAME}_changes")
    pipeline = build_pipeline(build_table(f"{NAME}_changes", columns=COLUMNS), name="other")
    with pytest.raises(GiveUp, match=f"table={NAME}_changes batch=1: the table is one of Tidegate's own, kind=changes"):
        flush(world.open_session(pipeline))
    assert world.read_rows(f"{NAME}_changes") == before != []


def test_destination_of_another_pipeline_is_no_memory(world: World) -> None:
    flush(
        world.open_session(build_pipeline(build_table(f"{NAME}_changes", columns=COLUMNS, mode="append"), name="other"))
    )
    before = world.read_rows(f"{NAME}_changes")
    with pytest.raises(GiveUp, match=f"table={NAME}_changes is needed as kind=changes"):
        flush(world.open_session(build_history_pipeline()))
    assert world.read_rows(f"{NAME}_changes") == before != []


def test_dead_letters_are_not_written_into_a_table_of_somebody_else(world: World) -> None:
    foreign_table = "lake.shop.tidegate_shop_dead_letters"
    world.broker.produce("orders", {"id": 3}, "not JSON", 1)
    table = world.destination.create(foreign_table, (Column("id", "INT"),))
    with pytest.raises(GiveUp, match=f"table={foreign_table} is needed as kind=dead_letters"):
        flush(world.open_session(build_pipeline(build_table(errors=Errors("all", 5)))))
    assert (table.read_rows(), table.properties) == ([], {})


@pytest.mark.parametrize("marks", [{}, describe_intermediate(build_pipeline(name="x"), build_table()).properties])
def test_replay_drops_no_table_of_somebody_else(world: World, marks: dict[str, str]) -> None:
    flush(world.open_session(build_pipeline()))
    backfill_table = resource_names.name_backfill_table(build_pipeline(), build_table(), "replay")
    put(world, backfill_table, **marks)
    with pytest.raises(GiveUp, match=f"table={backfill_table}"):
        replay_dead_letters(world.open_session(build_pipeline()))
    assert is_unchanged(world, backfill_table)


def test_backfill_drops_no_table_of_somebody_else(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    session = world.open_session(build_pipeline())
    planned = propose_backfill(session, parse_request('{"orders": {"0": [0, 1], "1": [0, 1]}}', None, None)).backfill
    backfill_table = resource_names.name_backfill_table(build_pipeline(), build_table(), planned.id)
    put(world, backfill_table)
    with pytest.raises(TidegateError, match=f"table={backfill_table}"):
        apply_backfill(session, planned, print)
    assert is_unchanged(world, backfill_table)


def test_maintenance_leaves_tables_of_somebody_else_alone(world: World) -> None:
    """It would compact them, and expire their snapshots."""
    flush(world.open_session(build_pipeline()))
    session = world.open_session(build_sequenced_pipeline())
    assert list_maintained_tables(session) == [NAME, f"{NAME}_shop_tmp"]
    for foreign_table in (f"{NAME}_deletes", "lake.shop.tidegate_shop_dead_letters"):
        put(world, foreign_table)
    assert list_maintained_tables(session) == [NAME, f"{NAME}_shop_tmp"]


def test_memories_of_two_branches_are_told_apart() -> None:
    """`orders` on branch `eu`, and `orders_eu` on main, would have one name."""
    branch, other_table = build_table(NAME, branch="eu"), build_table(f"{NAME}_eu")
    assert resource_names.name_deletes_table(branch) == resource_names.name_deletes_table(other_table)
    assert describe_memory(branch) != describe_memory(other_table)


def test_control_table_is_the_pipelines_whose_name_it_has() -> None:
    pipeline = build_pipeline(name="shop_batches")
    assert describe_control(resource_names.name_control_table(pipeline)).pipeline == "shop_batches"


@pytest.mark.parametrize("suffix", ["_deletes", "_shop_tmp"])
def test_table_that_was_renamed_with_its_destination_is_marked_anew_by_the_way_out_that_is_told(
    world: World, suffix: str
) -> None:
    world.broker.produce("orders", {"id": 1}, {"id": 1, "lsn": 5, "name": "x"}, 1)
    flush(world.open_session(build_sequenced_pipeline()))
    tables, new_name = world.destination.tables, "lake.shop.clients"
    for end in ("", suffix):
        tables[new_name + end] = tables.pop(NAME + end)
    before = world.read_rows(new_name + suffix)
    world.broker.produce("orders", {"id": 2}, {"id": 2, "lsn": 4, "name": "y"}, 0)
    session = world.open_session(build_pipeline(build_table(new_name, columns=COLUMNS, sequence_by=("lsn",))))
    with pytest.raises(GiveUp) as error_info:
        flush(session)
    assert str(error_info.value).endswith(
        "or, if shop.orders was renamed to shop.clients and this table with it: "
        f"ALTER TABLE `lake`.`shop`.`clients{suffix}` SET TBLPROPERTIES ('tidegate.table' = 'shop.clients')"
    )
    tables[new_name + suffix].properties["tidegate.table"] = "shop.clients"
    flush(session)
    assert sorted(row["id"] for row in world.read_rows(new_name)) == [1, 2]
    assert suffix == "_shop_tmp" or (world.read_rows(new_name + suffix) == before and before)


def test_table_of_another_pipeline_is_not_to_be_marked_anew(world: World) -> None:
    put(
        world, f"{NAME}_shop_tmp", **describe_intermediate(build_pipeline(name="orders_shop"), build_table()).properties
    )
    with pytest.raises(GiveUp) as error_info:
        flush(world.open_session(build_pipeline()))
    assert "ALTER TABLE" not in str(error_info.value)
