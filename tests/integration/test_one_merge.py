"""Queues of three batches in Iceberg, in every mode: merged as one, and one by one, they leave the same rows."""

import random
from typing import Any

import pytest
from tidegate.errors import AuditFailed
from tidegate.flush.clean_up import clean_up
from tidegate.flush.merge import merge
from tidegate.flush.merge_queue import group_by_table, merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage

KEY = {"fields": ["Id"], "schema": "Id BIGINT"}
SCHEMA = "Id BIGINT, a STRING, B STRING, lsn INT, at TIMESTAMP"
GROUPS = {"sequence_groups": {"lsn": ["a"]}}
TABLES: dict[str, dict[str, Any]] = {
    "Upsert": {},
    "Log": {"upsert": False, "delete": False},
    "Deletes": {"upsert": False, "delete": True},
    "Soft": {"deletes": "soft"},
    "Sequenced": {"sequence_by": ["lsn"]},
    "SequencedSoft": {"sequence_by": ["lsn"], "deletes": "soft"},
    "Partial": {"partial_updates": True},
    "Groups": {"partial_updates": GROUPS, "deletes": "soft"},
    "History": {"history": "scd2", "sequence_by": ["at", "lsn"]},
}
BATCHES, RECORDS = 3, 24


def make_batch(chance: random.Random, number: int) -> list[tuple[Any, ...]]:
    """Records of few keys, each by any partition: in the second partition offsets are lower. One is no row."""
    records: list[tuple[Any, ...]] = []
    for place in range(RECORDS):
        key = chance.randrange(6)
        texts = {name: chance.choice([None, f"{name}{number}-{place}"]) for name in ("a", "B")}
        at = f"2026-01-0{chance.randrange(1, 6)}T00:00:00Z"
        value = {"Id": key, **texts, "lsn": chance.choice([1, 2, 3]), "at": at}
        is_delete = chance.random() < 0.25
        records.append(({"Id": key}, None if is_delete else value, {"partition": place % 4 == 0}))
    return [*records, ({"Id": 1}, b"no JSON", {"partition": 1})]


def write_pipeline(workbench: Any, name: str, topic: str) -> None:
    tables = [{"name": f"lake.{name}.{table}", **options} for table, options in TABLES.items()]
    source = {"errors": {"tolerance": "all", "max_per_batch": 9}, "start": "earliest"}
    workbench.pipeline(name, [topic], key=KEY, value={"schema": SCHEMA}, tables=tables, source=source)


def stage_batch(workbench: Any, name: str) -> list[list[Any]]:
    """The queues of all tables, with what was staged now."""
    session = workbench.open_session(name)
    return group_by_table(stage(session, plan(session)))


def read_all(workbench: Any, name: str) -> dict[str, list[dict[str, Any]]]:
    rows = {table: workbench.read_rows(f"{name}.{table}") for table in TABLES}
    # not at which sequence: of a delete without one it may be that of an upsert behind it in the same merge, whose row
    # stands at that sequence itself, so that no later record is decided otherwise
    deletes = {table: workbench.read_rows(f"{name}.{table}_deletes") for table in ("Sequenced", "SequencedSoft")}
    return rows | {f"{table} deletes": sorted(row["Id"] for row in remembered) for table, remembered in deletes.items()}


def read_letters(workbench: Any, name: str) -> list[tuple[Any, ...]]:
    letters = workbench.read_rows(f"{name}.tidegate_{name}_dead_letters")
    return sorted((row["table"].rpartition(".")[2], row["batch"], row["offset"]) for row in letters)


@pytest.mark.repeats("unit/scenarios/test_one_merge.py::test_queue_leaves_what_its_batches_leave_in_turn")
def test_queue_that_is_merged_as_one_leaves_what_its_batches_leave_in_turn(workbench) -> None:
    topic, chance = workbench.topic(2), random.Random(59)
    for name in ("one", "turn"):
        write_pipeline(workbench, name, topic)
    queues: dict[str, list[list[Any]]] = {}
    for number in range(1 + BATCHES):
        workbench.produce(topic, *make_batch(chance, number))
        for name in ("one", "turn"):
            queues[name] = stage_batch(workbench, name)
            if number == 0:
                workbench.drain(name)
    session = workbench.open_session("one")
    for queue in queues["one"]:
        before = len(workbench.load_iceberg(queue[0].table.removeprefix("lake.")).snapshots())
        (published,) = merge_queue(session, queue).published
        after = workbench.load_iceberg(queue[0].table.removeprefix("lake."))
        assert (published.batch, published.batches, len(after.snapshots())) == (BATCHES + 1, BATCHES, before + 1)
        assert after.metadata.refs["tidegate_one"].snapshot_id == after.current_snapshot().snapshot_id
    for queue in queues["turn"]:
        assert [merge(workbench.open_session("turn"), batch).batches for batch in queue] == [1] * BATCHES
    assert read_all(workbench, "one") == read_all(workbench, "turn")
    assert read_letters(workbench, "one") == read_letters(workbench, "turn")
    assert {batch for _, batch, _ in read_letters(workbench, "one")} == set(range(1, BATCHES + 2))
    history = session.history.read_history("lake.one.tidegate_one_batches", 100)
    rows = {row["batch"]: row for row in history if row["table"] == "lake.one.Upsert"}
    assert [rows[n]["inserted"] + rows[n]["updated"] + rows[n]["deleted"] > 0 for n in (2, 3, 4)] == [
        False,
        False,
        True,
    ]
    assert len({rows[n]["snapshot_id"] for n in (2, 3, 4)}) == 1
    clean_up(session)
    assert workbench.list_data_files("one.Soft_one_tmp") == []
    for name in ("one", "turn"):  # and once more, from where both have come to
        workbench.produce(topic, *make_batch(random.Random(60), 9)) if name == "one" else None
        workbench.drain(name)
    assert read_all(workbench, "one") == read_all(workbench, "turn")


