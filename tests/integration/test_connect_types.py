"""Debezium's and Kafka Connect's logical types, exactly, by the schema in the envelope."""

import base64
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from decoding import build_stage_table, decode, decode_values, read_reasons
from tidegate.errors import BadRecord
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
KEY = {"fields": ["id"], "schema": "id BIGINT"}


def encode_unscaled(number: int) -> str:
    length = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


# column type, name in the envelope's schema, parameters, JSON value, what lands
NTZ = datetime(2026, 1, 1, 1, 2, 3, 456789)
MICROS = int(NTZ.replace(tzinfo=UTC).timestamp()) * 1_000_000 + 456789
UUID, VARIABLE = "0d5ea2d8-1d9c-4c60-8c4b-3f2f5e6f7a8b", DATA + "VariableScaleDecimal"
AMOUNT, LEAST = Decimal("-1234567890.12"), Decimal("-9999999999999999999999999999.9999999999")
TYPES: dict[str, tuple[str, str | None, dict[str, str], Any, Any]] = {
    "day": ("DATE", TIME + "Date", {}, -719162, date(1, 1, 1)),
    "connect_day": ("DATE", CONNECT + "Date", {}, 2932896, date(9999, 12, 31)),
    "clock": ("INT", TIME + "Time", {}, 86_399_999, 86_399_999),
    "fine_clock": ("BIGINT", TIME + "MicroTime", {}, 86_399_999_999, 86_399_999_999),
    "finest_clock": ("BIGINT", TIME + "NanoTime", {}, 86_399_999_999_999, 86_399_999_999_999),
    "millis": ("TIMESTAMP_NTZ", TIME + "Timestamp", {}, MICROS // 1000, NTZ.replace(microsecond=456000)),
    "micros": ("TIMESTAMP_NTZ", TIME + "MicroTimestamp", {}, MICROS, NTZ),
    "nanos": ("TIMESTAMP", TIME + "NanoTimestamp", {}, MICROS * 1000, NTZ.replace(tzinfo=UTC)),
    "connect_at": ("TIMESTAMP", CONNECT + "Timestamp", {}, MICROS // 1000, NTZ.replace(microsecond=456000, tzinfo=UTC)),
    "zoned": ("TIMESTAMP", TIME + "ZonedTimestamp", {}, "2026-01-01T03:02:03.456789+02:00", NTZ.replace(tzinfo=UTC)),
    "zoned_clock": ("STRING", TIME + "ZonedTime", {}, "10:00:00+02:00", "10:00:00+02:00"),
    "amount": ("DECIMAL(12,2)", CONNECT + "Decimal", {"scale": "2"}, encode_unscaled(-123456789012), AMOUNT),
    "whole": ("DECIMAL(38,0)", CONNECT + "Decimal", {"scale": "0"}, encode_unscaled(10**38 - 1), Decimal(10**38 - 1)),
    "least": ("DECIMAL(38,10)", CONNECT + "Decimal", {"scale": "10"}, encode_unscaled(-(10**38) + 1), LEAST),
    "zero": ("DECIMAL(5,2)", CONNECT + "Decimal", {"scale": "2"}, encode_unscaled(0), Decimal("0.00")),
    "sent_as_number": ("DECIMAL(6,2)", CONNECT + "Decimal", {"scale": "2"}, 1234, Decimal("1234.00")),
    "sent_with_point": ("DECIMAL(6,2)", CONNECT + "Decimal", {"scale": "2"}, 12.5, Decimal("12.50")),
    # a text that looks like a number printed anew: the record is read twice, and its numbers have to stay numbers
    "like_number": ("STRING", None, {}, "1.50", "1.50"),
    "any_scale": (
        "DECIMAL(20,5)", VARIABLE, {}, {"scale": 3, "value": encode_unscaled(1234567)}, Decimal("1234.56700"),
    ),
    "any_text": ("STRING", VARIABLE, {}, {"scale": 3, "value": encode_unscaled(-7)}, "-0.007"),
    "large_text": ("STRING", VARIABLE, {}, {"scale": -3, "value": encode_unscaled(12)}, "12000"),
    "long_text": (
        "STRING", CONNECT + "Decimal", {"scale": "10"}, encode_unscaled(10**38 - 1), str(LEAST).removeprefix("-"),
    ),
    "text_amount": ("DECIMAL(12,2)", None, {}, "99.90", Decimal("99.90")),
    "float_amount": ("DOUBLE", None, {}, 99.9, 99.9),
    "json": ("STRING", DATA + "Json", {}, '{"a": 1}', '{"a": 1}'),
    "xml": ("STRING", DATA + "Xml", {}, "<a/>", "<a/>"),
    "uuid": ("STRING", DATA + "Uuid", {}, UUID, UUID),
    "state": ("STRING", DATA + "Enum", {"allowed": "a,b"}, "a", "a"),
    "bits": ("BINARY", DATA + "Bits", {"length": "9"}, base64.b64encode(b"\x01\x01").decode(), b"\x01\x01"),
    "place": (
        "STRUCT<wkb: BINARY, srid: INT>", DATA + "geometry.Geometry", {},
        {"wkb": base64.b64encode(b"\x01").decode(), "srid": 4326}, {"wkb": b"\x01", "srid": 4326},
    ),
}  # fmt: skip


def build_envelope(op: str, after: dict[str, Any] | None) -> dict[str, Any]:
    row = [{"field": "id", "type": "int64", "optional": False}]
    row += [{"field": n, "name": g[1], "parameters": g[2], "type": "x"} for n, g in TYPES.items()]
    fields = [{"field": part, "type": "struct", "fields": row} for part in ("before", "after")]
    payload = {"before": None, "after": after, "op": op, "source": {}, "ts_ms": 1}
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


def test_every_logical_type_lands_exactly_and_every_one_may_be_null(workbench) -> None:
    topic = workbench.topic()
    schema = ", ".join(["id BIGINT", *(f"{name} {given[0]}" for name, given in TYPES.items())])
    workbench.pipeline("logical", [topic], key=KEY, value={"format": "debezium-json", "schema": schema})
    full = {"id": 1, **{name: given[3] for name, given in TYPES.items()}}
    empty = {"id": 2, **dict.fromkeys(TYPES)}
    workbench.produce(topic, ({"id": 1}, build_envelope("c", full)), ({"id": 2}, build_envelope("r", empty)))
    workbench.flush("logical")
    first, second = workbench.read_rows("shop.logical")
    assert first == {"id": 1, **{name: given[4] for name, given in TYPES.items()}}
    assert second == empty


LOSSY = [
    ("TIMESTAMP", TIME + "NanoTimestamp", {}, 1),
    ("TIMESTAMP", TIME + "Timestamp", {}, 2**62),
    ("DECIMAL(5,2)", CONNECT + "Decimal", {"scale": "3"}, encode_unscaled(1001)),
    ("DECIMAL(5,2)", CONNECT + "Decimal", {"scale": "2"}, encode_unscaled(100_000)),
    ("DECIMAL(38,0)", CONNECT + "Decimal", {"scale": "0"}, encode_unscaled(10**38)),
    ("DECIMAL(38,0)", CONNECT + "Decimal", {"scale": "0"}, encode_unscaled(2**127)),
    ("DECIMAL(5,2)", CONNECT + "Decimal", {"scale": "2"}, "***"),
    ("DECIMAL(5,2)", VARIABLE, {}, {"scale": 3, "value": encode_unscaled(1)}),
    # 65 bytes of a zero, a one and whatever: their length must not be read as that of the first
    ("DECIMAL(5,2)", CONNECT + "Decimal", {"scale": "2"}, base64.b64encode(b"\x00\x01" + b"\x07" * 63).decode()),
    ("STRING", CONNECT + "Decimal", {"scale": "2"}, base64.b64encode(b"\x00\x01" + b"\x07" * 63).decode()),
    ("STRING", CONNECT + "Decimal", {"scale": "0"}, encode_unscaled(10**38)),
    ("STRING", VARIABLE, {}, {"scale": "x", "value": encode_unscaled(1)}),
    # what has no negative must not end the batch
    ("DECIMAL(5,2)", VARIABLE, {}, {"scale": -(2**31), "value": encode_unscaled(1)}),
    ("STRING", VARIABLE, {}, {"scale": -(2**31), "value": encode_unscaled(1)}),
    ("STRING", VARIABLE, {}, {"scale": 2**31 - 1, "value": encode_unscaled(1)}),
    # PostgreSQL's infinities, and a time before Christ, as Debezium has sent them with isostring
    ("DATE", TIME + "IsoDate", {}, "+292269055-12-02Z"),
    ("DATE", TIME + "IsoDate", {}, "+292278994-08-16Z"),
    ("TIMESTAMP_NTZ", TIME + "IsoTimestamp", {}, "+294247-01-10T04:00:25.2Z"),
    ("TIMESTAMP_NTZ", TIME + "IsoTimestamp", {}, "-0043-03-13T00:00:00Z"),
    ("TIMESTAMP", TIME + "ZonedTimestamp", {}, "-0043-03-13T00:00:00.000000Z"),
]


def test_what_a_logical_type_would_lose_is_bad(stack) -> None:
    from tidegate_spark.session import close, connect_session

    columns = tuple(Column(f"x{number}", kind) for number, (kind, *_) in enumerate(LOSSY))
    fields = [{"field": f"x{n}", "name": name, "parameters": more} for n, (_, name, more, _) in enumerate(LOSSY)]
    values = [{"schema": {"fields": fields}, "payload": {f"x{n}": case[3]}} for n, case in enumerate(LOSSY)]
    session = connect_session(stack.spark_remote, {})
    try:
        table = build_stage_table(ValueFormat("json", options={"envelope": True}), columns)
        reasons = read_reasons(session, table, [json.dumps(value).encode() for value in values])
    finally:
        close(session)
    expected = [f"the value field x{n} is not a {case[0]} without loss" for n, case in enumerate(LOSSY)]
    assert reasons == expected


NAIVE, MILLIS = datetime(2026, 2, 28, 10, 0), 1772272800000
AT = NAIVE.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)  # Spark's client gives a TIMESTAMP in local time
NESTED = (
    Column("s", "STRUCT<at: TIMESTAMP, day: DATE, amount: DECIMAL(12,2), text: STRING, n: BIGINT>"),
    Column("m", "MAP<STRING, TIMESTAMP_NTZ>"),
    Column("l", "ARRAY<STRUCT<at: TIMESTAMP_NTZ, days: MAP<STRING, ARRAY<DATE>>>>"),
)
AMOUNT_KIND = {"name": CONNECT + "Decimal", "parameters": {"scale": "2"}}
INSIDE = [
    {"field": "at", "type": "int64", "name": TIME + "Timestamp"},
    {"field": "day", "type": "int32", "name": TIME + "Date"},
    {"field": "amount", "type": "bytes", **AMOUNT_KIND},
    {"field": "text", "type": "bytes", **AMOUNT_KIND},
    {"field": "n", "type": "int64"},
]
DAYS = {"type": "map", "values": {"type": "array", "items": {"type": "int32", "name": CONNECT + "Date"}}}
NESTED_SCHEMA = [
    {"field": "s", "type": "struct", "fields": INSIDE},
    {"field": "m", "type": "map", "keys": {"type": "string"}, "values": {"name": TIME + "MicroTimestamp"}},
    {
        "field": "l",
        "type": "array",
        "items": {"fields": [{"field": "at", "name": TIME + "NanoTimestamp"}, {"field": "days", **DAYS}]},
    },
]
NESTED_ROWS: list[tuple[dict[str, Any], tuple[Any, ...] | None]] = [
    (
        {
            "s": {"at": MILLIS, "day": 1, "amount": encode_unscaled(1250), "text": encode_unscaled(-7), "n": MILLIS},
            "m": {"a": MILLIS * 1000 + 7, "b": None},
            "l": [{"at": MILLIS * 10**6, "days": {"x": [0, None], "y": []}}, {"at": None, "days": None}, None],
        },
        (
            (AT, date(1970, 1, 2), Decimal("12.50"), "-0.07", MILLIS),
            {"a": NAIVE.replace(microsecond=7), "b": None},
            [(NAIVE, {"x": [date(1970, 1, 1), None], "y": []}), (None, None), None],
        ),
    ),
    ({"s": None, "m": {}, "l": []}, (None, {}, [])),
    ({"s": {"at": "2026-02-28T10:00:00Z", "amount": "x"}}, None),
    ({"s": {"at": 2**62}}, None),
    ({"m": {"a": 2**63 - 1}}, None),
    ({"m": {"a": MILLIS, "a ": 1, "b": 1.5}}, None),
    ({"l": [{"at": MILLIS * 10**6 + 1}]}, None),
    ({"l": [{"days": {"x": [2**40]}}]}, None),
]


def convert_to_plain(value: Any) -> Any:
    """A decoded value without Spark's rows."""
    if isinstance(value, dict):
        return {name: convert_to_plain(field) for name, field in value.items()}
    if isinstance(value, tuple):
        return tuple(map(convert_to_plain, value))
    return [convert_to_plain(element) for element in value] if isinstance(value, list) else value


@pytest.mark.repeats("test_schema_of_the_envelope_is_looked_at_inside_of_structs_maps_and_lists[debezium-json]", "json")
@pytest.mark.parametrize("word", ["json", "debezium-json"])
def test_schema_of_the_envelope_is_looked_at_inside_of_structs_maps_and_lists(spark, word: str) -> None:
    fields: list[dict[str, Any]] = NESTED_SCHEMA
    if word == "debezium-json":
        fields = [{"field": part, "type": "struct", "fields": NESTED_SCHEMA} for part in ("before", "after")]
    texts = []
    for row, _ in NESTED_ROWS:
        payload = row if word == "json" else {"op": "c", "before": None, "after": row}
        texts.append(json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode())
    fmt = ValueFormat(word, options={"envelope": True} if word == "json" else {})
    results = decode_values(spark, build_stage_table(fmt, NESTED), texts)
    assert [None if reason else convert_to_plain(tuple(row)) for reason, row in results] == [
        tuple(row) if row else None for _, row in NESTED_ROWS
    ]


@pytest.mark.repeats(
    "test_unit_of_the_file_is_not_for_a_number_that_its_record_says_counts_something_else[debezium-json]"
)
def test_number_inside_of_a_struct_without_a_schema_is_what_the_unit_says_or_bad(spark) -> None:
    """Records of one topic with the envelope, with one that does not name the field, and without one."""
    units = {"without": None, "seconds": "seconds", "millis": "millis"}
    columns = tuple(Column(name, "STRUCT<at: TIMESTAMP>") for name in units)
    encoded = []
    for name in units:
        payload = {"op": "c", "after": {name: {"at": MILLIS}}}
        named = [{"field": name, "type": "struct", "fields": [{"field": "at", "name": TIME + "Timestamp"}]}]
        unnamed = [{"field": name, "type": "struct", "fields": [{"field": "at", "type": "int64"}]}]
        schemas = [{"fields": [{"field": "after", "fields": row}]} for row in (named, unnamed)]
        texts = [*({"schema": schema, "payload": payload} for schema in schemas), payload]
        encoded += [json.dumps(text).encode() for text in texts]
    unit_of_columns = {name: unit for name, unit in units.items() if unit}
    fmt = ValueFormat("debezium-json", timestamp_unit=unit_of_columns)
    decoded = decode_values(spark, build_stage_table(fmt, columns), encoded)
    values = [None if reason else convert_to_plain(tuple(row)) for reason, row in decoded]
    assert {name: values[3 * n : 3 * n + 3] for n, name in enumerate(units)} == {
        "without": [((AT,), None, None), None, None],
        "seconds": [(None, (AT,), None), None, None],
        "millis": [(None, None, (AT,))] * 3,
    }


@pytest.mark.repeats(
    "test_unit_of_the_file_is_not_for_a_number_that_its_record_says_counts_something_else[debezium-json]", "json"
)
@pytest.mark.parametrize("word", ["debezium-json", "json"])
def test_unit_of_the_file_is_not_for_a_number_that_its_record_says_counts_something_else(spark, word: str) -> None:
    columns = (Column("at", "TIMESTAMP_NTZ"), Column("day", "DATE"), Column("s", "STRUCT<at: TIMESTAMP>"))
    names_by_field = {
        "at": [TIME + "Date", CONNECT + "Date", TIME + "MicroTime"],
        "day": [TIME + "Timestamp", TIME + "Time"],
    }
    texts, expected = [], []
    for field, name in [(field, name) for field, names in names_by_field.items() for name in names]:
        row = [{"field": field, "name": name}]
        texts += [encode_envelope(word, row, {field: 20}), encode_envelope(word, row, {field: None, "x": 1})]
        kind = {"at": "TIMESTAMP_NTZ", "day": "DATE"}[field]
        expected += [f"the value field {field} is not a {kind} without loss", None]
    texts.append(
        encode_envelope(word, [{"field": "s", "fields": [{"field": "at", "name": TIME + "Date"}]}], {"s": {"at": 20}})
    )
    texts.append(
        encode_envelope(word, [{"field": "at", "name": TIME + "ZonedTimestamp"}], {"at": "2026-01-01T00:00:00Z"})
    )
    texts.append(encode_envelope(word, [{"field": "at", "type": "int64"}], {"at": 20}))
    fmt = ValueFormat(word, timestamp_unit="micros", options={"envelope": True} if word == "json" else {})
    expected += ["the value field s is not a STRUCT<at: TIMESTAMP> without loss", None, None]
    assert read_reasons(spark, build_stage_table(fmt, columns), texts) == expected


def encode_envelope(word: str, row: list[dict[str, Any]], values: dict[str, Any]) -> bytes:
    """A record with this row, whose schema has these fields."""
    fields = [{"field": "after", "fields": row}] if word == "debezium-json" else row
    payload = {"op": "c", "after": values} if word == "debezium-json" else values
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode()


@pytest.mark.repeats("test_what_a_logical_type_would_lose_is_bad")
def test_nanoseconds_of_the_envelopes_schema_are_cut_where_that_is_asked_for(spark) -> None:
    columns = (Column("at", "TIMESTAMP_NTZ"), Column("s", "STRUCT<at: TIMESTAMP_NTZ>"))
    nano = {"field": "at", "name": TIME + "NanoTimestamp"}
    fields = [{"field": "after", "fields": [nano, {"field": "s", "fields": [nano]}]}]
    text = {"schema": {"fields": fields}, "payload": {"op": "c", "after": {"at": -1, "s": {"at": MILLIS * 10**6 + 7}}}}
    results = []
    for nanoseconds in ("truncate", {"at": "truncate"}):
        fmt = ValueFormat("debezium-json", nanoseconds=nanoseconds)
        ((reason, row),) = decode_values(spark, build_stage_table(fmt, columns), [json.dumps(text).encode()])
        results.append(reason or convert_to_plain(tuple(row)))
    assert results == [
        (datetime(1969, 12, 31, 23, 59, 59, 999999), (NAIVE,)),
        "the value field s is not a STRUCT<at: TIMESTAMP_NTZ> without loss",
    ]


# the same batches; without the envelope each event is decoded in tests of its format
@pytest.mark.repeats(
    "integration/test_debezium_flush.py::test_inserts_updates_deletes_and_their_tombstones_over_several_batches[True]"
)
def test_plain_json_in_an_envelope_upserts_by_an_enveloped_key(workbench) -> None:
    topic = workbench.topic()
    key = {"fields": ["id", "day"], "schema": "id DECIMAL(10,2), day DATE"}
    value = {"json": {"envelope": True}, "schema": "id DECIMAL(10,2), day DATE, name STRING"}
    workbench.pipeline("wrapped", [topic], key=key, value=value)
    fields = [
        {"field": "id", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}},
        {"field": "day", "name": TIME + "Date"},
    ]
    schema = {"type": "struct", "fields": fields}

    def build_record(id: int, name: str | None) -> tuple[Any, Any]:
        data = {"id": encode_unscaled(id), "day": 1}
        value = None if name is None else {"schema": schema, "payload": {**data, "name": name}}
        return {"schema": schema, "payload": data}, value

    workbench.produce(
        topic, build_record(150, "a"), build_record(250, "b"), build_record(150, "c"), build_record(250, None)
    )
    workbench.flush("wrapped")
    assert workbench.read_rows("shop.wrapped") == [{"id": Decimal("1.50"), "day": date(1970, 1, 2), "name": "c"}]
    workbench.produce(topic, (build_record(1, "x")[0], {"id": "1.00", "name": "bare"}))
    with pytest.raises(BadRecord, match="not in an envelope"):
        workbench.flush("wrapped")


