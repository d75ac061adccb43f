"""What changed between two states of a table, one row for each record to produce, compared as the topic's own bytes."""

import json
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tidegate.jobs.publish_job import PublishJob
from tidegate.jobs.stage_job import KAFKA_CONF
from tidegate.model.offsets import Ranges
from tidegate.model.publication_progress import TOPIC
from tidegate.spec.publication import PLACEHOLDER
from tidegate.sql.spark import literal, quoted

from tidegate_spark.publish.record_encoding import as_json, encoded
from tidegate_spark.publish.table_at_snapshot import table_as_of
from tidegate_spark.session import private
from tidegate_spark.stage.kafka_source import RECORDS_PER_TASK, offsets_options

OLD, NEW = "old", "new"
ROW = "struct(value, headers, timestamp)"
DIFFER = "((new IS NULL) <> (old IS NULL) OR NOT (new <=> old))"
DIFFER_FROM_TOPIC = "((new IS NULL) <> (old IS NULL) OR NOT (new.value <=> old.value))"


def changes(spark: SparkSession, job: PublishJob, kept: list[DataFrame]) -> DataFrame:
    """Rows of topic, key, value, headers, timestamp, kind (inserted, updated, deleted) and copies.

    A key that moves to another topic is deleted in one and inserted in the other. Rows that are the same in both
    states are left out, so a snapshot that only rewrites files has no changes. What stays in memory is in `kept`.
    """
    until = job.position.until or job.position.to
    new = _state(spark, job, _Side(until, job.position.joined, job.touched.new if job.touched else None))
    old = _before(spark, job, new)
    both = new.selectExpr("*", f"'{NEW}' AS side")
    both = both if old is None else both.unionByName(old.selectExpr("*", f"'{OLD}' AS side"))
    sides = [f"first(CASE WHEN side = '{side}' THEN row END, true) AS {side}" for side in (OLD, NEW)]
    grouped = both.selectExpr("topic", "key", "side", f"{ROW} AS row").groupBy("topic", "key")
    states = grouped.agg(*[F.expr(sql) for sql in (f"count_if(side = '{NEW}') AS copies", *sides)])
    differ = states.where(DIFFER_FROM_TOPIC if job.position.mode == TOPIC else DIFFER)
    if until != job.position.to:
        differ = _in_whole(spark, job, _kept(differ, kept)).withColumn("old", F.expr("coalesce(old, new)"))
    elif job.touched is not None and job.grouped is None:
        differ = _in_whole(spark, job, _kept(differ, kept)).where(f"copies > 1 OR {DIFFER}")
    kind = "CASE WHEN new IS NULL THEN 'deleted' WHEN old IS NULL THEN 'inserted' ELSE 'updated' END AS kind"
    return differ.selectExpr(
        "topic", "key", "new.value AS value", "new.headers AS headers", "new.timestamp AS timestamp", kind, "copies"
    )


def _kept(rows: DataFrame, kept: list[DataFrame]) -> DataFrame:
    """The rows, which are used twice, in memory."""
    kept.append(rows.persist())
    return kept[-1]


def _in_whole(spark: SparkSession, job: PublishJob, changed: DataFrame) -> DataFrame:
    """The same keys with their rows in the whole table as of `position.to`, and how many there are.

    Only some files were compared, and a key may have another row in a file that was not: then it is not gone.
    """
    rows = _state(spark, job, _Side(job.position.to, job.position.joined, is_limited=False))
    changed, same = changed.alias("changed"), F.expr("whole.topic <=> changed.topic AND whole.key <=> changed.key")
    now = rows.alias("whole").join(changed, same, "left_semi").selectExpr("topic", "key", f"{ROW} AS row")
    states = now.groupBy("topic", "key").agg(F.expr("first(row) AS new"), F.expr("count(*) AS copies"))
    joined = changed.join(states.alias("whole"), same, "left")
    return joined.selectExpr(
        "changed.topic", "changed.key", "changed.old", "whole.new", "coalesce(whole.copies, 0) AS copies"
    )


