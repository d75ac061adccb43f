"""Debezium's events of MongoDB, whose rows and keys are texts of extended JSON, on real components."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import decoding
import pytest
from conftest import build_debezium_event
from tidegate.errors import BadRecord
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

OID, OTHER = "596e275826f08b2730779e1f", "596e275826f08b2730779e20"
SCHEMA = "_id STRING, name STRING, n BIGINT, amount DECIMAL(34,20), at TIMESTAMP, raw BINARY, tags ARRAY<STRING>"
LONG = "12345678901234.56789012345678901234"
MS = 1772272800123
AT = datetime(2026, 2, 28, 10, 0, 0, 123000, tzinfo=UTC)
# written, column type, what becomes of it; None: the record is bad
CASES: list[tuple[str, str, Any]] = [
    (f'{{"$oid" : "{OID}"}}', "STRING", OID),
    ('{"$oid": "short"}', "STRING", '{"$oid":"short"}'),
    ('{"$numberLong": "9223372036854775807"}', "BIGINT", 2**63 - 1),
    ('{"$numberLong": "9223372036854775807"}', "STRING", "9223372036854775807"),
    ('{"$numberLong": "9223372036854775808"}', "BIGINT", None),
    ('{"$numberLong": "x"}', "BIGINT", None),
    ('{"$numberInt": "-7"}', "INT", -7),
    (f'{{"$numberDecimal": "{LONG}"}}', "DECIMAL(34,20)", Decimal(LONG)),
    (f'{{"$numberDecimal": "{LONG}"}}', "STRING", LONG),
    (f'{{"$numberDecimal": "{LONG}"}}', "DOUBLE", None),
    ('{"$numberDecimal": "1E+3"}', "DECIMAL(10,2)", Decimal("1000.00")),
    ('{"$numberDecimal": "1.005"}', "DECIMAL(10,2)", None),
    ('{"$numberDecimal": "NaN"}', "DECIMAL(10,2)", None),
    ('{"$numberDouble": "0.1"}', "DOUBLE", 0.1),
    ('{"$numberDouble": "-Infinity"}', "DOUBLE", float("-inf")),
    (f'{{"$date": {MS}}}', "TIMESTAMP", AT),
    (f'{{"$date" : {{"$numberLong" : "{MS}"}}}}', "TIMESTAMP", AT),
    ('{"$date": "2026-02-28T10:00:00.123Z"}', "TIMESTAMP", AT),
    ('{"$date": -62135596800000}', "TIMESTAMP_NTZ", datetime(1, 1, 1)),
    ('{"$date": 253402300800000}', "TIMESTAMP", None),
    ('{"$date": 9223372036854775807}', "TIMESTAMP", None),
    (f'{{"$date": {MS}}}', "BIGINT", None),
    ('{"$binary": {"base64": "AAH/", "subType": "00"}}', "BINARY", b"\x00\x01\xff"),
    ('{"$binary" : "AAH/", "$type" : "00"}', "BINARY", b"\x00\x01\xff"),
    ('{"$uuid": "73ffd264-44b3-4c69-90e8-e7d1dfc035d4"}', "STRING", "73ffd264-44b3-4c69-90e8-e7d1dfc035d4"),
    ('{"$timestamp": {"t": 5, "i": 1}}', "STRUCT<`$timestamp`: STRUCT<t: BIGINT, i: INT>>", ((5, 1),)),
    (r'"a {\"$oid\": \"596e275826f08b2730779e1f\"} {"', "STRING", 'a {"$oid": "596e275826f08b2730779e1f"} {'),
    ('[{"$numberLong": "1"}, {"$numberLong": "2"}]', "ARRAY<BIGINT>", [1, 2]),
    (f'{{"a": {{"$date": {MS}}}, "b": {{"$date": {MS + 1}}}}}', "STRUCT<a: TIMESTAMP, b: STRING>",
     (AT, "2026-02-28T10:00:00.124Z")),
    ('{"x": {"$numberDecimal": "1.10"}}', "MAP<STRING, DECIMAL(5,2)>", {"x": Decimal("1.10")}),
    ("19.90", "STRING", "19.90"),
    ("null", "BIGINT", "null"),
]  # fmt: skip


def convert_like(value: Any, like: Any) -> Any:
    """The value in the form of the expected one: Spark returns times without a zone, in this machine's zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if isinstance(like, datetime) and like.tzinfo else value
    if isinstance(value, tuple) and isinstance(like, tuple):
        return tuple(convert_like(*pair) for pair in zip(value, like, strict=True))
    return bytes(value) if isinstance(value, bytearray) else value


