"""Each value lands as it was written, or its record is bad: every format, type and edge, on real Spark."""

import csv
import io
import json
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import decoding
import msgpack
import pytest
import value_cases
from protobuf_schemas import PROTO2_TYPES, build_options_of_types, encode_cases, list_types
from tidegate.schema.avro import to_columns
from tidegate.schema.avro_resolution import plan_decoding
from tidegate.schema.data_types import Column
from tidegate.schema.protobuf import to_column_type
from tidegate.spec.source import KeyFormat, ValueFormat
from value_cases import BAD, DELETE, Case

SCHEMA = "schema: "
# what arrives as a TIMESTAMP
ZONED = (
    "Timestamp", "TIMESTAMP", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "Debezium's ZonedTimestamp",
)  # fmt: skip
FORMATS = {
    "json": value_cases.JSON,
    "json in an envelope": value_cases.JSON,
    "json with its schema": value_cases.CONNECT,
    "debezium-json": value_cases.JSON,
    "debezium-json in an envelope": value_cases.JSON,
    "debezium-json with its schema": value_cases.CONNECT,
    "maxwell-json": value_cases.JSON,
    "ogg-json": value_cases.JSON,
    "csv": value_cases.TEXT + value_cases.CSV,
    "canal-json": value_cases.TEXT + value_cases.CANAL,
    "canal-json with values of JSON": value_cases.CANAL_JSON,
    "msgpack": value_cases.MSGPACK,
}


Kind = tuple[str, str | None, str | None, bool]


def build_kind(case: Case) -> Kind:
    """The kind of column that a case needs; cases of one kind share it. A field that may be missing sorts last."""
    return (case.type, case.unit, case.option, is_not_there(case))


def list_kinds(cases: tuple[Case, ...]) -> list[Kind]:
    """The columns: one for all cases that are read alike. One for each case takes Spark ten times as long to plan."""
    return sorted(dict.fromkeys(map(build_kind, cases)), key=lambda kind: kind[-1])


def encode_record(word: str, case: Case, kinds: list[Kind]) -> bytes:
    """A record of one column, which is written as the case says, or is not there."""
    text, is_missing, number = case.text, is_not_there(case), kinds.index(build_kind(case))
    other = f"c{(number + 1) % len(kinds)}"
    if word == "csv":
        line = io.StringIO()
        csv.writer(line).writerow([text if n == number else "" for n in range(len(kinds) - is_missing)])
        return line.getvalue().encode()
    if word == "msgpack":
        return b"\x81" + (
            msgpack.packb(other) + b"\xc0" if is_missing else msgpack.packb(f"c{number}") + bytes.fromhex(text)
        )
    row = f'{{"c{number}": {json.dumps(text) if word == "canal-json" else text}}}'
    row = f'{{"{other}": null}}' if is_missing else row
    schema = json.dumps([describe_kind(f"c{n}", kind) for n, kind in enumerate(kinds)]) if "schema" in word else ""
    return {
        "json": row,
        "json in an envelope": f'{{"payload": {row}}}',
        "json with its schema": f'{{"schema": {{"fields": {schema}}}, "payload": {row}}}',
        "debezium-json": f'{{"op": "c", "after": {row}}}',
        "debezium-json in an envelope": f'{{"schema": null, "payload": {{"op": "c", "after": {row}}}}}',
        "debezium-json with its schema": f'{{"schema": {{"fields": [{{"field": "after", "fields": {schema}}}]}}, '
        f'"payload": {{"op": "c", "after": {row}}}}}',
        "maxwell-json": f'{{"type": "insert", "data": {row}}}',
        "ogg-json": f'{{"op_type": "I", "after": {row}}}',
        "canal-json": f'{{"type": "INSERT", "data": [{row}]}}',
        "canal-json with values of JSON": f'{{"type": "INSERT", "es": 1772272800000, "data": [{row}]}}',
    }[word].encode()


def is_not_there(case: Case) -> bool:
    return case.edge == "missing" and case.text == value_cases.NOTHING


def describe_kind(field: str, column: Kind) -> dict[str, Any]:
    """The field in Kafka Connect's schema; what the option names is that of the parts in a list, a map or a struct."""
    of_type, _, option, _ = column
    name, _, scale = (option or "").removeprefix(SCHEMA).partition(" scale=")
    kind: dict[str, Any] = {"name": name, "type": "x", **({"parameters": {"scale": scale}} if scale else {})}
    parts = {"ARRAY": {"items": kind}, "MAP": {"values": kind}, "STRUCT": {"fields": [{"field": "a", **kind}]}}
    return {"field": field, **parts.get(of_type.partition("<")[0], kind)}


