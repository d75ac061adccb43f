"""Every offset is accounted for: transactions, aborts, compaction, under both isolation levels; lag reaches 0."""

import itertools
from typing import Any

import pytest
from conftest import wait_until
from tidegate.errors import NothingToDo
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.monitoring.status import read_status

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}


def build_record(id: int, **more: Any) -> tuple[Any, ...]:
    return {"id": id}, {"id": id, "name": "x"}, more


def read_ids(workbench, table: str) -> list[int]:
    return sorted(row["id"] for row in workbench.read_rows(table))


def assert_at_log_end(workbench, name: str, topic: str) -> None:
    """Committed offsets are the ends, lag is 0, and the sums over all batches add up."""
    status = read_status(workbench.open_session(name))
    assert workbench.committed(name) == workbench.read_ends(topic)
    assert (status["lag"], [part["lag"] for part in status["partitions"]]) == (0, [0])
    for batch in status["batches"]:
        assert batch["span"] == batch["read"] + batch["gaps"]
        fates = ("staged", "superseded", "filtered", "ignored", "dead_lettered")
        assert batch["read"] == sum(batch[fate] for fate in fates)


@pytest.mark.repeats(
    "test_transactions_are_counted_and_reach_lag_zero[read_committed-5-rows0]", "read_uncommitted-8-rows1"
)
@pytest.mark.parametrize(
    ("isolation", "read", "rows"),
    [("read_committed", 5, [1, 2, 3, 4, 7]), ("read_uncommitted", 8, [1, 2, 3, 4, 5, 6, 7, 8])],
)
def test_transactions_are_counted_and_reach_lag_zero(workbench, isolation, read, rows) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("tx", [topic], key=KEY, value=VALUE, table=APPEND, source={"isolation": isolation})
    workbench.produce(topic, build_record(1), build_record(2))
    workbench.transaction(topic, build_record(3), build_record(4))
    workbench.transaction(topic, build_record(5), build_record(6), commit=False)
    workbench.produce(topic, build_record(7))
    open_one = workbench.open_transactional_producer()
    open_one.begin_transaction()
    workbench._send(open_one, topic, (build_record(8),))
    assert open_one.flush(60) == 0
    (batch,) = stage(workbench.open_session("tx"), plan(workbench.open_session("tx")))
    end = batch.ranges.end[topic][0]
    assert end == (9 if isolation == "read_committed" else 10)
    assert (batch.counts.span, batch.counts.read) == (end, read)
    assert batch.counts.gaps == end - read
    workbench.flush("tx")
    assert read_ids(workbench, "shop.tx") == rows
    (counts,) = read_status(workbench.open_session("tx"))["batches"]
    assert (counts["read"], counts["gaps"]) == (read, end - read)
    assert read_status(workbench.open_session("tx"))["lag"] == 0
    workbench.end_transaction(open_one, topic, commit=False)
    workbench.drain("tx")
    assert_at_log_end(workbench, "tx", topic)
    workbench.transaction(topic, build_record(9), build_record(10))
    workbench.drain("tx")
    assert read_ids(workbench, "shop.tx") == [*rows, 9, 10]
    assert_at_log_end(workbench, "tx", topic)


# offsets without a record: markers, aborts and an open transaction are met there, all in one topic
@pytest.mark.repeats("test_transactions_are_counted_and_reach_lag_zero[read_committed-5-rows0]")
def test_plain_topic_has_no_gap_and_an_aborted_transaction_alone_reaches_lag_zero(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("plain", [topic], key=KEY, value=VALUE, merge={"max_records": 20})
    workbench.produce(topic, *(build_record(n) for n in range(50)))
    workbench.drain("plain")
    assert [batch["gaps"] for batch in read_status(workbench.open_session("plain"))["batches"]] == [0, 0, 0]
    workbench.transaction(topic, *(build_record(n) for n in range(100, 103)), commit=False)
    workbench.drain("plain")
    assert_at_log_end(workbench, "plain", topic)
    with pytest.raises(NothingToDo):
        workbench.flush("plain")
    assert read_ids(workbench, "shop.plain") == list(range(50))


@pytest.mark.repeats("unit/tidegate/flush/test_flush.py::test_compacted_topic_gives_the_same_table")
def test_compacted_topic_is_read_over_its_holes_wherever_batches_are_cut(workbench) -> None:
    compaction = {"min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0", "delete.retention.ms": "0"}
    topic = workbench.topic(1, **{"cleanup.policy": "compact", "segment.ms": "100", **compaction})
    stamps = itertools.count(1_700_000_000_000, 60_000)  # each record a segment of its own, but the last
    for _ in range(10):
        workbench.produce(topic, *(build_record(n, timestamp=next(stamps)) for n in range(3)))
    workbench.produce(topic, build_record(3, timestamp=next(stamps)))
    wait_until(lambda: count_records_in_log(workbench, topic) < 10, "compaction has taken records away")
    for name, most in (("whole", 1000), ("cut", 4)):
        workbench.pipeline(name, [topic], key=KEY, value=VALUE, table=APPEND, merge={"max_records": most})
        workbench.drain(name)
        assert sorted(set(read_ids(workbench, f"shop.{name}"))) == [0, 1, 2, 3]
        assert_at_log_end(workbench, name, topic)
    (batch,) = read_status(workbench.open_session("whole"))["batches"]
    assert (batch["span"], batch["gaps"] > 20) == (31, True)


def count_records_in_log(workbench, topic: str) -> int:
    """How many records the log still has."""
    from confluent_kafka import Consumer, TopicPartition

    end = workbench.read_ends(topic)[topic][0]
    consumer = Consumer({"bootstrap.servers": workbench.stack.kafka_bootstrap, "group.id": "kept", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        offsets: list[int] = []
        while not offsets or offsets[-1] < end - 1:
            offsets += [m.offset() for m in consumer.consume(100, 5) if not m.error()]
        return len(offsets)
    finally:
        consumer.close()
