"""One topic, several source tables: a record of another table neither deletes a row of this one nor is bad in it."""

import json
import os
import random
from dataclasses import dataclass, replace
from typing import Any

import decoding
import msgpack
import pytest
from conftest import build_debezium_event
from tidegate.errors import SomeTablesFailed
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route
from tidegate.spec.table_template import TableNaming

SOURCE = {"src": "value.source.table"}
TABLE = {"src": "value.table"}
COLUMNS = (Column("id", "BIGINT"), Column("status", "INT"), Column("amount", "DECIMAL(12,2)"))
KIND = Column("kind", "STRING")
KEYS = (Column("id", "BIGINT", nullable=False),)
JUDGED = ("fate", "reason")
OTHER = ("filtered", None)
OWN = ("staged", None)
BAD = "bad"


def build_stage_table(word: str = "debezium-json", columns: tuple[Column, ...] = COLUMNS, **more: Any) -> StageTable:
    stage = decoding.build_stage_table(ValueFormat(word, columns), columns, KEYS)
    return replace(stage, **{"key": KeyFormat(fields=("id",), columns=KEYS), **more})


def dump(data: Any) -> bytes | None:
    return None if data is None else json.dumps(data).encode()


def decode(
    spark: Any, stage: StageTable, *records: tuple[Any, Any], expressions: Any = ("fate", "reason")
) -> list[Any]:
    return decoding.decode(spark, stage, [(dump(key), dump(value)) for key, value in records], *expressions)


def build_change(table: str, op: str, id: int, **row: Any) -> tuple[Any, Any]:
    image = {"id": id, **row}
    before, after = (image, None) if op == "d" else (None, image)
    return {"id": id}, build_debezium_event(op, before, after, source={"table": table})


# a table of the topic: its name in the file, and what says which records are its own
WAYS = {
    "when": lambda name: {"name": f"lake.shop.{name}", "when": f"src = '{name}'"},
    "route": lambda name: {"name": f"lake.shop.{name}", "route": {"field": "src", "pattern": name}},
    "routed by name": lambda name: {"name": f"lake.shop.{name}", "route": {"field": "src"}},
}


@pytest.mark.repeats("test_tombstone_deletes_only_where_key_and_kafkas_metadata_say_whose_it_is[settings1-ignored]")
@pytest.mark.parametrize("way", [*WAYS, "template"])
def test_tombstone_behind_a_delete_takes_no_row_of_another_source_table(workbench: Any, way: str) -> None:
    """Twice, in two partitions: order 1 and order 2 are gone, customers of the same keys are not."""
    topic = workbench.topic()
    tables = [{"name": "lake.shop.{src}"}] if way == "template" else [WAYS[way](n) for n in ("orders", "Customers")]
    workbench.pipeline(
        "shared", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, source={"metadata": SOURCE}, tables=tables,
        value={"format": "debezium-json", "schema": "id BIGINT, name STRING"},
    )  # fmt: skip
    customers = "lake.shop.customers" if way == "template" else "lake.shop.Customers"
    changes = [build_change(t, "c", n, name=f"{t} {n}") for t in ("orders", "Customers") for n in (1, 2, 3)]
    workbench.produce(topic, *changes, build_change("orders", "d", 1), ({"id": 1}, None))
    workbench.flush("shared")
    workbench.produce(topic, build_change("orders", "d", 2), ({"id": 2}, None))
    workbench.flush("shared")
    rows = {name: sorted(r["id"] for r in workbench.read_rows(name.removeprefix("lake."))) for name in
            ("lake.shop.orders", customers)}  # fmt: skip
    assert rows == {"lake.shop.orders": [3], customers: [1, 2, 3]}


TOMBSTONE = ({"id": 1}, None)


