"""Maintenance beside flushes: no position, tag or young file is lost, and a flush that meets it goes on."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import format_3
from tidegate.errors import PublishedElsewhere, RetryLater
from tidegate.flush.clean_up import CompactionReport, clean_up, compact
from tidegate.flush.flush import flush
from tidegate.flush.maintain import list_maintained_tables, maintain
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.table_state import TableFiles

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
EAGER = {"compact": "always", "keep_snapshots": 1, "keep_snapshots_for": "1s"}
TABLE, DAY = "lake.shop.m", 86_400


@pytest.fixture
def topic(workbench) -> str:
    new_topic = workbench.topic()
    workbench.pipeline("m", [new_topic], key=KEY, value=VALUE, maintenance=EAGER)
    return new_topic


def put(workbench, topic: str, **rows: str | None) -> None:
    records = [({"id": int(k[1:])}, name and {"id": int(k[1:]), "name": name}) for k, name in rows.items()]
    workbench.produce(topic, *records)


def read_names(workbench) -> dict[int, str]:
    return {row["id"]: row["name"] for row in workbench.read_rows("shop.m")}


def read_state(workbench) -> Any:
    return workbench.open_session("m").tables.read_state(TABLE, "m")


def list_missing_files(workbench) -> list[str]:
    """Files that main refers to and that are not there."""
    tasks = list(workbench.load_iceberg("shop.m").scan().plan_files())
    files = {task.file.file_path for task in tasks} | {d.file_path for task in tasks for d in task.delete_files}
    assert files
    return [path for path in files if not Path(path.removeprefix("file://").removeprefix("file:")).exists()]


def write_orphan(workbench, name: str, days: float) -> Path:
    location = Path(workbench.load_iceberg("shop.m").location().removeprefix("file://"))
    path = location / "data" / name
    path.write_bytes(b"left by a killed merge")
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path


def assert_files_are_those_that_spark_finds(workbench, table_files: TableFiles) -> None:
    files = workbench.run_spark_sql(f"SELECT content, record_count, file_size_in_bytes FROM {TABLE}.files")
    rows = [file["record_count"] for file in files if file["content"] == 0]
    deleted = [file["record_count"] for file in files if file["content"] != 0]
    assert (table_files.data_files, table_files.rows, table_files.small_files) == (len(rows), sum(rows), len(rows))
    assert (table_files.delete_files, table_files.deleted_rows) == (len(deleted), sum(deleted))
    assert table_files.data_bytes == sum(file["file_size_in_bytes"] for file in files)


def append_foreign_rows(workbench, *numbers: int) -> None:
    """Rows of another writer, each in a data file of its own."""
    for number in numbers:
        format_3.append_rows(workbench.load_iceberg("shop.m"), "main", [{"id": number, "name": "foreign"}])


def test_maintenance_makes_a_table_small_and_loses_neither_position_nor_tag_nor_young_file(workbench, topic) -> None:
    workbench.pipeline("m", [topic], key=KEY, value=VALUE, maintenance={**EAGER, "compact": "auto"})
    for name in ("old", "new"):
        put(workbench, topic, k1=name)
        workbench.flush("m")
    append_foreign_rows(workbench, *range(10, 14))
    before, rows, tag = read_state(workbench), read_names(workbench), "tidegate_m"
    with workbench.load_iceberg("shop.m").transaction() as transaction:
        transaction.set_properties({"history.expire.max-ref-age-ms": "1"})
    old, young = write_orphan(workbench, "old.parquet", 4), write_orphan(workbench, "young.parquet", 2)
    assert_files_are_those_that_spark_finds(workbench, workbench.open_session("m").tables.read_files(TABLE))
    process = workbench.run_cli("maintain", "m", "--json")
    assert process.returncode == 0, process.stderr
    reports = {report["table"]: report for report in map(json.loads, process.stdout.splitlines())}
    assert set(reports) == {TABLE, "lake.shop.m_m_tmp", "lake.shop.tidegate_m_batches"}
    report, files = reports[TABLE], workbench.open_session("m").tables.read_files(TABLE)
    assert (report["compacted"], report["orphans_removed"]) == (True, 1)
    assert report["before"]["data_files"] > report["after"]["data_files"] == files.data_files == 1
    assert (report["after"]["delete_files"], files.delete_files, files.rows) == (0, 0, len(rows))
    assert (old.exists(), young.exists()) == (False, True)
    after = read_state(workbench)
    assert (after.position, after.is_rolled_back, after.highest_batch) == (before.position, False, 2)
    assert tag in workbench.load_iceberg("shop.m").metadata.refs
    assert (read_names(workbench), list_missing_files(workbench)) == (rows, [])


# the job compacts for real there; when it is due and what it rewrites is asked in unit tests
@pytest.mark.repeats("test_maintenance_makes_a_table_small_and_loses_neither_position_nor_tag_nor_young_file")
def test_compaction_behind_flushes_keeps_their_files_few_and_loses_nothing(workbench, topic) -> None:
    workbench.pipeline("m", [topic], key=KEY, value=VALUE, maintenance={"compact_every": 3})
    for number in range(6):
        put(workbench, topic, k0=f"{number}", k1=None if number == 4 else f"{number}", **{f"k{number + 2}": "x"})
        if number < 5:
            workbench.flush("m")
    session = workbench.open_session("m")
    (batch,) = stage(session, plan(session))
    merge(session, batch)
    [due], [later] = clean_up(session), clean_up(session)
    assert [(report.published, report.removed["batches"], report.needs_compaction) for report in (due, later)] == [
        (6, 1, True), (6, 0, False),
    ]  # fmt: skip
    rows, before = read_names(workbench), read_state(workbench)
    [report] = compact(workbench.open_session("m"), [TABLE])
    maintenance = report.maintenance_report
    assert maintenance is not None
    assert maintenance.before.data_files >= 5
    assert (maintenance.after.data_files, maintenance.after.delete_files) == (1, 0)
    assert list(maintenance.steps) == ["compact"]
    after = read_state(workbench)
    assert (after.position, after.is_rolled_back, after.highest_batch) == (before.position, False, 6)
    assert (read_names(workbench), list_missing_files(workbench)) == (rows, [])
    assert compact(workbench.open_session("m"), [TABLE]) == [CompactionReport(table=TABLE)]
    put(workbench, topic, k2="later")
    workbench.flush("m")
    assert read_names(workbench) == {**rows, 2: "later"}


@pytest.mark.repeats(
    "unit/tidegate/flush/test_compact.py::test_large_files_are_rewritten_for_the_share_of_their_deletes_and_never_for_the_number_of_delete_files"
)
def test_compaction_merges_the_delete_files_of_files_that_are_large_enough(workbench, topic) -> None:
    put(workbench, topic, **{f"k{number}": "a" for number in range(200)})
    workbench.flush("m")
    properties = "'write.target-file-size-bytes' = '1', 'write.delete.granularity' = 'partition'"
    workbench.run_spark_sql(f"ALTER TABLE lake.shop.m SET TBLPROPERTIES ({properties})")
    for number in range(6):
        put(workbench, topic, **{f"k{number}": None})
        workbench.flush("m")
    rows = read_names(workbench)
    [report] = compact(workbench.open_session("m"), [TABLE])
    maintenance = report.maintenance_report
    assert maintenance is not None
    assert list(maintenance.steps) == ["deletes"]
    assert maintenance.before.data_files == maintenance.after.data_files
    assert maintenance.before.delete_files >= 5 > maintenance.after.delete_files
    assert (read_names(workbench), list_missing_files(workbench)) == (rows, [])
    put(workbench, topic, k0="c", k199=None)
    workbench.flush("m")
    assert read_names(workbench) == {**dict.fromkeys(range(6, 199), "a"), 0: "c"}


# the same path of spark-submit, with a flush of two tasks and a compaction
@pytest.mark.repeats("e2e/test_what_others_see.py::test_spark_submit_on_a_standalone_cluster_gives_the_same_table")
def test_maintenance_through_spark_submit_does_the_same(workbench, topic) -> None:
    put(workbench, topic, k1="a")
    workbench.flush("m")
    append_foreign_rows(workbench, *range(10, 14))  # with the flush's own file five: Iceberg rewrites no fewer
    workbench.pipeline("m", [topic], key=KEY, value=VALUE, maintenance=EAGER, spark={"master": "local[1]"})
    maintenance = maintain(workbench.open_session("m"), TABLE)
    assert (maintenance.before.data_files, maintenance.after.data_files) == (5, 1)
    assert read_names(workbench) == {1: "a", **dict.fromkeys(range(10, 14), "foreign")}


@pytest.mark.repeats(
    "unit/tidegate/flush/test_maintain.py::test_snapshots_between_main_and_the_last_published_one_are_kept"
)
def test_expiry_never_cuts_main_off_from_the_last_published_snapshot(workbench, topic) -> None:
    put(workbench, topic, k1="a")
    workbench.flush("m")
    append_foreign_rows(workbench, 100, 101, 102)
    for _ in range(2):
        maintain(workbench.open_session("m"), TABLE)
    assert not read_state(workbench).is_rolled_back
    put(workbench, topic, k2="b")
    workbench.flush("m")
    assert read_names(workbench) == {1: "a", 2: "b", 100: "foreign", 101: "foreign", 102: "foreign"}


@pytest.mark.repeats("unit/tidegate/flush/test_merge.py::test_main_moved_before_the_publish_is_cut_and_merged_again")
def test_merge_that_meets_maintenance_between_cut_and_publish_cuts_again_and_succeeds(workbench, topic) -> None:
    put(workbench, topic, k1="a", k2="a")
    workbench.flush("m")
    put(workbench, topic, k1="b", k2=None)
    session = workbench.open_session("m")
    publish = session.commits.publish

    def maintain_before_publish(publication) -> None:
        session.commits.publish = publish
        maintain(workbench.open_session("m"), TABLE)
        publish(publication)

    session.commits.publish = maintain_before_publish
    (published,) = flush(session).published
    assert published.outcome == "published"
    assert (read_names(workbench), list_missing_files(workbench)) == ({1: "b"}, [])
    assert set(workbench.load_iceberg("shop.m").metadata.refs) == {"main", "tidegate_m"}


# at every call in memory
@pytest.mark.repeats(
    "unit/tidegate/flush/test_merge.py::test_merge_paused_at_any_call_while_newer_batches_are_published_changes_nothing"
)
def test_merge_suspended_before_its_commit_survives_the_clean_up_of_another_runner(workbench, topic) -> None:
    put(workbench, topic, k1="a", k2="a")
    workbench.flush("m")
    put(workbench, topic, k1="b")
    session = workbench.open_session("m")
    (batch,) = stage(session, plan(session))
    publish = session.commits.publish

    def clean_up_before_publish(publication) -> None:
        session.commits.publish = publish
        clean_up(workbench.open_session("m"))
        maintain(workbench.open_session("m"), "lake.shop.m_m_tmp")
        publish(publication)

    session.commits.publish = clean_up_before_publish
    assert merge(session, batch).outcome == "published"
    assert (read_names(workbench), list_missing_files(workbench)) == ({1: "b", 2: "a"}, [])

    put(workbench, topic, k1="c")
    session = workbench.open_session("m")
    (batch,) = stage(session, plan(session))
    publish = session.commits.publish

    def flush_and_maintain_before_publish(publication) -> None:
        session.commits.publish = publish
        workbench.flush("m")
        put(workbench, topic, k2=None)
        workbench.flush("m")
        for table in list_maintained_tables(workbench.open_session("m")):
            maintain(workbench.open_session("m"), table)
        publish(publication)

    session.commits.publish = flush_and_maintain_before_publish
    with pytest.raises(PublishedElsewhere):
        merge(session, batch)
    workbench.drain("m")
    assert (read_names(workbench), list_missing_files(workbench)) == ({1: "c"}, [])
    assert workbench.list_data_files("shop.m_m_tmp") == []


@pytest.mark.repeats("unit/tidegate/flush/test_merge.py::test_main_moved_before_the_publish_is_cut_and_merged_again")
def test_flushes_beside_a_loop_of_maintenance_all_succeed(workbench, topic) -> None:
    put(workbench, topic, k0="a")
    workbench.flush("m")
    over, rounds = threading.Event(), []

    def keep_maintaining() -> None:
        while not over.is_set():
            try:
                rounds.append(maintain(workbench.open_session("m"), TABLE).table)
            except RetryLater as conflict:
                rounds.append(str(conflict))

    beside = threading.Thread(target=keep_maintaining)
    beside.start()
    try:
        for number in range(1, 5):
            put(workbench, topic, k0=f"{number}", **{f"k{number}": "x"})
            workbench.flush("m")
    finally:
        over.set()
        beside.join(180)
    assert TABLE in rounds, rounds
    assert read_names(workbench) == {0: "4", 1: "x", 2: "x", 3: "x", 4: "x"}
    assert list_missing_files(workbench) == []
    assert not read_state(workbench).is_rolled_back
