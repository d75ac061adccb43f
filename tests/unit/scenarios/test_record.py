"""A person looks at one record: it is read where it lies, judged by the job that stages, and nothing is left behind."""

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.errors import BadRecord, ConfigurationError, GiveUp, NothingToDo, RetryLater
from tidegate.flush.flush import flush
from tidegate.reprocess.record import (
    RecordAddress,
    explain_record,
    outline_records,
    parse_address,
    parse_neighbourhood,
    read_record,
    read_records_around,
)
from tidegate.reprocess.request import propose_action

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
PIPELINE = build_pipeline(build_table(ORDERS), build_table(COPY), build_table("lake.shop.other", topics=("others",)))


@pytest.fixture
def world() -> World:
    """Two partitions; the second record of the second one cannot be read."""
    world = World()
    world.broker.create("orders", 2)
    world.broker.create("others")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "1"}, 0)
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "2"}, 1)
    world.broker.produce("orders", {"id": "c"}, BAD, 1)
    return world


def list_tables(world: World) -> list[str]:
    return sorted(world.destination.tables)


def test_flush_names_the_command_that_shows_the_bad_record(world: World) -> None:
    with pytest.raises(BadRecord, match="look at it with: tidegate record shop --at orders:1:1;"):
        flush(world.open_session(build_pipeline(build_table(ORDERS))))


def test_record_is_shown_with_its_bytes_and_judged_for_each_table_that_its_topic_feeds(world: World) -> None:
    session, at = world.open_session(PIPELINE), parse_address("orders:1:1")
    record = read_record(session, at)
    assert (record.key, record.value, record.offset) == (b'{"id": "c"}', BAD.encode(), 1)
    verdicts = explain_record(session, at)
    assert [(verdict.table, verdict.is_bad, verdict.stage, verdict.reason) for verdict in verdicts] == [
        (ORDERS, True, "value", "not readable"),
        (COPY, True, "value", "not readable"),
    ]
    (good,) = explain_record(session, parse_address("orders:1:0"), COPY)
    assert (good.table, good.is_bad, good.fate, good.row) == (COPY, False, "staged", '{"id": "b", "name": "2"}')
    assert [(f.name, f.found, f.accepted) for f in good.fields] == [("id", "b", True), ("name", "2", True)]
    assert list_tables(world) == []


def test_a_look_at_a_record_leaves_what_is_staged_and_published(world: World) -> None:
    pipeline = build_pipeline(build_table(ORDERS))
    world.broker.produce("orders", {"id": "d"}, {"id": "d", "name": "4"}, 0)
    with pytest.raises(BadRecord):
        flush(world.open_session(pipeline))
    before = {name: (table.refs, table.properties) for name, table in world.destination.tables.items()}
    explain_record(world.open_session(pipeline), parse_address("orders:1:1"))
    assert {name: (table.refs, table.properties) for name, table in world.destination.tables.items()} == before


def test_neighbours_of_a_place_are_twenty_at_most_and_those_of_an_end_lie_before_it(world: World) -> None:
    session = world.open_session(PIPELINE)
    for number in range(40):
        world.broker.produce("orders", {"id": f"r{number}"}, {"id": f"r{number}", "name": "x"}, 0)
    for text, offsets in (
        ("orders:0", range(21, 41)),
        ("orders:0:40", range(21, 41)),
        ("orders:0:25", range(15, 35)),
        ("orders:0:0", range(20)),
        ("orders:0:999", range(21, 41)),
        ("orders:1", range(2)),
        ("others:0", range(0)),
    ):
        shown, records = read_records_around(session, parse_neighbourhood(text))
        assert [record.offset for record in records] == list(offsets), text
        assert shown == offsets
    with pytest.raises(ConfigurationError, match=r"partition=7: the topic has no such partition; it has \[0, 1\]"):
        read_records_around(session, parse_neighbourhood("orders:7"))
    with pytest.raises(ConfigurationError, match="write topic:partition:offset"):
        parse_neighbourhood("orders")


