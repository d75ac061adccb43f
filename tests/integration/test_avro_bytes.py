"""Bytes that are no record of their Avro schema: each is one bad record, and takes nothing else down."""

import json
from dataclasses import asdict, replace
from datetime import date
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest
from decoding import build_stage_table, decode, decode_values, read_reasons
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.errors import ConfigurationError
from tidegate.schema.avro import to_columns
from tidegate.schema.avro_resolution import plan_decoding
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table
from tidegate_spark.fields.avro import add_length_check

ID = Column("id", "INT")
HUGE = b"\x80\xbe\xc7\x94\x0e"  # 1,900,000,000 as Avro writes a long
WORD = b"\x02a"


def build_record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": type} for name, type in fields.items()]}


def build_table(schema: dict[str, Any]) -> Any:
    plan = plan_decoding(schema, {})
    options = {"reader": plan.reader, "writers": {}}
    return build_stage_table(ValueFormat(format="avro", options=options), to_columns(schema))


def encode_avro(schema: Any, **row: Any) -> bytes:
    import fastavro

    out = BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


# schema, a good row, bytes that announce more than there is
HOLLOW: dict[str, tuple[Any, Any, list[bytes]]] = {
    "array": ({"type": "array", "items": "string"}, ["a"], [HUGE, HUGE + WORD, b"\x02\xff\xff\xff\xff\x0f" + WORD]),
    "block with its size": ({"type": "array", "items": "long"}, [1], [b"\xff\xfb\x8e\xa9\x1c\x02" + WORD]),
    "map": ({"type": "map", "values": "long"}, {"a": 1}, [HUGE, HUGE + WORD]),
    "string": ("string", "a", [HUGE, HUGE + b"a", b"\x01"]),
    "bytes": ("bytes", b"a", [HUGE + b"a", b"\x03"]),
    "nested": ({"type": "array", "items": {"type": "array", "items": "int"}}, [[1]], [b"\x02" + HUGE]),
    "optional": (["null", {"type": "map", "values": "bytes"}], {"a": b"b"}, [b"\x02" + HUGE, b"\x06"]),
}


@pytest.mark.repeats(
    "unit/tidegate_spark/fields/test_avro_limits.py::test_whole_records_of_every_type_fit_and_cut_ones_do_not",
    "server without limits",
)
@pytest.mark.parametrize("is_checked_here", [False, True], ids=["server with limits", "server without limits"])
def test_length_that_no_record_has_is_a_bad_record_and_the_server_lives(spark: Any, is_checked_here: bool) -> None:
    for name, (type, good, hollow) in HOLLOW.items():
        schema = build_record(id="int", x=type)
        table = build_table(schema)
        table = add_length_check(table) if is_checked_here else table
        broken = [b"\x02" + given for given in hollow]
        first, *broken_results = decode_values(spark, table, [encode_avro(schema, id=1, x=good), *broken])
        assert first[0] is None, (name, first)
        assert first[1].asDict(recursive=True) == {"id": 1, "x": good}
        for reason, _ in broken_results:
            assert reason == "the value cannot be decoded with its Avro schema", name
    assert spark.range(3).count() == 3


@pytest.mark.repeats("test_length_that_no_record_has_is_a_bad_record_and_the_server_lives[server with limits]")
def test_bytes_behind_a_record_are_not_left_out_in_silence(spark: Any) -> None:
    schema = build_record(a="int", b=["null", "string"])
    good = encode_avro(schema, a=7, b="x")
    results = decode_values(
        spark, build_table(schema), [good, good + b"\x00", b"\x00\x00\x00\x00\x05" + good, good[:-1]]
    )
    assert [reason for reason, _ in results] == [None, *["the value cannot be decoded with its Avro schema"] * 3]
    assert results[0][1].asDict() == {"a": 7, "b": "x"}