def test_each_wrapper_is_the_value_in_it_or_its_record_is_bad(spark) -> None:
    columns = tuple(Column(f"c{number}", kind) for number, (_, kind, _) in enumerate(CASES))
    stage = decoding.build_stage_table(ValueFormat("debezium-json"), columns)
    texts = [f'{{"c{number}": {text}}}' for number, (text, _, _) in enumerate(CASES)]
    for_each = [(n, is_wrapped) for n in range(len(CASES)) for is_wrapped in (False, True)]
    events = [build_debezium_event("u", None, texts[n], envelope=is_wrapped) for n, is_wrapped in for_each]
    decoded = decoding.decode_values(spark, stage, [json.dumps(event).encode() for event in events])
    wrong = []
    for (n, is_wrapped), (reason, row) in zip(for_each, decoded, strict=True):
        expected = CASES[n][2]
        value = None if reason else "null" if row[f"c{n}"] is None else convert_like(row[f"c{n}"], expected)
        if value != expected:
            wrong.append((CASES[n], is_wrapped, value, reason))
    assert wrong == []


@pytest.mark.repeats("test_each_wrapper_is_the_value_in_it_or_its_record_is_bad")
def test_extended_json_is_read_in_plain_json_too(spark) -> None:
    columns = (Column("_id", "STRING"), Column("n", "BIGINT"), Column("at", "TIMESTAMP_NTZ"))
    stage = decoding.build_stage_table(ValueFormat("json", options={"extended": True}), columns)
    text = f'{{"_id": {{"$oid": "{OID}"}}, "n": {{"$numberLong": "5"}}, "at": {{"$date": {MS}}}}}'
    ((reason, row),) = decoding.decode_values(spark, stage, [text.encode()])
    assert (reason, tuple(row)) == (None, (OID, 5, AT.replace(tzinfo=None)))


def decode_keys(spark: Any, kind: str, *texts: str) -> list[tuple[Any, str | None]]:
    """Each text as the key of a document, and why it is bad; in an envelope it is the same."""
    columns, key = (Column("id", kind),), KeyFormat(fields=("id",), options={"extended": True})
    stage = replace(decoding.build_stage_table(ValueFormat("debezium-json"), columns, columns), key=key)
    bare = [{"id": text} for text in texts]
    keys = [*bare, *({"schema": {}, "payload": each} for each in bare)]
    decoded = decoding.decode_keys(spark, stage, [json.dumps(each).encode() for each in keys])
    assert decoded[len(texts) :] == decoded[: len(texts)]
    return decoded[: len(texts)]


@pytest.mark.repeats("test_keys_of_two_types_are_two_rows_or_bad[STRING]")
def test_key_is_the_value_in_its_text(spark) -> None:
    """In an envelope and without; that of a document is flushed under the name `_id` below."""
    struct = '{"a" : 1, "b" : "x"}'
    *good_keys, broken = decode_keys(spark, "STRING", f'{{"$oid" : "{OID}"}}', '"12 \\" {34"', '"1004"', struct, "abc")
    assert good_keys == [(value, None) for value in (OID, '12 " {34', "1004", '{"a":1,"b":"x"}')]
    assert broken[1] == "the key is not a JSON object that fits the key columns"


