"""plan: what is staged comes first, then exact ranges from the position; it never starts where it should not."""

from dataclasses import replace

import pytest
from fakes import CrashAt, FailsToMerge, World, build_pipeline, build_table
from tidegate.errors import NothingToDo, PositionLost, PublishedElsewhere, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model import resource_names
from tidegate.model.batch import PlannedBatch
from tidegate.model.offsets import Ranges
from tidegate.monitoring.status import read_status
from tidegate.spec.source import Start

PIPELINE = build_pipeline()


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    for n in range(6):
        world.broker.produce("orders", {"id": f"k{n}"}, {"id": f"k{n}", "name": "x"}, partition=n % 2)
    return world


def plan_batch(world: World, pipeline=PIPELINE) -> PlannedBatch:
    (table,) = plan(world.open_session(pipeline)).tables
    return table


def test_first_batch_reads_the_whole_log_as_number_one(world: World) -> None:
    whole = Ranges({"orders": {0: (0, 3), 1: (0, 3)}})
    assert plan_batch(world) == PlannedBatch("lake.shop.orders", 1, whole, last_per_key=True)


def test_plan_changes_nothing(world: World) -> None:
    def refuse_writes(call: str, moment: str) -> None:
        assert call.split(".")[1] in {
            "read_log",
            "read_state",
            "find_highest_batch",
            "list_signed_attempts",
            "list_staged",
            "list_tables",
            "list_topics",
        }

    plan(world.open_session(PIPELINE, refuse_writes))


def test_next_batch_starts_where_the_last_one_ended(world: World) -> None:
    flush(world.open_session(PIPELINE))
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"}, partition=1)
    assert plan_batch(world).ranges == Ranges({"orders": {0: (3, 3), 1: (3, 4)}})
    assert plan_batch(world).batch == 2


def test_nothing_to_do_is_said_instead_of_an_empty_batch(world: World) -> None:
    flush(world.open_session(PIPELINE))
    with pytest.raises(NothingToDo, match="pipeline=shop"):
        plan(world.open_session(PIPELINE))


def test_empty_topic_is_nothing_to_do(world: World) -> None:
    world.broker.create("orders", 2)
    with pytest.raises(NothingToDo):
        plan(world.open_session(PIPELINE))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"topics": (), "topic_pattern": "order"}, "source.topic_pattern=order matches no topic that the brokers show"),
        ({"topics": (), "topic_pattern": "__.*"}, "heartbeat.ignore_topics matches all of its topics"),
        ({"topics": ("__debezium-heartbeat.shop",)}, "heartbeat.ignore_topics matches all of its topics"),
    ],
)
def test_pipeline_without_a_topic_of_rows_says_so_instead_of_being_at_the_end(
    world: World, source: dict, reason: str
) -> None:
    world.broker.create("__debezium-heartbeat.shop", 2)
    pipeline = build_pipeline(build_table(topics=()), source=source)
    with pytest.raises(NothingToDo, match=f"pipeline=shop: {reason}"):
        plan(world.open_session(pipeline))
    (warning,) = read_status(world.open_session(pipeline))["warnings"]
    assert warning.startswith(f"pipeline=shop: {reason}")
    everything = build_pipeline(build_table(topics=()), source={"topics": (), "topic_pattern": ".*"})
    flush(world.open_session(everything))
    assert read_status(world.open_session(everything))["warnings"] == []


def test_batch_is_capped(world: World) -> None:
    assert plan_batch(world, build_pipeline(max_records=4)).ranges == Ranges({"orders": {0: (0, 2), 1: (0, 2)}})


def test_staged_batch_is_resumed_before_anything_new_is_read(world: World) -> None:
    session = world.open_session(PIPELINE)
    (staged,) = stage(session, plan(session))
    world.broker.produce("orders", {"id": "later"}, {"id": "later", "name": "x"})
    assert plan_batch(world) == PlannedBatch("lake.shop.orders", 1, staged.ranges, staged.attempt)
    assert plan_batch(world).is_resumed


