"""The name of the table that a record names, and the list of such names in a batch."""

import json

from pyspark.sql import DataFrame, SparkSession
from tidegate.failpoints import reached
from tidegate.jobs.stage_job import StageTable
from tidegate.spec.table_template import FIELD, LONGEST, VALUE, Naming
from tidegate.sql.spark import literal, quoted, quoted_name

from tidegate_spark.stage.output_files import leave_counts

OTHER_FATES = 4  # of records without a name: bad, dead_lettered, filtered, ignored; each is one row of the list


def table_name(naming: Naming) -> str:
    """SQL text: ``namespace.table`` as `Naming.name_of` makes it, NULL where a record's values make no such name."""
    valid = literal(rf"\A{VALUE}\z")
    fields = " AND ".join(f"regexp_like({_value(f)}, {valid})" for f in naming.fields)
    namespace, table = _filled(naming.namespace), _filled(naming.table)
    reserved = literal(rf"\A(?:{naming.reserved})\z")
    allowed = ", ".join(literal(name) for name in naming.namespaces)
    return (
        f"CASE WHEN {fields} AND {namespace} IN ({allowed}) AND length({table}) <= {LONGEST} "
        f"AND NOT regexp_like({table}, {reserved}) "
        f"THEN concat({namespace}, '.', {table}) END"
    )


def name_reason(naming: Naming) -> str:
    """SQL text: why a record names no table."""
    told = ", ' ', ".join(
        f"{literal(field + '=')}, coalesce(to_json(struct(substr(CAST({quoted(field)} AS STRING), 1, 100) AS v)), '')"
        for field in naming.fields
    )
    return f"concat('its values make no table name that the pipeline may use: ', {told})"


def _value(field: str) -> str:
    return f"lower(CAST({quoted(field)} AS STRING))"


def _filled(template: str) -> str:
    pieces = FIELD.split(template)
    return f"concat({', '.join(_value(p) if n % 2 else literal(p) for n, p in enumerate(pieces))})"


def leave_names(spark: SparkSession, table: StageTable, decoded: DataFrame) -> None:
    """List the names in a decoded batch and leave them as a property of their table, or as a file, by attempt."""
    # No filter: Spark would move it below the decoding, and write all of that out again for each use of each column.
    found = (
        decoded.selectExpr("fate", "CASE WHEN fate = 'staged' THEN table_name END AS table_name")
        .groupBy("fate", "table_name")
        .agg({"*": "count"})
        .withColumnRenamed("count(1)", "records")
    )
    where = "CASE WHEN fate = 'bad' THEN struct(topic, partition, offset) END"
    first = decoded.selectExpr(f"min_by(to_json(struct(topic, partition, offset, reason)), {where}) AS first_bad")
    listed = found.orderBy("fate", "table_name").limit(table.most_names + 1 + OTHER_FATES).collect()
    bad = sum(row["records"] for row in listed if row["fate"] == "bad")
    left = {
        "attempt": table.attempt,
        "names": [row["table_name"] for row in listed if row["fate"] == "staged"],
        "bad": bad,
        "first_bad": json.loads(first.collect()[0]["first_bad"]) if bad else None,
    }
    if table.folder:
        leave_counts(spark, table.folder, left)
        return
    spark.sql(
        f"ALTER TABLE {quoted_name(table.intermediate)} "
        f"SET TBLPROPERTIES ({literal(table.property)} = {literal(json.dumps(left))})"
    )
    reached("job.named")
