"""Pipelines of hundreds of tables and topics: what one of them lacks costs no request for each of the others."""

from collections import Counter
from math import ceil, log2
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import PositionLost, SomeTables, TopicsUnavailable
from tidegate.flush import plan as plan_step
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import commit_offsets
from tidegate.flush.plan import plan
from tidegate.model import offsets
from tidegate.model.position import WatermarkSide
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Start, StartKind
from tidegate.table import pipeline_progress
from tidegate.table.log import read_known_log
from tidegate.table.pipeline_progress import read_pipeline_progress

TABLE_COUNT = 300
SHOWN_CHARACTERS = 2000  # of a reason, in alerts, on the page and where it is remembered


def name_topics(count: int) -> tuple[str, ...]:
    return tuple(f"topic{number:04}" for number in range(count))


def build_wide_pipeline(topics: tuple[str, ...]) -> Pipeline:
    """A table for each topic."""
    return build_pipeline(*(build_table(f"lake.shop.{topic}", topics=(topic,)) for topic in topics))


@pytest.fixture
def world() -> World:
    world = World()
    for topic in name_topics(TABLE_COUNT):
        world.broker.create(topic, 1)
    return world


def count_calls(counts: "Counter[str]") -> Any:
    def note(call: str, moment: str) -> None:
        counts[call] += moment == "before"

    return note


@pytest.mark.parametrize("missing", [(), (7,), (0, 299), (120, 121, 122)])
def test_topics_that_are_missing_are_found_without_asking_for_each_of_the_others(
    world: World, missing: tuple[int, ...]
) -> None:
    topics, counts = name_topics(TABLE_COUNT), Counter[str]()
    missing_topics = {topics[number] for number in missing}
    for topic in missing_topics:
        world.broker.delete(topic)
    log, reasons = read_known_log(world.open_session(build_wide_pipeline(topics), count_calls(counts)))
    assert tuple(log.end) == tuple(topic for topic in topics if topic not in missing_topics)
    assert reasons.keys() == missing_topics
    for topic, error in reasons.items():
        assert isinstance(error, PositionLost)
        assert f"topic={topic} does not exist" in str(error)
    assert counts["broker.read_log"] <= 1 + len(missing) * 2 * ceil(log2(TABLE_COUNT))


def test_topics_without_a_leader_are_waited_for_once_and_the_others_are_read_together(world: World) -> None:
    topics, counts = name_topics(TABLE_COUNT), Counter[str]()
    world.broker.leaderless_topics = {topics[3], topics[290]}
    log, reasons = read_known_log(world.open_session(build_wide_pipeline(topics), count_calls(counts)))
    assert reasons.keys() == world.broker.leaderless_topics
    assert all(isinstance(error, TopicsUnavailable) for error in reasons.values())
    assert len(log.end) == TABLE_COUNT - 2
    assert counts["broker.read_log"] == 2


@pytest.mark.parametrize("tables", [2, 60])
def test_tables_that_have_not_begun_ask_for_the_topics_of_a_pattern_together(tables: int) -> None:
    world = World()
    world.broker.create("topic0000", 2)
    world.broker.produce("topic0000", {"id": "a"}, {"id": "a", "name": "x"})
    source = {"topics": (), "topic_pattern": "topic.*", "start": Start(StartKind.GROUP)}
    world.broker.groups["tidegate-shop"] = {"topic0000": {0: 0, 1: 0}}
    flush(world.open_session(build_pipeline(build_table(topics=()), source=source)))
    late = (build_table(f"lake.shop.late{number}", topics=()) for number in range(tables))
    counts = Counter[str]()
    pipeline = build_pipeline(build_table(topics=()), *late, source=source)
    commit_offsets(world.open_session(pipeline, count_calls(counts)))
    assert counts["broker.list_topics"] == 2  # those of the pattern, and those that are there still


def test_tables_that_come_later_are_compared_with_the_others_once_for_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, calls = name_topics(2), list[int]()
    first = [build_table(f"lake.shop.first{number}", topics=topics) for number in range(5)]
    for topic in topics:
        world.broker.produce(topic, {"id": topic}, {"id": topic, "name": "x"})
    flush(world.open_session(build_pipeline(*first)))
    world.broker.produce(topics[0], {"id": "b"}, {"id": "b", "name": "x"})

    def count_call(*parts: offsets.Offsets) -> offsets.Offsets:
        calls.append(len(parts))
        return offsets.find_lowest(*parts)

    monkeypatch.setattr(plan_step, "find_lowest", count_call)
    late = [build_table(f"lake.shop.late{number}", topics=topics) for number in range(20)]
    sides = {batch.table: batch.watermark for batch in plan(world.open_session(build_pipeline(*first, *late))).tables}
    assert calls == [5]
    assert {sides[table.name] for table in first} == {WatermarkSide.INSIDE}
    assert {sides[table.name] for table in late} == {WatermarkSide.JOINS}


def test_reason_of_many_tables_is_seen_before_a_message_is_cut(world: World) -> None:
    topics = name_topics(TABLE_COUNT)
    for topic in topics[1:]:
        world.broker.leaderless_topics.add(topic)
    with pytest.raises(SomeTables) as failed:
        plan(world.open_session(build_wide_pipeline(topics)))
    message = str(failed.value)[:SHOWN_CHARACTERS]
    assert f"tables=lake.shop.{topics[1]}, lake.shop.{topics[2]}, " in message
    assert f"and {TABLE_COUNT - 1 - offsets.MAX_NAMED_PARTITIONS} more cannot go on" in message
    assert "no offset is known now of topics=" in message


def test_what_is_published_is_told_without_comparing_each_partition_with_each_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def count_looks(*arguments: Any) -> int | None:
        looks[-1] += 1
        return offsets.get_offset(*arguments)

    for count in (20, 40):
        progress = read_pipeline_progress(world.open_session(build_wide_pipeline(name_topics(count))))
        with monkeypatch.context() as patch:
            patch.setattr(pipeline_progress, "get_offset", count_looks)
            looks.append(0)
            assert progress.published_offsets == {topic: {0: 0} for topic in name_topics(count)}
    assert looks[1] <= 2 * looks[0]
