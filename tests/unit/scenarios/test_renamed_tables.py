"""The file names other tables, or another one first: what lies in the pipeline's own tables of before is told."""

from contextlib import suppress
from dataclasses import replace

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from fakes.orders import NAME, make_orders, read_orders
from tidegate.diagnosis.finding import Severity
from tidegate.errors import NothingToDo, TidegateError
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.monitoring.status import read_status
from tidegate.reprocess.backfill import apply_slice
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Start, StartKind
from tidegate.wiring.diagnosis.pipelines import check_position
from unit.tidegate.table.test_templated_tables import build_template, produce

COPY, SALES = "lake.shop.copy", "lake.sales.copy"
BOTH = build_pipeline(build_table(), build_table(COPY), max_records=2)


def flush_all(world: World, pipeline: Pipeline) -> None:
    while True:
        try:
            flush(world.build_ports(pipeline))
        except NothingToDo:
            return


def list_table_warnings(world: World, pipeline: Pipeline) -> list[str]:
    """The warnings of status, the doctor and a heartbeat about staged batches, backfills and history elsewhere."""

    def choose(sentences: list[str]) -> list[str]:
        return [
            sentence
            for sentence in sentences
            if "no run continues them" in sentence or "the history of its batches" in sentence
        ]

    warnings = choose(read_status(world.build_ports(pipeline))["warnings"])
    position = check_position(world.build_ports(pipeline))
    assert (
        choose([f"{finding.cause}; {finding.advice}" for finding in position if finding.severity is Severity.WARNING])
        == warnings
    )
    world.clock.tick(3_600_000)
    assert choose(heartbeat(world.build_ports(pipeline)).warnings) == warnings
    return warnings


def render_message(table: str, subject: str, intermediate: str) -> str:
    return (
        f"pipeline=shop table={table}: {subject} are staged in {intermediate}, "
        "and neither the file nor its records name the table now, so no run continues them; "
        "name it in tables again, or drop that table if they may be lost"
    )


@pytest.fixture
def world() -> World:
    """Two partitions and two tables; of one of them nothing can be merged."""
    orders = make_orders()
    with pytest.raises(TidegateError):
        flush(orders.build_ports(BOTH, engine=FailsToMerge(orders.engine, COPY)))
    return orders


def test_staged_batches_of_a_table_that_the_file_names_no_more_are_told(world: World) -> None:
    message = render_message(COPY, "batches=1 that are not published", f"{COPY}_shop_tmp")
    alone = build_pipeline(build_table(), max_records=2)
    assert (list_table_warnings(world, alone), list_table_warnings(world, BOTH)) == ([message], [])
    flush_all(world, alone)
    assert (list_table_warnings(world, alone), read_orders(world)) == ([message], {"a": "2", "b": "1"})
    flush_all(world, BOTH)
    assert {row["id"]: row["name"] for row in world.read_rows(COPY)} == read_orders(world)
    assert list_table_warnings(world, alone) == []


def test_they_are_told_in_a_namespace_that_the_file_names_no_more(world: World) -> None:
    pipeline = build_pipeline(build_table("lake.sales.orders"), max_records=2)
    flush_all(world, pipeline)
    warnings = [text for text in list_table_warnings(world, pipeline) if "are staged" in text]
    assert warnings == [render_message(COPY, "batches=1 that are not published", f"{COPY}_shop_tmp")]


def test_backfill_of_a_table_that_the_file_names_no_more_is_told(world: World) -> None:
    flush_all(world, BOTH)
    ports = world.build_ports(BOTH)
    planned = propose_backfill(ports, parse_request('{"orders": {"0": [0, 1], "1": [0, 2]}}', None, None)).backfill
    apply_slice(ports, planned, 2)
    alone = build_pipeline(build_table(), max_records=2)
    message = render_message(COPY, "the slices of a backfill", f"{COPY}_shop_backfill_{planned.id}_tmp")
    assert (list_table_warnings(world, alone), list_table_warnings(world, BOTH)) == ([message], [])


