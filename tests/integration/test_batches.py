"""Batches over a real log: cuts, caps, starts, aborted transactions, big partitions, and what stays on disk."""

from dataclasses import replace

import pytest
from tidegate.errors import NothingToDo, PositionLost
from tidegate.flush.clean_up import clean_up
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import PlannedBatch
from tidegate.monitoring.status import read_status

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


def build_upsert(id, name, **more):
    return {"id": id}, name and {"id": id, "name": name}, more


def plan_batch(workbench, name: str) -> PlannedBatch:
    (batch,) = plan(workbench.open_session(name)).tables
    return batch


@pytest.mark.repeats("unit/tidegate/flush/test_flush.py::test_capped_batches_reach_the_end")
def test_updates_of_old_rows_in_capped_batches_over_partitions_end_in_the_newest(workbench) -> None:
    topic = workbench.topic(3)
    workbench.pipeline("capped", [topic], key=KEY, value=VALUE, merge={"max_records": 40})
    for name in ("old", "new"):
        workbench.produce(topic, *(build_upsert(n, f"{name}{n}", partition=n % 3) for n in range(45)))
    workbench.produce(topic, *(build_upsert(n, None, partition=n % 3) for n in range(0, 45, 5)))
    assert workbench.drain("capped") == 3  # 99 records
    assert [(r["id"], r["name"]) for r in sorted(workbench.read_rows("shop.capped"), key=lambda r: r["id"])] == [
        (n, f"new{n}") for n in range(45) if n % 5
    ]
    history = workbench.open_session("capped").history.read_history("lake.shop.tidegate_capped_batches", 10)
    assert [(row["batch"], row["span"]) for row in history] == [(3, 19), (2, 40), (1, 40)]


def test_intermediate_table_is_empty_behind_a_batch_and_leaves_no_file_on_disk(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("tidy", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(50)))
    session = workbench.open_session("tidy")
    (staged,) = stage(session, plan(session))
    assert workbench.list_data_files("shop.tidy_tidy_tmp")
    merge(session, staged)
    clean_up(session)
    assert workbench.read_rows("shop.tidy_tidy_tmp") == []
    assert workbench.list_data_files("shop.tidy_tidy_tmp") == []
    assert len(workbench.load_iceberg("shop.tidy_tidy_tmp").metadata.snapshots) == 1
    assert set(workbench.load_iceberg("shop.tidy").metadata.refs) == {"main", "tidegate_tidy"}
    assert len(workbench.read_rows("shop.tidy")) == 50
    metadata_files = []
    for n in range(2):
        workbench.produce(topic, build_upsert(n, "y"))
        workbench.flush("tidy")
        metadata_files.append(len(list(workbench.warehouse.glob("**/tidy_tidy_tmp/metadata/*"))))
    assert metadata_files[1] <= metadata_files[0] + 1, "files of metadata do not pile up"


@pytest.mark.guard(
    "only rows of the attempt are merged",
    file="include/sql/shared/_parts.sql",
    text=" AND attempt = {{ parts[0][1] | text }}",
    off="",
)
def test_rows_that_a_late_attempt_left_in_the_same_batch_are_not_merged(workbench) -> None:
    topic, staged = workbench.topic(), "shop.late_late_tmp"
    workbench.pipeline("late", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, build_upsert(1, "x"), build_upsert(2, "x"))
    session = workbench.open_session("late")
    (batch,) = stage(session, plan(session))
    columns = [field.name for field in workbench.load_iceberg(staged).schema().fields]
    zombie = {"attempt": "'zombie'", "offset": "`offset` + 100", "op": "'d'"}
    select_list = ", ".join(zombie.get(name, f"`{name}`") for name in columns)
    workbench.run_spark_sql(f"INSERT INTO lake.{staged} SELECT {select_list} FROM lake.{staged} WHERE key.id = 1")
    snapshot_id = workbench.load_iceberg(staged).current_snapshot().snapshot_id
    assert [row["op"] for row in workbench.read_rows(staged)].count("d") == 1
    assert merge(session, replace(batch, snapshot_id=snapshot_id)).inserted == 2
    assert sorted(row["id"] for row in workbench.read_rows("shop.late")) == [1, 2]


@pytest.mark.repeats("integration/test_superseded.py::test_keys_that_several_tasks_read_are_counted_and_staged_once")
def test_one_big_partition_is_read_by_several_tasks(workbench, monkeypatch) -> None:
    monkeypatch.setattr("tidegate_spark.stage.kafka_source.RECORDS_PER_TASK", 1_000)
    topic = workbench.topic()
    workbench.pipeline("big", [topic], key=KEY, value=VALUE, table={"last_per_key": "never"})
    workbench.produce(topic, *(({"id": n}, f'{{"id": {n}, "name": "x"}}') for n in range(2_100)))
    session = workbench.open_session("big")
    (staged,) = stage(session, plan(session))
    assert staged.counts.staged == 2_100
    assert len(workbench.list_data_files("shop.big_big_tmp")) >= 3  # nothing was shuffled: one file for each task


