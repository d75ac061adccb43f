"""Debezium change events through real Kafka, Spark and Iceberg."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import decoding
import pytest
from conftest import build_debezium_event
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"format": "debezium-json", "schema": "id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP"}


def build_row(id, name, amount="1.50", at="2026-01-01T00:00:00Z"):
    return {"id": id, "name": name, "amount": amount, "at": at}


# the same batches; without the envelope each event is decoded in tests of its format
@pytest.mark.repeats("test_inserts_updates_deletes_and_their_tombstones_over_several_batches[True]", "False")
@pytest.mark.parametrize("envelope", [False, True])
def test_inserts_updates_deletes_and_their_tombstones_over_several_batches(workbench, envelope: bool) -> None:
    topic = workbench.topic()
    workbench.pipeline("events", [topic], key=KEY, value=VALUE)

    def build_event(op, before, after):
        id = (after or before)["id"]
        key = {"id": id}
        return ({"schema": {}, "payload": key} if envelope else key), build_debezium_event(
            op, before, after, envelope=envelope
        )

    def build_tombstone(id):
        return ({"schema": {}, "payload": {"id": id}} if envelope else {"id": id}), None

    a, b, c = build_row(1, "a"), build_row(2, "b"), build_row(3, "c")
    workbench.produce(topic, build_event("r", None, a), build_event("c", None, b), build_event("c", None, c))
    workbench.flush("events")
    changed = build_row(1, "a2", "1234567890.12", "2026-03-01T12:34:56.123456Z")
    workbench.produce(
        topic, build_event("u", a, changed), build_event("d", b, None), build_tombstone(2), build_tombstone(3)
    )
    workbench.produce(topic, build_event("c", None, build_row(2, "b again", None, None)))
    workbench.flush("events")
    at = datetime(2026, 3, 1, 12, 34, 56, 123456, tzinfo=UTC)
    assert workbench.read_rows("shop.events") == [
        {"id": 1, "name": "a2", "amount": Decimal("1234567890.12"), "at": at},
        {"id": 2, "name": "b again", "amount": None, "at": None},
    ]


# formats: what is decoded is the same, and the flush behind it is another format's
@pytest.mark.repeats(
    "integration/test_presence.py::test_update_without_a_key_that_changes_a_key_field_deletes_the_old_row"
)
def test_delete_without_a_record_key_finds_it_in_before(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("keyless", [topic], key={"fields": ["id"]}, value=VALUE)
    workbench.produce(
        topic,
        (None, build_debezium_event("c", None, build_row(1, "a"))),
        (None, build_debezium_event("c", None, build_row(2, "b"))),
    )
    workbench.flush("keyless")
    workbench.produce(topic, (None, build_debezium_event("d", build_row(1, "a"), None)))
    workbench.flush("keyless")
    assert [r["id"] for r in workbench.read_rows("shop.keyless")] == [2]


@pytest.mark.repeats("integration/test_avro.py::test_debezium_envelope_in_avro_upserts_and_deletes_with_microseconds")
def test_event_that_is_not_understood_is_an_error_not_an_insert(spark) -> None:
    events = {
        "unknown op=x": {"before": None, "after": build_row(1, "a"), "op": "x"},
        "no op": {"before": None, "after": build_row(1, "a")},
        "no after": {"before": None, "after": None, "op": "u"},
    }
    columns = (Column("id", "BIGINT"), Column("name", "STRING"))
    stage = decoding.build_stage_table(ValueFormat("debezium-json"), columns, (Column("id", "BIGINT"),))
    records = [(b'{"id": 1}', json.dumps(event).encode()) for event in events.values()]
    results = decoding.decode(spark, stage, records, "reason")
    assert [part for part, (reason,) in zip(events, results, strict=True) if part not in str(reason)] == []
