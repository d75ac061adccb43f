"""What every broker behind the port does, over {memory, real Kafka}: the double promises no more than Kafka."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import Workbench
from fakes import MemoryBroker
from tidegate.errors import PositionLost
from tidegate.model.offsets import Ranges

A, B = ({"id": "a"}, {"id": "a"}), ({"id": "b"}, {"id": "b"})


@dataclass
class Kit:
    """A broker behind the port, and the hands to fill and to damage its log."""

    broker: Any
    topic: Callable[..., str]
    produce: Callable[..., None]
    transaction: Callable[..., None]
    recreate: Callable[[str], None]
    retain_from: Callable[[str, int], None]


def build_memory_kit() -> Kit:
    broker = MemoryBroker()

    def create_topic(partitions: int = 1, **config: str) -> str:
        name = f"t{len(broker.partitions)}"
        broker.create(name, partitions)
        if "compact" in config.get("cleanup.policy", ""):
            broker.compacting.add(name)
        return name

    def produce(name: str, *records: Any) -> None:
        for key, value, *more in records:
            broker.produce(name, key, value, **(more[0] if more else {}))

    def produce_transaction(name: str, *records: Any, commit: bool = True) -> None:
        broker.transaction(name, [record[:2] for record in records], ending="commit" if commit else "abort")

    return Kit(broker, create_topic, produce, produce_transaction, broker.create, broker.retain_from)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def kit(request: pytest.FixtureRequest) -> Kit:
    if request.param == "memory":
        return build_memory_kit()
    from tidegate.adapters.kafka.broker import KafkaBroker

    # without the Spark server, for whose start these tests would wait
    bench = Workbench(*map(request.getfixturevalue, ("kafka", "admin", "producer", "tmp_path")))
    broker = KafkaBroker({"bootstrap.servers": bench.stack.kafka_bootstrap})

    def create_topic(partitions: int = 1, **config: str) -> str:
        return bench.topic(partitions, **config)

    return Kit(broker, create_topic, bench.produce, bench.transaction, bench.recreate, bench.retain_from)


def test_log_begins_and_ends_at_zero_until_there_are_records_and_then_ends_behind_the_last(kit: Kit) -> None:
    topic = kit.topic(3)
    log = kit.broker.read_log((topic,), "read_committed")
    assert log.begin == log.end == {topic: {0: 0, 1: 0, 2: 0}}
    kit.produce(topic, A, (*B, {"partition": 1}), A)
    assert kit.broker.read_log((topic,), "read_committed").end == {topic: {0: 2, 1: 1, 2: 0}}


def test_log_that_ends_before_an_offset_under_the_epoch_of_that_offset_was_cut_there(kit: Kit) -> None:
    topic = kit.topic(2)
    kit.produce(topic, A, B, A, (*B, {"partition": 1}))
    log = kit.broker.read_log((topic,), "read_committed")
    assert log.epochs == {topic: {0: 0, 1: 0}}
    assert kit.broker.find_log_cuts({topic: {0: 7, 1: 1}}, log.epochs) == {topic: {0: 3}}
    assert kit.broker.find_log_cuts({topic: {0: 7, 1: 9}}, log.epochs) == {topic: {0: 3, 1: 1}}
    assert kit.broker.find_log_cuts(log.end, log.epochs) == {}
    assert kit.broker.find_log_cuts({topic: {0: 2, 1: 9}}, {topic: {0: 0}}) == {}, "only what is asked for"


def test_the_ends_alone_are_those_of_the_log_and_what_is_not_there_is_left_out(kit: Kit) -> None:
    topic, other = kit.topic(2), kit.topic()
    kit.produce(topic, A, (*B, {"partition": 1}), A)
    assert kit.broker.read_end_offsets((topic, other, "nowhere"), "read_committed") == {
        topic: {0: 2, 1: 1},
        other: {0: 0},
    }
    kit.produce(other, A)
    assert kit.broker.read_end_offsets((other,), "read_uncommitted") == {other: {0: 1}}


def test_aborted_transactions_and_markers_count_as_offsets_under_both_isolations(kit: Kit) -> None:
    topic = kit.topic()
    kit.transaction(topic, A)
    kit.transaction(topic, A, B, commit=False)
    for isolation in ("read_committed", "read_uncommitted"):
        assert kit.broker.read_log((topic,), isolation).end == {topic: {0: 5}}


def test_topics_that_keep_the_last_record_of_each_key_are_told_from_others(kit: Kit) -> None:
    policies = ("compact", "delete", "compact,delete")
    compact, plain, both = (kit.topic(**{"cleanup.policy": policy}) for policy in policies)
    assert kit.broker.filter_compacted((compact, plain, both)) == (compact, both)


def test_retention_moves_the_begin_and_not_the_end(kit: Kit) -> None:
    topic = kit.topic()
    kit.produce(topic, A, B, A)
    kit.retain_from(topic, 2)
    log = kit.broker.read_log((topic,), "read_committed")
    assert (log.begin, log.end) == ({topic: {0: 2}}, {topic: {0: 3}})


def test_missing_topic_is_named_with_the_way_out_and_no_topic_at_all_is_an_empty_log(kit: Kit) -> None:
    with pytest.raises(PositionLost, match=r"topic=no-such-topic does not exist .*correct source.topics"):
        kit.broker.read_log(("no-such-topic",), "read_committed")
    log = kit.broker.read_log((), "read_committed")
    assert (log.begin, log.end, log.topic_ids) == ({}, {}, {})


def test_topic_id_stays_and_changes_only_when_the_topic_is_recreated(kit: Kit) -> None:
    topic = kit.topic()
    first = kit.broker.read_log((topic,), "read_committed")
    kit.produce(topic, A)
    assert kit.broker.read_log((topic,), "read_committed").topic_ids == first.topic_ids
    kit.recreate(topic)
    second = kit.broker.read_log((topic,), "read_committed")
    assert second.topic_ids[topic] != first.topic_ids[topic]
    assert second.cluster_id == first.cluster_id != ""
    assert kit.broker.read_topic_ids((topic,)) == (second.cluster_id, second.topic_ids)


def test_ids_of_topics_are_asked_for_by_name_and_two_topics_have_two(kit: Kit) -> None:
    topic, other = kit.topic(), kit.topic()
    assert len(set(kit.broker.read_log((topic, other), "read_committed").topic_ids.values())) == 2
    assert kit.broker.read_topic_ids(()) == ("", {})
    with pytest.raises(PositionLost, match="topic=no-such-topic does not exist"):
        kit.broker.read_topic_ids((topic, "no-such-topic"))


def test_pattern_must_match_the_whole_name(kit: Kit) -> None:
    topic = kit.topic()
    assert kit.broker.list_topics(topic) == (topic,)
    assert kit.broker.list_topics(topic[1:]) == ()
    assert topic in kit.broker.list_topics(".*")
    kit.broker.commit("g-pattern", {topic: {0: 0}})
    assert kit.broker.list_topics("__consumer.*") == (), "the topic that the brokers have for it is theirs"


def test_what_is_committed_is_read_back_and_may_go_back_as_a_rewind_does(kit: Kit) -> None:
    topic, group = kit.topic(2), "g-back"
    assert kit.broker.read_committed(f"g-{topic}", (topic,)) == {}
    for offsets, committed in (({0: 9}, {0: 9}), ({0: 3}, {0: 3}), ({1: 0}, {0: 3, 1: 0})):
        kit.broker.commit(group, {topic: offsets})
        assert kit.broker.read_committed(group, (topic,)) == {topic: committed}


def test_groups_and_topics_do_not_mix(kit: Kit) -> None:
    first, second = kit.topic(), kit.topic()
    kit.broker.commit("g-one", {first: {0: 1}, second: {0: 2}})
    kit.broker.commit("g-other", {first: {0: 7}})
    assert kit.broker.read_committed("g-one", (second,)) == {second: {0: 2}}
    assert kit.broker.read_committed("g-other", (first, second)) == {first: {0: 7}}


def test_time_finds_the_first_record_at_or_after_it_and_else_the_end(kit: Kit) -> None:
    topic = kit.topic(2)
    kit.produce(topic, *((*A, {"timestamp": 1_700_000_000_000 + n}) for n in (10, 20, 30)))
    offsets = {ms: kit.broker.find_offsets_at((topic,), 1_700_000_000_000 + ms)[topic] for ms in (0, 20, 21, 31)}
    assert offsets == {0: {0: 0, 1: 0}, 20: {0: 1, 1: 0}, 21: {0: 2, 1: 0}, 31: {0: 3, 1: 0}}


def test_time_before_1970_finds_the_first_record(kit: Kit) -> None:
    """The brokers have other meanings for some of these numbers: -1 is the end."""
    topic = kit.topic(2)
    kit.produce(topic, A, A)
    times = (-1, -2, -3, -2_208_988_800_000)
    assert [kit.broker.find_offsets_at((topic,), time) for time in times] == [{topic: {0: 0, 1: 0}}] * len(times)


def test_timestamps_of_many_places_come_together_also_two_of_one_partition_and_none_where_no_record_is(
    kit: Kit,
) -> None:
    topic = kit.topic(3)
    records = [(*A, {"partition": n % 3, "timestamp": 1_700_000_000_000 + n}) for n in range(9)]
    kit.produce(topic, *records)
    places = [(topic, partition, offset) for partition in range(3) for offset in (0, 2, 3)]
    expected = {(topic, p, o): 1_700_000_000_000 + 3 * o + p for _, p, o in places if o < 3}
    assert kit.broker.read_timestamps(places) == expected
    assert kit.broker.read_timestamps([(topic, 0, 0)]) == {(topic, 0, 0): 1_700_000_000_000}
    assert kit.broker.read_timestamps([(topic, 0, 3)]) == {}
    assert kit.broker.read_timestamps([]) == {}


def test_timestamp_of_a_record_in_an_open_transaction_needs_uncommitted_reads(kit: Kit) -> None:
    topic = kit.topic()
    kit.transaction(topic, A, commit=False)
    assert kit.broker.read_timestamps([(topic, 0, 0)]) == {}
    assert kit.broker.read_timestamps([(topic, 0, 0)], "read_uncommitted").keys() == {(topic, 0, 0)}


def test_newest_is_the_time_of_the_last_record_and_not_of_the_marker_behind_it(kit: Kit) -> None:
    topic = kit.topic(2)
    kit.produce(topic, *((*A, {"timestamp": 1_700_000_000_000 + n}) for n in range(15)))
    kit.transaction(topic, A, commit=False)
    ends = kit.broker.read_end_offsets((topic,), "read_committed")
    assert kit.broker.read_newest_timestamps(ends) == {topic: {0: 1_700_000_000_014}}


def test_the_time_of_a_heartbeat_stays_beside_the_offsets_until_the_next_one(kit: Kit) -> None:
    topic, group = kit.topic(2), "g-beat"
    assert kit.broker.commit(group, {topic: {0: 1, 1: 0}}) is None
    assert kit.broker.commit(group, {topic: {0: 2, 1: 0}}, 1_700_000_000_000) is None
    assert kit.broker.commit(group, {topic: {0: 3}}) == 1_700_000_000_000
    assert kit.broker.commit(group, {topic: {0: 3, 1: 0}}, 1_700_000_000_999) == 1_700_000_000_000
    assert kit.broker.commit(group, {topic: {1: 0}}) == 1_700_000_000_999
    assert kit.broker.read_committed(group, (topic,)) == {topic: {0: 3, 1: 0}}


def test_records_are_sent_in_order_to_a_topic_that_is_made_for_them(kit: Kit) -> None:
    topic = f"beats-of-{kit.topic()}"
    kit.broker.send(topic, [(b'{"id": "a"}', b'{"id": "a"}'), (b'{"id": "b"}', b'{"id": "b"}')])
    kit.broker.send(topic, [(b'{"id": "a"}', b'{"id": "a"}')])
    assert kit.broker.read_log((topic,), "read_committed").end == {topic: {0: 3}}


def test_keys_are_a_sample_of_those_within_the_ranges(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tidegate.adapters.kafka.topics.TIMEOUT_SECONDS", 60.0
    )  # a busy machine is no reason to see less
    topic = kit.topic(2)
    kit.produce(topic, *[({"id": number}, {"n": number}, {"partition": 0}) for number in range(50)])
    kit.produce(topic, (None, {"n": 1}, {"partition": 1}))
    samples = kit.broker.sample_keys(Ranges({topic: {0: (10, 30), 1: (0, 1)}}))
    sample = [json.loads(key)["id"] for key in samples[topic, 0]]
    assert sample
    assert set(sample) <= set(range(10, 30))
    assert len(sample) == len(set(sample))
    assert samples[topic, 1] == [None]
    assert kit.broker.sample_keys(Ranges({topic: {0: (50, 50)}})) == {}


def test_records_of_a_range_are_those_that_a_reader_finds_there(kit: Kit) -> None:
    """Without aborted ones, markers, and what lies behind the end; of the partition that is named."""
    topic = kit.topic(2)
    kit.produce(topic, A, (*B, {"partition": 1}), B)
    kit.transaction(topic, A, B, commit=False)
    kit.produce(topic, A)
    records = kit.broker.read_records(topic, 0, range(1, 20), "read_committed")
    assert [(record.topic, record.partition, record.offset) for record in records] == [(topic, 0, 1), (topic, 0, 5)]
    assert records[1].value != records[0].value
    uncommitted = kit.broker.read_records(topic, 0, range(1, 5), "read_uncommitted")
    assert [record.offset for record in uncommitted] == [1, 2, 3]
    assert [record.offset for record in kit.broker.read_records(topic, 1, range(1), "read_committed")] == [0]
    assert kit.broker.read_records(topic, 1, range(1, 3), "read_committed") == ()
