"""Tables of Iceberg's format 3: our commits between Spark's, row ids, and vectors of deletes."""

import json
from typing import Any

import pytest
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetPropertiesUpdate, SetSnapshotRefUpdate, UpgradeFormatVersionUpdate
from pyiceberg.types import IntegerType, LongType
from tidegate.adapters.iceberg.commit import append_snapshot_without_rows, build_tag, commit, cut_branch, seed_table
from tidegate.flush.clean_up import compact
from tidegate.table.history import list_actions

ON_READ = "'write.merge.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read'"


def read_lineage(workbench: Any, table: str) -> dict[int, tuple[Any, ...]]:
    """By id: the row's own id, the number of the snapshot that changed it last, and its value."""
    rows = workbench.run_spark_sql(f"SELECT id, _row_id, _last_updated_sequence_number, v FROM lake.{table}")
    assert len({row[1] for row in rows}) == len(rows)
    return {row[0]: tuple(row[1:]) for row in rows}


def test_spark_reads_what_our_commits_leave_and_goes_on_with_the_row_ids(workbench) -> None:
    """Its parser is that of Iceberg's Java library: it refuses metadata without row ids, or with ids that go back."""
    workbench.run_spark_sql(
        "CREATE NAMESPACE lake.shop",
        "CREATE TABLE lake.shop.made (id BIGINT, v STRING, Part STRING) USING iceberg PARTITIONED BY (Part) "
        f"TBLPROPERTIES ('format-version'='3', {ON_READ}, 'write.metadata.previous-versions-max'='3')",
    )
    seed_table(workbench.load_iceberg("shop.made"), "made", {"tidegate.made.position": "{}"})
    workbench.run_spark_sql("INSERT INTO lake.shop.made SELECT id, 'a', concat('p', id % 2) FROM range(10)")
    for round_number in (1, 2):
        workbench.run_spark_sql(
            f"UPDATE lake.shop.made SET v = 'b{round_number}' WHERE id IN (1, 2, {round_number + 4})",
            f"DELETE FROM lake.shop.made WHERE id = {round_number + 6}",
        )
        before = read_lineage(workbench, "shop.made")
        table = workbench.load_iceberg("shop.made")
        number = table.metadata.next_row_id
        head = table.metadata.current_snapshot_id
        cut_branch(table, (str(table.metadata.table_uuid), head), f"tidegate_made_{round_number}_a")
        append_snapshot_without_rows(
            workbench.load_iceberg("shop.made"), f"tidegate_made_{round_number}_a", {"tidegate.made.batch": "1"}
        )
        table = workbench.load_iceberg("shop.made")
        branch = table.metadata.refs[f"tidegate_made_{round_number}_a"].snapshot_id
        unset = dict.fromkeys(("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep"))
        main = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=branch, **unset)
        properties = SetPropertiesUpdate(updates={"tidegate.made.position": '{"t": {"0": 5}}'})
        commit(table, [main, properties, build_tag("tidegate_made", branch)])
        with workbench.load_iceberg("shop.made").update_schema() as change:
            change.add_column(f"more_{round_number}", IntegerType())
        assert read_lineage(workbench, "shop.made") == before
        assert workbench.load_iceberg("shop.made").metadata.next_row_id == number
        workbench.run_spark_sql(
            f"INSERT INTO lake.shop.made SELECT id, 'c', 'p0', 1 {', 2' * (round_number - 1)} FROM range(20, 22)"
            if round_number == 1
            else "UPDATE lake.shop.made SET more_2 = 5 WHERE id = 20"
        )
        after = read_lineage(workbench, "shop.made")
        assert {key: after[key] for key in before if key != 20} == {key: before[key] for key in before if key != 20}
    assert after[20][0] == before[20][0]
    assert after[20][1] > before[20][1]
    assert sorted(after) == [0, 1, 2, 3, 4, 5, 6, 9, 20, 21]
    log = workbench.run_spark_sql("SELECT file FROM lake.shop.made.metadata_log_entries")
    assert len(log) == 4  # of previous files as many as the table keeps, and the present one


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_metadata_document.py::test_first_snapshot_after_an_upgrade_gives_row_ids_to_all_rows_and_later_ones_keep_them"
)
def test_table_of_format_2_that_is_upgraded_gets_row_ids_from_whoever_writes_first(workbench) -> None:
    workbench.run_spark_sql("CREATE NAMESPACE lake.shop")
    lineages = []
    for name in ("ours", "sparks"):
        workbench.run_spark_sql(
            f"CREATE TABLE lake.shop.{name} (id BIGINT, v STRING) USING iceberg "
            f"TBLPROPERTIES ('format-version'='2', {ON_READ})"
        )
        for number in (0, 10):
            workbench.run_spark_sql(f"INSERT INTO lake.shop.{name} SELECT id + {number}, 'a' FROM range(0, 5, 1, 1)")
        workbench.run_spark_sql(f"DELETE FROM lake.shop.{name} WHERE id = 3")
        commit(workbench.load_iceberg(f"shop.{name}"), [UpgradeFormatVersionUpdate(format_version=3)])
        if name == "ours":
            append_snapshot_without_rows(workbench.load_iceberg(f"shop.{name}"), "main", {})
        for statement in (
            f"UPDATE lake.shop.{name} SET v = 'b' WHERE id IN (1, 11)",
            f"INSERT INTO lake.shop.{name} VALUES (20, 'c')",
        ):
            workbench.run_spark_sql(statement)
        lineages.append({key: (row[0], row[2]) for key, row in read_lineage(workbench, f"shop.{name}").items()})
    assert sorted(lineages[0]) == sorted(lineages[1]) == [0, 1, 2, 4, 10, 11, 12, 13, 14, 20]
    assert [{key: row[1] for key, row in lineage.items()} for lineage in lineages] == [
        {key: {1: "b", 11: "b", 20: "c"}.get(key, "a") for key in sorted(lineages[0])}
    ] * 2


KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, v STRING"}


def read_newest_number(workbench: Any, table: str) -> int:
    number: int = workbench.load_iceberg(table).current_snapshot().sequence_number
    return number


def write_pipeline(workbench: Any, name: str, topic: str, **create: Any) -> None:
    workbench.pipeline(name, [topic], key=KEY, value=VALUE, table={"create": {"format_version": 3, **create}})


def change(first: int, last: int, v: str | None) -> list[tuple[Any, Any]]:
    return [({"id": i}, None if v is None else {"id": i, "v": v}) for i in range(first, last)]


# the other mode's merges, with the same steps
@pytest.mark.repeats(
    "integration/test_format_3.py::test_updated_row_keeps_its_id_and_names_the_flush[merge-on-read]", "copy-on-write"
)
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_updated_row_keeps_its_id_and_names_the_flush(workbench, mode: str) -> None:
    """Through flushes, a compaction, a rollback and its undo, a backfill, a new column, and a merge of a queue."""
    topic = workbench.topic()
    name = f"kept_{mode[:4]}"
    table = f"shop.{name}"
    write_pipeline(workbench, name, topic, properties={"write.merge.mode": mode})
    model: dict[int, str] = {}
    lineage: dict[int, tuple[Any, ...]] = {}

    def flush(first: int, last: int, v: str | None) -> None:
        nonlocal lineage
        before = lineage
        workbench.produce(topic, *change(first, last, v))
        workbench.flush(name)
        for number in range(first, last):
            model.pop(number, None) if v is None else model.update({number: v})
        lineage = after = read_lineage(workbench, table)
        assert {number: row[2] for number, row in after.items()} == model
        newest = read_newest_number(workbench, table)
        for number, (row_id, sequence, _) in after.items():
            is_changed = first <= number < last
            assert sequence == newest if is_changed else sequence == before[number][1]
            if number in before:
                assert row_id == before[number][0], number
        known = max((row[0] for row in before.values()), default=-1)
        assert all(row[0] > known for number, row in after.items() if number not in before)

    flush(0, 20, "a")
    flush(5, 10, "b")
    flush(15, 18, None)
    flush(8, 16, "c")
    assert workbench.load_iceberg(table).metadata.format_version == 3
    options = "options => map('rewrite-all', 'true')"
    workbench.run_spark_sql(f"CALL lake.system.rewrite_data_files(table => '{table}', {options})")
    assert read_lineage(workbench, table) == lineage
    flush(18, 22, "d")
    assert workbench.open_session(name).tables.count_rows(f"lake.{table}") == len(model)