def test_tables_of_a_template_of_before_are_told() -> None:
    world = World()
    world.broker.create("orders", 2)
    for number, kind in enumerate(("order", "line")):
        produce(world, str(number), kind)
    with pytest.raises(TidegateError):
        flush(world.build_ports(build_template(), engine=FailsToMerge(world.engine, "lake.shop.line")))
    template = build_template("lake.shop.t_{type}")
    message = render_message("lake.shop.line", "batches=1 that are not published", "lake.shop.line_shop_tmp")
    assert (list_table_warnings(world, build_template()), list_table_warnings(world, template)) == ([], [message])


def test_history_beside_the_first_table_of_before_is_told_until_it_is_moved() -> None:
    world = make_orders()
    before, after = (build_pipeline(*map(build_table, names)) for names in ((NAME, SALES), (SALES, NAME)))
    flush_all(world, before)
    message = (
        "pipeline=shop: the history of its batches lies in table=lake.shop.tidegate_shop_batches, where the first "
        "table of the file lay before, and what is added to it in table=lake.sales.tidegate_shop_batches; no data "
        "depends on it: move its rows there with SQL, or drop it when nobody needs it"
    )
    assert (list_table_warnings(world, before), list_table_warnings(world, after)) == ([], [message])
    assert list_table_warnings(world, build_pipeline(build_table(SALES))) == [message]
    assert list_table_warnings(world, build_pipeline(build_table("lake.sales.other"))) == []
    world.destination.control["lake.sales.tidegate_shop_batches"] = world.destination.control.pop(
        "lake.shop.tidegate_shop_batches"
    )
    assert list_table_warnings(world, after) == []


@pytest.mark.parametrize("start", [StartKind.EARLIEST, StartKind.LATEST])
def test_names_that_come_when_another_namespace_becomes_the_first_are_not_lost(start: StartKind) -> None:
    """How far names were looked for lies in the first namespace; at the new place it is looked for again."""
    world = World()
    world.broker.create("orders", 2)

    def build(*namespaces: str) -> Pipeline:
        template = build_template(namespaces=namespaces)
        return replace(template, source=replace(template.source, start=Start(start)))

    produce(world, "1", "order")
    for _ in range(2):
        with suppress(NothingToDo):
            flush(world.build_ports(build("shop", "sales")))
        heartbeat(world.build_ports(build("shop", "sales")))
        produce(world, "2", "line")
    produce(world, "3", "order")
    for _ in range(3):
        with suppress(NothingToDo):
            flush(world.build_ports(build("sales", "shop")))
    assert [row["id"] for row in world.read_rows("lake.shop.line")] == ["2"]
    assert [row["id"] for row in world.read_rows("lake.shop.order")] == (["1", "3"] if start == "earliest" else ["3"])


@pytest.mark.parametrize("starts_at_old_position", [True, False])
def test_pipeline_under_a_new_name_goes_on_where_its_file_says_and_else_reads_the_log_again(
    starts_at_old_position: bool,
) -> None:
    """Two partitions and a table that only appends: records that are read twice are there twice."""
    world, table = make_orders(), build_table(mode="append")
    flush_all(world, build_pipeline(table, name="old"))
    [old_status] = read_status(world.build_ports(build_pipeline(table, name="old")))["tables"]
    assert (old_status["open_batches"], sorted(old_status["position"]["orders"])) == ([], [0, 1])
    rows = world.read_rows(table.name)
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "9"}, 1)
    start = Start(StartKind.OFFSETS, offsets=old_status["position"]) if starts_at_old_position else Start()
    flush_all(world, build_pipeline(table, name="renamed", source={"start": start}))
    names = [row["name"] for row in world.read_rows(table.name)]
    repeats = 1 if starts_at_old_position else 2
    assert sorted(names) == sorted([*(row["name"] for row in rows for _ in range(repeats)), "9"])
