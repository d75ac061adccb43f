"""ogg-json: operations of GoldenGate, with columns that updates leave out, on real components."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import decoding
import pytest
from tidegate.errors import BadRecord
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat
from tidegate.spec.table import Route

KEY = {"fields": ["ID"], "schema": "ID BIGINT NOT NULL"}
SCHEMA = "ID BIGINT, NAME STRING NOT NULL, AMOUNT DECIMAL(20,2), AT TIMESTAMP_NTZ"
AT = datetime(2026, 1, 1, 1, 2, 3, 456789)
COLUMNS = (Column("ID", "BIGINT"), Column("NAME", "STRING"), Column("AMOUNT", "DECIMAL(20,2)"))
LACK_TEXT = (
    "reads a value that the event leaves out, as it did not change; have the source send all columns (PostgreSQL: "
    "REPLICA IDENTITY FULL; GoldenGate: NOCOMPRESSUPDATES)"
)


def build_operation(kind: str, before: Any = None, after: Any = None, pos: int = 1, **more: Any) -> dict[str, Any]:
    rows = {name: row for name, row in (("before", before), ("after", after)) if row is not None}
    return {
        "table": "SHOP.ORDERS", "op_type": kind, "op_ts": "2026-01-02 03:04:05.678901",
        "current_ts": "2026-01-02T03:04:06.000001", "pos": f"{pos:020}", "primary_keys": ["ID"], **rows, **more,
    }  # fmt: skip


def build_row(id: int, name: str, amount: str = "123456789012345678.10") -> dict[str, Any]:
    return {"ID": id, "NAME": name, "AMOUNT": amount, "AT": "2026-01-01 01:02:03.456789"}


def build_expected_row(id: int, name: str, amount: str | None = "123456789012345678.10") -> dict[str, Any]:
    return {"ID": id, "NAME": name, "AMOUNT": None if amount is None else Decimal(amount), "AT": AT}


def test_operations_insert_update_in_part_move_and_delete(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("ogg", [topic], key=KEY, value={"format": "ogg-json", "schema": SCHEMA})
    workbench.produce(topic, *((b"%d" % n, build_operation("I", None, build_row(n, "a"))) for n in range(1, 7)))
    workbench.flush("ogg")
    workbench.produce(
        topic,
        (b"1", build_operation("U", {"ID": 1, "AMOUNT": "1.00"}, {"ID": 1, "AMOUNT": None})),
        (b"2", build_operation("U", build_row(2, "a"), build_row(20, "moved"))),
        (b"3", build_operation("D", {"ID": 3})),
        (b"4", build_operation("U", None, {"ID": 4, "NAME": "b"})),
        (b"4", build_operation("U", None, {"ID": 4, "AMOUNT": 0.25})),
        (b"5", build_operation("D", build_row(5, "a"))),
        (b"5", build_operation("I", None, build_row(5, "again"))),
        (b"6", None),
    )
    workbench.flush("ogg")
    assert sorted(workbench.read_rows("shop.ogg"), key=lambda r: r["ID"]) == [
        build_expected_row(1, "a", None),
        build_expected_row(4, "b", "0.25"),
        build_expected_row(5, "again"),
        build_expected_row(6, "a"),
        build_expected_row(20, "moved"),
    ]


@pytest.mark.repeats(
    "integration/test_metadata_values.py::test_metadata_is_what_was_written_or_its_record_is_bad[ogg-json-event-timestamp]"
)
def test_place_in_the_trail_orders_records_and_times_are_metadata(workbench) -> None:
    topic = workbench.topic()
    words = ["op", "table", "pos", "primary-keys", "ingestion-timestamp", "event-timestamp"]
    metadata = {f"m_{word.replace('-', '_')}": f"value.{word}" for word in words}
    value = {"format": "ogg-json", "schema": "ID BIGINT, NAME STRING"}
    workbench.pipeline(
        "trail", [topic], key=KEY, value=value, source={"metadata": metadata}, table={"sequence_by": ["m_pos"]}
    )
    far = 10**19 + 7  # beyond a BIGINT
    workbench.produce(
        topic,
        (b"1", build_operation("I", None, {"ID": 1, "NAME": "late"}, far)),
        (b"1", build_operation("U", None, {"ID": 1, "NAME": "early"}, far - 1)),
        (b"2", build_operation("D", {"ID": 2}, None, 9)),
        (b"2", build_operation("I", None, {"ID": 2, "NAME": "before the delete"}, 8)),
    )
    workbench.flush("trail")
    (row,) = workbench.read_rows("shop.trail")
    assert list(row.values()) == [
        1, "late", "I", "SHOP.ORDERS", Decimal(far), ["ID"],
        datetime(2026, 1, 2, 3, 4, 6, 1, tzinfo=UTC), datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    ]  # fmt: skip
    workbench.produce(topic, (b"1", build_operation("U", None, {"ID": 1}, far + 1)))
    with pytest.raises(BadRecord, match="the value of NAME is not in the event, as it did not change"):
        workbench.flush("trail")


BAD: list[tuple[dict[str, Any], str]] = [
    (build_operation("X", None, build_row(1, "a")), "unknown op_type=X"),
    ({"after": build_row(1, "a")}, "no op_type"),
    (build_operation("I"), "no after: op_type=I"),
    (build_operation("U", build_row(1, "a")), "no after: op_type=U"),
    (build_operation("D", None, build_row(1, "a")), "no before: op_type=D"),
    (build_operation("T"), "truncated: empty the table too"),
    (build_operation("I", None, {"NAME": "a"}), "the value has no field ID"),
    (build_operation("I", None, {"ID": None, "NAME": "a"}), "field ID is required and missing"),
    (build_operation("I", None, {"ID": 1}), "field NAME is required and missing"),
    (build_operation("U", None, {"ID": 1, "NAME": None}), "field NAME is required and missing"),
    (build_operation("U", {"ID": 1}, {"ID": 2, "NAME": "a"}), "changes the key and leaves out columns"),
    (build_operation("I", None, build_row(1, "a", "1.005")), "AMOUNT is not a DECIMAL"),
    (build_operation("I", None, build_row(2**63, "a")), "does not fit value.schema, fields: ID"),
    ({**build_operation("I", None, build_row(1, "a")), "pos": "x"}, "no pos that is a number"),
]


def test_operation_that_cannot_be_applied_as_it_is_is_bad(spark) -> None:
    columns = (COLUMNS[0], replace(COLUMNS[1], nullable=False), COLUMNS[2])
    stage = replace(
        decoding.build_stage_table(ValueFormat("ogg-json"), columns, (replace(COLUMNS[0], nullable=False),)),
        unchanged=("NAME", "AMOUNT"), stages_kept=True, metadata={"pos": "value.pos"},
    )  # fmt: skip
    reasons = decoding.read_reasons(spark, stage, [json.dumps(value).encode() for value, _ in BAD])
    wrong = [(given, reason) for given, reason in zip(BAD, reasons, strict=True) if given[1] not in str(reason)]
    assert wrong == []


@pytest.mark.repeats("test_operation_that_cannot_be_applied_as_it_is_is_bad")
def test_update_without_a_column_that_a_condition_looks_at_is_bad(spark) -> None:
    stage = replace(
        decoding.build_stage_table(ValueFormat("ogg-json"), COLUMNS, COLUMNS[:1], unchanged=("NAME", "AMOUNT"))
    )
    updates = [build_operation("U", None, {"ID": 1, "NAME": "a"}), build_operation("U", None, {"ID": 1, "AMOUNT": "2"})]
    records = [(None, json.dumps(value).encode()) for value in updates]
    for is_partial in (False, True):
        conditional = replace(stage, when="amount > 1", is_partial=is_partial)
        chosen = decoding.decode(spark, conditional, records, "fate", "reason")
        assert chosen == [("bad", f"when {LACK_TEXT}"), ("staged", None)]
    routed = decoding.decode(spark, replace(stage, route=Route("NAME", "a")), records, "fate", "reason")
    assert routed == [("staged", None), ("bad", f"route {LACK_TEXT}")]
    for words in ({"when": "name <> 'amount'"}, {"when": "name = 'a' /* amount */"}):  # which names no column
        assert decoding.decode(spark, replace(stage, **words), records[:1], "fate", "reason") == [("staged", None)]
    appended = replace(stage, when="amount > 1", unchanged=())  # what the update leaves out is no NULL there either
    answers = decoding.decode(spark, appended, records, "fate", "reason")
    assert answers == [("bad", f"when {LACK_TEXT}"), ("staged", None)]


@pytest.mark.repeats("test_operations_insert_update_in_part_move_and_delete")
def test_update_says_which_columns_keep_their_value(spark) -> None:
    stage = replace(
        decoding.build_stage_table(ValueFormat("ogg-json"), COLUMNS, COLUMNS[:1]),
        unchanged=("NAME", "AMOUNT"),
        stages_kept=True,
    )
    given = [
        build_operation("U", None, {"ID": 1, "NAME": None}), build_operation("I", None, {"ID": 1, "NAME": "a"}),
        build_operation("D", {"ID": 1}), build_operation("T"),
    ]  # fmt: skip
    records = [(b"k", json.dumps(value).encode()) for value in given]
    ignoring = replace(stage, value=replace(stage.value, options={"truncate": "ignore"}))
    assert decoding.decode(spark, ignoring, records, "op", "kept", "value_struct.NAME", "fate") == [
        ("u", ["AMOUNT"], None, "staged"), ("c", [], "a", "staged"), ("d", [], None, "staged"),
        ("-", [], None, "ignored"),
    ]  # fmt: skip


def test_column_that_was_renamed_in_the_table_is_left_out_where_neither_name_is_sent(spark) -> None:
    """Of its two names one is never there: each update left the column as it was, and was bad where its key changed."""
    columns = (*COLUMNS, Column("TITLE", "STRING"))
    stage = decoding.build_stage_table(
        ValueFormat("ogg-json"), columns, COLUMNS[:1], unchanged=("NAME", "AMOUNT", "TITLE"), stages_kept=True,
        names_of=dict.fromkeys(("TITLE", "NAME"), ("TITLE", "NAME")),
    )  # fmt: skip
    stage = replace(stage, when="title <> 'x'")
    moved = build_operation("U", {"ID": 1}, {"ID": 2, "NAME": "b", "AMOUNT": "1"})
    rows = [{"NAME": "a"}, {"TITLE": "c"}, {"NAME": "a", "TITLE": "d"}, {"NAME": "x"}, {"AMOUNT": "1"}]
    updates = [*(build_operation("U", None, {"ID": 1, **row}) for row in rows), moved]
    records = [(None, json.dumps(value).encode()) for value in updates]
    decoded = decoding.decode(spark, stage, records, "fate", "reason", "op", "kept", "value_struct.TITLE")
    assert [fate for fate, *_ in decoded[:5]] == ["staged", "staged", "staged", "filtered", "bad"]
    assert [row[3:] for row in decoded[:3]] == [(["AMOUNT"], "a"), (["AMOUNT"], "c"), (["AMOUNT"], "d")]
    assert decoded[4][1] == f"when {LACK_TEXT}"
    alone = replace(stage, value_columns=columns[:2], unchanged=("NAME",), when=None)
    assert decoding.decode(spark, alone, records[:1], "reason", "value_struct.NAME") == [(None, "a")]
    assert [(fate, op, title) for fate, _, op, _, title in decoded[5:]] == [("staged", "d", None), ("staged", "u", "b")]
    grown = (columns[0], Column("NAME", "STRUCT<a: INT, b: INT>"), columns[2], Column("TITLE", "STRUCT<a: INT>"))
    apart = replace(stage, value_columns=grown, when=None)  # records have made b, under one of the names
    sent = [(None, json.dumps(build_operation("U", None, {"ID": 1, "NAME": {"a": 1, "b": 2}})).encode())]
    joined = decoding.decode(spark, apart, sent, "reason", "kept", "value_struct.NAME.b", "value_struct.TITLE.a")
    assert joined == [(None, ["AMOUNT"], 2, None)]
