"""Expressions of the pipeline file that fail for a record, and `when` that deletes, on real Spark's decoding."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import decoding
import pytest
from tidegate.config.parsing.select_statement import parse_select
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route, Table
from tidegate.spec.table_template import TableNaming
from tidegate.table.columns import build_projection

ID = (Column("id", "INT"),)
COLUMNS = (Column("id", "INT"), Column("v", "STRING"), Column("n", "INT"))


def build_stage_table(select: str | None = None, columns: tuple[Column, ...] = COLUMNS, **more: Any) -> StageTable:
    key, value = KeyFormat(fields=("id",), columns=ID), ValueFormat("json", columns=columns)
    table = Table("lake.s.t", ("t",), key, value, True, True, select=parse_select(select) if select else None)
    stage = decoding.build_stage_table(ValueFormat("json"), columns, ID, select=build_projection(table))
    return replace(stage, **more)


def build_records(*texts: str | None) -> list[tuple[bytes, bytes | None]]:
    return [(b'{"id": %d}' % n, None if text is None else text.encode()) for n, text in enumerate(texts)]


# an expression, what makes it, what makes it fail, and what was made; each of a field of its own
FAILING = [
    ("CAST(10 / n{} AS INT)", '"n{}": 5', '"n{}": 0', 2),
    ("TRY_CAST(10 / n{} AS INT)", '"n{}": 5', '"n{}": 0', 2),
    ("CAST(n{} + 2147483647 AS INT)", '"n{}": -1', '"n{}": 1', 2147483646),
    ("CAST(array('a', 'b')[n{}] AS STRING)", '"n{}": 1', '"n{}": 2', "b"),
    ("CAST(hex(CAST(v{} AS INT)) AS STRING)", '"v{}": "10"', '"v{}": "x"', "A"),
    ("CAST(to_date(v{}, 'yyyy') AS STRING)", '"v{}": "2026"', '"v{}": "x"', "2026-01-01"),
    ("CAST(map('k', assert_true(coalesce(n{}, 1) > 0), 'l', NULL) AS MAP<STRING, STRING>)",
     '"n{}": 1', '"n{}": 0', {"k": None, "l": None}),
]  # fmt: skip


@pytest.mark.repeats(
    "test_record_for_which_select_fails_is_bad_and_takes_no_other_down[of the record]", "of chance too"
)
@pytest.mark.parametrize("chance", ["", ", CAST(rand() < 2 AS BOOLEAN) AS y"], ids=["of the record", "of chance too"])
def test_record_for_which_select_fails_is_bad_and_takes_no_other_down(spark, chance: str) -> None:
    kinds = {"n": "INT", "v": "STRING"}
    columns = (*ID, *(Column(f"{n}{k}", kind) for n, kind in kinds.items() for k in range(len(FAILING))))
    expressions = ", ".join(f"{each.format(k)} AS x{k}" for k, (each, *_) in enumerate(FAILING))
    stage = build_stage_table(f"SELECT id, {expressions}{chance} FROM record", columns)
    texts = [f"{{{text.format(k)}}}" for k, (_, good, bad, _) in enumerate(FAILING) for text in (good, bad)]
    results = decoding.decode(spark, stage, build_records(*texts, None), "reason", "fate", "value_struct")
    assert [(reason, fate, row[f"x{k}"]) for k, (reason, fate, row) in enumerate(results[:-1:2])] == [
        (None, "staged", value) for *_, value in FAILING
    ]
    assert results[1::2] == [(f"select: x{k} fails for this record", "bad", None) for k in range(len(FAILING))]
    assert results[-1] == (None, "staged", None)


# an expression over the text v, and for each text what stands there, or why it is bad
PARTS: list[tuple[str, dict[str, Any]]] = [
    ("CAST(split(v, ',') AS ARRAY<INT>)", {"1,2": [1, 2], "1,b": "select: x is not a ARRAY<INT>"}),
    (
        "CAST(named_struct('n', v, 'l', array(v)) AS STRUCT<n: DECIMAL(3,1), l: ARRAY<STRING>>)",
        {"1.5": (Decimal("1.5"), ["1.5"]), "100": "select: x is not a STRUCT<n: DECIMAL(3,1), l: ARRAY<STRING>>"},
    ),
    ("CAST(map('k', v) AS MAP<STRING, DATE>)", {"2026-02-30": "select: x is not a MAP<STRING, DATE>"}),
    ("TRY_CAST(split(v, ',') AS ARRAY<INT>)", {"1,2": [1, 2], "1,b": [1, None]}),
    (
        "CAST(named_struct('n', nullif(v, '')) AS STRUCT<n: STRING NOT NULL>)",
        {"a": ("a",), "": "select: x lacks a part that is NOT NULL in STRUCT<n: STRING NOT NULL>"},
    ),
]  # fmt: skip


def test_part_that_its_type_cannot_hold_makes_the_record_bad_and_no_null(spark) -> None:
    for each, cases in PARTS:
        stage = build_stage_table(f"SELECT id, {each} AS x FROM record")
        texts = [json.dumps({"v": text}) for text in cases]
        results = decoding.decode(spark, stage, build_records(*texts, '{"v": null}'), "reason", "value_struct.x")
        values = [tuple(x) if hasattr(x, "asDict") else x for _, x in results]
        made = [reason or x for (reason, _), x in zip(results[:-1], values, strict=False)]
        assert made == list(cases.values()), each


FAR, NEAR = "253402300800000", "1700000000000"  # milliseconds: the first of the year 10000, and one of 2023
FAR_REASON = "select: x is outside of the years 1 to 9999"


def test_time_beyond_the_years_that_readers_have_is_bad_whatever_select_makes_it_of(spark) -> None:
    at = "timestamp_millis(CAST(v AS BIGINT))"
    for each in (
        f"CAST({at} AS TIMESTAMP)",
        f"TRY_CAST({at} AS TIMESTAMP_NTZ)",
        f"CAST(date_add({at}, 0) AS DATE)",
        f"CAST(array(NULL, {at}) AS ARRAY<TIMESTAMP>)",
        f"CAST(map('k', named_struct('at', {at}, 'n', NULL)) AS MAP<STRING, STRUCT<at: TIMESTAMP, n: DATE>>)",
        f"CAST(map(coalesce({at}, TIMESTAMP'2026-01-01'), 1) AS MAP<TIMESTAMP, INT>)",
    ):
        stage = build_stage_table(f"SELECT id, {each} AS x FROM record")
        sent = build_records(*(json.dumps({"v": millis}) for millis in (FAR, "-62135596800001", NEAR, None)), None)
        results = decoding.decode(spark, stage, sent, "reason", "fate")
        assert results == [*[(FAR_REASON, "bad")] * 2, *[(None, "staged")] * 3], each


@pytest.mark.repeats("test_time_beyond_the_years_that_readers_have_is_bad_whatever_select_makes_it_of")
def test_text_that_is_no_utf8_is_bad_whatever_select_makes_it_of(spark) -> None:
    """Readers of tables fail on it, or read other text."""
    text = "CAST(unhex(v) AS STRING)"
    for each in (
        f"CAST({text} AS STRING)",
        f"CAST(array({text}, NULL) AS ARRAY<STRING>)",
        f"CAST(map('k', named_struct('n', NULL, 't', {text})) AS MAP<STRING, STRUCT<n: INT, t: STRING>>)",
        f"CAST(map(coalesce({text}, 'k'), 1) AS MAP<STRING, INT>)",
    ):
        stage = build_stage_table(f"SELECT id, {each} AS x FROM record")
        sent = build_records(*(json.dumps({"v": digits}) for digits in ("E4", "C3A4", "", None)), None)
        results = decoding.decode(spark, stage, sent, "reason", "fate")
        assert results == [("select: x is not valid UTF-8", "bad"), *[(None, "staged")] * 4], each


@pytest.mark.repeats("test_time_beyond_the_years_that_readers_have_is_bad_whatever_select_makes_it_of")
def test_far_time_of_a_record_is_bad_where_select_takes_it(spark) -> None:
    stage, at = build_stage_table("SELECT id, timestamp AS x FROM record"), f"timestamp_millis({FAR} - offset)"
    results = decoding.decode(spark, stage, build_records("{}", "{}", None), "reason", "fate", at=at)
    assert results == [(FAR_REASON, "bad"), (None, "staged"), (None, "staged")]


@pytest.mark.repeats("test_part_that_its_type_cannot_hold_makes_the_record_bad_and_no_null")
def test_star_takes_a_struct_whose_parts_must_be_there(spark) -> None:
    """Each flush failed, as Spark casts nothing to what is NOT NULL inside."""
    columns = (*ID, Column("s", "STRUCT<`a`: INT NOT NULL>"), Column("l", "ARRAY<STRUCT<`a`: INT NOT NULL>>"))
    for select in ("SELECT * FROM record", "SELECT id, s, l FROM record"):
        stage = build_stage_table(select, columns)
        sent = build_records('{"s": {"a": 1}, "l": [{"a": 2}]}', '{"s": {"a": null}}', '{"s": null}', None)
        results = decoding.decode(spark, stage, sent, "fate", "value_struct.s.a", "value_struct.l[0].a")
        assert results == [("staged", 1, 2), ("bad", None, None), ("staged", None, None), ("staged", None, None)]


@pytest.mark.repeats("test_record_for_which_select_fails_is_bad_and_takes_no_other_down[of the record]")
def test_record_whose_offset_is_too_large_for_select_is_bad_and_takes_no_other_down(spark) -> None:
    stage = build_stage_table("SELECT id, CAST(offset + 9223372036854775806 AS BIGINT) AS x FROM record")
    results = decoding.decode(spark, stage, build_records("{}", None, "{}", "{}"), "reason", "fate", "value_struct.x")
    bad = ("select: x fails for this record", "bad", None)
    assert results == [(None, "staged", 2**63 - 2), (None, "staged", None), bad, bad]


@pytest.mark.repeats("test_record_for_which_select_fails_is_bad_and_takes_no_other_down[of the record]")
def test_condition_may_depend_on_chance_and_on_the_time(spark) -> None:
    condition = "rand() < 2 AND length(uuid()) > 0 AND current_timestamp() IS NOT NULL"
    decoded = decoding.decode(
        spark, build_stage_table(when=condition), build_records('{"n": 1}', '{"n": 2}'), "reason", "fate"
    )
    assert decoded == [(None, "staged")] * 2


@pytest.mark.repeats(
    "test_record_whose_condition_does_not_hold_is_a_delete_where_that_is_asked[retracts2-staged]",
    "retracts0-filtered",
    "retracts1-filtered",
)
@pytest.mark.parametrize(
    ("retracts", "without_answer"), [((), "filtered"), (("false",), "filtered"), (("false", "null"), "staged")]
)
def test_record_whose_condition_does_not_hold_is_a_delete_where_that_is_asked(
    spark, retracts: tuple[str, ...], without_answer: str
) -> None:
    stage = build_stage_table(when="n > 0", retracts=retracts)
    results = decoding.decode(
        spark,
        stage,
        build_records('{"n": 1}', '{"n": 0}', '{"v": "x"}', None, '{"n": "x"}'),
        "op",
        "fate",
        "value_struct.n",
    )
    assert results == [
        ("u", "staged", 1),
        ("d", "staged", None) if retracts else ("u", "filtered", 0),
        ("d" if without_answer == "staged" else "u", without_answer, None),
        ("d", "staged", None),
        (results[4][0], "bad", None),
    ]


@pytest.mark.repeats("test_deletes_are_ordered_by_what_select_makes_of_the_row_that_they_show")
def test_delete_by_when_carries_its_sequence_and_route_decides_first(spark) -> None:
    """Route chooses records with a number below 3, of which the condition makes one a delete."""
    stage = build_stage_table(when="v = 'open'", retracts=("false", "null"), sequence=("n",), route=Route("n", "[12]"))
    texts = ('{"n": 1, "v": "open"}', '{"n": 2, "v": "shut"}', '{"n": 3, "v": "shut"}')
    results = decoding.decode(spark, stage, build_records(*texts), "op", "sequence.n", "fate")
    assert results[:2] == [("u", 1, "staged"), ("d", 2, "staged")]
    assert results[2][2] == "filtered"


@pytest.mark.repeats("test_record_whose_condition_does_not_hold_is_a_delete_where_that_is_asked[retracts2-staged]")
def test_table_without_deletes_ignores_them(spark) -> None:
    stage = build_stage_table(when="n > 0", retracts=("false", "null"), ignore_deletes=True)
    assert decoding.decode(spark, stage, build_records('{"n": 1}', '{"n": 0}'), "fate") == [("staged",), ("ignored",)]


def build_change(
    word: str, kind: str, table: str, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> bytes:
    """One change of a row in a table of the source; `kind` is a letter of Debezium's."""
    row = after or before
    old = [{k: v for k, v in before.items() if after[k] != v}] if before and after else None
    kinds = {"c": "insert", "u": "update", "d": "delete"}
    events = {
        "debezium-json": {"op": kind, "before": before, "after": after, "source": {"table": table}},
        "maxwell-json": {"type": kinds[kind], "table": table, "data": row, **({"old": old[0]} if old else {})},
        "canal-json": {"type": kinds[kind].upper(), "table": table, "isDdl": False, "data": [row], "old": old},
        "ogg-json": {"op_type": kind.upper().replace("C", "I"), "table": table, "before": before, "after": after},
    }
    return json.dumps(events[word]).encode()


