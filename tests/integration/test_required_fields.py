"""Avro, Protobuf and CSV records without a field that they must have: bad, and no row with NULL there."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import decoding
import pytest
from protobuf_messages import build_classes, build_field, build_file, build_message
from registered import build_record, decode_keys, describe, encode_avro, encode_message
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

ID = Column("id", "BIGINT")


LACKS = "the key has schema id={}, whose {} has no field {} of key.fields"


@pytest.mark.repeats(
    "test_avro_key_of_a_version_without_the_keys_field_is_bad_and_not_null[id->user_id]", "user_id->id"
)
@pytest.mark.parametrize("names", [("id", "user_id"), ("user_id", "id")], ids="->".join)
def test_avro_key_of_a_version_without_the_keys_field_is_bad_and_not_null(spark, registry, names: Any) -> None:
    first = build_record((names[0], "long"), name="Key")
    second = build_record((names[1], ["null", "long"]), name="Key")
    keys = [encode_avro(registry, "t-key", first, {names[0]: n}) for n in (1, 2)]
    keys += [encode_avro(registry, "t-key", second, {names[1]: n}) for n in (3, None)]
    lacking = {1: LACKS.format(1, "record", names[1]), 2: LACKS.format(2, "record", names[0])}
    results = decode_keys(spark, registry, keys, KeyFormat("avro", fields=(names[1],)))
    assert results == [lacking[1], lacking[1], (3,), (None,)]
    results = decode_keys(spark, registry, keys, KeyFormat("avro", fields=(names[0],)))
    assert results == [(1,), (2,), lacking[2], lacking[2]]


@pytest.mark.repeats("test_avro_key_of_a_version_without_the_keys_field_is_bad_and_not_null[id->user_id]")
def test_avro_key_field_that_was_renamed_by_an_alias_is_read(spark, registry) -> None:
    old, new = build_record(("id", "long"), name="Key"), build_record(("user_id", ["null", "long"]), name="Key")
    new["fields"][0]["aliases"] = ["id"]
    keys = [encode_avro(registry, "t-key", old, {"id": 1}), encode_avro(registry, "t-key", new, {"user_id": 2})]
    assert decode_keys(spark, registry, keys, KeyFormat("avro", fields=("user_id",))) == [(1,), (2,)]


@pytest.mark.repeats("test_avro_value_that_is_null_where_its_schema_says_not_null_is_bad_and_a_delete_is_not")
def test_avro_key_that_is_null_where_its_schema_says_not_null_is_bad(spark, registry) -> None:
    schema = build_record(("id", ["null", "long"]), ("part", ["null", "string"]), name="Key")
    rows = [{"id": 1, "part": "a"}, {"id": None, "part": "a"}, {"id": 2, "part": None}]
    keys = [encode_avro(registry, "t-key", schema, row) for row in rows]
    columns = (replace(ID, nullable=False), Column("part", "STRING"))
    results = decode_keys(spark, registry, keys, KeyFormat("avro", ("id", "part"), columns=columns))
    assert results == [(1, "a"), "the key field id is required and missing", (2, None)]
    bare = [encode_avro(registry, "t-key", ["null", "long"], n) for n in (7, None)]
    registry.subjects["t-key"] = registry.subjects["t-key"][-1:]
    results = decode_keys(spark, registry, bare, KeyFormat("avro", ("id",), columns=(replace(ID, nullable=False),)))
    assert results == [(7,), "the key field id is required and missing"]


@pytest.mark.repeats(
    "integration/test_avro_bytes.py::test_fixed_schema_that_is_narrower_than_what_producers_write_makes_bad_records_and_no_other_numbers"
)
def test_bare_avro_key_that_its_declared_type_cannot_hold_is_bad_and_ends_no_job(spark, registry) -> None:
    """As a key of Oracle's NUMBER comes: Connect says nothing of its digits."""
    number = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 0}
    keys = [encode_avro(registry, "t-key", number, Decimal(text)) for text in ("1234", "12345", "-9999")]
    results = decode_keys(spark, registry, keys, KeyFormat("avro", ("id",), columns=(Column("id", "DECIMAL(4,0)"),)))
    assert results == [(1234,), "the key field id does not fit its column without loss", (-9999,)]