def test_fixed_schema_that_is_narrower_than_what_producers_write_makes_bad_records_and_no_other_numbers(spark) -> None:
    """As bytes an int and a long are the same, up to the number that an int does not hold."""
    kinds = {"type": "record", "name": "K", "fields": [{"name": "n", "type": "long"}]}
    wide = build_record(
        n="long", day="long", many={"type": "array", "items": "long"}, marks={"type": "map", "values": kinds}
    )
    narrow = json.loads(json.dumps(wide).replace('"long"', '"int"'))
    narrow["fields"][1]["type"] = {"type": "int", "logicalType": "date"}
    good = {"n": -(2**31), "day": 1, "many": [2**31 - 1, 7], "marks": {"a": {"n": 5}}}
    beyond = (
        {"n": 2**31},
        {"n": 2**40 + 1},
        {"day": 2**32},
        {"many": [1, -(2**31) - 1]},
        {"marks": {"a": {"n": 2**33}}},
    )
    rows = [good, *({**good, **more} for more in beyond)]
    results = decode_values(spark, build_table(narrow), [encode_avro(wide, **row) for row in rows])
    assert results[0][0] is None
    assert results[0][1].asDict(recursive=True) == {**good, "day": date(1970, 1, 2)}
    names = [next(iter(more)) for more in beyond]
    assert [reason for reason, _ in results[1:]] == [
        f"the value field {n} does not fit its column without loss" for n in names
    ]


@pytest.mark.repeats(
    "test_fixed_schema_that_is_narrower_than_what_producers_write_makes_bad_records_and_no_other_numbers"
)
def test_text_that_is_none_as_a_key_of_a_map_is_bad(spark) -> None:
    schema = build_record(
        m={"type": "map", "values": "string"}, l={"type": "array", "items": {"type": "map", "values": "int"}}
    )
    good = encode_avro(schema, m={"é": "x"}, l=[{"ü": 1}])
    broken = [good.replace("é".encode(), b"\xc3("), good.replace("ü".encode(), b"\xff\xfe")]
    results = decode(spark, build_table(schema), [(None, value) for value in (good, *broken)], "reason")
    assert [reason for (reason,) in results] == [
        None,
        *(f"the value field {n} does not fit its column without loss" for n in "ml"),
    ]


@pytest.mark.repeats("integration/test_values.py::test_avro_is_what_was_written_or_its_record_is_bad[timestamp-nanos]")
def test_members_of_a_union_are_converted_as_fields_are(spark: Any) -> None:
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    clock = {"type": "int", "logicalType": "time-millis"}
    schema = build_record(x=["null", "string", nanos], y=["null", clock, "string"])
    rows = [
        ({"x": ("long", 1_700_000_000_123_456_000), "y": ("int", 3_600_001)}),
        ({"x": ("long", 1_700_000_000_123_456_789), "y": None}),
        ({"x": None, "y": "z"}),
    ]
    results = decode_values(spark, build_table(schema), [encode_avro(schema, **row) for row in rows])
    assert [reason for reason, _ in results] == [None, "the value field x does not fit its column without loss", None]
    first = results[0][1].asDict(recursive=True)
    assert first["x"]["member1"].isoformat() == "2023-11-14T22:13:20.123456"
    assert first["y"] == {"member0": "01:00:00.001", "member1": None}
    assert results[2][1].asDict(recursive=True) == {"x": None, "y": {"member0": None, "member1": "z"}}


@pytest.mark.repeats("integration/test_values.py::test_avro_is_what_was_written_or_its_record_is_bad[timestamp-nanos]")
def test_nanoseconds_are_cut_where_that_is_asked_for_and_the_key_is_strict(spark: Any) -> None:
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    zoned = {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}
    schema = build_record(at=nanos, many={"type": "array", "items": nanos}, zoned=zoned, id=nanos)
    fine = "2026-02-28T10:00:00.1234567Z"
    rows = [
        {"at": -1, "many": [1_700_000_000_123_456_789], "zoned": fine, "id": 1000},
        {"at": 1, "many": [], "zoned": fine.replace("T10", "T25"), "id": 1000},
        {"at": 1, "many": [], "zoned": fine, "id": 1001},
    ]
    bare = [encode_avro(schema, **row) for row in rows]
    table = replace(build_table(schema), key_columns=(Column("id", "TIMESTAMP"),))  # the value repeats it
    cut = replace(table, value=replace(table.value, nanoseconds="truncate"))
    results = decode_values(spark, cut, bare)
    does_not_fit = "does not fit its column without loss"
    expected = [f"the {field} {does_not_fit}" for field in ("value field zoned", "key field id")]
    assert [reason for reason, _ in results[1:]] == expected
    row = results[0][1].asDict()
    assert [row[name].isoformat() for name in ("at", "zoned")] == [
        "1969-12-31T23:59:59.999999", "2026-02-28T10:00:00.123456"]  # fmt: skip
    assert [moment.isoformat() for moment in row["many"]] == ["2023-11-14T22:13:20.123456"]
    by_name = replace(table, value=replace(table.value, nanoseconds={"AT": "truncate", "many": "truncate"}))
    assert [reason for reason, _ in decode_values(spark, by_name, bare[:1])] == [
        f"the value field zoned {does_not_fit}"
    ]


