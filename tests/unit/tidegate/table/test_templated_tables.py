"""Tables that records name: found in the catalog, each with a position of its own, never a name that surprises."""

import re
from contextlib import suppress
from dataclasses import replace

import pytest
from examples import choose_calls
from fakes import Crash, CrashAt, FailsToMerge, LosesARecord, World, build_pipeline, build_table
from fakes.counted import Calls
from tidegate.errors import (
    BadRecord,
    ConfigurationError,
    GiveUp,
    NothingToDo,
    PublishedElsewhere,
    SomeTablesDelayed,
    SomeTablesFailed,
)
from tidegate.flush.flush import flush
from tidegate.flush.maintain import list_maintained_tables, maintain
from tidegate.flush.merge_queue import group_by_table, merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.preview import preview_batches
from tidegate.flush.stage import stage
from tidegate.monitoring.status import read_status
from tidegate.reprocess import rebase
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.record import parse_address
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.reprocess.skip import propose_skip
from tidegate.schema.data_types import Column
from tidegate.spec.table_template import TableNaming
from tidegate.table.session import find_table

COLUMNS = (Column("id", "STRING"), Column("type", "STRING"))


def build_template(name: str = "lake.shop.{type}", **options):
    entry = build_table(name, columns=COLUMNS, namespaces=options.pop("namespaces", ("shop",)), **options)
    pipeline = build_pipeline(entry)
    return replace(pipeline, tables=(), template=entry)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def produce(world: World, key: str, kind: str | None) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "type": kind})


def read_keys(world: World, name: str) -> list[str]:
    return [row["id"] for row in world.read_rows(f"lake.shop.{name}")]


def read_committed_offset(world: World) -> int | None:
    return world.broker.groups.get("tidegate-shop", {}).get("orders", {}).get(0)


def test_each_name_becomes_a_table_of_its_own(world: World) -> None:
    for key, kind in [("1", "order"), ("2", "line"), ("3", "Order")]:
        produce(world, key, kind)
    flush(world.open_session(build_template()))
    assert (read_keys(world, "order"), read_keys(world, "line"), read_committed_offset(world)) == (["1", "3"], ["2"], 3)


def test_names_are_found_under_conditions_on_the_leaders_epoch(world: World) -> None:
    """Without the epochs such a condition holds for no record: its table would not be made, and its rows be lost."""
    pipeline = build_template()
    pipeline = replace(pipeline, template=replace(pipeline.template, metadata={"epoch": "leader-epoch"}))
    produce(world, "1", "order")
    flush(world.open_session(pipeline))
    (finder,) = [job.finder for job in world.engine.stages if job.finder is not None]
    (table,) = world.engine.stages[-1].tables
    assert finder.epochs == table.epochs != {}


def test_known_tables_share_the_read_and_a_new_one_costs_one_more(world: World) -> None:
    produce(world, "1", "order")
    flush(world.open_session(build_template()))
    produce(world, "2", "order")
    flush(world.open_session(build_template()))
    assert len(world.engine.stages) == 3
    produce(world, "3", "line")
    flush(world.open_session(build_template()))
    assert (len(world.engine.stages), read_keys(world, "line"), read_committed_offset(world)) == (5, ["3"], 3)


def test_tombstone_reaches_every_known_table(world: World) -> None:
    produce(world, "1", "order")
    produce(world, "1", "line")
    flush(world.open_session(build_template()))
    world.broker.produce("orders", {"id": "1"}, None)
    flush(world.open_session(build_template()))
    assert (read_keys(world, "order"), read_keys(world, "line")) == ([], [])


@pytest.mark.parametrize(
    "kind", [None, "", "a.b", "../x", "a'b", "{type}", "x" * 101, "tidegate_shop_batches", "a_tmp", "a_deletes", "a b"]
)
def test_value_that_makes_no_name_is_a_bad_record(world: World, kind: str | None) -> None:
    produce(world, "1", "order")
    produce(world, "2", kind)
    for _ in range(2):
        with pytest.raises(BadRecord, match="offset=1"):
            flush(world.open_session(build_template()))
    assert read_keys(world, "order") == []


def test_namespace_outside_the_list_is_a_bad_record() -> None:
    naming = TableNaming("{ns}.{t}", ("shop", "archive"), "x")
    assert naming.name_of({"ns": "Archive", "t": "A"}) == "archive.a"
    assert naming.name_of({"ns": "other", "t": "a"}) is None


def test_more_tables_than_allowed_fail_and_nothing_is_merged(world: World) -> None:
    for n in range(3):
        produce(world, str(n), f"t{n}")
    with pytest.raises(GiveUp, match="more than max_tables=2"):
        flush(world.open_session(build_template(max_tables=2)))
    assert not [name for name in world.destination.tables if name.startswith("lake.shop.t") and "tidegate" not in name]