def test_staged_batch_that_is_published_is_not_resumed(world: World) -> None:
    with pytest.raises(BaseException, match=r"before staging\.clean_up"):
        flush(world.open_session(PIPELINE, _crash_before("staging.clean_up")))
    world.broker.produce("orders", {"id": "later"}, {"id": "later", "name": "x"})
    assert (plan_batch(world).batch, plan_batch(world).is_resumed) == (2, False)


def _crash_before(call: str) -> CrashAt:
    class Named(CrashAt):
        def __call__(self, now: str, moment: str) -> None:
            self.calls += 1
            if (now, moment) == (call, "before"):
                self.number = self.calls
                self.calls -= 1
                super().__call__(now, moment)

    return Named(-1)


def test_job_that_wakes_up_after_another_took_its_number_for_other_ranges_changes_nothing(world: World) -> None:
    """A merge reads the snapshot and the attempt that were staged, not whatever stands under the number now."""
    session, table = world.open_session(PIPELINE), "lake.shop.orders"
    flush(session)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "early"}, 0)
    (slow,) = stage(session, plan(session))
    intermediate = world.destination.tables[f"{table}_shop_tmp"]
    name = resource_names.name_staged_property(slow.attempt)
    counts = intermediate.properties.pop(name)  # its job sleeps before it writes them
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "late"}, 0)
    second_plan = plan(session)
    assert [(batch.batch, batch.is_resumed, batch.ranges.span) for batch in second_plan.tables] == [(2, False, 2)]
    staged = stage(session, second_plan)
    overwritten = intermediate.snapshots[slow.snapshot_id]
    intermediate.properties[name] = counts
    world.destination.add_snapshot(f"{table}_shop_tmp", "main", overwritten.rows, overwritten.summary)
    merge(session, staged[0])
    assert {row["name"] for row in world.read_rows(table) if row["id"] == "a"} == {"late"}
    with pytest.raises(PublishedElsewhere):
        merge(session, slow)
    with pytest.raises(NothingToDo):
        flush(session)
    assert {row["name"] for row in world.read_rows(table) if row["id"] == "a"} == {"late"}


def test_batch_number_is_not_reused_after_a_rewind(world: World) -> None:
    flush(world.open_session(PIPELINE))
    first = world.destination.tables["lake.shop.orders"].refs["main"]
    world.broker.produce("orders", {"id": "later"}, {"id": "later", "name": "x"})
    flush(world.open_session(PIPELINE))
    world.destination.rollback("lake.shop.orders", first)
    rewinding = build_pipeline(on_rollback="rewind")
    batch = plan_batch(world, rewinding)
    assert (batch.batch, batch.ranges) == (3, Ranges({"orders": {0: (3, 4), 1: (3, 3)}}))


def test_rolled_back_table_is_not_planned_by_default(world: World) -> None:
    flush(world.open_session(PIPELINE))
    seeded = world.destination.tables["lake.shop.orders"].ancestors()[-1].id
    world.destination.rollback("lake.shop.orders", seeded)
    with pytest.raises(PositionLost, match="rolled back"):
        plan(world.open_session(PIPELINE))


def test_new_partition_fails_the_plan_unless_growth_is_accepted(world: World) -> None:
    flush(world.open_session(PIPELINE))
    world.broker.grow("orders", 3)
    world.broker.produce("orders", {"id": "g"}, {"id": "g", "name": "x"}, partition=2)
    with pytest.raises(PositionLost, match="new partition=2"):
        plan(world.open_session(PIPELINE))
    accepted = plan_batch(world, build_pipeline(on_partition_growth="accept"))
    assert accepted.ranges == Ranges({"orders": {0: (3, 3), 1: (3, 3), 2: (0, 1)}})


