"""canal-json and maxwell-json: rows of a message, their own keys, changes of schema, on real components."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import decoding
import pytest
from tidegate.errors import BadRecord
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route
from tidegate.spec.table_template import TableNaming

KEY = {"fields": ["id"], "schema": "id BIGINT"}
SCHEMA = "id BIGINT, name STRING, amount DECIMAL(10,2), at TIMESTAMP_NTZ"
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
MS = int(AT.timestamp() * 1000)


def build_canal_message(kind: str, *rows: dict[str, Any], old: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    data = [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    return {
        "data": data or None, "old": old, "database": "shop", "table": "orders", "type": kind, "isDdl": False,
        "es": MS - 1000, "ts": MS, "id": 7, "sql": "", "pkNames": ["id"], "sqlType": {"id": -5, "name": 12},
        "mysqlType": {"id": "bigint"}, **more,
    }  # fmt: skip


def build_maxwell_message(
    kind: str, data: dict[str, Any] | None = None, old: Any = None, **more: Any
) -> dict[str, Any]:
    envelope = {"database": "shop", "table": "orders", "type": kind, "ts": MS // 1000, "xid": 1, "commit": True}
    rows = ({"data": data} if data else {}) | ({"old": old} if old else {})
    return {**envelope, **rows, "primary_key_columns": ["id"], **more}


def build_row(
    id: int, name: str | None, amount: Any = "1.50", at: str | None = "2026-01-01 01:02:03.456789"
) -> dict[str, Any]:
    return {"id": id, "name": name, "amount": amount, "at": at}


def build_expected_row(id: int, name: str | None, amount: Any = "1.50") -> dict[str, Any]:
    return {"id": id, "name": name, "amount": Decimal(amount), "at": datetime(2026, 1, 1, 1, 2, 3, 456789)}


def test_canal_messages_of_several_rows_upsert_delete_and_move_keys_and_count_as_one_record(workbench) -> None:
    """A record counts as staged when a condition leaves any of its rows."""
    topic = workbench.topic()
    tables = [{"name": "lake.shop.rows"}, {"name": "lake.shop.some", "when": "id > 19"}]
    workbench.pipeline("rows", [topic], key=KEY, value={"format": "canal-json", "schema": SCHEMA}, tables=tables)
    ddl = build_canal_message("ALTER", isDdl=True, sql="alter table orders add x int")
    workbench.produce(
        topic,
        (
            None,
            build_canal_message("INSERT", build_row(1, "a"), build_row(2, "b"), build_row(3, None), build_row(4, "d")),
        ),
        (None, ddl),
        (
            None,
            build_canal_message(
                "UPDATE", build_row(1, "a2", "99999999.99"), build_row(20, "b"), old=[{"name": "a"}, {"id": "2"}]
            ),
        ),
        (b"spread by this", build_canal_message("DELETE", build_row(3, None), build_row(4, "d"))),
        (None, None),
    )
    session = workbench.open_session("rows")
    all_counts = {staged.table: staged.counts for staged in stage(session, plan(session))}
    numbers = {
        table: (counts.span, counts.read, counts.staged, counts.filtered, counts.ignored)
        for table, counts in all_counts.items()
    }
    assert numbers == {"lake.shop.rows": (5, 5, 3, 0, 2), "lake.shop.some": (5, 5, 2, 1, 2)}
    workbench.flush("rows")
    assert workbench.read_rows("shop.some") == [build_expected_row(20, "b")]
    assert sorted(workbench.read_rows("shop.rows"), key=lambda r: r["id"]) == [
        build_expected_row(1, "a2", "99999999.99"),
        build_expected_row(20, "b"),
    ]


WRONG = [
    (build_canal_message("INSERT", build_row(1, "a"), build_row(2, "b", "1.005")), "amount is not a DECIMAL"),
    (build_canal_message("INSERT", build_row(2**63, "a")), "id is not a BIGINT"),
    (build_canal_message("UPSERT", build_row(1, "a")), "unknown type=UPSERT"),
    (build_canal_message("INSERT"), "no data: type=INSERT"),
    (build_canal_message("TRUNCATE", isDdl=True), "truncated: empty the table too"),
    (build_canal_message("INSERT", data=[None]), "null in place of a row: type=INSERT"),
    (
        build_canal_message("INSERT", build_row(1, "a"), {"id": 2, "Name": "b"}),
        "rows of the message do not have the same columns",
    ),
]


@pytest.mark.repeats("test_row_that_is_bad_for_its_table_makes_its_message_bad_as_a_whole[9-when]")
def test_canal_message_with_anything_wrong_in_it_is_bad_as_a_whole(workbench) -> None:
    topic = workbench.topic()
    source = {"errors": {"tolerance": "all"}}
    workbench.pipeline("wrong", [topic], key=KEY, value={"format": "canal-json", "schema": SCHEMA}, source=source)
    workbench.produce(
        topic, (None, build_canal_message("INSERT", build_row(9, "z"))), *((None, message) for message, _ in WRONG)
    )
    session = workbench.open_session("wrong")
    (staged,) = stage(session, plan(session))
    assert (staged.counts.read, staged.counts.staged, staged.counts.dead_lettered) == (1 + len(WRONG), 1, len(WRONG))
    workbench.flush("wrong")
    assert workbench.read_rows("shop.wrong") == [build_expected_row(9, "z")]
    letters = sorted(workbench.read_rows("shop.tidegate_wrong_dead_letters"), key=lambda letter: letter["offset"])
    assert [letter["offset"] for letter in letters] == list(range(1, 1 + len(WRONG)))
    pairs = zip(letters, WRONG, strict=True)
    assert [letter["message"] for letter, (_, part) in pairs if part not in letter["message"]] == []


# what tells of statements and transactions: Canal of MySQL's logged statements and XA transactions, TiCDC of time
TELLING_NO_ROW = [
    build_canal_message("QUERY", database="", sql="UPDATE `orders` SET `name`='a' WHERE `id` = 99"),
    build_canal_message("XACOMMIT", database="", table="", sql="XA COMMIT X'31',X'',1"),
    {
        "id": 0,
        "database": "",
        "table": "",
        "pkNames": None,
        "isDdl": False,
        "type": "TIDB_WATERMARK",
        "es": MS,
        "ts": MS,
        "sql": "",
        "sqlType": None,
        "mysqlType": None,
        "data": None,
        "old": None,
        "_tidb": {"watermarkTs": 4},
    },
    # Canal makes a message of each GTID, under the type that it takes for none
    build_canal_message("UPDATE", database="", table="", pkNames=None, sqlType=None, mysqlType=None, gtid="0-1:2"),
    build_canal_message(
        "EVENTTYPECOMPATIBLEPROTO2", database="", table="", pkNames=None, sqlType=None, mysqlType=None, data=[]
    ),
]


@pytest.mark.repeats("test_canal_messages_of_several_rows_upsert_delete_and_move_keys_and_count_as_one_record")
def test_canal_message_that_tells_of_no_row_is_ignored_and_of_a_row_is_not(spark: Any) -> None:
    columns = (Column("id", "BIGINT"), Column("name", "STRING"))
    stage = decoding.build_stage_table(ValueFormat("canal-json"), columns, columns[:1])
    stage = replace(stage, key=KeyFormat(fields=("id",), from_value=True))
    wrong = [{**message, "data": [{"id": "1"}]} for message in TELLING_NO_ROW if message["type"] != "UPDATE"]
    wrong += [
        build_canal_message("XAROLLBACK"),
        build_canal_message("INSERT", sql="INSERT INTO orders SELECT 1"),
    ]  # what was changed is not told
    wrong += [build_canal_message("UPDATE", table=None), build_canal_message("XAROLLBACK", database="", table="")]
    records = [
        (None, json.dumps(message).encode())
        for message in (*TELLING_NO_ROW, *wrong, build_canal_message("INSERT", {"id": 7}))
    ]
    fates = [fate for (fate,) in decoding.decode(spark, stage, records, "fate")]
    assert fates == [*["ignored"] * len(TELLING_NO_ROW), *["bad"] * len(wrong), "staged"]


SPOILT: dict[str, tuple[dict[str, Any], str]] = {
    "when": ({"when": "10 / n > 1"}, "when fails for this record"),
    "route": ({"route": Route("name", ".*"), "delete_when": "10 / n < 1"}, "delete_when fails for this record"),
    "name": ({"naming": TableNaming("shop.{name}", ("shop",), "tidegate_.*")}, "its values make no table name"),
    "sequence": ({"sequence": ("at",), "has_history": True}, "at is NULL, and with history"),
}


# a row that is bad is set aside by one place, whatever is wrong with it; another reason than that one is its own
@pytest.mark.repeats(
    "test_row_that_is_bad_for_its_table_makes_its_message_bad_as_a_whole[9-when]",
    "None-when",
    "None-route",
    "None-name",
    "None-sequence",
    "9-route",
    "9-name",
    "9-sequence",
)
@pytest.mark.parametrize(("more", "reason"), SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("set_aside", [None, 9])
def test_row_that_is_bad_for_its_table_makes_its_message_bad_as_a_whole(
    spark, more: dict[str, Any], reason: str, set_aside: int | None
) -> None:
    """The bad row comes first, last or alone; of each message one row tells of it, and none is written."""
    columns = tuple(Column(*c.split(" ", 1)) for c in ("id BIGINT", "name STRING", "n INT", "at TIMESTAMP_NTZ"))
    stage = decoding.build_stage_table(ValueFormat("canal-json", columns), columns, columns[:1], set_aside=set_aside)
    stage = replace(stage, key=KeyFormat(fields=("id",), from_value=True), **more)

    def build_line(id: int, *, good: bool) -> dict[str, Any]:
        return {"id": id, "name": "a" if good else "?", "n": int(good), "at": "2026-01-01 00:00:00" if good else None}

    good, bad = build_line(1, good=True), build_line(2, good=False)
    values = [[good, good], [good, bad, good], [bad, good], [bad, bad], [bad]]
    texts = [json.dumps(build_canal_message("INSERT", *rows)).encode() for rows in values]
    results = decoding.decode(spark, stage, [(None, text) for text in texts], "offset", "fate", "record_fate", "reason")
    word = "bad" if set_aside is None else "dead_lettered"
    assert [results.count((0, "staged", "staged", None)), len(results)] == [2, sum(map(len, values))]
    for offset, rows in enumerate(values[1:], start=1):
        row_results = sorted(row[1:] for row in results if row[0] == offset)
        ((fate, record_fate, why),) = [row for row in row_results if row[2] is not None]
        assert (fate, record_fate, why.startswith(reason)) == (word, word, True)
        assert [row for row in row_results if row[2] is None] == [("ignored", word, None)] * (len(rows) - 1)


@pytest.mark.repeats(
    "integration/test_required_fields.py::test_avro_value_that_is_null_where_its_schema_says_not_null_is_bad_and_a_delete_is_not"
)
@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("canal-json", build_canal_message("INSERT", build_row(1, "a"), {**build_row(2, "b"), "id": None})),
        ("maxwell-json", build_maxwell_message("insert", {**build_row(1, "a"), "id": None})),
    ],
)
def test_null_in_a_key_that_is_not_null_is_bad(spark, word: str, message: Any) -> None:
    key = Column("id", "BIGINT", nullable=False)
    stage = decoding.build_stage_table(ValueFormat(word), (Column("id", "BIGINT"), Column("name", "STRING")), (key,))
    for deletes in (None, "topic = 't'"):  # a delete of no key would do nothing, and nobody would know of the record
        deleting = replace(stage, delete_when=deletes)
        reasons = decoding.read_reasons(spark, deleting, [json.dumps(message).encode()])
        assert set(reasons) == {"the key field id is required and missing"}, deletes


def test_maxwell_messages_upsert_delete_and_move_keys_and_schema_changes_are_ignored(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("max", [topic], key=KEY, value={"format": "maxwell-json", "schema": SCHEMA})
    own_key = {"database": "shop", "table": "orders", "pk.id": 1}
    workbench.produce(
        topic,
        (None, {"type": "table-create", "database": "shop", "table": "orders", "def": {}}),
        (None, build_maxwell_message("bootstrap-start")),
        (own_key, build_maxwell_message("bootstrap-insert", build_row(1, "a", 1.5))),
        (own_key, build_maxwell_message("bootstrap-insert", build_row(4, "as it was", 2.5))),
        (own_key, build_maxwell_message("insert", build_row(2, "b", 1.50))),
        (own_key, build_maxwell_message("insert", build_row(3, "c"))),
        (own_key, build_maxwell_message("update", build_row(1, "a2", 7.25), {"name": "a"})),
        (own_key, build_maxwell_message("update", build_row(20, "b"), {"id": 2})),
        (own_key, build_maxwell_message("delete", build_row(3, "c"))),
    )
    workbench.flush("max")
    assert sorted(workbench.read_rows("shop.max"), key=lambda r: r["id"]) == [
        build_expected_row(1, "a2", "7.25"),
        build_expected_row(4, "as it was", "2.50"),
        build_expected_row(20, "b"),
    ]
    workbench.produce(topic, (None, build_maxwell_message("upsert", build_row(1, "a"))))
    with pytest.raises(BadRecord, match="unknown type=upsert"):
        workbench.flush("max")


@pytest.mark.repeats(
    "integration/test_metadata_values.py::test_metadata_is_what_was_written_or_its_record_is_bad[ogg-json-event-timestamp]"
)
def test_messages_tell_their_database_table_and_times(workbench) -> None:
    topic, other = workbench.topic(), workbench.topic()
    words = ["database", "table", "pk-names", "sql-type", "ingestion-timestamp", "event-timestamp"]
    value = {"schema": "id BIGINT"}
    metadata = {word.replace("-", "_"): f"value.{word}" for word in words}
    workbench.pipeline("told", [topic], value={**value, "format": "canal-json"}, source={"metadata": metadata})
    words = ["database", "table", "primary-key-columns", "ingestion-timestamp"]
    metadata = {word.replace("-", "_"): f"value.{word}" for word in words}
    workbench.pipeline("said", [other], value={**value, "format": "maxwell-json"}, source={"metadata": metadata})
    workbench.produce(topic, (None, build_canal_message("INSERT", {"id": 1})))
    workbench.produce(other, (None, build_maxwell_message("insert", {"id": 1})))
    workbench.flush("told")
    workbench.flush("said")
    (canal_row,), (maxwell_row,) = workbench.read_rows("shop.told"), workbench.read_rows("shop.said")
    types = dict(canal_row.pop("sql_type"))
    assert types == {"id": -5, "name": 12}
    assert list(canal_row.values()) == [1, "shop", "orders", ["id"], AT, AT.replace(second=4)]
    assert list(maxwell_row.values()) == [1, "shop", "orders", ["id"], AT.replace(microsecond=0)]


def build_ogg_message(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {"op_type": "U", "before": before, "after": after}


NEW = {"id": 1, "part": 5, "name": "new"}
KEPT, WAS_NULL, WAS_5 = {"name": "old"}, {"part": None, "name": "old"}, {"part": 5}
BECAME_NULL = {**NEW, "part": None}
# (key and op of each row that a message becomes), by what it shows of the row before
MOVES: list[tuple[Any, Any, list[Any]]] = [
    (KEPT, NEW, [(1, 5, "u")]),
    (WAS_NULL, NEW, [(1, None, "d"), (1, 5, "u")]),
    (WAS_5, BECAME_NULL, [(1, 5, "d"), (1, None, "u")]),
    ({"part": None}, BECAME_NULL, [(1, None, "u")]),
    ({"id": 2, "part": 6}, NEW, [(2, 6, "d"), (1, 5, "u")]),
]


@pytest.mark.repeats(
    "test_key_field_that_becomes_null_or_was_null_moves_the_row[canal-json]", "maxwell-json", "ogg-json"
)
@pytest.mark.parametrize("word", ["canal-json", "maxwell-json", "ogg-json"])
def test_key_field_that_becomes_null_or_was_null_moves_the_row(spark: Any, word: str) -> None:
    """NULL in the row before counts only where the field is present: a missing field did not change."""
    keys = (Column("id", "BIGINT"), Column("part", "INT"))
    table = decoding.build_stage_table(ValueFormat(word), (*keys, Column("name", "STRING")), keys)
    messages = [
        {
            "canal-json": lambda old, new: build_canal_message("UPDATE", new, old=[old]),
            "maxwell-json": lambda old, new: build_maxwell_message("update", new, old),
            "ogg-json": build_ogg_message,
        }[word](old, new)
        for old, new, _ in MOVES
    ]
    several = [build_canal_message("UPDATE", *(new for _, new, _ in MOVES), old=[old for old, *_ in MOVES])]
    messages += several if word == "canal-json" else []
    records = [(None, json.dumps(message).encode()) for message in messages]
    results = decoding.decode(spark, table, records, "offset", "row_number", "key_struct", "op", "reason")
    assert {reason for *_, reason in results} == {None}
    rows: dict[int, list[Any]] = {}
    for offset, _, key, op, _ in sorted(results, key=lambda result: result[:2]):
        rows.setdefault(offset, []).append((key["id"], key["part"], op))
    assert list(rows.values())[: len(MOVES)] == [wanted for *_, wanted in MOVES]
    assert len(messages) == len(MOVES) or rows[len(MOVES)] == [row for *_, wanted in MOVES for row in wanted]


@pytest.mark.repeats(
    "unit/tidegate_spark/fields/test_record_explanation.py::test_typed_values_of_a_key_from_rows_are_described_as_text"
)
def test_fields_of_a_maxwell_record_whose_key_is_in_its_row_are_shown_as_text(workbench) -> None:
    """The key has its own types, whatever the decoder is asked for: the command ended with a TypeError."""
    topic = workbench.topic(2)
    key = {**KEY, "from": "value"}
    workbench.pipeline("shown", [topic], key=key, value={"format": "maxwell-json", "schema": SCHEMA})
    wrong = {**build_row(8, "b"), "amount": "many"}
    records = [(None, build_maxwell_message("insert", row), {"partition": 1}) for row in (build_row(7, "a"), wrong)]
    workbench.produce(topic, *records)
    found = []
    for offset in (0, 1):
        answer = workbench.run_cli("record", "shown", "--at", f"{topic}:1:{offset}", "--json")
        (table,) = json.loads(answer.stdout)["tables"]
        fields = {(field["part"], field["name"]): field["found"] for field in table["fields"]}
        found.append((table["reason"] is None, fields["key", "id"], fields["value", "amount"]))
    assert found == [(True, "7", "1.50"), (False, "8", "many")]  # the key of a bad message of one row is known, too