@pytest.mark.repeats("test_avro_key_of_a_version_without_the_keys_field_is_bad_and_not_null[id->user_id]")
@pytest.mark.parametrize("names", [("id", "user_id"), ("user_id", "id")], ids="->".join)
def test_message_as_key_of_a_version_without_the_keys_field_is_bad_and_not_null(spark, registry, names: Any) -> None:
    first = build_classes(build_file(build_message("Key", build_field(names[0], 1, "int64"))))["shop.Key"]
    second = build_classes(build_file(build_message("Key", build_field(names[1], 2, "int64", optional=True))))[
        "shop.Key"
    ]
    messages = [first(**{names[0]: 1}), first(), second(**{names[1]: 3}), second()]
    keys = [encode_message(registry, "t-key", message) for message in messages]
    lacking = {1: LACKS.format(1, "message", names[1]), 2: LACKS.format(2, "message", names[0])}
    results = decode_keys(spark, registry, keys, KeyFormat("protobuf", fields=(names[1],)))
    assert results == [lacking[1], lacking[1], (3,), (None,)]
    results = decode_keys(spark, registry, keys, KeyFormat("protobuf", fields=(names[0],)))
    assert results == [(1,), (0,), lacking[2], lacking[2]]


@pytest.mark.repeats("test_avro_value_that_is_null_where_its_schema_says_not_null_is_bad_and_a_delete_is_not")
def test_message_as_key_that_is_not_set_where_its_schema_says_not_null_is_bad(spark, registry) -> None:
    message_class = build_classes(
        build_file(build_message("Key", build_field("id", 1, "int64", optional=True), build_field("n", 2, "int32")))
    )["shop.Key"]
    keys = [
        encode_message(registry, "t-key", message)
        for message in (message_class(id=1, n=2), message_class(n=2), message_class(id=3))
    ]
    columns = (replace(ID, nullable=False), Column("n", "INT", nullable=False))
    results = decode_keys(spark, registry, keys, KeyFormat("protobuf", ("id", "n"), columns=columns))
    assert results == [(1, 2), "the key field id is required and missing", (3, 0)]


@pytest.mark.repeats("test_avro_key_of_a_version_without_the_keys_field_is_bad_and_not_null[id->user_id]")
def test_csv_key_of_no_bytes_is_no_key(spark) -> None:
    for columns, text, good in (((ID,), b"5", (5,)), ((ID, Column("n", "INT")), b"5,6", (5, 6))):
        key = KeyFormat("csv", fields=tuple(c.name for c in columns))
        stage = replace(decoding.build_stage_table(ValueFormat("json"), (Column("x", "INT"),), columns), key=key)
        results = decoding.decode(
            spark, stage, [(key, b"{}") for key in (text, b"", b"\n")], "key_struct", "key_reason"
        )
        expected_reason = f"the key is not one line of {len(columns)} columns"
        assert [reason or tuple(values) for values, reason in results] == [good, expected_reason, expected_reason]


def decode_values(spark: Any, table: Any, values: list[bytes | None], *expressions: str) -> list[Any]:
    results = decoding.decode(spark, table, [(None, value) for value in values], "reason", "value_struct", *expressions)
    return [(reason or (row and tuple(row)), *more) for reason, row, *more in results]


MISSING = "the value field name is required and missing"
NAMED = (replace(ID, nullable=False), Column("name", "STRING", nullable=False), Column("note", "STRING"))


def test_avro_value_that_is_null_where_its_schema_says_not_null_is_bad_and_a_delete_is_not(spark, registry) -> None:
    schema = build_record(("id", "long"), ("name", ["null", "string"]), ("note", ["null", "string"]))
    rows = [{"id": 1, "name": "a", "note": None}, {"id": 2, "name": None, "note": "b"}]
    values = [encode_avro(registry, "t-value", schema, row) for row in rows]
    old = build_record(("id", "long"), ("note", ["null", "string"]))  # the version has no such field at all
    values += [encode_avro(registry, "t-value", old, {"id": 3, "note": "c"}), values[0][:-1]]
    registry.subjects["t-value"].reverse()
    for keys in ((), ("id",)):
        table = describe(KeyFormat("json", keys), ValueFormat("avro", NAMED, options={"registry": registry.url}))
        no_key = "the record has no key, and no value to take it from" if keys else None
        assert decode_values(spark, table, [*values, None], "op") == [
            ((1, "a", None), "u"), (MISSING, "u"), (MISSING, "u"),
            ("the value cannot be decoded with its Avro schema", "u"), (no_key, "d"),
        ]  # fmt: skip