@pytest.mark.guard(
    "a table of upserts lacks no keys of a compacted topic",
    file="plugins/tidegate/table/start_offsets.py",
    text="        if compacted and not has_rows:\n",
    off="        if False:\n",
)
@pytest.mark.parametrize("start", [Start("latest"), Start("group"), Start("offsets", offsets={"orders": {0: 1}})])
def test_table_of_upserts_does_not_start_in_the_middle_of_a_compacted_topic(world: World, start: Start) -> None:
    world.broker.commit(PIPELINE.source.group, {"orders": {0: 2}})
    source = replace(PIPELINE.source, start=start)
    world.broker.compacting = {"orders"}
    with pytest.raises(PositionLost, match=r"leaves out \d offsets? of a compacted topic=orders partition=0"):
        plan(world.open_session(replace(PIPELINE, source=source)))
    world.broker.produce("orders", {"id": "g"}, {"id": "g", "name": "x"})
    accepted = plan_batch(world, replace(PIPELINE, source=source, on_incomplete_start="accept"))
    assert accepted.ranges.span
    world.broker.compacting = set()
    assert plan_batch(world, replace(PIPELINE, source=source)).ranges == accepted.ranges


@pytest.mark.parametrize("start", [Start("group"), Start("offsets", offsets={"orders": {0: 1, 1: 0}})])
def test_table_that_another_writer_has_filled_goes_on_in_the_middle_of_a_compacted_topic(
    world: World, start: Start
) -> None:
    """It lacks no keys; an empty one would, and so does one that is to begin at the log's end."""
    world.broker.commit(PIPELINE.source.group, {"orders": {0: 1, 1: 0}})
    world.broker.compacting = {"orders"}
    pipeline = replace(PIPELINE, source=replace(PIPELINE.source, start=start))
    world.destination.create("lake.shop.orders", PIPELINE.tables[0].value.columns or ())
    with pytest.raises(PositionLost, match="leaves out 1 offset of a compacted topic"):
        plan(world.open_session(pipeline))
    world.destination.append_foreign_rows("lake.shop.orders", {"id": "k0", "name": "x"})
    assert plan_batch(world, pipeline).ranges == Ranges({"orders": {0: (1, 3), 1: (0, 3)}})
    at_the_end = replace(PIPELINE, source=replace(PIPELINE.source, start=Start("latest")))
    world.broker.commit(PIPELINE.source.group, {"orders": {0: 1, 1: 2}})
    all_partitions = "leaves out 1 offset of a compacted topic=orders partition=0, 3 offsets of 2 partitions in all, "
    with pytest.raises(PositionLost, match=all_partitions):
        plan(world.open_session(at_the_end))


@pytest.mark.guard(
    "a first batch does not begin after the requested start",
    file="plugins/tidegate/table/start_offsets.py",
    text="        if begin is not None and offset < begin:\n",
    off="        if False:\n",
)
@pytest.mark.parametrize("mode", ["upsert_delete", "append"])
@pytest.mark.parametrize("start", [Start("latest"), Start("group"), Start("offsets", offsets={"orders": {0: 1, 1: 0}})])
def test_table_does_not_start_behind_records_that_were_asked_for_and_are_gone(
    world: World, start: Start, mode: str
) -> None:
    for partition in (0, 1):
        for _ in range(4):
            world.broker.produce("orders", {"id": "x"}, {"id": "x", "name": "x"}, partition)
    world.broker.commit(PIPELINE.source.group, {"orders": {0: 1, 1: 0}})
    world.broker.retain_from("orders", 5)
    table = build_table(mode=mode, keys=("id",) if mode != "append" else (), columns=PIPELINE.tables[0].value.columns)
    pipeline = replace(PIPELINE, source=replace(PIPELINE.source, start=start), tables=(table,))
    with pytest.raises(PositionLost, match=r"offset=1 of topic=orders partition=0, .* offset=5, so 4 offsets are gone"):
        plan(world.open_session(pipeline))
    world.broker.retain_from("orders", 2, 1)
    with pytest.raises(
        PositionLost, match=r"so 4 offsets are gone before being read, 6 offsets of 2 partitions in all"
    ):
        plan(world.open_session(pipeline))
    end = world.broker.read_log(("orders",), "read_committed").end["orders"]
    accepted = plan_batch(world, replace(pipeline, on_incomplete_start="accept"))
    assert accepted.ranges == Ranges({"orders": {0: (5, end[0]), 1: (2, end[1])}})
    world.broker.groups.clear()
    earliest = replace(pipeline, source=replace(pipeline.source, start=Start("earliest")))
    assert plan_batch(world, earliest).ranges == accepted.ranges


