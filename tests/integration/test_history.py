"""Type-2 history through real Kafka, Spark and Iceberg: hundreds of small histories at once, against the model."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import build_debezium_event
from examples import choose_part
from fakes.versions import compute_versions
from tidegate.errors import AuditFailed
from tidegate.merge.scd2_statements import render_spark_comparable
from tidegate.reprocess.verify import verify_table
from tidegate.schema.data_types import parse_type

KEY = {"fields": ["id"], "schema": "id BIGINT"}
KEYS, BATCHES, BASE = 150, 2, datetime(2026, 1, 1, tzinfo=UTC)
KINDS = ("upsert", "upsert", "upsert", "delete", "tombstone")
Change = tuple[int, str, tuple[Any, ...], int, Any]


def make_histories(seed: int) -> list[Change]:
    """Little histories of many keys, mixed: times out of order, often equal, values that often repeat."""
    chance = random.Random(seed)
    keys = [key for key in range(KEYS) for _ in range(chance.randint(1, 8))]
    chance.shuffle(keys)
    return [
        (key, chance.choice(KINDS), (chance.randrange(6), chance.choice([None, 0, 1])), chance.randrange(6), value)
        for key in keys
        for value in chance.choice("aab")
    ]


def convert_to_time(at: int) -> datetime:
    return BASE + timedelta(seconds=at)


def build_record(change: Change) -> tuple[Any, ...]:
    key, kind, (at, sub), timestamp, value = change
    more = {"timestamp": int(convert_to_time(timestamp).timestamp() * 1000)}
    row = {"id": key, "v": value, "tags": {"of": value}, "gone": kind == "delete", "sub": sub}
    return {"id": key}, None if kind == "tombstone" else {**row, "at": convert_to_time(at).isoformat()}, more


def read_versions(workbench, table: str) -> list[tuple[Any, ...]]:
    rows = workbench.read_rows(table)
    assert all(row["is_current"] == (row["valid_to"] is None) for row in rows)
    assert all(row["tags"] == [("of", row["v"])] for row in rows)
    return sorted((r["id"], r["v"], r["valid_from"], r["valid_to"] or convert_to_time(99)) for r in rows)


def compute_timed_versions(changes: list[Change]) -> list[tuple[Any, ...]]:
    rows = (
        (key, value, convert_to_time(a), convert_to_time(99 if b is None else b))
        for key, value, a, b in compute_versions(changes)
    )
    return sorted(rows)


MICRO, NEXT = "timestamp'2026-01-01 00:00:00.000001'", "timestamp'2026-01-01 00:00:00.000002'"
DEEP = "ARRAY<MAP<STRING, ARRAY<MAP<INT, STRING>>>>"


SAMES: list[tuple[str, str, str, bool]] = [
    ("MAP<STRING, TIMESTAMP>", f"map('a', {MICRO})", f"map('a', {NEXT})", False),
    ("MAP<STRING, INT>", "map('a', 1, 'b', NULL)", "map('b', NULL, 'a', 1)", True),
    ("MAP<STRING, INT>", "map('a', 1, 'b', NULL)", "map('b', 2, 'a', 1)", False),
    ("MAP<STRING, INT>", "NULL", "map()", False),
    ("MAP<STRING, INT>", "NULL", "NULL", True),
    ("MAP<STRING, DOUBLE>", "map('a', double('NaN'))", "map('a', double('NaN'))", True),
    ("STRUCT<m: MAP<STRING, INT>, at: TIMESTAMP>", f"struct(map('a', 1), {MICRO})", f"struct(map('a', 1), {NEXT})",
     False),
    ("STRUCT<m: MAP<STRING, INT>, at: TIMESTAMP>", "struct(NULL, NULL)", "NULL", False),
    (DEEP, "array(map('x', array(map(1, 'a', 2, 'b'))), NULL)", "array(map('x', array(map(2, 'b', 1, 'a'))), NULL)",
     True),
    (DEEP, "array(map('x', array(map(1, 'a', 2, 'b'))))", "array(map('x', array(map(2, 'b', 1, 'c'))))", False),
]  # fmt: skip


def test_values_with_maps_are_the_same_where_all_that_their_type_holds_is(spark) -> None:
    """Spark compares no maps, and its JSON has no microseconds, and the entries as they come. All in one statement."""
    conditions = []
    for kind, left, right, _ in SAMES:
        column = ("it's", parse_type(kind))
        sides = (f"(SELECT CAST({value} AS {kind}) AS `it's`) {name}" for name, value in (("x", left), ("y", right)))
        condition = f"{render_spark_comparable(column, 'x')} <=> {render_spark_comparable(column, 'y')}"
        conditions.append(f"(SELECT {condition} FROM {' CROSS JOIN '.join(sides)})")
    answers = spark.sql("SELECT " + ", ".join(f"{one} AS c{n}" for n, one in enumerate(conditions))).head()
    assert list(answers) == [is_same for *_, is_same in SAMES]


def test_rows_are_those_of_the_model_wherever_batches_are_cut(workbench) -> None:
    topic = workbench.topic()
    schema = "id BIGINT, v STRING, tags MAP<STRING, STRING>, gone BOOLEAN, at TIMESTAMP, sub INT"
    table = {"history": "scd2", "sequence_by": ["at", "sub"], "delete_when": "gone"}
    workbench.pipeline("many", [topic], key=KEY, value={"schema": schema}, table=table)
    changes = make_histories(7)
    size = len(changes) // BATCHES + 1
    for start in range(0, len(changes), size):
        workbench.produce(topic, *(build_record(change) for change in changes[start : start + size]))
        workbench.flush("many")
        versions = compute_timed_versions(changes[: start + size])
        assert read_versions(workbench, "shop.many") == versions
    found = verify_table(workbench.open_session("many"), "lake.shop.many")
    assert (found.equal, found.wrong, found.unknowable) == (len(versions), 0, 0), "the log says it all"
    assert workbench.run_cli("rebase", "many", "--to", "earliest", "--yes").returncode == 0
    workbench.drain("many")
    assert read_versions(workbench, "shop.many") == compute_timed_versions(changes)


def test_delete_ends_its_row_though_another_log_has_a_delete_of_the_same_place(workbench) -> None:
    """As a pipeline of another cluster remembers one of another key there."""
    topic = workbench.topic(1)
    table = {"history": "scd2", "sequence_by": ["at"]}
    schema = {"schema": "id BIGINT, v STRING, at TIMESTAMP"}
    workbench.pipeline("placed", [topic], key=KEY, value=schema, table=table)
    workbench.produce(topic, ({"id": 1}, {"id": 1, "v": "a", "at": convert_to_time(1).isoformat()}))
    workbench.flush("placed")
    place = ("valid_from", "kind", "topic", "partition", "offset", "i", "timestamp")
    columns = ", ".join(f"_tidegate_{name}" for name in place)
    time = "TIMESTAMP '2026-01-01 00:00:05Z'"
    workbench.run_spark_sql(
        f"INSERT INTO lake.shop.placed_changes (id, {columns}) VALUES (9, {time}, 't', '{topic}', 0, 1, 0, {time})"
    )
    workbench.produce(topic, ({"id": 1}, None))
    workbench.flush("placed")
    assert [(row["id"], row["is_current"]) for row in workbench.read_rows("shop.placed")] == [(1, False)]


EVENTS: dict[int, list[list[Any]]] = {
    1: [
        [("c", 1, 10, {"name": "a"}), ("c", 2, 10, {"name": "a"}), ("u", 1, 20, {"name": "b"})],
        [("u", 1, 25, {"name": "b"}), ("d", 1, 30, None), (None, 1, 0, None), ("d", 2, 20, None)],
    ],
    2: [
        [("c", 1, 40, {"name": "c", "city": "x"}), ("u", 2, 15, {"name": "late", "city": "z"})],
        [("u", 1, 50, {"name": "c", "city": "y"})],
    ],
}


def build_event(op: str | None, id: int, at: int, row: Any) -> tuple[Any, ...]:
    """A change at a time of the source; the brokers' time is later, as with a connector that catches up."""
    ms = int(convert_to_time(at).timestamp() * 1000)
    value = op and build_debezium_event(
        op, {"id": id, "name": "before"}, row and {"id": id, **row}, source={"ts_ms": ms}
    )
    return {"id": id}, value, {"timestamp": int(convert_to_time(60).timestamp() * 1000)}