def test_change_event_is_bad_for_a_null_in_after_and_not_for_one_in_before(spark, registry) -> None:
    row = build_record(("id", ["null", "long"]), ("name", ["null", "string"]), ("note", ["null", "string"]), name="Row")
    event = build_record(("before", ["null", row]), ("after", ["null", "shop.Row"]), ("op", "string"), name="Event")
    good, null = {"id": 1, "name": "a", "note": None}, {"id": 1, "name": None, "note": "b"}
    no_id = {**good, "id": None}
    events = [
        {"op": "c", "before": None, "after": good}, {"op": "c", "before": None, "after": null},
        {"op": "u", "before": null, "after": good}, {"op": "u", "before": good, "after": null},
        {"op": "d", "before": null, "after": None}, {"op": "d", "before": no_id, "after": None},
        {"op": "c", "before": None, "after": no_id}, {"op": "c", "before": None, "after": None},
    ]  # fmt: skip
    values = [encode_avro(registry, "t-value", event, change) for change in events]
    key = KeyFormat("json", ("id",), columns=(replace(ID, nullable=False),))
    table = describe(key, ValueFormat("debezium-avro", NAMED, options={"registry": registry.url}))
    lacks_key = "the key field id is required and missing"
    assert decode_values(spark, table, values, "op") == [
        ((1, "a", None), "c"), (MISSING, "c"), ((1, "a", None), "u"), (MISSING, "u"),
        (None, "d"), (lacks_key, "d"), (lacks_key, "c"), ("the record has no key, and no value to take it from", "c"),
    ]  # fmt: skip


@pytest.mark.repeats("test_avro_value_that_is_null_where_its_schema_says_not_null_is_bad_and_a_delete_is_not")
def test_message_that_is_not_set_where_its_schema_says_not_null_is_bad_and_a_delete_is_not(spark, registry) -> None:
    fields = (build_field("id", 1, "int64", optional=True), build_field("name", 2, "string", optional=True))
    message_class = build_classes(
        build_file(build_message("Order", *fields, build_field("note", 3, "string", optional=True)))
    )["shop.Order"]
    sent = (message_class(id=1, name=""), message_class(id=2, note="b"), message_class(name="c"))
    values = [encode_message(registry, "t-value", message) for message in sent]
    value = ValueFormat("protobuf", NAMED, options={"registry": registry.url})
    results = decode_values(spark, describe(KeyFormat(), value), [*values, None, values[0] + b"\x08"], "op")
    assert results == [
        ((1, "", None), "u"), (MISSING, "u"), ("the value field id is required and missing", "u"), (None, "d"),
        ("the value is not a Protobuf message of its schema", "u"),
    ]  # fmt: skip
    keyed = describe(KeyFormat("json", ("id",), columns=(replace(ID, nullable=False),)), value)
    results = decode_values(spark, keyed, values)
    assert results == [((1, "", None),), (MISSING,), ("the key field id is required and missing",)]


VALUE_LACKS = "the value has schema id=1, whose {} has no field id of key.fields"


