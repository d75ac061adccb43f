"""heartbeat: what it tells, how often, what a hook may change, and which dangers it sees coming."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, RetryLater, SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import HeartbeatResult, commit_offsets, heartbeat, require_begun
from tidegate.model.kafka_log import Retention
from tidegate.model.offsets import Offsets
from tidegate.monitoring.status import read_status
from tidegate.reprocess.rebase import propose_rebase
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Heartbeat, Pipeline
from tidegate.spec.source import Start, StartKind
from tidegate.spec.table import Route
from tidegate.table.log import list_row_topics

MINUTE = 60_000
GROUP = "tidegate-shop"
CONNECTOR = "__debezium-heartbeat.shop"


def build_beating_pipeline(*topics: str, **options: Any) -> Pipeline:
    topics = topics or ("orders",)
    return build_pipeline(
        build_table(topics=()),
        source={"topics": topics},
        heartbeat=Heartbeat(600, produce=True, topic="beats", **options),
    )


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"k{partition}"}, {"id": f"k{partition}", "name": "x"}, partition)
    return world


def beat(world: World, pipeline: Pipeline | None = None, **options: Any) -> HeartbeatResult:
    return heartbeat(world.open_session(pipeline or build_beating_pipeline(), **options))


def read_heartbeats(world: World) -> list[dict[str, Any]]:
    parts = world.broker.partitions.get("beats", [])
    return [record.value for part in parts for record in part.records]


def test_a_heartbeat_tells_position_and_valid_through_time_of_each_table(world: World) -> None:
    flush(world.open_session(build_beating_pipeline()))
    (record,) = read_heartbeats(world)
    assert (record["pipeline"], record["table"], record["batch"], record["lag"]) == ("shop", "lake.shop.orders", 1, 0)
    assert record["position"] == {"orders": {"0": 1, "1": 1}}
    assert record["valid_through_ms"] == min(p.records[0].timestamp for p in world.broker.partitions["orders"])


def test_a_heartbeat_record_never_runs_ahead_of_the_commit(world: World) -> None:
    class Watching:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def __getattr__(self, verb: str) -> Any:
            self.calls.append(verb)
            return getattr(world.broker, verb)

    flush(world.open_session(build_pipeline()))
    world.clock.tick(11 * MINUTE)
    broker = Watching()
    beat(world, broker=broker)
    assert broker.calls.index("commit") < broker.calls.index("send")


def test_heartbeats_are_sent_once_per_interval(world: World) -> None:
    flush(world.open_session(build_beating_pipeline()))
    for minutes, records in ((5, 1), (4, 1), (2, 2), (9, 2), (1, 3)):
        world.clock.tick(minutes * MINUTE)
        beat(world)
        assert len(read_heartbeats(world)) == records


def test_clock_that_was_set_back_keeps_no_heartbeat_back(world: World) -> None:
    flush(world.open_session(build_beating_pipeline()))
    world.clock.tick(1000 * MINUTE)
    beat(world)
    world.clock.tick(-900 * MINUTE)
    for minutes, records in ((1, 3), (9, 3), (1, 4)):
        world.clock.tick(minutes * MINUTE)
        beat(world)
        assert len(read_heartbeats(world)) == records


def test_the_interval_begins_anew_whether_or_not_something_could_be_sent(world: World) -> None:
    class Deaf:
        def __getattr__(self, verb: str) -> Any:
            return self._refuse if verb == "send" else getattr(world.broker, verb)

        def _refuse(self, topic: str, records: Any) -> None:
            raise RetryLater(f"topic={topic} does not answer")

    flush(world.open_session(build_pipeline()))
    world.clock.tick(11 * MINUTE)
    failed = beat(world, broker=Deaf())
    assert (failed.due, failed.sent) == (True, 0)
    assert any("topic=beats does not answer" in warning for warning in failed.warnings)
    world.clock.tick(9 * MINUTE)
    assert not beat(world).due
    world.clock.tick(2 * MINUTE)
    assert beat(world).sent == 1


def test_heartbeats_of_another_cluster_go_there_and_hold_the_sources_offsets(world: World) -> None:
    other = World()
    flush(world.open_session(build_pipeline()))
    world.clock.tick(11 * MINUTE)
    assert beat(world, open_heartbeat_broker=lambda: other.broker).sent == 1
    assert read_heartbeats(world) == []
    assert [record["position"] for record in read_heartbeats(other)] == [{"orders": {"0": 1, "1": 1}}]


def test_topic_of_another_cluster_may_have_the_name_of_one_that_makes_rows(world: World) -> None:
    other = World()
    beats = Heartbeat(600, produce=True, topic="orders", kafka="elsewhere")
    pipeline = build_pipeline(build_table(topics=()), source={"topics": ("orders",)}, heartbeat=beats)
    flush(world.open_session(pipeline, open_heartbeat_broker=lambda: other.broker))
    assert [row["id"] for row in world.read_rows("lake.shop.orders")] == ["k0", "k1"]
    (record,) = (record for part in other.broker.partitions["orders"] for record in part.records)
    assert record.value["position"] == {"orders": {"0": 1, "1": 1}}


def test_other_cluster_that_cannot_be_opened_is_a_warning_and_offsets_are_committed(world: World) -> None:
    def refuse() -> Any:
        raise ConfigurationError("connection=elsewhere: not found")

    flush(world.open_session(build_pipeline()))
    world.clock.tick(11 * MINUTE)
    result = beat(world, open_heartbeat_broker=refuse)
    assert (result.due, result.sent, result.committed) == (True, 0, {"orders": {0: 1, 1: 1}})
    assert any("connection=elsewhere: not found" in warning for warning in result.warnings)


def test_a_commit_of_a_flush_leaves_the_heartbeats_time_alone(world: World) -> None:
    flush(world.open_session(build_beating_pipeline()))
    world.clock.tick(5 * MINUTE)
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"})
    flush(world.open_session(build_beating_pipeline()))
    assert len(read_heartbeats(world)) == 1


def test_without_an_interval_nothing_is_sent_and_offsets_are_kept_all_the_same(world: World) -> None:
    pipeline = build_pipeline(heartbeat=Heartbeat(0, produce=True, topic="beats"))
    flush(world.open_session(pipeline))
    for _ in range(2):
        world.clock.tick(60 * MINUTE)
        assert not heartbeat(world.open_session(pipeline)).due
    assert read_heartbeats(world) == []
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 1}}


def test_run_without_work_commits_again_what_the_brokers_would_forget(world: World) -> None:
    flush(world.open_session(build_beating_pipeline()))
    world.broker.groups[GROUP].clear()
    with pytest.raises(NothingToDo):
        flush(world.open_session(build_beating_pipeline()))
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 1}}


@pytest.mark.parametrize("kind", ["earliest", "group", "latest"])
def test_a_topic_that_is_empty_everywhere_is_committed_and_read_from_there(kind: str) -> None:
    world = World()
    for topic in ("orders", "quiet"):
        world.broker.create(topic, 2)
    pipeline = build_pipeline(
        build_table(topics=("orders",)),
        build_table("lake.shop.quiet", topics=("quiet",)),
        source={"start": Start(kind)},
    )
    world.broker.partitions["quiet"][1].begin = world.broker.partitions["quiet"][1].end = 7  # retention took them all
    with pytest.raises(NothingToDo):
        flush(world.open_session(pipeline))
    assert world.broker.groups[GROUP] == {"orders": {0: 0, 1: 0}, "quiet": {0: 0, 1: 7}}
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    flush(world.open_session(pipeline))
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 0}, "quiet": {0: 0, 1: 7}}
    world.broker.produce("quiet", {"id": "q"}, {"id": "q", "name": "x"}, 1)
    flush(world.open_session(pipeline))
    assert world.read_rows("lake.shop.quiet") == [{"id": "q", "name": "x"}]
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 0}, "quiet": {0: 0, 1: 8}}


@pytest.mark.guard(
    "start: latest is kept alive until its table has begun",
    file="plugins/tidegate/flush/heartbeat.py",
    text="        return {topic: start[topic] for topic in unread_topics if topic in start}\n",
    off="        return {} if own_offsets else start\n",
    case="latest",
)
@pytest.mark.guard(
    "start: group is kept alive until its table has begun",
    file="plugins/tidegate/flush/heartbeat.py",
    text="    asked_topics = unread_topics if kind == StartKind.GROUP else empty\n",
    off="    asked_topics = empty\n",
    case="group",
)
@pytest.mark.parametrize("kind", ["group", "latest"])
def test_start_of_a_table_that_has_not_begun_is_committed_again_beside_one_that_has(kind: str) -> None:
    """The brokers forget offsets that nobody commits: the table would begin elsewhere."""
    world = World()
    for topic in ("orders", "quiet"):
        world.broker.create(topic, 2)
        world.broker.produce(topic, {"id": "before"}, {"id": "before", "name": "x"}, 1)
    offsets = {"orders": {0: 0, 1: 1}, "quiet": {0: 0, 1: 1}}
    if kind == "group":
        world.broker.commit(GROUP, offsets)
    tables = (build_table(topics=("orders",)), build_table("lake.shop.quiet", topics=("quiet",)))
    pipeline = build_pipeline(*tables, source={"start": Start(kind)})
    with pytest.raises(NothingToDo):
        flush(world.open_session(pipeline))
    assert heartbeat(world.open_session(pipeline)).committed == offsets
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 0)
    flush(world.open_session(pipeline))
    assert heartbeat(world.open_session(pipeline)).committed == {"orders": {0: 1, 1: 1}, "quiet": {0: 0, 1: 1}}
    world.broker.produce("quiet", {"id": "q"}, {"id": "q", "name": "x"}, 1)
    flush(world.open_session(pipeline))
    assert world.read_rows("lake.shop.quiet") == [{"id": "q", "name": "x"}]


def test_what_is_committed_for_an_empty_topic_stays_so_that_a_start_at_the_group_sees_what_is_lost() -> None:
    world = World()
    world.broker.create("orders", 2)
    world.broker.partitions["orders"][1].begin = world.broker.partitions["orders"][1].end = 7
    world.broker.commit(GROUP, {"orders": {1: 3}})
    pipeline = build_pipeline(source={"start": Start("group")})
    for _ in range(2):
        with pytest.raises(GiveUp, match=r"offset=3 of topic=orders partition=1, .* so 4 offsets are gone"):
            flush(world.open_session(pipeline))
        heartbeat(world.open_session(pipeline))
        assert world.broker.groups[GROUP] == {"orders": {0: 0, 1: 3}}


@pytest.mark.parametrize("offset", [1, 99])
def test_what_is_committed_outside_of_the_log_stays_so_that_a_start_at_latest_sees_it(offset: int) -> None:
    """Moved into the log by the heartbeat of the refused run, it would let the next run skip what is between."""
    world = World()
    world.broker.create("orders", 2)
    for n in range(12):
        world.broker.produce("orders", {"id": f"k{n}"}, {"id": f"k{n}", "name": "x"}, partition=n % 2)
    world.broker.retain_from("orders", 5)
    world.broker.commit(GROUP, {"orders": {0: offset}})
    pipeline = build_pipeline(source={"start": Start("latest")})
    for _ in range(2):
        with pytest.raises(GiveUp, match=f"asks for offset={offset} of topic=orders partition=0"):
            flush(world.open_session(pipeline))
        heartbeat(world.open_session(pipeline))
        assert world.broker.groups[GROUP] == {"orders": {0: offset, 1: 0}}  # 1 came behind the group's first look
    accepting = build_pipeline(source={"start": Start("latest")}, on_incomplete_start="accept")
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"}, partition=1)
    flush(world.open_session(accepting))
    assert world.broker.groups[GROUP] == {"orders": {0: 6, 1: 7}}


@pytest.mark.guard(
    "the group gets no offsets of a topic that was deleted for a new one",
    file="plugins/tidegate/table/watermark.py",
    text="in known_ids if is_recreated(recorded, ids[topic])",
    off="in known_ids if not recorded",
    case="group",
)
@pytest.mark.parametrize("kind", ["earliest", "group", "latest"])
def test_old_offsets_are_not_committed_for_a_topic_that_was_created_again(kind: str) -> None:
    """The brokers forgot them with the old topic; a table that begins at them would leave out the new first records."""
    world = World()
    for topic in ("orders", "other"):
        world.broker.create(topic, 2)
        for n in range(6):
            world.broker.produce(topic, {"id": f"k{n}"}, {"id": f"k{n}", "name": "x"}, partition=n % 2)
    tables = (build_table(topics=("orders",)), build_table("lake.shop.other", topics=("other",)))
    pipeline = build_pipeline(*tables, source={"start": Start(kind)})
    world.broker.commit(GROUP, {topic: {0: 0, 1: 0} for topic in ("orders", "other")})
    flush(world.open_session(pipeline))
    world.broker.create("orders", 2)
    for n in range(10):
        world.broker.produce("orders", {"id": f"n{n}"}, {"id": f"n{n}", "name": "y"}, partition=n % 2)
    world.broker.produce("other", {"id": "k0"}, {"id": "k0", "name": "z"})
    begins = {"orders": {0: 0, 1: 0}, "other": {0: 4, 1: 3}}
    with pytest.raises(GiveUp, match="topic=orders was deleted and created again"):
        flush(world.open_session(pipeline))
    assert world.broker.groups[GROUP] == begins
    assert commit_offsets(world.open_session(pipeline)) == begins
    assert heartbeat(world.open_session(pipeline)).committed == begins
    del world.destination.tables["lake.shop.orders"]
    flush(world.open_session(pipeline))
    assert {row["id"] for row in world.read_rows("lake.shop.orders")} == {f"n{n}" for n in range(10)}


@pytest.mark.guard(
    "the group of another cluster is left alone",
    file="plugins/tidegate/table/watermark.py",
    text="if t not in recreated_topics and t not in foreign_topics}",
    off="if t not in recreated_topics}",
    case="group",
)
@pytest.mark.parametrize("kind", ["earliest", "group", "latest"])
def test_group_of_another_cluster_is_left_alone(kind: str) -> None:
    """Its offsets may have been translated by whoever copied the topics, for `rebase --to group`."""
    world = World()
    world.broker.create("orders", 2)
    world.broker.commit(GROUP, {"orders": {0: 0, 1: 0}})
    for n in range(6):
        world.broker.produce("orders", {"id": f"k{n}"}, {"id": f"k{n}", "name": "x"}, partition=n % 2)
    pipeline = build_pipeline(source={"start": Start(kind)})
    flush(world.open_session(pipeline))
    world.broker.cluster_id, world.broker.groups[GROUP] = "cluster-2", {"orders": {0: 1}}
    assert heartbeat(world.open_session(pipeline)).committed == {}
    with pytest.raises(NothingToDo, match="are of another cluster: cluster_id=cluster-2 recorded=cluster-1"):
        commit_offsets(world.open_session(pipeline))
    assert world.broker.groups[GROUP] == {"orders": {0: 1}}


def test_connectors_topics_of_another_cluster_are_not_committed_unless_a_table_is_of_it() -> None:
    """Somebody copies the topics, and switches the connection before the tables are rebased."""
    world = World()
    for topic in ("orders", "other", CONNECTOR):
        world.broker.create(topic, 2)
        for n in range(4):
            world.broker.produce(topic, {"id": f"k{n}"}, {"id": f"k{n}", "name": "x"}, partition=n % 2)
    tables = [build_table(topics=("orders",)), build_table("lake.shop.other", topics=("other",))]
    pipeline = build_pipeline(*tables, source={"topics": ("orders", "other", CONNECTOR)})
    flush(world.open_session(pipeline))
    world.broker.cluster_id = "cluster-2"
    world.broker.groups.clear()
    world.broker.produce(CONNECTOR, None, {})
    assert heartbeat(world.open_session(pipeline)).committed == {}
    assert not world.broker.groups.get(GROUP)
    session = world.open_session(pipeline)
    propose_rebase(session, "latest", "lake.shop.other").perform("ann")
    committed = {"other": {0: 2, 1: 2}, CONNECTOR: {0: 3, 1: 2}}
    assert heartbeat(world.open_session(pipeline)).committed == committed
    assert world.broker.groups[GROUP] == committed


def test_commit_without_a_position_says_why(world: World) -> None:
    with pytest.raises(NothingToDo, match="pipeline=shop: no table has a position yet"):
        commit_offsets(world.open_session(build_pipeline()))


def test_the_topic_of_heartbeats_is_never_read_as_rows(world: World) -> None:
    flush(world.open_session(build_beating_pipeline()))
    everything = build_beating_pipeline()
    pattern = build_pipeline(
        build_table(topics=()), source={"topics": (), "topic_pattern": ".*"}, heartbeat=everything.heartbeat
    )
    assert list_row_topics(world.open_session(pattern)) == ("orders",)


def test_a_connectors_heartbeat_proves_freshness_when_nothing_waits(world: World) -> None:
    pipeline = build_beating_pipeline("orders", CONNECTOR)
    world.broker.create(CONNECTOR)
    later = world.clock.tick(MINUTE)
    world.broker.produce(CONNECTOR, None, {}, timestamp=later)
    flush(world.open_session(pipeline))
    assert [record["valid_through_ms"] for record in read_heartbeats(world)] == [later]


def test_a_connectors_heartbeat_proves_nothing_while_records_wait(world: World) -> None:
    pipeline = build_beating_pipeline("orders", CONNECTOR)
    world.broker.create(CONNECTOR)
    flush(world.open_session(pipeline))
    own = read_heartbeats(world)[-1]["valid_through_ms"]
    world.broker.produce("orders", {"id": "waits"}, {"id": "waits", "name": "x"})
    world.broker.produce(CONNECTOR, None, {}, timestamp=world.clock.tick(11 * MINUTE))
    (table,) = beat(world, pipeline).tables
    assert (table.lag, table.valid_through_ms) == (1, own)


def test_a_partition_without_data_is_fresh_by_a_connectors_heartbeat_alone(world: World) -> None:
    world.broker.create("orders", 3)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    world.broker.create(CONNECTOR)
    pipeline = build_beating_pipeline("orders", CONNECTOR)
    flush(world.open_session(pipeline))
    assert read_heartbeats(world)[-1]["valid_through_ms"] is None
    record_time = world.clock.tick(11 * MINUTE)
    world.broker.produce(CONNECTOR, None, {}, timestamp=record_time)
    assert [table.valid_through_ms for table in beat(world, pipeline).tables] == [record_time]


def beat_with_hook(world: World, change: Any, *topics: str) -> Any:
    """A heartbeat whose hook applies `change` to its copy of the offsets."""

    def hook(pipeline: str, offsets: Offsets) -> Offsets:
        assert pipeline == "shop"
        change(offsets)
        return offsets

    return heartbeat(replace(world.open_session(build_beating_pipeline(*topics)), heartbeat_hook=hook))


def test_a_hook_may_add_and_raise_offsets_of_topics_that_carry_no_rows(world: World) -> None:
    world.broker.create("audit", 1)
    world.broker.produce("audit", "k", "v")
    flush(world.open_session(build_beating_pipeline()))
    assert beat_with_hook(world, lambda offsets: offsets.update(audit={0: 1})).committed["audit"] == {0: 1}
    assert world.broker.groups[GROUP]["audit"] == {0: 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda offsets: offsets["orders"].update({0: 0}), "offset=1 became 0"),
        (lambda offsets: offsets["orders"].pop(1), "offset=1 became None"),
        (lambda offsets: offsets.pop("orders"), "offset=1 became None"),
        (lambda offsets: offsets["orders"].update({0: 2}), "offset=2 lies beyond what is published, offset=1"),
        (
            lambda offsets: offsets["orders"].update({7: 0}),
            "partition=7 offset=0 lies beyond the log, which has no such",
        ),
        (lambda offsets: offsets.update(audit={0: 2}), "topic=audit partition=0 offset=2 lies beyond"),
        (lambda offsets: offsets.update(nowhere={0: 0}), "topic=nowhere partition=0 offset=0 lies beyond the log"),
        (lambda offsets: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_hook_that_goes_too_far_is_overruled_and_told(world: World, change: Any, reason: str) -> None:
    world.broker.create("audit", 1)
    world.broker.produce("audit", "k", "v")
    flush(world.open_session(build_beating_pipeline()))
    world.broker.produce("orders", {"id": "waits"}, {"id": "waits", "name": "x"})
    world.broker.groups[GROUP].clear()
    with pytest.raises(GiveUp, match=reason):
        beat_with_hook(world, change)
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 1}}


def test_a_hook_that_is_overruled_holds_up_neither_rows_nor_topics_without_rows(world: World) -> None:
    world.broker.create(CONNECTOR, 2)
    for partition in (0, 1, 1):
        world.broker.produce(CONNECTOR, None, {}, partition)
    flush(world.open_session(build_beating_pipeline()))
    world.broker.groups[GROUP].clear()
    with pytest.raises(GiveUp, match="offset=1 became None"):
        beat_with_hook(world, lambda offsets: offsets.pop("orders"), "orders", CONNECTOR)
    assert world.broker.groups[GROUP] == {"orders": {0: 1, 1: 1}, CONNECTOR: {0: 1, 1: 2}}


def test_what_a_file_probably_does_not_mean_is_warned_of(world: World) -> None:
    pipeline = replace(build_beating_pipeline(), warnings=("orders.yaml:1: source.key: no key.fields",))
    flush(world.open_session(pipeline))
    world.clock.tick(11 * MINUTE)
    assert beat(world, pipeline).warnings == pipeline.warnings
    assert read_status(world.open_session(pipeline))["warnings"] == list(pipeline.warnings)


def test_a_transaction_that_never_ends_is_warned_of(world: World) -> None:
    flush(world.open_session(build_beating_pipeline()))
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "x"})], ending="open")
    world.broker.produce("orders", {"id": "behind"}, {"id": "behind", "name": "x"})
    world.clock.tick(11 * MINUTE)
    assert beat(world).warnings == ()
    world.clock.tick(11 * MINUTE)
    (warning,) = beat(world).warnings
    assert "a transaction has been open at offset=1" in warning
    assert "records=2" in warning


@pytest.mark.parametrize(
    ("retention", "name"),
    [(Retention(records_ms=40 * MINUTE), "retention.ms"), (Retention(None, 40 * MINUTE), "delete.retention.ms")],
)
def test_records_that_wait_for_half_of_what_they_are_kept_are_warned_of(
    world: World, retention: Retention, name: str
) -> None:
    flush(world.open_session(build_beating_pipeline()))
    world.broker.retentions["orders"] = retention
    world.broker.produce("orders", {"id": "waits"}, {"id": "waits", "name": "x"})
    world.clock.tick(19 * MINUTE)
    assert beat(world).warnings == ()
    world.clock.tick(11 * MINUTE)
    (warning,) = beat(world).warnings
    assert f"more than half of {name}=2400000" in warning
    assert "topic=orders partition=0" in warning


@pytest.mark.parametrize("danger", ["a transaction has been open", "more than half of retention.ms"])
def test_danger_in_a_thousand_partitions_hides_no_other_warning_and_names_the_most_urgent(
    world: World, danger: str
) -> None:
    world.broker.create("orders", 1000)
    world.broker.produce("orders", {"id": "k"}, {"id": "k", "name": "x"})
    pipeline = replace(build_beating_pipeline(), warnings=("orders.yaml:1: source.key: no key.fields",))
    flush(world.open_session(pipeline))
    world.broker.retentions["orders"] = Retention(records_ms=40 * MINUTE)
    ending = "open" if "transaction" in danger else "commit"
    for partition in reversed(range(1000)):
        world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "x"})], partition, ending)
    world.clock.tick(30 * MINUTE)
    warnings = beat(world, pipeline).warnings
    partition_warnings = [warning for warning in warnings if danger in warning]
    assert [f"partition={999 - place}:" in warning for place, warning in enumerate(partition_warnings)] == [True] * 20
    assert warnings[0] == pipeline.warnings[0]
    assert sum("980 more warnings say the same of other partitions" in warning for warning in warnings) == 1
    assert len(warnings) == 22


def test_tombstones_that_compaction_may_leave_alone_are_warned_of_where_the_value_has_the_key(world: World) -> None:
    pipeline = build_beating_pipeline()
    (plain,) = pipeline.tables
    key, value = replace(plain.key, from_value=True), replace(plain.value, format="debezium-json")
    flush(world.open_session(pipeline))
    world.broker.compacting.add("orders")
    for table, count in ((plain, 0), (replace(plain, key=key), 0), (replace(plain, key=key, value=value), 1)):
        world.clock.tick(11 * MINUTE)
        warnings = beat(world, replace(pipeline, tables=(table,))).warnings
        assert len(warnings) == count, warnings
    assert "topic=orders: the topic is compacted and key.from is value" in warnings[0]


def test_heartbeat_of_no_run_settles_no_start_before_the_first_one() -> None:
    """Records that come between would not be left out any more: `start: latest` begins at the first flush."""
    world = World()
    world.broker.create("orders", 2)
    session = world.open_session(build_pipeline(source={"start": Start(StartKind.LATEST)}))
    with pytest.raises(NothingToDo, match="no run has committed an offset yet"):
        require_begun(session)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "before"})
    with suppress(NothingToDo):
        flush(session)
    assert require_begun(session) is session
    assert world.read_rows("lake.shop.orders") == []


def test_heartbeat_asks_for_the_offsets_of_the_group_once_however_many_tables_begin_at_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each question opens a consumer of its own, at every heartbeat for as long as one topic stays quiet."""
    world = World()
    topics = ("Orders", "quiet", "items", "people")
    for topic in topics:
        world.broker.create(topic, 2)
    tables = (build_table(f"lake.shop.{topic}", topics=(topic,)) for topic in topics)
    session = world.open_session(build_pipeline(*tables, source={"topics": topics, "start": Start("latest")}))
    with pytest.raises(NothingToDo):
        flush(session)
    for topic in ("Orders", "items"):
        world.broker.produce(topic, {"id": "a"}, {"id": "a", "name": "x"}, 1)
    flush(session)
    asked = list[tuple[str, ...]]()
    read = world.broker.read_committed

    def read_committed(group: str, topics: tuple[str, ...]) -> Offsets:
        asked.append(topics)
        return read(group, topics)

    monkeypatch.setattr(world.broker, "read_committed", read_committed)
    ends = {"Orders": {0: 0, 1: 1}, "quiet": {0: 0, 1: 0}, "items": {0: 0, 1: 1}, "people": {0: 0, 1: 0}}
    for _ in range(2):
        assert heartbeat(session).committed == ends
    assert len(asked) == 2, asked


