"""Fields that no column holds: counted by name in every format that has names, refused, or left alone."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgpack
import pytest
from decoding import build_stage_table, decode
from tidegate.errors import BadRecord
from tidegate.jobs.stage_job import StageTable
from tidegate.model.offsets import Ranges
from tidegate.monitoring.status import read_status
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

KEYS = (Column("id", "BIGINT"),)
COLUMNS = (
    *KEYS, Column("Name", "STRING"), Column("lines", "ARRAY<STRUCT<sku: STRING, n: INT>>"),
    Column("at", "STRUCT<city: STRING>"),
)  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"id": 1, "Name": "a"},
    {"id": 2, "Name": "b", "zip": "1", "n.x": 1.5},
    {"id": 3, "gone": None, "none": {}, "no": [], "lines": [], "at": None},
    {"id": 4, "lines": [{"sku": "a", "n": 1, "q": True}, {"sku": "b", "q": False}], "at": {"city": "c", "zip": 5}},
    {"id": 5, "Name": "c", "tags": [1], "other": {"a": 1}},
    {"id": 6, "zip": 7, "gone": None, "none": {}},
]
FOUND = {
    "zip": [2, "STRING"], "`n.x`": [1, "DOUBLE"], "at.zip": [1, "BIGINT"], "lines.q": [1, "BOOLEAN"],
    "other": [1, "STRING"], "tags": [1, "ARRAY<STRING>"],
}  # fmt: skip
WRAPPED = {
    "json": lambda row: row,
    "enveloped": lambda row: {"schema": None, "payload": row},
    "debezium-json": lambda row: {"before": {"old": 1}, "after": row, "op": "c", "source": {"db": "x"}},
    "maxwell-json": lambda row: {"type": "insert", "data": row, "database": "d", "table": "t", "ts": 1},
    "ogg-json": lambda row: {"op_type": "I", "after": row, "table": "t"},
    "canal-json": lambda row: {"type": "INSERT", "isDdl": False, "table": "t", "data": [make_texts(row)]},
}
CANAL_FOUND = {  # all of its values are texts
    name: [records, "STRING"]
    for name, records in {"lines": 2, "none": 2, "zip": 2, "`n.x`": 1, "at": 1, "no": 1, "other": 1, "tags": 1}.items()
}
FORMATS = [*WRAPPED, "msgpack"]


def make_texts(row: dict[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in row.items()}


def encode(name: str, row: dict[str, Any]) -> bytes:
    if name == "msgpack":
        return bytes(msgpack.packb(row))
    return json.dumps(WRAPPED[name](row)).encode()


def build_table(name: str, word: str, **options: Any) -> StageTable:
    format_options = {"envelope": True} if name == "enveloped" else {}
    value_format = ValueFormat(
        format="json" if name == "enveloped" else name, options=format_options, unknown_fields=word
    )
    return build_stage_table(value_format, COLUMNS[:2] if name == "canal-json" else COLUMNS, KEYS, **options)


def stage(spark: Any, table: StageTable, values: list[bytes], *, is_plain: bool = False) -> Any:
    """What a pass counts, and what it says of the fields."""
    from tidegate_spark.stage.record_pass import build_outcome, build_pass, count_unknown_fields, infer_lacking_columns

    rows = [(b"1", value, "t", number % 2, number // 2, None) for number, value in enumerate(values)]
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"
    frame = spark.createDataFrame(rows, f"{schema}, headers ARRAY<STRUCT<key: STRING, value: BINARY>>")
    records = frame.selectExpr("*", "current_timestamp() AS timestamp", "0 AS timestampType")
    ranges = Ranges({"t": {0: (0, len(values)), 1: (0, len(values))}})
    counts, staged_rows = build_pass(ranges, table, records, is_plain=is_plain)
    staged_rows.write.format("noop").mode("overwrite").save()
    observed = counts.read(staged_rows)
    unknown_fields = count_unknown_fields(observed, records, table)
    return build_outcome(observed, ranges, table, unknown_fields, infer_lacking_columns(observed, records, table))


@pytest.mark.repeats(
    "test_fields_are_counted_by_name_in_each_format[json]",
    "enveloped",
    "debezium-json",
    "maxwell-json",
    "ogg-json",
    "canal-json",
    "msgpack",
)
@pytest.mark.parametrize("name", FORMATS)
def test_fields_are_counted_by_name_in_each_format(spark, name: str) -> None:
    """Also inside of structs and lists; null says nothing, and what a text column holds has names of its own."""
    outcome = stage(spark, build_table(name, "warn"), [encode(name, row) for row in ROWS])
    assert (outcome.staged, outcome.bad, outcome.first_bad) == (6, 0, None)
    found = CANAL_FOUND if name == "canal-json" else FOUND
    records = 5 if name == "canal-json" else 4
    assert outcome.unknown_fields.to_dict() == {"records": records, "fields": found, "others": 0}


# its records are read by the short pass
@pytest.mark.repeats("test_flush_tells_the_fields_and_how_to_declare_them")
def test_flat_rows_are_counted_by_the_short_pass_too(spark) -> None:
    table = build_stage_table(ValueFormat(), COLUMNS[:2], KEYS)
    values = [encode("json", row) for row in [*ROWS, {"id": 7, "Name": "a:b"}, {"id": 8, "zip": 1}]]
    short, whole = (stage(spark, table, values, is_plain=is_plain) for is_plain in (True, False))
    assert replace(short, timestamps={}) == replace(whole, timestamps={})
    assert short.unknown_fields.to_dict()["fields"]["lines"] == [1, "ARRAY<STRING>"]


@pytest.mark.repeats("test_flush_tells_the_fields_and_how_to_declare_them")
def test_records_without_such_fields_are_read_once(spark) -> None:
    outcome = stage(spark, build_table("json", "warn"), [encode("json", row) for row in (ROWS[0], ROWS[2])])
    assert (outcome.staged, outcome.unknown_fields) == (2, None)
    assert stage(spark, build_table("json", "ignore"), [encode("json", ROWS[1])]).unknown_fields is None


@pytest.mark.repeats("unit/tidegate_spark/fields/test_unknown_fields.py::test_many_names_are_told_apart")
def test_record_of_very_many_fields_is_counted(spark) -> None:
    value = json.dumps({"id": 1, **{f"name {n}": n for n in range(500)}}).encode()
    unknown = stage(spark, build_table("json", "warn"), [value, value]).unknown_fields
    assert (unknown.records, len(unknown.fields), unknown.others) == (2, 20, 960)
    assert {field.records for field in unknown.fields} == {2}


@pytest.mark.repeats("unit/tidegate_spark/stage/test_planning.py::test_stage_job")
def test_fields_beside_many_columns_are_counted(spark) -> None:
    """Spark must not write all steps of decoding into one condition: that is never planned to the end."""
    kinds = ("STRING", "DECIMAL(12,2)", "TIMESTAMP", "DOUBLE", "BOOLEAN", "INT", "DATE") * 2
    table = build_stage_table(ValueFormat(), (*KEYS, *(Column(f"c{n}", kind) for n, kind in enumerate(kinds))), KEYS)
    outcome = stage(spark, table, [b'{"id": 1, "c0": "a", "zip": 2}', b'{"id": 2, "zip": null}'])
    assert outcome.unknown_fields.to_dict() == {"records": 1, "fields": {"zip": [1, "BIGINT"]}, "others": 0}


@pytest.mark.repeats("test_fields_are_counted_by_name_in_each_format[json]")
def test_only_rows_of_the_table_are_counted(spark) -> None:
    """Not deletes, nor records of other tables."""
    table = replace(build_table("debezium-json", "warn"), when="id < 5")
    deleted = json.dumps({"before": {"id": 4, "zip": 1}, "after": None, "op": "d"}).encode()
    outcome = stage(spark, table, [*(encode("debezium-json", row) for row in ROWS), deleted])
    assert outcome.filtered == 2
    assert outcome.unknown_fields.to_dict()["fields"]["zip"] == [1, "STRING"]


@pytest.mark.repeats("unit/tidegate_spark/fields/test_unknown_fields.py::test_many_names_are_told_apart")
def test_topic_of_made_up_names_is_counted_with_twenty_of_them(spark) -> None:
    for number in (150, 4000):  # the latter are too many to count them while they pass
        values = [json.dumps({"id": n, f"name {n}": n, "often": 1}).encode() for n in range(number)]
        unknown = stage(spark, build_table("json", "warn"), values).unknown_fields
        assert (unknown.records, len(unknown.fields), unknown.others) == (number, 20, number - 19)
        assert unknown.fields[0].name == "often"


@pytest.mark.repeats(
    "test_refused_field_makes_its_record_bad[json]",
    "enveloped",
    "debezium-json",
    "maxwell-json",
    "ogg-json",
    "canal-json",
    "msgpack",
)
@pytest.mark.parametrize("name", FORMATS)
def test_refused_field_makes_its_record_bad(spark, name: str) -> None:
    table = build_table(name, "refuse")
    reasons = decode(spark, table, [(b"1", encode(name, row)) for row in ROWS], "reason", "failed_stage")
    names = [reason and reason.split(" ")[3] for reason, _ in reasons]
    assert [stage for _, stage in reasons] == [name and "value" for name in names]
    middle = ["none", "lines"] if name == "canal-json" else [None, "lines.q"]
    assert names == [None, "zip", *middle, "tags", "zip"]
    assert "value.unknown_fields" in reasons[1][0]


MADE = {
    "Name": "STRING", "at": "STRUCT<`city`: STRING, `zip`: BIGINT>",
    "lines": "ARRAY<STRUCT<`n`: BIGINT, `q`: BOOLEAN, `sku`: STRING>>", "other": "STRUCT<`a`: BIGINT>",
    "tags": "ARRAY<BIGINT>", "zip": "STRING",
}  # fmt: skip
MADE_VALUES = [
    {"Name": "a"}, {"Name": "b", "zip": "1"}, {},
    {"lines": [{"sku": "a", "n": 1, "q": True}, {"sku": "b", "n": None, "q": False}], "at": {"city": "c", "zip": 5}},
    {"Name": "c", "tags": [1], "other": {"a": 1}}, {"zip": "7"},
]  # fmt: skip
CANAL_MADE = {"Name": ["a", "b", None, None, "c", None], "zip": [None, "1", None, None, None, "7"]}


@pytest.mark.repeats(
    "test_columns_are_made_of_each_format[msgpack]",
    "json",
    "enveloped",
    "debezium-json",
    "maxwell-json",
    "ogg-json",
    "canal-json",
)
@pytest.mark.parametrize("name", FORMATS)
def test_columns_are_made_of_each_format(spark, name: str) -> None:
    """And filled by the second pass, with NULL for what holds no scalar. Canal's columns are texts, as its values."""
    from tidegate.flush.stage_request import NO_COLUMN

    table = replace(build_table(name, "add", fixed=("id",)), value_columns=(NO_COLUMN,))
    values = [encode(name, row) for row in ROWS]
    outcome = stage(spark, table, values)
    assert (outcome.staged, outcome.bad, outcome.first_bad) == (6, 0, None)
    columns = {column.name: column.type for column in outcome.lacking.columns}
    wide = replace(table, value_columns=outcome.lacking.columns)
    assert not stage(spark, wide, values).lacking.columns
    rows = decode(spark, wide, [(b"1", value) for value in values], "value_struct")
    if name == "canal-json":
        assert set(columns.values()) == {"STRING"}
        assert {made: [row[made] for (row,) in rows] for made in CANAL_MADE} == CANAL_MADE
        return
    assert columns == MADE
    nothing = dict.fromkeys(MADE)
    assert [row.asDict(recursive=True) for (row,) in rows] == [{**nothing, **row} for row in MADE_VALUES]
    later = [encode(name, {"id": 7, "at": {"zone": "u"}, "lines": [{"w": 1}]})]
    outcome = stage(spark, wide, later)
    assert (outcome.bad, [column.name for column in outcome.lacking.columns]) == (0, ["at", "lines"])
    outcome = stage(spark, replace(wide, fixed=("id", "at")), later)
    assert "has none of the fields of STRUCT<city: STRING, zip: BIGINT>" in outcome.first_bad.reason


