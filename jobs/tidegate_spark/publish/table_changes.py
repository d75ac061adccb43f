"""What changed between two states of a table, one row for each record to produce, compared as the topic's own bytes."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.jobs.publish_job import PublishJob
from tidegate.model.offsets import Ranges
from tidegate.model.publication_progress import RunMode
from tidegate.spec.publication import PLACEHOLDER
from tidegate.sql.spark import quote, quote_name, render_literal

from tidegate_spark.publish.encoders.json import render_json
from tidegate_spark.publish.encoders.record_part import RecordPart
from tidegate_spark.publish.record_encoding import (
    describe_key,
    encode_rows,
    is_change_event,
    render_is_event_of,
    render_row_of_event,
    wrap_in_events,
)
from tidegate_spark.stage.kafka_source import RECORDS_PER_TASK, build_client_options, build_offsets_options

WIDENED_TYPES = {("int", "bigint"), ("float", "double")}  # what Iceberg lets a column's type become


def render_table_as_of(spark: SparkSession, table: str, snapshot: int, newest: int) -> str:
    """Select the table's rows as of `snapshot`, in the columns and types that it has as of `newest`.

    A field whose type cannot have become the newer one was another field: it is NULL too.
    """
    target_schema = spark.sql(f"SELECT * FROM {_render_table_at(table, newest)}").schema
    snapshot_types = {
        f.name.lower(): f.dataType for f in spark.sql(f"SELECT * FROM {_render_table_at(table, snapshot)}").schema
    }
    columns = []
    for field in target_schema:
        source = snapshot_types.get(field.name.lower())
        column = quote(field.name)
        column_sql = _render_null(field.dataType) if source is None else render_widening(column, source, field.dataType)
        columns.append(column if column_sql == column else f"{column_sql} AS {column}")
    return f"SELECT {', '.join(columns)} FROM {_render_table_at(table, snapshot)}"


def render_widening(value: str, source: T.DataType, target: T.DataType, depth: int = 0) -> str:
    if render_spark_type(source) == render_spark_type(target):
        return value
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        fields = {field.name.lower(): field for field in source.fields}
        parts = []
        for field in target.fields:
            source_field = fields.get(field.name.lower())
            part = f"{value}.{quote(source_field.name)}" if source_field is not None else ""
            part = (
                _render_null(field.dataType)
                if source_field is None
                else render_widening(part, source_field.dataType, field.dataType, depth)
            )
            parts.append(f"{render_literal(field.name)}, {part}")
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    element = f"_tidegate_{depth}"
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        widened = render_widening(element, source.elementType, target.elementType, depth + 1)
        return f"transform({value}, {element} -> {widened})"
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        keys = render_widening(element, source.keyType, target.keyType, depth + 1)
        values = render_widening(element, source.valueType, target.valueType, depth + 1)
        arrays = (
            f"transform(map_keys({value}), {element} -> {keys}), transform(map_values({value}), {element} -> {values})"
        )
        return f"map_from_arrays({arrays})"
    return f"CAST({value} AS {render_spark_type(target)})" if _is_wider(source, target) else _render_null(target)


def render_spark_type(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return (
            f"STRUCT<{', '.join(f'{quote(field.name)}: {render_spark_type(field.dataType)}' for field in kind.fields)}>"
        )
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{render_spark_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{render_spark_type(kind.keyType)}, {render_spark_type(kind.valueType)}>"
    return str(kind.simpleString())


def _is_wider(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(source, T.DecimalType) and isinstance(target, T.DecimalType):
        return bool(source.scale == target.scale and source.precision <= target.precision)
    return (render_spark_type(source), render_spark_type(target)) in WIDENED_TYPES


def _render_null(kind: T.DataType) -> str:
    return f"CAST(NULL AS {render_spark_type(kind)})"


def _render_table_at(table: str, snapshot: int) -> str:
    return f"{quote_name(table)} VERSION AS OF {snapshot}"


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
    until = job.position.until or job.position.to
    new_state = _read_state(
        spark, job, _TableState(until, job.position.joined, job.touched.new if job.touched else None)
    )
    old_state = _read_old_state(spark, job, new_state)
    states_by_side = new_state.selectExpr("*", f"'{NEW}' AS side")
    states_by_side = (
        states_by_side
        if old_state is None
        else states_by_side.unionByName(old_state.selectExpr("*", f"'{OLD}' AS side"))
    )
    sides = [f"first(CASE WHEN side = '{side}' THEN row END, true) AS {side}" for side in (OLD, NEW)]
    rows_by_key = states_by_side.selectExpr("topic", "key", "side", f"{ROW_STRUCT} AS row").groupBy("topic", "key")
    states = rows_by_key.agg(*[F.expr(sql) for sql in (f"count_if(side = '{NEW}') AS copies", *sides)])
    differ = states.where(_render_topic_differs(job) if job.position.mode == RunMode.TOPIC else ROWS_DIFFER)
    if until != job.position.to:
        # the last row that is known of a key that is gone by now is what a delete shows
        last_known = _persist_rows(differ.withColumn("old", F.expr("coalesce(new, old)")), persisted_frames)
        differ = _read_current_rows(spark, job, last_known).withColumn("old", F.expr("coalesce(old, new)"))
    elif job.touched is not None and job.grouped is None:
        differ = _read_current_rows(spark, job, _persist_rows(differ, persisted_frames)).where(
            f"copies > 1 OR {ROWS_DIFFER}"
        )
    kind = "CASE WHEN new IS NULL THEN 'deleted' WHEN old IS NULL THEN 'inserted' ELSE 'updated' END AS kind"
    records = ("topic", "key", *(f"new.{name} AS {name}" for name in ROW_FIELDS), kind, "copies")
    if not is_change_event(job):
        return differ.selectExpr(*records)
    before = render_row_of_event("old.value") if job.position.mode == RunMode.TOPIC else "old.value"
    return wrap_in_events(spark, differ.selectExpr(*records, f"{before} AS before"), job)


def find_inserted_rows(spark: SparkSession, job: PublishJob, _: list[DataFrame]) -> DataFrame:
    """Return rows of topic, key, value, headers, timestamp, problem, kind and number: what the newer state has more of.

    An inserted row comes as often as it was inserted. Its `key` says where it stands among all: the hash of its record,
    and a number among equal ones. Unless they are ignored, rows that are gone are one `deleted` row, whose `number` is
    how many these are, below 0.
    """
    position = job.position
    states = _read_state(spark, job, _TableState(position.to, {}, job.touched.new if job.touched else None))
    weighed = states.selectExpr("*", "1 AS weight")
    if position.origin is not None:
        old_states = _read_state(spark, job, _TableState(position.origin, {}, job.touched.old if job.touched else None))
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


def _read_current_rows(spark: SparkSession, job: PublishJob, changed_keys: DataFrame) -> DataFrame:
    # only some files were compared, and a key may have another row in a file that was not
    rows = _read_state(spark, job, _TableState(job.position.to, job.position.joined, is_limited=False))
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


def _read_old_state(spark: SparkSession, job: PublishJob, new_state: DataFrame) -> DataFrame | None:
    if job.position.mode == RunMode.TOPIC:
        topic_state = _read_topic_state(spark, job.ranges or Ranges({}))
        if topic_state is None:
            return None
        empty = [f"CAST(NULL AS {new_state.schema[name].dataType.simpleString()}) AS {name}" for name in ("headers",)]
        empty += ["CAST(NULL AS BIGINT) AS timestamp", "CAST(NULL AS STRING) AS problem"]
        return topic_state.selectExpr("topic", "key", "value", *empty)
    if job.position.origin is not None:
        files = job.touched.old if job.touched else None
        return _read_state(spark, job, _TableState(job.position.origin, job.position.joined_origin, files))
    return None


@dataclass(frozen=True)
class _TableState:
    """One of the two states: the table's snapshot, those of joined tables, and the files that matter."""

    snapshot: int
    joined: dict[str, int]
    files: tuple[str, ...] | None = None
    is_limited: bool = True