@pytest.mark.repeats(
    "unit/tidegate_spark/stage/test_kafka_source.py::test_a_task_reads_as_many_partitions_as_give_it_enough_to_do"
)
@pytest.mark.parametrize("last_per_key", ["always", "never"])
def test_small_partitions_are_read_by_one_task(workbench, last_per_key: str) -> None:
    topic = workbench.topic(3)
    workbench.pipeline("small", [topic], key=KEY, value=VALUE, table={"last_per_key": last_per_key})
    for name in ("first", "second"):
        records = ((n, {"id": n, "name": f"{name}{n}"}) for n in (*range(30), *range(30)))
        workbench.produce(topic, *(({"id": n}, row, {"partition": n % 3}) for n, row in records))
    session = workbench.open_session("small")
    (staged,) = stage(session, plan(session))
    assert (staged.counts.read, staged.counts.staged) == (120, 30 if last_per_key == "always" else 120)
    assert len(workbench.list_data_files("shop.small_small_tmp")) == 1
    workbench.drain("small")
    assert {row["id"]: row["name"] for row in workbench.read_rows("shop.small")} == {n: f"second{n}" for n in range(30)}


# offsets without a record: markers, aborts and an open transaction are met there, all in one topic
@pytest.mark.repeats(
    "integration/test_accounting.py::test_transactions_are_counted_and_reach_lag_zero[read_committed-5-rows0]"
)
def test_aborted_transactions_leave_no_row_and_no_lag(workbench) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("exact", [topic], key=KEY, value=VALUE)
    workbench.transaction(topic, build_upsert(1, "kept"))
    workbench.transaction(topic, build_upsert(1, "aborted"), build_upsert(2, "aborted"), commit=False)
    workbench.transaction(topic, build_upsert(9, "aborted", partition=1), commit=False)
    (published,) = workbench.flush("exact").published
    assert workbench.read_rows("shop.exact") == [{"id": 1, "name": "kept"}]
    assert workbench.committed("exact") == workbench.read_ends(topic) == {topic: {0: 5, 1: 2}}
    assert read_status(workbench.open_session("exact"))["lag"] == 0
    (row,) = workbench.open_session("exact").history.read_history("lake.shop.tidegate_exact_batches", 1)
    assert (row["span"], row["read"], row["staged"]) == (7, 1, 1)
    assert published.inserted == 1