@pytest.mark.repeats(
    "unit/scenarios/test_truncates.py::test_table_equals_the_model_after_any_runs_of_one_or_two_clocks"
)
def test_truncates_in_a_queue_remove_what_lies_before_the_last_of_them(workbench) -> None:
    topic = workbench.topic(1)
    tables = [{"name": f"lake.emptied.{name}"} for name in ("Orders", "other")]
    value = {"format": "debezium-json", "schema": "id BIGINT, name STRING", "truncate": "apply"}
    workbench.pipeline("emptied", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value=value, tables=tables)
    truncate = (None, {"op": "t", "before": None, "after": None, "source": {"ts_ms": 1}})

    def build(id: int, name: str) -> tuple[Any, ...]:
        return {"id": id}, {"op": "c", "before": None, "after": {"id": id, "name": name}, "source": {"ts_ms": 1}}

    workbench.produce(topic, build(1, "old"), build(2, "old"))
    workbench.drain("emptied")
    for batch in ([build(3, "x"), build(4, "x")], [truncate, build(4, "y"), truncate, build(5, "y")], [build(6, "z")]):
        workbench.produce(topic, *batch)
        queues = stage_batch(workbench, "emptied")
    session = workbench.open_session("emptied")
    (published,) = merge_queue(session, queues[0]).published
    assert (published.written_as, published.batches, published.deleted) == ("truncate", 3, 2)
    assert workbench.read_rows("emptied.Orders") == [{"id": 5, "name": "y"}, {"id": 6, "name": "z"}]
    assert [merge(session, batch).batches for batch in queues[1]] == [1, 1, 1]
    assert workbench.read_rows("emptied.other") == workbench.read_rows("emptied.Orders")


@pytest.mark.repeats(
    "unit/tidegate/table/test_batch_queue.py::test_batches_ahead_of_one_that_breaks_an_audit_come_in_one_by_one"
)
def test_batches_ahead_of_one_that_breaks_an_audit_are_published(workbench) -> None:
    topic = workbench.topic(2)
    tables = [{"name": f"lake.judged.{name}", "audits": ["name <> 'bad'"]} for name in ("Orders", "other")]
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, name STRING"}
    workbench.pipeline("judged", [topic], key=key, value=value, tables=tables)
    for name, ids in (("first", (0, 1)), ("second", (0, 1)), ("bad", (0, 1)), ("last", (2, 3))):
        workbench.produce(topic, *(({"id": n}, {"id": n, "name": name}, {"partition": n % 2}) for n in ids))
        queues = stage_batch(workbench, "judged")
    result = merge_queue(workbench.open_session("judged"), queues[0])
    assert [batch.batch for batch in result.published] == [1, 2]
    assert isinstance(result.failure, AuditFailed)
    assert "batch=3: audit=name <> 'bad' does not hold: rows=2" in str(result.failure)
    assert [row["name"] for row in workbench.read_rows("judged.Orders")] == ["second", "second"]
    workbench.produce(topic, *(({"id": n}, {"id": n, "name": "good"}, {"partition": n}) for n in (0, 1)))
    workbench.pipeline("judged", [topic], key=key, value=value, tables=[{"name": t["name"]} for t in tables])
    workbench.drain("judged")
    names = {row["id"]: row["name"] for row in workbench.read_rows("judged.Orders")}
    assert names == {0: "good", 1: "good", 2: "last", 3: "last"}


@pytest.mark.repeats("unit/tidegate/table/test_batch_queue.py::test_audit_is_asked_of_the_whole_queue")
def test_audit_of_a_queue_looks_at_what_its_merge_makes_visible(workbench) -> None:
    """A row that a later batch of the queue replaces was never in the table."""
    topic = workbench.topic(1)
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, name STRING"}
    tables = [{"name": "lake.judged.Whole", "audits": ["name <> 'bad'"]}, {"name": "lake.judged.rest"}]
    workbench.pipeline("whole", [topic], key=key, value=value, tables=tables)
    for name in ("first", "bad", "last"):
        workbench.produce(topic, ({"id": 1}, {"id": 1, "name": name}))
        queues = stage_batch(workbench, "whole")
    (published,) = merge_queue(workbench.open_session("whole"), queues[0]).published
    assert (published.batch, published.batches) == (3, 3)
    assert workbench.read_rows("judged.Whole") == [{"id": 1, "name": "last"}]
