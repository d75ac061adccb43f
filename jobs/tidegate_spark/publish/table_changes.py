"""What changed between two states of a table, one row for each record to produce, compared as the topic's own bytes."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tidegate.jobs.publish_job import PublishJob, RowIdentity
from tidegate.model.offsets import Ranges
from tidegate.model.publication_progress import RunMode
from tidegate.spec.publication import PLACEHOLDER
from tidegate.sql.spark import quote

from tidegate_spark.publish.encoders.json import render_json
from tidegate_spark.publish.encoders.record_part import RecordPart
from tidegate_spark.publish.record_encoding import (
    describe_key,
    encode_rows,
    is_change_event,
    render_is_event_of,
    render_key_hash,
    render_row_of_event,
    wrap_in_events,
)
from tidegate_spark.publish.snapshot_rows import MAX_BROADCAST_ROWS, TouchedRows, find_touched_rows, render_table_as_of
from tidegate_spark.stage.kafka_source import RECORDS_PER_TASK, build_client_options, build_offsets_options

IDENTITY_BYTES = 32  # of a record, at the beginning of its place among all inserted rows
INSERTED_FIELDS = ("topic", "value", "headers", "timestamp", "problem")
OLD = "old"
NEW = "new"
ROW_FIELDS = ("value", "headers", "timestamp", "problem")
ROW_STRUCT = f"struct({', '.join(ROW_FIELDS)})"
PRESENCE_DIFFERS = "(new IS NULL) <> (old IS NULL)"
ROWS_DIFFER = f"({PRESENCE_DIFFERS} OR NOT (new <=> old))"


def find_changed_rows(spark: SparkSession, job: PublishJob, persisted_frames: list[DataFrame]) -> DataFrame:
    """Return rows of topic, key, value, headers, timestamp, problem, kind (inserted, updated, deleted) and copies.

    A key that moves to another topic is deleted in one and inserted in the other. Rows that are equal in both states
    are left out. DataFrames that stay in memory are added to `persisted_frames`.
    """
    touched_rows = find_touched_rows(spark, job, persisted_frames)
    new_state = _read_state(spark, job, _TableState(job.position.to, job.position.joined), touched_rows)
    old_state = _read_old_state(spark, job, new_state, touched_rows)
    states_by_side = new_state.selectExpr("*", f"'{NEW}' AS side")
    if old_state is not None:
        states_by_side = states_by_side.unionByName(old_state.selectExpr("*", f"'{OLD}' AS side"))
    sides = [f"first(CASE WHEN side = '{side}' THEN row END, true) AS {side}" for side in (OLD, NEW)]
    rows_by_key = states_by_side.selectExpr("topic", "key", "key_hash", "side", f"{ROW_STRUCT} AS row")
    aggregates = ("first(key_hash) AS key_hash", f"count_if(side = '{NEW}') AS copies", *sides)
    states = rows_by_key.groupBy("topic", "key").agg(*map(F.expr, aggregates))
    differ = states.where(_render_topic_differs(job) if job.position.mode == RunMode.TOPIC else ROWS_DIFFER)
    if job.touched is not None and job.grouped is None:
        changed = _persist_rows(differ, persisted_frames)
        if job.touched.identity == RowIdentity.NONE:
            differ = _read_current_rows(spark, job, changed).where(f"copies > 1 OR {ROWS_DIFFER}")
        else:
            differ = _add_other_rows(spark, job, changed, persisted_frames)
    kind = "CASE WHEN new IS NULL THEN 'deleted' WHEN old IS NULL THEN 'inserted' ELSE 'updated' END AS kind"
    records = ("topic", "key", *(f"new.{name} AS {name}" for name in ROW_FIELDS), kind, "copies")
    if not is_change_event(job):
        return differ.selectExpr(*records)
    before = render_row_of_event("old.value") if job.position.mode == RunMode.TOPIC else "old.value"
    return wrap_in_events(spark, differ.selectExpr(*records, f"{before} AS before"), job)


def find_inserted_rows(spark: SparkSession, job: PublishJob, persisted_frames: list[DataFrame]) -> DataFrame:
    """Return rows of topic, key, value, headers, timestamp, problem, kind and number: what the newer state has more of.

    An inserted row comes as often as it was inserted. Its `key` says where it stands among all: the hash of its record,
    and a number among equal ones. Unless they are ignored, rows that are gone are one `deleted` row, whose `number` is
    how many these are, below 0.
    """
    position = job.position
    touched_rows = find_touched_rows(spark, job, persisted_frames)
    states = _read_state(spark, job, _TableState(position.to, {}), touched_rows)
    weighed = states.selectExpr("*", "1 AS weight")
    if position.origin is not None:
        old_states = _read_state(spark, job, _TableState(position.origin, {}, is_old=True), touched_rows)
        weighed = weighed.unionByName(old_states.selectExpr("*", "-1 AS weight"))
    fields = ", ".join(INSERTED_FIELDS)
    identity = f"unhex(sha2(CAST(to_json(struct({fields})) AS BINARY), 256)) AS identity"
    aggregates = (F.expr(f"any_value(struct({fields})) AS row"), F.expr("sum(weight) AS number"))
    counted = weighed.selectExpr(*INSERTED_FIELDS, "weight", identity).groupBy("identity").agg(*aggregates)
    wanted = "number > 0" if job.on_delete == "ignore" else "number <> 0"
    numbers = "CASE WHEN number > 0 THEN sequence(1L, number) ELSE array(0L) END"
    key = "concat(identity, unhex(lpad(hex(place), 16, '0'))) AS key"
    kind = "CASE WHEN number > 0 THEN 'inserted' ELSE 'deleted' END AS kind"
    return (
        counted.where(wanted).selectExpr("*", f"explode({numbers}) AS place").selectExpr("row.*", key, kind, "number")
    )


def _render_topic_differs(job: PublishJob) -> str:
    is_same = render_is_event_of("old.value", "new.value") if is_change_event(job) else "new.value <=> old.value"
    return f"({PRESENCE_DIFFERS} OR NOT ({is_same}))"


def _persist_rows(rows: DataFrame, persisted_frames: list[DataFrame]) -> DataFrame:
    persisted_frames.append(rows.persist())
    return persisted_frames[-1]


def _add_other_rows(
    spark: SparkSession, job: PublishJob, changed: DataFrame, persisted_frames: list[DataFrame]
) -> DataFrame:
    """Replace `new` and `copies` of keys that have other rows in the newer state, unchanged or in an untouched file.

    Rows of each key are counted first, without reading values.
    """
    count = changed.count()
    if not count:
        return changed
    columns = ("topic", "key", "old", "new", "copies")
    keys = _encode_current_rows(spark, job, changed, count).groupBy("topic", "key").agg(F.expr("count(*) AS total"))
    is_same_key = F.expr("whole.topic <=> changed.topic AND whole.key <=> changed.key")
    counted = changed.alias("changed").join(keys.alias("whole"), is_same_key, "left")
    others = counted.where("coalesce(whole.total, 0) <> changed.copies").select("changed.*")
    others = _persist_rows(others, persisted_frames)
    if not others.count():
        return changed
    is_other_key = F.expr("other.topic <=> changed.topic AND other.key <=> changed.key")
    same = changed.alias("changed").join(others.alias("other"), is_other_key, "left_anti").select(*columns)
    return same.unionByName(_read_current_rows(spark, job, others).where(f"copies > 1 OR {ROWS_DIFFER}"))


def _read_current_rows(spark: SparkSession, job: PublishJob, changed_keys: DataFrame) -> DataFrame:
    """Replace `new` and `copies` by the rows that these keys have in the whole newer state.

    Only some files were compared, and a key may have another row in a file that was not.
    """
    is_small = job.touched is not None and job.touched.identity == RowIdentity.NONE
    rows = _encode_current_rows(spark, job, changed_keys, None if is_small else changed_keys.count())
    changed_keys = changed_keys.alias("changed")
    is_same_key = F.expr("whole.topic <=> changed.topic AND whole.key <=> changed.key")
    now = (
        rows.alias("whole")
        .join(changed_keys, is_same_key, "left_semi")
        .selectExpr("topic", "key", f"{ROW_STRUCT} AS row")
    )
    states = now.groupBy("topic", "key").agg(F.expr("first(row) AS new"), F.expr("count(*) AS copies"))
    joined_rows = changed_keys.join(states.alias("whole"), is_same_key, "left")
    return joined_rows.selectExpr(
        "changed.topic", "changed.key", "changed.old", "whole.new", "coalesce(whole.copies, 0) AS copies"
    )


def _encode_current_rows(spark: SparkSession, job: PublishJob, changed_keys: DataFrame, count: int | None) -> DataFrame:
    # a hash is computed and found much faster than a key's bytes, but other keys may have the same
    rows = _query_rows(spark, job, _TableState(job.position.to, job.position.joined))
    key_hash = render_key_hash(rows, job)
    if key_hash is not None and count is not None and count <= MAX_BROADCAST_ROWS:
        hashes = F.broadcast(changed_keys.select("key_hash")).alias("changed")
        rows = rows.alias("whole").join(hashes, F.expr(f"{key_hash} = changed.key_hash"), "left_semi")
    return encode_rows(spark, rows, job)


def _read_old_state(
    spark: SparkSession, job: PublishJob, new_state: DataFrame, touched_rows: TouchedRows | None
) -> DataFrame | None:
    if job.position.mode == RunMode.TOPIC:
        topic_state = _read_topic_state(spark, job.ranges or Ranges({}))
        if topic_state is None:
            return None
        headers = f"CAST(NULL AS {new_state.schema['headers'].dataType.simpleString()}) AS headers"
        others = ("CAST(NULL AS BIGINT) AS timestamp", "CAST(NULL AS STRING) AS problem")
        return topic_state.selectExpr("topic", "key", "value", headers, *others, "CAST(NULL AS BIGINT) AS key_hash")
    if job.position.origin is not None:
        state = _TableState(job.position.origin, job.position.joined_origin, is_old=True)
        return _read_state(spark, job, state, touched_rows)
    return None


@dataclass(frozen=True)
class _TableState:
    """One of the two states: the table's snapshot, and those of joined tables."""

    snapshot: int
    joined: dict[str, int]
    is_old: bool = False