@pytest.mark.parametrize("mode", ["upsert_delete", "append"])
@pytest.mark.parametrize(
    "start", [Start("latest"), Start("group"), Start("offsets", offsets={"orders": {0: 99, 1: 0}})]
)
def test_table_does_not_start_behind_the_end_of_the_log_and_leave_out_what_is_there(
    world: World, start: Start, mode: str
) -> None:
    """The offset is one of another log: what this one has before it would never be read."""
    world.broker.commit(PIPELINE.source.group, {"orders": {0: 99, 1: 0}})
    table = build_table(mode=mode, keys=("id",) if mode != "append" else (), columns=PIPELINE.tables[0].value.columns)
    pipeline = replace(PIPELINE, source=replace(PIPELINE.source, start=start), tables=(table,))
    reason = (
        "offset=99 of topic=orders partition=0, and the log ends at offset=3.*on_incomplete_start: accept to begin "
        "where the log ends at the table's first batch"
    )
    with pytest.raises(PositionLost, match=reason):
        plan(world.open_session(pipeline))
    earliest = replace(pipeline, source=replace(pipeline.source, start=Start("earliest")))
    assert plan_batch(world, earliest).ranges == Ranges({"orders": {0: (0, 3), 1: (0, 3)}})
    accepted = plan_batch(world, replace(pipeline, on_incomplete_start="accept"))
    assert accepted.ranges == Ranges({"orders": {0: (3, 3), 1: (0, 3)}})


def test_table_does_not_start_at_a_partition_that_the_topic_has_not(world: World) -> None:
    pipeline = build_pipeline(**start("offsets", offsets={"orders": {1: 2, 2: 0}}))
    with pytest.raises(PositionLost, match=r"offset=0 of topic=orders partition=2, .* has no such partition; name"):
        plan(world.open_session(pipeline))
    assert plan_batch(world, replace(pipeline, on_incomplete_start="accept")).ranges.by_topic["orders"][1] == (2, 3)


@pytest.mark.parametrize("on_incomplete_start", ["fail", "accept"])
@pytest.mark.parametrize("start", [Start("group"), Start("offsets", offsets={"orders": {0: 4, 1: 0}})])
def test_table_waits_for_the_open_transaction_that_hides_its_start_and_repeats_no_record(
    world: World, start: Start, on_incomplete_start: str
) -> None:
    """The start is behind the last stable offset, and within the log: its reader read uncommitted records."""
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "x"})], ending="open")
    world.broker.commit(PIPELINE.source.group, {"orders": {0: 4, 1: 0}})
    pipeline = build_pipeline(source={"start": start}, on_incomplete_start=on_incomplete_start)
    reason = "offset=4 of topic=orders partition=0, and a transaction that began at offset=3 is still open"
    with pytest.raises(RetryLater, match=reason):
        plan(world.open_session(pipeline))
    assert reason in read_status(world.open_session(pipeline))["tables"][0]["problem"]
    end_transaction(world)
    assert plan_batch(world, pipeline).ranges == Ranges({"orders": {0: (4, 5), 1: (0, 3)}})


def end_transaction(world: World) -> None:
    """Commit the one whose record is the last of the first partition."""
    log = world.broker.partitions["orders"][0]
    log.records[-1] = replace(log.records[-1], kind="data")
    log.add(None, None, world.clock.tick(), "control")


def test_time_waits_for_an_open_transaction_once_there_is_a_record_that_is_late_enough(world: World) -> None:
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "x"})], ending="open")
    at = world.clock.tick()
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"}, partition=1)
    pipeline = build_pipeline(**start("timestamp", timestamp_ms=at))
    assert plan_batch(world, pipeline).ranges == Ranges({"orders": {0: (3, 3), 1: (3, 4)}})
    world.broker.produce("orders", {"id": "late"}, {"id": "late", "name": "x"})
    with pytest.raises(RetryLater, match="offset=4 of topic=orders partition=0, and a transaction that began at offs"):
        plan(world.open_session(pipeline))