@pytest.mark.repeats("test_updated_row_keeps_its_id_and_names_the_flush[merge-on-read]")
def test_row_ids_last_through_rollbacks_backfills_replays_and_new_columns(workbench) -> None:
    topic = workbench.topic()
    write_pipeline(workbench, "lasting", topic, partition_by=["bucket(2, id)"])
    workbench.produce(topic, *change(0, 10, "a"))
    first = workbench.flush("lasting").published[0].snapshot_id
    before = read_lineage(workbench, "shop.lasting")
    workbench.produce(topic, *change(3, 6, "b"), *change(8, 9, None))
    workbench.flush("lasting")
    after = read_lineage(workbench, "shop.lasting")
    assert {number: row[0] for number, row in after.items()} == {n: before[n][0] for n in before if n != 8}

    # a rollback, undone by its command; then one that is answered by reading the records again
    rollback = f"CALL lake.system.rollback_to_snapshot('shop.lasting', {first})"
    workbench.run_spark_sql(rollback)
    assert read_lineage(workbench, "shop.lasting") == before
    assert workbench.run_cli("undo-rollback", "lasting", "--yes").returncode == 0
    assert read_lineage(workbench, "shop.lasting") == after
    workbench.run_spark_sql(rollback)
    assert workbench.run_cli("answer-rollback", "lasting", "--rewind", "--yes").returncode == 0
    workbench.flush("lasting")
    rewound = read_lineage(workbench, "shop.lasting")
    assert {number: (row[0], row[2]) for number, row in rewound.items()} == {n: (r[0], r[2]) for n, r in after.items()}

    # a column that the file gains, and a backfill of rows that somebody deleted
    workbench.run_spark_sql("DELETE FROM lake.shop.lasting WHERE id IN (1, 2)")
    workbench.pipeline(
        "lasting", [topic], key=KEY, value={"schema": "id BIGINT, v STRING, more INT"},
        table={"create": {"format_version": 3, "partition_by": ["bucket(2, id)"]}},
    )  # fmt: skip
    workbench.produce(topic, *[({"id": 9}, {"id": 9, "v": "c", "more": 1})])
    workbench.flush("lasting")
    grown = read_lineage(workbench, "shop.lasting")
    newest = read_newest_number(workbench, "shop.lasting")
    assert grown == {n: r for n, r in rewound.items() if n not in (1, 2, 9)} | {9: (rewound[9][0], newest, "c")}
    ranges = json.dumps({topic: {number: [0, end] for number, end in workbench.read_ends(topic)[topic].items()}})
    assert workbench.run_cli("backfill", "lasting", "--range", ranges).returncode == 0
    restored = read_lineage(workbench, "shop.lasting")
    assert sorted(restored) == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    newest = read_newest_number(workbench, "shop.lasting")
    assert {restored[number][1:] for number in (1, 2)} == {(newest, "a")}
    # rows that came back are new ones; of the others the backfill may have written a row again, with the same id
    for number, (row_id, sequence, v) in grown.items():
        assert restored[number] in [(row_id, sequence, v), (row_id, newest, v)]
    assert min(restored[1][0], restored[2][0]) > max(row[0] for row in grown.values())
    assert workbench.run_cli("verify", "lasting").returncode == 0


@pytest.mark.repeats("test_updated_row_keeps_its_id_and_names_the_flush[merge-on-read]")
def test_row_ids_last_through_replayed_dead_letters_and_a_compaction_behind_flushes(workbench) -> None:
    topic = workbench.topic()

    def write(columns: str) -> None:
        sections = {"source": {"errors": {"tolerance": "all"}}, "table": {"create": {"format_version": 3}}}
        workbench.pipeline("replayed", [topic], key=KEY, value={"schema": columns}, **sections)

    write("id BIGINT, v STRING, n INT")
    workbench.produce(topic, *change(0, 10, "a"))
    workbench.flush("replayed")
    workbench.produce(topic, *change(3, 6, "b"), *[({"id": i}, {"id": i, "v": "c", "n": i + 0.5}) for i in (4, 20)])
    workbench.flush("replayed")
    before = read_lineage(workbench, "shop.replayed")
    write("id BIGINT, v STRING")
    replayed = workbench.run_cli("dead-letters", "replayed", "--replay")
    assert (replayed.returncode, "tried=2 replayed=2 still_bad=0" in replayed.stdout) == (0, True), replayed.stderr
    after = read_lineage(workbench, "shop.replayed")
    newest = read_newest_number(workbench, "shop.replayed")
    assert after == before | {4: (before[4][0], newest, "c"), 20: (after[20][0], newest, "c")}
    assert after[20][0] > max(row[0] for row in before.values())

    [report] = compact(workbench.open_session("replayed"), ["lake.shop.replayed"])
    assert report.is_compacted
    assert report.maintenance_report.before.delete_files > report.maintenance_report.after.delete_files == 0
    assert read_lineage(workbench, "shop.replayed") == after
    workbench.produce(topic, *change(4, 5, "d"))
    workbench.flush("replayed")
    newest = read_newest_number(workbench, "shop.replayed")
    assert read_lineage(workbench, "shop.replayed") == after | {4: (after[4][0], newest, "d")}