def test_what_becomes_of_records_is_said_for_each_place_and_table_and_without_their_content_to_airflow(
    world: World,
) -> None:
    """The bad record's topic feeds two tables; what lies between the places that are named is left out."""
    session = world.open_session(PIPELINE)
    world.broker.produce("orders", {"id": "b"}, None, 1)
    world.broker.produce("orders", {"id": "d"}, {"id": "d", "name": "secret"}, 1)
    places = [RecordAddress("orders", 0, 0), RecordAddress("orders", 1, 1), RecordAddress("orders", 1, 2)]
    verdicts = outline_records(session, places)
    assert {at: [(v.table, v.becomes) for v in found] for at, found in verdicts.items()} == {
        places[0]: [(ORDERS, "row"), (COPY, "row")],
        places[1]: [(ORDERS, "bad"), (COPY, "bad")],
        places[2]: [(ORDERS, "delete"), (COPY, "delete")],
    }
    assert verdicts[places[0]][0].row == '{"id": "a", "name": "1"}'
    with pytest.raises(NothingToDo) as told:
        propose_action(session, {"action": "look", "around": "orders:1", "table": COPY})
    assert str(told.value).split("\n") == [
        f"orders:1:0 {COPY} row",
        f"orders:1:1 {COPY} bad: not readable",
        f"orders:1:2 {COPY} delete",
        f"orders:1:3 {COPY} row",
    ]
    assert list_tables(world) == []


def test_records_at_both_ends_of_a_partition_are_read_without_what_lies_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.reprocess.record.MAX_SPAN", 5)
    for number in range(20):
        for partition in (0, 1):
            world.broker.produce("orders", {"id": f"{number}"}, {"id": f"{number}", "name": "x"}, partition)
    offsets = {0: (0, 4, 5, 19), 1: (2,)}
    places = [RecordAddress("orders", partition, offset) for partition, own in offsets.items() for offset in own]
    verdicts = outline_records(world.open_session(PIPELINE), places, COPY)
    assert {at: [verdict.becomes for verdict in found] for at, found in verdicts.items()} == {
        at: ["row"] for at in places
    }
    ranges = [job.ranges.to_dict()["orders"] for job in world.engine.stages]
    assert ranges == [{"0": [0, 5], "1": [2, 3]}, {"0": [5, 6]}, {"0": [19, 20]}]


@pytest.mark.parametrize("place", ["orders", "orders:1", "orders:a:1", ":1:2", "orders:1:-1"])
def test_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ConfigurationError, match="write topic:partition:offset"):
        parse_address(place)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("orders:1:2", r"the log holds \[0, 2\) there"),
        ("orders:7:0", "the log holds"),
        ("strange:0:0", "does not read topic=strange; it reads: orders, others"),
    ],
)
def test_place_outside_of_what_the_pipeline_reads_is_refused(world: World, place: str, words: str) -> None:
    with pytest.raises(GiveUp, match=words):
        read_record(world.open_session(PIPELINE), parse_address(place))


def test_offset_without_a_record_is_said_to_have_none(world: World) -> None:
    world.broker.transaction("orders", [({"id": "x"}, {"id": "x"})], 0, ending="abort")
    with pytest.raises(GiveUp, match="no record there for isolation=read_committed"):
        read_record(world.open_session(PIPELINE), parse_address("orders:0:1"))


def test_table_that_the_topic_does_not_feed_is_refused(world: World) -> None:
    with pytest.raises(ConfigurationError, match="topic=orders does not feed it"):
        explain_record(world.open_session(PIPELINE), parse_address("orders:1:1"), "lake.shop.other")


def test_spark_that_fails_leaves_nothing(world: World) -> None:
    class Failing:
        def run(self, job: object) -> None:
            world.engine.run(job)  # type: ignore[arg-type]
            raise RetryLater("Spark failed")

    with pytest.raises(RetryLater, match="Spark failed"):
        explain_record(world.open_session(PIPELINE, engine=Failing()), parse_address("orders:1:1"), ORDERS)
    assert list_tables(world) == []