UUID_TEXT = "73ffd264-44b3-4c69-90e8-e7d1dfc035d4"
UUID_BYTES = "c//SZESzTGmQ6OfR38A11A=="
IDS = [
    "1004", '"1004"', '{"$numberLong": "1004"}', '{"$numberDecimal": "1004"}', f'{{"$oid": "{OID}"}}', f'"{OID}"',
    "true", '"true"', f'{{"$date": {MS}}}', '"2026-02-28T10:00:00.123Z"', f'{{"$uuid": "{UUID_TEXT}"}}',
    f'"{UUID_TEXT}"', f'{{"$binary": "{UUID_BYTES}", "$type": "04"}}', f'{{"$binary": "{UUID_BYTES}", "$type": "00"}}',
    '{"$binary": {"base64": "AAH/", "subType": "00"}}', '"AAH/"', '{"a": 1}', '{"a": "1"}', '"{\\"a\\":1}"',
    f'{{"a": {{"$oid": "{OID}"}}}}', '{"$timestamp": {"t": 5, "i": 1}}', "[1]", '{"$symbol": "1004"}',
    '{"a": 1, "b": 2}', '{"a": null}', '{"a": {"$numberLong": "1"}}', '{"a": {"$numberDecimal": "1"}}',
]  # fmt: skip
# numbers are equal in MongoDB, however they are written, and documents with them
NUMBERS = {0, 2, 3}
DOCUMENTS = {16, 25}


@pytest.mark.repeats(
    "test_keys_of_two_types_are_two_rows_or_bad[STRING]",
    "BIGINT",
    "DECIMAL(12,2)",
    "DOUBLE",
    "BOOLEAN",
    "TIMESTAMP",
    "DATE",
    "BINARY",
    "STRUCT<a: STRING>",
    "STRUCT<a: INT>",
)
@pytest.mark.parametrize(
    "kind",
    ["STRING", "BIGINT", "DECIMAL(12,2)", "DOUBLE", "BOOLEAN", "TIMESTAMP", "DATE", "BINARY", "STRUCT<a: STRING>",
     "STRUCT<a: INT>"],
)  # fmt: skip
def test_keys_of_two_types_are_two_rows_or_bad(spark, kind: str) -> None:
    numbers: dict[Any, set[int]] = {}
    for number, (key, reason) in enumerate(decode_keys(spark, kind, *IDS)):
        if reason is None:
            numbers.setdefault(key, set()).add(number)
    assert None not in numbers
    assert [group for group in numbers.values() if len(group) > 1 and not group <= NUMBERS and group != DOCUMENTS] == []
    assert numbers or kind == "DATE"


@pytest.mark.repeats("test_keys_of_two_types_are_two_rows_or_bad[STRING]")
@pytest.mark.parametrize("options", [{"numbers": "lenient"}, {}])
def test_text_is_no_number_among_keys_and_the_reason_names_both(spark, options: dict[str, str]) -> None:
    columns = (Column("Id", "BIGINT"),)
    key = KeyFormat(fields=("Id",), options={"extended": True, **options})
    stage = replace(decoding.build_stage_table(ValueFormat("debezium-json"), columns, columns), key=key)
    texts = [b'{"id": "1004"}', b'{"id": "\\"1004\\""}', b'{"ID": "1004"}']
    good, text, _ = decoding.decode_keys(spark, stage, texts)
    assert good == (1004, None)
    assert "the key field Id holds a text, which a column BIGINT does not keep apart" in str(text[1])