SHOWN = {"debezium-json": "value.source.table"}  # elsewhere value.table
CHOOSE = {
    "when": {"when": "src = 'orders'"},
    "when of the row too": {"when": "src = 'orders' AND v IS NOT NULL"},
    "route": {"route": Route("src", "orders")},
    "name": {"naming": TableNaming("shop.{src}", ("shop",), "tidegate_.*", "shop.orders")},
}


@pytest.mark.repeats(
    "integration/test_shared_topics.py::test_change_event_of_another_table_or_of_none_is_not_bad_here[name-True]"
)
# the longer condition has the shorter one as a part of it
@pytest.mark.parametrize("choice", CHOOSE.values(), ids=CHOOSE)
@pytest.mark.parametrize("word", ["debezium-json", "maxwell-json", "canal-json", "ogg-json"])
def test_change_event_of_another_source_table_deletes_no_row_of_the_same_key(
    spark, word: str, choice: dict[str, Any]
) -> None:
    """One topic holds the changes of two tables, whose keys are counted apart."""
    columns = (Column("id", "STRING"), Column("v", "STRING"))
    stage = decoding.build_stage_table(ValueFormat(word, columns), columns, columns[:1])
    key = KeyFormat(fields=("id",), from_value=True)
    stage = replace(stage, key=key, metadata={"src": SHOWN.get(word, "value.table")}, **choice)
    five, six = {"id": "5", "v": "a"}, {"id": "6", "v": "a"}
    events = [("c", None, five), ("u", five, six), ("d", six, None)]
    values = [build_change(word, kind, table, *rows) for table in ("orders", "customers") for kind, *rows in events]
    results = decoding.decode(spark, stage, [(None, value) for value in values], "key_struct.id", "op", "fate")
    assert sorted((id, op) for id, op, fate in results if fate == "staged") == [
        ("5", "c"), ("5", "d"), ("6", "d"), ("6", "u"),
    ]  # fmt: skip
    assert {fate for _, _, fate in results} == {"staged", "filtered"}