def find_key(spark: SparkSession, job: PublishJob) -> RecordPart:
    """Return the key of the records, with the types that its columns have as of `position.to`."""
    source = _render_source(spark, job, job.position.to, None)
    return describe_key(spark.sql(_render_query(spark, job, job.sql, source, job.position.joined)), job)


def _read_state(spark: SparkSession, job: PublishJob, side: _TableState) -> DataFrame:
    position = job.position
    source = _render_source(spark, job, side.snapshot, None if job.grouped else side.files)
    rows = spark.sql(_render_query(spark, job, job.sql, source, side.joined))
    is_change = (
        position.origin is not None and position.mode != RunMode.TOPIC and position.joined == position.joined_origin
    )
    if job.grouped is not None and job.grouped.matched_keys and side.is_limited and is_change:
        is_same_group = " AND ".join(
            f"result.{quote(name)} <=> touched.{quote(name)}" for name in job.grouped.matched_keys
        )
        rows = rows.alias("result").join(
            _find_touched_groups(spark, job).alias("touched"), F.expr(is_same_group), "left_semi"
        )
    return encode_rows(spark, rows, job)


def _find_touched_groups(spark: SparkSession, job: PublishJob) -> DataFrame:
    # rows that only moved to another file have neither left nor joined a group
    assert job.grouped is not None
    assert job.position.origin is not None
    old_files, new_files = (job.touched.old, job.touched.new) if job.touched else (None, None)
    sides = [
        f"SELECT struct(*) AS one, {weight} AS weight FROM ({_render_source(spark, job, snapshot, files)})"
        for snapshot, files, weight in (
            (job.position.origin, old_files, -1),
            (job.position.until or job.position.to, new_files, 1),
        )
    ]
    changed_files = (
        f"SELECT one.* FROM (SELECT first(one) AS one FROM ({' UNION ALL '.join(sides)}) "
        f"GROUP BY {render_json('one')} HAVING sum(weight) <> 0)"
    )
    groups = spark.sql(_render_query(spark, job, job.grouped.keys_sql, changed_files, job.position.joined))
    return groups.select(*map(quote, job.grouped.matched_keys)).distinct()


def _render_query(spark: SparkSession, job: PublishJob, sql: str, rows: str, joined_snapshots: dict[str, int]) -> str:
    for name, snapshot in joined_snapshots.items():
        rows_there = render_table_as_of(spark, name, snapshot, job.position.joined[name])
        sql = sql.replace(f"{{{name}}}", f"({rows_there})")
    return sql.replace(PLACEHOLDER, f"({rows})")


def _render_source(spark: SparkSession, job: PublishJob, snapshot: int, files: tuple[str, ...] | None) -> str:
    source = render_table_as_of(spark, job.table, snapshot, job.position.to)
    if files is None:
        return source
    return f"{source} WHERE _file IN ({', '.join(map(render_literal, files))})" if files else f"{source} WHERE false"


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