@pytest.mark.repeats("test_updated_row_keeps_its_id_and_names_the_flush[merge-on-read]")
def test_default_of_a_column_that_the_pipeline_does_not_fill_stands_in_old_and_new_rows(workbench) -> None:
    topic = workbench.topic()
    value = {"schema": "id BIGINT, v STRING, s STRUCT<a: INT>"}
    workbench.pipeline("filled", [topic], key=KEY, value=value, table={"create": {"format_version": 3}})

    def flush(text: str, *ids: int) -> None:
        workbench.produce(topic, *[({"id": i}, {"id": i, "v": text, "s": {"a": i}}) for i in ids])
        workbench.flush("filled")

    flush("a", 0, 1)
    with workbench.load_iceberg("shop.filled").update_schema() as schema:
        schema.add_column("n", LongType(), default_value=7)
        schema.add_column(("s", "deep"), LongType(), default_value=5)
    with workbench.load_iceberg("shop.filled").update_schema() as schema:
        schema.set_default_value("n", 8)
    flush("b", 0, 10)
    rows = [tuple(row) for row in workbench.run_spark_sql("SELECT id, v, n, s.deep FROM lake.shop.filled ORDER BY id")]
    # an update keeps what the row had; a struct is written whole
    assert rows == [(0, "b", 7, None), (1, "a", 7, 5), (10, "b", 8, None)]
    found = sorted(workbench.read_rows("shop.filled"), key=lambda row: row["id"])
    assert [(row["id"], row["v"], row["n"], row["s"]["deep"]) for row in found] == rows


@pytest.mark.repeats("unit/tidegate/reprocess/test_upgrade.py::test_each_table_is_upgraded_once_and_notes_by_whom")
def test_upgrade_shows_readers_asks_and_keeps_position_rows_and_history(workbench) -> None:
    topic = workbench.topic()

    def write(**sections: Any) -> None:
        workbench.pipeline("older", [topic], key=KEY, value=VALUE, **sections)

    write(readers=["athena"])
    workbench.produce(topic, *change(0, 10, "a"))
    workbench.flush("older")
    workbench.produce(topic, *change(2, 5, "b"))
    workbench.flush("older")
    refused = workbench.run_cli("upgrade-format", "older", "--yes")
    assert (refused.returncode, "readers names athena, which reads no vectors of deletes" in refused.stderr) == (
        1,
        True,
    )
    write(readers=["spark"])
    shown = workbench.run_cli("upgrade-format", "older")
    assert (shown.returncode, "nothing was changed" in shown.stderr) == (1, True)
    assert "lake.shop.older: format 2 -> 3" in shown.stdout
    assert "not by: athena" in shown.stdout
    assert workbench.load_iceberg("shop.older").metadata.format_version == 2
    position = workbench.open_session("older").tables.read_state("lake.shop.older", "older").position
    done = workbench.run_cli("upgrade-format", "older", "--yes", "--json")
    assert (done.returncode, json.loads(done.stdout)["done"]) == (0, True)
    state = workbench.open_session("older").tables.read_state("lake.shop.older", "older")
    assert (state.position, state.format_version) == (position, 3)
    assert [action.action for action in list_actions("older", state)] == ["upgrade-format"]
    assert workbench.run_cli("upgrade-format", "older", "--yes").returncode == 0  # there is nothing left to do
    workbench.produce(topic, *change(3, 8, "c"), *change(0, 1, None))
    workbench.flush("older")
    rows = {number: "c" if 3 <= number < 8 else "b" if number == 2 else "a" for number in range(1, 10)}
    assert {number: row[2] for number, row in read_lineage(workbench, "shop.older").items()} == rows
    assert workbench.open_session("older").tables.count_rows("lake.shop.older") == 9
    assert {row["id"]: row["v"] for row in workbench.read_rows("shop.older")} == rows
    assert workbench.run_cli("verify", "older").returncode == 0