def _before(spark: SparkSession, job: PublishJob, new: DataFrame) -> DataFrame | None:
    if job.position.mode == TOPIC:
        kept = _held(spark, job.ranges or Ranges({}))
        if kept is None:
            return None
        empty = [f"CAST(NULL AS {new.schema[name].dataType.simpleString()}) AS {name}" for name in ("headers",)]
        return kept.selectExpr("topic", "key", "value", *empty, "CAST(NULL AS BIGINT) AS timestamp")
    if job.position.origin is not None:
        files = job.touched.old if job.touched else None
        return _state(spark, job, _Side(job.position.origin, job.position.joined_origin, files))
    return None


@dataclass(frozen=True)
class _Side:
    """One of the two states: the table's snapshot, those of joined tables, and the files that matter."""

    snapshot: int
    joined: dict[str, int]
    files: tuple[str, ...] | None = None
    is_limited: bool = True


def _state(spark: SparkSession, job: PublishJob, side: _Side) -> DataFrame:
    """The publication's rows as of a snapshot, as they stand in a topic; an aggregate's only of touched groups."""
    position = job.position
    source = _source(spark, job, side.snapshot, None if job.grouped else side.files)
    rows = spark.sql(_asked(spark, job, job.sql, source, side.joined))
    is_change = position.origin is not None and position.mode != TOPIC and position.joined == position.joined_origin
    if job.grouped is not None and job.grouped.matched and side.is_limited and is_change:
        same = " AND ".join(f"result.{quoted(name)} <=> touched.{quoted(name)}" for name in job.grouped.matched)
        rows = rows.alias("result").join(_touched_groups(spark, job).alias("touched"), F.expr(same), "left_semi")
    return encoded(spark, rows, job)


def _touched_groups(spark: SparkSession, job: PublishJob) -> DataFrame:
    """The keys of the groups that a row has left or joined. Rows that only moved to another file have done neither."""
    assert job.grouped is not None
    assert job.position.origin is not None
    old, new = (job.touched.old, job.touched.new) if job.touched else (None, None)
    sides = [
        f"SELECT struct(*) AS one, {weight} AS weight FROM ({_source(spark, job, snapshot, files)})"
        for snapshot, files, weight in ((job.position.origin, old, -1), (job.position.until or job.position.to, new, 1))
    ]
    changed = (
        f"SELECT one.* FROM (SELECT first(one) AS one FROM ({' UNION ALL '.join(sides)}) "
        f"GROUP BY {as_json('one')} HAVING sum(weight) <> 0)"
    )
    found = spark.sql(_asked(spark, job, job.grouped.keys_sql, changed, job.position.joined))
    return found.select(*map(quoted, job.grouped.matched)).distinct()


def _asked(spark: SparkSession, job: PublishJob, sql: str, rows: str, joined: dict[str, int]) -> str:
    """The SQL with `rows` in the table's place, and each other table as of its snapshot."""
    for name, snapshot in joined.items():
        rows_there = table_as_of(spark, name, snapshot, job.position.joined[name])
        sql = sql.replace(f"{{{name}}}", f"({rows_there})")
    return sql.replace(PLACEHOLDER, f"({rows})")


def _source(spark: SparkSession, job: PublishJob, snapshot: int, files: tuple[str, ...] | None) -> str:
    """The table's rows as of a snapshot, in some files only."""
    source = table_as_of(spark, job.table, snapshot, job.position.to)
    if files is None:
        return source
    return f"{source} WHERE _file IN ({', '.join(map(literal, files))})" if files else f"{source} WHERE false"


def _held(spark: SparkSession, ranges: Ranges) -> DataFrame | None:
    """The last record of each key that the topics hold, without those that are deleted; None for empty topics."""
    if ranges.span == 0:
        return None
    own = {**json.loads(private(spark, KAFKA_CONF)), "kafka.isolation.level": "read_committed"}
    options = {**own, **offsets_options(ranges, RECORDS_PER_TASK)}
    records = spark.read.format("kafka").options(**options).load().where("key IS NOT NULL")
    last = records.groupBy("topic", "key", "partition").agg(F.expr("max_by(struct(value), offset) AS last"))
    # other clients may have put a key elsewhere too; which of its records counts is then for nobody to say
    kept = ("count_if(last.value IS NOT NULL) AS held", "count(*) AS places", "first(last.value) AS value")
    keys = last.groupBy("topic", "key").agg(*(F.expr(sql) for sql in kept)).where("held > 0")
    return keys.selectExpr("topic", "key", "IF(places = 1, value, X'') AS value")