@pytest.mark.repeats(
    "test_tombstone_deletes_only_where_key_and_kafkas_metadata_say_whose_it_is[settings1-ignored]",
    "settings0-staged",
    "settings2-ignored",
    "settings3-ignored",
    "settings4-ignored",
    "settings5-ignored",
    "settings6-ignored",
    "settings7-staged",
    "settings8-filtered",
    "settings9-staged",
    "settings10-staged",
    "settings11-filtered",
    "settings12-filtered",
)
@pytest.mark.guard(
    "a tombstone that does not say whose it is deletes nothing",
    file="jobs/tidegate_spark/formats/change_events/debezium_json.py",
    text="return DELETE if is_owned and not table.key.from_value else NO_CHANGE",
    off="return DELETE if not table.key.from_value else NO_CHANGE",
    case="settings1-ignored",
)
@pytest.mark.parametrize(
    ("settings", "fate"),
    [
        ({}, "staged"),
        ({"when": "src = 'orders'"}, "ignored"),
        ({"when": "src IS NULL"}, "ignored"),  # true of every tombstone, and says nothing
        ({"when": "coalesce(status, 1) = 1"}, "ignored"),
        ({"when": "SRC = 'orders' AND topic = 't'"}, "ignored"),
        ({"route": Route("src", names=("orders",))}, "ignored"),
        ({"route": Route("status", "1")}, "ignored"),
        ({"when": "topic = 't' AND partition = 0"}, "staged"),
        ({"when": "topic = 'other'"}, "filtered"),
        ({"when": "id < 5"}, "staged"),  # of the key: a row of this key is nobody else's
        ({"route": Route("topic", "t")}, "staged"),
        ({"route": Route("topic", "other")}, "filtered"),
        ({"when": "cast(header['table'] AS STRING) = 'orders'"}, "filtered"),
    ],
)
def test_tombstone_deletes_only_where_key_and_kafkas_metadata_say_whose_it_is(
    spark: Any, settings: dict[str, Any], fate: str
) -> None:
    stage = build_stage_table(metadata={**SOURCE, "header": "headers"}, **settings)
    empty = {"schema": None, "payload": None}
    assert decode(spark, stage, TOMBSTONE, ({"id": 1}, empty), expressions=("fate",)) == [(fate,), (fate,)]


@pytest.mark.repeats(
    "integration/test_expressions.py::test_record_whose_condition_does_not_hold_is_a_delete_where_that_is_asked[retracts2-staged]"
)
def test_tombstone_of_a_plain_format_is_the_only_delete_there_is(spark: Any) -> None:
    stage = build_stage_table("json", when="status = 1")
    assert decode(spark, stage, TOMBSTONE) == [OWN]


NAMING = TableNaming("shop.{src}", ("shop",), "tidegate_.*", "shop.orders")
CHOICES = {"when": {"when": "src = 'orders'"}, "route": {"route": Route("src", "orders")}, "name": {"naming": NAMING}}


def build_maxwell_message(table: str, kind: str, data: Any, database: str = "shop", **more: Any) -> tuple[Any, Any]:
    message = {"database": database, "table": table, "type": kind, "ts": 1_700_000_000, "xid": 1, "data": data, **more}
    return {"database": database, "table": table, "pk.id": 1}, message


@pytest.mark.repeats("test_table_of_a_database_topic_is_stopped_by_its_own_bad_records_alone[route]", "when", "name")
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_table_of_a_database_topic_is_stopped_by_its_own_bad_records_alone(spark: Any, choice: dict[str, Any]) -> None:
    stage = build_stage_table("maxwell-json", metadata={**TABLE, "db": "value.database"}, **choice)
    others = [
        build_maxwell_message("payments", "insert", {"id": 1, "status": "paid", "amount": 5}),
        build_maxwell_message("payments", "update", {"id": 2, "status": 1, "amount": 1.005}, old={"amount": 2}),
        build_maxwell_message("stock", "insert", {"sku": "a", "status": 1}),  # none of the key's fields
        build_maxwell_message("stock", "delete", {"sku": "a"}),
        build_maxwell_message("notes", "insert", {"text": "none of the columns"}),
        build_maxwell_message("bootstrap", "insert", {"id": 1, "status": "x", "table_name": "orders"}, "maxwell"),
        build_maxwell_message("bootstrap", "bootstrap-delete", {"id": 1}, "maxwell"),  # a type that nobody knows
        build_maxwell_message("keys", "update", {"id": 3, "status": "x"}, old={"id": 1}),
    ]
    own = [
        build_maxwell_message("orders", "insert", {"id": 1, "status": 1, "amount": 5}),
        build_maxwell_message("orders", "insert", {"id": 1, "status": "paid"}),
        build_maxwell_message("orders", "insert", {"status": 1}),
        (None, {"type": "insert", "data": {"id": 1, "status": "paid"}}),  # names no table
    ]
    results = decode(spark, stage, *others, *own)
    assert results[: len(others)] == [OTHER] * len(others)
    assert [fate for fate, _ in results[len(others) :]] == ["staged", BAD, BAD, BAD]
    assert all(results[-n][1] for n in (1, 2, 3))