MSGPACK_VALUES = {
    "whole": 7, "big": 2**64 - 1, "half": 1.5, "raw": b"\x00\xff", "nan": float("nan"), "flag": True,
    "low": float("-inf"), "at": msgpack.Timestamp(1, 500), "by_number": {2: "a", True: None},
    "own": msgpack.ExtType(5, b"x"),
}  # fmt: skip
MSGPACK_TEXTS = {
    "whole": "7", "big": "18446744073709551615", "half": "1.5", "raw": "AP8=", "nan": "NaN", "flag": "true",
    "low": "-Infinity", "at": "1970-01-01T00:00:01.000000500Z", "by_number": '{"2":"a","true":null}', "own": "eA==",
}  # fmt: skip


@pytest.mark.repeats("test_columns_are_made_of_each_format[msgpack]")
def test_every_value_of_messagepack_fills_a_text_and_declared_columns_keep_their_types(spark) -> None:
    texts = tuple(Column(name, "STRING") for name in MSGPACK_VALUES)
    value_format = ValueFormat(format="msgpack", unknown_fields="add")
    records = [
        (b"1", msgpack.packb({"id": 1, **MSGPACK_VALUES})),
        (b"1", b"\x81\xa1a"),
        (b"1", b"\x91\x01"),
        (b"1", None),
    ]
    found = decode(spark, build_stage_table(value_format, texts, KEYS), records, "value_struct", "reason", "op")
    assert (found[0][0].asDict(), found[0][1:]) == (MSGPACK_TEXTS, (None, "u"))
    reasons = ["the value is not MessagePack", "the value is not a MessagePack map", None]
    assert [reason for _, reason, _ in found[1:]] == reasons
    assert found[3][2] == "d"
    typed = {
        "whole": "INT",
        "big": "DECIMAL(20,0)",
        "half": "FLOAT",
        "raw": "BINARY",
        "nan": "DOUBLE",
        "low": "FLOAT",
        "flag": "BOOLEAN",
        "at": "TIMESTAMP",
    }
    columns = tuple(Column(name, kind) for name, kind in typed.items())
    cut = replace(value_format, nanoseconds="truncate")
    ((row, reason),) = decode(spark, build_stage_table(cut, columns, KEYS), records[:1], "value_struct", "reason")
    assert reason is None
    assert (row.whole, row.big, row.half, bytes(row.raw), row.flag) == (7, 2**64 - 1, 1.5, b"\x00\xff", True)
    assert (str(row.nan), row.low) == ("nan", float("-inf"))
    assert row["at"] == datetime.fromtimestamp(1)