def count_seconds(at: datetime | None) -> int:
    return 99 if at is None else int((at - BASE).total_seconds())


# the same statement over hundreds of histories
@pytest.mark.repeats("test_rows_are_those_of_the_model_wherever_batches_are_cut")
def test_change_events_are_laid_out_by_the_sources_time_and_a_new_column_comes_along(workbench) -> None:
    topic = workbench.topic()
    source = {"metadata": {"changed": "value.source.timestamp"}}
    names = {"valid_from": "since", "valid_to": "till", "is_current": "now"}
    table = {"history": "scd2", "sequence_by": ["changed"], "history_columns": names}
    columns = "id BIGINT, name STRING"
    for schema in (columns, f"{columns}, city STRING"):
        value = {"format": "debezium-json", "schema": schema}
        workbench.pipeline("cdc", [topic], source=source, key=KEY, value=value, table=table)
        for events in EVENTS[schema.count(",")]:
            workbench.produce(topic, *(build_event(*event) for event in events))
            workbench.flush("cdc")
    rows = [
        (r["id"], r["name"], r.get("city"), *(count_seconds(r[n]) for n in ("since", "till")))
        for r in workbench.read_rows("shop.cdc")
    ]
    assert sorted(rows) == [
        (1, "a", None, 10, 20),
        (1, "b", None, 20, 30),
        (1, "c", "x", 40, 50),
        (1, "c", "y", 50, 99),
        (2, "a", None, 10, 15),
        (2, "late", "z", 15, 20),
    ]