@pytest.mark.repeats("test_record_whose_condition_does_not_hold_is_a_delete_where_that_is_asked[retracts2-staged]")
@pytest.mark.parametrize("condition", ["coalesce(v, '') = 'open'", "n > 0 AND v <=> 'open' AND true"])
def test_delete_passes_a_condition_on_its_row_that_no_row_of_nulls_meets(spark, condition: str) -> None:
    results = decoding.decode(
        spark, build_stage_table(when=condition), build_records('{"n": 1, "v": "open"}', "{}", None), "op", "fate"
    )
    assert results == [("u", "staged"), ("u", "filtered"), ("d", "staged")]


@pytest.mark.repeats(
    "integration/test_shared_topics.py::test_tombstone_deletes_only_where_key_and_kafkas_metadata_say_whose_it_is[settings1-ignored]"
)
def test_condition_on_kafkas_metadata_is_asked_of_a_tombstone_and_one_on_its_row_is_not(spark) -> None:
    stage = build_stage_table(when="kind['k'] = X'61' AND n > 0", metadata={"kind": "headers"})
    headers: list[list[tuple[str, bytes]]] = [[("k", b"a")], [("k", b"b")], []]
    results = decoding.decode(spark, stage, build_records(None, None, None), "op", "fate", headers=headers)
    assert results == [("d", "staged"), ("d", "filtered"), ("d", "staged")]


