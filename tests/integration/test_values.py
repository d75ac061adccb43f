"""Each value lands as it was written, or its record is bad: every format, type and edge, on real Spark."""

import csv
import io
import json
from base64 import b64encode
from dataclasses import replace
from datetime import datetime
from typing import Any

import decoding
import msgpack
import pytest
import value_cases
from protobuf_messages import a_file, entry, field, message
from tidegate.adapters.schema_registry.client import Version
from tidegate.adapters.schema_registry.protobuf_descriptors import from_registry
from tidegate.schema.column import Column
from tidegate.schema.protobuf import to_column_type
from tidegate.spec.formats import KeyFormat, ValueFormat
from value_cases import BAD, Case

FORMATS = {
    "json": value_cases.JSON,
    "debezium-json": value_cases.JSON,
    "maxwell-json": value_cases.JSON,
    "ogg-json": value_cases.JSON,
    "csv": value_cases.TEXT + value_cases.CSV,
    "canal-json": value_cases.TEXT + value_cases.CANAL,
    "canal-json with values of JSON": value_cases.CANAL_JSON,
    "msgpack": value_cases.MSGPACK,
}


def record(word: str, number: int, count: int, text: str) -> bytes:
    """A record of one column, which is written as `text`."""
    if word == "csv":
        line = io.StringIO()
        csv.writer(line).writerow([text if n == number else "" for n in range(count)])
        return line.getvalue().encode()
    if word == "msgpack":
        return b"\x81" + msgpack.packb(f"c{number}") + bytes.fromhex(text)
    row = f'{{"c{number}": {json.dumps(text) if word == "canal-json" else text}}}'
    return {
        "json": row,
        "debezium-json": f'{{"op": "c", "after": {row}}}',
        "maxwell-json": f'{{"type": "insert", "data": {row}}}',
        "ogg-json": f'{{"op_type": "I", "after": {row}}}',
        "canal-json": f'{{"type": "INSERT", "data": [{row}]}}',
        "canal-json with values of JSON": f'{{"type": "INSERT", "es": 1772272800000, "data": [{row}]}}',
    }[word].encode()


def written(value: Any) -> str:
    """A value with all of its digits."""
    if isinstance(value, list):
        value = [tuple(one) if hasattr(one, "asDict") else one for one in value]
    if isinstance(value, dict):
        value = {name: tuple(one) if hasattr(one, "asDict") else one for name, one in value.items()}
    return str(tuple(map(written, value)) if isinstance(value, tuple) else value)


@pytest.mark.parametrize("word", FORMATS)
def test_value_is_what_was_written_or_its_record_is_bad(spark, word: str) -> None:
    cases = FORMATS[word]
    columns = tuple(Column(f"c{number}", case.type) for number, case in enumerate(cases))
    units = {f"c{number}": case.unit for number, case in enumerate(cases) if case.unit}
    told: dict[str, dict[str, str]] = {"numbers": {}, "binary": {}, "nanoseconds": {}}
    for number, case in enumerate(cases):
        if case.option:
            option, _, given = case.option.rpartition(".")[2].partition(": ")
            told[option][f"c{number}"] = given
    finer = told.pop("nanoseconds")
    fmt = ValueFormat(word.partition(" ")[0], timestamp_unit=units or None, options={**told}, nanoseconds=finer)
    stage = decoding.a_stage(fmt, columns)
    values = [record(word, number, len(cases), case.text) for number, case in enumerate(cases)]
    found = [_made(*one) for one in zip(range(len(cases)), cases, decoding.values(spark, stage, values), strict=True)]
    wrong = [(case, made) for case, made in zip(cases, found, strict=True) if written(case.value) != written(made)]
    assert wrong == []


def _made(number: int, case: Case, decoded: tuple[str | None, Any]) -> Any:
    reason, row = decoded
    if reason is not None:
        return BAD
    value = row[f"c{number}"]
    zoned = value is not None and case.type == "TIMESTAMP"
    return value.astimezone(value_cases.UTC) if zoned else tuple(value) if hasattr(value, "asDict") else value