def test_position_that_uncommitted_reads_have_reached_waits_for_the_transaction_before_it(world: World) -> None:
    """`source.isolation` was changed: the log is whole, and a move to its begin would bring all rows in again."""
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "x"})], ending="open")
    flush(world.open_session(build_pipeline(source={"isolation": "read_uncommitted"})))
    with pytest.raises(RetryLater, match="partition=0 position=4: a transaction that began at offset=3 is s"):
        plan(world.open_session(PIPELINE))
    end_transaction(world)
    world.broker.produce("orders", {"id": "u"}, {"id": "u", "name": "x"})
    assert plan_batch(world).ranges == Ranges({"orders": {0: (4, 6), 1: (3, 3)}})


def test_recreated_topic_fails_the_plan(world: World) -> None:
    flush(world.open_session(PIPELINE))
    world.broker.create("orders", 2)
    with pytest.raises(PositionLost, match="deleted and created again"):
        plan(world.open_session(PIPELINE))


def test_other_cluster_fails_the_plan(world: World) -> None:
    flush(world.open_session(PIPELINE))
    world.broker.cluster_id = "another"
    with pytest.raises(PositionLost, match="cluster_id=another recorded=cluster-1"):
        plan(world.open_session(PIPELINE))


def test_retention_that_overtook_us_fails_the_plan_with_the_number_of_lost_offsets(world: World) -> None:
    flush(world.open_session(PIPELINE))
    for _ in range(4):
        world.broker.produce("orders", {"id": "x"}, {"id": "x", "name": "x"})
    world.broker.retain_from("orders", 5)
    with pytest.raises(PositionLost, match="2 offsets are gone"):
        plan(world.open_session(PIPELINE))


def test_log_that_ends_before_the_position_fails_the_plan(world: World) -> None:
    flush(world.open_session(PIPELINE))
    world.broker.partitions["orders"][0].end = 2
    with pytest.raises(PositionLost, match="ends at offset=2"):
        plan(world.open_session(PIPELINE))


def test_missing_topic_is_named(world: World) -> None:
    with pytest.raises(PositionLost, match="topic=nowhere does not exist"):
        plan(world.open_session(build_pipeline(build_table(topics=("nowhere",)))))


def start(kind: str, **options) -> dict:
    return {"source": {"start": Start(kind, **options)}}


def test_start_latest_skips_what_is_there(world: World) -> None:
    with pytest.raises(NothingToDo):
        plan(world.open_session(build_pipeline(**start("latest"))))


def test_start_latest_is_the_end_that_the_first_flush_saw(world: World) -> None:
    pipeline = build_pipeline(**start("latest"))
    for _ in range(2):
        with pytest.raises(NothingToDo):
            flush(world.open_session(pipeline))
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"})
    assert plan_batch(world, pipeline).ranges == Ranges({"orders": {0: (3, 4), 1: (3, 3)}})


@pytest.mark.guard(
    "start: latest reads partitions that are added later from their begin",
    file="plugins/tidegate/table/start_offsets.py",
    text="    return merge_offsets(log.begin, known_offsets or log.end)\n",
    off="    return merge_offsets(log.end, known_offsets)\n",
)
@pytest.mark.parametrize("beats", [False, True])
def test_start_latest_reads_what_is_added_behind_the_first_look_from_its_begin(world: World, beats: bool) -> None:
    """A partition, and a topic of the pattern: their first records come before the next plan, or the next heartbeat."""
    own = {"topics": (), "topic_pattern": "orders.*", "start": Start("latest")}
    pipeline = build_pipeline(build_table(topics=()), source=own)
    with pytest.raises(NothingToDo):
        flush(world.open_session(pipeline))
    world.broker.grow("orders", 3)
    world.broker.create("orders_new", 2)
    for topic, partition in (("orders", 2), ("orders_new", 0)):
        world.broker.produce(topic, {"id": topic}, {"id": topic, "name": "x"}, partition)
    begin = {"orders": {0: 3, 1: 3, 2: 0}, "orders_new": {0: 0, 1: 0}}
    if beats:
        heartbeat(world.open_session(pipeline))
        assert world.broker.groups[pipeline.source.group] == begin
    world.broker.produce("orders", {"id": "old"}, {"id": "old", "name": "x"}, 0)
    ranges = plan_batch(world, pipeline).ranges
    assert (ranges.start, ranges.span) == (begin, 3)
    flush(world.open_session(pipeline))
    assert [row["id"] for row in world.read_rows("lake.shop.orders")] == ["old", "orders", "orders_new"]


