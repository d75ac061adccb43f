"""MessagePack, keys and values, through real Kafka, Spark and Iceberg."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import decoding
import msgpack
import pytest
from tidegate.errors import BadRecord
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

SCHEMA = (
    "id BIGINT, big DECIMAL(20,0), at TIMESTAMP, raw BINARY, tags ARRAY<STRING>, "
    "places ARRAY<STRUCT<x: INT, by_number: MAP<INT, STRING>>>"
)
AT = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)


def encode_msgpack(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


def build_row(number: int, **more: Any) -> dict[str, Any]:
    places = [{"x": number, "by_number": {number: "a", -1: None}}, None]
    at = msgpack.Timestamp(int(AT.timestamp()), 123456000)
    return {
        "id": number,
        "big": 2**64 - number,
        "at": at,
        "raw": b"\x00\xff",
        "tags": ["ü", None],
        "places": places,
        **more,
    }


def build_expected_row(number: int, **more: Any) -> dict[str, Any]:
    places = [{"x": number, "by_number": [(number, "a"), (-1, None)]}, None]
    big = Decimal(2**64 - number)
    return {"id": number, "big": big, "at": AT, "raw": b"\x00\xff", "tags": ["ü", None], "places": places, **more}


# the decoder of a batch is run on its own bytes there, and corrupt ones on real workers here
@pytest.mark.repeats(
    "unit/tidegate_spark/formats/test_msgpack.py::test_batch_keeps_the_order_of_its_records_and_one_bad_record_takes_no_other_down"
)
def test_rows_of_two_partitions_are_inserted_updated_and_deleted_as_they_were_written(workbench: Any) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("packed", [topic], key={"format": "msgpack", "fields": ["id"]},
                       value={"format": "msgpack", "schema": SCHEMA})  # fmt: skip
    for number in range(1, 9):
        workbench.produce(
            topic, (encode_msgpack({"id": number}), encode_msgpack(build_row(number)), {"partition": number % 2})
        )
    workbench.flush("packed")
    assert workbench.read_rows("shop.packed") == [build_expected_row(number) for number in range(1, 9)]
    workbench.produce(
        topic,
        (encode_msgpack({"id": 1}), encode_msgpack(build_row(1, tags=[], unknown={"a": [1]})), {"partition": 1}),
        (encode_msgpack(3), None, {"partition": 1}),  # a lone field may come bare
        (encode_msgpack({"id": 2, "of": "others"}), encode_msgpack({"id": 2}), {"partition": 0}),
        (encode_msgpack({"id": 4}), None, {"partition": 0}),
    )
    workbench.flush("packed")
    nothing = dict.fromkeys(("big", "at", "raw", "tags"))
    rows = {number: build_expected_row(number) for number in (5, 6, 7, 8)}
    rows |= {
        1: build_expected_row(1, tags=[]),
        2: {"id": 2, **nothing, "places": []},
    }  # PyIceberg reads NULL as an empty list there
    assert sorted(workbench.read_rows("shop.packed"), key=lambda row: row["id"]) == [rows[n] for n in sorted(rows)]
    (missing,) = workbench.run_spark_sql("SELECT collect_list(id) FROM lake.shop.packed WHERE places IS NULL")
    assert missing[0] == [2]


@pytest.mark.repeats("test_key_of_a_record_without_one_is_taken_from_the_value[False]")
def test_bad_record_says_where_it_lies_and_what_is_wrong(workbench: Any) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("strict", [topic], key={"format": "msgpack", "fields": ["id"]},
                       value={"format": "msgpack", "schema": SCHEMA})  # fmt: skip
    workbench.produce(topic, (encode_msgpack({"id": 1}), encode_msgpack(build_row(1)), {"partition": 0}))
    workbench.produce(topic, (encode_msgpack({"id": 2}), encode_msgpack(build_row(2, id=2**63)), {"partition": 1}))
    with pytest.raises(BadRecord, match=r"partition=1 offset=0.*field id is not a BIGINT without loss"):
        workbench.flush("strict")


NO_KEY_IN_VALUE = "key.from is value, and the record has no value that shows the key"
NO_KEY_REASON = "the record has no key, and no value to take it from"
KEY, COLUMNS = Column("id", "BIGINT"), (Column("id", "BIGINT"), Column("n", "INT"))


def decode_keys(spark: Any, records: list[tuple[bytes | None, bytes | None]], **key: Any) -> list[Any]:
    stage = decoding.build_stage_table(ValueFormat("msgpack"), COLUMNS, keys=(KEY,))
    stage = replace(stage, key=KeyFormat("msgpack", ("id",), **key))
    return decoding.decode(spark, stage, records, "key_struct.id", "key_reason", "value_struct.n", "op")


@pytest.mark.repeats(
    "unit/tidegate_spark/formats/test_msgpack.py::test_lone_field_of_a_key_may_come_bare_and_must_be_there"
)
def test_key_that_lacks_its_field_is_bad_and_nil_is_null(spark: Any) -> None:
    value = encode_msgpack({"n": 5})
    results = decode_keys(
        spark,
        [
            (encode_msgpack({"x": 1}), value),
            (encode_msgpack({"id": None}), value),
            (encode_msgpack([7]), value),
            (b"", value),
        ],
    )
    assert [row[:2] for row in results] == [
        (None, "the key lacks the key's field id"), (None, None),
        (None, "the key field id is not a BIGINT without loss"), (None, "the key is not MessagePack"),
    ]  # fmt: skip


@pytest.mark.repeats("test_key_of_a_record_without_one_is_taken_from_the_value[False]", "True")
@pytest.mark.parametrize("from_value", [False, True])
def test_key_of_a_record_without_one_is_taken_from_the_value(spark: Any, from_value: bool) -> None:
    key = encode_msgpack(9) if from_value else None
    values = [{"id": 7, "n": 5}, {"n": 5}, {"id": None, "n": 5}, {"id": "7", "n": 5}]
    results = decode_keys(
        spark, [*((key, encode_msgpack(value)) for value in values), (key, None)], from_value=from_value
    )
    bad_key = "the value lacks the key's field id"
    assert results[0] == (7, None, 5, "u")
    assert results[1] == (None, bad_key, 5, "u")
    assert results[2] == (None, None, 5, "u")
    assert results[3][:3] == (None, "the value field id is not a BIGINT without loss", None)
    assert results[4] == (None, NO_KEY_IN_VALUE if from_value else NO_KEY_REASON, None, "d")


@pytest.mark.repeats("integration/test_required_parts.py::test_avro_value_with_null_where_a_part_must_not_be_is_bad")
def test_required_column_may_not_be_missing(spark: Any) -> None:
    columns = (Column("a", "INT", nullable=False), Column("b", "STRUCT<c: INT NOT NULL>"))
    values = [{"a": 1, "b": {"c": 1}}, {"b": None}, {"a": None, "b": None}, {"a": 1, "b": {}}]
    stage = decoding.build_stage_table(ValueFormat("msgpack"), columns)
    missing, inside = "the value field a is required and missing", "the value field b lacks a part that is NOT NULL"
    reasons = decoding.read_reasons(spark, stage, [encode_msgpack(value) for value in values])
    assert reasons[:3] == [None, missing, missing]
    assert str(reasons[3]).startswith(inside)
