"""Records in the usual spelling are read by short expressions: the same rows as by the format itself, or none."""

import json
from dataclasses import replace
from typing import Any

import pytest
from decoding import build_stage_table
from fuzzing import corrupt_records
from tidegate.jobs.stage_job import UNUSUAL_BATCH_PROPERTY
from tidegate.model.resource_names import name_intermediate_table
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat
from tidegate_spark.formats.plain_json import UNUSUAL, can_read_plainly
from tidegate_spark.stage.job import decode

INPUTS = 600
COLUMNS = (
    Column("id", "BIGINT"), Column("name", "STRING"), Column("amount", "DECIMAL(12,2)"), Column("at", "TIMESTAMP"),
    Column("day", "DATE"), Column("score", "DOUBLE"), Column("few", "INT"), Column("ratio", "FLOAT"),
    Column("is_new", "BOOLEAN"), Column("note", "STRING", nullable=False),
)  # fmt: skip
ROW = {
    "id": 7, "name": "Zoë", "amount": 12.5, "at": "2026-01-02T03:04:05.678Z", "day": "2026-01-02", "score": 0.25,
    "few": 3, "ratio": 1.5, "is_new": True, "note": "x",
}  # fmt: skip
USUAL = [
    ROW,
    {**ROW, "amount": "3.10", "name": None, "score": -2.5, "at": "1999-12-31 23:59:59+02:00"},
    {**ROW, "name": 'a "b" \\ 😀 {x', "few": None, "is_new": None, "day": None, "other": {"deep": [1.5, "Infinity"]}},
    {"id": 9, "note": "only this", "ratio": 0.1},
]
SPELLED = [
    '{"id": 1, "NOTE": "x"}', '{"id": 1, "n\\u006fte": "x"}', '{"id": 1, "note": 1.50}', '{"id": 1, "note": "1.50"}',
    '{"id": 1, "note": "x", "score": Infinity}', '{"id": 1, "note": "x", "score": 1e999}', '{"note": NaN}', "[]", "{}",
    '{"id": 1, "note": "x", "few": 2147483648}', '{"id": 1, "note": "x", "amount": 1.005}', '{"id": 1.0, "note": "x"}',
    '{"id": 1, "note": "\\ud800"}', '{"id": 1, "note": "x"} {}', '{"id": 1, "note": "x"}}', ' {"id": 1, "note": "y"}\n',
    '{"id": 1, "note": {"a": 1.50}}', '{"id": 1, "note": -0}', '{"id": 1, "note": null}', '{"note": "x", "note": "y"}',
    '{"id": 1, "Id": 2, "note": "x"}', '{"ID": 1, "note": "x"}', "null", "", '{"other": 1}', '{"after": {}, "op": "u"}',
    '{"id": 1, "note": "x", "at": 1700000000000}', '{"id": 1, "note": "x", "day": "2026-02-30"}',
    '{"id": 1, "note": "x", "at": "0000-01-01T00:00:00Z"}', '{"id": 1, "note": "x", "amount": 12345678901.5}',
    '{"Name": "x", "note": "n", "inner": {"name": "y"}}', "{'Name': 'x', 'note': 'n'}",
    '{"ID": 5, "note": {"z": 1, "a": 2}}', '{"ID": 5, "ref": {"id": 7}, "note": "x"}',
    '{"id": 1, "note": "x", "other": ["Infinity"], "score": 1e999}', '{"id": 1, "note": "INF", "ratio": 1e39}',
    '{"id": 1, "note": "x", "other": "-INF", "score": 0.5, "ratio": -1e40}',
    '{"id": 1, "note": "Infinity", "score": 1e9}',
    '{"id": 1, "note": "x", "ratio": 16777217}', '{"id": 1, "note": "x", "score": 12345678901234567890123}',
]  # fmt: skip
# as they stand in a JSON text, in the place of any column
TOKENS = [
    "0", "-0", "0.0", "-0.0", "1", "-1", "+1", "01", "1.0", "1.50", "1.005", "-12.345", "1e5", "1E+5", "1.5e-7",
    "1e-400", "1e400", "16777216", "16777217", "9007199254740992", "9007199254740993", "2147483647", "2147483648",
    "9223372036854775807", "9223372036854775808", "0.1", "0.30000000000000004", "0.300000000000000044",
    "3.4028236e38", "1e39", "1e-46", "0.000000000000000000000000000000000001", "12345678901234567890123",
    "9999999999.99", "9999999999.995", "1700000000000", "-62135596800001", "253402300800000", "true", "false", "null",
    "[]", "{}", "[1.50]", '{"a": 1.50}', '{"a": 1}', "NaN", "-NaN", "Infinity", "-Infinity", "INF", "+INF", '"NaN"',
    '"Infinity"', '"-INF"', '""', '" "', '"0"', '"-0"', '"1.50"', '"1e5"', '"x.y"', '"true"', '"TRUE"', '"7"', '" 7"',
    '"2026-01-02"', '"2026-1-2"', '"2026-01-02Z"', '"2026-02-30"', '"2026-01-02T03:04:05"',
    '"2026-01-02 03:04:05.1234567"', '"2026-01-02T03:04:05.123456Z"', '"2026-01-02T03:04:05+02:00"', '"10000-01-01"',
    '"2026-03-29T02:30:00 Europe/Berlin"', '"03:04"', '"2026"', '"a\\u0041"', '"\\ud83d\\ude00"', '"\\ud83d"', '"?"',
    '"\\u0016x"', '"\\""', '"\\\\"', "'single'", "{", "[", '"open', "", "x", "1 2", '1, "few": 9', '1, "FEW": 9',
    '{"id": 9}', '"id"', '"[1.5]"',
]  # fmt: skip
KEYS = [b"7", b'{"id": 7}', b'{"id":7}', b'{"ID":7}', b'"7"', b"7.0", b"", b'{"id":7,"x":1}', b'{"id":null}', b" 7"]
OUTCOME = ("to_json(key_struct) AS k", "to_json(value_struct) AS v", "op", "fate", "reason")


