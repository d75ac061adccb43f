"""approve on real Kafka, Spark and Iceberg: what a rule holds is published only after somebody approved its diff."""

import json
from typing import Any

import pytest
from crash.points import Point
from tidegate.errors import AuditFailed, HeldForApproval, NothingToDo
from tidegate.flush.flush import flush
from tidegate.reprocess.verify import verify_table

KEY = {"fields": ["Id", "part"], "schema": "Id BIGINT, part STRING"}
VALUE = {"schema": "Id BIGINT, part STRING, note STRING, At TIMESTAMP, tags MAP<STRING, INT>, seq BIGINT"}
NUMBERS = range(6)
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "soft": {"deletes": "soft", "deleted_column": "Gone"},
    "ordered": {"sequence_by": ["seq"]},
    "partial": {"partial_updates": True},
    "versions": {"history": "scd2", "sequence_by": ["seq"]},
    "named": {"branch": "staging"},
}


def change(number: int, part: str | None = "a", **values: Any) -> tuple[Any, Any]:
    key = {"Id": number, "part": part}
    at = "2026-01-02T03:04:05.123456Z"
    return key, {**key, "note": f"note {number}", "At": at, "tags": {"b": 1, "a": number}, "seq": number, **values}


def delete(number: int, part: str | None = "a") -> tuple[Any, Any]:
    return {"Id": number, "part": part}, None


def read_keys(workbench: Any, table: str, branch: str = "main") -> set[tuple[int, str | None, str]]:
    """The keys that are there, with their notes: without soft deletes and former versions."""
    loaded = workbench.load_iceberg(table)
    rows = loaded.scan(snapshot_id=loaded.metadata.refs[branch].snapshot_id).to_arrow().to_pylist()
    there = [row for row in rows if not row.get("Gone") and row.get("is_current") is not False]
    return {(row["Id"], row["part"], row["note"]) for row in there}


def hold(workbench: Any, name: str) -> str:
    with pytest.raises(HeldForApproval) as caught:
        flush(workbench.open_session(name))
    return str(caught.value)


def list_branches(workbench: Any, table: str, name: str) -> list[str]:
    return [ref for ref in workbench.load_iceberg(table).metadata.refs if ref.startswith(f"tidegate_{name}_")]


@pytest.mark.repeats(
    "test_flood_of_deletes_waits_until_it_is_approved[plain]", "soft", "ordered", "partial", "named", "versions"
)
@pytest.mark.parametrize("shape", SHAPES)
def test_flood_of_deletes_waits_until_it_is_approved(workbench: Any, shape: str) -> None:
    topic = workbench.topic(partitions=2)
    name, table = f"flood{shape}", f"shop.Flood{shape}"
    branch = SHAPES[shape].get("branch", "main")
    options = {**SHAPES[shape], "name": f"lake.{table}", "approve": {"deletes_over": "25%"}}
    workbench.pipeline(name, [topic], key=KEY, value=VALUE, table=options)
    workbench.produce(topic, *(change(number, part) for number in NUMBERS for part in ("a", None)))
    workbench.flush(name)
    before = read_keys(workbench, table, branch)
    assert len(before) == 12
    # three of twelve are no more than a quarter; a row that stays as it is does not count
    workbench.produce(topic, delete(0), delete(1), delete(2), change(3), change(4, None, note="new", seq=99))
    if shape in ("ordered", "versions"):
        workbench.produce(topic, delete(99))
    workbench.flush(name)
    after = read_keys(workbench, table, branch)
    changed = {(0, "a"), (1, "a"), (2, "a"), (4, None)}
    assert after == {row for row in before if row[:2] not in changed} | {(4, None, "new")}
    workbench.produce(topic, delete(0, None), delete(1, None), delete(2, None), change(7, note="came"))
    message = hold(workbench, name)
    assert "held for approval: deletes_over=25%, inserted=1 updated=0 deleted=3 rows=4 table_rows=9" in message
    assert read_keys(workbench, table, branch) == after
    loaded = workbench.load_iceberg(table)
    rows_there = loaded.scan(snapshot_id=loaded.metadata.refs[branch].snapshot_id).count()
    if shape != "plain":  # verified where the rows of a mode are more than the last ones
        found = verify_table(workbench.open_session(name), f"lake.{table}")
        assert (found.equal, found.wrong, found.unknowable) == (rows_there, 0, 0), "what waits is not in the table"
    shown = workbench.run_cli("approve", name, "--json")
    assert shown.returncode == 1
    (part,) = json.loads(shown.stdout)["tables"]
    assert (part["inserted"], part["deleted"], part["table_rows"]) == (1, 3, 9)
    (held_branch,) = list_branches(workbench, table, name)
    expected = {row for row in after if row[:2] not in {(0, None), (1, None), (2, None)}} | {(7, "a", "came")}
    assert read_keys(workbench, table, held_branch) == expected
    rows = workbench.run_spark_sql(f"SELECT count(1) FROM lake.{table} VERSION AS OF '{held_branch}'")
    assert rows[0][0] >= len(expected)
    done = workbench.run_cli("approve", name, "--yes")
    assert (done.returncode, "the next flush publishes the batch" in done.stdout) == (0, True), done.stderr
    assert read_keys(workbench, table, branch) == after
    workbench.flush(name)
    assert read_keys(workbench, table, branch) == expected
    refs = set(workbench.load_iceberg(table).metadata.refs)
    assert refs == {"main", branch, f"tidegate_{name}"}