def find_key(spark: SparkSession, job: PublishJob) -> RecordPart:
    """Return the key of the records, with the types that its columns have as of `position.to`."""
    return describe_key(_query_rows(spark, job, _TableState(job.position.to, job.position.joined)), job)


def _query_rows(spark: SparkSession, job: PublishJob, state: _TableState, table_rows: str | None = None) -> DataFrame:
    # by default over all rows of the table
    source = table_rows or render_table_as_of(spark, job.table, state.snapshot, job.position.to)
    return spark.sql(_render_query(spark, job, job.sql, source, state.joined))


def _read_state(
    spark: SparkSession, job: PublishJob, state: _TableState, touched_rows: TouchedRows | None
) -> DataFrame:
    position = job.position
    if job.grouped is None:
        source = None
        if touched_rows is not None:
            source = touched_rows.old if state.is_old else touched_rows.new
        return encode_rows(spark, _query_rows(spark, job, state, source), job)
    rows = _query_rows(spark, job, state)
    is_change = (
        position.origin is not None and position.mode != RunMode.TOPIC and position.joined == position.joined_origin
    )
    if job.grouped.matched_keys and is_change:
        is_same_group = " AND ".join(
            f"result.{quote(name)} <=> touched.{quote(name)}" for name in job.grouped.matched_keys
        )
        groups = _find_touched_groups(spark, job, touched_rows)
        rows = rows.alias("result").join(groups.alias("touched"), F.expr(is_same_group), "left_semi")
    return encode_rows(spark, rows, job)