@pytest.mark.repeats(
    "integration/test_truncate.py::test_truncate_has_neither_key_nor_row_whatever_stands_there[debezium-json]"
)
def test_truncate_is_refused_until_it_is_to_be_ignored(workbench) -> None:
    topic = workbench.topic()
    value = {"format": "debezium-json", "schema": "id BIGINT"}
    workbench.pipeline("cut", [topic], key=KEY, value=value)
    workbench.produce(
        topic,
        ({"id": 1}, {"before": None, "after": {"id": 1}, "op": "c"}),
        (None, {"before": None, "after": None, "op": "t"}),
    )
    with pytest.raises(BadRecord, match=r"truncated \(op=t\): empty the table too"):
        workbench.flush("cut")
    workbench.pipeline("cut", [topic], key=KEY, value={**value, "truncate": "ignore"})
    workbench.flush("cut")
    assert workbench.read_rows("shop.cut") == [{"id": 1}]


def test_connects_json_schema_says_what_fields_mean_by_the_id_of_each_record(spark) -> None:
    amount = {"name": CONNECT + "Decimal", "parameters": {"scale": "2"}}
    at = {"name": CONNECT + "Timestamp", "parameters": {}}
    deep = {"fields": [{"field": "at", **at}, {"field": "m", "values": at}]}
    kinds = {"7": {"amount": amount, "at": at, "days": {"items": {"name": CONNECT + "Date"}}, "deep": deep}}
    columns = (Column("amount", "DECIMAL(12,2)"), Column("at", "TIMESTAMP"), Column("days", "ARRAY<DATE>"))
    columns += (Column("deep", "STRUCT<at: TIMESTAMP_NTZ, m: MAP<STRING, TIMESTAMP_NTZ>>"),)
    fmt = ValueFormat("json", options={"ids": [7, 8], "kinds": kinds | {"8": {}}})
    texts = [
        (7, {"amount": encode_unscaled(12345), "at": 1772272800000, "days": [0, None]}),
        (7, {"amount": 123.45, "at": None, "days": None}),
        (8, {"amount": "1234", "at": "2026-02-28T10:00:00Z", "days": ["1970-01-02"]}),
        (8, {"amount": "1234", "at": 1772272800000, "days": []}),
        (7, {"deep": {"at": MILLIS, "m": {"a": MILLIS}}}),
        (8, {"deep": {"at": MILLIS}}),
    ]
    records = [b"\0" + id.to_bytes(4, "big") + json.dumps(value).encode() for id, value in texts]
    results = decode_values(spark, build_stage_table(fmt, columns), records)
    day = date(1970, 1, 1)
    assert [None if reason else convert_to_plain(tuple(row)) for reason, row in results] == [
        (Decimal("123.45"), AT, [day, None], None),
        (Decimal("123.45"), None, None, None),
        (Decimal("1234.00"), AT, [day.replace(day=2)], None),
        None,
        (None, None, None, (NAIVE, {"a": NAIVE})),
        None,
    ]