def test_heartbeat_between_flushes_comes_also_while_a_topic_of_another_table_is_missing() -> None:
    world = World()
    world.broker.create("Orders", 2)
    world.broker.produce("Orders", {"id": "a"}, {"id": "a", "name": "1"}, 1)
    tables = (build_table("lake.shop.Orders", topics=("Orders",)), build_table("lake.shop.more", topics=("more",)))
    session = world.open_session(build_pipeline(*tables, source={"topics": ("Orders", "more")}))
    with pytest.raises(SomeTablesFailed):
        flush(session)
    assert heartbeat(require_begun(session)).committed == {"Orders": {0: 0, 1: 1}}


@pytest.mark.parametrize(
    ("word", "condition", "count"),
    [
        ("debezium-json", {"when": "Src = 'orders'"}, 1),
        ("debezium-json", {"route": Route("src", "orders")}, 1),
        ("debezium-json", {"when": "name = 'open'"}, 1),
        ("debezium-json", {"when": "topic = 'orders' AND id > 5"}, 0),
        ("debezium-json", {"when": "src = 'orders'", "delete": False}, 0),
        ("json", {"when": "src = 'orders'"}, 0),
    ],
)
def test_tombstones_that_compaction_may_leave_alone_are_warned_of_where_they_say_no_table(
    world: World, word: str, condition: dict[str, Any], count: int
) -> None:
    pipeline = build_beating_pipeline()
    (plain,) = pipeline.tables
    columns = (Column("id", "BIGINT"), Column("name", "STRING"))
    metadata = {"src": "value.source.table"} if word != "json" else {}
    shared = replace(plain, value=replace(plain.value, format=word, columns=columns), metadata=metadata, **condition)
    flush(world.open_session(pipeline))
    world.broker.compacting.add("orders")
    world.clock.tick(11 * MINUTE)
    warnings = beat(world, replace(pipeline, tables=(shared, replace(shared, name="lake.shop.other")))).warnings
    assert all("its tombstones do not say which table they are for" in warning for warning in warnings)
    assert len(warnings) == count
