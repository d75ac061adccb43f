"""Direct batches on real components: one job reads and merges them. Batches with unusual records are staged instead."""

from typing import Any

import pytest
from conftest import build_debezium_event
from crash.points import Point
from crash.trial import Trial
from tidegate.errors import BadRecord, NothingToDo

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING, `a {b}` DOUBLE"}
DIRECT = {"direct": "auto"}
FIRST = [(1, "a"), (2, "b"), (1, "c"), (2, None), (3, "{d}"), (4, None), (5, "`e`"), (1, "f")]
LATER = [(3, None), (5, "g"), (6, "h"), (9, None)]
MODES: dict[str, tuple[dict[str, Any], list[tuple[int, str]]]] = {
    "both": ({}, [(1, "f"), (5, "g"), (6, "h")]),
    "upsert": ({"delete": False}, [(1, "f"), (2, "b"), (3, "{d}"), (5, "g"), (6, "h")]),
    "append": (
        {"upsert": False, "delete": False},
        [(1, "a"), (1, "c"), (1, "f"), (2, "b"), (3, "{d}"), (5, "`e`"), (5, "g"), (6, "h")],
    ),
}


def build_records(changes: list[tuple[int, str | None]]) -> list[tuple[Any, Any]]:
    return [({"id": id}, None if name is None else {"id": id, "name": name, "a {b}": id / 2}) for id, name in changes]


def read_standing_rows(workbench: Any, table: str) -> list[tuple[int, str, float]]:
    return sorted((row["id"], row["name"], row["a {b}"]) for row in workbench.read_rows(table))


@pytest.mark.parametrize("mode", MODES)
def test_direct_batches_leave_the_rows_of_staged_ones_and_stage_nothing(workbench, mode: str) -> None:
    """The column's name, and texts, have the signs in them that PySpark reads as its own."""
    settings, expected = MODES[mode]
    topic = workbench.topic()
    workbench.pipeline("direct", [topic], key=KEY, value=VALUE, table=settings, merge=DIRECT)
    workbench.pipeline("staged", [topic], key=KEY, value=VALUE, table=settings)
    for changes in (FIRST, LATER):
        workbench.produce(topic, *build_records(changes))
        for name in ("direct", "staged"):
            workbench.flush(name)
    assert read_standing_rows(workbench, "shop.direct") == read_standing_rows(workbench, "shop.staged")
    assert [(id, name) for id, name, _ in read_standing_rows(workbench, "shop.direct")] == expected
    assert workbench.committed("direct") == workbench.committed("staged")
    assert not workbench.exists("shop.direct_direct_tmp")
    assert workbench.exists("shop.staged_staged_tmp")
    direct, staged = (workbench.load_iceberg(f"shop.{name}").metadata for name in ("direct", "staged"))
    summaries = {name: metadata.current_snapshot().summary.additional_properties for name, metadata in
            (("direct", direct), ("staged", staged))}  # fmt: skip
    for word in ("position", "timestamps", "valid-through-ts", "batch"):
        assert summaries["direct"][f"tidegate.direct.{word}"] == summaries["staged"][f"tidegate.staged.{word}"], word
        assert direct.properties[f"tidegate.direct.{word}"] == summaries["direct"][f"tidegate.direct.{word}"], word
    assert [ref for ref in direct.refs if ref.startswith("tidegate_direct_")] == []
    history = [{row["table"]: row for row in _read_history(workbench, name)} for name in ("direct", "staged")]
    counts = ("span", "read", "staged", "superseded", "ignored", "inserted", "updated", "deleted", "written_as")
    direct_batch, staged_batch = history[0]["lake.shop.direct"], history[1]["lake.shop.staged"]
    assert {c: direct_batch[c] for c in counts if c != "written_as"} == {
        c: staged_batch[c] for c in counts if c != "written_as"
    }
    if mode == "both":
        check_delete_files(workbench, topic)
    with pytest.raises(NothingToDo):
        workbench.flush("direct")