SCHEMA_ID_CASES = [
    (b"\x00\x00\x00\x00\x07" + b'{"id": 1}', 7), (b"\x00\xff\xff\xff\xff" + b'{"id": 2}', 2**32 - 1), (None, None),
]  # fmt: skip


@pytest.mark.repeats(
    "integration/test_wire_formats.py::test_subject_and_version_of_the_writers_schema_are_columns[avro]"
)
def test_schema_id_of_the_writer_is_a_column(spark) -> None:
    metadata = {"value_id": "value.schema-id", "key_id": "key.schema-id"}
    value_format = ValueFormat(options={"ids": [7, 2**32 - 1]})
    table = replace(build_stage_table(value_format, KEYS, KEYS), metadata=metadata)
    records = [(b"1", value) for value, _ in SCHEMA_ID_CASES]
    found = decode(spark, table, records, "value_struct.value_id", "value_struct.key_id", "reason")
    assert found == [(number, None, None) for _, number in SCHEMA_ID_CASES]
    keyed = replace(table, key=KeyFormat(options={"ids": [7]}), value=ValueFormat())
    ((value_id, key_id, reason),) = decode(
        spark, keyed, [(SCHEMA_ID_CASES[0][0], b'{"id": 1}')], "value_struct.value_id", "value_struct.key_id", "reason"
    )
    assert (value_id, key_id, reason) == (None, 7, None)