def test_start_at_offsets_leaves_other_partitions_at_their_begin(world: World) -> None:
    batch = plan_batch(world, build_pipeline(**start("offsets", offsets={"orders": {1: 2}, "other": {0: 1}})))
    assert batch.ranges == Ranges({"orders": {0: (0, 3), 1: (2, 3)}})


@pytest.mark.parametrize(("offset", "begins"), [(0, 1), (99, 3)])
def test_start_outside_the_log_is_moved_into_it_where_that_is_accepted(world: World, offset: int, begins: int) -> None:
    world.broker.retain_from("orders", 1, partition=0)
    batch = plan_batch(
        world, build_pipeline(**start("offsets", offsets={"orders": {0: offset}}), on_incomplete_start="accept")
    )
    assert batch.ranges.by_topic["orders"][0] == (begins, 3)


def test_start_at_a_time_takes_the_first_record_at_or_after_it(world: World) -> None:
    at = world.broker.partitions["orders"][0].records[1].timestamp
    batch = plan_batch(world, build_pipeline(**start("timestamp", timestamp_ms=at)))
    assert batch.ranges == Ranges({"orders": {0: (1, 3), 1: (1, 3)}})


def test_start_at_the_group_reads_what_it_committed(world: World) -> None:
    world.broker.commit("tidegate-shop", {"orders": {0: 2}})
    assert plan_batch(world, build_pipeline(**start("group"))).ranges == Ranges({"orders": {0: (2, 3), 1: (0, 3)}})


def test_group_offsets_are_not_read_once_a_position_exists(world: World) -> None:
    pipeline = build_pipeline(**start("group"))
    flush(world.open_session(pipeline))
    world.broker.commit("tidegate-shop", {"orders": {0: 0, 1: 0}})
    with pytest.raises(NothingToDo):
        plan(world.open_session(pipeline))


def test_new_partitions_start_at_the_log_start_whatever_start_says(world: World) -> None:
    pipeline = replace(build_pipeline(build_table(mode="append"), **start("offsets", offsets={"orders": {0: 1}})))
    flush(world.open_session(pipeline))
    world.broker.grow("orders", 3)
    world.broker.produce("orders", {"id": "g"}, {"id": "g", "name": "x"}, partition=2)
    assert plan_batch(world, pipeline).ranges.by_topic["orders"][2] == (0, 1)


def test_open_transaction_is_not_read_past(world: World) -> None:
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "x"})], ending="open")
    world.broker.produce("orders", {"id": "behind"}, {"id": "behind", "name": "x"})
    assert plan_batch(world).ranges.by_topic["orders"][0] == (0, 3)
    uncommitted = build_pipeline(source={"isolation": "read_uncommitted"})
    assert plan_batch(world, uncommitted).ranges.by_topic["orders"][0] == (0, 5)


def test_ignored_topics_are_not_read_for_rows(world: World) -> None:
    world.broker.create("__debezium-heartbeat.shop")
    world.broker.produce("__debezium-heartbeat.shop", None, {"ts": 1})
    table = build_table(topics=())
    pipeline = build_pipeline(table, source={"topics": ("orders", "__debezium-heartbeat.shop")})
    assert set(plan_batch(world, pipeline).ranges.by_topic) == {"orders"}