NAMES = {"flat": ("", None, "id"), "prefix": ("k_", None, "k_id"), "struct": ("", "the key", "`the key`.id")}


@pytest.mark.repeats("test_rows_are_chosen_by_a_column_of_the_key_that_the_value_does_not_repeat")
@pytest.mark.parametrize(("prefix", "into", "name"), NAMES.values(), ids=NAMES)
def test_conditions_see_a_column_that_stands_in_the_key_alone_and_of_a_delete_too(
    spark, prefix: str, into: str | None, name: str
) -> None:
    stage = build_stage_table(columns=COLUMNS[1:])
    columns = tuple(replace(column, name=prefix + column.name) for column in ID)
    stage = replace(stage, key=KeyFormat(fields=("id",), prefix=prefix, into=into), key_columns=columns)
    stage = replace(stage, when=f"{name} > 1 AND v <> 'x'", delete_when=f"{name} = 3")
    records = [*build_records('{"v": "a"}', None, '{"v": "c"}', '{"v": "d"}', None), (b"x", b'{"v": "a"}')]
    *good, bad = decoding.decode(spark, stage, records, "op", "fate", "reason")
    assert [row[:2] for row in good] == [
        ("u", "filtered"), ("d", "filtered"), ("u", "staged"), ("d", "staged"), ("d", "staged"),
    ]  # fmt: skip
    assert bad[1:] == ("bad", "the key is not a JSON object that fits the key columns")


