"""The stage job: one read of Kafka, one atomic overwrite of batch N in each intermediate table, and its counts."""

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.errors import RetryLater
from tidegate.failpoints import reached
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.model.batch import DELETES, FATES, RECORDS, ROWS, UNCHANGED, are_too_many
from tidegate.model.offsets import Ranges
from tidegate.sql.spark import literal, quoted_name

from tidegate_spark.fields.avro_limits import guard_lengths
from tidegate_spark.formats.change_events.key_changes import with_moved_keys
from tidegate_spark.formats.change_events.unavailable_values import KEPT, with_unchanged
from tidegate_spark.formats.decoded import NOTHING, FoundValue
from tidegate_spark.formats.registry import value_format, with_key_object
from tidegate_spark.formats.wire_format import with_plain_wire, with_sent_bytes, without_others
from tidegate_spark.session import configure
from tidegate_spark.stage.bigquery_limits import storable, with_holdable
from tidegate_spark.stage.dead_letters import FATE, beside_rows, failed_stage, fate_of_bad
from tidegate_spark.stage.kafka_source import read
from tidegate_spark.stage.key import verified, with_key
from tidegate_spark.stage.key_deduplication import LATEST, STANDS_FOR, every_record, last_per_raw_key
from tidegate_spark.stage.output_files import AS_BIGQUERY_READS, leave_counts, leave_rows
from tidegate_spark.stage.projection import projected
from tidegate_spark.stage.sequence import with_sequence
from tidegate_spark.stage.table_names import leave_names
from tidegate_spark.stage.value import with_value
from tidegate_spark.table_creation import execute

# Beyond this many partitions no valid-through time is kept: each costs an aggregate in the pass over the records.
OBSERVED_PARTITIONS = 512
# A Connect server waits a tenth of a second for the counts of a pass and then answers without them.
PASSES = 3
PARTITION_TIMES = {"record": "timestamp", "wall-clock": "current_timestamp()"}
SUMMARY = "spark.sql.iceberg.snapshot-property."
_IS_WRITTEN = f"fate IN ('staged', '{FATE}')"


def run(spark: SparkSession, job: StageJob) -> None:
    """Stage the job's ranges.

    1. Create the intermediate tables that are missing, or that hold rows of another shape.
    2. Read the records once; several tables share the read.
    3. Take the last record of each raw key where the table allows it, decode, count in the same pass, and overwrite
       batch N of each table.
    4. Leave the counts, or the first bad record, in a table property named by the attempt.

    A repeat call overwrites batch N under another attempt. Records are decoded before anything is written; a batch
    with a bad record is written without it and recorded as bad, so that it is never merged. A table that sets bad
    records aside has them staged beside its rows, in the same pass; more than it allows make the batch bad.
    """
    job = guard_lengths(spark, job)
    for table in (*job.tables, *([job.finder] if job.finder else [])):
        for statement in table.create:
            execute(spark, statement)
            reached("job.created")
    records = read(spark, job)
    is_shared = len(job.tables) + (job.finder is not None) > 1
    shared = records.persist() if is_shared else records
    try:
        for table in job.tables:
            _stage(spark, job, table, shared)
        if job.finder is not None:
            leave_names(spark, job.finder, decode(_texts(every_record(shared)), job.finder))
    finally:
        if is_shared:
            shared.unpersist()


def _stage(spark: SparkSession, job: StageJob, table: StageTable, records: DataFrame) -> None:
    configure(spark, AS_BIGQUERY_READS if table.folder else {SUMMARY + k: v for k, v in table.summary.items()})
    passes = (_written(job, table, records) for _ in range(PASSES))
    observed = next((counts for counts in passes if counts), None)
    if observed is None:
        raise RetryLater(
            f"pipeline={job.pipeline} batch={job.batch}: Spark wrote the rows and lost their counts {PASSES} times; "
            "it will be staged again"
        )
    outcome = _outcome(observed, job.ranges, table)
    if table.folder:
        leave_counts(spark, table.folder, outcome)
        return
    spark.sql(
        f"ALTER TABLE {quoted_name(table.intermediate)} "
        f"SET TBLPROPERTIES ({literal(table.property)} = {literal(json.dumps(outcome))})"
    )
    reached("job.counted")


def _written(job: StageJob, table: StageTable, records: DataFrame) -> dict[str, Any]:
    """Overwrite batch N and return what was counted in that pass; nothing where a busy server dropped it."""
    observation = Observation()
    counted = last_per_raw_key(records, table) if table.last_per_raw_key else every_record(records)
    decoded = decode(_texts(counted), table).observe(observation, *_counts(job.ranges, table))
    rows = decoded.where(_IS_WRITTEN).selectExpr(*beside_rows(_columns(job, table), table))
    reached("job.decoded")
    if table.folder:
        leave_rows(rows, table)
        return dict(observation.get)
    rows.writeTo(quoted_name(table.intermediate)).overwrite(F.expr(f"batch_number = {job.batch}"))
    reached("job.overwritten")
    return dict(observation.get)


def _texts(records: DataFrame) -> DataFrame:
    return records.selectExpr("*", "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text")


