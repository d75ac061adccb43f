"""Backfill on real Kafka, Spark and Iceberg: which rows are applied again, which stay, and which survive a kill."""

import json
import subprocess
from contextlib import suppress

import pytest
from conftest import wait_until
from pyiceberg.exceptions import NoSuchTableError
from tidegate.errors import ConfigurationError, PositionLost
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill

KEY = {"fields": ["id", "part"], "schema": "id BIGINT, part STRING"}
VALUE = {"schema": "id BIGINT, part STRING, name STRING"}
SMALL = {"max_records": 4}


def build_change(id: int, name: str | None, part: str | None = None, **more):
    key = {"id": id, "part": part}
    return (key, None if name is None else {**key, "name": name}, more)


def read_names(workbench, table: str) -> dict:
    return {(row["id"], row["part"]): row["name"] for row in workbench.read_rows(table)}


def list_leftovers(workbench, name: str) -> list[str]:
    table = workbench.load_iceberg(f"shop.{name}")
    folders = [path.name for path in (workbench.warehouse / "shop").iterdir() if "backfill" in path.name]
    return [*folders, *(ref for ref in table.metadata.refs if "backfill" in ref)] + [
        key for key in table.metadata.properties if "backfill" in key
    ]


def fill_table(workbench, name: str, batches: int = 2, **sections) -> str:
    """Two partitions; 1 was changed, 2 deleted, 3 has a NULL in its key; in one batch or two."""
    topic = workbench.topic(2)
    workbench.pipeline(name, [topic], key=KEY, value=VALUE, **sections)
    workbench.produce(
        topic,
        build_change(1, "old", "a"),
        build_change(2, "gone", "a"),
        build_change(3, "null part"),
        build_change(4, "x", "b"),
    )
    workbench.produce(topic, *(build_change(id, "p1", "c", partition=1) for id in range(10, 13)))
    if batches > 1:
        workbench.drain(name)
    workbench.produce(
        topic, build_change(1, "new", "a"), build_change(2, None, "a"), build_change(10, "newer", "c", partition=1)
    )
    workbench.drain(name)
    return topic


EXPECTED = {
    (1, "a"): "new", (3, None): "null part", (4, "b"): "x", (10, "c"): "newer", (11, "c"): "p1", (12, "c"): "p1",
}  # fmt: skip


@pytest.mark.guard(
    "a backfill does not change keys with a later record",
    file="plugins/tidegate/merge/statements.py",
    text='        values["guarded"] = True\n',
    off="        pass\n",
)
def test_command_shows_first_then_restores_what_is_missing_and_nothing_older(workbench) -> None:
    topic = fill_table(workbench, "restored", batches=1)
    workbench.pipeline("restored", [topic], key=KEY, value=VALUE, merge=SMALL)
    ranges = json.dumps({topic: {"0": [0, 4], "1": [0, 3]}})
    workbench.run_spark_sql("DELETE FROM lake.shop.restored WHERE id <> 1")
    before = workbench.open_session("restored").tables.read_state("lake.shop.restored", "restored")

    preview = workbench.run_cli("backfill", "restored", "--range", ranges, "--dry-run", "--json")
    [table] = json.loads(preview.stdout)["tables"]
    assert (table["records"], table["batches"], table["later"]) == (7, 2, 3)
    assert list_leftovers(workbench, "restored") == []

    process = workbench.run_cli("backfill", "restored", "--range", ranges, "--json")
    assert (process.returncode, process.stderr) == (0, "")
    slices = [json.loads(line) for line in process.stdout.splitlines()]
    assert [(applied["slice"], applied["outcome"]) for applied in slices] == [(2, "published"), (1, "published")]
    assert read_names(workbench, "shop.restored") == {k: v for k, v in EXPECTED.items() if k != (10, "c")}
    after = workbench.open_session("restored").tables.read_state("lake.shop.restored", "restored")
    assert (after.position, after.is_rolled_back) == (before.position, False)
    assert list_leftovers(workbench, "restored") == []
    history = json.loads(workbench.run_cli("status", "restored", "--json").stdout)["pipelines"][0]["batches"]
    assert len([row for row in history if row["backfill"]]) == 2