def test_topics_of_a_pattern_are_found_when_planning(world: World) -> None:
    world.broker.create("orders_eu")
    pipeline = build_pipeline(build_table(topics=()), source={"topics": (), "topic_pattern": "orders.*"})
    assert set(plan_batch(world, pipeline).ranges.by_topic) == {"orders", "orders_eu"}


def test_tables_get_the_ranges_of_their_own_topics_and_one_batch_number(world: World) -> None:
    world.broker.create("lines")
    world.broker.produce("lines", {"id": "l"}, {"id": "l", "name": "x"})
    pipeline = build_pipeline(build_table(), build_table("lake.shop.lines", topics=("lines",)))
    flush_plan = plan(world.open_session(pipeline))
    assert [(t.batch, set(t.ranges.by_topic)) for t in flush_plan.tables] == [(1, {"orders"}), (1, {"lines"})]


def test_table_that_failed_is_resumed_while_the_other_goes_on(world: World) -> None:
    pipeline = build_pipeline(build_table(), build_table("lake.shop.copy"))
    with pytest.raises(Exception, match="1 table failed"):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, "lake.shop.copy")))
    world.broker.produce("orders", {"id": "n"}, {"id": "n", "name": "x"})
    orders, copy, next_copy = plan(world.open_session(pipeline)).tables
    assert (orders.batch, orders.is_resumed) == (2, False)
    assert (copy.batch, copy.is_resumed) == (1, True)
    assert (next_copy.batch, next_copy.is_resumed, next_copy.ranges) == (2, False, orders.ranges)


@pytest.mark.guard(
    "a plan reads the log after the positions",
    file="plugins/tidegate/flush/plan.py",
    text="    kafka_log, missing = read_known_log(session)\n",
    off=("    kafka_log, missing = read_known_log(session)\n    observed_tables = observe_tables(session)\n"),
)
def test_batch_that_another_run_publishes_during_the_plan_is_not_taken_for_a_log_cut_short(world: World) -> None:
    """The log is read after the positions: else the newer position would lie beyond the older end."""
    flush(world.open_session(PIPELINE))

    def other_run(call: str, moment: str) -> None:
        if (call, moment) == ("tables.read_state", "before"):
            world.broker.produce("orders", {"id": "n"}, {"id": "n", "name": "x"})
            flush(world.open_session(PIPELINE))

    with pytest.raises(NothingToDo):
        plan(world.open_session(PIPELINE, other_run))


def test_resumed_batch_that_vanished_is_planned_anew_by_the_next_run(world: World) -> None:
    session = world.open_session(PIPELINE)
    stage(session, plan(session))
    resuming = plan(session)
    del world.destination.tables["lake.shop.orders_shop_tmp"]
    with pytest.raises(RetryLater, match="the next flush plans again"):
        stage(session, resuming)
    assert not plan_batch(world).is_resumed


def test_what_a_capped_batch_leaves_behind_is_counted(world: World) -> None:
    assert plan(world.open_session(PIPELINE)).offsets_left == 0
    assert plan(world.open_session(build_pipeline(max_records=4))).offsets_left == 2


def test_a_resumed_batch_counts_what_came_after_it(world: World) -> None:
    stage(world.open_session(PIPELINE), plan(world.open_session(PIPELINE)))
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"})
    flush_plan = plan(world.open_session(PIPELINE))
    assert ([batch.is_resumed for batch in flush_plan.tables], flush_plan.offsets_left) == ([True], 1)


def test_fewer_records_than_asked_for_are_nothing_to_do(world: World) -> None:
    with pytest.raises(NothingToDo, match="waiting=6 records_threshold=7"):
        plan(world.open_session(PIPELINE), at_least=7)
    assert plan(world.open_session(PIPELINE), at_least=6).tables
    assert plan(world.open_session(build_pipeline(max_records=2)), at_least=6).tables


def test_a_staged_batch_is_finished_however_few_wait(world: World) -> None:
    stage(world.open_session(PIPELINE), plan(world.open_session(PIPELINE)))
    assert plan(world.open_session(PIPELINE), at_least=1000).tables[0].is_resumed