# the same statement over hundreds of histories
@pytest.mark.repeats("test_rows_are_those_of_the_model_wherever_batches_are_cut")
def test_rows_selected_from_records_become_versions_by_their_timestamps(workbench) -> None:
    topic = workbench.topic()
    select = "SELECT id, CAST(upper(name) AS STRING) AS name, offset FROM record"
    value = {"schema": "id BIGINT, name STRING"}
    workbench.pipeline("picked", [topic], key=KEY, value=value, table={"history": "scd2", "select": select})
    for at, name in ((10, "a"), (20, "A"), (30, "b"), (25, "late"), (40, None)):
        timestamp = {"timestamp": int(convert_to_time(at).timestamp() * 1000)}
        workbench.produce(topic, ({"id": 1}, name and {"id": 1, "name": name}, timestamp))
        if at != 10:
            workbench.flush("picked")
    rows = [
        (r["name"], r["offset"], count_seconds(r["valid_from"]), count_seconds(r["valid_to"]))
        for r in workbench.read_rows("shop.picked")
    ]
    assert sorted(rows, key=lambda row: row[2]) == [("A", 0, 10, 25), ("LATE", 3, 25, 30), ("B", 2, 30, 40)]
    assert len(workbench.read_rows("shop.picked_changes")) == 5


def test_corrected_file_leaves_the_versions_that_it_leaves_from_the_beginning_on(workbench) -> None:
    """An audit refuses what the wrong file reads: nothing of its times and values is remembered."""
    topic = workbench.topic(2)

    changes: list[Change] = []

    def write_file(value: str = "n", seconds: int = 0) -> None:
        select = f"SELECT id, CAST(at + INTERVAL {seconds} SECONDS AS TIMESTAMP) AS At, CAST({value} AS INT) AS N, gone"
        select += " FROM record"
        table = {
            "history": "scd2",
            "sequence_by": ["At"],
            "delete_when": "gone",
            "audits": ["N >= 0"],
            "select": select,
        }
        record = {"schema": "id BIGINT, at TIMESTAMP, n INT, gone BOOLEAN"}
        workbench.pipeline("reread", [topic], key=KEY, value=record, table=table)

    def produce(*rows: tuple[int, int, int | None]) -> None:
        changes.extend((id, "delete" if n is None else "upsert", (at,), at, n) for id, at, n in rows)
        records = (
            (id, {"id": id, "at": convert_to_time(at).isoformat(), "n": n, "gone": n is None}) for id, at, n in rows
        )
        workbench.produce(topic, *(({"id": id}, value) for id, value in records))

    def read() -> list[tuple[Any, ...]]:
        rows = workbench.read_rows("shop.reread")
        return sorted((r["id"], r["N"], count_seconds(r["valid_from"]), count_seconds(r["valid_to"])) for r in rows)

    for start in choose_part((0, 20), 0, 2):
        write_file()
        produce((start + 1, 1, 5), (start + 2, 1, 5), (start + 3, 3, 5))
        workbench.flush("reread")
        write_file("-n", 2)
        # one second's change would take the place of another's: at 3, where the table has one
        produce((start + 1, 2, 6), (start + 2, 4, None), (start + 3, 1, 7), (start + 4, 2, 7))
        for _ in range(2):
            with pytest.raises(AuditFailed):
                workbench.flush("reread")
        write_file()
        workbench.flush("reread")
        produce((start + 1, 3, 7), (start + 2, 9, 8))
        workbench.flush("reread")
        versions = ((id, n, a, 99 if b is None else b) for id, n, a, b in compute_versions(changes))
        assert read() == sorted(versions)
        assert (start + 3, 7, 1, 3) in read()


def test_row_of_somebody_else_without_a_begin_stays_as_it_is(workbench) -> None:
    """It is no version: each change of its key brought it in once more."""
    topic = workbench.topic(2)
    workbench.pipeline(
        "foreign", [topic], key=KEY, value={"schema": "id BIGINT, at TIMESTAMP, n INT"},
        table={"history": "scd2", "sequence_by": ["at"]},
    )  # fmt: skip

    def write(at: int, *ids: int) -> None:
        values = ({"id": id, "at": convert_to_time(at).isoformat(), "n": at} for id in ids)
        workbench.produce(topic, *(({"id": value["id"]}, value) for value in values))
        workbench.flush("foreign")

    write(1, 1, 2)
    end = convert_to_time(2).isoformat(" ")
    workbench.run_spark_sql(
        f"INSERT INTO lake.shop.foreign (id, n, valid_to) VALUES (1, 0, NULL), (2, 0, TIMESTAMP '{end}')"
    )
    write(3, 1, 2)
    write(4, 1, 2)
    rows = [(r["id"], r["n"], count_seconds(r["valid_from"]), count_seconds(r["valid_to"])) for r in
            workbench.read_rows("shop.foreign")]  # fmt: skip
    versions = [(id, *version) for id in (1, 2) for version in ((1, 1, 3), (3, 3, 4), (4, 4, 99))]
    assert sorted(rows) == sorted([*versions, (1, 0, 99, 99), (2, 0, 99, 2)])