def format_value(value: Any) -> str:
    """A value with all of its digits."""
    if isinstance(value, list):
        value = [tuple(element) if hasattr(element, "asDict") else element for element in value]
    if isinstance(value, dict):
        value = {name: tuple(element) if hasattr(element, "asDict") else element for name, element in value.items()}
    return str(tuple(map(format_value, value)) if isinstance(value, tuple) else value)


# the same decoders, below other envelopes
@pytest.mark.repeats(
    "test_value_is_what_was_written_or_its_record_is_bad[csv]", "canal-json", "canal-json with values of JSON"
)
@pytest.mark.guard(
    "a number is read with all of its digits",
    file="jobs/tidegate_spark/fields/lossless.py",
    text='guarded_type = "VARIANT" if _is_variant(data_type) else',
    off='guarded_type = "DOUBLE" if data_type.decimal else',
    case="json",
)
@pytest.mark.guard(
    "a local time that its zone skips is a bad value",
    file="jobs/tidegate_spark/fields/lossless.py",
    text="{render_ends_without_name(text)} THEN {cast} ",
    off="true THEN {cast} ",
    case="json",
)
@pytest.mark.repeats(
    "test_value_is_what_was_written_or_its_record_is_bad[json]",
    "debezium-json",
    "ogg-json",
    "maxwell-json",
    "json in an envelope",
    "debezium-json in an envelope",
)
@pytest.mark.repeats(
    "test_value_is_what_was_written_or_its_record_is_bad[json with its schema]", "debezium-json with its schema"
)
@pytest.mark.parametrize("word", FORMATS)
def test_value_is_what_was_written_or_its_record_is_bad(spark, word: str) -> None:
    cases = FORMATS[word]
    kinds = list_kinds(cases)
    columns = tuple(Column(f"c{number}", of_type) for number, (of_type, *_) in enumerate(kinds))
    units = {f"c{number}": unit for number, (_, unit, *_) in enumerate(kinds) if unit}
    settings: dict[str, dict[str, str]] = {"numbers": {}, "binary": {}, "nanoseconds": {}}
    for number, (_, _, setting, _) in enumerate(kinds):
        if setting and not setting.startswith(SCHEMA):
            option, _, given = setting.rpartition(".")[2].partition(": ")
            settings[option][f"c{number}"] = given
    finer = settings.pop("nanoseconds")
    options = {**settings, **({"envelope": True} if word in ("json in an envelope", "json with its schema") else {})}
    fmt = ValueFormat(word.partition(" ")[0], timestamp_unit=units or None, options=options, nanoseconds=finer)
    decoded = decoding.decode_values(
        spark, decoding.build_stage_table(fmt, columns), [encode_record(word, case, kinds) for case in cases]
    )
    results = [_get_result(kinds.index(build_kind(case)), case, *row) for case, row in zip(cases, decoded, strict=True)]
    wrong = [
        (case, result)
        for case, result in zip(cases, results, strict=True)
        if format_value(case.value) != format_value(result)
    ]
    assert wrong == []


def _get_result(number: int, case: Case, reason: str | None, row: Any) -> Any:
    if reason is not None:
        return BAD
    value = row[f"c{number}"]
    zoned = value is not None and case.type == "TIMESTAMP"
    return value.astimezone(value_cases.UTC) if zoned else tuple(value) if hasattr(value, "asDict") else value


@pytest.mark.repeats(
    "unit/tidegate_spark/fields/test_protobuf_values.py::test_value_is_what_was_written_or_its_record_is_bad"
)
def test_protobuf_message_with_a_field_of_every_type_is_what_was_written(spark) -> None:
    """The other values, and bad ones, are those of the decoder alone: `test_value_cases.py` of its unit tests."""
    edges = ("range", "unchanged", "null")
    good = [case for case in value_cases.PROTOBUF if case.edge in edges and case.text and case.value != BAD]
    of_types = {case.type: case for case in reversed(good)}  # the first one of each
    assert set(list_types()) - of_types.keys() == {"required int32", "repeated string"}, "these have bad cases alone"
    cases = [case for kind, case in of_types.items() if kind not in PROTO2_TYPES]
    options = build_options_of_types([case.type for case in cases])
    fields = [field for field in options["shape"]["fields"] if field["name"] != "z"]
    columns = tuple(Column(field["name"], to_column_type(field["shape"])) for field in fields)
    stage = decoding.build_stage_table(ValueFormat("protobuf", options=options), columns)
    message = encode_cases(cases)
    (reason, row), (bad, _) = decoding.decode_values(spark, stage, [message, message[:-1]])
    assert (reason, bad) == (None, "the value is not a Protobuf message of its schema")
    results = [convert_to_case(value, case.type) for value, case in zip(row, cases, strict=True)]
    assert list(map(format_value, results)) == [format_value(case.value) for case in cases]


