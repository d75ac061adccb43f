"""The stage job: one read of Kafka, one atomic overwrite of batch N in each intermediate table, and its counts."""

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.errors import RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.evaluation import choose_evaluation
from tidegate.jobs.stage_job import UNUSUAL_BATCH_PROPERTY, StageJob, StageTable
from tidegate.jobs.stage_outcome import (
    DELETE_COUNTS,
    ROW_COUNT,
    TRUNCATED_AT,
    UNCHANGED_COUNTS,
    FirstBadRecord,
    StageOutcome,
)
from tidegate.model.batch import DISPOSITIONS, RECORD_COUNTS, exceeds_tolerance
from tidegate.model.offsets import Ranges
from tidegate.sql.spark import quote, quote_name, render_literal

from tidegate_spark.fields.avro_limits import guard_lengths
from tidegate_spark.fields.record_explanation import build_explanation
from tidegate_spark.formats.change_events.key_changes import add_old_key_deletes
from tidegate_spark.formats.change_events.unavailable_values import KEPT_COLUMN, mark_unavailable_values
from tidegate_spark.formats.decoded import NO_CHANGE, TRUNCATE, DecodedValue
from tidegate_spark.formats.plain_json import UNUSUAL, can_read_plainly, decode_plain_key, decode_plain_value
from tidegate_spark.formats.registry import add_key_object, get_value_decoder
from tidegate_spark.formats.wire_format import ignore_other_schemas, normalise_wire_format, restore_sent_bytes
from tidegate_spark.session import configure
from tidegate_spark.stage.bigquery_limits import add_limit_reasons, render_storable_time
from tidegate_spark.stage.dead_letters import (
    DEAD_LETTER_DISPOSITION,
    add_bad_column,
    render_bad_disposition,
    render_failed_stage,
)
from tidegate_spark.stage.kafka_source import read_records
from tidegate_spark.stage.key import add_key, check_verified_fields
from tidegate_spark.stage.key_deduplication import (
    COUNT_COLUMN,
    LATEST_TIME_COLUMN,
    keep_every_record,
    keep_last_per_key,
)
from tidegate_spark.stage.output_files import BIGQUERY_PARQUET_CONF, render_outcome, write_counts, write_rows
from tidegate_spark.stage.pass_counts import PassCounts
from tidegate_spark.stage.projection import project_rows
from tidegate_spark.stage.sequence import add_sequence
from tidegate_spark.stage.table_names import write_names
from tidegate_spark.stage.value import add_value
from tidegate_spark.table_creation import execute

# Beyond this many partitions no valid-through time is kept: each costs an aggregate in the pass over the records.
MAX_OBSERVED_PARTITIONS = 512
# A Connect server waits a tenth of a second for the counts of a pass and then answers without them.
MAX_PASSES = 3
PARTITION_TIMES = {"record": None, "wall-clock": "current_timestamp()"}
# Spark would sort by the batch number to write one partition after the other; there is but one.
WRITE_OPTIONS = {"fanout-enabled": "true"}
SUMMARY_PREFIX = "spark.sql.iceberg.snapshot-property."
_WRITTEN_CONDITION = f"fate IN ('staged', '{DEAD_LETTER_DISPOSITION}')"


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
            hit_failpoint("job.created")
    records = read_records(spark, job)
    is_shared = len(job.tables) + (job.finder is not None) > 1
    shared = records.persist() if is_shared else records
    try:
        for table in job.tables:
            _stage_table(spark, job, table, shared)
        if job.finder is not None:
            write_names(spark, job.finder, decode(_add_texts(keep_every_record(shared)), job.finder))
    finally:
        if is_shared:
            shared.unpersist()


def _stage_table(spark: SparkSession, job: StageJob, table: StageTable, records: DataFrame) -> None:
    evaluation = choose_evaluation(job.ranges.span) if job.letters is None else {}
    output = BIGQUERY_PARQUET_CONF if table.folder else {SUMMARY_PREFIX + k: v for k, v in table.summary.items()}
    configure(spark, {**evaluation, **output})
    if table.explains:
        explanation = build_explanation(_add_texts(keep_every_record(records)).persist(), table, decode)
        _leave_outcome(spark, table, explanation.to_json())
        return
    is_plain = table.tries_plain and job.letters is None and can_read_plainly(table)
    observed = _write_until_counted(job, table, records, is_plain=is_plain)
    is_unusual = is_plain and observed[UNUSUAL] > 0
    if is_unusual:
        observed = _write_until_counted(job, table, records, is_plain=False)
    outcome = _build_outcome(observed, job.ranges, table)
    _leave_outcome(spark, table, outcome.to_json(), {UNUSUAL_BATCH_PROPERTY: str(job.batch)} if is_unusual else {})


def _write_until_counted(job: StageJob, table: StageTable, records: DataFrame, *, is_plain: bool) -> dict[str, Any]:
    for _ in range(MAX_PASSES):
        observed = _write_batch(job, table, records, is_plain=is_plain)
        if observed:
            return observed
    raise RetryLater(
        f"pipeline={job.pipeline} batch={job.batch}: Spark wrote the rows and lost their counts {MAX_PASSES} times; "
        "it will be staged again"
    )