@pytest.mark.parametrize("kind", dict.fromkeys(case.type for case in value_cases.PROTOBUF))
def test_protobuf_is_what_was_written_or_its_record_is_bad(spark, kind: str) -> None:
    cases = [case for case in value_cases.PROTOBUF if case.type == kind]
    options = protobuf_options(kind)
    (own,) = options["shape"]["fields"]
    stage = decoding.a_stage(ValueFormat("protobuf", options=options), (Column("v", to_column_type(own["shape"])),))
    values = [b"\0\0\0\0\1\0" + bytes.fromhex(case.text) for case in cases]
    found = [BAD if reason else row.v for reason, row in decoding.values(spark, stage, values)]
    made = [
        tuple(one) if hasattr(one, "asDict") else bytes(one) if isinstance(one, bytearray) else one for one in found
    ]
    made = [one.replace(tzinfo=value_cases.UTC) if isinstance(one, datetime) else one for one in made]
    wrong = [(case, one) for case, one in zip(cases, made, strict=True) if written(case.value) != written(one)]
    assert wrong == []


def protobuf_options(kind: str) -> dict[str, Any]:
    """How messages of one field of this type are read, as the registry's schema says."""
    word, name = kind.rpartition(" ")[::2]
    inside = message("Inside", field("x", 1, "int32"))
    kinds = {
        "enum": "enum:.shop.State",
        "message": ".shop.Inside",
        "group": ".shop.Row.V",
        "int32>": ".shop.Row.VEntry",
    }
    known = f".google.protobuf.{name}" if name[0].isupper() else name
    own = field(
        "v", 1, kinds.get(name, known), repeated=name == "int32>" or word == "repeated", optional=word == "optional"
    )
    nested = (entry("VEntry", "string", "int32"), message("V", field("x", 1, "int32")))
    is_old = kind in ("required int32", "closed enum", "group")
    file = a_file(
        message("Row", own, nested=nested), inside, enums={"State": {"NONE": 0, "OPEN": 1, "SHUT": 2, "DONE": 2}},
        syntax="proto2" if is_old else "proto3",
    )  # fmt: skip
    file.enum_type[0].options.allow_alias = True
    described = file.message_type[0].field[0]
    described.label = 2 if word == "required" else described.label
    described.type = 10 if kind == "group" else described.type
    return from_registry([Version(1, "PROTOBUF", b64encode(file.SerializeToString()).decode(), {})], "shop.Row")


@pytest.mark.parametrize("part", ["key", "value"])
def test_raw_bytes_are_what_kafkas_serializers_wrote_or_their_record_is_bad(spark, part: str) -> None:
    wrong = []
    for kind, option in {(case.type, case.option): None for case in value_cases.RAW}:
        cases = [case for case in value_cases.RAW if (case.type, case.option) == (kind, option)]
        column, options = Column("n", kind), {"endianness": "little"} if option else {}
        texts = [bytes.fromhex(case.text) for case in cases]
        if part == "value":
            stage = decoding.a_stage(ValueFormat("raw", options=options), (column,))
            found = [(reason, row.n if row else None) for reason, row in decoding.values(spark, stage, texts)]
        else:
            stage = decoding.a_stage(ValueFormat("json"), (Column("x", "INT"),), keys=(column,))
            stage = replace(stage, key=KeyFormat("raw", ("n",), options=options))
            found = [(reason, value) for value, reason in decoding.keys(spark, stage, texts)]
        made = [BAD if reason else bytes(value) if kind == "BINARY" else value for reason, value in found]
        wrong += [(case, one) for case, one in zip(cases, made, strict=True) if written(case.value) != written(one)]
    assert wrong == []


def test_raw_says_how_many_bytes_a_bad_number_has(spark) -> None:
    stage = decoding.a_stage(ValueFormat("raw"), (Column("n", "BIGINT"),))
    assert decoding.reasons(spark, stage, [b"\x00\x07", None, bytes(8)]) == [
        "the value is not a BIGINT of 8 bytes, but of 2", None, None]  # fmt: skip


@pytest.mark.parametrize("numbers", ["lenient", {"ID": "lenient"}])
def test_key_that_is_sent_as_text_is_the_number_where_that_is_asked_for(spark, numbers: Any) -> None:
    texts = [b'"7"', b"7", b'{"id": "7"}', b'{"id":7}', b'{"id": " 7"}', b'"x"']
    stage = decoding.a_stage(ValueFormat("json"), (Column("x", "INT"),), keys=(Column("id", "BIGINT"),))
    lenient = replace(stage, key=KeyFormat("json", ("id",), options={"numbers": numbers}))
    found = decoding.keys(spark, lenient, texts)
    assert [BAD if reason else value for value, reason in found] == [7, 7, 7, 7, BAD, BAD]
    strict = decoding.keys(spark, stage, texts)
    assert [BAD if reason else value for value, reason in strict] == [BAD, 7, BAD, 7, BAD, BAD]