@pytest.mark.repeats("test_avro_key_of_a_version_without_the_keys_field_is_bad_and_not_null[id->user_id]")
def test_key_is_not_taken_from_a_value_whose_version_lacks_its_field(spark, registry) -> None:
    old, new = build_record(("name", "string")), build_record(("name", "string"), ("id", ["null", "long"]))
    values = [
        encode_avro(registry, "t-value", old, {"name": "a"}),
        encode_avro(registry, "t-value", old, {"name": "b"}),
    ]
    values += [encode_avro(registry, "t-value", new, {"name": "c", "id": n}) for n in (3, None)]
    columns = (Column("name", "STRING"), ID)
    table = describe(KeyFormat("json", ("id",)), ValueFormat("avro", columns, options={"registry": registry.url}))
    lacks = VALUE_LACKS.format("record")
    assert decode_values(spark, table, values) == [(lacks,), (lacks,), (("c", 3),), (("c", None),)]
    keyed = decoding.decode(spark, table, [(b"5", value) for value in values], "reason", "key_struct.id")
    assert keyed == [(None, 5)] * 4  # they have a key of their own

    def build_event(row: Any) -> Any:
        return build_record(
            ("before", ["null", row]), ("after", ["null", "shop.Order"]), ("op", "string"), name="Event"
        )

    values = [encode_avro(registry, "e-value", build_event(old), {"before": None, "after": {"name": "a"}, "op": "c"})]
    after = {"before": None, "after": {"name": "c", "id": 3}, "op": "c"}
    values += [encode_avro(registry, "e-value", build_event(new), after)]
    options = {"registry": registry.url, "subject": "e-value"}
    table = describe(KeyFormat("json", ("id",)), ValueFormat("debezium-avro", columns, options=options))
    assert decode_values(spark, table, values) == [(lacks.replace("id=1", "id=3"),), (("c", 3),)]


@pytest.mark.repeats("test_avro_key_of_a_version_without_the_keys_field_is_bad_and_not_null[id->user_id]")
def test_key_is_not_taken_from_a_message_whose_version_lacks_its_field(spark, registry) -> None:
    name = build_field("name", 1, "string")
    old = build_classes(build_file(build_message("Order", name)))["shop.Order"]
    new = build_classes(build_file(build_message("Order", name, build_field("id", 2, "int64"))))["shop.Order"]
    values = [
        encode_message(registry, "t-value", message) for message in (old(name="a"), old(name="b"), new(name="c", id=3))
    ]
    value = ValueFormat("protobuf", (Column("name", "STRING"), ID), options={"registry": registry.url})
    lacks = VALUE_LACKS.format("message")
    results = decode_values(spark, describe(KeyFormat("json", ("id",)), value), values)
    assert results == [(lacks,), (lacks,), (("c", 3),)]


@pytest.mark.repeats(
    "test_row_that_a_condition_deletes_may_lack_what_a_row_must_have[json-values0]", "csv-values1", "msgpack-values2"
)
@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("json", [b'{"id": 1, "gone": "true"}', b'{"id": 1, "name": null, "at": {"a": null}, "gone": "true"}']),
        ("csv", [b"1,,,true"]),
        ("msgpack", [b"\x82\xa2id\x01\xa4gone\xa4true"]),
    ],
)
def test_row_that_a_condition_deletes_may_lack_what_a_row_must_have(spark: Any, word: str, values: list[bytes]) -> None:
    """As Debezium's flattened deletes, and MongoDB's, which show no more than the key."""
    kinds = {"id": "INT NOT NULL", "name": "STRING NOT NULL", "at": "STRUCT<a: INT NOT NULL>", "gone": "STRING"}
    kinds |= {"at": "STRING"} if word == "csv" else {}
    columns = tuple(
        Column(name, kind.removesuffix(" NOT NULL"), nullable=not kind.endswith(" NOT NULL"))
        for name, kind in kinds.items()
    )
    stage = decoding.build_stage_table(ValueFormat(word), columns)
    records = [(None, value) for value in values]
    for condition, ops in (("gone = 'true'", "d"), ("gone = 'no'", "u"), (None, "u")):
        results = decoding.decode(spark, replace(stage, delete_when=condition), records, "op", "reason IS NULL")
        assert results == [(ops, ops == "d")] * len(values)
    retracting = replace(stage, when="gone IS NULL", retracts=("false",))
    assert decoding.decode(spark, retracting, records, "op", "reason") == [("d", None)] * len(values)
    ordered = replace(stage, delete_when="gone = 'true'", sequence=("name",))
    results = decoding.decode(spark, ordered, records, "op", "reason IS NULL")
    assert results == [("d", False)] * len(values), "what orders the delete must be there"
