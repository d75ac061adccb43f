"""Staging and merging on clocks of their own: batches pile up while merges run, and only merges move positions."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, FailsToMerge, World, build_pipeline, build_table
from tidegate.cli.main import main
from tidegate.errors import NothingToDo, SomeTablesFailed, TidegateError, TooFewRecords
from tidegate.fleet.timing import build_clock
from tidegate.flush.flush import flush, merge_staged_batches, stage_new_batches
from tidegate.flush.heartbeat import heartbeat, require_begun
from tidegate.flush.plan import plan
from tidegate.monitoring.health import Health, ScheduleState, describe_pipeline_state
from tidegate.monitoring.overview import build_overview
from tidegate.monitoring.status import read_status
from tidegate.runner.schedule import build_flush_schedule
from tidegate.spec.pipeline import Heartbeat, Merge, Pipeline, Stage
from tidegate.spec.source import Start, StartKind
from tidegate.table.pipeline_progress import read_pipeline_progress
from unit.tidegate.table.test_templated_tables import build_template

ORDERS, COPY = "lake.shop.Orders", "lake.shop.copy"
GROUP, TEN_SECONDS = "tidegate-shop", Stage(10)
ONE = build_pipeline(build_table(ORDERS), stage=TEN_SECONDS)
TWO = build_pipeline(build_table(ORDERS), build_table(COPY), stage=TEN_SECONDS)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    return world


def produce(world: World, *changes: tuple[str, str | None]) -> None:
    for key, name in changes:
        value = None if name is None else {"id": key, "name": name}
        world.broker.produce("orders", {"id": key}, value, ord(key) % 2)


def stage_batches(world: World, pipeline: Pipeline, *names: str) -> list[tuple[str, int]]:
    """A batch of two records for each name; the tables and numbers that were staged."""
    staged = []
    for name in names:
        produce(world, ("a", name), ("b", name))
        staged += [(batch.table, batch.batch) for batch in stage_new_batches(world.open_session(pipeline)).batches]
    return staged


def read_pairs(world: World, table: str) -> list[tuple[str, str]]:
    return [(row["id"], row["name"]) for row in world.read_rows(table)]


@pytest.mark.parametrize("pipeline", [ONE, TWO], ids=["one table", "two tables"])
def test_batches_are_staged_behind_each_other_and_merges_alone_publish_them(world: World, pipeline: Pipeline) -> None:
    tables = [table.name for table in pipeline.tables]
    assert stage_batches(world, pipeline, "1", "2", "3") == [(t, n) for n in (1, 2, 3) for t in tables]
    assert [read_pairs(world, table) for table in tables] == [[]] * len(tables)
    assert world.broker.groups.get(GROUP, {}) == {}
    merge_staged_batches(world.open_session(pipeline))
    assert [read_pairs(world, table) for table in tables] == [[("a", "3"), ("b", "3")]] * len(tables)
    assert world.broker.groups[GROUP] == {"orders": {0: 3, 1: 3}}
    assert stage_batches(world, pipeline, "4") == [(table, 4) for table in tables]
    merge_staged_batches(world.open_session(pipeline))
    assert read_pairs(world, ORDERS) == [("a", "4"), ("b", "4")]
    for run in (stage_new_batches, merge_staged_batches):
        with pytest.raises(NothingToDo):
            run(world.open_session(pipeline))


def test_offsets_of_the_group_move_with_merges_only(world: World) -> None:
    stage_batches(world, ONE, "1")
    merge_staged_batches(world.open_session(ONE))
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 1}}
    stage_batches(world, ONE, "2", "3")
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 1}}


def test_merge_reads_no_record_and_stage_merges_none(world: World) -> None:
    stage_batches(world, ONE, "1")
    produce(world, ("a", "2"))
    merge_staged_batches(world.open_session(ONE))
    assert read_pairs(world, ORDERS) == [("a", "1"), ("b", "1")]
    with pytest.raises(NothingToDo, match="pipeline=shop: no staged batch waits for a merge"):
        merge_staged_batches(world.open_session(ONE))
    (batch,) = stage_new_batches(world.open_session(ONE)).batches
    assert (batch.batch, batch.counts.staged) == (2, 1)
    with pytest.raises(NothingToDo, match="pipeline=shop: every table stands at the end of the log"):
        stage_new_batches(world.open_session(ONE))


def test_flush_of_a_pipeline_with_two_clocks_does_both_once(world: World) -> None:
    stage_batches(world, ONE, "1", "2")
    produce(world, ("a", "3"))
    flush(world.open_session(ONE))
    assert read_pairs(world, ORDERS) == [("a", "3"), ("b", "2")]
    assert world.broker.groups[GROUP] == {"orders": {0: 2, 1: 3}}


def test_pipeline_without_a_clock_of_staging_flushes_what_waits_before_it_reads_on(world: World) -> None:
    one_clock = replace(ONE, stage=Stage())
    stage_batches(world, one_clock, "1")
    produce(world, ("a", "2"))
    assert [batch.is_resumed for batch in plan(world.open_session(one_clock)).tables] == [True]
    assert [batch.is_resumed for batch in plan(world.open_session(ONE)).tables] == [True, False]


@pytest.mark.parametrize("table_count", [1, 2])
def test_full_queue_stops_staging_and_calls_the_merge(world: World, table_count: int) -> None:
    tables = [build_table(name, max_pending=2) for name in (ORDERS, COPY)[:table_count]]
    pipeline = build_pipeline(*tables, stage=TEN_SECONDS)
    produce(world, ("a", "1"))
    assert not stage_new_batches(world.open_session(pipeline)).calls_merge
    produce(world, ("a", "2"))
    assert stage_new_batches(world.open_session(pipeline)).calls_merge
    produce(world, ("a", "3"))
    with pytest.raises(NothingToDo, match=f"table={ORDERS}: its queue is full: waiting=2 max_pending=2"):
        stage_new_batches(world.open_session(pipeline))
    merge_staged_batches(world.open_session(pipeline))
    assert {batch.batch for batch in stage_new_batches(world.open_session(pipeline)).batches} == {3}


def test_threshold_counts_the_staged_rows_of_one_table(world: World) -> None:
    some = build_table(COPY, when="id = 'a'")
    pipeline = build_pipeline(build_table(ORDERS), some, stage=TEN_SECONDS)
    world.engine.conditions["id = 'a'"] = lambda row: row["id"] == "a"
    pipeline = replace(pipeline, merge=Merge(interval_seconds=-1, records_threshold=5))
    produce(world, ("a", "1"), ("b", "1"))
    assert not stage_new_batches(world.open_session(pipeline)).calls_merge
    with pytest.raises(TooFewRecords, match="staged=2 records_threshold=5: fewer than start a merge"):
        merge_staged_batches(world.open_session(pipeline), at_least=5)
    produce(world, ("b", "2"), ("c", "3"))
    assert not stage_new_batches(world.open_session(pipeline)).calls_merge, "4 rows wait for one table, and 5 for both"
    produce(world, ("a", "4"))
    assert stage_new_batches(world.open_session(pipeline)).calls_merge
    merge_staged_batches(world.open_session(pipeline), at_least=5)
    assert (read_pairs(world, ORDERS), read_pairs(world, COPY)) == (
        [("a", "4"), ("b", "2"), ("c", "3")],
        [("a", "4")],
    )


def test_position_follows_batches_without_rows_where_only_a_number_of_rows_starts_a_merge(world: World) -> None:
    """No number of rows is ever reached where a condition leaves all records out."""
    some = build_table(COPY, when="id = 'a'")
    world.engine.conditions["id = 'a'"] = lambda row: row["id"] == "a"
    pipeline = build_pipeline(some, stage=TEN_SECONDS, heartbeat=Heartbeat(interval_seconds=600))
    pipeline = replace(pipeline, merge=Merge(interval_seconds=-1, records_threshold=5))
    produce(world, ("a", "1"))
    stage_new_batches(world.open_session(pipeline))
    merge_staged_batches(world.open_session(pipeline))
    for round_number in (1, 2):
        produce(world, ("b", "1"), ("c", "1"))
        stage_new_batches(world.open_session(pipeline))
        with pytest.raises(NothingToDo):
            merge_staged_batches(world.open_session(pipeline), at_least=5)
        world.clock.tick(600_000)
        merge_staged_batches(world.open_session(pipeline), at_least=5)
        state = world.destination.read_state(COPY, "shop")
        assert state is not None
        assert state.position is not None
        assert state.position.offsets == {"orders": {0: round_number, 1: 1 + round_number}}
    produce(world, ("a", "2"))
    stage_new_batches(world.open_session(pipeline))
    world.clock.tick(600_000)
    with pytest.raises(TooFewRecords):
        merge_staged_batches(world.open_session(pipeline), at_least=5)
    assert read_pairs(world, COPY) == [("a", "1")]


def test_threshold_counts_the_rows_of_a_table_that_records_name_for_the_first_time(world: World) -> None:
    pipeline = replace(build_template(), stage=TEN_SECONDS, merge=Merge(interval_seconds=-1, records_threshold=2))
    for key, kind in (("a", "order"), ("b", "line")):
        world.broker.produce("orders", {"id": key}, {"id": key, "type": kind}, 0)
    assert not stage_new_batches(world.open_session(pipeline)).calls_merge
    for key in ("c", "d"):
        world.broker.produce("orders", {"id": key}, {"id": key, "type": "return"}, 1)
    assert stage_new_batches(world.open_session(pipeline)).calls_merge


def test_full_queue_is_merged_however_few_rows_it_has(world: World) -> None:
    pipeline = build_pipeline(build_table(ORDERS, max_pending=1), stage=TEN_SECONDS)
    stage_batches(world, pipeline, "1")
    merge_staged_batches(world.open_session(pipeline), at_least=1000)
    assert read_pairs(world, ORDERS) == [("a", "1"), ("b", "1")]


def test_staging_goes_on_while_the_merge_of_a_table_fails(world: World) -> None:
    stage_batches(world, TWO, "1")
    broken = world.open_session(TWO, engine=FailsToMerge(world.engine, COPY))
    with pytest.raises(TidegateError, match="Spark failed in merge"):
        merge_staged_batches(broken)
    assert stage_batches(world, TWO, "2", "3") == [(t, n) for n in (2, 3) for t in (ORDERS, COPY)]
    merge_staged_batches(world.open_session(TWO))
    assert read_pairs(world, ORDERS) == read_pairs(world, COPY) == [("a", "3"), ("b", "3")]
    assert world.broker.groups[GROUP] == {"orders": {0: 3, 1: 3}}


def test_bad_record_stops_staging_alone_and_what_is_staged_is_merged(world: World) -> None:
    stage_batches(world, ONE, "1")
    world.broker.produce("orders", {"id": "a"}, BAD, 0)
    with pytest.raises(TidegateError, match="1 record cannot be decoded"):
        stage_new_batches(world.open_session(ONE))
    merge_staged_batches(world.open_session(ONE))
    assert read_pairs(world, ORDERS) == [("a", "1"), ("b", "1")]


def test_table_that_staging_refuses_keeps_no_other_back_and_is_told(world: World) -> None:
    world.broker.create("late", 1)
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY, topics=("late",)), stage=TEN_SECONDS)
    world.broker.produce("late", {"id": "z"}, {"id": "z", "name": "1"})
    stage_batches(world, pipeline, "1")
    merge_staged_batches(world.open_session(pipeline))
    world.broker.create("late", 1)
    produce(world, ("a", "2"))
    result = stage_new_batches(world.open_session(pipeline))
    assert [(batch.table, batch.batch) for batch in result.batches] == [(ORDERS, 2)]
    assert isinstance(result.failure, SomeTablesFailed)
    assert f"table={COPY}" in str(result.failure)


def test_latest_start_is_the_end_that_staging_saw_first(world: World) -> None:
    pipeline = build_pipeline(build_table(ORDERS), stage=TEN_SECONDS, source={"start": Start(StartKind.LATEST)})
    produce(world, ("a", "before"))
    with pytest.raises(NothingToDo):
        stage_new_batches(world.open_session(pipeline))
    produce(world, ("b", "behind"))
    stage_new_batches(world.open_session(pipeline))
    merge_staged_batches(world.open_session(pipeline))
    assert read_pairs(world, ORDERS) == [("b", "behind")]


def test_clean_up_of_a_merge_leaves_what_was_staged_while_it_ran(world: World) -> None:
    stage_batches(world, ONE, "1", "2")

    def stage_before(call: str, moment: str) -> None:
        if (call, moment) == ("staging.clean_up", "before"):
            stage_batches(world, ONE, "3")

    merge_staged_batches(world.open_session(ONE, stage_before))
    assert read_pairs(world, ORDERS) == [("a", "2"), ("b", "2")]
    merge_staged_batches(world.open_session(ONE))
    assert read_pairs(world, ORDERS) == [("a", "3"), ("b", "3")]
    staged = world.destination.tables[f"{ORDERS}_shop_tmp"]
    assert (staged.read_rows(), len(staged.snapshots)) == ([], 1)


def test_long_queue_is_read_once_by_a_merge(world: World) -> None:
    stage_batches(world, TWO, *map(str, range(8)))
    calls = list[str]()

    def count(call: str, moment: str) -> None:
        if moment == "before":
            calls.append(call)

    merge_staged_batches(world.open_session(TWO, count))
    before_merges = calls[: calls.index("engine.run")]
    assert before_merges.count("staging.list_staged") <= 4, "two tables, once by the plan and once behind it"


@pytest.fixture
def command(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs `tidegate stage` or `merge` over the world; its exit code, what it printed, and what it complained of."""

    def run(name: str, pipeline: Pipeline, **options):
        assemble = "tidegate.cli.session.assemble_checked_pipeline"
        monkeypatch.setattr(assemble, lambda *_: world.open_session(pipeline, **options))
        code = main([name, "shop", "--json"])
        output = capsys.readouterr()
        return code, [json.loads(line) for line in output.out.splitlines()], output.err

    return run


