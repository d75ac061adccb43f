"""One pipeline, many tables, on real components: awkward routes, one read, a table that fails for a while."""

from typing import Any

import pytest
from tidegate.errors import SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.jobs.stage_job import StageJob
from tidegate.monitoring.status import read_status

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, `the type` STRING, name STRING"}
AWKWARD = 'it\'s "one" `thing` \\ {x} (1)'


def build_typed_record(id, kind, name="n"):
    return {"id": id}, {"id": id, "the type": kind, "name": name}


def read_ids(workbench, table):
    return sorted(row["id"] for row in workbench.read_rows(table))


class Counting:
    """An engine that counts the jobs that read Kafka."""

    def __init__(self, engine):
        self.engine, self.reads = engine, 0

    def run(self, job):
        self.reads += isinstance(job, StageJob)
        self.engine.run(job)


def test_records_are_routed_by_pattern_and_by_name_and_tombstones_reach_every_table(workbench) -> None:
    topic = workbench.topic()
    field = "the type"
    tables = [
        {"name": "lake.route.orders", "route": {"field": field}},
        {"name": "lake.route.some", "route": {"field": field, "pattern": "or.*|x"}},
        {"name": "lake.route.quoted", "route": {"field": field, "pattern": r"it's \"one\" `thing` \\ \{x\} \(1\)"}},
        {"name": "lake.route.of_topic", "route": {"field": "topic", "pattern": topic.replace("-", "[-]")}},
        {"name": "lake.route.both", "route": {"field": field, "pattern": ".*"}, "when": "name = 'm'"},
    ]
    workbench.pipeline("route", [topic], key=KEY, value=VALUE, tables=tables)
    kinds = ["orders", "route.orders", "ordersx", "x", "xx", AWKWARD, "' OR true --", None, "", "ORDERS", "orders\n"]
    workbench.produce(
        topic, *(build_typed_record(n, kind) for n, kind in enumerate(kinds)), build_typed_record(20, "z", "m")
    )
    deleted = range(30, 30 + len(kinds))
    workbench.produce(topic, *(build_typed_record(n, kind, "m") for n, kind in zip(deleted, kinds, strict=True)))
    workbench.produce(topic, *(({"id": n}, None) for n in deleted))
    engine = Counting(workbench.open_session("route").engine)
    flush(workbench.open_session("route", engine=engine))
    assert engine.reads == 1
    assert read_ids(workbench, "route.orders") == [0, 1]
    assert read_ids(workbench, "route.some") == [0, 2, 3]
    assert read_ids(workbench, "route.quoted") == [5]
    assert read_ids(workbench, "route.of_topic") == [*range(len(kinds)), 20]
    assert read_ids(workbench, "route.both") == [20]


@pytest.mark.repeats("test_records_are_routed_by_pattern_and_by_name_and_tombstones_reach_every_table")
def test_field_of_a_struct_routes_and_a_column_with_a_dot_stands_in_backquotes(workbench) -> None:
    topic = workbench.topic(1)
    tables = [
        {"name": "lake.nested.orders", "route": {"field": "meta.`the kind`"}},
        {"name": "lake.nested.few", "route": {"field": "META.N", "pattern": "[12]"}},
        {"name": "lake.nested.dotted", "route": {"field": "`sort.n`", "pattern": "[12]"}},
    ]
    value = {"schema": "id BIGINT, meta STRUCT<`the kind`: STRING, n: INT>, `sort.n` STRING"}
    workbench.pipeline("nested", [topic], key=KEY, value=value, tables=tables)

    def build_record(id: int, meta: Any = None, dotted: str | None = None) -> tuple[Any, Any]:
        return {"id": id}, {"id": id, "meta": meta, "sort.n": dotted}

    workbench.produce(
        topic,
        build_record(1, {"the kind": "orders", "n": 1}, "3"),
        build_record(2, {"the kind": "nested.orders"}, "2"),
        build_record(3, {"the kind": "lines", "n": 3}),
        build_record(4),
        build_record(5, {"the kind": "orders", "n": 2}),
        ({"id": 5}, None),
    )
    workbench.flush("nested")
    rows = {name: read_ids(workbench, f"nested.{name}") for name in ("orders", "few", "dotted")}
    assert rows == {"orders": [1, 2], "few": [1], "dotted": [2]}


