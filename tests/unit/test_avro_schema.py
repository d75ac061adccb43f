"""Avro schemas as columns: what arrives for which type, and what is refused instead of misread."""

import json
from typing import Any

import pytest
from tidegate.avro_decoding import decoding, meaning_lost, plain, watched
from tidegate.avro_schema import columns_of, named_types, spark_type, with_references
from tidegate.errors import ConfigurationError

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
TYPES: list[tuple[Any, str]] = [
    ("boolean", "BOOLEAN"),
    ("int", "INT"),
    ("long", "BIGINT"),
    ({"type": "long"}, "BIGINT"),
    (["null", "string"], "STRING"),
    (["string", "null"], "STRING"),
    (["int", "null", "long"], "BIGINT"),
    (["float", "double"], "DOUBLE"),
    (["int", "string"], "STRUCT<`member0`: INT, `member1`: STRING>"),
    ({"type": "enum", "name": "E", "symbols": ["a"]}, "STRING"),
    ({"type": "fixed", "name": "F", "size": 3}, "BINARY"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "DECIMAL(5,2)"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5}, "DECIMAL(5,0)"),
    ({"type": "int", "logicalType": "date"}, "DATE"),
    ({"type": "long", "logicalType": "timestamp-nanos"}, "TIMESTAMP"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, "TIMESTAMP_NTZ"),
    ({"type": "long", "connect.name": "io.debezium.time.MicroTime"}, "STRING"),
    ({"type": "string", "logicalType": "uuid"}, "STRING"),
    ({"type": "array", "items": ["null", INNER]}, "ARRAY<STRUCT<`x`: INT>>"),
    ({"type": "map", "values": {"type": "array", "items": "long"}}, "MAP<STRING, ARRAY<BIGINT>>"),
]


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


@pytest.mark.parametrize(("schema", "expected"), TYPES, ids=json.dumps)
def test_type_arrives_as(schema: Any, expected: str) -> None:
    assert spark_type(schema, {}) == expected


def test_named_type_that_is_used_again_is_known_by_its_name() -> None:
    again = record(("a", INNER), ("b", ["null", "Inner"]), ("c", {"type": "array", "items": "Inner"}))
    assert [c.type for c in columns_of(again)] == ["STRUCT<`x`: INT>", "STRUCT<`x`: INT>", "ARRAY<STRUCT<`x`: INT>>"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record(("a", ["null", "R"])), "holds itself"),
        (record(("a", "Unknown")), "type=Unknown is not known"),
        (record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 39})), "beyond a table's"),
        ("string", "is no record"),
    ],
)
def test_schema_that_no_table_holds_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        columns_of(schema)


def test_references_are_put_in_where_they_are_first_named() -> None:
    known = {"shop.Inner": {**INNER, "namespace": "shop"}}
    whole = with_references(record(("a", "shop.Inner"), ("b", "shop.Inner")), known)
    assert whole["fields"][0]["type"]["name"] == "Inner"
    assert whole["fields"][1]["type"] == "shop.Inner"
    assert [c.type for c in columns_of(whole)] == ["STRUCT<`x`: INT>"] * 2


def timed(meaning: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": meaning}


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("int", "long", False),
        (timed("timestamp-micros"), timed("timestamp-micros"), False),
        (timed("timestamp-millis"), timed("timestamp-micros"), True),
        ("long", timed("timestamp-micros"), True),
        ({"type": "array", "items": timed("time-micros")}, {"type": "array", "items": "long"}, True),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
            False,
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            True,
        ),
    ],
)
def test_version_that_counts_something_else_is_not_read_as_the_latest(old: Any, new: Any, lost: bool) -> None:
    for before, after in (
        (old, new),
        (["null", old], new),
        (record(("n", old), name="N"), record(("n", new), name="N")),
    ):
        reason = meaning_lost(record(("a", before)), record(("a", after)))
        assert bool(reason) == lost
        assert not lost or reason.startswith("field a")


def test_refused_version_has_no_writer_and_the_others_do() -> None:
    latest = record(("a", timed("timestamp-micros")))
    made = decoding(latest, {1: record(("a", timed("timestamp-millis"))), 2: latest})
    assert (list(made.writers), list(made.refused)) == (["2"], ["1"])


def test_decoder_is_told_the_bare_number_of_what_the_product_converts_itself() -> None:
    given = record(("a", ["null", timed("timestamp-nanos")]), ("b", timed("timestamp-micros")))
    shown = plain(given)
    assert [f["type"] for f in shown["fields"]] == [["null", {"type": "long"}], timed("timestamp-micros")]


def test_reader_is_watched_by_a_field_with_a_default() -> None:
    assert watched(record(("a", "int")))["fields"][-1]["default"] == 1
    assert watched("long") == "long"


def test_names_are_known_in_full_and_short() -> None:
    names = named_types({**record(("a", INNER)), "namespace": "shop"})
    assert {"R", "shop.R", "Inner", "shop.Inner"} <= set(names)