@pytest.mark.repeats("test_rows_are_chosen_by_a_column_of_the_key_that_the_value_does_not_repeat")
def test_key_that_is_called_like_a_part_of_the_records_place_is_what_a_condition_sees(spark) -> None:
    """Each flush failed, as Spark did not know which of the two `partition`s was meant."""
    stage = build_stage_table(columns=COLUMNS[1:], when="partition = 'eu' AND offset < 2")
    key = Column("Partition", "STRING")
    stage = replace(stage, key=KeyFormat(fields=("Partition",)), key_columns=(key,))
    parts = ("eu", "us", "eu")
    sent = [(f'{{"Partition": "{part}"}}'.encode(), b'{"v": "a"}') for part in parts]
    sent += [(b'{"Partition": "us"}', None)]
    assert [fate for (fate,) in decoding.decode(spark, stage, sent, "fate")] == [
        "staged", "filtered", "filtered", "filtered",
    ]  # fmt: skip


@pytest.mark.repeats("test_rows_are_chosen_by_a_column_of_the_key_that_the_value_does_not_repeat")
def test_condition_sees_the_keys_column_where_the_value_leaves_it_out(spark) -> None:
    """The row has the key's value there; a delete has no row, and passes the condition on it."""
    sent = build_records('{"v": "a"}', '{"id": 1, "v": "b"}', '{"v": "c"}', None)
    stage = build_stage_table(when="id < 2", route=Route("id", "[1-9]"))
    results = decoding.decode(spark, stage, sent, "op", "fate")
    assert results == [("u", "filtered"), ("u", "staged"), ("u", "filtered"), ("d", "staged")]