@pytest.mark.repeats(
    "unit/tidegate/table/test_batch_queue.py::test_failing_table_queues_its_batches_while_the_other_takes_each"
)
def test_table_that_a_schema_blocks_queues_its_batches_and_takes_them_when_it_is_fixed(workbench) -> None:
    topic = workbench.topic(1)
    tables = [{"name": "lake.queue.good"}, {"name": "lake.queue.bad", "max_pending": 2}]
    workbench.pipeline("queue", [topic], key=KEY, value=VALUE, tables=tables)
    workbench.produce(topic, build_typed_record(1, "a"))
    workbench.flush("queue")
    with workbench.load_iceberg("queue.bad").update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("name", "kept")
    with workbench.load_iceberg("queue.bad").update_schema() as update:
        update.add_column("name", workbench.load_iceberg("queue.bad").schema().find_type("id"))
    for n in (2, 3):
        workbench.produce(topic, build_typed_record(n, "a"))
        with pytest.raises(SomeTablesFailed, match="incompatible change"):
            workbench.flush("queue")
    assert (read_ids(workbench, "queue.good"), read_ids(workbench, "queue.bad")) == ([1, 2, 3], [1])
    assert workbench.committed("queue") == {topic: {0: 1}}

    workbench.produce(topic, build_typed_record(4, "a"))
    process = workbench.run_cli("flush", "queue")
    assert (process.returncode, read_ids(workbench, "queue.good")) == (1, [1, 2, 3])
    assert "table=lake.queue.bad: its queue is full: waiting=2 max_pending=2" in process.stderr

    with workbench.load_iceberg("queue.bad").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("name")
    with workbench.load_iceberg("queue.bad").update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("kept", "name")
    engine = Counting(workbench.open_session("queue").engine)
    flush(workbench.open_session("queue", engine=engine))
    assert (read_ids(workbench, "queue.bad"), engine.reads) == ([1, 2, 3], 0)
    assert workbench.committed("queue") == {topic: {0: 3}}
    flush(workbench.open_session("queue", engine=engine))
    assert (read_ids(workbench, "queue.bad"), read_ids(workbench, "queue.good")) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_records_name_their_tables_and_awkward_values_never_become_names(workbench) -> None:
    """Their key columns have a prefix."""
    topic = workbench.topic(1)
    key = {"fields": ["id"], "schema": "id BIGINT NOT NULL", "prefix": "k_"}
    value = {"schema": "id BIGINT, ns STRING, `the type` STRING"}
    tables = [{"name": "lake.{ns}.{the type}_v1", "namespaces": ["named", "archive"]}]
    workbench.pipeline("named", [topic], key=key, value=value, tables=tables)

    def build_row(id, namespace, kind):
        return {"id": id}, {"id": id, "ns": namespace, "the type": kind}

    workbench.produce(
        topic, build_row(1, "named", "Order"), build_row(2, "archive", "order"), build_row(3, "named", "line")
    )
    engine = Counting(workbench.open_session("named").engine)
    flush(workbench.open_session("named", engine=engine))
    assert (read_ids(workbench, "named.order_v1"), read_ids(workbench, "archive.order_v1")) == ([1], [2])
    assert read_ids(workbench, "named.line_v1") == [3]
    record = ({"id": 3}, {"id": 33, "ns": "named", "the type": "line"})
    workbench.produce(topic, build_row(4, "named", "line"), ({"id": 1}, None), record)
    reads = engine.reads
    flush(workbench.open_session("named", engine=engine))
    assert engine.reads == reads + 1
    lines = {row["k_id"]: row["id"] for row in workbench.read_rows("named.line_v1")}
    assert (read_ids(workbench, "named.order_v1"), read_ids(workbench, "named.line_v1")) == ([], [4, 33])
    assert lines == {3: 33, 4: 4}
    assert workbench.committed("named") == {topic: {0: 6}}
    workbench.produce(topic, build_row(5, "elsewhere", "line"))
    with pytest.raises(SomeTablesFailed, match=r"offset=6 .*elsewhere"):
        workbench.flush("named")


