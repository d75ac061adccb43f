"""NOT NULL inside of a struct, a list or a map, in Avro and Protobuf: NULL there is a bad record, and no row."""

from dataclasses import replace
from typing import Any

import decoding
import pytest
from protobuf_messages import build_classes, build_field, build_file, build_map_entry, build_message
from registered import build_record, decode_keys, describe, encode_avro, encode_message
from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

LACKS = "the {} field {} lacks a part that is NOT NULL in {}"
INNER = "STRUCT<`a`: INT NOT NULL, `b`: INT>"
COLUMNS = (
    Column("s", INNER),
    Column("l", f"ARRAY<{INNER}>"),
    Column("m", f"MAP<STRING, {INNER}>"),
    Column("deep", f"STRUCT<`in`: {INNER} NOT NULL, `l`: ARRAY<STRUCT<`x`: MAP<STRING, {INNER}>>>>"),
)
WHOLE, LACKING, OTHER = {"a": 1, "b": 2}, {"a": None, "b": 2}, {"a": 3, "b": None}
# one record each, and the column that lacks a part in it
CASES: tuple[tuple[dict[str, Any], str | None], ...] = (
    ({"s": WHOLE, "l": [WHOLE, OTHER], "m": {"x": OTHER}, "deep": {"in": WHOLE, "l": [{"x": {"y": OTHER}}]}}, None),
    ({"s": LACKING}, "s"),
    ({"l": [WHOLE, LACKING]}, "l"),
    ({"m": {"x": WHOLE, "y": LACKING}}, "m"),
    ({"deep": {"in": LACKING, "l": None}}, "deep"),
    ({"deep": {"in": None, "l": [{"x": {"y": WHOLE}}]}}, "deep"),
    ({"deep": {"in": WHOLE, "l": [{"x": {}}, {"x": {"y": LACKING}}]}}, "deep"),
    ({"s": OTHER, "deep": {"in": OTHER, "l": []}}, None),
    ({}, None),
)


def shorten(value: Any) -> Any:
    """A row as dictionaries, without NULL and empty values: Protobuf does not distinguish them."""
    if hasattr(value, "asDict"):
        return shorten(value.asDict())
    if isinstance(value, dict):
        parts = {name: shorten(field) for name, field in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, [], {})}
    return [shorten(element) for element in value] if isinstance(value, list) else value


def judge(spark: Any, table: Any, values: list[bytes]) -> list[Any]:
    """Of each case its row, or why it is bad."""
    return [reason or shorten(row) for reason, row in decoding.decode_values(spark, table, values)]


TYPES = {c.name: c.type for c in COLUMNS}
EXPECTED = [LACKS.format("value", name, TYPES[name]) if name else shorten(row) for row, name in CASES]


def build_avro_schema() -> Any:
    inner = build_record(("a", ["null", "int"]), ("b", ["null", "int"]), name="Inner")
    held_schema = build_record(("x", ["null", {"type": "map", "values": "shop.Inner"}]), name="Held")
    deep = build_record(
        ("in", ["null", "shop.Inner"]), ("l", ["null", {"type": "array", "items": held_schema}]), name="Deep"
    )
    return build_record(
        ("s", ["null", inner]), ("l", ["null", {"type": "array", "items": "shop.Inner"}]),
        ("m", ["null", {"type": "map", "values": "shop.Inner"}]), ("deep", ["null", deep]),
    )  # fmt: skip


def test_avro_value_with_null_where_a_part_must_not_be_is_bad(spark, registry) -> None:
    values = [encode_avro(registry, "t-value", build_avro_schema(), row) for row, _ in CASES]
    table = describe(KeyFormat(), ValueFormat("avro", COLUMNS, options={"registry": registry.url}))
    assert judge(spark, table, values) == EXPECTED


@pytest.mark.repeats("test_avro_value_with_null_where_a_part_must_not_be_is_bad")
def test_change_event_with_null_where_a_part_must_not_be_is_bad_in_after_and_not_in_before(spark, registry) -> None:
    rows = build_record(
        ("before", ["null", build_avro_schema()]), ("after", ["null", "shop.Order"]), ("op", "string"), name="E"
    )
    events = [{"op": "u", "before": CASES[1][0], "after": row} for row, _ in CASES]
    values = [encode_avro(registry, "t-value", rows, event) for event in events]
    table = describe(KeyFormat(), ValueFormat("debezium-avro", COLUMNS, options={"registry": registry.url}))
    assert judge(spark, table, values) == EXPECTED


def build_message_class() -> Any:
    inner = build_message(
        "Inner", build_field("a", 1, "int32", optional=True), build_field("b", 2, "int32", optional=True)
    )
    entries = [build_map_entry(name, "string", ".shop.Inner") for name in ("XEntry", "MEntry")]
    held_message = build_message("Held", build_field("x", 1, ".shop.Held.XEntry", repeated=True), nested=(entries[0],))
    deep = build_message("Deep", build_field("in", 1, ".shop.Inner"), build_field("l", 2, ".shop.Held", repeated=True))
    order = build_message(
        "Order",
        build_field("s", 1, ".shop.Inner"),
        build_field("l", 2, ".shop.Inner", repeated=True),
        build_field("m", 3, ".shop.Order.MEntry", repeated=True),
        build_field("deep", 4, ".shop.Deep"),
        nested=(entries[1],),
    )
    return build_classes(build_file(order, inner, held_message, deep))["shop.Order"]