@pytest.mark.repeats(
    "unit/scenarios/test_backfill_model.py::test_up_to_date_table_equals_the_model_after_any_backfills"
)
def test_second_backfill_of_all_records_restores_what_the_first_left_to_later_ones(workbench) -> None:
    topic = fill_table(workbench, "whole", merge=SMALL)
    workbench.run_spark_sql("DELETE FROM lake.shop.whole WHERE id <> 1")
    for ends in ({"0": [0, 4], "1": [0, 3]}, {"0": [0, 6], "1": [0, 4]}):
        process = workbench.run_cli("backfill", "whole", "--range", json.dumps({topic: ends}))
        assert process.returncode == 0, process.stderr
    assert read_names(workbench, "shop.whole") == EXPECTED
    history = json.loads(workbench.run_cli("status", "whole", "--json").stdout)["pipelines"][0]["batches"]
    assert len([row for row in history if row["backfill"]]) == 5


# the flush goes on at any call of the backfill in memory, between its cut and its publish too
@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_backfill.py::test_backfill_paused_at_any_call_while_the_flush_goes_on_overwrites_nothing"
)
def test_flush_that_publishes_between_cut_and_publish_is_not_overwritten(workbench) -> None:
    topic = fill_table(workbench, "raced")
    workbench.run_spark_sql("DELETE FROM lake.shop.raced")
    session = workbench.open_session("raced")
    publish = session.commits.publish

    def flush_before_publish(publication) -> None:
        session.commits.publish = publish
        workbench.produce(
            topic, build_change(4, "newest", "b"), build_change(3, None), build_change(11, None, "c", partition=1)
        )
        workbench.flush("raced")
        publish(publication)

    session.commits.publish = flush_before_publish
    request = parse_request({topic: {"0": [0, 6], "1": [0, 4]}}, None, None)
    apply_backfill(session, propose_backfill(session, request).backfill, print)
    assert read_names(workbench, "shop.raced") == {
        (1, "a"): "new", (4, "b"): "newest", (10, "c"): "newer", (12, "c"): "p1",
    }  # fmt: skip