@pytest.mark.repeats(
    "test_change_event_of_another_table_or_of_none_is_not_bad_here[name-True]",
    "when-False",
    "when-True",
    "route-False",
    "route-True",
    "name-False",
)
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_change_event_of_another_table_or_of_none_is_not_bad_here(
    spark: Any, choice: dict[str, Any], is_wrapped: bool
) -> None:
    """Among them what `pg_logical_emit_message` writes, and a truncate of the other table."""
    stage = build_stage_table(metadata=SOURCE, **choice)

    def build_event(table: str | None, op: str, before: Any = None, after: Any = None, **more: Any) -> Any:
        return build_debezium_event(op, before, after, source={"table": table}, envelope=is_wrapped, **more)

    misfit = {"id": 1, "status": "paid"}
    others = [
        ({"id": 1}, build_event("payments", "c", None, misfit)),
        ({"id": 1}, build_event("payments", "u", misfit, misfit)),
        ({"sku": "a"}, build_event("stock", "c", None, {"sku": "a", "status": 1})),
        ({"sku": "a"}, build_event("stock", "d", {"sku": "a"})),
        (None, build_event("stock", "d", {"sku": "a"})),
        ({"prefix": "x"}, build_event("", "m", message={"prefix": "x", "content": "aGk="})),
        (None, build_event("payments", "t")),
        ({"id": "x"}, build_event("payments", "c", None, {"id": 1, "status": 1})),
    ]
    own = [
        ({"id": 1}, build_event("orders", "c", None, {"id": 1, "status": 1})),
        ({"id": 1}, build_event("orders", "c", None, misfit)),
        ({"id": "x"}, build_event("orders", "d", {"id": 1})),
        (None, build_event("orders", "t")),
        ({"id": 1}, build_event(None, "c", None, misfit)),
    ]
    results = decode(spark, stage, *others, *own)
    assert results[: len(others)] == [OTHER] * len(others)
    assert [fate for fate, _ in results[len(others) :]] == ["staged", BAD, BAD, BAD, BAD]


@pytest.mark.repeats("test_tombstone_deletes_only_where_key_and_kafkas_metadata_say_whose_it_is[settings1-ignored]")
def test_key_of_another_table_on_a_tombstone_that_says_no_table_is_not_bad(spark: Any) -> None:
    stage = build_stage_table(metadata=SOURCE, when="src = 'orders'")
    assert decode(spark, stage, ({"sku": "a"}, None), (None, None)) == [("ignored", None)] * 2
    by_key = replace(stage, when="id < 5")
    assert [fate for fate, _ in decode(spark, by_key, ({"id": 9}, None), ({"sku": "a"}, None))] == ["filtered", BAD]


@pytest.mark.repeats("test_fields_that_conditions_name_say_whose_a_record_is_though_others_cannot_be_read[when]")
@pytest.mark.parametrize("is_plain", [False, True])
def test_control_messages_without_a_key_are_left_out_by_their_own_field(spark: Any, is_plain: bool) -> None:
    """CockroachDB's resolved timestamps, and a schema in which they are the only odd ones."""
    columns = (*COLUMNS, Column("resolved", "STRING"))
    stage = build_stage_table("json", columns, when="resolved IS NULL")
    if not is_plain:
        stage = replace(stage, value=ValueFormat("json", columns, options={"numbers": "lenient"}))
    records = [
        (None, {"resolved": "1700000000000000000.0000000000"}),
        ({"id": 1}, {"id": 1, "status": 1}),
        (None, {"status": 1}),
        ({"id": 1}, {"id": 1, "status": "x"}),
        (None, {"resolved": "1", "status": "x"}),
    ]
    results = decode(spark, stage, *records)
    assert [fate for fate, _ in results] == ["filtered", "staged", BAD, BAD, "filtered"]
    assert results[0] == results[4] == OTHER


