"""Whether Spark generates code for the statements of a job, or evaluates them as they are.

Spark writes a Java class for each step of a plan and compiles it, anew for each batch whose numbers stand in it. That
pays from some ten thousand rows on; below, it is up to half of what Spark spends on a flush.
"""

MAX_INTERPRETED_ROWS = 5_000
INTERPRETED_CONF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def choose_evaluation(rows: int) -> dict[str, str]:
    """Session configuration for statements that look at up to so many rows."""
    return INTERPRETED_CONF if rows <= MAX_INTERPRETED_ROWS else {}
