"""What changed between two states of a table, one row for each record to produce, compared as the topic's own bytes."""

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tidegate.jobs import KAFKA_CONF
from tidegate.offsets import Ranges
from tidegate.publications.job import PublishJob
from tidegate.publications.progress import TOPIC
from tidegate.publications.publication import PLACEHOLDER
from tidegate.spark_sql import literal, quoted, quoted_name

from tidegate_spark.encode import as_json, encoded
from tidegate_spark.read import offsets_options

OLD, NEW = "old", "new"


def changes(spark: SparkSession, job: PublishJob) -> DataFrame:
    """Rows of topic, key, value, headers, timestamp, kind (inserted, updated, deleted) and copies.

    A key that moves to another topic is deleted in one and inserted in the other. Rows that are the same in both
    states are left out, so a snapshot that only rewrites files has no changes.
    """
    until = job.position.until or job.position.to
    new = _state(spark, job, until, job.touched.new if job.touched else None)
    old = _before(spark, job, new)
    both = new.selectExpr("*", f"'{NEW}' AS side")
    both = both if old is None else both.unionByName(old.selectExpr("*", f"'{OLD}' AS side"))
    row = "struct(value, headers, timestamp) AS row"
    sides = [f"first(CASE WHEN side = '{side}' THEN row END, true) AS {side}" for side in (OLD, NEW)]
    grouped = both.selectExpr("topic", "key", "side", row).groupBy("topic", "key")
    states = grouped.agg(*[F.expr(sql) for sql in (f"count_if(side = '{NEW}') AS copies", *sides)])
    compared = "new.value <=> old.value" if job.position.mode == TOPIC else "new <=> old"
    differ = states.where(f"(new IS NULL) <> (old IS NULL) OR NOT ({compared})")
    kind = "CASE WHEN new IS NULL THEN 'deleted' WHEN old IS NULL THEN 'inserted' ELSE 'updated' END AS kind"
    told = differ.selectExpr("topic", "key", "new", kind, "copies")
    told = told if until == job.position.to else _as_published(spark, job, told)
    return told.selectExpr(
        "topic", "key", "new.value AS value", "new.headers AS headers", "new.timestamp AS timestamp", "kind", "copies"
    )


def _as_published(spark: SparkSession, job: PublishJob, changed: DataFrame) -> DataFrame:
    """The same keys with the rows that they have in the published snapshot."""
    rows = _state(spark, job, job.position.to, None, is_limited=False)
    now = rows.selectExpr("topic", "key", "struct(value, headers, timestamp) AS row").groupBy("topic", "key")
    states = now.agg(F.expr("first(row) AS new"), F.expr("count(*) AS copies"))
    joined = changed.select("topic", "key").join(states, ["topic", "key"], "left")
    kind = "CASE WHEN new IS NULL THEN 'deleted' ELSE 'updated' END AS kind"
    return joined.selectExpr("topic", "key", "new", kind, "coalesce(copies, 0) AS copies")


def _before(spark: SparkSession, job: PublishJob, new: DataFrame) -> DataFrame | None:
    if job.position.mode == TOPIC:
        kept = _held(spark, job.ranges or Ranges({}))
        if kept is None:
            return None
        empty = [f"CAST(NULL AS {new.schema[name].dataType.simpleString()}) AS {name}" for name in ("headers",)]
        return kept.selectExpr("topic", "key", "value", *empty, "CAST(NULL AS BIGINT) AS timestamp")
    if job.position.origin is not None:
        return _state(spark, job, job.position.origin, job.touched.old if job.touched else None)
    return None


def _state(
    spark: SparkSession, job: PublishJob, snapshot: int, files: tuple[str, ...] | None, is_limited: bool = True
) -> DataFrame:
    """The publication's rows as of a snapshot, as they stand in a topic; `files` are those that matter."""
    if job.grouped is None:
        rows = spark.sql(job.sql.replace(PLACEHOLDER, f"({_source(spark, job, snapshot, files)})"))
        return encoded(spark, rows, job)
    rows = spark.sql(job.sql.replace(PLACEHOLDER, f"({_source(spark, job, snapshot, None)})"))
    if is_limited and job.position.mode != TOPIC and job.position.origin is not None and job.grouped.matched:
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
    return spark.sql(job.grouped.keys_sql.replace(PLACEHOLDER, f"({changed})")).distinct()


def _source(spark: SparkSession, job: PublishJob, snapshot: int, files: tuple[str, ...] | None) -> str:
    """The table's rows as of a snapshot, in some files only."""
    source = f"SELECT {_columns(spark, job, snapshot)} FROM {_at(job, snapshot)}"
    if files is None:
        return source
    return f"{source} WHERE _file IN ({', '.join(map(literal, files))})" if files else f"{source} WHERE false"


def _columns(spark: SparkSession, job: PublishJob, snapshot: int) -> str:
    """The newer snapshot's columns with its types, NULL where the older one lacks them: that alone changes no row."""
    wanted = spark.sql(f"SELECT * FROM {_at(job, job.position.to)}").schema
    there = {f.name.casefold(): f.dataType for f in spark.sql(f"SELECT * FROM {_at(job, snapshot)}").schema}
    made = []
    for field in wanted:
        kind, column = field.dataType.simpleString(), quoted(field.name)
        source = column if field.name.casefold() in there else "NULL"
        is_same = there.get(field.name.casefold()) == field.dataType
        made.append(column if is_same else f"CAST({source} AS {kind}) AS {column}")
    return ", ".join(made)


def _at(job: PublishJob, snapshot: int) -> str:
    return f"{quoted_name(job.table)} VERSION AS OF {snapshot}"


def _held(spark: SparkSession, ranges: Ranges) -> DataFrame | None:
    """The last record of each key that the topics hold, without those that are deleted; None for empty topics."""
    if ranges.span == 0:
        return None
    own = {**json.loads(spark.conf.get(KAFKA_CONF)), "kafka.isolation.level": "read_committed"}
    records = spark.read.format("kafka").options(**own, **offsets_options(ranges)).load().where("key IS NOT NULL")
    last = records.groupBy("topic", "key", "partition").agg(F.expr("max_by(struct(value), offset) AS last"))
    # other clients may have put a key elsewhere too; which of its records counts is then for nobody to say
    kept = ("count_if(last.value IS NOT NULL) AS held", "count(*) AS places", "first(last.value) AS value")
    keys = last.groupBy("topic", "key").agg(*(F.expr(sql) for sql in kept)).where("held > 0")
    return keys.selectExpr("topic", "key", "IF(places = 1, value, X'') AS value")