def test_flush_tells_the_fields_and_how_to_declare_them(workbench, caplog) -> None:
    topic = workbench.topic(2)
    value = {"schema": "id BIGINT, Name STRING"}
    workbench.pipeline("shop", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value=value)
    workbench.produce(topic, *(({"id": row["id"]}, row) for row in ROWS))
    workbench.flush("shop")
    told = "no column holds the fields zip (2), "
    assert [record for record in caplog.records if told in record.getMessage()]
    status = read_status(workbench.open_session("shop"))
    (batch,) = status["batches"]
    assert {field["name"]: field["records"] for field in batch["unknown_fields"]["fields"]} == {
        "zip": 2, "`n.x`": 1, "at": 1, "lines": 1, "other": 1, "tags": 1,
    }  # fmt: skip
    assert [warning for warning in status["warnings"] if told in warning and "zip STRING" in warning]
    assert [row["id"] for row in workbench.read_rows("shop.shop")] == [1, 2, 3, 4, 5, 6]
    workbench.produce(topic, ({"id": 7}, {"id": 7, "Name": "d"}))
    workbench.flush("shop")
    status = read_status(workbench.open_session("shop"))
    assert (status["warnings"], [batch["unknown_fields"] is None for batch in status["batches"]]) == ([], [True, False])


@pytest.mark.repeats("test_refused_field_makes_its_record_bad[json]")
def test_refused_field_fails_the_flush_with_its_name(workbench) -> None:
    topic = workbench.topic(2)
    value = {"schema": "id BIGINT, Name STRING", "unknown_fields": "refuse"}
    workbench.pipeline("strict", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value=value)
    workbench.produce(topic, ({"id": 1}, {"id": 1, "zip": 7}), ({"id": 2}, {"id": 2, "zip": None}))
    with pytest.raises(BadRecord, match="the value field zip is no column"):
        workbench.flush("strict")