@pytest.mark.repeats("integration/test_values.py::test_avro_is_what_was_written_or_its_record_is_bad[decimal(64,2)]")
def test_decimal_of_connects_default_precision_fits_where_the_number_does(spark: Any) -> None:
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
    schema = build_record(x=wide)
    digits = ["1.50", "-" + "9" * 36 + ".99", "1" + "0" * 36 + ".00"]
    raw = [int(text.replace(".", "")) for text in digits]
    plain = [
        encode_avro(build_record(x="bytes"), x=n.to_bytes((n.bit_length() + 8) // 8, "big", signed=True)) for n in raw
    ]
    results = decode_values(spark, build_table(schema), plain)
    assert [row.x for _, row in results[:2]] == [Decimal(text) for text in digits[:2]]
    assert [reason is None for reason, _ in results] == [True, True, False]
    narrow = replace(build_table(schema), value_columns=(Column("x", "DECIMAL(9,2)"),))
    results = decode_values(spark, narrow, plain)
    assert results[0] == (None, (Decimal("1.50"),))
    assert results[1][0] == "the value field x does not fit its column without loss"


def test_source_of_a_change_event_is_told_field_by_field_with_its_type(spark: Any) -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    source = {"type": "record", "name": "Source", "fields": [
        {"name": "lsn", "type": ["null", "long"]}, {"name": "scn", "type": ["null", "string"]},
        {"name": "txId", "type": ["null", "long"]}, {"name": "row", "type": "int"},
        {"name": "change_lsn", "type": ["null", "string"]}, {"name": "event_serial_no", "type": ["null", "long"]},
    ]}  # fmt: skip
    schema = build_record(before=["null", row], after=["null", "Row"], op="string", source=source)
    words = {"op": "op", "lsn": "source.lsn", "scn": "source.scn", "tx": "source.txId", "pos": "source.pos"}
    words |= {"row": "source.row", "place": "source.change_lsn", "serial": "source.event_serial_no"}
    table = replace(
        build_stage_table(
            ValueFormat("debezium-avro", options={"reader": plan_decoding(schema, {}).reader, "writers": {}}), (ID,)
        ),
        metadata={name: f"value.{word}" for name, word in words.items()},
    )
    digits = "9" * 30
    place = "00000027:00000ac0:0002"
    given = [
        {"lsn": 2**40, "scn": digits, "txId": 7, "row": 1, "change_lsn": place, "event_serial_no": 2},
        {"lsn": None, "scn": None, "txId": None, "row": 0, "change_lsn": None, "event_serial_no": None},
    ]
    events = [encode_avro(schema, before=None, after={"id": 1}, op="r", source=source) for source in given]
    rows = [row.asDict() for _, row in decode_values(spark, table, events)]
    assert rows == [
        {"id": 1, "op": "r", "lsn": 2**40, "scn": Decimal(digits), "tx": "7", "pos": None, "row": 1,
         "place": place, "serial": 2},
        {"id": 1, "op": "r", "lsn": None, "scn": None, "tx": None, "pos": None, "row": 0,
         "place": None, "serial": None},
    ]  # fmt: skip


FIRST_DAY, LAST_DAY, DAY_MICROS = -719_162, 2_932_896, 86_400_000_000
# logical type -> how many of it a day has
COUNTED = {
    "timestamp-millis": DAY_MICROS // 1000,
    "timestamp-micros": DAY_MICROS,
    "local-timestamp-millis": DAY_MICROS // 1000,
    "local-timestamp-micros": DAY_MICROS,
    "date": 1,
}


def test_time_outside_of_the_years_1_to_9999_is_bad(spark: Any) -> None:
    """A field for each kind of time, and one for lists of it. In each record one field has the time under test."""
    kinds = {name: {"type": "int" if name == "date" else "long", "logicalType": name} for name in COUNTED}
    fields = {f"x{n}": kind for n, kind in enumerate(kinds.values())}
    fields |= {f"l{n}": {"type": "array", "items": kind} for n, kind in enumerate(kinds.values())}
    plain, none = (
        build_record(**{name: _strip_logical_type(kind) for name, kind in fields.items()}),
        dict.fromkeys(fields, 0),
    )
    none |= {name: [] for name, kind in fields.items() if kind["type"] == "array"}
    raw, expected_reasons = [], []
    for number, day in enumerate(COUNTED.values()):
        for name, wrap in ((f"x{number}", lambda n: n), (f"l{number}", lambda n: [n])):
            given = [FIRST_DAY * day, FIRST_DAY * day - 1, (LAST_DAY + 1) * day - 1, (LAST_DAY + 1) * day]
            raw += [encode_avro(plain, **{**none, name: wrap(value)}) for value in given]
            bad = f"the value field {name} does not fit its column without loss"
            expected_reasons += [None, bad, None, bad]
    assert read_reasons(spark, build_table(build_record(**fields)), raw) == expected_reasons
    assert len(expected_reasons) == 8 * len(COUNTED)


def _strip_logical_type(kind: Any) -> Any:
    """The same type without its meaning: numbers are written as they are."""
    return {**kind, "items": kind["items"]["type"]} if kind["type"] == "array" else kind["type"]


@pytest.mark.repeats("test_source_of_a_change_event_is_told_field_by_field_with_its_type")
def test_truncate_of_the_source_table_is_applied_where_that_is_asked_for(spark: Any) -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    schema = build_record(before=["null", row], after=["null", "Row"], op="string")
    options = {"reader": plan_decoding(schema, {}).reader, "writers": {}, "truncate": "apply"}
    table = build_stage_table(ValueFormat("debezium-avro", options=options), (ID,), (ID,))
    event = encode_avro(schema, before=None, after=None, op="t")
    expressions = ("op", "key_struct", "value_struct", "fate", "reason")
    results = decode(spark, table, [(None, event), (b"not a key", event)], *expressions)
    assert results == [("t", None, None, "staged", None)] * 2
    refusing = replace(table, value=replace(table.value, options={**options, "truncate": "refuse"}))
    ((reason,),) = decode(spark, refusing, [(None, event)], "reason")
    assert "value.truncate: apply" in reason


@pytest.mark.repeats("integration/test_values.py::test_avro_is_what_was_written_or_its_record_is_bad[decimal(64,2)]")
def test_number_of_its_own_scale_is_a_decimal_or_its_text_where_that_is_declared(spark: Any) -> None:
    number = {"type": "record", "name": "VariableScaleDecimal", "namespace": "io.debezium.data", "fields": [
        {"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]}  # fmt: skip
    schema = build_record(a=["null", number], b=["null", "io.debezium.data.VariableScaleDecimal"])
    declared = (Column("a", "DECIMAL(5,2)"), Column("b", "STRING"))
    value = ValueFormat("avro", declared, options={"schema": json.dumps(schema)})
    source = Table("lake.shop.n", ("t",), KeyFormat(), value, upsert=False, delete=False)
    described_table = RegistrySchemas(lambda _: None).describe_table(source)
    assert described_table.value.columns == declared

    def build_decimal(unscaled: int, scale: int) -> dict[str, Any]:
        return {"scale": scale, "value": unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)}

    rows = [
        ({"a": build_decimal(12345, 2), "b": build_decimal(-5, 3)}, ("123.45", "-0.005")),
        ({"a": build_decimal(-2, -2), "b": build_decimal(10**38 - 1, 0)}, ("-200.00", "9" * 38)),
        ({"a": None, "b": None}, (None, None)),
        ({"a": build_decimal(1, 3), "b": None}, "a"),
        ({"a": build_decimal(100_000, 2), "b": None}, "a"),
        ({"a": None, "b": build_decimal(10**38, 2)}, "b"),
    ]
    results = decode_values(
        spark, build_stage_table(described_table.value, declared), [encode_avro(schema, **row) for row, _ in rows]
    )
    for (reason, row), (_, expected) in zip(results, rows, strict=True):
        if isinstance(expected, str):
            assert reason == f"the value field {expected} does not fit its column without loss"
        else:
            assert (reason, *(None if cell is None else str(cell) for cell in row)) == (None, *expected)
    wrong = replace(source, value=replace(source.value, columns=(Column("a", "BIGINT"),)))
    with pytest.raises(
        ConfigurationError, match=r"value\.schema has a BIGINT, and the registered schema has it as STRUCT"
    ):
        RegistrySchemas(lambda _: None).describe_table(wrong)


@pytest.mark.repeats("test_field_that_no_table_holds_is_read_over_where_no_column_is_made_of_it[True]")
@pytest.mark.parametrize("is_checked_here", [False, True], ids=["server with limits", "server without limits"])
def test_types_of_one_name_in_two_namespaces_are_told_apart(spark: Any, is_checked_here: bool) -> None:
    own = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}
    other = {"type": "record", "name": "Item", "namespace": "b", "fields": [{"name": "s", "type": "string"}]}
    schema = {**build_record(x=own, y=other, z="Item", w={"type": "array", "items": "b.Item"}), "namespace": "a"}
    table = build_table(schema)
    assert [c.type for c in table.value_columns][2:] == ["STRUCT<`n`: INT>", "ARRAY<STRUCT<`s`: STRING>>"]
    table = add_length_check(table) if is_checked_here else table
    row = {"x": {"n": 1}, "y": {"s": "a"}, "z": {"n": -2}, "w": [{"s": "b"}]}
    ((reason, decoded_row),) = decode_values(spark, table, [encode_avro(schema, **row)])
    assert (reason, decoded_row.asDict(recursive=True)) == (None, row)


@pytest.mark.repeats("test_field_that_no_table_holds_is_read_over_where_no_column_is_made_of_it[True]", "False")
@pytest.mark.parametrize("is_registered", [False, True])
def test_field_that_no_table_holds_is_read_over_where_no_column_is_made_of_it(spark: Any, is_registered: bool) -> None:
    marker = {"type": "record", "name": "Marker", "fields": []}
    node = {"type": "record", "name": "Node", "fields": [{"name": "inside", "type": ["null", "Node"]}]}
    schema = build_record(
        Id="int", marker=marker, tree=node, more=["null", "Node"], none=["null", "Marker"], z="string"
    )
    rows = [
        {"Id": 1, "marker": {}, "tree": {"inside": {"inside": None}}, "more": None, "none": {}, "z": "a"},
        {"Id": 2, "marker": {}, "tree": {"inside": None}, "more": {"inside": None}, "none": None, "z": "b"},
    ]
    declared = (Column("z", "STRING"), Column("Id", "INT"))
    options: dict[str, Any] = {"schema": json.dumps(schema)}
    source = Table("lake.shop.n", ("t",), KeyFormat(), ValueFormat("avro", declared, options=options), False, False)
    value = RegistrySchemas(lambda _: None).describe_table(source).value
    header = b"\0\0\0\0\7" if is_registered else b""
    if is_registered:
        options = asdict(plan_decoding(schema, {7: schema}, (), {"Id", "z"}))
        value = replace(value, options=options)
    table = build_stage_table(value, declared)
    given = [header + encode_avro(schema, **row) for row in rows]
    for checked in (table, add_length_check(table)):
        results = decode_values(spark, checked, [*given, given[0][:-1]])
        assert [reason for reason, _ in results] == [None, None, "the value cannot be decoded with its Avro schema"]
        assert [row.asDict() for _, row in results[:2]] == [{"z": "a", "Id": 1}, {"z": "b", "Id": 2}]


@pytest.mark.repeats("test_field_that_no_table_holds_is_read_over_where_no_column_is_made_of_it[True]")
def test_row_of_a_change_event_that_holds_itself_is_read_without_that_field(spark: Any) -> None:
    row = {"type": "record", "name": "Row", "fields": [
        {"name": "id", "type": "int"}, {"name": "parent", "type": ["null", "Row"]}]}  # fmt: skip
    schema = build_record(before=["null", row], after=["null", "Row"], op="string")
    value = ValueFormat("debezium-avro", (ID,), options={"schema": json.dumps(schema)})
    source = Table("lake.shop.n", ("t",), KeyFormat("json", ("id",), (ID,)), value, True, True)
    table = build_stage_table(RegistrySchemas(lambda _: None).describe_table(source).value, (ID,), (ID,))
    inner = {"id": 1, "parent": {"id": 0, "parent": None}}
    events = [
        encode_avro(schema, before=None, after=inner, op="c"),
        encode_avro(schema, before=inner, after=None, op="d"),
    ]
    results = decode(
        spark, table, [(b'{"id": 1}', event) for event in events], "op", "key_struct.id", "value_struct.id", "reason"
    )
    assert results == [("c", 1, 1, None), ("d", 1, None, None)]
