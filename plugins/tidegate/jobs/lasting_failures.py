"""Which failures of Spark last until a person changes the pipeline file, the table or the server, and what to do.

Of SQL that a user wrote alone, as an audit is, every failure of the statement or its data lasts. A job's own statements
hold SQL of ours and tables that others may change meanwhile, so only classes that an expression of the pipeline file,
or a record's NULL, can cause are taken for lasting there.
"""

import re
from collections.abc import Collection

from tidegate.errors import BadRecord, ConfigurationError, IncompatibleSchema, TidegateError

LASTING_SQL_STATES = ("42", "22")  # beginnings: of the statement itself, and of the data that it computes with
ACCESS_SQL_STATE = "42501"  # the right may be granted meanwhile
NULL_CLASS = "[NOT_NULL_ASSERT_VIOLATION]"
# what Spark says of an expression that it cannot work out for any record
EXPRESSION_PATTERN = re.compile(
    r"\[(?:UNRESOLVED_COLUMN|UNRESOLVED_ROUTINE|DATATYPE_MISMATCH|WRONG_NUM_ARGS|FIELD_NOT_FOUND|INVALID_EXTRACT)"
    r"[\w.]*\][^\n]*"
    r"|\[INVALID_PARAMETER_VALUE\.PATTERN\][^\n]*|java\.util\.regex\.PatternSyntaxException: [^\n]*"
)
# of Java itself: a record's milliseconds have no microseconds in 64 bits; what an expression overflows has a class
FAR_TIME = "java.lang.ArithmeticException: long overflow"
FIRST_FAR_MILLISECOND = 2**63 // 1000 + 1
# of a task, of Spark's own memory for tasks, and of a container that was ended for what it took
MEMORY_PATTERN = re.compile(
    r"\bOutOfMemoryError\b|\[UNABLE_TO_ACQUIRE_MEMORY\]|\bOOMKilled\b|exceeding (?:physical )?memory limits"
)


def is_lasting_sql_state(sql_state: str | None) -> bool:
    """Whether a user's own statement that failed with this SQLSTATE fails whenever it is run."""
    return (sql_state or "").startswith(LASTING_SQL_STATES) and sql_state != ACCESS_SQL_STATE


def find_lasting_failure(place: str, verbs: Collection[str], text: str) -> TidegateError | None:
    """The error of a job, named by `place`, whose failure no retry changes; None where one may.

    `verbs` are what the job does: `stage` works out the expressions of the pipeline file, `merge` puts rows into the
    table.
    """
    if "merge" in verbs and NULL_CLASS in text:
        return IncompatibleSchema(
            f"{place}: a record has NULL in a column that the table requires; nothing was published; declare it "
            "NOT NULL in value.schema or key.schema, so that such a record is bad and reported with its place, or make "
            "the table's column optional"
        )
    if "stage" in verbs and FAR_TIME in text:
        return BadRecord(
            f"{place}: a record has a timestamp that Spark's Kafka source cannot read, as of a producer that writes "
            "nanoseconds where Kafka counts milliseconds; nothing was written; let Kafka find its partition and "
            f"offset, `kafka-get-offsets.sh --bootstrap-server … --topic … --time {FIRST_FAR_MILLISECOND}`, and leave "
            "it out: `flush --until` this offset, then `rebase --to` the next one"
        )
    expression = EXPRESSION_PATTERN.search(text) if "stage" in verbs else None
    if expression:
        return ConfigurationError(
            f"{place}: Spark cannot work out an expression of the pipeline file: {expression[0].strip(' ;')[:400]}; "
            "nothing was written; correct when, delete_when, route or select"
        )
    return None


def describe_memory_failure(verbs: Collection[str], text: str) -> str:
    """What a message adds where a job failed because Spark ran out of memory, which may pass; else nothing.

    What is staged keeps its size, so a merge alone is as large in each try.
    """
    if not MEMORY_PATTERN.search(text):
        return ""
    smaller = "set merge.max_records lower"
    if set(verbs) == {"merge"}:
        smaller += ", and drop the intermediate table: what is staged keeps its size"
    elif "stage" not in verbs:
        return "; Spark ran out of memory: give it more"
    return f"; Spark ran out of memory: give it more, or {smaller} (docs/operations.md#a-batch-that-is-too-large)"
