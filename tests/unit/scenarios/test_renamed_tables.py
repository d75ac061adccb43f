"""The file names other tables, or the pipeline otherwise: what is staged for a table waits until it is named again."""

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from fakes.orders import make_orders, read_orders
from tidegate.errors import GiveUp, NothingToDo, TidegateError
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Start, StartKind
from unit.tidegate.table.test_templated_tables import build_template, produce, read_keys

COPY = "lake.shop.copy"
BOTH = build_pipeline(build_table(), build_table(COPY), max_records=2)


def flush_all(world: World, pipeline: Pipeline) -> None:
    while True:
        try:
            flush(world.open_session(pipeline))
        except NothingToDo:
            return


def test_batches_of_a_table_that_the_file_names_no_more_are_merged_when_it_names_it_again() -> None:
    """Two partitions and two tables; of one of them nothing can be merged."""
    world = make_orders()
    with pytest.raises(TidegateError):
        flush(world.open_session(BOTH, engine=FailsToMerge(world.engine, COPY)))
    flush_all(world, build_pipeline(build_table(), max_records=2))
    assert (world.read_rows(COPY), read_orders(world)) == ([], {"a": "2", "b": "1"})
    flush_all(world, BOTH)
    assert {row["id"]: row["name"] for row in world.read_rows(COPY)} == read_orders(world)


def test_names_are_looked_for_in_one_namespace_until_it_is_the_first_again() -> None:
    """How far names were looked for lies in the first namespace."""
    world = World()
    world.broker.create("orders", 2)
    before, after = (build_template(namespaces=names) for names in (("shop", "sales"), ("sales", "shop")))
    produce(world, "1", "order")
    flush_all(world, before)
    for number in range(2, 4):
        produce(world, str(number), "line")
        with pytest.raises(GiveUp, match=r"tidegate\.shop\.home=lake\.shop and the file says lake\.sales"):
            flush(world.open_session(after))
    flush_all(world, before)
    assert (read_keys(world, "order"), read_keys(world, "line")) == (["1"], ["2", "3"])


@pytest.mark.parametrize("starts_at_old_position", [True, False])
def test_pipeline_under_a_new_name_goes_on_where_its_file_says_and_else_reads_the_log_again(
    starts_at_old_position: bool,
) -> None:
    """Two partitions and a table that only appends: records that are read twice are there twice."""
    world, table = make_orders(), build_table(mode="append")
    flush_all(world, build_pipeline(table, name="old"))
    [old_status] = read_status(world.open_session(build_pipeline(table, name="old")))["tables"]
    assert (old_status["open_batches"], sorted(old_status["position"]["orders"])) == ([], [0, 1])
    rows = world.read_rows(table.name)
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "9"}, 1)
    start = Start(StartKind.OFFSETS, offsets=old_status["position"]) if starts_at_old_position else Start()
    flush_all(world, build_pipeline(table, name="renamed", source={"start": start}))
    names = [row["name"] for row in world.read_rows(table.name)]
    repeats = 1 if starts_at_old_position else 2
    assert sorted(names) == sorted([*(row["name"] for row in rows for _ in range(repeats)), "9"])