ROW_RECORDS = [
    ({"id": 1}, {"kind": "payment", "id": "p-1", "status": "paid"}),
    ({"id": 1}, {"kind": "payment", "id": 1, "amount": 1.005}),
    ({"sku": "a"}, {"kind": "stock", "status": "many"}),
    ({"id": 1}, {"id": "p-1", "status": 1}),  # does not say its kind
    ({"id": 1}, {"kind": "order", "id": 1, "status": 1}),
    ({"id": 1}, {"kind": "order", "id": 1, "status": "paid"}),
    ({"sku": "a"}, {"kind": "order", "id": 1, "status": 1}),
    ({"id": 1}, {"kind": {"a": 1}, "id": "x"}),
]
ROW_FATES = ["filtered", "filtered", "filtered", BAD, "staged", BAD, BAD, "filtered"]
WITH_KIND = (*COLUMNS, KIND)
ROW_CHOICES = {
    "when": {"when": "kind = 'order'"},
    "route": {"route": Route("kind", "order")},
    "both": {"route": Route("kind", "order"), "when": "status > 0"},
    "and": {"when": "kind = 'order' AND status > 0"},
    "name": {"naming": TableNaming("shop.{kind}", ("shop",), "tidegate_.*", "shop.order")},
}


@pytest.mark.repeats(
    "test_fields_that_conditions_name_say_whose_a_record_is_though_others_cannot_be_read[when]",
    "route",
    "both",
    "and",
    "name",
)
@pytest.mark.guard(
    "a field that could not be read says nothing of whose a record is",
    file="jobs/tidegate_spark/stage/foreign_records.py",
    text="conditions.append(f\"NOT ({' OR '.join(doubts)})\")",
    off="pass",
    case="when",
)
@pytest.mark.parametrize("choice", ROW_CHOICES.values(), ids=ROW_CHOICES)
def test_fields_that_conditions_name_say_whose_a_record_is_though_others_cannot_be_read(
    spark: Any, choice: dict[str, Any]
) -> None:
    stage = build_stage_table("json", WITH_KIND, **choice)
    assert [fate for fate, _ in decode(spark, stage, *ROW_RECORDS)] == ROW_FATES
    packed = [(dump(key), msgpack.packb(value)) for key, value in ROW_RECORDS]
    results = decoding.decode(spark, replace(stage, value=ValueFormat("msgpack", WITH_KIND)), packed, "fate")
    assert [fate for (fate,) in results][:-1] == ROW_FATES[:-1]
    csv = replace(stage, value=ValueFormat("csv", WITH_KIND))
    lines = [b"p-1,paid,,payment", b"1,1,1.005,stock", b"1,1,,order", b"1,paid,,order", b"1,paid"]
    results = decoding.decode(spark, csv, [(b'{"id": 1}', line) for line in lines], "fate")
    assert [fate for (fate,) in results] == ["filtered", "filtered", "staged", BAD, BAD]


UNREADABLE = [b"{", b"\xff\xfe", b"[]", b'{"after": {"id": 1}, "source": {"table": "customers"}', b"", b"null"]


@pytest.mark.repeats("test_fields_that_conditions_name_say_whose_a_record_is_though_others_cannot_be_read[when]")
@pytest.mark.parametrize("word", ["debezium-json", "maxwell-json", "canal-json", "ogg-json", "json"])
def test_record_of_which_nobody_can_say_whose_it_is_stays_bad(spark: Any, word: str) -> None:
    metadata = {} if word == "json" else {"src": "value.source.table" if word == "debezium-json" else "value.table"}
    stage = build_stage_table(word, metadata=metadata, when="status = 1" if word == "json" else "src = 'orders'")
    results = decoding.decode(spark, stage, [(b'{"id": 1}', value) for value in UNREADABLE], "fate")
    assert results == [(BAD,)] * len(UNREADABLE)
    by_topic = replace(stage, when="topic = 'other'", metadata=metadata)
    results = decoding.decode(spark, by_topic, [(b"no key", value) for value in UNREADABLE], "fate", "reason")
    assert results == [OTHER] * len(UNREADABLE)