def _find_touched_groups(spark: SparkSession, job: PublishJob, touched_rows: TouchedRows | None) -> DataFrame:
    # rows that only moved to another file have neither left nor joined a group
    assert job.grouped is not None
    assert job.position.origin is not None
    if touched_rows is None:
        snapshots = (job.position.origin, job.position.to)
        whole = [render_table_as_of(spark, job.table, snapshot, job.position.to) for snapshot in snapshots]
        touched_rows = TouchedRows(*whole)
    sides = [
        f"SELECT struct(*) AS one, {weight} AS weight FROM ({rows})"
        for rows, weight in ((touched_rows.old, -1), (touched_rows.new, 1))
    ]
    changed_rows = (
        f"SELECT one.* FROM (SELECT first(one) AS one FROM ({' UNION ALL '.join(sides)}) "
        f"GROUP BY {render_json('one')} HAVING sum(weight) <> 0)"
    )
    groups = spark.sql(_render_query(spark, job, job.grouped.keys_sql, changed_rows, job.position.joined))
    return groups.select(*map(quote, job.grouped.matched_keys)).distinct()


def _render_query(spark: SparkSession, job: PublishJob, sql: str, rows: str, joined_snapshots: dict[str, int]) -> str:
    for name, snapshot in joined_snapshots.items():
        rows_there = render_table_as_of(spark, name, snapshot, job.position.joined[name])
        sql = sql.replace(f"{{{name}}}", f"({rows_there})")
    return sql.replace(PLACEHOLDER, f"({rows})")


def _read_topic_state(spark: SparkSession, ranges: Ranges) -> DataFrame | None:
    if ranges.span == 0:
        return None
    options = {**build_client_options(spark, "read_committed"), **build_offsets_options(ranges, RECORDS_PER_TASK)}
    records = spark.read.format("kafka").options(**options).load().where("key IS NOT NULL")
    last = records.groupBy("topic", "key", "partition").agg(F.expr("max_by(struct(value), offset) AS last"))
    # other clients may have put a key elsewhere too; which of its records counts is then for nobody to say
    aggregates = ("count_if(last.value IS NOT NULL) AS held", "count(*) AS places", "first(last.value) AS value")
    keys = last.groupBy("topic", "key").agg(*(F.expr(sql) for sql in aggregates)).where("held > 0")
    return keys.selectExpr("topic", "key", "IF(places = 1, value, X'') AS value")
