"""BigQuery as a destination, on a local server that answers like it: each step of a batch, and its leftovers."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from crash.bigquery_trial import walk
from examples import choose_part
from integration.test_dead_letters import check_letters_of_one_key
from tidegate.errors import NothingToDo, PublishedElsewhere, SomeTablesFailed
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage

KEY = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
FIRST_MS = 1_767_225_600_000
PLAIN = {"schema": "id BIGINT, name STRING"}


def build_named_record(id: int, name: str | None) -> tuple[Any, Any]:
    return {"id": id}, name and {"id": id, "name": name}


def find_record_number(time: datetime | None) -> int | None:
    """The number of the record at whose timestamp a version begins or ends."""
    return time and round(time.timestamp() * 1000) - FIRST_MS


def read_pairs(dwh: Any, table: str) -> list[tuple[int, str]]:
    return sorted((row["id"], row["name"]) for row in dwh.read_rows(table))


# each table is sent to its own destination; each mode's statement runs in tests of the modes
@pytest.mark.repeats("unit/tidegate/adapters/test_catalog_routing.py::test_engine_of_a_jobs_table_runs_it")
def test_one_pipeline_writes_tables_of_both_and_every_mode_takes_what_is_its(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(1)
    tables = [
        {"name": dwh.table("both")},
        {"name": dwh.table("upserted"), "delete": False},
        {"name": dwh.table("removed"), "upsert": False},
        {"name": dwh.table("appended"), "upsert": False, "delete": False},
        {"name": dwh.table("soft"), "deletes": "soft"},
        {"name": dwh.table("versions"), "history": "scd2"},
        {"name": "lake.mixed.both"},
    ]
    bench.pipeline("mixed", [topic], key=KEY, value=PLAIN, tables=tables)
    changes = [(1, "a"), (2, "b"), (1, "a2"), (3, "c")]
    changes += [(2, None), (3, "c2"), (4, None), (4, "d"), (5, "e"), (5, None)]
    records = [(*build_named_record(*change), {"timestamp": FIRST_MS + at}) for at, change in enumerate(changes)]
    bench.produce(topic, *records[:4])
    bench.flush("mixed")
    bench.produce(topic, *records[4:])
    bench.flush("mixed")
    expected = [(1, "a2"), (3, "c2"), (4, "d")]
    assert read_pairs(dwh, "both") == expected
    assert sorted((row["id"], row["name"]) for row in bench.read_rows("mixed.both")) == expected
    assert read_pairs(dwh, "upserted") == [(1, "a2"), (2, "b"), (3, "c2"), (4, "d"), (5, "e")]
    assert read_pairs(dwh, "removed") == [(1, "a"), (1, "a2"), (3, "c"), (3, "c2"), (4, "d")]
    assert read_pairs(dwh, "appended") == [(1, "a"), (1, "a2"), (2, "b"), (3, "c"), (3, "c2"), (4, "d"), (5, "e")]
    assert {row["id"]: row["_deleted"] for row in dwh.read_rows("soft")} == {
        1: False,
        2: True,
        3: False,
        4: False,
        5: True,
    }
    assert [
        (row["id"], row["name"], find_record_number(row["valid_from"]), find_record_number(row["valid_to"]))
        for row in dwh.read_rows("versions")
    ] == [
        (1, "a", 0, 2),
        (1, "a2", 2, None),
        (2, "b", 1, 4),
        (3, "c", 3, 5),
        (3, "c2", 5, None),
        (4, "d", 7, None),
        (5, "e", 8, 9),
    ]
    assert bench.committed("mixed") == {topic: {0: 10}}
    assert dwh.list_staging_files() == []


@pytest.mark.repeats(
    "unit/scenarios/test_update_columns.py::test_row_keeps_what_its_first_record_said_beside_the_columns_of_updates"
)
def test_updates_change_the_named_columns_alone_in_tables_of_both(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(2)
    updated = {"update_columns": ["V", "last_seen"]}
    tables = [
        {"name": dwh.table("kept"), **updated, "create": {"partition_by": ["days(first_seen)"]}},
        {"name": "lake.kept.kept", **updated, "create": {"partition_by": ["days(first_seen)"]}},
        {"name": dwh.table("kept_soft"), **updated, "deletes": "soft", "deleted_column": "gone"},
        {"name": "lake.kept.soft", **updated, "deletes": "soft", "deleted_column": "gone"},
    ]
    source = {"metadata": {"first_seen": "timestamp", "last_seen": "timestamp"}}
    value = {"schema": "id BIGINT, v STRING, Tags ARRAY<STRING>"}
    bench.pipeline("kept", [topic], key=KEY, value=value, tables=tables, source=source)
    day_ms = 86_400_000

    def put(day: int, id: int, v: str | None, *tags: str) -> None:
        row = {"id": id, "v": v, "Tags": [*tags]} if tags else None
        place = {"partition": id % 2, "timestamp": FIRST_MS + day * day_ms}
        bench.produce(topic, ({"id": id}, row, place))

    def list_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        days = [(find_record_number(row["first_seen"]), find_record_number(row["last_seen"])) for row in rows]
        seen = [((first or 0) // day_ms, (last or 0) // day_ms) for first, last in days]
        return sorted(
            (row["id"], row["v"], row["Tags"], *times, row.get("gone")) for row, times in zip(rows, seen, strict=True)
        )

    def check(name: str, lake_name: str, *expected: tuple[Any, ...]) -> None:
        assert list_rows(dwh.read_rows(name)) == [*expected]
        assert list_rows(bench.read_rows(f"kept.{lake_name}")) == [*expected]

    put(0, 1, "a", "x")
    put(1, 1, "b", "y", "z")
    put(0, 2, "c", "x")
    put(0, 3, "d", "x")
    put(1, 3, None)
    put(2, 3, "e", "y")
    put(3, 3, "f", "z")
    bench.flush("kept")
    check("kept", "kept", (1, "b", ["x"], 0, 1, None), (2, "c", ["x"], 0, 0, None), (3, "f", ["y"], 2, 3, None))
    check("kept_soft", "soft", (1, "b", ["x"], 0, 1, False), (2, "c", ["x"], 0, 0, False), (3, "f", ["x"], 0, 3, False))
    put(4, 1, None, "w")
    put(4, 2, None)
    put(5, 2, "g", "v")
    put(6, 2, "h", "u")
    put(4, 3, None)
    bench.flush("kept")
    check("kept", "kept", (1, None, ["x"], 0, 4, None), (2, "h", ["v"], 5, 6, None))
    check("kept_soft", "soft", (1, None, ["x"], 0, 4, False), (2, "h", ["x"], 0, 6, False), (3, "f", ["x"], 0, 3, True))


@pytest.mark.repeats("unit/sql/test_bigquery_golden.py::test_statement_reads_as_the_golden_file")
def test_metadata_land_in_the_types_that_the_file_gives_them_in_tables_of_both(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(2)
    metadata = {
        "at": {"from": "timestamp", "type": "bigint"},
        "local": {"from": "timestamp", "type": "TIMESTAMP_NTZ"},
        "part": {"from": "partition", "type": "BIGINT"},
        "place": {"from": "offset", "type": "BIGINT"},
        "seen": {"from": "value.ingestion-timestamp", "type": "BIGINT"},
        "changed": {"from": "value.source.timestamp", "type": "BIGINT"},
    }
    tables = [{"name": name, "sequence_by": ["changed", "at"]} for name in (dwh.table("cast"), "lake.cast.cast")]
    value = {"format": "debezium-json", "schema": "id BIGINT, name STRING"}
    bench.pipeline("cast", [topic], key=KEY, value=value, tables=tables, source={"metadata": metadata})

    def put(id: int, op: str, changed: int, name: str) -> None:
        rows = {"before": {"id": id, "name": name}} if op == "d" else {"after": {"id": id, "name": name}}
        event = {"op": op, **rows, "source": {"ts_ms": FIRST_MS + changed}, "ts_ms": FIRST_MS + 7}
        bench.produce(topic, ({"id": id}, event, {"partition": 1, "timestamp": FIRST_MS + 123}))

    def check(*expected: tuple[int, str, int, int]) -> None:
        times = FIRST_MS + 123, datetime(2026, 1, 1, 0, 0, 0, 123000), 1
        rows = [(id, name, *times, place, FIRST_MS + 7, FIRST_MS + changed) for id, name, place, changed in expected]
        columns = ("id", "name", "at", "local", "part", "place", "seen", "changed")
        for found_rows in (dwh.read_rows("cast"), bench.read_rows("cast.cast")):
            assert sorted(tuple(row[name] for name in columns) for row in found_rows) == rows

    put(1, "c", 5, "a")
    put(1, "u", 4, "late")
    put(2, "c", 5, "b")
    bench.flush("cast")
    check((1, "a", 0, 5), (2, "b", 2, 5))
    put(1, "d", 4, "late")
    put(2, "d", 6, "b")
    put(2, "u", 5, "late")
    bench.flush("cast")
    check((1, "a", 0, 5))


def test_ids_that_repeat_in_each_topic_are_rows_of_their_own_in_tables_of_both(dwh: Any) -> None:
    bench = dwh.bench
    first, second = bench.topic(1), bench.topic(1)
    names = {first: "first", second: "second"}
    by_topic = {"disjoint_keys": "by-topic"}
    select = "SELECT src, id, CAST(upper(name) AS STRING) AS name FROM record"
    of_iceberg: list[tuple[str, dict[str, Any]]] = [
        ("apart", {"create": {"partition_by": ["src"]}}),
        ("soft", {"deletes": "soft", "deleted_column": "gone"}),
        ("versions", {"history": "scd2"}),
        ("made", {"select": select}),
        ("late", {"sequence_by": ["name"]}),
    ]
    lake_names = [name for name, _ in choose_part(of_iceberg, 2, 5)]
    tables = [
        {"name": dwh.table("apart"), **by_topic, "create": {"cluster_by": ["src", "id"]}},
        *({"name": f"lake.apart.{name}", **by_topic, **dict(of_iceberg)[name]} for name in lake_names),
    ]
    key = {"fields": ["id"], "schema": "id BIGINT NOT NULL"}
    bench.pipeline("apart", [first, second], key=key, value=PLAIN, tables=tables, source={"metadata": {"src": "topic"}})

    def list_rows(rows: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
        return sorted((names[row["src"]], row["id"], row["name"]) for row in rows)

    def check(*expected: tuple[str, int, str]) -> None:
        assert list_rows(dwh.read_rows("apart")) == [*expected]
        for name in lake_names:
            rows = [row for row in bench.read_rows(f"apart.{name}") if row.get("is_current", not row.get("gone"))]
            in_letters = str.upper if name == "made" else str
            assert list_rows(rows) == [(topic, id, in_letters(text)) for topic, id, text in expected]

    bench.produce(first, build_named_record(1, "a"), build_named_record(2, "b"))
    bench.produce(second, build_named_record(1, "c"), build_named_record(2, "d"))
    bench.flush("apart")
    check(("first", 1, "a"), ("first", 2, "b"), ("second", 1, "c"), ("second", 2, "d"))
    if "apart" in lake_names:
        assert bench.load_iceberg("apart.apart").schema().identifier_field_names() == {"src", "id"}
    bench.produce(first, build_named_record(1, None), build_named_record(2, "b2"))
    bench.produce(second, build_named_record(2, None), build_named_record(1, "c2"))
    bench.flush("apart")
    check(("first", 2, "b2"), ("second", 1, "c2"))
    if "soft" in lake_names:
        gone_rows = [row for row in bench.read_rows("apart.soft") if row["gone"]]
        assert sorted((names[row["src"]], row["id"]) for row in gone_rows) == [("first", 1), ("second", 2)]
    assert len(bench.read_rows("apart.versions")) == 6


def test_values_of_every_type_and_null_keys_end_as_the_last_record_says_and_clean_up_leaves_nothing(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(2)
    schema = (
        "a STRING, b INT, flag BOOLEAN, small TINYINT, f DOUBLE, d DECIMAL(30,10), day DATE, local TIMESTAMP_NTZ, "
        "bytes BINARY, tags ARRAY<STRING>, s STRUCT<x: INT, y: STRUCT<z: STRING>>, m MAP<STRING, INT>, "
        "rows ARRAY<STRUCT<k: STRING, m: MAP<STRING, BOOLEAN>>>, at TIMESTAMP"
    )
    dwh.pipeline("types", [topic], key={"fields": ["a", "b"], "schema": "a STRING, b INT"}, value={"schema": schema})
    value = {
        "flag": True, "small": 7, "f": 0.5, "d": "12345678901234567890.0123456789",
        "day": "2026-02-03", "local": "2026-02-03T04:05:06.123456", "bytes": "AAEC", "tags": ["x", "y"],
        "s": {"x": 1, "y": {"z": "é"}}, "m": {"one": 1}, "rows": [{"k": "k", "m": {"t": True}}],
        "at": "2026-01-02T03:04:05.678901Z",
    }  # fmt: skip
    as_read = {
        **value, "d": Decimal(value["d"]), "day": date(2026, 2, 3), "bytes": b"\x00\x01\x02",
        "local": datetime(2026, 2, 3, 4, 5, 6, 123456), "m": [{"key": "one", "value": 1}],
        "rows": [{"k": "k", "m": [{"key": "t", "value": True}]}], "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    }  # fmt: skip

    def build_row(a: str | None, b: int | None, partition: int = 0, **changed: Any) -> tuple[Any, Any, Any]:
        return {"a": a, "b": b}, {"a": a, "b": b, **value, **changed}, {"partition": partition}

    bench.produce(topic, build_row(None, 1, small=1), build_row("x", None), build_row("y", 2, 1, small=2))
    bench.produce(topic, build_row("y", 2, 1))
    (first,) = bench.flush("types").published
    bench.produce(topic, build_row(None, 1), ({"a": "x", "b": None}, None), build_row("z", 3, 1))
    bench.produce(topic, ({"a": "absent", "b": 9}, None))
    (second,) = bench.flush("types").published
    keys = [(None, 1), ("y", 2), ("z", 3)]
    assert sorted(dwh.read_rows("types"), key=lambda row: row["b"]) == [{"a": a, "b": b, **as_read} for a, b in keys]
    assert (first.inserted, first.updated, first.deleted) == (3, 0, 0)
    assert (second.inserted, second.updated, second.deleted) == (1, 1, 1)
    assert bench.committed("types") == {topic: {0: 5, 1: 3}}
    assert (dwh.list_staging_files(), dwh.read_rows("types_types_tmp")) == ([], [])
    with pytest.raises(NothingToDo):
        bench.flush("types")


# columns that come and columns that are relaxed, on the same server
@pytest.mark.repeats(
    "contract/test_bigquery.py::test_columns_are_added_and_relaxed_once_and_a_change_that_bigquery_cannot_make_changes_nothing"
)
def test_columns_follow_the_pipeline_file(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(1)
    dwh.pipeline("grows", [topic], key=KEY, value={"schema": "id BIGINT, name STRING NOT NULL"})
    bench.produce(topic, build_named_record(1, "a"))
    bench.flush("grows")
    wider = {"schema": "id BIGINT, name STRING, more STRUCT<x: INT>"}
    dwh.pipeline("grows", [topic], key=KEY, value=wider)
    bench.produce(topic, ({"id": 2}, {"id": 2, "name": None, "more": {"x": 5}}))
    bench.flush("grows")
    assert [(row["id"], row["name"], row["more"]) for row in dwh.read_rows("grows")] == [
        (1, "a", None),
        (2, None, {"x": 5}),
    ]


@pytest.mark.repeats("unit/scenarios/test_select.py::test_staged_batch_keeps_the_dimension_rows_it_was_staged_with")
def test_select_makes_the_columns_and_joins_iceberg_tables(dwh: Any) -> None:
    """Partitions follow a column that `select` makes, and NULLs that it leaves out of arrays make no record bad."""
    bench = dwh.bench
    bench.run_spark_sql("CREATE NAMESPACE IF NOT EXISTS lake.dim")
    bench.run_spark_sql("CREATE TABLE lake.dim.customers USING iceberg AS SELECT 7L AS id, 'north' AS region")
    select = """
        SELECT o.* EXCEPT (tags, customer), c.region, CAST(o.at AS DATE) AS day,
          CAST(filter(o.tags, t -> t IS NOT NULL) AS ARRAY<STRING>) AS tags
        FROM record o LEFT JOIN lake.dim.customers c ON c.id = o.customer
    """
    value = {"schema": "id BIGINT, customer BIGINT, at TIMESTAMP, tags ARRAY<STRING>"}
    create = {"partition_by": ["months(day)"], "cluster_by": ["id"]}
    topic = bench.topic(1)
    dwh.pipeline("chosen", [topic], key=KEY, value=value, table={"select": select, "create": create})

    def build_purchase(id: int, customer: int, month: int, *tags: str | None) -> tuple[Any, Any]:
        at = f"2026-{month:02}-05T00:00:00Z"
        return {"id": id}, {"id": id, "customer": customer, "at": at, "tags": tags}

    bench.produce(topic, build_purchase(1, 7, 1, "a", None, "b"), build_purchase(2, 9, 1), build_purchase(3, 7, 2))
    bench.flush("chosen")
    bench.produce(topic, build_purchase(2, 7, 3, None), ({"id": 3}, None))
    bench.flush("chosen")
    rows = [{**row, "at": row["at"].month} for row in dwh.read_rows("chosen")]
    assert rows == [
        {"id": 1, "at": 1, "region": "north", "day": date(2026, 1, 5), "tags": ["a", "b"]},
        {"id": 2, "at": 3, "region": "north", "day": date(2026, 3, 5), "tags": []},
    ]
    assert dwh.client.get_table(f"{dwh.client.project}.{dwh.dataset}.chosen").time_partitioning.type_ == "MONTH"


# the same command lines, statements and models as on Iceberg; what BigQuery does with them is judged mode by mode
@pytest.mark.repeats("contract/test_bigquery.py::test_publish_that_is_sent_twice_runs_once")
def test_of_two_runners_at_once_one_publishes_and_a_late_one_changes_nothing(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(1)
    dwh.pipeline("race", [topic], key=KEY, value=PLAIN)
    bench.produce(topic, build_named_record(1, "a"))
    slow, fast = bench.open_session("race"), bench.open_session("race")
    planned = plan(slow), plan(fast)  # both before either has staged: else the second resumes what the first did
    (late,), (early,) = stage(slow, planned[0]), stage(fast, planned[1])
    assert late.attempt == early.attempt  # the second one takes over the files that the first one has left
    assert [merge(session, early).outcome for session in (fast, slow, fast)] == [
        "published",
        *["already published"] * 2,
    ]
    bench.produce(topic, build_named_record(1, "b"))
    bench.drain("race")
    with pytest.raises(PublishedElsewhere):
        merge(slow, late)
    assert read_pairs(dwh, "race") == [(1, "b")]
    assert dwh.list_staging_files() == []


@pytest.mark.repeats(
    "integration/test_fan_out.py::test_records_name_their_tables_and_awkward_values_never_become_names"
)
def test_records_name_their_tables_which_are_made_at_first_sight(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(1)
    value = {"schema": "id BIGINT, name STRING, kind STRING"}
    dwh.pipeline("named", [topic], key=KEY, value=value, table={"name": dwh.table("of_{kind}")})

    def build_record(kind: str, id: int, name: str) -> tuple[Any, Any]:
        return {"id": id}, {"id": id, "name": name, "kind": kind}

    bench.produce(topic, build_record("One", 1, "a"), build_record("two", 2, "b"))
    assert {batch.table.rsplit("_")[-1] for batch in bench.flush("named").published if batch.inserted} == {"one", "two"}
    bench.produce(topic, build_record("one", 1, "a2"), build_record("three", 3, "c"), ({"id": 2}, None))
    bench.flush("named")
    assert [read_pairs(dwh, f"of_{kind}") for kind in ("one", "two", "three")] == [[(1, "a2")], [], [(3, "c")]]
    assert bench.committed("named") == {topic: {0: 5}}
    assert dwh.list_staging_files() == []
    bench.produce(topic, build_record("no.table", 4, "d"))
    with pytest.raises(SomeTablesFailed, match=r"offset=5 reason=its values make no table name"):
        bench.flush("named")
    assert [name for name in dwh.tables() if not name.endswith(("_tmp", "_tidegate_position"))] == [
        "of_one", "of_three", "of_two", "tidegate_named_batches", "tidegate_named_names",
    ]  # fmt: skip


@pytest.mark.repeats(
    "integration/test_bigquery_modes.py::test_highest_sequence_stands_as_in_the_model[upsert_delete-soft]"
)
def test_late_records_lose_and_a_deleted_row_does_not_come_back(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(1)
    value = {"schema": "id BIGINT, name STRING, v BIGINT"}
    dwh.pipeline("late", [topic], key=KEY, value=value, table={"sequence_by": ["v"], "delete_when": "name = 'x'"})

    def build_record(id: int, name: str, v: int) -> tuple[Any, Any]:
        return {"id": id}, {"id": id, "name": name, "v": v}

    bench.produce(
        topic, build_record(1, "new", 5), build_record(1, "old", 3), build_record(2, "b", 1), build_record(3, "c", 1)
    )
    bench.flush("late")
    bench.produce(topic, build_record(1, "older", 4), build_record(2, "x", 5), build_record(3, "c2", 2))
    bench.flush("late")
    bench.produce(topic, build_record(2, "ghost", 4), build_record(2, "ghost", 3))
    bench.flush("late")
    assert read_pairs(dwh, "late") == [(1, "new"), (3, "c2")]


@pytest.mark.repeats("integration/test_command_line.py::test_plan_flush_and_status_tell_the_same_story")
def test_commands_show_move_and_read_again(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(1)
    dwh.pipeline("cli", [topic], key=KEY, value=PLAIN)
    bench.produce(topic, build_named_record(1, "a"), build_named_record(2, "b"))
    assert bench.run_cli("flush", "cli").returncode == 0
    status = json.loads(bench.run_cli("status", "cli", "--json").stdout)["pipelines"][0]
    assert (status["tables"][0]["rows"], status["partitions"][0]["lag"]) == (2, 0)
    assert [(b["inserted"], b["batch"]) for b in status["batches"]] == [(2, 1)]
    dwh.sql("DELETE FROM `cli` WHERE id = 1")
    process = bench.run_cli("rebase", "cli", "--to", "earliest", "--yes")
    assert process.returncode == 0, process.stderr
    assert bench.run_cli("flush", "cli").returncode == 0
    assert read_pairs(dwh, "cli") == [(1, "a"), (2, "b")]


# (point, fault), each in a process of its own: one for each thing that a run may leave behind; all are in tests/crash
SITUATIONS = ("the first position was sent", "counts are there and nothing is loaded", "the load job was sent",
              "the transaction was sent", "the publish took place and no answer came",
              "staged rows are gone and their files are not",
              "the mark is there and nothing says that the rows are")  # fmt: skip


@pytest.mark.repeats("contract/test_bigquery.py::test_publish_whose_answer_is_lost_is_found_by_its_name")
def test_fault_at_a_point_of_bigquerys_is_recovered_by_the_next_run(dwh: Any, runners: Any) -> None:
    walk(dwh, runners, SITUATIONS)


def test_records_that_cannot_be_read_or_held_are_set_aside_in_the_transaction_of_their_batch(dwh: Any) -> None:
    """Another tool made the table: NUMERIC and BIGNUMERIC hold decimals of a smaller scale, a long text is bad.

    NULLs in arrays can be read once `select` leaves them out; of one key a newer row stands in the table.
    """
    bench, errors = dwh.bench, {"errors": {"tolerance": "all"}}
    topic = bench.topic(2)
    dwh.sql(f"CREATE SCHEMA IF NOT EXISTS `{dwh.dataset}`")
    columns = "id INT64, name STRING(3), tags ARRAY<STRING>, amount NUMERIC, big BIGNUMERIC"
    dwh.sql(f"CREATE TABLE `{dwh.dataset}.letters` ({columns})")
    dwh.sql("INSERT INTO `letters` VALUES (3, 'b', [], 0.5, 0.5)")
    value = {"schema": "id BIGINT, name STRING, tags ARRAY<STRING>, amount DECIMAL(12,2), big DECIMAL(38,18)"}
    dwh.pipeline("letters", [topic], key=KEY, value=value, source=errors)
    decimals = {"amount": "1.25", "big": "2.5"}
    bench.produce(
        topic,
        ({"id": 1}, {"id": 1, "name": "äöü", **decimals}),
        ({"id": 2}, b"{"),
        (*build_named_record(3, "c"), {"partition": 1}),
        ({"id": 4}, {"id": 4, "tags": ["x", None]}),
        ({"id": 5}, {"id": 5, "name": "e", "tags": [None]}, {"headers": [("trace", b"7")]}),
        build_named_record(6, "äöüß"),
        build_named_record(4, "new"),
    )
    (batch,) = bench.flush("letters").published
    assert (batch.inserted, batch.updated) == (2, 1)
    assert read_pairs(dwh, "letters") == [(1, "äöü"), (3, "c"), (4, "new")]
    assert [(row["amount"], row["big"]) for row in dwh.read_rows("letters") if row["id"] == 1] == [
        (Decimal("1.25"), Decimal("2.5"))
    ]
    report = json.loads(bench.run_cli("dead-letters", "letters", "--json").stdout)
    assert (report["waiting"], [letter["offset"] for letter in report["dead_letters"]]) == (4, [4, 3, 2, 1])
    messages = [letter["message"] for letter in report["dead_letters"][:2]]
    assert messages[0].startswith("name: longer than 3 characters")
    assert messages[1] == "tags: NULL inside of an array, which BigQuery cannot hold"

    select = "SELECT * EXCEPT (tags), CAST(filter(tags, t -> t IS NOT NULL) AS ARRAY<STRING>) AS tags FROM record"
    dwh.pipeline("letters", [topic], key=KEY, value=value, table={"select": select}, source=errors)
    replay = bench.run_cli("dead-letters", "letters", "--replay", "--json")
    assert replay.returncode == 0, replay.stderr
    result = json.loads(replay.stdout)
    assert {name: result[name] for name in ("tried", "replayed", "still_bad", "inserted", "updated")} == {
        "tried": 4, "replayed": 2, "still_bad": 2, "inserted": 1, "updated": 0,
    }  # fmt: skip
    assert read_pairs(dwh, "letters") == [(1, "äöü"), (3, "c"), (4, "new"), (5, "e")]
    letters = dwh.sql("SELECT `offset`, replayed_at IS NOT NULL AS done FROM `tidegate_letters_dead_letters`")
    assert {row["offset"]: row["done"] for row in letters} == {1: False, 2: True, 3: True, 4: False}
    assert (dwh.list_staging_files(), [name for name in dwh.tables() if "backfill" in name]) == ([], [])


# other SQL than that of Iceberg, of which a replay of two letters makes use in each build
@pytest.mark.repeats("test_records_that_cannot_be_read_or_held_are_set_aside_in_the_transaction_of_their_batch")
def test_dead_letters_of_one_key_leave_what_their_records_would_have_left_in_turn(dwh: Any) -> None:
    check_letters_of_one_key(dwh.bench, dwh.table("{}"), dwh.read_rows, 1, 3)


# a bad record is looked at, skipped and flushed on real servers by two clicks, and replayed in memory
@pytest.mark.repeats(
    "e2e/test_page.py::test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others"
)
def test_one_bad_record_is_looked_at_skipped_and_discarded(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(2)
    dwh.pipeline("skips", [topic], key=KEY, value={"schema": "id BIGINT, name STRING, tags ARRAY<STRING>"})
    bench.produce(topic, build_named_record(1, "a"), ({"id": 2}, {"id": 2, "tags": ["x", None]}), ({"id": 4}, b"{"))
    bench.produce(topic, (*build_named_record(3, "c"), {"partition": 1}))
    flush_process = bench.run_cli("flush", "skips")
    assert (flush_process.returncode, f"tidegate skip skips --at {topic}:0:1" in flush_process.stderr) == (1, True)
    record = bench.run_cli("record", "skips", "--at", f"{topic}:0:1")
    assert 'value tags: expected ARRAY<STRING>, got ["x",null] (refused: tags: NULL inside of an array' in record.stdout
    for offset in (1, 2):
        process = bench.run_cli("skip", "skips", "--at", f"{topic}:0:{offset}", "--yes")
        assert process.returncode == 0, process.stderr
    flushed = bench.run_cli("flush", "skips")
    assert (flushed.returncode, read_pairs(dwh, "skips")) == (0, [(1, "a"), (3, "c")]), flushed.stderr
    discarded = bench.run_cli(
        "dead-letters", "skips", "--offsets", f"{topic}:0:2", "--discard", "--because", "cut", "--yes"
    )
    assert discarded.returncode == 0, discarded.stderr
    letters = json.loads(bench.run_cli("dead-letters", "skips", "--json").stdout)
    assert (letters["waiting"], letters["replayed"], letters["discarded"]) == (1, 0, 1)
    (status,) = json.loads(bench.run_cli("status", "skips", "--json").stdout)["pipelines"]
    assert [action["action"] for action in status["tables"][0]["actions"]] == ["discard", "skip", "skip"]
    refused = bench.run_cli("undo-rollback", "skips")
    assert (refused.returncode, "tidegate rebase skips --to" in refused.stderr) == (1, True)
    assert (dwh.list_staging_files(), [name for name in dwh.tables() if "backfill" in name]) == ([], [])


# a backfill from the command line with slices, later records and deletes
@pytest.mark.repeats(
    "integration/test_backfill.py::test_command_shows_first_then_restores_what_is_missing_and_nothing_older"
)
def test_backfill_brings_back_what_is_missing_and_nothing_older(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic(1)
    dwh.pipeline("again", [topic], key=KEY, value=PLAIN)
    bench.produce(topic, build_named_record(1, "a"), build_named_record(2, "b"), build_named_record(3, "c"))
    bench.flush("again")
    bench.produce(topic, build_named_record(2, "b2"), build_named_record(3, None))
    bench.flush("again")
    dwh.sql("DELETE FROM `again` WHERE id = 1")
    ranges = json.dumps({topic: {"0": [0, 3]}})
    process = bench.run_cli("backfill", "again", "--range", ranges)
    assert process.returncode == 0, process.stderr
    assert read_pairs(dwh, "again") == [(1, "a"), (2, "b2")]
    assert dwh.list_staging_files() == []
    assert [name for name in dwh.tables() if "backfill" in name] == []


@pytest.mark.repeats(
    "unit/scenarios/test_dead_letters_of_old_topics.py::test_flush_after_the_topic_was_recreated_and_rebased_removes_no_dead_letter_of_the_old_one"
)
def test_dead_letters_of_a_topic_that_was_created_again_stay(dwh: Any) -> None:
    bench, errors = dwh.bench, {"errors": {"tolerance": "all"}}
    topic, value = bench.topic(2), {"schema": "id BIGINT, name STRING"}
    dwh.pipeline("anew", [topic], key=KEY, value=value, source=errors)

    def read_letters() -> list[tuple[Any, ...]]:
        rows = dwh.sql("SELECT `partition`, `offset`, value, topic_id, replayed_at FROM `tidegate_anew_dead_letters`")
        ids = {None: "unknown", **{topic_id: "known" for row in rows if (topic_id := row["topic_id"])}}
        return sorted(
            (row["partition"], row["offset"], row["value"], ids[row["topic_id"]], row["replayed_at"]) for row in rows
        )

    def produce(*values: Any) -> None:
        for partition in (0, 1):
            records = [({"id": 10 * partition + number}, value) for number, value in enumerate(values)]
            bench.produce(topic, *((*record, {"partition": partition}) for record in records))

    produce({"name": "a"}, b"old")
    bench.flush("anew")
    old = [(0, 1, b"old", "known", None), (1, 1, b"old", "known", None)]
    assert read_letters() == old
    bench.recreate(topic, 2)
    produce(b"new", {"name": "b"})
    process = bench.run_cli("rebase", "anew", "--to", "earliest", "--yes")
    assert "dead_letters=2" in process.stdout, process.stderr
    bench.flush("anew")
    all_letters = sorted([*old, (0, 0, b"new", "known", None), (1, 0, b"new", "known", None)])
    assert read_letters() == all_letters
    assert read_pairs(dwh, "anew") == [(0, "a"), (1, "b"), (10, "a"), (11, "b")]
