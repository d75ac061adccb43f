"""The merge job: the statements that the worker rendered, one after the other, in a session of their own."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tidegate.errors import AuditFailed
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.lasting_failures import is_lasting_sql_state
from tidegate.jobs.statements_job import JobAnswers, StatementsJob

from tidegate_spark.session import configure, execute, set_table_properties

MAX_SHOWN_CHARACTERS = 300


def run(spark: SparkSession, job: StatementsJob) -> None:
    """Run the job's statements, then its questions. What they did is read from the snapshots they made."""
    configure(spark, job.conf)
    for statement in job.statements:
        execute(spark, statement)
        hit_failpoint("job.statement")
    if job.questions is not None:
        place = f"pipeline={job.pipeline} table={job.table} batch={job.batch}"
        pairs = zip(job.questions.queries, job.questions.texts, strict=True)
        broken = tuple(_ask(spark, query, f"{place}: audit={text}") for query, text in pairs)
        set_table_properties(
            spark, job.questions.table, {job.questions.property: JobAnswers(job.questions.attempt, broken).to_json()}
        )
        hit_failpoint("job.audited")


def _ask(spark: SparkSession, query: str, place: str) -> int | str | None:
    try:
        answer: int | str | None = spark.sql(query).collect()[0][0]
        return answer
    except PySparkException as error:
        if not is_lasting_sql_state(error.getSqlState()):
            raise
        reason = str(error).partition("\n")[0][:MAX_SHOWN_CHARACTERS].rstrip(";")
        raise AuditFailed(
            f"{place}: it has no answer: {reason}; nothing was published and the batch stays staged; correct the audit "
            "in the pipeline file, or what it looks at; the next flush tries again"
        ) from error
