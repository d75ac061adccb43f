"""The name of the table that a record names, and the list of such names in a batch."""

import json

from pyspark.sql import DataFrame, SparkSession
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import DiscoveredNames, FirstBadRecord
from tidegate.spec.table_template import FIELD_PATTERN, MAX_NAME_CHARACTERS, VALUE_PATTERN, TableTemplate
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.stage.output_files import render_outcome, write_counts

UNNAMED_ROW_COUNT = 4  # of records without a name: bad, dead_lettered, filtered, ignored; each is one row of the list


def render_table_name(naming: TableTemplate) -> str:
    """Return ``namespace.table`` as `Naming.name_of` makes it, NULL if a record's values make no such name."""
    valid = render_literal(rf"\A{VALUE_PATTERN}\z")
    fields = " AND ".join(f"regexp_like({_render_value(f)}, {valid})" for f in naming.fields)
    namespace = _render_template(naming.namespace)
    table = _render_template(naming.table)
    reserved = render_literal(rf"\A(?:{naming.reserved})\z")
    allowed = ", ".join(render_literal(name) for name in naming.namespaces)
    return (
        f"CASE WHEN {fields} AND {namespace} IN ({allowed}) AND length({table}) <= {MAX_NAME_CHARACTERS} "
        f"AND NOT regexp_like({table}, {reserved}) "
        f"THEN concat({namespace}, '.', {table}) END"
    )


def render_name_reason(naming: TableTemplate) -> str:
    values = ", ' ', ".join(
        f"{render_literal(field + '=')}, "
        f"coalesce(to_json(struct(substr(CAST({quote(field)} AS STRING), 1, 100) AS v)), '')"
        for field in naming.fields
    )
    return f"concat('its values make no table name that the pipeline may use: ', {values})"


def _render_value(field: str) -> str:
    return f"lower(CAST({quote(field)} AS STRING))"


def _render_template(template: str) -> str:
    pieces = FIELD_PATTERN.split(template)
    return f"concat({', '.join(_render_value(p) if n % 2 else render_literal(p) for n, p in enumerate(pieces))})"


def write_names(spark: SparkSession, table: StageTable, decoded: DataFrame) -> None:
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
        first_bad=FirstBadRecord.from_dict(json.loads(first.collect()[0]["first_bad"]) if bad else None),
    ).to_json()
    if table.folder:
        write_counts(spark, table.folder, outcome)
        return
    spark.sql(render_outcome(table, outcome))
    hit_failpoint("job.named")
