"""The stage job: one read of Kafka, one atomic overwrite of batch N in each intermediate table, and its counts."""

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tidegate.errors import RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.evaluation import DECODING_CONF, choose_evaluation
from tidegate.jobs.stage_job import UNUSUAL_BATCH_PROPERTY, StageJob, StageTable
from tidegate.jobs.stage_outcome import MAX_PASSES, DiscoveredNames, FirstBadRecord
from tidegate.model.plain_data import read_plain
from tidegate.schema.inferred_types import GrownColumns
from tidegate.sql.spark import quote_name, render_literal

from tidegate_spark.fields.avro import guard_lengths
from tidegate_spark.fields.record_explanation import build_explanation, build_outlines, find_refused_columns
from tidegate_spark.formats.plain_json import UNUSUAL, can_read_plainly
from tidegate_spark.session import configure, execute, set_table_properties
from tidegate_spark.stage.bigquery_limits import replace_map_values
from tidegate_spark.stage.kafka_source import read_records
from tidegate_spark.stage.key import keep_every_record
from tidegate_spark.stage.one_key import ROWLESS_CONDITION, ROWLESS_STRUCT, KeyCounts, build_key_pass
from tidegate_spark.stage.record_pass import (
    BAD_CONDITION,
    BAD_STRUCT,
    PassCounts,
    add_bad_column,
    add_texts,
    build_outcome,
    build_pass,
    count_unknown_fields,
    decode,
    infer_lacking_columns,
    list_row_columns,
    render_as_data,
    render_place,
)

# Spark would sort by the batch number to write one partition after the other; there is but one.
WRITE_OPTIONS = {"fanout-enabled": "true"}
SUMMARY_PREFIX = "spark.sql.iceberg.snapshot-property."
# Spark's own default for times is a type that others have left behind. The others are Spark's defaults: a server that
# still writes for Hive moves days before 1582 to another calendar, and lays lists out otherwise.
BIGQUERY_PARQUET_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
UNNAMED_ROW_COUNT = 4  # of records without a name: bad, dead_lettered, filtered, ignored; each is one row of the list


def run(spark: SparkSession, job: StageJob) -> None:
    """Stage the job's ranges.

    1. Create the intermediate tables that are missing, or that hold rows of another shape.
    2. Read the records once; several tables share the read.
    3. Decode, count in the same pass, and overwrite batch N of each table.
    4. Leave the counts, or the first bad record, in a table property named by the attempt.

    A repeat call overwrites batch N under another attempt. A batch with a bad record is written without it and recorded
    as bad, so it is never merged; bad records that the table sets aside are staged beside its rows.
    """
    job = guard_lengths(spark, job)
    # 1.
    for table in job.all_tables:
        for statement in table.create:
            execute(spark, statement)
            hit_failpoint("job.created")
    # 2.
    records = read_records(spark, job)
    is_shared = len(job.all_tables) > 1
    shared = records.persist() if is_shared else records
    try:
        for table in job.tables:
            # 3. and 4.
            _stage_table(spark, job, table, shared)
        if job.finder is not None:
            _write_names(spark, job.finder, decode(add_texts(keep_every_record(shared)), job.finder))
    finally:
        if is_shared:
            shared.unpersist()


def _stage_table(spark: SparkSession, job: StageJob, table: StageTable, records: DataFrame) -> None:
    evaluation = choose_evaluation(job.ranges.span) if job.letters is None else {}
    output = BIGQUERY_PARQUET_CONF if table.folder else {SUMMARY_PREFIX + k: v for k, v in table.summary.items()}
    configure(spark, {**DECODING_CONF, **evaluation, **output})
    if table.explains:
        explanation = build_explanation(add_texts(keep_every_record(records)).persist(), table, decode)
        _leave_outcome(spark, table, explanation.to_json())
        return
    if table.outlines:
        chosen = records.where(" OR ".join(f"({render_place(*place)})" for place in table.outlines))
        _leave_outcome(spark, table, build_outlines(add_texts(keep_every_record(chosen)), table, decode).to_json())
        return
    is_plain = table.tries_plain and job.letters is None and can_read_plainly(table)
    observed = _write_until_counted(job, table, records, is_plain=is_plain)
    is_unusual = is_plain and observed[UNUSUAL] > 0
    if is_unusual:
        observed = _write_until_counted(job, table, records, is_plain=False)
    lacking = GrownColumns() if table.of_key else infer_lacking_columns(observed, records, table)
    # of rows that are staged again with more columns, or of one key, nobody asks what they had beside the first ones
    is_asked = not lacking.fields and not table.of_key
    unknown_fields = count_unknown_fields(observed, records, table) if is_asked else None
    outcome = build_outcome(observed, job.ranges, table, unknown_fields, lacking)
    if outcome.bad and outcome.first_bad is not None and table.value.adds_columns:
        refused_columns = _find_refused_columns(table, records, outcome.first_bad)
        outcome = replace(outcome, first_bad=replace(outcome.first_bad, columns=refused_columns))
    unusual = {UNUSUAL_BATCH_PROPERTY: str(job.batch)} if is_unusual else {}
    _leave_outcome(spark, table, outcome.to_json(), unusual)


