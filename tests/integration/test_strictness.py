"""Nothing is converted silently: what the declared type cannot hold is a bad record with its reason, on real Spark."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import decoding
import pyarrow.parquet as pq
import pytest
from tidegate.errors import BadRecord
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat
from tidegate.sql.spark import render_literal
from tidegate_spark.session import close, configure, connect_session
from tidegate_spark.stage.job import BIGQUERY_PARQUET_CONF, write_rows

KEY = {"fields": ["id"], "schema": "id BIGINT"}

# value column's type, JSON text of the value, None when it is good or a part of the reason
VALUES = [
    ("DECIMAL(5,2)", "123.45", None),
    ("DECIMAL(5,2)", '"123.45"', None),
    ("DECIMAL(5,2)", "123.450", None),
    ("DECIMAL(5,2)", "123.456", "without loss"),
    ("DECIMAL(5,2)", '"123.456"', "without loss"),
    ("DECIMAL(5,2)", "1234.5", "without loss"),
    ("DECIMAL(5,2)", '"12a"', "without loss"),
    ("DECIMAL(38,10)", "1234567890123456789012345678.0123456789", None),
    ("DECIMAL(38,0)", "1e40", "without loss"),
    ("TINYINT", "127", None),
    ("TINYINT", "128", "without loss"),
    ("SMALLINT", "40000", "without loss"),
    ("INT", "2147483647", None),
    ("INT", "2147483648", "value.schema, fields: "),
    ("INT", "1.5", "value.schema, fields: "),
    ("INT", '"7"', "value.schema, fields: "),
    ("BIGINT", "9223372036854775807", None),
    ("BIGINT", "9223372036854775808", "value.schema, fields: "),
    ("BIGINT", "1.0", "value.schema, fields: "),
    ("BOOLEAN", "true", None),
    ("BOOLEAN", '"yes"', "value.schema, fields: "),
    ("BOOLEAN", "1", "value.schema, fields: "),
    ("STRING", '"text"', None),
    ("DOUBLE", "1.5", None),
    ("DOUBLE", '"1.5x"', "value.schema, fields: "),
    ("DATE", '"2026-02-28"', None),
    ("DATE", '"2026-02-30"', "without loss"),
    ("DATE", '"2026-02-28T10:00:00"', "without loss"),
    ("DATE", "20000", "without loss"),
    ("TIMESTAMP", '"2026-02-28T10:00:00.123456Z"', None),
    ("TIMESTAMP", '"2026-02-28T10:00:00.123456000Z"', None),
    ("TIMESTAMP", '"2026-02-28T10:00:00.123456789Z"', "without loss"),
    ("TIMESTAMP", '"yesterday"', "without loss"),
    ("TIMESTAMP", "1700000000000", "without loss"),
    ("TIMESTAMP_NTZ", '"2026-02-28T10:00:00.1234567"', "without loss"),
    ("ARRAY<TINYINT>", "[1, 2]", None),
    ("ARRAY<TINYINT>", "[1, 200]", "without loss"),
    ("MAP<STRING, DECIMAL(3,1)>", '{"a": 1.25}', "without loss"),
    ("STRUCT<a: DATE>", '{"a": "2026-13-01"}', "without loss"),
    ("ARRAY<INT>", "7", "value.schema, fields: "),
    ("INT", "null", None),
    ("DATE", "null", None),
]
# whole value texts for a column x INT
TEXTS = [
    ("[1]", "not a JSON object"),
    ('[{"x": 1}]', "not a JSON object"),
    ('"text"', "not a JSON object"),
    ("null", "not a JSON object"),
    ("", "not a JSON object"),
    ('{"x": 1', "the value is not a JSON object"),
    ('{"x": 1} {"x": 2}', "the value is not one JSON object"),
    ('{"x": 1}]', "not a JSON object"),
    ('{"x": 1}}', "not one JSON object"),
    ('{"x": 1}}{"x": 2}', "not one JSON object"),
    ('{"x": 1}} and more }', "not one JSON object"),
    ('{"x": 1}, {"x": 2}', "not one JSON object"),
    ('{"x": 1}, "y": {"x": 2}', "not one JSON object"),
    ('{"x": 1}, "y": 2}', "not one JSON object"),
    ('\ufeff{"x": 1}', "the value begins with a byte-order mark, which is no part of JSON"),
    ('{"x": 1}], "y": [{}', "not one JSON object"),
    ('{"x": 1}], "y": [{"x": 2}', "not one JSON object"),
    ('{"x": 1}]}, {"x": 2}', "not one JSON object"),
]
# whole key texts for a key id BIGINT that are no key, however they begin
KEY_TEXTS = [
    '{"id": 5}}', '{"id": 5}, "y": {"id": 6}', '5, "y": 6', '5}, "y": {"id": 6', "5}", "5]", "5 6",
    '{"id": 5}{"id": 6}', '"5", "id": 6', '{"id": 5}} {', "[5]", '"a": 5', "",
]  # fmt: skip


def read_reasons(spark, values: list[bytes], type: str, fmt: ValueFormat | None = None) -> list[str | None]:
    """What decoding says about each value, in one pass of real Spark."""
    return decoding.read_reasons(
        spark, decoding.build_stage_table(fmt or ValueFormat("json"), (Column("x", type),)), list(values)
    )


def test_value_that_the_type_cannot_hold_is_bad_and_what_it_can_is_good(spark) -> None:
    """A column for each type; a record has one of them."""
    types = sorted({type for type, _, _ in VALUES})
    columns = tuple(Column(f"c{number}", type) for number, type in enumerate(types))
    texts = [f'{{"c{types.index(type)}": {text}}}'.encode() for type, text, _ in VALUES]
    reasons = decoding.read_reasons(spark, decoding.build_stage_table(ValueFormat("json"), columns), list(texts))
    results = list(zip(texts, [(part, types.index(type)) for type, _, part in VALUES], reasons, strict=True))
    assert {text: reason for text, (part, _), reason in results if (part is None) != (reason is None)} == {}
    assert {text: reason for text, (part, _), reason in results if part and part not in str(reason)} == {}
    assert {text: reason for text, (_, number), reason in results if reason and f"c{number}" not in reason} == {}


@pytest.mark.guard(
    "a text is one JSON object, and nothing follows it",
    file="jobs/tidegate_spark/fields/json/objects.py",
    text="CASE WHEN size({struct}.{ELEMENTS_FIELD}) = 2 THEN",
    off="CASE WHEN true THEN",
)
def test_value_that_is_not_one_json_object_is_bad(spark) -> None:
    reasons = dict(zip(TEXTS, read_reasons(spark, [text.encode() for text, _ in TEXTS], "INT"), strict=True))
    assert {text: reason for (text, part), reason in reasons.items() if reason is None or part not in reason} == {}


@pytest.mark.repeats("test_value_that_is_not_one_json_object_is_bad")
def test_key_that_is_not_one_json_value_is_bad(spark) -> None:
    stage = decoding.build_stage_table(
        ValueFormat("json"), (Column("x", "INT"),), (Column("id", "BIGINT", nullable=False),)
    )
    results = dict(
        zip(KEY_TEXTS, decoding.decode_keys(spark, stage, [text.encode() for text in KEY_TEXTS]), strict=True)
    )
    assert {text: key for text, (key, reason) in results.items() if reason is None} == {}


@pytest.mark.repeats("test_value_that_is_not_one_json_object_is_bad")
def test_key_behind_a_byte_order_mark_is_bad_and_the_reason_says_so(spark) -> None:
    stage = decoding.build_stage_table(
        ValueFormat("json"), (Column("x", "INT"),), (Column("id", "BIGINT", nullable=False),)
    )
    results = decoding.decode_keys(spark, stage, ['\ufeff{"id": 5}'.encode(), "\ufeff5".encode(), b"[5]", b"5"])
    mark = "the key begins with a byte-order mark, which is no part of JSON"
    misfit = "the key is not a JSON object that fits the key columns"
    assert [reason for _, reason in results] == [mark, mark, misfit, None]


@pytest.mark.repeats(
    "integration/test_limits.py::test_key_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit[json]"
)
def test_bare_key_with_many_escapes_is_read(spark) -> None:
    text = json.dumps('\\"' * 200_000)
    stage = decoding.build_stage_table(
        ValueFormat("json"), (Column("x", "INT"),), (Column("id", "STRING", nullable=False),)
    )
    ((key, reason),) = decoding.decode_keys(spark, stage, [f" {text} ".encode()])
    assert (key, reason) == (json.loads(text), None)


@pytest.mark.repeats(
    "integration/test_decoder_fuzz.py::test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down[json]"
)
def test_invalid_utf8_is_bad_instead_of_replaced(spark) -> None:
    assert read_reasons(spark, [b'{"x": "\xff\xfe"}'], "STRING") == ["the value is not valid UTF-8"]


@pytest.mark.repeats("test_value_that_the_type_cannot_hold_is_bad_and_what_it_can_is_good")
def test_whole_number_is_a_time_under_a_stated_unit_only(spark) -> None:
    fmt = ValueFormat("json", timestamp_unit="millis")
    assert read_reasons(spark, [b'{"x": 1700000000000}'], "TIMESTAMP", fmt) == [None]
    (refused,) = read_reasons(spark, [b'{"x": 1700000000000}'], "TIMESTAMP")
    assert refused


@pytest.mark.repeats("integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[json]")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-03-29T02:30:00 Europe/Berlin", "the clocks of its zone skip that time"),
        ("2026-07-01T10:00 BST", "its zone is no offset, UTC, GMT or region such as Europe/Berlin"),
    ],
)
def test_time_that_its_zone_does_not_make_certain_is_bad_and_the_reason_says_so(spark, text: str, why: str) -> None:
    column = (Column("at", "TIMESTAMP"),)
    texts = {"json": json.dumps({"at": text}), "csv": text, "string": text}
    texts["canal-json"] = json.dumps({"type": "INSERT", "data": [{"at": text}]})
    reasons = {
        w: decoding.read_reasons(spark, decoding.build_stage_table(ValueFormat(w), column), [t.encode()])
        for w, t in texts.items()
    }
    reason = f"is not a TIMESTAMP without loss: {why}"
    begins = {"json": "the value field at", "csv": "the value column at", "string": "the value"}
    begins["canal-json"] = "the value field at"
    assert reasons == {word: [f"{begin} {reason}"] for word, begin in begins.items()}


@pytest.mark.repeats("integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[json]")
def test_time_without_loss_under_a_unit_that_overflows_is_bad_instead_of_failing_the_job(spark) -> None:
    fmt = ValueFormat("json", timestamp_unit="millis")
    (reason,) = read_reasons(spark, [b'{"x": 9223372036854775807}'], "TIMESTAMP", fmt)
    assert reason


def test_value_that_bigquery_has_no_room_for_is_bad_there_and_nowhere_else(spark) -> None:
    columns = (
        Column("tags", "ARRAY<STRING>"),
        Column("rows", "ARRAY<STRUCT<each: ARRAY<INT>, at: DATE>>"),
        Column("m", "MAP<STRING, STRUCT<a: ARRAY<INT>>>"),
        Column("s", "STRUCT<at: TIMESTAMP_NTZ>"),
    )
    no_nulls = "NULL inside of an array, which BigQuery cannot hold"
    cases: list[tuple[bytes | None, str | None]] = [
        (b'{"tags": ["a", null]}', f"tags: {no_nulls}"),
        (b'{"rows": [{"each": [1]}, null]}', f"rows: {no_nulls}"),
        (b'{"rows": [{"each": null}, {"each": [1, null]}]}', f"rows.each: {no_nulls}"),
        (b'{"m": {"k": null, "l": {"a": [null]}}}', f"m.a: {no_nulls}"),
        (b'{"tags": [], "rows": [{"each": []}], "m": {"k": null}, "s": {"at": "9999-12-31T23:59:59.999999"}}', None),
        (b'{"tags": null, "rows": null}', None),
        (None, None),
    ]
    stage = decoding.build_stage_table(ValueFormat("json"), columns, folder="file:///nowhere")
    values = [value for value, _ in cases]
    reasons = decoding.read_reasons(spark, stage, values)
    for (value, part), reason in zip(cases, reasons, strict=True):
        assert (reason or "").startswith(part or ""), value
        assert (reason is None) == (part is None), (value, reason)
    assert set(decoding.read_reasons(spark, decoding.build_stage_table(ValueFormat("json"), columns), values)) == {None}


@pytest.mark.repeats(
    "integration/test_dead_letters.py::test_poisoned_topic_stops_at_the_first_bad_record_or_lands_with_the_bad_ones_set_aside"
)
def test_bad_record_fails_the_flush_with_its_place_and_publishes_nothing(workbench) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("strict", [topic], key=KEY, value={"schema": "id BIGINT, amount DECIMAL(5,2)"})

    def build_record(id: int, amount: Any, partition: int = 0):
        return {"id": id}, json.dumps({"id": id, "amount": amount}), {"partition": partition}

    workbench.produce(topic, build_record(1, 1.5), build_record(2, 2.5, 1), build_record(3, 3.14159, 1))
    with pytest.raises(BadRecord) as error_info:
        workbench.flush("strict")
    for part in (f"topic={topic}", "partition=1", "offset=1", "amount", "DECIMAL(5,2)", "nothing was merged"):
        assert part in str(error_info.value)
    assert not workbench.exists("shop.strict")
    assert workbench.committed("strict") == {}
    process = workbench.run_cli("flush", "strict")
    assert (process.returncode, "offset=1" in process.stderr) == (1, True)


@pytest.mark.repeats("unit/scenarios/test_bad_topic.py::test_table_takes_its_records_when_the_bad_one_is_gone")
def test_schema_corrected_after_a_bad_record_loses_nothing(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("fixed", [topic], key=KEY, value={"schema": "id BIGINT, amount DECIMAL(5,2)"})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "amount": 1.5}), ({"id": 2}, {"id": 2, "amount": 3.14159}))
    with pytest.raises(BadRecord):
        workbench.flush("fixed")
    workbench.pipeline("fixed", [topic], key=KEY, value={"schema": "id BIGINT, amount DECIMAL(10,5)"})
    workbench.flush("fixed")
    assert [(r["id"], str(r["amount"])) for r in workbench.read_rows("shop.fixed")] == [(1, "1.50000"), (2, "3.14159")]


def test_files_for_bigquery_hold_what_was_read_on_a_server_that_writes_for_hive(stack: Any, tmp_path: Path) -> None:
    """Such a server moves days before 1582 to another calendar, and leaves lists in another shape."""
    hive = {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY", "spark.sql.parquet.writeLegacyFormat": "true"}
    session = connect_session(stack.spark_remote, hive)
    configure(session, BIGQUERY_PARQUET_CONF)
    values = "DATE'0001-01-01' AS day, TIMESTAMP'1500-03-01 00:00:00' AS at, array(1, 2) AS n, 1.5BD AS amount"
    stage = decoding.build_stage_table(ValueFormat("json"), (Column("day", "DATE"),), folder=f"file://{tmp_path}")
    write_rows(session.sql(f"SELECT {values}"), stage)
    close(session)
    (file,) = tmp_path.glob("rows/*.parquet")
    row = {"day": date(1, 1, 1), "at": datetime(1500, 3, 1, tzinfo=UTC), "n": [1, 2], "amount": Decimal("1.5")}
    assert pq.read_table(file).to_pylist() == [row]
    assert "n.list.element" in [column.path for column in pq.ParquetFile(file).schema]


@pytest.mark.repeats("test_value_that_the_type_cannot_hold_is_bad_and_what_it_can_is_good")
def test_part_of_a_struct_that_does_not_fit_is_told_with_the_structs_name(spark: Any) -> None:
    """The parser keeps what it has read of a struct, so that the column is not empty."""
    kinds = {"id": "INT", "a": "STRUCT<`n`: INT, `t`: STRING>", "b": "STRUCT<`s`: STRUCT<`n`: INT>>"}
    stage = decoding.build_stage_table(ValueFormat("json"), tuple(Column(name, kind) for name, kind in kinds.items()))
    values = [b'{"a": {"n": "x", "t": "y"}}', b'{"id": "x", "a": {"n": "x"}}', b'{"b": {"s": {"n": "x"}}, "a": null}']
    begin = "the value does not fit value.schema, fields: "
    reasons = decoding.read_reasons(spark, stage, values)
    assert reasons == [f"{begin}a part of a or b", f"{begin}id", f"{begin}a part of a or b"]


@pytest.mark.repeats("integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[json]")
def test_empty_text_is_no_value_of_another_type_on_a_server_that_takes_it_for_null(stack: Any) -> None:
    """As Spark 2 did."""
    session = connect_session(stack.spark_remote, {"spark.sql.legacy.json.allowEmptyString.enabled": "true"})
    kinds = ("INT", "BOOLEAN", "ARRAY<INT>", "STRUCT<`a`: INT>", "MAP<STRING, INT>")
    columns = tuple(Column(f"c{n}", kind) for n, kind in enumerate(kinds))
    values = [f'{{"{column.name}": ""}}'.encode() for column in columns]
    reasons = decoding.read_reasons(session, decoding.build_stage_table(ValueFormat("json"), columns), values)
    close(session)
    assert reasons == [f"the value does not fit value.schema, fields: {column.name}" for column in columns]


def test_statements_mean_the_same_on_a_server_that_parses_sql_otherwise(stack: Any) -> None:
    """Texts with a backslash or a quote, a column whose name is a pattern or a word of SQL."""
    odd = ("parser.escapedStringLiterals", "parser.quotedRegexColumnNames", "ansi.doubleQuotedIdentifiers")
    odd += ("ansi.enforceReservedKeywords",)
    session = connect_session(stack.spark_remote, {f"spark.sql.{name}": "true" for name in odd})
    texts = ["it's", "back\\slash", "\\n", "\\'", '"quoted"', "tab\t"]
    literals = ", ".join(render_literal(text) for text in texts)
    assert list(session.sql(f"SELECT array({literals}) AS t").collect()[0].t) == texts
    columns = (Column("a.*", "STRING"), Column("order", "STRING"))
    wanted = "`order` = " + render_literal("it's \\d+") + ' OR order = "select"'
    stage = replace(decoding.build_stage_table(ValueFormat("json"), columns), when=wanted)
    orders = ["it's \\d+", "it's \\\\d+", "select"]
    values = [(None, json.dumps({"a.*": text, "order": text}).encode()) for text in orders]
    try:
        decoded = decoding.decode(session, stage, values, "fate", "value_struct.`a.*`")
    finally:
        close(session)
    assert decoded == list(zip(("staged", "filtered", "staged"), orders, strict=True))


@pytest.mark.repeats("test_value_that_bigquery_has_no_room_for_is_bad_there_and_nowhere_else")
def test_record_whose_time_or_sequence_bigquery_has_no_room_for_is_bad_there(spark) -> None:
    """A producer that writes microseconds for milliseconds; and a delete, which has a sequence and no row."""
    last = 253_402_300_799_999_999
    plain = decoding.build_stage_table(ValueFormat("json"), (Column("x", "INT"),), folder="file:///nowhere")
    for value in (b'{"x": 1}', None):
        good, early, late = decoding.read_reasons_by_time(spark, plain, value, last, -62_135_596_800_000_001, last + 1)
        assert good is None
        assert [(reason or "").partition(" 1 to")[0] for reason in (early, late)] == [
            "timestamp: outside of the years"
        ] * 2
    assert decoding.read_reasons_by_time(spark, replace(plain, folder=""), b'{"x": 1}', last + 1) == [None]
    columns = (Column("id", "BIGINT"), Column("at", "TIMESTAMP"))
    ordered = decoding.build_stage_table(
        ValueFormat("debezium-json"), columns, folder="file:///nowhere", sequence=("at",)
    )
    deletes = [
        json.dumps({"op": "d", "before": {"id": 1, "at": at}, "after": None}).encode()
        for at in ("9999-12-31T23:59:59.999999Z", "+10000-01-01T00:00:00Z")
    ]
    good, bad = decoding.read_reasons(spark, ordered, deletes)
    assert good is None
    assert bad