# a table that fails or is refused beside others: every way in memory, one under the scheduler
@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_flush_run.py::test_tables_that_can_be_staged_are_merged_and_the_run_is_red_with_the_others_reason"
)
def test_table_that_was_rolled_back_holds_up_no_other_and_catches_up_when_it_is_fixed(workbench) -> None:
    topic, other = workbench.topic(1), workbench.topic(1)
    tables = [{"name": "lake.back.good", "topics": [topic]}, {"name": "lake.back.bad", "topics": [topic]}]
    tables.append({"name": "lake.back.gone", "topics": [other]})
    workbench.pipeline("back", [topic, other], key=KEY, value=VALUE, tables=tables)
    workbench.produce(other, build_typed_record(1, "a"))
    for n in (1, 2):
        workbench.produce(topic, build_typed_record(n, "a"))
        workbench.flush("back")
    newest, first = (s.snapshot_id for s in reversed(workbench.load_iceberg("back.bad").metadata.snapshots[-2:]))
    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('back.bad', {first})")
    workbench.admin.delete_topics([other])[other].result()
    workbench.produce(topic, build_typed_record(3, "a"))
    process = workbench.run_cli("flush", "back")
    assert (process.returncode, read_ids(workbench, "back.good"), read_ids(workbench, "back.bad")) == (
        1,
        [1, 2, 3],
        [1],
    )
    assert "lake.back.good: batch=3 published" in process.stdout
    for words in ("table=lake.back.bad was rolled back", "on_rollback: rewind", f"topic={other} does not exist"):
        assert words in process.stderr
    assert workbench.open_session("back").broker.read_committed("tidegate-back", (topic,)) == {topic: {0: 2}}
    problems = [table["problem"] for table in read_status(workbench.open_session("back"))["tables"]]
    assert problems[0] is None
    assert all(problem in process.stderr for problem in problems[1:])

    workbench.run_spark_sql(f"CALL lake.system.set_current_snapshot('back.bad', {newest})")
    workbench.produce(topic, build_typed_record(4, "a"))
    with pytest.raises(SomeTablesFailed, match="does not exist"):
        workbench.flush("back")
    assert read_ids(workbench, "back.bad") == read_ids(workbench, "back.good") == [1, 2, 3, 4]
    assert workbench.open_session("back").broker.read_committed("tidegate-back", (topic,)) == {topic: {0: 4}}


@pytest.mark.repeats("test_records_name_their_tables_and_awkward_values_never_become_names")
@pytest.mark.parametrize("more", [{"into": "k"}, {"prefix": "k_"}], ids=["into", "prefix"])
def test_records_name_tables_whose_key_is_one_column_or_has_a_prefix(workbench, more: dict[str, str]) -> None:
    topic = workbench.topic()
    key = {"fields": ["id"], "schema": "id BIGINT NOT NULL", **more}
    table = {"name": "lake.shop.of_{type}"}
    workbench.pipeline("keyed", [topic], key=key, value={"schema": "type STRING, name STRING"}, table=table)
    workbench.produce(topic, *(({"id": n}, {"type": "ab"[n % 2], "name": f"n{n}"}) for n in range(4)))
    workbench.flush("keyed")
    workbench.produce(topic, ({"id": 0}, None), ({"id": 1}, {"type": "b", "name": "new"}))
    workbench.flush("keyed")
    rows = [
        (row["k"]["id"] if "into" in more else row["k_id"], row["name"])
        for name in ("of_a", "of_b")
        for row in workbench.read_rows(f"shop.{name}")
    ]
    assert rows == [(2, "n2"), (1, "new"), (3, "n3")]
