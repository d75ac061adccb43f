"""Whether Spark generates Java code for the steps of a plan, or evaluates them as they are.

Spark writes a Java class for each step and compiles it, again for each batch whose numbers stand in it. That pays from
some ten thousand rows on; below, it is up to half of the time that Spark spends on a flush.
"""

MAX_INTERPRETED_ROWS = 5_000
# For plans that decode records. At each of their many steps Spark derives what holds for its columns, once more for
# each name that a column is passed on under: `select` on change events took minutes to plan. Nothing in them uses it.
# Where a dimension is joined, Spark looks for files that its keys could leave out: it writes all steps of a key into
# one expression, which grows with each step, and what it would find is a second read of Kafka.
DECODING_CONF = {
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
INTERPRETED_CONF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def choose_evaluation(rows: int) -> dict[str, str]:
    """Session configuration for statements that look at up to so many rows."""
    return INTERPRETED_CONF if rows <= MAX_INTERPRETED_ROWS else {}