def _leave_outcome(
    spark: SparkSession, table: StageTable, outcome: str, properties: dict[str, str] | None = None
) -> None:
    if table.folder:
        write_counts(spark, table.folder, outcome)
        return
    spark.sql(render_outcome(table, outcome, properties))
    hit_failpoint("job.counted")


def _write_batch(job: StageJob, table: StageTable, records: DataFrame, *, is_plain: bool) -> dict[str, Any]:
    """Overwrite batch N and return what was counted in that pass; nothing where a busy server dropped it.

    In a plain pass `UNUSUAL` counts the records that it could not judge.
    """
    counted = keep_last_per_key(records, table) if table.last_per_raw_key else keep_every_record(records)
    counts = PassCounts()
    aggregates = _list_aggregates(job.ranges, table)
    if is_plain:
        aggregates.append(F.expr(f"count_if(reason = '{UNUSUAL}')").alias(UNUSUAL))
    decoded = counts.observe(decode(_add_texts(counted), table, is_plain=is_plain), aggregates)
    rows = decoded.where(_WRITTEN_CONDITION).selectExpr(*add_bad_column(_list_columns(job, table), table))
    hit_failpoint("job.decoded")
    if table.folder:
        return counts.read(write_rows(rows, table))
    into = rows.writeTo(quote_name(table.intermediate)).options(**WRITE_OPTIONS)
    into.overwrite(F.expr(f"batch_number = {job.batch}"))
    hit_failpoint("job.overwritten")
    return counts.read(rows)


def _add_texts(records: DataFrame) -> DataFrame:
    return records.selectExpr("*", "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text")


def decode(records: DataFrame, table: StageTable, *, is_plain: bool = False) -> DataFrame:
    """Add key, value, op and `fate`: bad, dead_lettered, filtered, ignored (a delete that is not taken), staged.

    `is_plain` reads what `can_read_plainly`, and gives `UNUSUAL` as the reason of records that it cannot judge.
    A record that names no table is bad where names are looked for; elsewhere it is of no table, and filtered.
    """
    is_name_registry = table.naming is not None and table.naming.name is None
    unnamed = "name_reason" if is_name_registry else "NULL"
    if is_plain:
        decoded_value = decode_plain_value(records, table)
    else:
        decoded_value = get_value_decoder(table)(add_key_object(normalise_wire_format(records, table), table), table)
    decode_key = decode_plain_key if is_plain else None
    decoded_value = replace(decoded_value, records=ignore_other_schemas(decoded_value.records, table))
    is_truncate = decoded_value.truncated
    keyed = add_key(decoded_value, table, decode_key)
    decoded = add_sequence(add_value(keyed, decoded_value, table), decoded_value, table)
    decoded = add_limit_reasons(
        project_rows(mark_unavailable_values(check_verified_fields(decoded, table), decoded_value, table), table), table
    )
    decoded = restore_sent_bytes(decoded, table)
    ignored = "op = 'd'" if table.ignore_deletes else "false"
    key_reason = f"CASE WHEN NOT {is_truncate} THEN key_reason END" if is_truncate else "key_reason"
    reason = f"CASE WHEN change <> '{NO_CHANGE}' THEN coalesce({key_reason}, value_reason, {unnamed}) END AS reason"
    judged = decoded.selectExpr("*", reason, f"{render_failed_stage()} AS failed_stage").selectExpr(
        "*",
        f"CASE WHEN change = '{NO_CHANGE}' THEN 'ignored' WHEN reason IS NOT NULL THEN {render_bad_disposition(table)} "
        f"WHEN NOT is_wanted THEN 'filtered' WHEN {ignored} THEN 'ignored' ELSE 'staged' END AS fate",
    )
    fated = judged.selectExpr("*", f"{_render_record_disposition(decoded_value)} AS record_fate")
    if is_truncate:
        fated = fated.withColumns(
            {
                "op": F.expr(f"CASE WHEN {is_truncate} THEN '{TRUNCATE}' ELSE op END"),
                "key_struct": F.expr(f"CASE WHEN NOT {is_truncate} THEN key_struct END"),
            }
        )
    return add_old_key_deletes(fated, decoded_value, table) if decoded_value.moved else fated


def _render_record_disposition(decoded_value: DecodedValue) -> str:
    """What is counted: a record of several rows is staged when any of them is."""
    if not decoded_value.several:
        return "fate"
    rank = "CASE fate WHEN 'staged' THEN 3 WHEN 'filtered' THEN 2 WHEN 'ignored' THEN 1 ELSE 0 END"
    return f"max_by(fate, {rank}) OVER (PARTITION BY topic, partition, offset)"