@pytest.mark.repeats("unit/scenarios/test_approve.py::test_rules_that_change_are_asked_anew")
def test_each_rule_holds_and_the_others_do_not(workbench: Any) -> None:
    topic = workbench.topic()

    def describe(**approve: Any) -> None:
        table = {"name": "lake.shop.Ruled", "approve": approve}
        workbench.pipeline("ruled", [topic], key=KEY, value=VALUE, table=table)

    describe(rows_over=100, when="table_rows > 0 AND (deleted + updated) / table_rows > 0.5")
    workbench.produce(topic, *map(change, NUMBERS))
    workbench.drain("ruled")
    workbench.produce(topic, delete(0), change(1, note="x"), change(2, note="x"), change(3, note="x"))
    assert "when=table_rows > 0 AND" in hold(workbench, "ruled")
    describe(rows_over=3)
    assert "rows_over=3, inserted=0 updated=3 deleted=1 rows=4 table_rows=6" in hold(workbench, "ruled")
    describe(deletes_over=0)
    assert "deletes_over=0" in hold(workbench, "ruled")
    describe(when="CAST(NULL AS BOOLEAN)")
    assert "when=CAST(NULL AS BOOLEAN)" in hold(workbench, "ruled"), "what is unknown is asked"
    describe(when="1 / (deleted - 1) > 0")
    with pytest.raises(AuditFailed, match="DIVIDE_BY_ZERO"):
        flush(workbench.open_session("ruled"))
    describe(schema="any", deletes_over=5)
    workbench.drain("ruled")
    assert len(read_keys(workbench, "shop.Ruled")) == 5


@pytest.mark.repeats("unit/scenarios/test_approve.py::test_change_of_the_schema_is_held_before_the_table_has_it")
def test_schema_is_changed_only_after_its_approval(workbench: Any) -> None:
    topic = workbench.topic()
    table = {"name": "lake.shop.Grown", "approve": {"schema": "any", "deletes_over": 0}}
    workbench.pipeline("grown", [topic], key=KEY, value=VALUE, table=table)
    workbench.produce(topic, *map(change, NUMBERS))
    workbench.drain("grown")
    names = [field.name for field in workbench.load_iceberg("shop.Grown").schema().fields]
    wider = {"schema": f"{VALUE['schema']}, extra STRUCT<A: TIMESTAMP>"}
    workbench.pipeline("grown", [topic], key=KEY, value=wider, table=table)
    workbench.produce(topic, change(1, extra={"A": "2026-01-02T03:04:05.123456Z"}), delete(2), change(3))
    assert "schema=any" in hold(workbench, "grown")
    assert [field.name for field in workbench.load_iceberg("shop.Grown").schema().fields] == names
    assert workbench.run_cli("approve", "grown", "--yes").returncode == 0
    # the rows are asked by themselves; a column that is new and empty changes no row
    assert "deletes_over=0, inserted=0 updated=1 deleted=1 rows=2" in hold(workbench, "grown")
    assert [field.name for field in workbench.load_iceberg("shop.Grown").schema().fields] == [*names, "extra"]
    assert workbench.run_cli("approve", "grown", "--yes").returncode == 0
    workbench.drain("grown")
    assert len(read_keys(workbench, "shop.Grown")) == 5