def test_killed_at_any_call_nothing_is_lost() -> None:
    for number in choose_calls(600):
        world = World()
        world.broker.create("orders")
        produce(world, "1", "order")
        flush(world.open_session(build_template()))
        produce(world, "2", "line")
        produce(world, "3", "order")
        crash = CrashAt(number)
        with suppress(Crash):
            flush(world.open_session(build_template(), crash))
        if crash.calls < number:
            break
        produce(world, "4", "line")
        for _ in range(6):
            with suppress(NothingToDo):
                flush(world.open_session(build_template()))
        assert (read_keys(world, "order"), read_keys(world, "line"), read_committed_offset(world)) == (
            ["1", "3"],
            ["2", "4"],
            4,
        ), crash.at
    assert number > 60


def test_delete_by_condition_that_names_no_table_is_a_bad_record(world: World) -> None:
    world.engine.conditions["gone"] = lambda row: row["id"] == "2"
    pipeline = build_template(delete_when="gone")
    produce(world, "1", "order")
    flush(world.open_session(pipeline))
    produce(world, "2", "never_seen")  # a delete makes no table
    flush(world.open_session(pipeline))
    assert (world.read_rows("lake.shop.never_seen"), read_committed_offset(world)) == ([], 2)
    produce(world, "2", "a b")
    produce(world, "3", "order")
    produce(world, "4", "later")
    with pytest.raises(SomeTablesFailed, match="offset=2"):
        flush(world.open_session(pipeline))
    # tables that are known go on; where names are looked for, and so the group, stays before the record
    assert (read_keys(world, "order"), world.read_rows("lake.shop.later"), read_committed_offset(world)) == (
        ["1", "3"],
        [],
        2,
    )


@pytest.mark.guard(
    "names count as read only when all their tables are staged",
    file="plugins/tidegate/flush/stage.py",
    text="        if failures:  # a name must",
    off="        if False:  # a name must",
)
def test_names_are_not_known_as_long_as_one_of_their_tables_is_not_staged(world: World) -> None:
    flush_all = build_template()
    produce(world, "1", "order")
    flush(world.open_session(flush_all))
    produce(world, "2", "line")
    produce(world, "3", "order")
    with pytest.raises(SomeTablesFailed, match="do not add up"):
        flush(world.open_session(flush_all, engine=LosesARecord(world.engine, "lake.shop.line")))
    assert (read_keys(world, "order"), read_committed_offset(world)) == (["1", "3"], 1)
    produce(world, "4", "line")
    flush(world.open_session(flush_all))
    assert (read_keys(world, "line"), read_keys(world, "order"), read_committed_offset(world)) == (
        ["2", "4"],
        ["1", "3"],
        4,
    )


@pytest.mark.guard(
    "an older run does not move the position of the names back",
    file="plugins/tidegate/flush/discover.py",
    text="        check_not_overtaken(table, planned_batch.batch, planned_batch.ranges, plan)\n",
    off="        pass\n",
)
def test_run_that_was_overtaken_leaves_the_position_of_the_names_where_the_other_has_put_it(world: World) -> None:
    """Names of the records between would be looked for again, in batches of numbers that are published."""
    produce(world, "1", "order")
    flush(world.open_session(build_template()))
    produce(world, "2", "line")
    session = world.open_session(build_template())
    planned = plan(session)
    produce(world, "3", "part")
    flush(world.open_session(build_template()))
    with pytest.raises(PublishedElsewhere, match="another run published first"):
        stage(session, planned)
    state = world.destination.read_state("lake.shop.tidegate_shop_names", "shop")
    assert (state.position.offsets, state.position.batch) == ({"orders": {0: 3, 1: 0}}, 2)


def test_status_and_rebase_see_tables_that_records_named(world: World) -> None:
    produce(world, "1", "order")
    produce(world, "2", "line")
    flush(world.open_session(build_template()))
    table_statuses = read_status(world.open_session(build_template()))["tables"]
    assert [table["table"] for table in table_statuses] == ["lake.shop.line", "lake.shop.order"]
    session = world.open_session(build_template())
    rebase.propose_rebase(session, "earliest").perform("ann")
    reads = len(world.engine.stages)
    flush(world.open_session(build_template()))
    assert (len(world.engine.stages), read_keys(world, "order"), read_keys(world, "line")) == (reads + 1, ["1"], ["2"])