@pytest.mark.repeats("test_keys_of_two_types_are_two_rows_or_bad[STRING]")
@pytest.mark.parametrize("word", ["json", "debezium-json"])
def test_keys_of_two_types_that_are_taken_from_the_document_are_not_one_row(spark, word: str) -> None:
    columns = (Column("_id", "STRING"), Column("n", "INT"))
    key = KeyFormat(fields=("_id",), from_value=True)
    options = {"extended": True} if word == "json" else {}
    stage = replace(decoding.build_stage_table(ValueFormat(word, options=options), columns, columns[:1]), key=key)
    texts = [f'{{"_id": {id}, "n": 1}}' for id in ("1004", '"1004"', f'{{"$oid": "{OID}"}}', f'"{OID}"')]
    values = texts if word == "json" else [json.dumps(build_debezium_event("c", None, text)) for text in texts]
    records = [(b"any", value.encode()) for value in values]
    results = decoding.decode(spark, stage, records, "key_struct._id", "fate", "key_reason")
    assert [fate for _, fate, _ in results] == ["bad", "staged", "staged", "bad"]
    assert [key for key, fate, _ in results if fate == "staged"] == ["1004", OID]
    assert "the key field _id holds a number, which a column STRING does not keep apart" in results[0][2]


@pytest.mark.repeats("test_keys_of_two_types_are_two_rows_or_bad[STRING]")
def test_ids_of_several_types_are_rows_of_their_own_where_the_key_is_left_as_it_is(workbench) -> None:
    """The text of the key keeps its type; read as a value, the first number among texts stops the flush."""
    topic = workbench.topic()
    ids = ["1004", '"1004"', f'{{"$oid": "{OID}"}}', f'"{OID}"']
    value = {"format": "debezium-json", "schema": "name STRING"}
    workbench.pipeline("ids", [topic], key={"fields": ["id"], "schema": "id STRING"}, value=value)

    def build_change(op: str, id: str) -> tuple[Any, Any]:
        return {"id": id}, build_debezium_event(op, None, None if op == "d" else json.dumps({"name": id}))

    workbench.produce(topic, *(build_change("c", id) for id in ids))
    workbench.flush("ids")
    workbench.produce(topic, build_change("d", '"1004"'), ({"id": '"1004"'}, None))
    workbench.flush("ids")
    assert sorted((row["id"], row["name"]) for row in workbench.read_rows("shop.ids")) == sorted(
        (id, id) for id in ids if id != '"1004"'
    )
    key = {"fields": ["_id"], "schema": "_id STRING", "json": {"extended": True}}
    workbench.pipeline("read_ids", [topic], key=key, value=value)
    with pytest.raises(BadRecord, match="the key field _id holds a number"):
        workbench.flush("read_ids")


# the text becomes plain JSON whatever the column's type is; keys of plain JSON of all types are read in their tests
@pytest.mark.repeats("test_keys_of_two_types_are_two_rows_or_bad[STRING]")
@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("BIGINT", ("1004", '{"$numberLong" : "1005"}'), [1004, 1005]),
        ("STRUCT<a: INT, b: STRING>", ('{"a" : 1, "b" : "x"}',), [(1, "x")]),
    ],
    ids=["BIGINT", "STRUCT"],
)
def test_key_of_another_type_is_the_value_in_its_text(spark, kind: str, texts: tuple[str, ...], values: Any) -> None:
    assert decode_keys(spark, kind, *texts) == [(value, None) for value in values]


MONGODB = {"connector": "mongodb", "collection": "orders"}
NO_DOCUMENT = "has no after: op=u (MongoDB's connector sent no document: set capture.mode=change_streams_update_full"
WITHOUT_ROW = [
    (build_debezium_event("u", None, None, updateDescription={"updatedFields": '{"n": 1}'}), NO_DOCUMENT),
    (build_debezium_event("u", None, None, source=MONGODB), NO_DOCUMENT),
    (build_debezium_event("u", None, None, source=MONGODB, envelope=True), NO_DOCUMENT),
    (build_debezium_event("u", '{"n": 1}', None, source=MONGODB), NO_DOCUMENT),
    (build_debezium_event("u", None, None, source=MONGODB, filter='{"n": 1}', patch='{"$set": {"n": 1}}'), NO_DOCUMENT),
    ({"updateDescription": {"updatedFields": '{"n": 1}'}}, "the change event has no op"),
    (build_debezium_event("u", None, "null", source=MONGODB), "before or after is a text, and not one JSON object"),
    (build_debezium_event("u", None, '{"n": 1'), "before or after is a text, and not one JSON object"),
    (build_debezium_event("u", None, '{"n": 1}, "op": "d"'), "before or after is a text, and not one JSON object"),
    (build_debezium_event("u", None, "[]"), "before or after is a text, and not one JSON object"),
    (build_debezium_event("u", None, '{"other": 1}'), "none of the columns"),
]
OF_ANOTHER_SOURCE = build_debezium_event("u", None, None)


