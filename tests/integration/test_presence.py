"""A key or a value that holds none of its fields is bad and no row of NULLs, on real Spark."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import decoding
import pytest
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route

ID, PART = Column("user_id", "BIGINT"), Column("part", "STRING")
DIGITS = "1234567890" * 4  # more than a VARIANT keeps
TWO = (Column("id", "BIGINT"), Column("name", "STRING"), Column("amount", "DECIMAL(5,2)"))

# the key's columns, its text, and its values, or a part of the reason
KEYS: list[tuple[tuple[Column, ...], str, Any]] = [
    ((ID,), '{"user_id": 5}', (5,)),
    ((ID,), '{"USER_ID": 5}', (5,)),
    ((ID,), '{"USER_ID": 5, "other": NaN}', (5,)),
    ((ID,), '{"user_id": 5}\n', (5,)),
    ((ID,), '\t{"user_id": 5}', (5,)),
    ((ID,), "5\n", (5,)),
    ((ID,), '{"payload": {"user_id": 5}}', (5,)),
    ((ID,), '{"schema": {"type": "int64"}, "payload": 5}', (5,)),
    ((ID,), '{"userId": 5}', "has no field user_id"),
    ((ID,), "{}", "has no field user_id"),
    ((ID,), '{"payload": {"id": 5}}', "has no field user_id"),
    ((ID,), "null", "is not a JSON object"),
    ((ID,), '{"schema": null, "payload": null}', "has no field user_id"),
    ((ID,), '{"user_id": null}', (None,)),
    ((replace(ID, nullable=False),), '{"user_id": null}', "required and missing"),
    ((ID, PART), '{"user_id": 5, "part": null}', (5, None)),
    ((ID, PART), '{"user_id": 5}', "has no field part"),
    ((ID, replace(PART, nullable=False)), '{"user_id": 5, "part": null}', "required and missing"),
    ((PART,), "1.50", ("1.50",)),
    ((PART,), '{"part": 1.50}', ("1.50",)),
    ((PART,), f'{{"PART": {DIGITS}}}', (DIGITS,)),
    ((PART,), r'{"PART": "a\ud800"}', "not a JSON object that fits"),
    ((Column("d", "DECIMAL(20,2)"),), '{"d": 123456789012345678.12}', ("123456789012345678.12",)),
]
# the format, the value's text, and its row, or a part of the reason
VALUES: list[tuple[str, str, Any]] = [
    ("json", '{"id": 1, "name": "a", "amount": 1.5}\n', (1, "a", "1.50")),
    ("json", '\t{"ID": 1, "Name": 1.50, "amount": 1.50}', (1, "1.50", "1.50")),
    ("json", '{"id": 1, "name": "a", "id": 2}', (2, "a", None)),
    ("json", '{"ID": 1, "name": "a", "ID": 2}', (2, "a", None)),
    ("json", f'{{"ID": 1, "name": {DIGITS}, "other": [-0]}}', (1, DIGITS, None)),
    ("json", f'{{"ID": 1, "name": {{"x": [{DIGITS}, -0, 7]}}}}', (1, f'{{"x":[{DIGITS},-0,7]}}', None)),
    ("json", '{"ID": "x"}', "does not fit"),
    ("json", r'{"ID": 1, "name": "a\ud800"}', "half of a character"),
    ("json", r'{"ID": 1, "name": "a\ud83d\ude00"}', (1, "a\U0001f600", None)),
    ("json", '{"ID": 1, "name": "NaN", "other": NaN}', (1, "NaN", None)),
    ("json", '{"ID": 1, "name": {"x": -Infinity}, "other": {"a": [NaN]}}', (1, '{"x":-Infinity}', None)),
    ("json", '{"other": NaN}', "none of the columns; its fields are other"),
    ("json", '{"ID": 1, "id": null, "name": "a"}', (None, "a", None)),
    ("json", '{"id": 1, "Name": "a", "amount": 1.5, "of": {"name": "b"}}', "only in upper and lower case"),
    ("json", '{"id": 1, "Name": "a", "amount": null, "kind": "name"}', "only in upper and lower case"),
    ("json", '{"id": 1, "Name": "a", "of": {"name": "b"}}', (1, "a", None)),
    ("json", "{'ID': 1, 'of': {'id': 2}}", (1, None, None)),
    ("json", '{"id": 1, "name": null, "of": {"NAME": "b"}}', (1, None, None)),
    ("json", "{}", (None, None, None)),
    ("json", '{"id": null}', (None, None, None)),
    ("json", '{"other": 1}', "none of the columns; its fields are other"),
    ("json", '{"schema": {}, "payload": {"id": 1}}', "Kafka Connect's envelope"),
    ("json", '{"op": "c", "before": null, "after": {"id": 1}}', "debezium-json"),
    ("json", '{"data": [], "type": "INSERT", "isDdl": false}', "canal-json"),
    ("json", '{"data": {}, "type": "insert", "table": "t"}', "maxwell-json"),
    ("json", '{"op_type": "I", "after": {"id": 1}}', "ogg-json"),
    ("ogg-json", '{"op_type": "I", "after": {"other": 1}}', "none of the columns"),
    ("ogg-json", '{"op_type": "U", "after": {"ID": 1, "name": "a"}}', "only in upper and lower case"),
    # the column's own name is that of something else in the message
    ("ogg-json", '{"op_type": "I", "name": 7, "after": {"id": 1, "Name": "a", "amount": 1}}', "only"),
    ("maxwell-json", '{"type": "insert", "id": 7, "data": {"ID": 1, "name": "a", "amount": 1}}', "only in upper"),
    ("canal-json", '{"type": "INSERT", "id": 0, "data": [{"ID": "1", "name": "a", "amount": "1"}]}', "only in upper"),
    (
        "debezium-json",
        '{"op": "c", "after": {"id": 1, "Name": "a", "amount": 1}, "source": {"name": "s"}}',
        "only in upper and lower",
    ),
    ("debezium-json", '{"op": "c", "after": {"id": 1, "name": null}, "source": {"NAME": "s"}}', (1, None, None)),
    # null stands somewhere else in the record under the column's own name
    ("json", '{"id": 1, "Name": "a", "amount": 1.5, "of": {"name":null}}', "only in upper and lower case"),
    ("json", '{"id": 1, "N\\u0061me": "a", "amount": 1.5, "of": {"name": null}}', "only in upper and lower case"),
    ("json", '{"id": 1, "name": null, "NAME": "b", "amount": 1}', (1, None, "1.00")),
    ("envelope", '{"schema": {"name":null}, "payload": {"id": 1, "Name": "a", "amount": 1}}', "only in upper"),
    ("debezium-json", '{"op": "u", "before": {"name": null}, "after": {"id": 1, "NAME": "a", "amount": 1}}', "only in"),
    (
        "maxwell-json",
        '{"type": "update", "data": {"id": 1, "Name": "a", "amount": 1}, "old": {"name":null}}',
        "only in",
    ),
    (
        "ogg-json",
        '{"op_type": "U", "before": {"id": 1, "name":null}, "after": {"id": 1, "Name": "a", "amount": 1}}',
        "only in upper",
    ),
    (
        "canal-json",
        '{"type": "UPDATE", "old": [{"name": null}], "data": [{"id": "1", "Name": "a", "amount": "1"}]}',
        "only in upper",
    ),
    ("debezium-json", '{"op": "-", "after": {"id": 1}}', "an unknown op=-"),
    (
        "envelope",
        '{"schema": {"fields": [{"field": "name"}]}, "payload": {"id": 1, "Name": "a", "amount": 1}}',
        "only in upper and lower case",
    ),
    ("envelope", '{"schema": null, "payload": null}', "deleted"),
    ("envelope", '{"schema": {}, "payload": {"other": 1}}', "none of the columns"),
    ("envelope", '{"schema": {}, "payload": {"ID": 1}}', "only in upper and lower case"),
    ("envelope", '{"schema": {}, "payload": {"other": NaN}}', "none of the columns"),
    ("envelope", '{"schema": {}, "payload": {"ID": 1, "other": NaN}}', "only in upper and lower case"),
    ("debezium-json", '{"op": "c", "after": {"ID": 1, "other": NaN}}', "only in upper and lower case"),
    ("ogg-json", '{"op_type": "U", "after": {"ID": 1, "name": "a", "amount": NaN}}', "only in upper and lower case"),
    ("debezium-json", '{"op": "c", "after": {"id": 1}}', (1, None, None)),
    ("debezium-json", '{"op": "c", "after": {"other": 1}}', "none of the columns"),
    ("debezium-json", '{"payload": {"op": "c", "after": {"ID": 1, "name": "a"}}}', "only in upper and lower case"),
    ("debezium-json", '{"schema": null, "payload": null}', "deleted"),
    ("maxwell-json", '{"type": "insert", "data": {"other": 1}}', "none of the columns"),
    ("canal-json", '{"type": "INSERT", "data": [{"other": "1"}]}', "none of the columns"),
    ("maxwell-json", '{"type": "insert", "data": {"id": 1}, "ts": 9223372036854775807}', "without loss"),
]

# what stands in the column o, STRUCT<id: INT, of: ARRAY<STRUCT<n: DOUBLE>>>, and why it is bad; None for a good one
INNER: list[tuple[str, str | None]] = [
    ('{"id": 1, "of": [{"n": 0}]}', None),
    ('{"id": 1, "more": 2}', None),
    ('{"id": null, "of": null}', None),
    ("{}", None),
    ("null", None),
    ('{"ID": 1}', "PART field o has the field ID, and the column is id"),
    ('{"id": 1, "of": [{"n": 1}, {"N": 1}]}', "PART field o.of has the field N, and the column is n"),
    (
        '{"x": 1, "y": NaN}',
        "PART field o has none of the fields of STRUCT<id: INT, of: ARRAY<STRUCT<n: DOUBLE>>>; its fields are x, y",
    ),
    ('{"id": 1, "of": [{"x": 1}]}', "PART field o.of has none of the fields of STRUCT<n: DOUBLE>; its fields are x"),
    ('{"id": 1, "of": [{"n": 9007199254740993}]}', "PART field o.of.n is not a DOUBLE without loss"),
    ('{"id": 1, "of": [{"n": 1e-400}]}', "PART field o.of.n is not a DOUBLE without loss"),
]
ROWS = {
    "json": '{"o": %s, "x": 1}',
    "envelope": '{"schema": {}, "payload": {"o": %s, "x": 1}}',
    "debezium-json": '{"payload": {"op": "c", "after": {"o": %s, "x": 1}}}',
    "maxwell-json": '{"type": "insert", "data": {"o": %s, "x": 1}}',
    "ogg-json": '{"op_type": "I", "after": {"o": %s, "x": 1}}',
}


# the same structs behind other words of a change event
@pytest.mark.repeats(
    "test_struct_in_other_letters_is_bad_with_its_path_and_no_struct_of_nulls[debezium-json]",
    "json",
    "envelope",
    "maxwell-json",
    "ogg-json",
)
@pytest.mark.parametrize("word", ROWS)
def test_struct_in_other_letters_is_bad_with_its_path_and_no_struct_of_nulls(spark, word: str) -> None:
    columns = (Column("o", "STRUCT<id: INT, of: ARRAY<STRUCT<n: DOUBLE>>>"), Column("x", "INT"))
    fmt = ValueFormat("json", options={"envelope": True}) if word == "envelope" else ValueFormat(word)
    values = [(ROWS[word] % text).encode() for text, _ in INNER]
    reasons = decoding.read_reasons(spark, decoding.build_stage_table(fmt, columns), values)
    assert reasons == [reason and reason.replace("PART", "the value") for _, reason in INNER]


@pytest.mark.repeats("test_struct_in_other_letters_is_bad_with_its_path_and_no_struct_of_nulls[debezium-json]")
def test_struct_of_a_key_in_other_letters_is_bad(spark) -> None:
    columns = (Column("k", "STRUCT<id: INT, n: DOUBLE>"),)
    stage = decoding.build_stage_table(ValueFormat("json"), (Column("x", "INT"),), columns)
    inner = ['{"id": 1, "n": 1.5}', '{"ID": 1, "n": 1.5}', '{"x": 1}', '{"id": 1, "n": 9007199254740993}']
    keys = [text % struct for text in ('{"k": %s}', '{"payload": {"k": %s}}') for struct in inner]
    decoded = decoding.decode(spark, stage, [(key.encode(), b"{}") for key in keys], "key_reason")
    assert [reason for (reason,) in decoded] == 2 * [
        None,
        "the key field k has the field ID, and the column is id",
        "the key field k has none of the fields of STRUCT<id: INT, n: DOUBLE>; its fields are x",
        "the key field k.n is not a DOUBLE without loss",
    ]


def describe_columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in columns)


@pytest.mark.repeats(
    "test_key_is_what_its_fields_say_and_never_null_for_a_field_that_is_not_there[user_id BIGINT]",
    "d DECIMAL(20,2)",
    "part STRING",
    "user_id BIGINT NOT NULL",
    "user_id BIGINT, part STRING NOT NULL",
    "user_id BIGINT, part STRING",
)
@pytest.mark.guard(
    "a key that lacks a field is not a key with NULLs",
    file="jobs/tidegate_spark/formats/json.py",
    text="{render_missing_cases(text, 'kf', fields, 'the key')} ELSE",
    off="ELSE",
)
@pytest.mark.parametrize("columns", sorted({columns for columns, _, _ in KEYS}, key=repr), ids=describe_columns)
def test_key_is_what_its_fields_say_and_never_null_for_a_field_that_is_not_there(spark, columns: Any) -> None:
    cases = [(text, expected) for known, text, expected in KEYS if known == columns]
    stage = decoding.build_stage_table(ValueFormat("json"), (Column("x", "INT"),), columns)
    results = decoding.decode(spark, stage, [(text.encode(), b"{}") for text, _ in cases], "key_struct", "key_reason")
    wrong = [(*case, result) for case, result in zip(cases, results, strict=True) if not is_expected(case[1], *result)]
    assert wrong == []


@pytest.mark.repeats(
    "test_value_with_none_of_the_columns_is_bad[json]",
    "canal-json",
    "debezium-json",
    "envelope",
    "maxwell-json",
    "ogg-json",
)
@pytest.mark.parametrize("word", sorted({word for word, _, _ in VALUES}))
def test_value_with_none_of_the_columns_is_bad(spark, word: str) -> None:
    cases = [(text, expected) for known, text, expected in VALUES if known == word]
    fmt = ValueFormat("json", options={"envelope": True}) if word == "envelope" else ValueFormat(word)
    stage = replace(decoding.build_stage_table(fmt, TWO), metadata={"at": "value.ingestion-timestamp"})
    stage = stage if word == "maxwell-json" else replace(stage, metadata={})
    values = [(None, text.encode()) for text, _ in cases]
    results = decoding.decode(spark, stage, values, "value_struct", "reason", "op")
    wrong = [(*case, result) for case, result in zip(cases, results, strict=True) if not is_expected(case[1], *result)]
    assert wrong == []


def is_expected(expected: Any, row: Any, reason: str | None, op: str | None = None) -> bool:
    if expected == "deleted":
        return reason is None and op == "d"
    if isinstance(expected, str):
        return reason is not None and expected in reason
    values = tuple(str(v) if hasattr(v, "as_tuple") else v for v in row)[: len(expected)]
    return reason is None and values == expected


@pytest.mark.repeats("integration/test_key_from_value.py::test_json_value_has_the_key_whatever_the_records_key_is")
def test_key_that_the_value_has_to_hold_and_does_not_is_bad(spark) -> None:
    columns = (Column("name", "STRING"),)
    for word, text in [
        ("json", '{"name": "a"}'),
        ("debezium-json", '{"op": "c", "after": {"name": "a"}}'),
        ("maxwell-json", '{"type": "insert", "data": {"name": "a"}}'),
        ("canal-json", '{"type": "INSERT", "data": [{"name": "a"}]}'),
    ]:
        stage = decoding.build_stage_table(ValueFormat(word), columns, (ID,))
        assert decoding.read_reasons(spark, stage, [text.encode()]) == ["the value has no field user_id"], word


@pytest.mark.guard(
    "an update that changes the key deletes the old row",
    file="jobs/tidegate_spark/stage/record_pass.py",
    text="add_old_key_deletes(fated, decoded_value, table) if decoded_value.previous_key else fated",
    off="fated",
)
def test_update_without_a_key_that_changes_a_key_field_deletes_the_old_row(spark) -> None:
    texts = [
        '{"op": "u", "before": {"id": 1, "part": null, "name": "a"}, "after": {"id": 2, "part": null, "name": "b"}}',
        '{"payload": {"op": "u", "before": {"id": 3, "part": null}, "after": {"id": 3, "part": "x", "name": "c"}}}',
        '{"op": "u", "before": {"id": 4}, "after": {"id": 4, "part": "x", "name": "d"}}',
        '{"op": "u", "before": null, "after": {"id": 5, "part": null, "name": "e"}}',
        '{"op": "u", "before": {"id": 6, "part": "x"}, "after": {"id": 7, "part": "x", "name": "hidden"}}',
    ]
    stage = decoding.build_stage_table(
        ValueFormat("debezium-json"), (Column("name", "STRING"),), (Column("id", "INT"), Column("part", "STRING"))
    )
    stage = replace(stage, when="name <> 'hidden'")
    expressions = ("key_struct", "op", "fate", "record_fate", "row_number", "value_struct.name")
    results = decoding.decode(spark, stage, [(None, text.encode()) for text in texts], *expressions)
    assert sorted(((*map(_convert_to_plain, row),) for row in results), key=repr) == sorted(
        [
            ((2, None), "u", "staged", "staged", 0, "b"),
            ((1, None), "d", "staged", "staged", 1, None),
            ((3, "x"), "u", "staged", "staged", 0, "c"),
            ((3, None), "d", "staged", "staged", 1, None),
            ((4, "x"), "u", "staged", "staged", 0, "d"),
            ((5, None), "u", "staged", "staged", 0, "e"),
            ((7, "x"), "u", "filtered", "staged", 0, "hidden"),
            ((6, "x"), "d", "staged", "staged", 1, None),
        ],
        key=repr,
    )


def _convert_to_plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


@pytest.mark.guard(
    "a tombstone without an event has no sequence",
    file="jobs/tidegate_spark/stage/projection.py",
    text='table.metadata.get(name, "value.").startswith("value.")',
    off="name not in table.metadata",
)
def test_lone_tombstone_has_no_sequence_of_the_event_that_it_lacks(spark) -> None:
    stage = decoding.build_stage_table(
        ValueFormat("debezium-json"), (Column("name", "STRING"),), (Column("id", "INT"),)
    )
    stage = replace(stage, metadata={"at": "value.source.timestamp"}, sequence=("at",))
    event = b'{"op": "d", "before": {"id": 1}, "source": {"ts_ms": 1000}}'
    results = decoding.decode(spark, stage, [(b'{"id": 1}', event), (b'{"id": 1}', None)], "op", "sequence")
    assert [(op, sequence and sequence["at"].astimezone(UTC)) for op, sequence in results] == [
        ("d", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("d", None),
    ]
    by_offset = replace(stage, metadata={"at": "offset"})
    assert [s["at"] for _, s in decoding.decode(spark, by_offset, [(b"1", event), (b"1", None)], "op", "sequence")] == [
        0,
        1,
    ]


@pytest.mark.repeats("test_record_for_which_a_condition_fails_is_bad_and_takes_no_other_down[when]", "delete_when")
@pytest.mark.parametrize("word", ["when", "delete_when"])
def test_record_for_which_a_condition_fails_is_bad_and_takes_no_other_down(spark, word: str) -> None:
    stage = replace(
        decoding.build_stage_table(ValueFormat("json"), (Column("v", "STRING"),)), **{word: "CAST(v AS INT) > 0"}
    )
    values = [
        (None, b'{"v": "1"}'),
        (None, b'{"v": "x"}'),
        (None, b'{"v": "-1"}'),
        (None, b'{"v": null}'),
        (None, None),
    ]
    results = decoding.decode(spark, stage, values, "reason", "op", "fate")
    bad = (f"{word} fails for this record", "u", "bad")
    if word == "when":
        expected = [(None, "u", "staged"), bad, (None, "u", "filtered"), (None, "u", "filtered"), (None, "d", "staged")]
    else:
        expected = [(None, "d", "staged"), bad, (None, "u", "staged"), (None, "u", "staged"), (None, "d", "staged")]
    assert results == expected


OTHER_LETTERS = [
    ('{"ID": 1, "Name": "a", "e": {"x": 1, "x": 2}}', (1, "a")),
    ('{"ID": 1, "name": {"x": 1, "x": 2}}', (1, '{"x":2}')),
    ('{"ID": 1, "e": [{"x": {"y": 1, "y": 1}}]}', (1, None)),
    ('{"ID": 1, "name": {"x": [1.50, NaN, 841e19]}}', (1, '{"x":[1.50,NaN,841e19]}')),
    (' {"ID": 1, "ID": 2} ', (2, None)),
    ('{"ID": 1} x', "the value is not one JSON object"),
    ('{"ID": 1}}', "the value is not one JSON object"),
    ('{"ID": 1} {"id": 2}', "the value is not one JSON object"),
    ('{"ID": 1}, {"id": 2}', "the value is not one JSON object"),
    ('{"ID": 1, "e": tru}', "the value is not one JSON object"),
    ('{"ID": 1, "e": {"x" 1}}', "the value is not one JSON object"),
]


@pytest.mark.repeats("test_value_with_none_of_the_columns_is_bad[json]")
def test_value_in_other_letters_is_a_row_or_bad_and_never_a_delete(spark) -> None:
    columns = (Column("id", "INT"), Column("name", "STRING"))
    values = [(None, text.encode()) for text, _ in OTHER_LETTERS]
    for options in ({}, {"numbers": "lenient"}):
        stage = decoding.build_stage_table(ValueFormat("json", options=options), columns)
        results = decoding.decode(spark, stage, values, "reason", "op", "value_struct")
        assert {op for _, op, _ in results} == {"u"}
        assert [reason or tuple(row) for reason, _, row in results] == [expected for _, expected in OTHER_LETTERS]


@pytest.mark.repeats("test_key_is_what_its_fields_say_and_never_null_for_a_field_that_is_not_there[user_id BIGINT]")
def test_key_in_other_letters_is_the_key_or_bad(spark) -> None:
    stage = decoding.build_stage_table(
        ValueFormat("json"), (Column("x", "INT"),), keys=(Column("id", "INT"), Column("n", "INT"))
    )
    stage = replace(stage, key=KeyFormat("json", ("id", "n")))
    texts = [
        '{"ID": 1, "n": 2, "e": {"x": 1, "x": 2}}',
        '{"ID": 1, "n": 2} x',
        '{"ID": 1, "n": 2}}',
        '{"ID": 1, "N": 2}',
    ]
    results = decoding.decode(spark, stage, [(text.encode(), b"{}") for text in texts], "key_reason", "key_struct")
    bad = "the key is not a JSON object that fits the key columns"
    assert [reason or tuple(key) for reason, key in results] == [(1, 2), bad, bad, (1, 2)]


@pytest.mark.repeats(
    "integration/test_required_fields.py::test_row_that_a_condition_deletes_may_lack_what_a_row_must_have[json-values0]"
)
def test_null_where_a_part_must_not_be_is_bad(spark) -> None:
    columns = (Column("s", "STRUCT<a: INT NOT NULL, b: DECIMAL(3,1)>"), Column("l", "ARRAY<STRUCT<a: INT NOT NULL>>"))
    texts = [
        '{"s": {"a": 1}, "l": [{"a": 1}]}',
        '{"s": {"b": 1.5}}',
        '{"l": [{"a": 1}, {}]}',
        '{"s": null, "l": [null]}',
    ]
    reasons = decoding.read_reasons(
        spark, decoding.build_stage_table(ValueFormat("json"), columns), [text.encode() for text in texts]
    )
    assert [reason and reason.partition(" that ")[0] for reason in reasons] == [
        None, "the value field s lacks a part", "the value field l lacks a part", None,
    ]  # fmt: skip


@pytest.mark.repeats(
    "integration/test_shared_topics.py::test_table_of_a_database_topic_is_stopped_by_its_own_bad_records_alone[route]"
)
def test_route_on_a_text_is_judged_record_by_record(spark) -> None:
    stage = decoding.build_stage_table(ValueFormat("json"), (Column("v", "STRING"),))
    stage = replace(stage, route=Route("v", "a.*", ()))
    results = decoding.decode(spark, stage, [(None, b'{"v": "ab"}'), (None, b'{"v": "b"}'), (None, None)], "fate")
    assert results == [("staged",), ("filtered",), ("staged",)]


def render_event(struct: str, payload: str) -> bytes:
    """A change event behind a schema, in which the struct `s` is described as `struct` says."""
    fields = f'[{{"field": "after", "fields": [{{"field": "s", "type": "struct"{struct}}}]}}]'
    return f'{{"schema": {{"fields": {fields}}}, "payload": {payload}}}'.encode()


@pytest.mark.repeats(
    "integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[json with its schema]"
)
@pytest.mark.parametrize("units", ["seconds", {"day": "seconds"}])
def test_number_is_a_date_in_days_in_change_events_alone_whatever_times_count(spark, units: Any) -> None:
    columns = (Column("day", "DATE"), Column("at", "TIMESTAMP_NTZ"))
    expected: dict[str, Any] = {"debezium-json": date(1970, 1, 2), "json": None, "maxwell-json": None}
    rows = {
        "debezium-json": b'{"op": "c", "after": {"day": 1}}',
        "maxwell-json": b'{"type": "insert", "data": {"day": 1}}',
    }
    for word, day in expected.items():
        stage = decoding.build_stage_table(ValueFormat(word, timestamp_unit=units), columns)
        ((reason, row),) = decoding.decode_values(spark, stage, [rows.get(word, b'{"day": 1}')])
        assert (row.day if day else reason) == (day or "the value field day is not a DATE without loss"), word


@pytest.mark.repeats(
    "integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[json with its schema]"
)
def test_number_inside_of_a_struct_is_the_time_that_its_schema_names_else_the_files_unit(spark) -> None:
    """As in a column of its own: millis by the name in the schema, micros by the file, bad where neither says it."""
    columns = (Column("s", "STRUCT<at: TIMESTAMP_NTZ, day: DATE>"),)
    event = '{"op": "c", "after": {"s": {"at": 1000000, "day": 1}}}'
    named = ', "fields": [{"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"}]'
    plain = ', "fields": [{"field": "at", "type": "int64"}]'
    texts = [event.encode(), render_event("", event), render_event(plain, event), render_event(named, event)]
    micros, millis = datetime(1970, 1, 1, 0, 0, 1), datetime(1970, 1, 1, 0, 16, 40)
    value_format = ValueFormat("debezium-json", timestamp_unit={"s": "micros"})
    rows = decoding.decode_values(spark, decoding.build_stage_table(value_format, columns), texts)
    assert [(reason, row["s"]["at"], row["s"]["day"]) for reason, row in rows] == [
        (None, time, date(1970, 1, 2)) for time in (micros, micros, micros, millis)
    ]
    untold = decoding.decode_values(spark, decoding.build_stage_table(ValueFormat("debezium-json"), columns), texts)
    assert ["without loss" in (reason or "") for reason, _ in untold] == [True, True, True, False]
    assert untold[3][1]["s"]["at"] == millis