def test_key_that_is_taken_from_the_value_is_as_lenient_as_the_value(spark) -> None:
    columns = (Column("id", "BIGINT"), Column("x", "INT"))
    stage = decoding.a_stage(ValueFormat("json", options={"numbers": {"id": "lenient"}}), columns, keys=columns[:1])
    values = [(None, b'{"id": "7", "x": 1}'), (None, b'{"id": 8, "x": "1"}')]
    (row, bad) = decoding.decoded(spark, stage, values, "reason", "key_struct.id", "value_struct.id")
    assert row == (None, 7, 7)
    assert bad[0] == "the value does not fit value.schema, fields: x"


@pytest.mark.parametrize("word", ["json", "debezium-json"])
def test_key_is_the_number_that_was_written_also_in_an_envelope(spark, word: str) -> None:
    texts = [b"841e19", b'"841e19"', b'{"id": 841e19}', b'{"payload": {"id": 841e19}}']
    texts += [b'{"id": 9007199254740993e3}', b'{"payload": {"id": 0.1000000000000000055}}']
    texts += [b'{"payload": 841e19}', b'{"schema": {"type": "x"}, "payload": 0.1000000000000000055}']
    stage = decoding.a_stage(ValueFormat(word), (Column("x", "INT"),), keys=(Column("id", "DECIMAL(38,2)"),))
    found = decoding.keys(spark, stage, texts)
    whole = "8410000000000000000000.00"
    made = [*[whole] * 4, "9007199254740993000.00", BAD, whole, BAD]
    assert [BAD if reason else str(value) for value, reason in found] == made


@pytest.mark.parametrize("word", ["json", "debezium-json"])
def test_bare_key_in_an_envelope_is_the_text_that_was_written(spark, word: str) -> None:
    numbers = ["19.90", "1e5", "1E400", "841e19", "123456789012345678901234567890.10", "-7", "7", "1" * 50]
    texts = [('"\\u0016\\u00161.50 \\\\u0016"', "\x16\x161.50 \\u0016"), ('"1.50"', "1.50"), ('"a\\"b"', 'a"b')]
    cases = [(number, number) for number in numbers] + texts
    stage = decoding.a_stage(ValueFormat(word), (Column("x", "INT"),), keys=(Column("id", "STRING"),))
    schema = '{"type": "double", "version": 1.50, "optional": false}'
    for envelope in ('{"payload": %s}', '{"schema": SCHEMA, "payload": %s}'.replace("SCHEMA", schema)):
        found = decoding.keys(spark, stage, [(envelope % text).encode() for text, _ in cases])
        assert found == [(value, None) for _, value in cases]


def test_row_before_a_delete_is_ordered_by_the_number_that_was_written(spark) -> None:
    columns = (Column("id", "BIGINT"), Column("n", "DECIMAL(38,2)"))
    stage = decoding.a_stage(ValueFormat("debezium-json"), columns, keys=columns[:1], sequence=("n",))
    event = b'{"op": "d", "after": null, "before": {"id": 1, "n": 841e19}}'
    values = [(b'{"id": 1}', one) for one in (event, b'{"payload": ' + event + b"}")]
    found = decoding.decoded(spark, stage, values, "value_reason", "sequence.n")
    assert [(reason, str(n)) for reason, n in found] == [(None, "8410000000000000000000.00")] * 2


@pytest.mark.parametrize(
    ("word", "options", "text"),
    [
        ("json", {}, '{"id": %s, "n": 1}'),
        ("json", {"envelope": True}, '{"payload": {"id": %s, "n": 1}}'),
        ("debezium-json", {}, '{"op": "c", "after": {"id": %s, "n": 1}}'),
        ("debezium-json", {}, '{"payload": {"op": "d", "before": {"id": %s, "n": 1}, "after": null}}'),
    ],
)
def test_key_in_a_value_that_is_not_of_its_type_is_bad_and_not_missing(
    spark, word: str, options: Any, text: str
) -> None:
    """The value's own columns do not hold the key: nothing else would notice."""
    stage = decoding.a_stage(ValueFormat(word, options=options), (Column("n", "INT"),), keys=(Column("id", "BIGINT"),))
    values = [(None, (text % one).encode()) for one in ("7", "null", '"x"', "1.5", "9223372036854775808", "[1]")]
    found = decoding.decoded(spark, stage, values, "reason", "key_struct.id")
    bad = "the key field id is not a BIGINT"
    assert found[:2] == [(None, 7), (None, None)]
    assert [reason for reason, _ in found[2:]] == [bad] * 4