# in memory for every mode, death and refusal; one backfill from the command line is run for real
@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_backfill.py::test_backfill_killed_at_any_call_is_finished_by_the_next"
)
def test_backfill_killed_by_the_operating_system_goes_on_where_it_stopped(workbench) -> None:
    topic = fill_table(workbench, "killed", merge=SMALL)
    workbench.run_spark_sql("DELETE FROM lake.shop.killed")
    words = ("backfill", "killed", "--range", json.dumps({topic: {"0": [0, 6], "1": [0, 4]}}), "--json")
    runner = subprocess.Popen(
        workbench.build_command(*words),
        env=workbench.build_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_slice_applied() -> bool:
        """Whether the backfill's own table says that a slice is applied."""
        folders = (path.name for path in (workbench.warehouse / "shop").iterdir() if "killed_backfill" in path.name)
        table_names = [f"shop.{name}" for name in folders if workbench.exists(f"shop.{name}")]
        with suppress(NoSuchTableError):
            return any(
                "tidegate.applied" in key for name in table_names for key in workbench.load_iceberg(name).properties
            )
        return False

    try:
        wait_until(lambda: is_slice_applied() or runner.poll() is not None, "a slice")
    finally:
        runner.kill()
        runner.wait(30)
    assert is_slice_applied()
    workbench.produce(topic, build_change(12, "flushed meanwhile", "c", partition=1))
    workbench.flush("killed")
    process = workbench.run_cli(*words)
    assert process.returncode == 0, process.stderr
    slices = [json.loads(line) for line in process.stdout.splitlines()]
    assert slices[0]["outcome"] == "already applied"
    assert read_names(workbench, "shop.killed") == {**EXPECTED, (12, "c"): "flushed meanwhile"}
    assert list_leftovers(workbench, "killed") == []


MODES = {
    "upsert": ({"delete": False}, {**EXPECTED, (2, "a"): "gone"}),
    "delete": ({"upsert": False}, EXPECTED),
    "append": ({"upsert": False, "delete": False}, {**EXPECTED, (2, "a"): "gone"}),
}


@pytest.mark.repeats(
    "unit/scenarios/test_backfill_model.py::test_up_to_date_table_equals_the_model_after_any_backfills"
)
def test_every_mode_gets_back_the_last_state_of_each_key(workbench) -> None:
    topic = fill_table(
        workbench, "modes", tables=[{"name": f"lake.shop.{mode}", **settings} for mode, (settings, _) in MODES.items()]
    )
    session = workbench.open_session("modes")
    request = parse_request({topic: {"0": [0, 6], "1": [0, 4]}}, None, None)
    before = {mode: workbench.read_rows(f"shop.{mode}") for mode in MODES}
    apply_backfill(session, propose_backfill(session, request).backfill, print)
    assert {mode: workbench.read_rows(f"shop.{mode}") for mode in MODES} == before
    for mode in MODES:
        workbench.run_spark_sql(f"DELETE FROM lake.shop.{mode}")
    apply_backfill(session, propose_backfill(session, request).backfill, print)
    for mode, (_, expected) in MODES.items():
        assert read_names(workbench, f"shop.{mode}") == expected
        assert len(workbench.read_rows(f"shop.{mode}")) == len(expected)


# the model has soft deletes too
@pytest.mark.repeats(
    "unit/scenarios/test_backfill_model.py::test_up_to_date_table_with_sequences_equals_the_model_after_any_backfills"
)
def test_sequences_and_remembered_deletes_decide_in_a_backfill_too(workbench) -> None:
    """2 was deleted at a sequence above its late upsert, 3 by a tombstone; 4's highest sequence came first."""
    topic = workbench.topic()
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, name STRING, lsn BIGINT"}
    ordered = {"sequence_by": ["lsn"], "delete_when": "name = 'gone'"}
    workbench.pipeline("ordered", [topic], key=key, value=value, table=ordered, merge=SMALL)
    history = [(1, "a", 1), (2, "x", 1), (2, "gone", 9), (3, "x", 5), (4, "highest", 7), (2, "late", 3), (4, "late", 2)]
    workbench.produce(topic, *(({"id": id}, {"id": id, "name": name, "lsn": lsn}) for id, name, lsn in history))
    workbench.produce(topic, ({"id": 3}, None), ({"id": 3}, {"id": 3, "name": "late", "lsn": 4}))
    workbench.drain("ordered")
    expected = [(1, "a"), (4, "highest")]
    assert [(row["id"], row["name"]) for row in workbench.read_rows("shop.ordered")] == expected
    session, ends = workbench.open_session("ordered"), workbench.committed("ordered")[topic]
    assert sum(ends.values()) == 9
    assert min(ends.values()) > 0
    all_ranges = {topic: {str(partition): [0, end] for partition, end in ends.items()}}
    planned = propose_backfill(session, parse_request(all_ranges, None, None)).backfill
    for damage in ("", "DELETE FROM lake.shop.ordered"):
        if damage:
            workbench.run_spark_sql(damage)
        apply_backfill(session, planned, print)
        assert [(row["id"], row["name"]) for row in workbench.read_rows("shop.ordered")] == expected


# a backfill from the command line with slices, later records and deletes
@pytest.mark.repeats("test_command_shows_first_then_restores_what_is_missing_and_nothing_older")
def test_rows_that_select_makes_come_back_too(workbench) -> None:
    """Of later records only keys are staged, of which select makes nothing."""
    workbench.run_spark_sql("CREATE TABLE lake.shop.parts AS SELECT 'a' AS part, 'first' AS label")
    select = (
        "SELECT r.id, r.part, r.name, p.label, r.`offset` AS place, CAST(upper(r.name) AS STRING) AS loud "
        "FROM record r LEFT JOIN lake.shop.parts p ON p.part = r.part"
    )
    topic = fill_table(workbench, "made", table={"select": select}, merge=SMALL)
    rows = workbench.read_rows("shop.made")
    assert len(rows) == len(EXPECTED)
    workbench.run_spark_sql("DELETE FROM lake.shop.made WHERE id < 12")
    ranges = json.dumps({topic: {"0": [0, 4], "1": [0, 3]}})
    process = workbench.run_cli("backfill", "made", "--range", ranges)
    assert (process.returncode, process.stderr) == (0, "")
    changed_later = {(1, "a"), (10, "c")}
    assert workbench.read_rows("shop.made") == [row for row in rows if (row["id"], row["part"]) not in changed_later]


# the model has soft deletes too
@pytest.mark.repeats(
    "unit/scenarios/test_backfill_model.py::test_up_to_date_table_with_sequences_equals_the_model_after_any_backfills"
)
def test_soft_deleted_rows_stay_deleted_in_a_backfill(workbench) -> None:
    topic = fill_table(workbench, "soft", table={"deletes": "soft"})
    before = workbench.read_rows("shop.soft")
    assert [row["id"] for row in before if row["_deleted"]] == [2]
    session = workbench.open_session("soft")
    apply_backfill(
        session,
        propose_backfill(session, parse_request({topic: {"0": [0, 4], "1": [0, 3]}}, None, None)).backfill,
        print,
    )
    assert workbench.read_rows("shop.soft") == before


@pytest.mark.repeats("unit/tidegate/reprocess/test_backfill.py::test_range_of_times_is_clipped_to_the_position")
def test_range_of_times_takes_the_records_of_that_time_up_to_the_position(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("timed", [topic], key=KEY, value=VALUE)
    at = 1_767_225_600_000  # 2026-01-01T00:00:00Z
    workbench.produce(topic, *(build_change(n, "x", "a", timestamp=at + n * 60_000) for n in range(6)))
    workbench.flush("timed")
    workbench.produce(topic, build_change(9, "not flushed", "a", timestamp=at + 9 * 60_000))
    workbench.run_spark_sql("DELETE FROM lake.shop.timed")
    times = ("--from", "2026-01-01T00:02:00Z", "--to", "2026-01-01T01:00:00+00:00")
    process = workbench.run_cli("backfill", "timed", *times)
    assert process.returncode == 0, process.stderr
    assert f"{topic} 0: [2, 6)" in process.stdout
    assert sorted(id for id, _ in read_names(workbench, "shop.timed")) == [2, 3, 4, 5]


@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_backfill.py::test_range_below_the_logs_start_is_refused_with_the_number_of_lost_offsets"
)
def test_what_cannot_be_decided_is_refused_in_one_sentence_each(workbench) -> None:
    topic = fill_table(workbench, "refused")
    session = workbench.open_session("refused")

    def propose(*pair: int, table: tuple[str, ...] = ()) -> object:
        return propose_backfill(session, parse_request({topic: {"0": pair}}, None, None, table))

    with pytest.raises(ConfigurationError, match="the flush will read what comes after it"):
        propose(0, 7)
    with pytest.raises(ConfigurationError, match="no table="):
        propose(0, 1, table=("lake.shop.other",))
    workbench.retain_from(topic, 3)
    process = workbench.run_cli("backfill", "refused", "--range", json.dumps({topic: {"0": [1, 4]}}))
    assert (process.returncode, process.stderr.count("\n")) == (1, 1)
    assert "so [1, 3) of what is needed is gone" in process.stderr
    assert workbench.run_cli("backfill", "refused", "--from", "2026-01-01T00:00:00Z").returncode == 2


@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_backfill.py::test_later_records_that_are_gone_are_named_and_nothing_is_written"
)
def test_later_records_that_the_topic_lost_are_named_and_nothing_is_written(workbench) -> None:
    topic = fill_table(workbench, "lost")
    workbench.run_spark_sql("DELETE FROM lake.shop.lost")
    session = workbench.open_session("lost")
    planned = propose_backfill(session, parse_request({topic: {"0": [0, 4]}}, None, None)).backfill
    cut = session.commits.start_branch

    def flush_before_branch(*given) -> None:
        session.commits.start_branch = cut
        workbench.produce(topic, build_change(1, "newest", "a"), build_change(3, "newest"))
        workbench.flush("lost")
        workbench.retain_from(topic, 7)
        cut(*given)

    session.commits.start_branch = flush_before_branch
    with pytest.raises(PositionLost, match=r"later offsets, which decide .* so \[6, 7\) of what is needed is gone"):
        apply_backfill(session, planned, print)
    assert read_names(workbench, "shop.lost") == {(1, "a"): "newest", (3, None): "newest"}