@pytest.mark.repeats("unit/scenarios/test_approve.py::test_diff_that_main_has_changed_meanwhile_is_asked_again")
def test_diff_is_asked_again_only_if_another_writer_has_changed_it(workbench: Any) -> None:
    topic = workbench.topic()
    table = {"name": "lake.shop.Moved", "approve": {"deletes_over": 1}}
    workbench.pipeline("moved", [topic], key=KEY, value=VALUE, table=table)
    workbench.produce(topic, *map(change, NUMBERS))
    workbench.drain("moved")
    workbench.produce(topic, delete(0), delete(1))
    hold(workbench, "moved")
    assert workbench.run_cli("approve", "moved", "--yes").returncode == 0
    workbench.run_spark_sql("UPDATE lake.shop.Moved SET note = 'others' WHERE Id = 0")
    assert "held for approval" in hold(workbench, "moved")
    assert workbench.run_cli("approve", "moved", "--yes").returncode == 0
    workbench.run_spark_sql("UPDATE lake.shop.Moved SET note = 'others' WHERE Id = 5")
    compaction = "CALL lake.system.rewrite_data_files(table => 'shop.Moved', options => map('rewrite-all', 'true'))"
    workbench.run_spark_sql(compaction)
    workbench.drain("moved")
    assert read_keys(workbench, "shop.Moved") == {(n, "a", f"note {n}") for n in (2, 3, 4)} | {(5, "a", "others")}


@pytest.mark.repeats("unit/scenarios/test_approve.py::test_held_table_holds_only_itself_even_when_its_queue_is_full")
def test_held_table_waits_alone_and_outlives_maintenance(workbench: Any) -> None:
    topic = workbench.topic()
    tables = [
        {"name": "lake.shop.Guarded", "approve": {"deletes_over": 1}, "max_pending": 2},
        {"name": "lake.shop.Free"},
    ]
    kept = {"keep_snapshots": 1, "keep_snapshots_for": "1s"}
    workbench.pipeline("twofold", [topic], key=KEY, value=VALUE, tables=tables, maintenance=kept)
    workbench.produce(topic, *map(change, NUMBERS))
    workbench.drain("twofold")
    workbench.produce(topic, delete(0), delete(1), delete(2))
    workbench.flush("twofold")
    for number in (10, 11, 12):
        workbench.produce(topic, change(number))
        workbench.flush("twofold")
    assert {row[0] for row in read_keys(workbench, "shop.Free")} == {3, 4, 5, 10, 11, 12}
    assert {row[0] for row in read_keys(workbench, "shop.Guarded")} == set(NUMBERS)
    assert workbench.run_cli("maintain", "twofold").returncode == 0
    (branch,) = list_branches(workbench, "shop.Guarded", "twofold")
    assert {row[0] for row in read_keys(workbench, "shop.Guarded", branch)} == {3, 4, 5}
    status = json.loads(workbench.run_cli("status", "twofold", "--json").stdout)["pipelines"][0]
    assert [table["held"] and table["held"]["deleted"] for table in status["tables"]] == [3, None]
    assert workbench.run_cli("reject", "twofold", "--yes").returncode == 0
    with pytest.raises(NothingToDo, match="rejected by"):
        flush(workbench.open_session("twofold"))
    assert workbench.run_cli("approve", "twofold", "--yes").returncode == 0
    workbench.drain("twofold")
    assert read_keys(workbench, "shop.Guarded") == read_keys(workbench, "shop.Free")


@pytest.mark.repeats("unit/scenarios/test_approve.py::test_rejected_batch_is_skipped_by_a_move_of_the_position")
def test_rejected_batch_is_left_out(workbench: Any) -> None:
    topic = workbench.topic()
    table = {"name": "lake.shop.Left", "approve": {"deletes_over": 1}}
    workbench.pipeline("left", [topic], key=KEY, value=VALUE, table=table)
    workbench.produce(topic, *map(change, NUMBERS))
    workbench.drain("left")
    workbench.produce(topic, delete(0), delete(1))
    hold(workbench, "left")
    workbench.produce(topic, change(9))
    done = workbench.run_cli("reject", "left", "--skip", "--yes")
    assert (done.returncode, "skips 2 offsets" in done.stdout) == (0, True), done.stderr
    workbench.drain("left")
    assert {row[0] for row in read_keys(workbench, "shop.Left")} == {*NUMBERS, 9}
    assert set(workbench.load_iceberg("shop.Left").metadata.refs) == {"main", "tidegate_left"}