def compare(records: Any) -> tuple[set[int], set[int], list[Any]]:
    """The offsets of all records, those of unusual ones, and the records of which a plain pass makes something else."""
    table = build_stage_table(ValueFormat("json", timestamp_unit="millis"), COLUMNS, (Column("id", "BIGINT"),))
    assert can_read_plainly(table)
    parsed, plain = (
        {
            row[0]: tuple(row)[1:]
            for row in decode(records, table, is_plain=is_plain).selectExpr("offset", *OUTCOME).collect()
        }
        for is_plain in (False, True)
    )
    assert parsed.keys() == plain.keys()
    usual_rows = {offset: row for offset, row in plain.items() if row[-1] != UNUSUAL}
    wrong = [(parsed[offset], row) for offset, row in usual_rows.items() if row != parsed[offset]]
    return set(parsed), parsed.keys() - usual_rows.keys(), wrong


def _build_record_with(name: str, token: str) -> bytes:
    parts = (f'"{column}": {token if column == name else json.dumps(value)}' for column, value in ROW.items())
    return f"{{{', '.join(parts)}}}".encode()


def build_frame(spark: Any, given: list[tuple[bytes | None, bytes | None]]) -> Any:
    frame = spark.createDataFrame(
        [(key, value, n) for n, (key, value) in enumerate(given)], "key BINARY, value BINARY, offset BIGINT"
    )
    return frame.selectExpr(
        "*", "'t' AS topic", "0 AS partition", "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        "current_timestamp() AS timestamp", "0 AS timestampType",
        "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text",
    )  # fmt: skip


@pytest.mark.guard(
    "a plain pass does not judge a number that was rounded",
    file="jobs/tidegate_spark/formats/plain_json.py",
    text='        render_inner_doubt("row", fields),\n',
    off="",
)
@pytest.mark.guard(
    "a plain pass does not judge a field name in another case",
    file="jobs/tidegate_spark/formats/plain_json.py",
    text='        render_takes_own_spelling(fields, list_known_fields(table), "row"),\n',
    off="",
)
def test_usual_records_are_read_plainly_and_others_are_not_judged(spark: Any) -> None:
    """All groups in one frame: Spark plans the two ways of reading once."""
    usual = [(b'{"id":7}', json.dumps(row, ensure_ascii=False).encode()) for row in USUAL] + [(b"7", None)]
    groups: dict[str, list[tuple[bytes | None, bytes | None]]] = {
        "usual": usual,
        "spelled": [(b"7", text.encode()) for text in SPELLED],
        "tokens": [(b"7", _build_record_with(column.name, token)) for column in COLUMNS for token in TOKENS],
        "keys": [(key, json.dumps(ROW).encode()) for key in KEYS] + [(None, json.dumps(ROW).encode()), (None, None)],
    }
    offsets, unusual, wrong = compare(build_frame(spark, [record for group in groups.values() for record in group]))
    assert (len(offsets), wrong) == (sum(map(len, groups.values())), [])
    counts, begin = {}, 0
    for name, records in groups.items():
        counts[name] = len(unusual & set(range(begin, begin + len(records))))
        begin += len(records)
    assert counts["usual"] == 0
    assert counts["spelled"] > len(SPELLED) // 2
    assert 0 < counts["tokens"] < len(groups["tokens"])