def check_delete_files(workbench: Any, topic: str) -> None:
    """Spark writes a data file's deletes together with the older ones; what it replaced does not stay beside them.

    Another direct batch deletes in the files of both batches before it, in the first one's for the second time.
    """
    workbench.produce(topic, *build_records([(1, "new"), (6, None)]))
    workbench.flush("direct")
    assert [(id, name) for id, name, _ in read_standing_rows(workbench, "shop.direct")] == [(1, "new"), (5, "g")]
    table = workbench.load_iceberg("shop.direct")
    deletes = table.inspect.delete_files().to_pylist()
    assert sum(file["record_count"] for file in deletes) == 4  # 1, 3 and 5 as they were first, and 6
    assert max(len(task.delete_files) for task in table.scan().plan_files()) == 1
    summary = table.current_snapshot().summary.additional_properties
    assert (int(summary["total-delete-files"]), int(summary["total-position-deletes"])) == (len(deletes), 4)


def _read_history(workbench: Any, name: str) -> list[dict[str, Any]]:
    rows = workbench.read_rows(f"shop.tidegate_{name}_batches")
    return sorted(rows, key=lambda row: row["batch"])


def test_odd_spelling_is_read_by_a_staged_batch_and_the_next_ones_are_staged_at_once(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("odd", [topic], key=KEY, value=VALUE, merge=DIRECT)
    workbench.produce(topic, *build_records(FIRST), ({"id": 7}, '{"ID": 7, "Name": "x", "a {b}": 1.5}'))
    workbench.flush("odd")
    expected = [(1, "f", 0.5), (3, "{d}", 1.5), (5, "`e`", 2.5), (7, "x", 1.5)]
    assert read_standing_rows(workbench, "shop.odd") == expected
    assert workbench.load_iceberg("shop.odd").metadata.properties["tidegate.odd.staged-instead"].startswith("1 ")
    workbench.produce(topic, *build_records(LATER))
    workbench.flush("odd")
    assert read_standing_rows(workbench, "shop.odd") == [(1, "f", 0.5), (5, "g", 2.5), (6, "h", 3.0), (7, "x", 1.5)]
    staged = workbench.load_iceberg("shop.odd_odd_tmp").metadata
    assert staged.properties["tidegate.unusual-batch"] == "1"


def test_change_events_are_merged_directly_and_one_that_keeps_a_value_is_staged(workbench) -> None:
    topic = workbench.topic()
    value = {"format": "debezium-json", "schema": "id BIGINT, name STRING, note STRING"}
    workbench.pipeline("events", [topic], key=KEY, value=value, merge=DIRECT)

    def build_event(op: str, before: Any, after: Any) -> tuple[Any, Any]:
        return {"id": (after or before)["id"]}, build_debezium_event(op, before, after)

    rows = {id: {"id": id, "name": f"n{id}", "note": "long"} for id in (1, 2, 3)}
    workbench.produce(topic, *(build_event("c", None, row) for row in rows.values()))
    workbench.produce(
        topic, build_event("u", rows[1], {**rows[1], "name": "new"}), build_event("d", rows[2], None), ({"id": 2}, None)
    )
    workbench.flush("events")
    assert workbench.read_rows("shop.events") == [{**rows[1], "name": "new"}, rows[3]]
    assert not workbench.exists("shop.events_events_tmp")
    partial_row = {"id": 3, "name": "newer", "note": "__debezium_unavailable_value"}
    workbench.produce(topic, build_event("u", None, partial_row), build_event("u", None, {**rows[1], "name": "last"}))
    workbench.flush("events")
    assert workbench.read_rows("shop.events") == [{**rows[1], "name": "last"}, {**rows[3], "name": "newer"}]
    assert workbench.load_iceberg("shop.events").metadata.properties["tidegate.events.staged-instead"].startswith("2 ")


def test_bad_record_ends_a_direct_batch_before_anything_is_published_or_is_set_aside_alone(workbench) -> None:
    """The table takes no NULL, and the bad record has one."""
    topic = workbench.topic()
    value = {"schema": "id BIGINT, name STRING NOT NULL, `a {b}` DOUBLE NOT NULL"}
    workbench.pipeline("bad", [topic], key=KEY, value=value, merge=DIRECT)
    workbench.produce(topic, *build_records(FIRST))
    workbench.flush("bad")
    before = read_standing_rows(workbench, "shop.bad"), workbench.committed("bad")
    snapshots = len(workbench.load_iceberg("shop.bad").metadata.snapshots)
    bad = ({"id": 1}, {"id": 1, "name": None, "a {b}": 3})
    workbench.produce(topic, *build_records(LATER), bad, ({"id": 8}, '{"id": 8, "name": "x", "a {b}": "no number"}'))
    with pytest.raises(BadRecord, match=f"topic={topic} partition=. offset="):
        workbench.flush("bad")
    table = workbench.load_iceberg("shop.bad")
    assert (read_standing_rows(workbench, "shop.bad"), workbench.committed("bad")) == before
    assert [ref for ref in table.metadata.refs if ref.startswith("tidegate_bad_")] == []
    assert len(table.metadata.snapshots) >= snapshots
    aside = {"errors": {"tolerance": "all"}}
    workbench.pipeline("bad", [topic], key=KEY, value=value, source=aside, merge=DIRECT)
    workbench.flush("bad")
    assert read_standing_rows(workbench, "shop.bad") == [(1, "f", 0.5), (5, "g", 2.5), (6, "h", 3.0)]
    letters = workbench.read_rows("shop.tidegate_bad_dead_letters")
    assert sorted((letter["stage"], letter["key"]) for letter in letters) == [
        ("value", b'{"id": 1}'), ("value", b'{"id": 8}'),
    ]  # fmt: skip


def test_table_whose_merges_rewrite_files_is_merged_from_staged_rows(workbench) -> None:
    topic = workbench.topic()
    copies = {"create": {"properties": {"write.merge.mode": "copy-on-write"}}}
    workbench.pipeline("copied", [topic], key=KEY, value=VALUE, table=copies, merge=DIRECT)
    for changes in (FIRST, LATER):
        workbench.produce(topic, *build_records(changes))
        workbench.flush("copied")
    assert [(id, name) for id, name, _ in read_standing_rows(workbench, "shop.copied")] == MODES["both"][1]
    summaries = [s.summary.additional_properties for s in workbench.load_iceberg("shop.copied").metadata.snapshots]
    assert [summary.get("tidegate.direct") for summary in summaries if "tidegate.written-as" in summary] == [
        "true",
        None,
    ]
    assert int(summaries[-1]["deleted-data-files"]) > 0
    (later,) = _read_history(workbench, "copied")[1:]
    assert [later[name] for name in ("read", "staged", "inserted", "updated", "deleted")] == [4, 4, 1, 1, 1]


FAULTS = {
    "nothing is read": ("merge_direct/job.decoded:inside:1", "killed"),
    "the job made its snapshot and the session ended": ("merge_direct/job.statement:inside:1", "raised"),
    "the job made its snapshot and its counts are lost": ("merge_direct/engine.run_direct:after:1", "killed"),
    "the snapshot lacks the times of its records": ("merge_direct/commits.reparent:before:1", "killed"),
    "the snapshot tells its times and no answer came": ("merge_direct/commits.reparent:after:1", "lost"),
    "the publish was not sent": ("merge_direct/commits.publish:before:1", "killed"),
    "the publish took place and no answer came": ("merge_direct/commits.publish:after:1", "lost"),
    "all is published and the run ended": ("merge_direct/commits.publish:after:1", "killed"),
}


# What the real session, snapshot and commit leave behind. tests/unit/test_failpoints.py has each fault at each point.
COVERING_FAULTS = (
    "the job made its snapshot and the session ended",
    "the snapshot tells its times and no answer came",
    "the publish took place and no answer came",
)


@pytest.mark.parametrize(("table", "faults"), [("last", tuple(FAULTS)), ("all", COVERING_FAULTS)], ids=["last", "all"])
def test_fault_in_a_direct_batch_is_recovered_by_the_next_run(
    workbench, runners, table: str, faults: tuple[str, ...]
) -> None:
    """Each fault has its own batch over two partitions. The append-only table shows a record that came twice."""
    trial = Trial(workbench, runners, "later", table, direct=True)
    trial.produce_batch(1)
    workbench.drain("later")
    trial.check()
    for number, (point, kind) in enumerate(map(FAULTS.__getitem__, faults), 2):
        trial.produce_batch(number)
        trial.flush_with_fault(Point.parse(point), kind)