@pytest.mark.repeats(
    "test_avro_is_what_was_written_or_its_record_is_bad[decimal(64,2)]",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "string",
    "bytes",
    "null or int",
    "int, default 5",
    "int or string",
    "int or long",
    "enum",
    "fixed of 2 bytes",
    "decimal(5,2)",
    "decimal(10,2), fixed of 16 bytes",
    "array of decimal(18,0)",
    "uuid",
    "date",
    "time-millis",
    "time-micros",
    "timestamp-millis",
    "timestamp-micros",
    "local-timestamp-millis",
    "local-timestamp-micros",
    "local-timestamp-nanos",
    "Connect's Timestamp",
    "Debezium's Date",
    "Debezium's ZonedTimestamp",
    "string as decimal",
    "string as timestamp-millis",
    "string as date",
    "int as timestamp-millis",
    "int as time-micros",
    "long as date",
    "double as timestamp-micros",
    "bytes as decimal",
    "decimal of scale 3 and precision 2",
    "decimal(30,2), fixed of 4 bytes",
    "string as Connect's Timestamp",
    "array of string as timestamp-millis",
    "array of int",
    "map of int",
    "record of null or int",
)
@pytest.mark.parametrize("kind", value_cases.AVRO_TYPES)
def test_avro_is_what_was_written_or_its_record_is_bad(spark, kind: str) -> None:
    given = [case for case in value_cases.AVRO if case.type == kind]
    older = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    default = {"default": value_cases.AVRO_DEFAULTS[kind]} if kind in value_cases.AVRO_DEFAULTS else {}
    newer = {**older, "fields": [*older["fields"], {"name": "v", "type": value_cases.AVRO_TYPES[kind], **default}]}
    options, wrong = asdict(plan_decoding(newer, {2: older, 1: newer})), []
    for option in dict.fromkeys(case.option for case in given):
        cases = [case for case in given if case.option == option]
        fmt = ValueFormat("avro", options=options, nanoseconds="truncate" if option else {})
        stage = decoding.build_stage_table(fmt, to_columns(newer))
        heads = [b"\0\0\0\0\2\7" if is_not_there(case) else b"\0\0\0\0\1\7" for case in cases]
        values = [head + bytes.fromhex(case.text) for head, case in zip(heads, cases, strict=True)]
        # not of bad records: the client shows no text that is none, and no year 10000
        rows = decoding.decode(spark, stage, [(None, v) for v in values], "reason", f"{GOOD_ROW}.v")
        results = [BAD if reason else convert_to_case(value, kind) for reason, value in rows]
        wrong += [
            (case, result)
            for case, result in zip(cases, results, strict=True)
            if format_value(case.value) != format_value(result)
        ]
    assert wrong == []