def decode(records: DataFrame, table: StageTable) -> DataFrame:
    """Add key, value, op and `fate`: bad, dead_lettered, filtered, ignored (a delete that is not taken), staged.

    A record that names no table is bad where names are looked for; elsewhere it is of no table, and filtered.
    """
    finds = table.naming is not None and table.naming.name is None
    unnamed = "name_reason" if finds else "NULL"
    found = value_format(table)(with_key_object(with_plain_wire(records, table), table), table)
    found = replace(found, records=without_others(found.records, table))
    decoded = with_sequence(with_value(with_key(found, table), found, table), found, table)
    decoded = with_holdable(projected(with_unchanged(verified(decoded, table), found, table), table), table)
    decoded = with_sent_bytes(decoded, table)
    ignored = "op = 'd'" if table.ignore_deletes else "false"
    reason = f"CASE WHEN change <> '{NOTHING}' THEN coalesce(key_reason, value_reason, {unnamed}) END AS reason"
    judged = decoded.selectExpr("*", reason, f"{failed_stage()} AS failed_stage").selectExpr(
        "*",
        f"CASE WHEN change = '{NOTHING}' THEN 'ignored' WHEN reason IS NOT NULL THEN '{fate_of_bad(table)}' "
        f"WHEN NOT is_wanted THEN 'filtered' WHEN {ignored} THEN 'ignored' ELSE 'staged' END AS fate",
    )
    fated = judged.selectExpr("*", f"{_record_fate(found)} AS record_fate")
    return with_moved_keys(fated, found, table) if found.moved else fated


def _record_fate(found: FoundValue) -> str:
    """What is counted: a record of several rows is staged when any of them is."""
    if not found.several:
        return "fate"
    rank = "CASE fate WHEN 'staged' THEN 3 WHEN 'filtered' THEN 2 WHEN 'ignored' THEN 1 ELSE 0 END"
    return f"max_by(fate, {rank}) OVER (PARTITION BY topic, partition, offset)"


def _columns(job: StageJob, table: StageTable) -> list[str]:
    """The intermediate row, in the order of its columns; `i` numbers the rows of one record."""
    return [
        "key_struct AS key", f"{_value(table)} AS value", *(["sequence"] if table.sequence else []),
        *([KEPT] if table.stages_kept else []),
        "op", "topic", "partition", "offset", *_times(table),
        "row_number AS i", f"{job.batch}L AS batch_number",
        f"{literal(table.attempt)} AS attempt",
    ]  # fmt: skip


def _times(table: StageTable) -> list[str]:
    at = storable("timestamp") if table.folder else "timestamp"
    arrival = PARTITION_TIMES[table.partition_time]
    return [f"{at} AS timestamp", f"{at if arrival == 'timestamp' else arrival} AS partition_time"]


def _value(table: StageTable) -> str:
    return "CASE WHEN false THEN value_struct END" if table.keys_only else "value_struct"


def _counts(ranges: Ranges, table: StageTable) -> list[Column]:
    """Aggregates of the one pass: records by fate, the first bad one, the latest timestamp of each partition."""
    where = "CASE WHEN reason IS NOT NULL THEN struct(topic, partition, offset) END"
    fates = {fate: f"count_if(record_fate = '{fate}' AND row_number = 0)" for fate in (*FATES, "bad")}
    first_bad = f"min_by(to_json(struct(topic, partition, offset, reason)), {where})"
    read = f"coalesce(sum(CASE WHEN row_number = 0 THEN {STANDS_FOR} END), 0)"
    wanted = {"read": read, **fates, "superseded": f"{read} - count_if(row_number = 0)", "first_bad": first_bad}
    if table.folder:
        wanted[ROWS] = f"count_if({_IS_WRITTEN})"
    if table.sequence:
        wanted["deletes"] = "count_if(fate = 'staged' AND op = 'd')"
        wanted["unsequenced_deletes"] = "count_if(fate = 'staged' AND op = 'd' AND sequence IS NULL)"
    if table.stages_kept:
        wanted["kept"] = f"count_if(fate = 'staged' AND size({KEPT}) > 0)"
    for index, (topic, partition) in enumerate(_observed(ranges)):
        here = f"topic = {literal(topic)} AND partition = {partition}"
        wanted[f"timestamp_{index}"] = f"max(CASE WHEN {here} THEN unix_millis({LATEST}) END)"
    return [F.expr(expression).alias(name) for name, expression in wanted.items()]


def _observed(ranges: Ranges) -> list[tuple[str, int]]:
    busy = [(topic, partition) for topic, partition, start, end in ranges if end > start]
    return busy if len(busy) <= OBSERVED_PARTITIONS else []


def _beside(table: StageTable) -> tuple[str, ...]:
    """What is counted beside the fates, for tables in which it makes a difference."""
    rows = (ROWS,) if table.folder else ()
    return (*rows, *(DELETES if table.sequence else ()), *(UNCHANGED if table.stages_kept else ()))


def _outcome(observed: dict[str, Any], ranges: Ranges, table: StageTable) -> dict[str, Any]:
    timestamps: dict[str, dict[int, int]] = {}
    for index, (topic, partition) in enumerate(_observed(ranges)):
        latest = observed[f"timestamp_{index}"]
        if latest is not None:
            timestamps.setdefault(topic, {})[partition] = latest
    counts = {name: observed[name] for name in (*RECORDS, "bad", *_beside(table))}
    if table.set_aside is not None and are_too_many(counts["dead_lettered"], table.set_aside):
        counts["bad"] = counts["dead_lettered"]  # too many: the batch is recorded as bad, and never merged
    first = observed["first_bad"]
    return {**counts, "timestamps": timestamps, "first_bad": json.loads(first) if first else None}