def test_half_of_a_character_in_an_object_with_names_in_another_case_is_no_question_mark(spark: Any) -> None:
    """Such an object is printed anew, with the columns' own names."""
    half, whole = r'"\ud83d"', r'"\ud83d\ude00?"'
    records = [
        (b'{"id": "a"}', f'{{"NOTE": {half}}}'), (b'{"id": "b"}', f'{{"Note": {whole}}}'),
        (f'{{"ID": {half}}}'.encode(), '{"note": "x"}'), (f'{{"Id": {whole}}}'.encode(), '{"note": "y"}'),
    ]  # fmt: skip
    table = build_stage_table(ValueFormat("json"), (Column("note", "STRING"),), (Column("id", "STRING"),))
    frame = build_frame(spark, [(key, value.encode()) for key, value in records])
    decoded = decode(frame, table, is_plain=False).selectExpr("offset", *OUTCOME).orderBy("offset").collect()
    reasons = [row["reason"] for row in decoded]
    bad_key = "the key is not a JSON object that fits the key columns"
    assert reasons == ["the value has half of a character: a lone surrogate", None, bad_key, None]
    rows = [(json.loads(row["k"]), json.loads(row["v"])) for row in decoded if row["reason"] is None]
    assert rows == [({"id": "b"}, {"note": "😀?"}), ({"id": "😀?"}, {"note": "y"})]


@pytest.mark.repeats("test_usual_records_are_read_plainly_and_others_are_not_judged")
def test_corrupt_records_are_read_as_by_the_format_itself_or_not_judged(compiling_spark: Any) -> None:
    seeds = [json.dumps(row).encode() for row in USUAL] + [text.encode() for text in SPELLED[:16]]
    bent = corrupt_records(compiling_spark, seeds, "value", INPUTS).drop("key", "key_text")
    offsets, unusual, wrong = compare(bent.selectExpr("*", "CAST('7' AS BINARY) AS key", "'7' AS key_text"))
    assert (len(offsets), wrong[:3]) == (INPUTS, [])
    assert 0 < len(unusual) < INPUTS


NESTED: list[dict[str, Any]] = [
    {"value": ValueFormat("json", options={"envelope": True})}, {"value": ValueFormat("debezium-json")},
    {"value_columns": (Column("id", "STRUCT<a: INT>"),)}, {"value_columns": ()}, {"key_columns": COLUMNS[:2]},
    {"value_columns": (Column("a", "BINARY"),)},
]  # fmt: skip


def test_only_flat_objects_are_read_plainly() -> None:
    table = build_stage_table(ValueFormat("json"), COLUMNS, (Column("id", "BIGINT"),))
    assert can_read_plainly(table)
    assert can_read_plainly(replace(table, key_columns=()))
    assert [changed for changed in NESTED if can_read_plainly(replace(table, **changed))] == []


@pytest.mark.guard(
    "the result of a plain pass with an unusual record is discarded",
    file="jobs/tidegate_spark/stage/job.py",
    text="is_unusual = is_plain and observed[UNUSUAL] > 0",
    off="is_unusual = False",
)
def test_batch_with_an_unusual_record_is_read_once_more_and_the_next_ones_at_once(workbench: Any) -> None:
    topic = workbench.topic()
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, note STRING, score DOUBLE"}
    name = workbench.pipeline("plain", [topic], key=key, value=value)
    session = workbench.open_session(name)
    intermediate = name_intermediate_table(session.pipeline, session.pipeline.tables[0])

    def read_unusual_batch() -> str | None:
        properties: dict[str, str] = workbench.load_iceberg(intermediate).properties
        return properties.get(UNUSUAL_BATCH_PROPERTY)

    workbench.produce(topic, *((f'{{"id":{n}}}', {"note": f"a{n}", "score": n / 4}) for n in range(20)))
    workbench.produce(
        topic, ('{"ID": 3}', {"NOTE": "other letters", "score": 9}), ("4", None), ('{"id":5}', b'{"note": 1.50}')
    )
    workbench.flush(name)
    assert read_unusual_batch() == "1"
    workbench.produce(topic, ('{"id":6}', {"note": "plain again"}))
    workbench.flush(name)
    assert read_unusual_batch() == "1"
    rows = {row["id"]: (row["note"], row["score"]) for row in workbench.read_rows(f"shop.{name}")}
    expected = {n: (f"a{n}", n / 4) for n in range(20) if n != 4}
    assert rows == {**expected, 3: ("other letters", 9.0), 5: ("1.50", None), 6: ("plain again", None)}