def convert_to_case(value: Any, kind: str) -> Any:
    """A value from Spark as cases have it: bytes, tuples, and times with their zone."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime) and kind in ZONED:
        return value.astimezone(value_cases.UTC)
    return tuple(value) if hasattr(value, "asDict") else value


GOOD_ROW = "(CASE WHEN reason IS NULL THEN value_struct END)"
WHOLE = {"raw": value_cases.RAW, "string": (*value_cases.TEXT, *value_cases.STRING)}


@pytest.mark.repeats("test_whole_key_or_value_is_what_was_written_or_its_record_is_bad[raw-key]", "raw-value")
@pytest.mark.repeats("test_whole_key_or_value_is_what_was_written_or_its_record_is_bad[string-value]", "string-key")
@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("word", WHOLE)
def test_whole_key_or_value_is_what_was_written_or_its_record_is_bad(spark, word: str, part: str) -> None:
    given, wrong = WHOLE[word], []
    if part == "key":  # a time in a key is never cut, and a key that is not there is none
        given = tuple(c for c in given if not is_not_there(c) and c.option != value_cases.TRUNCATE)
    for kind, option in {(case.type, case.option): None for case in given}:
        cases = [case for case in given if (case.type, case.option) == (kind, option)]
        texts = [bytes.fromhex(case.text) if word == "raw" else case.text.encode() for case in cases]
        column, options = Column("n", kind), {"endianness": "little"} if option == value_cases.LITTLE else {}
        if part == "value":
            finer = "truncate" if option == value_cases.TRUNCATE else {}
            stage = decoding.build_stage_table(ValueFormat(word, options=options, nanoseconds=finer), (column,))
            sent = [(None, None if is_not_there(case) else text) for case, text in zip(cases, texts, strict=True)]
            rows = decoding.decode(spark, stage, sent, "reason", "value_struct", "op")
            results = [BAD if bad else DELETE if op == "d" else convert_to_case(row.n, kind) for bad, row, op in rows]
        else:
            stage = decoding.build_stage_table(ValueFormat("json"), (Column("x", "INT"),), keys=(column,))
            stage = replace(stage, key=KeyFormat(word, ("n",), options=options))
            results = [
                BAD if reason else convert_to_case(value, kind)
                for value, reason in decoding.decode_keys(spark, stage, texts)
            ]
        wrong += [
            (case, result)
            for case, result in zip(cases, results, strict=True)
            if format_value(case.value) != format_value(result)
        ]
    assert wrong == []


@pytest.mark.repeats("test_whole_key_or_value_is_what_was_written_or_its_record_is_bad[raw-key]")
def test_raw_says_how_many_bytes_a_bad_number_has(spark) -> None:
    stage = decoding.build_stage_table(ValueFormat("raw"), (Column("n", "BIGINT"),))
    assert decoding.read_reasons(spark, stage, [b"\x00\x07", None, bytes(8)]) == [
        "the value is not a BIGINT of 8 bytes, but of 2", None, None]  # fmt: skip


@pytest.mark.repeats("test_key_is_the_number_that_was_written_also_in_an_envelope[json]")
def test_key_that_is_sent_as_text_is_the_number_where_the_file_says_so(spark) -> None:
    texts = [b'"7"', b"7", b'{"id": "7"}', b'{"id":7}', b'{"id": " 7"}', b'"x"']
    stage = decoding.build_stage_table(ValueFormat("json"), (Column("x", "INT"),), keys=(Column("id", "BIGINT"),))
    of_column = replace(stage, key=KeyFormat("json", ("id",), options={"numbers": {"ID": "lenient"}}))
    decoded = decoding.decode_keys(spark, of_column, texts)
    assert [BAD if reason else value for value, reason in decoded] == [7, 7, 7, 7, BAD, BAD]
    of_all = replace(stage, key=KeyFormat("json", ("id",), options={"numbers": "lenient"}))
    assert decoding.decode_keys(spark, of_all, texts) == decoded
    strict = decoding.decode_keys(spark, stage, texts)
    assert [BAD if reason else value for value, reason in strict] == [BAD, 7, BAD, 7, BAD, BAD]


@pytest.mark.repeats("integration/test_key_from_value.py::test_json_value_has_the_key_whatever_the_records_key_is")
def test_key_that_is_taken_from_the_value_is_as_lenient_as_the_value(spark) -> None:
    columns = (Column("id", "BIGINT"), Column("x", "INT"))
    stage = decoding.build_stage_table(
        ValueFormat("json", options={"numbers": {"id": "lenient"}}), columns, keys=columns[:1]
    )
    values = [(None, b'{"id": "7", "x": 1}'), (None, b'{"id": 8, "x": "1"}')]
    (row, bad) = decoding.decode(spark, stage, values, "reason", "key_struct.id", "value_struct.id")
    assert row == (None, 7, 7)
    assert bad[0] == "the value does not fit value.schema, fields: x"


@pytest.mark.repeats("test_key_is_the_number_that_was_written_also_in_an_envelope[json]", "debezium-json")
@pytest.mark.parametrize("word", ["json", "debezium-json"])
def test_key_is_the_number_that_was_written_also_in_an_envelope(spark, word: str) -> None:
    texts = [b"841e19", b'"841e19"', b'{"id": 841e19}', b'{"payload": {"id": 841e19}}']
    texts += [b'{"id": 9007199254740993e3}', b'{"payload": {"id": 0.1000000000000000055}}']
    texts += [b'{"payload": 841e19}', b'{"schema": {"type": "x"}, "payload": 0.1000000000000000055}']
    stage = decoding.build_stage_table(ValueFormat(word), (Column("x", "INT"),), keys=(Column("id", "DECIMAL(38,2)"),))
    results = decoding.decode_keys(spark, stage, texts)
    number = "8410000000000000000000.00"
    expected = [*[number] * 4, "9007199254740993000.00", BAD, number, BAD]
    assert [BAD if reason else str(value) for value, reason in results] == expected


@pytest.mark.repeats("test_key_is_the_number_that_was_written_also_in_an_envelope[json]")
@pytest.mark.parametrize("word", ["json", "debezium-json"])
def test_bare_key_in_an_envelope_is_the_text_that_was_written(spark, word: str) -> None:
    numbers = ["19.90", "1e5", "1E400", "841e19", "123456789012345678901234567890.10", "-7", "7", "1" * 50]
    texts = [('"\\u0016\\u00161.50 \\\\u0016"', "\x16\x161.50 \\u0016"), ('"1.50"', "1.50"), ('"a\\"b"', 'a"b')]
    cases = [(number, number) for number in numbers] + texts
    stage = decoding.build_stage_table(ValueFormat(word), (Column("x", "INT"),), keys=(Column("id", "STRING"),))
    schema = '{"type": "double", "version": 1.50, "optional": false}'
    envelopes = ('{"payload": %s}', '{"schema": SCHEMA, "payload": %s}'.replace("SCHEMA", schema))
    decoded = decoding.decode_keys(spark, stage, [(each % text).encode() for each in envelopes for text, _ in cases])
    assert decoded == [(value, None) for _ in envelopes for _, value in cases]


@pytest.mark.repeats("test_value_is_what_was_written_or_its_record_is_bad[json]")
def test_row_before_a_delete_is_ordered_by_the_number_that_was_written(spark) -> None:
    columns = (Column("id", "BIGINT"), Column("n", "DECIMAL(38,2)"))
    stage = decoding.build_stage_table(ValueFormat("debezium-json"), columns, keys=columns[:1], sequence=("n",))
    event = b'{"op": "d", "after": null, "before": {"id": 1, "n": 841e19}}'
    values = [(b'{"id": 1}', value) for value in (event, b'{"payload": ' + event + b"}")]
    results = decoding.decode(spark, stage, values, "value_reason", "sequence.n")
    assert [(reason, str(n)) for reason, n in results] == [(None, "8410000000000000000000.00")] * 2


@pytest.mark.repeats("integration/test_key_from_value.py::test_json_value_has_the_key_whatever_the_records_key_is")
@pytest.mark.parametrize(
    ("word", "options", "texts"),
    [
        ("json", {}, ('{"id": %s, "n": 1}', '{"id": %s, "n": 1, "other": NaN}')),
        ("json", {"envelope": True}, ('{"payload": {"id": %s, "n": 1}}', '{"payload": {"id": %s, "n": 1}, "o": NaN}')),
        (
            "debezium-json",
            {},
            (
                '{"op": "c", "after": {"id": %s, "n": 1}}',
                '{"op": "c", "after": {"id": %s, "n": 1}, "source": {"x": [-Infinity]}}',
                '{"payload": {"op": "d", "before": {"id": %s, "n": 1}, "after": null}}',
            ),
        ),
    ],
    ids=["json", "json in an envelope", "debezium-json"],
)
def test_key_in_a_value_that_is_not_of_its_type_is_bad_and_not_missing(
    spark, word: str, options: Any, texts: tuple[str, ...]
) -> None:
    """The value's own columns do not hold the key: nothing else would notice."""
    stage = decoding.build_stage_table(
        ValueFormat(word, options=options), (Column("n", "INT"),), keys=(Column("id", "BIGINT"),)
    )
    keys = ("7", "null", '"x"', "1.5", "9223372036854775808", "[1]")
    values = [(None, (text % key).encode()) for text in texts for key in keys]
    decoded = decoding.decode(spark, stage, values, "reason", "key_struct.id")
    bad = "the key field id is not a BIGINT"
    for start in range(0, len(decoded), len(keys)):
        results = decoded[start : start + len(keys)]
        assert results[:2] == [(None, 7), (None, None)]
        assert [reason for reason, _ in results[2:]] == [bad] * 4