def _find_refused_columns(table: StageTable, records: DataFrame, first: FirstBadRecord) -> tuple[str, ...]:
    made = [column for column in table.value_columns if column.name.casefold() not in table.fixed]
    place = render_place(first.topic, first.partition, first.offset)
    record = add_texts(keep_every_record(records.where(place))).persist()
    try:
        return find_refused_columns(record, table, made, decode)
    finally:
        record.unpersist()


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
        _write_counts(spark, table.folder, outcome)
        return
    set_table_properties(spark, table.intermediate, {table.property: outcome, **(properties or {})})
    hit_failpoint("job.counted")


def _write_batch(job: StageJob, table: StageTable, records: DataFrame, *, is_plain: bool) -> dict[str, Any]:
    counts: PassCounts | KeyCounts
    columns = _list_columns(job, table)
    if table.of_key:
        counts, written_rows = build_key_pass(job.ranges, table, records, is_plain=is_plain)
        columns = add_bad_column(columns, ROWLESS_CONDITION, ROWLESS_STRUCT)
    else:
        counts, written_rows = build_pass(job.ranges, table, records, is_plain=is_plain)
        if table.set_aside is not None:
            columns = add_bad_column(columns, BAD_CONDITION, BAD_STRUCT)
    rows = written_rows.selectExpr(*columns)
    hit_failpoint("job.decoded")
    if table.folder:
        return counts.read(write_rows(rows, table))
    into = rows.writeTo(quote_name(table.intermediate)).options(**WRITE_OPTIONS)
    into.overwrite(F.expr(f"batch_number = {job.batch}"))
    hit_failpoint("job.overwritten")
    return counts.read(rows)


def _list_columns(job: StageJob, table: StageTable) -> list[str]:
    return [
        *list_row_columns(table),
        f"{render_as_data(f'{job.batch}L')} AS batch_number",
        f"{render_literal(table.attempt)} AS attempt",
    ]


def write_rows(rows: DataFrame, table: StageTable) -> DataFrame:
    """Return what was written below the attempt's folder: one file, if each is uploaded by a load job of its own."""
    files = replace_map_values(rows)
    files = files.repartition(1) if table.folder.startswith("file:") else files
    files.write.mode("overwrite").parquet(f"{table.folder}/rows")
    hit_failpoint("job.rows_left")
    return files


def _write_counts(spark: SparkSession, folder: str, outcome: str) -> None:
    """Write the counts, one line of JSON, last: an attempt without them did not finish."""
    counts = spark.createDataFrame([(outcome,)], "value STRING")
    counts.coalesce(1).write.mode("overwrite").text(f"{folder}/counts")
    hit_failpoint("job.counts_left")


def _write_names(spark: SparkSession, table: StageTable, decoded: DataFrame) -> None:
    """List the names in a decoded batch and leave them as a property of their table, or as a file, by attempt."""
    # No filter: Spark would move it below the decoding, and write all of that out again for each use of each column.
    counts = (
        decoded.selectExpr("fate", "CASE WHEN fate = 'staged' THEN table_name END AS table_name")
        .groupBy("fate", "table_name")
        .agg({"*": "count"})
        .withColumnRenamed("count(1)", "records")
    )
    bad_place = "CASE WHEN fate = 'bad' THEN struct(topic, partition, offset) END"
    first = decoded.selectExpr(f"min_by(to_json(struct(topic, partition, offset, reason)), {bad_place}) AS first_bad")
    name_rows = counts.orderBy("fate", "table_name").limit(table.max_names + 1 + UNNAMED_ROW_COUNT).collect()
    bad = sum(row["records"] for row in name_rows if row["fate"] == "bad")
    outcome = DiscoveredNames(
        attempt=table.attempt,
        names=tuple(row["table_name"] for row in name_rows if row["fate"] == "staged"),
        bad=bad,
        first_bad=read_plain(FirstBadRecord, json.loads(first.collect()[0]["first_bad"])) if bad else None,
    ).to_json()
    if table.folder:
        _write_counts(spark, table.folder, outcome)
        return
    set_table_properties(spark, table.intermediate, {table.property: outcome})
    hit_failpoint("job.named")