def test_commands_do_one_half_each_and_print_a_line_for_each_batch(world: World, command) -> None:
    produce(world, ("a", "1"))
    code, staged, _ = command("stage", TWO)
    assert (code, [(line["table"], line["batch"], line["counts"]["staged"]) for line in staged]) == (
        0,
        [(ORDERS, 1, 1), (COPY, 1, 1)],
    )
    code, published, _ = command("merge", TWO)
    assert (code, [(line["table"], line["inserted"]) for line in published]) == (0, [(ORDERS, 1), (COPY, 1)])
    for name, reason in (("stage", "every table stands at the end of the log"), ("merge", "no staged batch waits")):
        code, lines, complaint = command(name, TWO)
        assert (code, complaint, len(lines)) == (0, "", 1)
        assert reason in lines[0]["nothing_to_do"]


def test_command_ends_with_1_behind_what_other_tables_did(world: World, command) -> None:
    produce(world, ("a", "1"))
    command("stage", TWO)
    code, published, complaint = command("merge", TWO, engine=FailsToMerge(world.engine, COPY))
    assert (code, [line["table"] for line in published]) == (1, [ORDERS])
    assert "Spark failed in merge: table=lake.shop.copy" in complaint


def test_merge_that_another_run_overtook_exits_with_3(world: World, command) -> None:
    produce(world, ("a", "1"))
    command("stage", ONE)
    others = list[str]()

    def publish_first(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "before") and not others:
            others.append(call)
            merge_staged_batches(world.open_session(ONE))
            stage_batches(world, ONE, "2")
            merge_staged_batches(world.open_session(ONE))

    code, published, complaint = command("merge", ONE, hook=publish_first)
    assert (code, published) == (3, [])
    assert "another run published first" in complaint
    assert read_pairs(world, ORDERS) == [("a", "2"), ("b", "2")]


