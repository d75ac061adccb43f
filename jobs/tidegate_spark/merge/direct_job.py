"""The direct job: one read of Kafka, and one statement that merges what is decoded; nothing is staged."""

from pyspark.sql import SparkSession
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.direct_job import ROWS_NAME, DirectJob, DirectOutcome
from tidegate.jobs.evaluation import DECODING_CONF, choose_evaluation
from tidegate.sql.spark import quote

from tidegate_spark.fields.avro_limits import guard_lengths
from tidegate_spark.formats.plain_json import UNUSUAL, can_read_plainly
from tidegate_spark.session import configure
from tidegate_spark.stage.kafka_source import read_records
from tidegate_spark.stage.record_pass import build_outcome, build_pass, list_row_columns

# The rows are read once: what would read them beforehand, to leave files of the table out, would read Kafka twice.
READ_ONCE_CONF = {**DECODING_CONF, "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false"}


def run(spark: SparkSession, job: DirectJob) -> DirectOutcome:
    """Read the ranges, decode their records, and run the statement on the rows; return what was counted meanwhile.

    What the statement wrote is right only if nothing was bad or unusual, which the caller decides by the counts. The
    rows go into the statement as a part of it: Connect reports the counts of one request. A record that would
    be set aside is no row: it has NULLs where the table may take none, and what is counted has the batch staged.
    """
    stage = guard_lengths(spark, job.stage)
    (table,) = stage.tables
    configure(spark, {**READ_ONCE_CONF, **choose_evaluation(stage.ranges.span), **job.conf})
    is_plain = table.tries_plain and can_read_plainly(table)
    counts, written_records = build_pass(stage.ranges, table, read_records(spark, stage), is_plain=is_plain)
    hit_failpoint("job.decoded")
    rows = written_records.where("fate = 'staged'").selectExpr(*list_row_columns(table))
    merged_rows = spark.sql(_name_rows(job.statement), rows=rows)
    hit_failpoint("job.statement")
    observed = counts.read(merged_rows)
    if not observed:
        return DirectOutcome(None)
    return DirectOutcome(build_outcome(observed, stage.ranges, table), observed[UNUSUAL] if is_plain else 0)


def _name_rows(statement: str) -> str:
    """The statement with the rows as an argument: PySpark puts them there, and reads braces of the text as its own."""
    escaped = statement.replace("{", "{{").replace("}", "}}")
    return escaped.replace(quote(ROWS_NAME), "{rows}")