def test_event_without_its_row_is_bad(spark) -> None:
    stage = decoding.build_stage_table(ValueFormat("debezium-json"), (Column("n", "BIGINT"),))
    events = [*(event for event, _ in WITHOUT_ROW), OF_ANOTHER_SOURCE]
    *reasons, reason_of_another = decoding.read_reasons(spark, stage, [json.dumps(event).encode() for event in events])
    pairs = zip(WITHOUT_ROW, reasons, strict=True)
    assert [(part, reason) for (_, part), reason in pairs if part not in str(reason)] == []
    assert reason_of_another == "the change event has no after: op=u"


def build_document(oid: str, n: int, **more: Any) -> str:
    return json.dumps({
        "_id": {"$oid": oid}, "name": "a", "n": {"$numberLong": str(n)}, "amount": {"$numberDecimal": LONG},
        "at": {"$date": MS}, "raw": {"$binary": "AAH/", "$type": "00"}, "tags": ["x", "{y"], **more,
    })  # fmt: skip


def build_expected_row(oid: str, n: int) -> dict[str, Any]:
    return {
        "_id": oid, "name": "a", "n": n, "amount": Decimal(LONG), "at": AT, "raw": b"\x00\x01\xff", "tags": ["x", "{y"],
        "collection": "orders",
    }  # fmt: skip


# the same batches; without the envelope each event is decoded in tests of its format
@pytest.mark.repeats(
    "integration/test_debezium_flush.py::test_inserts_updates_deletes_and_their_tombstones_over_several_batches[True]"
)
def test_documents_are_inserted_replaced_and_deleted_without_a_row_before(workbench) -> None:
    topic = workbench.topic()
    key = {"fields": ["_id"], "schema": "_id STRING", "json": {"extended": True}}
    value = {"format": "debezium-json", "schema": SCHEMA}
    metadata = {"collection": "value.source.table"}
    workbench.pipeline("documents", [topic], key=key, value=value, source={"metadata": metadata})

    def build_change(oid: str, op: str, after: str | None = None) -> tuple[Any, Any]:
        source = {"connector": "mongodb", "collection": "orders", "ts_ms": MS}
        return {"id": f'{{"$oid": "{oid}"}}'}, build_debezium_event(op, None, after, source=source)

    third = OID[:-1] + "0"
    workbench.produce(topic, *(build_change(oid, "r", build_document(oid, 1)) for oid in (OID, OTHER, third)))
    workbench.flush("documents")
    workbench.produce(
        topic,
        build_change(OID, "u", build_document(OID, 2**60)),
        build_change(OTHER, "d"),
        ({"id": f'{{"$oid": "{OTHER}"}}'}, None),
        ({"id": f'{{"$oid": "{third}"}}'}, None),
    )
    workbench.flush("documents")
    assert workbench.read_rows("shop.documents") == [build_expected_row(OID, 2**60)]
    workbench.produce(topic, build_change(OID, "u"))
    with pytest.raises(BadRecord, match=r"has no after: op=u \(.*set capture\.mode=change_streams_update_full"):
        workbench.flush("documents")
    assert workbench.read_rows("shop.documents") == [build_expected_row(OID, 2**60)], "neither deleted nor emptied"