# what Spark reads of a branch that is not there
@pytest.mark.repeats(
    "unit/scenarios/test_named_branch.py::test_batch_of_a_branch_that_is_not_there_yet_is_compared_with_main"
)
def test_batch_of_a_branch_that_is_not_there_yet_is_compared_with_main(workbench: Any) -> None:
    topic, table = workbench.topic(partitions=2), "shop.Begun"
    workbench.run_spark_sql(f"CREATE TABLE lake.{table} ({VALUE['schema']})")
    workbench.run_spark_sql(f"INSERT INTO lake.{table} (Id, part, note) VALUES (0, 'a', 'main'), (9, NULL, 'main')")
    before = read_keys(workbench, table)
    options = {"name": f"lake.{table}", "branch": "staging", "approve": {"rows_over": 0}}
    workbench.pipeline("begun", [topic], key=KEY, value=VALUE, table=options)
    workbench.produce(topic, change(0), change(1), delete(9, None))
    done = workbench.run_cli("plan", "begun", "--preview", "--json")
    assert done.returncode == 0, done.stderr
    counts = {"inserted": 1, "updated": 1, "deleted": 1, "rows": 3, "table_rows": 2}
    assert json.loads(done.stdout)["tables"][0]["counts"] == counts
    assert "inserted=1 updated=1 deleted=1 rows=3 table_rows=2" in hold(workbench, "begun")
    assert workbench.run_cli("approve", "begun", "--yes").returncode == 0
    workbench.drain("begun")
    assert read_keys(workbench, table, "staging") == {(0, "a", "note 0"), (1, "a", "note 1")}
    assert read_keys(workbench, table) == before