def _list_columns(job: StageJob, table: StageTable) -> list[str]:
    """The intermediate row, in the order of its columns; `i` numbers the rows of one record."""
    return [
        "key_struct AS key", f"{_render_value(table)} AS value", *(["sequence"] if table.sequence else []),
        *([KEPT_COLUMN] if table.stages_kept else []),
        "op", "topic", "partition", "offset", *_list_times(table),
        "row_number AS i", f"{_render_as_data(f'{job.batch}L')} AS batch_number",
        f"{render_literal(table.attempt)} AS attempt",
    ]  # fmt: skip


def _list_times(table: StageTable) -> list[str]:
    at = render_storable_time("timestamp") if table.folder else "timestamp"
    now = PARTITION_TIMES[table.partition_time]
    return [f"{at} AS timestamp", f"{at if now is None else _render_as_data(now)} AS partition_time"]


def _render_as_data(constant: str) -> str:
    """SQL for a number or a time that is another one in each batch.

    As a literal it would stand in the code that Spark generates, and each batch would have it compiled anew. The
    elements of an array do not; neither array nor index is folded, as the index is a column's: the remainder of a
    division by 1.
    """
    return f"array({constant})[pmod(partition, 1)]"


def _render_value(table: StageTable) -> str:
    if not table.keys_only:
        return "value_struct"
    if table.select is None:
        return "CASE WHEN false THEN value_struct END"
    # nothing is made of these records, and the columns that would be are those of the intermediate table
    fields = ", ".join(f"{quote(c.name)}: {c.type}" for c in table.select.columns)
    return f"CAST(NULL AS STRUCT<{fields}>)"


def _list_aggregates(ranges: Ranges, table: StageTable) -> list[Column]:
    """Aggregates of the one pass: records by fate, the first bad one, the latest timestamp of each partition."""
    failing = "reason IS NOT NULL" if table.skips is None else "fate = 'bad'"
    where = f"CASE WHEN {failing} THEN struct(topic, partition, offset) END"
    fates = {fate: f"count_if(record_fate = '{fate}' AND row_number = 0)" for fate in (*DISPOSITIONS, "bad")}
    first_bad = f"min_by(to_json(struct(topic, partition, offset, reason)), {where})"
    read = f"coalesce(sum(CASE WHEN row_number = 0 THEN {COUNT_COLUMN} END), 0)"
    aggregates = {"read": read, **fates, "superseded": f"{read} - count_if(row_number = 0)", "first_bad": first_bad}
    if table.folder:
        aggregates[ROW_COUNT] = f"count_if({_WRITTEN_CONDITION})"
    if table.sequence:
        aggregates["deletes"] = "count_if(fate = 'staged' AND op = 'd')"
        aggregates["unsequenced_deletes"] = "count_if(fate = 'staged' AND op = 'd' AND sequence IS NULL)"
    if table.value.applies_truncates:
        aggregates[TRUNCATED_AT] = f"max(CASE WHEN fate = 'staged' AND op = '{TRUNCATE}' THEN offset END)"
    if table.stages_kept:
        aggregates["kept"] = f"count_if(fate = 'staged' AND size({KEPT_COLUMN}) > 0)"
    for index, (topic, partition) in enumerate(_list_observed_partitions(ranges)):
        here = f"topic = {render_literal(topic)} AND partition = {partition}"
        aggregates[f"timestamp_{index}"] = f"max(CASE WHEN {here} THEN unix_millis({LATEST_TIME_COLUMN}) END)"
    return [F.expr(expression).alias(name) for name, expression in aggregates.items()]


def _list_observed_partitions(ranges: Ranges) -> list[tuple[str, int]]:
    busy = [(topic, partition) for topic, partition, start, end in ranges if end > start]
    return busy if len(busy) <= MAX_OBSERVED_PARTITIONS else []


def _list_extra_counts(table: StageTable) -> tuple[str, ...]:
    """What is counted beside the fates, for tables in which it makes a difference."""
    rows = (ROW_COUNT,) if table.folder else ()
    unchanged = UNCHANGED_COUNTS if table.stages_kept else ()
    return (*rows, *(DELETE_COUNTS if table.sequence else ()), *unchanged)


def _build_outcome(observed: dict[str, Any], ranges: Ranges, table: StageTable) -> StageOutcome:
    timestamps: dict[str, dict[int, int]] = {}
    for index, (topic, partition) in enumerate(_list_observed_partitions(ranges)):
        latest = observed[f"timestamp_{index}"]
        if latest is not None:
            timestamps.setdefault(topic, {})[partition] = latest
    counts = {name: observed[name] for name in (*RECORD_COUNTS, "bad", *_list_extra_counts(table))}
    if table.set_aside is not None and exceeds_tolerance(counts["dead_lettered"], table.set_aside):
        counts["bad"] = counts["dead_lettered"]  # too many: the batch is recorded as bad, and never merged
    first = observed["first_bad"]
    return StageOutcome(
        **counts,
        applies_truncates=table.value.applies_truncates,
        truncated_at=observed.get(TRUNCATED_AT),
        timestamps=timestamps,
        first_bad=FirstBadRecord.from_dict(json.loads(first) if first else None),
    )