@pytest.mark.repeats(
    "integration/test_presence.py::test_record_for_which_a_condition_fails_is_bad_and_takes_no_other_down[when]"
)
def test_condition_that_fails_or_needs_a_key_that_cannot_be_read_says_nothing(spark: Any) -> None:
    stage = replace(build_stage_table("json", COLUMNS[1:]), when="id > 5")
    records = [({"id": "x"}, {"status": 1}), ({"id": 1}, {"status": "x"}), ({"id": 9}, {"status": "x"})]
    assert [fate for fate, _ in decode(spark, stage, *records)] == [BAD, "filtered", BAD]
    failing = replace(stage, when="status / 0 > 5")
    assert [fate for fate, _ in decode(spark, failing, *records)] == [BAD] * 3


@pytest.mark.repeats(
    "integration/test_row_messages.py::test_row_that_is_bad_for_its_table_makes_its_message_bad_as_a_whole[9-when]"
)
def test_bad_message_of_several_rows_is_judged_by_its_table_alone(spark: Any) -> None:
    stage = build_stage_table("canal-json", WITH_KIND, metadata=TABLE, route=Route("kind", "order"))

    def build_message(table: str, *rows: dict[str, str]) -> tuple[Any, Any]:
        return None, {"type": "INSERT", "table": table, "database": "d", "isDdl": False, "data": [*rows]}

    row = {"id": "1", "status": "1", "kind": "order"}
    other = {"id": "2", "status": "1", "kind": "stock"}
    bad = {**row, "status": "x"}
    bad_other = {**other, "status": "x"}
    messages = [build_message("a", row, other), build_message("a", bad, other), build_message("a", row, bad_other)]
    results = decode(spark, stage, *messages, expressions=("fate", "record_fate"))
    assert sorted(results[:2]) == [("filtered", "staged"), ("staged", "staged")]
    assert all(record_fate == BAD for _, record_fate in results[2:])
    by_table = replace(stage, when="src = 'b'")
    assert {fate for fate, _ in decode(spark, by_table, *messages)} == {"filtered"}
    rolled_back = (None, {"type": "XAROLLBACK", "table": "", "database": "", "isDdl": False, "data": None})
    assert [fate for fate, _ in decode(spark, by_table, rolled_back)] == [BAD]  # it takes back rows of any table


@pytest.mark.repeats("test_change_event_of_another_table_or_of_none_is_not_bad_here[name-True]")
def test_bad_record_that_leaves_a_key_stays_bad_while_its_row_alone_names_another_table(spark: Any) -> None:
    """The row of the old key is to be deleted, and by a record that cannot be used it is not."""
    stage = build_stage_table("debezium-json", WITH_KIND, metadata=SOURCE, when="src = 'orders' AND kind = 'order'")
    old = {"id": 1, "kind": "order"}
    new = {"id": 2, "kind": "stock", "status": "x"}
    events = [build_debezium_event("u", old, new, source={"table": table}) for table in ("orders", "payments")]
    results = decode(spark, stage, *((None, event) for event in events), expressions=("fate", "op", "reason"))
    assert [(fate, op) for fate, op, _ in results] == [(BAD, "u"), ("filtered", "u")]
    moved = [build_maxwell_message("orders", "update", new, old={"id": 1})]
    by_message = replace(stage, value=ValueFormat("maxwell-json", WITH_KIND), metadata=TABLE)
    assert [fate for fate, _ in decode(spark, by_message, *moved)] == [BAD]


def test_flush_of_a_database_topic_goes_on_past_other_tables_and_stops_at_its_own_bad_record(workbench: Any) -> None:
    topic = workbench.topic()
    tables = [
        {
            "name": f"lake.shop.{name}",
            "route": {"field": "src", "pattern": name},
            "key": {"fields": [key]},
            "value": {"format": "maxwell-json", "schema": schema},
        }
        for name, key, schema in (
            ("Orders", "id", "id BIGINT NOT NULL, status INT, amount DECIMAL(12,2)"),
            ("payments", "ref", "ref STRING, status STRING"),
        )
    ]
    source = {"metadata": TABLE, "errors": {"tolerance": "none"}}
    workbench.pipeline("database", [topic], tables=tables, source=source, value={"format": "maxwell-json"})
    workbench.produce(
        topic,
        build_maxwell_message("Orders", "insert", {"id": 1, "status": 1, "amount": 1.25}),
        build_maxwell_message("payments", "insert", {"ref": "a", "status": "paid"}),
        build_maxwell_message("bootstrap", "insert", {"id": 1, "table_name": "Orders"}, "maxwell"),
        build_maxwell_message("payments", "insert", {"ref": "b", "status": "open"}),
    )
    workbench.flush("database")
    workbench.produce(topic, build_maxwell_message("payments", "delete", {"ref": "a", "status": "paid"}))
    workbench.flush("database")
    assert [row["id"] for row in workbench.read_rows("shop.Orders")] == [1]
    assert [(row["ref"], row["status"]) for row in workbench.read_rows("shop.payments")] == [("b", "open")]
    workbench.produce(topic, build_maxwell_message("Orders", "insert", {"id": 2, "status": "paid"}))
    with pytest.raises(SomeTablesFailed, match=r"table=lake\.shop\.Orders batch=\d+: 1 record cannot be decoded"):
        workbench.flush("database")