@pytest.mark.repeats("unit/tidegate/flush/test_flush.py::test_tombstones_alone_make_a_table_and_reach_the_end")
def test_batch_of_tombstones_alone_makes_the_table_and_one_of_aborted_records_no_snapshot(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("quiet", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, build_upsert(1, None), build_upsert(2, None))
    workbench.flush("quiet")
    assert workbench.read_rows("shop.quiet") == []
    assert workbench.committed("quiet") == workbench.read_ends(topic)
    before = workbench.load_iceberg("shop.quiet").current_snapshot().snapshot_id
    workbench.transaction(topic, build_upsert(2, "aborted"), commit=False)
    workbench.flush("quiet")
    assert workbench.committed("quiet") == workbench.read_ends(topic), "the lag is zero"
    assert workbench.load_iceberg("shop.quiet").current_snapshot().snapshot_id == before


# offsets without a record: markers, aborts and an open transaction are met there, all in one topic
@pytest.mark.repeats(
    "integration/test_accounting.py::test_transactions_are_counted_and_reach_lag_zero[read_committed-5-rows0]"
)
def test_open_transaction_is_waited_for_and_then_read(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("patient", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, build_upsert(1, "a"))
    transactional = workbench.open_transactional_producer()
    transactional.begin_transaction()
    workbench._send(transactional, topic, (build_upsert(2, "b"),))
    transactional.flush(60)
    workbench.produce(topic, build_upsert(3, "behind"))
    workbench.flush("patient")
    assert [r["id"] for r in workbench.read_rows("shop.patient")] == [1]
    workbench.end_transaction(transactional, topic)
    workbench.flush("patient")
    assert [r["id"] for r in workbench.read_rows("shop.patient")] == [1, 2, 3]


@pytest.mark.repeats("unit/tidegate/flush/test_plan.py::test_start_at_a_time_takes_the_first_record_at_or_after_it")
def test_every_start_begins_where_it_says(workbench) -> None:
    topic = workbench.topic(1)
    workbench.produce(topic, *(build_upsert(n, "x", timestamp=1_700_000_000_000 + n * 1000) for n in range(5)))
    starts = {
        "earliest": 0,
        "group": 3,
        "offsets": 2,
        "timestamp": 4,
    }
    written = {
        "offsets": {"offsets": {topic: {0: 2}}},
        "timestamp": {"timestamp": "2023-11-14T22:13:24Z"},
    }
    for kind, first in starts.items():
        source = {"start": written.get(kind, kind), "group": f"{topic}-{kind}"}
        workbench.pipeline(f"from_{kind}", [topic], source=source, key=KEY, value=VALUE)
        if kind == "group":
            workbench.open_session("from_group").broker.commit(f"{topic}-{kind}", {topic: {0: 3}})
        assert plan_batch(workbench, f"from_{kind}").ranges.by_topic == {topic: {0: (first, 5)}}
    workbench.pipeline("from_latest", [topic], source={"start": "latest"}, key=KEY, value=VALUE)
    with pytest.raises(NothingToDo):
        workbench.flush("from_latest")
    workbench.produce(topic, build_upsert(5, "x"))
    workbench.flush("from_latest")
    assert [row["id"] for row in workbench.read_rows("shop.from_latest")] == [5]


@pytest.mark.repeats("unit/tidegate/flush/test_plan.py::test_start_at_offsets_leaves_other_partitions_at_their_begin")
def test_start_at_offsets_reads_exactly_those_rows(workbench) -> None:
    topic = workbench.topic(1)
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(5)))
    source = {"start": {"offsets": {topic: {0: 3}}}}
    workbench.pipeline("late", [topic], source=source, key=KEY, value=VALUE)
    workbench.flush("late")
    assert [r["id"] for r in workbench.read_rows("shop.late")] == [3, 4]


# the same three refusals, with the ways out behind them; growth by itself is refused in that file too
@pytest.mark.repeats("unit/tidegate/table/test_position_checks.py::test_brokers_of_another_cluster_are_not_read")
def test_recreated_topic_shrunk_log_and_growth_fail_loudly(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("lost", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(3)))
    workbench.flush("lost")
    workbench.grow(topic, 2)
    with pytest.raises(PositionLost, match="new partition=1"):
        workbench.flush("lost")
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(4)))
    workbench.retain_from(topic, 5)
    accepting = {"on_partition_growth": "accept"}
    workbench.pipeline("lost", [topic], key=KEY, value=VALUE, **accepting)
    with pytest.raises(PositionLost, match="2 offsets are gone"):
        workbench.flush("lost")
    workbench.recreate(topic, 2)
    with pytest.raises(PositionLost, match="deleted and created again"):
        workbench.flush("lost")
    assert [r["id"] for r in workbench.read_rows("shop.lost")] == [0, 1, 2]


@pytest.mark.repeats("integration/test_schemas.py::test_table_grows_at_every_depth_and_rows_of_before_stay")
def test_columns_added_to_the_schema_appear_and_old_rows_keep_null(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("grows", [topic], key=KEY, value={"schema": "id BIGINT, n INT"})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "n": 1}))
    workbench.flush("grows")
    workbench.pipeline("grows", [topic], key=KEY, value={"schema": "id BIGINT, n BIGINT, more STRING"})
    workbench.produce(topic, ({"id": 2}, {"id": 2, "n": 2**40, "more": "m"}))
    workbench.flush("grows")
    assert workbench.read_rows("shop.grows") == [{"id": 1, "n": 1, "more": None}, {"id": 2, "n": 2**40, "more": "m"}]


@pytest.mark.repeats(
    "integration/test_row_semantics.py::test_row_that_moves_to_another_partition_is_found_and_its_soft_delete_is_readable"
)
def test_partitioned_table_finds_a_row_whose_partition_changed(workbench) -> None:
    topic = workbench.topic()
    create = {"partition_by": ["name", "bucket(4, id)"], "properties": {"write.format.default": "orc"}}
    workbench.pipeline("moved", [topic], key=KEY, value=VALUE, table={"create": create})
    workbench.produce(topic, build_upsert(1, "a"), build_upsert(2, "a"))
    workbench.flush("moved")
    workbench.produce(topic, build_upsert(1, "b"), build_upsert(2, None))
    workbench.flush("moved")
    assert workbench.read_rows("shop.moved") == [{"id": 1, "name": "b"}]
    assert workbench.load_iceberg("shop.moved").properties["write.format.default"] == "orc"