def test_staged_to_and_merged_to_are_told_apart_with_lag_and_seconds_behind(world: World) -> None:
    produce(world, ("a", "0"), ("b", "0"))
    flush(world.open_session(ONE))
    stage_batches(world, ONE, "1")
    world.clock.tick(30_000)
    produce(world, ("a", "2"))
    world.clock.tick(5_000)
    status = read_status(world.open_session(ONE))
    (table,) = status["tables"]
    assert (table["position"], table["lag"], table["lag_seconds"]) == ({"orders": {0: 1, 1: 1}}, 3, 35.0)
    assert (table["staged_to"], table["staging"]) == ({"orders": {0: 2, 1: 2}}, {"lag": 1, "lag_seconds": 5.0})
    assert [(part["published"], part["lag"], part["staging"]["staged"]) for part in status["partitions"]] == [
        (1, 1, 2),
        (1, 2, 2),
    ]
    row = build_overview(read_pipeline_progress(world.open_session(ONE)))
    assert (row["lag"], row["lag_seconds"], row["staging"]) == (3, 35.0, {"lag": 1, "lag_seconds": 5.0})
    assert (row["tables"][0]["staging"], row["tables"][0]["open_batches"]) == (row["staging"], 1)
    one_clock = build_overview(read_pipeline_progress(world.open_session(replace(ONE, stage=Stage()))))
    assert (one_clock["staging"], one_clock["partitions"][0]["staging"]) == (None, None)