def leave_out_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: leave_out_nulls(field) for name, field in value.items() if field is not None}
    return [leave_out_nulls(element) for element in value] if isinstance(value, list) else value


@pytest.mark.repeats("test_key_with_null_where_a_part_must_not_be_is_bad")
def test_message_that_lacks_a_part_that_is_not_null_is_bad(spark, registry) -> None:
    message_class = build_message_class()
    values = [encode_message(registry, "t-value", message_class(**leave_out_nulls(row))) for row, _ in CASES]
    table = describe(KeyFormat(), ValueFormat("protobuf", COLUMNS, options={"registry": registry.url}))
    assert judge(spark, table, values) == EXPECTED


def test_key_with_null_where_a_part_must_not_be_is_bad(spark, registry) -> None:
    columns = (Column("id", "BIGINT"), Column("k", INNER))
    rows = [{"id": n, "k": k} for n, k in enumerate((WHOLE, LACKING, OTHER, None))]
    expected = [(0, (1, 2)), LACKS.format("key", "k", INNER), (2, (3, None)), (3, None)]
    inner = build_record(("a", ["null", "int"]), ("b", ["null", "int"]), name="Inner")
    schema = build_record(("id", "long"), ("k", ["null", inner]), name="Key")
    keys = [encode_avro(registry, "t-key", schema, row) for row in rows]
    assert decode_keys(spark, registry, keys, KeyFormat("avro", ("id", "k"), columns=columns)) == expected
    part = build_message(
        "Inner", build_field("a", 1, "int32", optional=True), build_field("b", 2, "int32", optional=True)
    )
    message_class = build_classes(
        build_file(build_message("Key", build_field("id", 1, "int64"), build_field("k", 2, ".shop.Inner")), part)
    )["shop.Key"]
    registry.subjects.clear()
    keys = [encode_message(registry, "t-key", message_class(**leave_out_nulls(row))) for row in rows]
    assert decode_keys(spark, registry, keys, KeyFormat("protobuf", ("id", "k"), columns=columns)) == expected


@pytest.mark.repeats("test_key_with_null_where_a_part_must_not_be_is_bad")
def test_key_that_is_taken_from_the_value_has_its_required_parts_or_is_bad(spark, registry) -> None:
    values = [encode_avro(registry, "t-value", build_avro_schema(), {"s": s}) for s in (WHOLE, LACKING, None)]
    value = ValueFormat("avro", tuple(replace(c, type=c.type.replace(" NOT NULL", "")) for c in COLUMNS),
                        options={"registry": registry.url})  # fmt: skip
    table = describe(KeyFormat("json", ("s",), columns=(Column("s", INNER),)), value)
    results = decoding.decode(spark, table, [(None, value) for value in values], "key_reason", "key_struct.s.a")
    lacks = LACKS.format("key", "s", INNER)
    assert [(reason, None if reason else a) for reason, a in results] == [(None, 1), (lacks, None), (None, None)]


def test_part_of_another_type_than_the_registered_one_is_still_refused(registry) -> None:
    encode_avro(registry, "t-value", build_avro_schema(), {})
    columns = (Column("s", "STRUCT<`a`: BIGINT NOT NULL, `b`: INT>"),)
    with pytest.raises(ConfigurationError, match="the registered schema has it as"):
        describe(KeyFormat(), ValueFormat("avro", columns, options={"registry": registry.url}))


# the same decoder; bad records are set aside with their offsets in tests of dead letters
@pytest.mark.repeats("test_avro_value_with_null_where_a_part_must_not_be_is_bad")
def test_bad_part_is_named_with_its_offset_and_takes_no_record_down_with_it(workbench, registry) -> None:
    topic = workbench.topic(2)
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    row = build_record(("id", "long"), ("s", ["null", build_record(("a", ["null", "int"]), name="Inner")]))
    workbench.pipeline(
        "parts", [topic], source={"errors": {"tolerance": "all"}},
        key={"format": "avro", "fields": ["id"], "avro": {"registry": registry.url}},
        value={"format": "avro", "schema": "id BIGINT, s STRUCT<a: INT NOT NULL>", "avro": {"registry": registry.url}},
    )  # fmt: skip
    sent = {0: (1, None, 3), 1: (None, 5, None)}
    for partition, numbers in sent.items():
        for at, a in enumerate(numbers):
            written = encode_avro(registry, f"{topic}-value", row, {"id": 10 * partition + at, "s": {"a": a}})
            own = encode_avro(registry, f"{topic}-key", key, {"id": 10 * partition + at})
            workbench.produce(topic, (own, written, {"partition": partition}))
    workbench.flush("parts")
    rows = sorted((row["id"], row["s"]["a"]) for row in workbench.read_rows("shop.parts"))
    assert rows == [(0, 1), (2, 3), (11, 5)]
    letters = workbench.read_rows("shop.tidegate_parts_dead_letters")
    bad = LACKS.format("value", "s", "STRUCT<`a`: INT NOT NULL>")
    dead_letters = sorted((letter["partition"], letter["offset"], letter["message"]) for letter in letters)
    assert dead_letters == [(0, 1, bad), (1, 0, bad), (1, 2, bad)]