# what is a number in one table is a text in another, and one lacks the key's field of the others
SOURCE_TABLES = {
    "orders": (Column("id", "BIGINT"), Column("status", "INT"), Column("amount", "DECIMAL(8,2)"), KIND),
    "Customers": (Column("id", "BIGINT"), Column("status", "STRING"), Column("amount", "DECIMAL(8,2)"), KIND),
    "stock": (Column("sku", "STRING"), Column("status", "INT"), Column("amount", "DECIMAL(8,2)"), KIND),
}
PLAIN_FORMATS = ("json", "msgpack", "csv")
WALKED_FORMAT = "debezium-json"  # in every build
EVENT_FORMATS = (WALKED_FORMAT, "maxwell-json", "canal-json", "ogg-json")
WALK_SEED = int(os.environ.get("WALK_SEED", "1"))
WALKS = int(os.environ.get("WALKS", "1"))
RECORDS = 60


@dataclass(frozen=True)
class Change:
    """What happened in a source table: an upsert that can be read or is `bad`, a `delete`, its `tombstone`, or a
    message that is of no row."""

    table: str
    kind: str
    row: dict[str, Any]

    @property
    def key(self) -> dict[str, Any]:
        """The field by which its table finds the row."""
        name = SOURCE_TABLES[self.table][0].name
        return {name: self.row[name]}


def choose_change(chance: random.Random, word: str) -> Change:
    table = chance.choice([*SOURCE_TABLES])
    kinds = {"upsert": 8, "bad": 1, "tombstone": 3}
    kinds |= {"delete": 3, "message": 1} if word in EVENT_FORMATS else {}
    if word in PLAIN_FORMATS and table == "stock":  # by a tombstone alone nobody can tell a key from a broken one
        del kinds["tombstone"]
    number = chance.randint(1, 5)
    row: dict[str, Any] = {"sku": f"s-{number}"} if table == "stock" else {"id": number}
    row |= {"status": f"is {number}" if table == "Customers" else number, "amount": chance.choice([1.5, None, 7])}
    (kind,) = chance.choices([*kinds], [*kinds.values()])
    if kind == "bad":
        row |= {"amount": 1.005} if table == "Customers" or chance.random() < 0.5 else {"status": "x"}
    return Change(table, kind, {**row, "kind": table})


def write_change(chance: random.Random, word: str, change: Change) -> tuple[bytes | None, bytes | None]:
    """The record in its format; those of messages with several rows may have any key."""
    key = dump(change.key)
    row = change.row
    kind = change.kind
    if kind == "tombstone":
        return key, None
    if word in PLAIN_FORMATS:
        line = ",".join("" if value is None else str(value) for value in row.values()).encode()
        return key, {"json": dump(row), "msgpack": msgpack.packb(row), "csv": line}[word]
    if word == "debezium-json":
        op = {"delete": "d", "message": "m"}.get(kind, chance.choice("cru"))
        before, after = (row, None) if kind == "delete" else (None, None if kind == "message" else row)
        is_wrapped = chance.random() < 0.5
        return key, dump(build_debezium_event(op, before, after, source={"table": change.table}, envelope=is_wrapped))
    types = {
        "maxwell-json": (chance.choice(["insert", "bootstrap-insert"]), "delete", "new-kind"),
        "canal-json": ("INSERT", "DELETE", "NEW_KIND"),
        "ogg-json": ("I", "D", "X"),
    }[word]
    name = types[{"delete": 1, "message": 2}.get(kind, 0)]
    texts = {column: None if value is None else str(value) for column, value in row.items()}
    message: dict[str, Any] = {
        "maxwell-json": {"type": name, "data": row, "database": "d", "ts": 1},
        "canal-json": {"type": name, "data": None if kind == "message" else [texts], "isDdl": False},
        "ogg-json": {"op_type": name, "before" if kind == "delete" else "after": row},
    }[word]
    return chance.choice([key, None, b"any"]), dump({"table": change.table, **message})