@pytest.mark.repeats(
    "integration/test_presence.py::test_update_without_a_key_that_changes_a_key_field_deletes_the_old_row"
)
def test_old_row_of_an_event_that_changes_the_key_is_deleted_whatever_is_asked_of_the_key(spark) -> None:
    columns = (Column("v", "STRING"),)
    stage = decoding.build_stage_table(ValueFormat("debezium-json", columns), columns, (Column("id", "STRING"),))
    stage = replace(stage, key=KeyFormat(fields=("id",), from_value=True), when="id <> '5' AND v IS NOT NULL")
    event = build_change("debezium-json", "u", "orders", {"id": "6", "v": "a"}, {"id": "5", "v": "a"})
    results = decoding.decode(spark, stage, [(None, event)], "key_struct.id", "op", "fate")
    assert sorted(results) == [("5", "u", "filtered"), ("6", "d", "staged")]


def test_rows_are_chosen_by_a_column_of_the_key_that_the_value_does_not_repeat(workbench) -> None:
    topic = workbench.topic()
    tables = [
        {"name": "lake.shop.gone", "delete_when": "id = 3", "upsert": True},
        {"name": "lake.shop.retracted", "when": "id > 2 AND name <> 'off'", "when_false": "delete"},
    ]
    value = {"schema": "id BIGINT, name STRING", "fields_include": "EXCEPT_KEY"}
    workbench.pipeline("chosen", [topic], key=KEY, value=value, tables=tables)
    workbench.produce(topic, *(({"id": n}, {"name": f"n{n}"}) for n in range(1, 6)))
    workbench.flush("chosen")
    workbench.produce(topic, ({"id": 4}, None), ({"id": 1}, None), ({"id": 5}, {"name": "off"}))
    workbench.flush("chosen")
    names = ("gone", "retracted")
    rows = {name: [(row["id"], row["name"]) for row in workbench.read_rows(f"shop.{name}")] for name in names}
    assert rows == {"gone": [(2, "n2"), (5, "off")], "retracted": [(3, "n3")]}


KEY = {"fields": ["id"], "schema": "id BIGINT"}


@pytest.mark.repeats("unit/scenarios/test_when_false.py::test_history_closes_the_row")
@pytest.mark.parametrize(
    "more",
    [{}, {"sequence_by": ["lsn"]}, {"history": "scd2", "sequence_by": ["lsn"]}],
    ids=["plain", "sequence", "scd2"],
)
def test_row_leaves_the_table_when_its_condition_no_longer_holds(workbench, more: dict[str, Any]) -> None:
    """Keys of two partitions, over two batches; the second brings a late record where there is an order."""
    topic, table = workbench.topic(2), {"when": "state = 'open'", "when_false": "delete", **more}
    workbench.pipeline("open", [topic], key=KEY, value={"schema": "id BIGINT, state STRING, lsn INT"}, table=table)

    def build_change(id: int, state: str | None, lsn: int) -> tuple[Any, ...]:
        return {"id": id}, {"id": id, "state": state, "lsn": lsn}, {"partition": id % 2}

    workbench.produce(topic, *(build_change(id, "open", 1) for id in range(6)), build_change(6, "shut", 1))
    workbench.flush("open")
    workbench.produce(
        topic,
        build_change(0, "shut", 3),
        build_change(1, "shut", 3),
        build_change(2, None, 3),
        build_change(3, "open", 3),
    )
    workbench.produce(topic, *([build_change(0, "open", 2)] if more else []))
    workbench.flush("open")
    rows = workbench.read_rows("shop.open")
    if "history" not in more:
        assert [(row["id"], row["lsn"]) for row in rows] == [(3, 3), (4, 1), (5, 1)]
        return
    versions = sorted((row["id"], row["valid_from"], row["valid_to"]) for row in rows)
    assert versions == [(0, 1, 3), (1, 1, 3), (2, 1, 3), (3, 1, None), (4, 1, None), (5, 1, None)]