def test_staging_of_a_topic_that_is_not_there_is_behind_by_an_unknown_time(world: World) -> None:
    gone = build_pipeline(build_table("lake.shop.Gone", topics=("Gone",)), stage=TEN_SECONDS)
    (table,) = read_status(world.open_session(gone))["tables"]
    assert (table["lag_known"], table["staging"]) == (False, {"lag": 0, "lag_seconds": None})
    row = build_overview(read_pipeline_progress(world.open_session(gone)))
    assert (row["lag_known"], row["staging"]) == (False, {"lag": 0, "lag_seconds": None})


def test_queue_that_no_merge_takes_is_told_before_it_is_full(world: World) -> None:
    pipeline = build_pipeline(build_table(ORDERS, max_pending=4), stage=TEN_SECONDS)
    stage_batches(world, pipeline, "1")
    assert read_status(world.open_session(pipeline))["warnings"] == []
    stage_batches(world, pipeline, "2")
    (warning,) = read_status(world.open_session(pipeline))["warnings"]
    assert warning.startswith(f"pipeline=shop table={ORDERS}: waiting=2 of max_pending=4 staged batches: staging stops")


@pytest.mark.parametrize(("open_batches", "health"), [(3, Health.CURRENT), (6, Health.CATCHING_UP), (12, Health.STUCK)])
def test_batches_that_wait_for_a_merge_are_no_trouble_until_they_are_many(open_batches: int, health: Health) -> None:
    table: Any = {"table": ORDERS, "problem": None, "needs_person": False}
    table |= {"open_batches": open_batches, "max_pending": 12}
    row: Any = {"lag": 5, "lag_seconds": 30.0, "published_ms": 1, "open_batches": open_batches, "tables": [table]}
    row["staging"] = {"lag": 0, "lag_seconds": 0.0}
    assert describe_pipeline_state(row, ScheduleState(), 60, 2_000_000)[0] == health


