"""Which failures of Spark last until a person changes the pipeline file, the table or the server, and what to do.

In SQL that a user wrote alone, as an audit is, every failure of the statement or its data lasts. A job's own statements
also hold generated SQL, and tables that others may change meanwhile: there a failure lasts only if an expression of the
pipeline file, or a record's NULL, can cause its class.
"""

import re

from tidegate.errors import BadRecord, ConfigurationError, IncompatibleSchema, RetryLater, TidegateError

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

MAX_WORDS_CHARACTERS = 500
SPACE_PATTERN = re.compile(r"\b[Nn]o space left on device\b")


def is_lasting_sql_state(sql_state: str | None) -> bool:
    """Whether a user's own statement that failed with this SQLSTATE fails whenever it is run."""
    return (sql_state or "").startswith(LASTING_SQL_STATES) and sql_state != ACCESS_SQL_STATE


def find_lasting_failure(place: str, verb: str, text: str) -> TidegateError | None:
    """The error of the job at `place` that no retry changes; None where one may.

    `verb` is what the job does: `stage` evaluates expressions of the pipeline file, `merge` writes rows to the table.
    """
    if verb == "merge" and NULL_CLASS in text:
        return IncompatibleSchema(
            f"{place}: a record has NULL in a column that the table requires; nothing was published; declare it "
            "NOT NULL in value.schema or key.schema, so that such a record is bad and reported with its place, or make "
            "the table's column optional (first drop its identifier fields, if it is one of them)"
        )
    if verb == "stage" and FAR_TIME in text:
        return BadRecord(
            f"{place}: a record has a timestamp that Spark's Kafka source cannot read, as of a producer that writes "
            "nanoseconds where Kafka counts milliseconds; nothing was written; let Kafka find its partition and "
            f"offset, `kafka-get-offsets.sh --bootstrap-server … --topic … --time {FIRST_FAR_MILLISECOND}`, and leave "
            "it out: `flush --until` this offset, then `rebase --to` the next one"
        )
    expression = EXPRESSION_PATTERN.search(text) if verb == "stage" else None
    if expression:
        return ConfigurationError(
            f"{place}: Spark cannot work out an expression of the pipeline file: {expression[0].strip(' ;')[:400]}; "
            "nothing was written; correct when, delete_when, route or select"
        )
    return None


def build_passing_failure(place: str, verb: str, text: str, *, failed: str) -> RetryLater:
    """The error of a job that may succeed in the next try: the cause in plain words, if it is known, and a way out.

    `failed` follows the place where the cause is not known, and `text` are Spark's own words.
    """
    words = text[:MAX_WORDS_CHARACTERS]
    if MEMORY_PATTERN.search(text):
        return RetryLater(f"{place}: Spark ran out of memory: {words}; give it more{_name_smaller_batch(verb)}")
    if SPACE_PATTERN.search(text):
        return RetryLater(f"{place}: no space is left on a disk: {words}; make space there; it will be tried again")
    return RetryLater(f"{place}{failed}: {words}; it will be tried again; if it fails again, read Spark's log")


def _name_smaller_batch(verb: str) -> str:
    smaller = "set merge.max_records lower"
    # what is staged keeps its size: a merge alone is as large in each try
    if verb == "merge":
        smaller += ", and drop the intermediate table: what is staged keeps its size"
    elif verb != "stage":
        return ""
    return f", or {smaller} (docs/operations.md#a-batch-that-is-too-large)"


# PostgreSQL's words, behind a SQL catalog of Iceberg
DATABASE_PATTERN = re.compile(r"permission denied for (?:table|schema|database|sequence) [^\s;]+")
# of Kafka's Java client
KAFKA_PATTERN = re.compile(r"Not authorized to access (?:topics|group): [^;\s]+|Transactional ?Id authorization failed")
# those of Amazon's client: the store's own, then in brackets what it answered; to a HEAD it says nothing
STORE_PATTERN = re.compile(r"(?P<words>[^:;\n()]*)\(Service: S3, Status Code: 403\b")
NOT_AUTHORIZED = "is not authorized to perform"  # Amazon's, in a sentence with the user and the object
ACTION_PATTERN = re.compile(r"\bs3:[A-Z]\w+")  # Amazon's store names what it refused, others do not
CALL_PATTERN = re.compile(r"\bDefaultS3Client\.(\w+)\(")  # in a trace
ACTIONS_BY_CALL = {
    "headObject": "s3:GetObject",
    "getObject": "s3:GetObject",
    "putObject": "s3:PutObject",
    "createMultipartUpload": "s3:PutObject",
    "uploadPart": "s3:PutObject",
    "completeMultipartUpload": "s3:PutObject",
    "abortMultipartUpload": "s3:AbortMultipartUpload",
    "deleteObject": "s3:DeleteObject",
    "deleteObjects": "s3:DeleteObject",
    "listObjectsV2": "s3:ListBucket",
}


def find_refused_right(text: str) -> str | None:
    """Who refused what, in one line; None for another failure. Called with that line, it returns the line again."""
    if match := DATABASE_PATTERN.search(text):
        return f"the catalog's database: {match[0]}"
    if match := KAFKA_PATTERN.search(text):
        return f"the brokers: {match[0]}"
    if match := STORE_PATTERN.search(text):
        words = "not authorized" if NOT_AUTHORIZED in text else match["words"].strip() or "access denied"
        return f"the object store: {_find_action(text)}: {words} (Service: S3, Status Code: 403)"
    return None


def summarize_failure(text: str, limit: int) -> str:
    text = text.strip()
    line = next(iter(text.splitlines()), "")[:limit]
    # a refused right may stand far behind the first line
    refusal = find_refused_right(text)
    more = f": {refusal}" if refusal and find_refused_right(line) != refusal else ""
    return line[: limit - len(more)] + more


def build_refused_right_error(place: str, refusal: str) -> ConfigurationError:
    """The error where brokers, the catalog's database or the object store refused something to the job at `place`."""
    connection = "the Kafka connection" if refusal.startswith("the brokers: ") else "the catalog's connection"
    return ConfigurationError(
        f"{place}: Spark was refused a right by {refusal}; no incomplete batch was "
        f"published; give the user of {connection} the rights that docs/security.md lists"
    )


def _find_action(text: str) -> str:
    if match := ACTION_PATTERN.search(text):
        return match[0]
    calls = CALL_PATTERN.findall(text)
    return next((ACTIONS_BY_CALL[call] for call in calls if call in ACTIONS_BY_CALL), "an action")