@pytest.mark.repeats("test_preview_shows_rows_and_columns_and_publishes_nothing[plain]", "soft")
@pytest.mark.parametrize("shape", ["plain", "soft"])
def test_preview_shows_rows_and_columns_and_publishes_nothing(workbench: Any, shape: str) -> None:
    topic = workbench.topic(partitions=2)
    name, table = f"seen{shape}", f"shop.Seen{shape}"
    workbench.pipeline(name, [topic], key=KEY, value=VALUE, table={**SHAPES[shape], "name": f"lake.{table}"})
    workbench.produce(topic, *map(change, NUMBERS))
    workbench.flush(name)
    before = read_keys(workbench, table)
    workbench.produce(
        topic, delete(0), change(1, note='it\'s "new"', seq=9), change(2, tags={"a": 2, "b": 1}), change(9)
    )
    done = workbench.run_cli("plan", name, "--preview", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["tables"]
    assert found["counts"] == {"inserted": 1, "updated": 1, "deleted": 1, "rows": 3, "table_rows": 6}
    columns = {entry["column"]: entry["rows"] for entry in found["columns"]}
    assert columns.items() >= {"note": 1, "seq": 1}.items()
    assert "tags" not in columns
    samples = {sample["kind"]: sample for sample in found["samples"]}
    assert json.loads(samples["updated"]["after"])["note"] == 'it\'s "new"'
    assert json.loads(samples["deleted"]["before"])["Id"] == 0
    assert "before" not in samples["inserted"]
    assert read_keys(workbench, table) == before
    assert list_branches(workbench, table, name) == []
    staged = workbench.load_iceberg(f"{table}_{name}_tmp")
    assert [word for word in staged.properties if "audit" in word] == [], "answers hold rows"
    text = workbench.run_cli("plan", name, "--preview")
    assert f"lake.{table}: batch=2 would change: inserted=1 updated=1 deleted=1 rows=3" in text.stdout
    assert "new" not in text.stdout, "rows are shown on a terminal, or to a program that asks"
    workbench.drain(name)
    assert len(read_keys(workbench, table)) == 6


# (point, fault) of a flush that comes to hold a batch, then of one that publishes it; each in a process of its own
HOLDING = {
    "the branch is written and nobody knows": ("merge/engine.run:after:1", "killed"),
    "what waits was noted and no answer came": ("merge/commits.note:after:1", "lost"),
    "what waits was not noted": ("merge/commits.note:before:1", "killed"),
    "what waits was noted": ("merge/commits.note:after:1", "killed"),
}
PUBLISHING = {
    "the publish was not sent": ("merge/commits.publish:before:1", "killed"),
    "the publish took place and no answer came": ("merge/commits.publish:after:1", "lost"),
    "the publish took place": ("merge/commits.publish:after:1", "killed"),
}


@pytest.mark.repeats(
    "unit/test_failpoints.py::test_fault_at_any_point_around_a_held_batch_publishes_nothing_unapproved"
)
def test_kills_around_a_held_batch_publish_nothing_unapproved(workbench: Any, runners: Any) -> None:
    topic = workbench.topic()
    table = {"name": "lake.shop.Killed", "approve": {"deletes_over": 0}}
    workbench.pipeline("killed", [topic], key=KEY, value=VALUE, table=table)
    workbench.produce(topic, *map(change, range(20)))
    workbench.drain("killed")
    kept = set(range(20))

    def flush_with(at: str, kind: str) -> None:
        ended = runners.run(workbench.build_environment(), "flush", "killed", at=Point.parse(at), kind=kind)
        assert ended.fault_happened, f"{at} was not reached: {ended.output}"

    def read_ids() -> set[int]:
        return {row[0] for row in read_keys(workbench, "shop.Killed")}

    for number, (at, kind) in enumerate([*HOLDING.values(), *PUBLISHING.values()]):
        workbench.produce(topic, delete(number))
        if at.startswith("merge/commits.publish"):
            hold(workbench, "killed")
        else:
            flush_with(at, kind)
            assert read_ids() == kept
            assert "deleted=1" in hold(workbench, "killed")
        assert read_ids() == kept
        held_branch = json.loads(workbench.load_iceberg("shop.Killed").properties["tidegate.killed.held"])["branch"]
        assert held_branch in workbench.load_iceberg("shop.Killed").metadata.refs
        assert workbench.run_cli("approve", "killed", "--yes").returncode == 0
        if at.startswith("merge/commits.publish"):
            flush_with(at, kind)
        workbench.drain("killed")
        kept -= {number}
        assert read_ids() == kept
        assert set(workbench.load_iceberg("shop.Killed").metadata.refs) == {"main", "tidegate_killed"}


# what Spark writes beside the memory of a publish that has begun
@pytest.mark.repeats(
    "unit/scenarios/test_approve.py::"
    "test_batch_whose_publish_began_under_another_diff_cannot_be_skipped_where_deletes_are_remembered"
)
@pytest.mark.parametrize("shape", ["ordered", "versions"])
def test_batch_whose_publish_began_cannot_be_left_out(workbench: Any, runners: Any, shape: str) -> None:
    topic, name = workbench.topic(partitions=2), f"began{shape}"

    def describe(most: int) -> None:
        table = {**SHAPES[shape], "name": f"lake.shop.Began{shape}", "approve": {"deletes_over": most}}
        workbench.pipeline(name, [topic], key=KEY, value=VALUE, table=table)

    describe(9)
    workbench.produce(topic, *map(change, NUMBERS))
    workbench.drain(name)
    before = read_keys(workbench, f"shop.Began{shape}")
    workbench.produce(topic, delete(0), delete(1))
    at = Point.parse("merge/commits.publish:before:1")
    assert runners.run(workbench.build_environment(), "flush", name, at=at, kind="killed").fault_happened
    describe(1)
    hold(workbench, name)
    refused = workbench.run_cli("reject", name, "--skip", "--yes")
    assert (refused.returncode, "its publish may have begun" in refused.stderr) == (1, True), refused.stderr
    assert read_keys(workbench, f"shop.Began{shape}") == before
    assert workbench.run_cli("approve", name, "--yes").returncode == 0
    workbench.drain(name)
    assert {row[0] for row in read_keys(workbench, f"shop.Began{shape}")} == {2, 3, 4, 5}