@pytest.mark.parametrize("name", ["x", "rare"])
def test_batches_without_rows_wait_for_no_merge_and_make_no_queue_full(world: World, name: str) -> None:
    """Of a table whose condition seldom holds; one row, and all behind it waits."""
    world.engine.conditions["name = 'rare'"] = lambda fields: fields.get("name") == "rare"
    rare = build_table("lake.shop.Rare", when="name = 'rare'", max_pending=3)
    pipeline = build_pipeline(build_table(ORDERS), rare, stage=TEN_SECONDS)
    stage_batches(world, pipeline, name, "x", "x")
    row = build_overview(read_pipeline_progress(world.open_session(pipeline)))
    health, _ = describe_pipeline_state(row, ScheduleState(), 60, world.clock())
    found = [(table["open_batches"], table["lag"]) for table in row["tables"]]
    assert (found, health) == {
        "x": ([(3, 6), (0, 0)], Health.CURRENT),
        "rare": ([(3, 6), (3, 6)], Health.STUCK),
    }[name]


def test_merge_without_an_interval_is_tried_again_though_staging_calls_no_more_and_heartbeats_are_off(
    world: World,
) -> None:
    """The merge that was called for has failed, or the process was killed, and by now the queue is full."""
    merge = Merge(interval_seconds=-1, records_threshold=3)
    pipeline = build_pipeline(build_table(ORDERS, max_pending=2), stage=TEN_SECONDS, heartbeat=Heartbeat(0))
    pipeline = replace(pipeline, merge=merge)
    stage_batches(world, pipeline, "1", "2")
    produce(world, ("c", "3"))
    with pytest.raises(NothingToDo, match="its queue is full"):
        stage_new_batches(world.open_session(pipeline))
    schedule = build_flush_schedule(pipeline)
    assert schedule.find_due(100.0, 200.0) == 700.0
    assert build_clock([pipeline]).seconds == 600
    merge_staged_batches(world.open_session(pipeline), at_least=schedule.at_least)
    assert read_pairs(world, ORDERS) == [("a", "2"), ("b", "2")]