def choose_conditions(chance: random.Random, table: str, field: str) -> dict[str, Any]:
    """One of the ways in which a file says which records are a table's, on `field`."""
    also_row = "(status IS NULL OR CAST(status AS STRING) <> 'none')"
    naming = TableNaming("shop.t_{%s}" % field, ("shop",), "tidegate_.*", f"shop.t_{table.lower()}")  # noqa: UP031
    return chance.choice(
        [
            {"when": f"{field} = '{table}'"},
            {"when": f"topic = 't' AND {field.upper()} IN ('{table}', 'none')"},
            {"when": f"{also_row} AND {field} = '{table}'"},
            {"when": also_row, "route": Route(field, table)},
            {"route": Route(field, names=(f"shop.{table}", table))},
            {"naming": naming},
            {"naming": naming, "when": f"{field} <> 'none'"},
        ]
    )


def expect(changes: list[Change], table: str, word: str) -> tuple[dict[Any, Any], set[int]]:
    """The rows of a source table by their keys, and the places of its records that nobody can read."""
    rows = dict[Any, Any]()
    bad = set[int]()
    for place, change in enumerate(changes):
        (key,) = change.key.values()
        if change.kind == "tombstone":
            if word in PLAIN_FORMATS and table == "stock":
                bad.add(place)  # a key without its field, and nobody says whose it is
            elif word in PLAIN_FORMATS:
                rows.pop(key, None)
        elif change.table == table:
            if change.kind in ("bad", "message"):
                bad.add(place)
            elif change.kind == "delete":
                rows.pop(key, None)
            else:
                rows[key] = change.row["status"]
    return rows, bad


@pytest.mark.parametrize("seed", range(WALK_SEED, WALK_SEED + WALKS))
def test_tables_of_a_shared_topic_hold_what_a_model_says_that_knows_each_records_table(spark: Any, seed: int) -> None:
    walk(spark, WALKED_FORMAT, seed)


@pytest.mark.repeats("test_tables_of_a_shared_topic_hold_what_a_model_says_that_knows_each_records_table")
@pytest.mark.parametrize("seed", range(WALK_SEED, WALK_SEED + WALKS))
@pytest.mark.parametrize("word", [word for word in (*EVENT_FORMATS, *PLAIN_FORMATS) if word != WALKED_FORMAT])
def test_tables_of_a_shared_topic_in_another_format_hold_what_the_model_says(spark: Any, word: str, seed: int) -> None:
    walk(spark, word, seed)


def walk(spark: Any, word: str, seed: int) -> None:
    chance = random.Random(f"{word} {seed}")
    changes = [choose_change(chance, word) for _ in range(RECORDS)]
    records = [write_change(chance, word, change) for change in changes]
    metadata = dict[str, str]()
    field = "kind"
    if word in EVENT_FORMATS:
        metadata = {"src": "value.source.table" if word == "debezium-json" else "value.table"}
        field = "src"
    for table, columns in SOURCE_TABLES.items():
        stage = decoding.build_stage_table(ValueFormat(word, columns), columns, columns[:1])
        name = columns[0].name
        conditions = choose_conditions(chance, table, field)
        stage = replace(stage, key=KeyFormat(fields=(name,)), metadata=metadata, **conditions)
        rows = dict[Any, Any]()
        bad = set[int]()
        results = decoding.decode(
            spark, stage, records, "offset", "fate", "op", f"key_struct.{name}", "value_struct.status", "reason"
        )
        for place, fate, op, key_value, status, reason in results:
            assert (fate == BAD) == (reason is not None), (place, fate, reason)
            if fate == BAD:
                bad.add(place)
            elif fate == "staged" and op == "d":
                rows.pop(key_value, None)
            elif fate == "staged":
                rows[key_value] = status
        assert (rows, bad) == expect(changes, table, word), (table, conditions)
