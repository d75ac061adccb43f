"""What a record carries beside its key and value lands typed, in the stated order, on real components."""

import json
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, TopicPartition
from conftest import build_debezium_event
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
MS = int(AT.timestamp() * 1000)
HEADERS = [("a", b"1"), ("b", None), ("a", b"\x00\xff")]


def test_kafka_metadata_lands_typed_and_in_the_stated_order(workbench) -> None:
    """The range of a partition ends in a transaction's marker."""
    topic = workbench.topic(2)
    words = ["topic", "partition", "headers", "header-list", "leader-epoch", "offset", "timestamp", "timestamp-type"]
    metadata = {word.replace("-", "_"): word for word in words}
    workbench.pipeline("beside", [topic], value={"schema": "id BIGINT"}, source={"metadata": metadata})
    workbench.produce(
        topic,
        (None, {"id": 1}, {"partition": 1, "timestamp": MS, "headers": HEADERS}),
        (None, {"id": 2}, {"partition": 0, "timestamp": MS}),
        (None, {"id": 3}, {"partition": 1, "timestamp": MS}),
    )
    workbench.transaction(topic, (None, {"id": 4}, {"partition": 1}))
    workbench.transaction(topic, (None, {"id": 5}, {"partition": 1}), commit=False)
    workbench.flush("beside")
    first, second, third, fourth = workbench.read_rows("shop.beside")
    assert list(first) == ["id", *metadata]
    epoch = read_leader_epoch(workbench, topic, 1)
    assert {k: v for k, v in first.items() if k != "headers"} == {
        "id": 1, "topic": topic, "partition": 1, "leader_epoch": epoch, "offset": 0, "timestamp": AT,
        "timestamp_type": "CreateTime",
        "header_list": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b"\x00\xff"}],
    }  # fmt: skip
    assert dict(first["headers"]) == {"a": b"\x00\xff", "b": None}
    assert second["partition"] == 0
    assert second["headers"] == []  # an empty map
    assert second["header_list"] == []
    assert [(row["offset"], row["leader_epoch"]) for row in (third, fourth)] == [(1, epoch), (2, epoch)]


def read_leader_epoch(workbench, topic: str, partition: int) -> int | None:
    """As a plain consumer tells it of the first record."""
    consumer = Consumer({"bootstrap.servers": workbench.stack.kafka_bootstrap, "group.id": "x", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        message = consumer.poll(60)
        assert message is not None
        return message.leader_epoch()
    finally:
        consumer.close()


def test_debezium_tells_its_source_and_the_format_s_columns_stand_ahead_of_kafka_s(workbench) -> None:
    topic = workbench.topic()
    metadata = {
        "at": "timestamp", "seen": "value.ingestion-timestamp", "src_at": "value.source.timestamp",
        "db": "value.source.database", "sch": "value.source.schema", "tab": "value.source.table",
        "props": "value.source.properties", "described": "value.schema", "op": "value.op", "lsn": "value.source.lsn",
        "scn": "value.source.scn", "first": "value.source.snapshot",
    }  # fmt: skip
    workbench.pipeline(
        "told", [topic], key={"fields": ["id"]},
        value={"format": "debezium-json", "schema": "id BIGINT"}, source={"metadata": metadata},
    )  # fmt: skip
    source = {"db": "shop", "schema": "public", "table": "orders", "ts_ms": MS - 1000, "lsn": 42, "snapshot": "false"}
    plain = build_debezium_event("c", None, {"id": 1}, source=source, ts_ms=MS)
    wrapped = build_debezium_event("c", None, {"id": 2}, source=source, ts_ms=MS, envelope=True)
    workbench.produce(topic, ({"id": 1}, plain, {"timestamp": MS}), ({"id": 2}, wrapped, {"timestamp": MS}))
    workbench.flush("told")
    first, second = workbench.read_rows("shop.told")
    metadata_columns = ["seen", "src_at", "db", "sch", "tab", "props", "described", "op", "lsn", "scn", "first"]
    assert list(first) == ["id", *metadata_columns, "at"]
    properties = {name: value if isinstance(value, str) else json.dumps(value) for name, value in source.items()}
    expected = [AT, AT.replace(second=4), "shop", "public", "orders", properties]
    for row in (first, second):
        values = [*list(row.values())[1:6], dict(row["props"])]
        assert (values, row["at"]) == (expected, AT)
        assert [row[name] for name in ("op", "lsn", "scn", "first")] == ["c", 42, None, "false"]
    assert (first["described"], json.loads(second["described"])) == (None, {"type": "struct"})


@pytest.mark.repeats("integration/test_generated_code.py::test_rows_have_the_number_attempt_and_times_of_their_batch")
def test_partition_time_of_a_staged_row_is_the_records_or_the_stagings(workbench) -> None:
    topic = workbench.topic()
    workbench.produce(topic, (None, {"id": 1}, {"timestamp": MS}))
    for name, merge in (("by_record", {}), ("by_clock", {"partition_time": "wall-clock"})):
        workbench.pipeline(name, [topic], value={"schema": "id BIGINT"}, merge=merge)
        before = datetime.now(UTC)
        stage(workbench.open_session(name), plan(workbench.open_session(name)))
        (row,) = workbench.read_rows(f"shop.{name}_{name}_tmp")
        assert row["timestamp"] == AT
        assert row["partition_time"] == AT if not merge else before < row["partition_time"] < datetime.now(UTC)