def test_heartbeat_between_merges_keeps_the_offsets_alive_and_moves_none(world: World) -> None:
    """A pipeline that merges daily beats at `heartbeat.interval`, beside its staging."""
    produce(world, ("a", "0"), ("b", "0"))
    flush(world.open_session(ONE))
    stage_batches(world, ONE, "1", "2")
    world.clock.tick(600_000)
    beat = heartbeat(require_begun(world.open_session(ONE)))
    assert (beat.due, beat.committed) == (True, {"orders": {0: 1, 1: 1}})
    assert read_pairs(world, ORDERS) == [("a", "0"), ("b", "0")]
    merge_staged_batches(world.open_session(ONE))
    assert world.broker.groups[GROUP] == {"orders": {0: 3, 1: 3}}


APART = (build_table(ORDERS, topics=("orders",)), build_table(COPY, topics=("Later.Topic",)))


@pytest.mark.parametrize("is_staged", [False, True], ids=["refused", "without work beside another"])
def test_start_latest_is_where_staging_first_looked_whatever_another_table_does(world: World, is_staged: bool) -> None:
    """No merge runs for hours, and records that come meanwhile are staged."""
    start = {"topics": ("orders", "Later.Topic"), "start": Start(StartKind.LATEST)}
    if is_staged:
        produce(world, ("a", "0"), ("b", "0"))
        merging = replace(ONE, tables=APART[:1])
        flush(world.open_session(merging))
        world.broker.create("Later.Topic", 2)
    pipeline = build_pipeline(*APART, stage=TEN_SECONDS, source=start)
    added_topic = "Later.Topic" if is_staged else "orders"
    for name in ("old", "1", "2"):
        for key in ("a", "b"):
            world.broker.produce(added_topic, {"id": key + name}, {"id": key + name, "name": name}, ord(key) % 2)
        if is_staged:
            produce(world, ("a", name), ("b", name))
        with suppress(SomeTablesFailed):
            stage_new_batches(world.open_session(pipeline))
    with suppress(SomeTablesFailed):
        merge_staged_batches(world.open_session(pipeline))
    table = COPY if is_staged else ORDERS
    assert [row["id"] for row in world.read_rows(table)] == ["a1", "a2", "b1", "b2"]