def test_each_table_can_be_moved_by_the_name_that_its_refusal_has_also_the_one_that_keeps_the_names(
    world: World,
) -> None:
    for key, kind in [("1", "order"), ("2", "line")]:
        produce(world, key, kind)
    flush(world.open_session(build_template()))
    for key, kind in [("3", "order"), ("4", "line"), ("5", "order"), ("6", "return")]:
        produce(world, key, kind)
    world.broker.retain_from("orders", 3)
    moved_tables = set[str]()
    with suppress(NothingToDo):
        for _ in range(4):
            try:
                flush(world.open_session(build_template()))
            except GiveUp as error:
                table, place = re.search(r"rebase shop --table (\S+) --to '([^']+)'", str(error)).groups()
                session = world.open_session(build_template())
                rebase.propose_rebase(session, place, table).perform("ann")
                moved_tables.add(table)
    assert {"lake.shop.order", "lake.shop.line"} < moved_tables
    assert len(moved_tables) == 3
    assert (read_keys(world, "order"), read_keys(world, "line"), read_keys(world, "return")) == (
        ["1", "5"],
        ["2", "4"],
        ["6"],
    )


def test_table_that_fails_holds_the_offsets_and_its_own_batches_and_no_others(world: World) -> None:
    produce(world, "1", "order")
    produce(world, "2", "line")
    flush(world.open_session(build_template()))
    engine = FailsToMerge(world.engine, "lake.shop.order")
    produce(world, "3", "order")
    produce(world, "4", "line")
    with pytest.raises(SomeTablesDelayed, match=r"lake\.shop\.order"):
        flush(world.open_session(build_template(), engine=engine))
    assert (read_keys(world, "line"), read_keys(world, "order"), read_committed_offset(world)) == (["2", "4"], ["1"], 2)
    staged_counts = {name: len(world.read_rows(f"lake.shop.{name}_shop_tmp")) for name in ("line", "order")}
    assert staged_counts == {"line": 0, "order": 1}
    flush(world.open_session(build_template()))
    assert (read_keys(world, "order"), read_committed_offset(world), world.read_rows("lake.shop.order_shop_tmp")) == (
        ["1", "3"],
        4,
        [],
    )


def test_maintenance_sees_tables_that_records_named(world: World) -> None:
    produce(world, "1", "order")
    flush(world.open_session(build_template()))
    assert "lake.shop.order" in list_maintained_tables(world.open_session(build_template()))


@pytest.mark.parametrize("table", ["lake.shop.order", "lake.shop.order_shop_tmp"])
def test_maintenance_of_one_table_reads_none_of_the_others_that_records_named(world: World, table: str) -> None:
    """Each table has a task: if each of them looked at all tables, thousands would cost millions of looks."""
    counts = []
    for kinds in (["order"], ["line", "part", "item"]):
        for kind in kinds:
            produce(world, kind, kind)
        flush(world.open_session(build_template()))
        calls = Calls()
        maintain(world.open_session(build_template(), calls.count_call), table)
        counts.append(calls.totals)
    assert counts[0] == counts[1]


def test_preview_shows_a_table_that_records_name_for_the_first_time(world: World) -> None:
    produce(world, "1", "order")
    flush(world.open_session(build_template()))
    produce(world, "2", "line")
    (found,) = preview_batches(world.open_session(build_template())).previews
    assert (found.table, found.note) == ("lake.shop.line", "the table is made by its first batch, of staged=1 rows")


def test_backfill_and_replay_are_refused(world: World) -> None:
    produce(world, "1", "order")
    flush(world.open_session(build_template()))
    with pytest.raises(ConfigurationError, match="backfill does not know tables that records name"):
        propose_backfill(world.open_session(build_template()), parse_request({"orders": {"0": [0, 1]}}, None, None))
    with pytest.raises(ConfigurationError, match="replay does not know"):
        replay_dead_letters(world.open_session(build_template()))


def test_name_that_the_template_cannot_make_is_not_in_the_file(world: World) -> None:
    """As of a table whose batch was planned before the template in the file was changed."""
    session = world.open_session(build_template("lake.shop.of_{type}"))
    assert find_table(session, "lake.shop.of_order").name == "lake.shop.of_order"
    for name in ("lake.shop.order", "lake.elsewhere.of_order", "other.shop.of_order"):
        with pytest.raises(ConfigurationError, match=f"table={name} is not in the file"):
            find_table(session, name)


def test_skipped_record_of_a_table_that_records_named_is_set_aside_by_each_step_for_itself(world: World) -> None:
    """A scheduler's tasks know the file alone; a flush in one process has looked for the tables once for all steps."""
    pipeline = build_template()
    pipeline = replace(pipeline, source=replace(pipeline.source, verify_integrity=True))
    session = world.open_session(pipeline)
    produce(world, "1", "order")
    flush(session)
    world.broker.produce("orders", {"id": "other"}, {"id": "2", "type": "order"})
    produce(world, "3", "order")
    with suppress(BadRecord):
        flush(session)
    propose_skip(session, parse_address("orders:0:1")).perform("ann")
    for queue in group_by_table(stage(session, plan(session))):
        merge_queue(session, queue).total  # noqa: B018 (raises the failure)
    assert read_keys(world, "order") == ["1", "3"]
    assert [(row["table"], row["offset"]) for row in world.read_rows("lake.shop.tidegate_shop_dead_letters")] == [
        ("lake.shop.order", 1)
    ]