def test_connects_json_schema_says_what_fields_mean_in_whatever_case_the_column_is_spelled(spark) -> None:
    """The text of a decimal stayed its bytes in base64, and a time was counted in the file's unit."""
    kinds = {
        "amount": {"name": CONNECT + "Decimal", "parameters": {"scale": "2"}},
        "at": {"name": CONNECT + "Timestamp"},
    }
    fmt = ValueFormat("json", options={"ids": [7], "kinds": {"7": kinds}}, timestamp_unit="micros")
    record = b"\0\0\0\0\7" + json.dumps({"amount": encode_unscaled(12345), "at": 1772272800000}).encode()
    for columns in (("amount", "at"), ("Amount", "AT")):
        table = build_stage_table(fmt, (Column(columns[0], "STRING"), Column(columns[1], "TIMESTAMP")))
        [(reason, row)] = decode_values(spark, table, [record])
        assert (reason, convert_to_plain(tuple(row))) == (None, ("123.45", AT))


KEY_SCHEMA = [
    {"field": "at", "type": "int64", "name": TIME + "Timestamp"},
    {"field": "amount", "type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}},
]
KEY_KINDS = {str(n): {field["field"]: field for field in fields} for n, fields in ((1, KEY_SCHEMA), (2, []))}
KEY_ROW = {"at": MILLIS, "amount": encode_unscaled(12345)}


@pytest.mark.repeats(
    "integration/test_mariadb_types.py::test_keys_are_read_by_the_schema_around_them", "in an envelope"
)
@pytest.mark.parametrize("is_registered", [False, True], ids=["in an envelope", "behind a schema id"])
def test_key_means_what_its_own_schema_says_whatever_the_format_of_the_value(spark, is_registered: bool) -> None:
    """Else a unit that the file gives for the value makes another time of it, a thousand times off."""
    columns = (Column("at", "TIMESTAMP_NTZ"), Column("amount", "DECIMAL(5,2)"))
    value = ValueFormat("json", timestamp_unit="micros")
    stage = build_stage_table(value, (Column("x", "INT"),), keys=columns)
    options = {"ids": [1, 2], "kinds": KEY_KINDS} if is_registered else {}
    stage = replace(stage, key=KeyFormat("json", ("at", "amount"), options=options))
    plain, beyond = {"at": MILLIS * 1000, "amount": 123.45}, {**KEY_ROW, "at": 10**17}
    if is_registered:
        rows = [(1, KEY_ROW), (2, plain), (1, beyond)]
        texts = [b"\x00" + number.to_bytes(4, "big") + json.dumps(row).encode() for number, row in rows]
    else:
        schema = {"type": "struct", "fields": KEY_SCHEMA}
        sent = [{"schema": schema, "payload": KEY_ROW}, plain, {"schema": schema, "payload": beyond}]
        texts = [json.dumps(key).encode() for key in sent]
    results = decode(spark, stage, [(text, b"{}") for text in texts], "key_reason", "key_struct")
    good = (NAIVE, Decimal("123.45"))
    assert [reason or tuple(key) for reason, key in results] == [
        good, good, "the key field at is not a TIMESTAMP_NTZ without loss"]  # fmt: skip


@pytest.mark.repeats("integration/test_mariadb_types.py::test_keys_are_read_by_the_schema_around_them")
def test_bare_key_in_an_envelope_is_the_time_that_its_schema_names(spark) -> None:
    columns, value = (Column("at", "TIMESTAMP_NTZ"),), ValueFormat("json", timestamp_unit="micros")
    stage = replace(build_stage_table(value, (Column("x", "INT"),), keys=columns), key=KeyFormat("json", ("at",)))
    named = {"schema": {"type": "int64", "name": TIME + "Timestamp"}, "payload": MILLIS}
    texts = [json.dumps(key).encode() for key in (named, {"payload": MILLIS * 1000}, MILLIS * 1000)]
    assert decode(spark, stage, [(text, b"{}") for text in texts], "key_struct.at") == [(NAIVE,)] * 3