EVENT = '{"op": "%s", "before": %s, "after": %s, "source": {"lsn": 1}}'


def test_deletes_are_ordered_by_what_select_makes_of_the_row_that_they_show(spark) -> None:
    select = "SELECT r.*, CAST(CAST(r.v AS INT) * 10 AS INT) AS at FROM record r"
    stage = build_stage_table(select, value=ValueFormat("debezium-json"), sequence=("at", "n"), delete_when="n = -1")
    row = '{"id": 1, "v": "%s", "n": %s}'
    texts = [
        EVENT % ("c", "null", row % (1, 7)),
        EVENT % ("d", row % (2, 8), "null"),
        EVENT % ("d", '{"id": 1}', "null"),
        None,
        EVENT % ("u", "null", row % (3, -1)),
    ]
    expressions = ("reason", "op", "sequence.at", "sequence.n", "value_struct.at")
    results = decoding.decode(spark, stage, build_records(*texts), *expressions)
    assert results == [
        (None, "c", 10, 7, 10),
        (None, "d", 20, 8, None),
        (None, "d", None, None, None),
        (None, "d", None, None, None),
        (None, "d", 30, -1, None),
    ]


@pytest.mark.repeats("test_record_for_which_select_fails_is_bad_and_takes_no_other_down[of the record]")
@pytest.mark.parametrize("keys_only", [True, False])
def test_delete_whose_sequence_cannot_be_made_is_bad(spark, keys_only: bool) -> None:
    select = "SELECT *, CAST(v AS INT) AS at, CAST(10 / n AS INT) AS part FROM record"
    stage = build_stage_table(select, sequence=("at", "part"), delete_when="id = 1")
    texts = ['{"id": 1, "v": "x", "n": 1}', '{"id": 1, "v": "5", "n": 0}', '{"id": 2, "v": "x", "n": 1}']
    results = decoding.decode(spark, replace(stage, keys_only=keys_only), build_records(*texts), "reason")
    assert results == [
        ("select: at is not a INT",),
        ("select: part fails for this record",),
        ("select: at is not a INT",),
    ]


@pytest.mark.repeats("unit/scenarios/test_select.py::test_sequence_may_be_made_of_the_record_by_select")
@pytest.mark.parametrize("history", ["none", "scd2"])
def test_column_that_select_makes_orders_the_records(workbench, history: str) -> None:
    """Late records of two partitions, deletes among them."""
    topic = workbench.topic(2)
    table = {
        "select": "SELECT id, n, CAST(split_part(at, '-', 2) AS INT) AS lsn FROM record",
        "sequence_by": ["lsn"],
        "delete_when": "n = -1",
        "history": history,
    }
    workbench.pipeline("made", [topic], key=KEY, value={"schema": "id BIGINT, n INT, at STRING"}, table=table)

    def build_change(id: int, n: int, lsn: int) -> tuple[Any, ...]:
        return {"id": id}, {"id": id, "n": n, "at": f"lsn-{lsn}"}, {"partition": id % 2}

    workbench.produce(topic, build_change(1, 1, 5), build_change(2, 1, 5), build_change(3, -1, 9))
    workbench.flush("made")
    workbench.produce(
        topic, build_change(1, 2, 4), build_change(2, 2, 10), build_change(3, 3, 8), build_change(1, -1, 3)
    )
    workbench.flush("made")
    rows = workbench.read_rows("shop.made")
    if history == "none":
        assert sorted((row["id"], row["n"], row["lsn"]) for row in rows) == [(1, 1, 5), (2, 2, 10)]
        return
    versions = sorted((row["id"], row["n"], row["valid_from"], row["valid_to"]) for row in rows)
    assert versions == [(1, 1, 5, None), (1, 2, 4, 5), (2, 1, 5, 10), (2, 2, 10, None), (3, 3, 8, 9)]
