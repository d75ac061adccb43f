"""What no retry changes ends the flush for a person, whichever way the job was sent."""

import socket

import pytest
from pyspark.errors import AnalysisException
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.entry_points import get_verb
from tidegate.errors import BadRecord, ConfigurationError, IncompatibleSchema, RetryLater
from tidegate.jobs.lasting_failures import is_lasting_sql_state
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.stage_job import JobFailure, StageJob
from tidegate.jobs.statements_job import StatementsJob
from tidegate.model.offsets import Ranges
from tidegate.ports.session import Job

# as Spark 4.1 says it
NULL = "[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field:\n- field"
COLUMN = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nme` cannot be resolved. "
    "Did you mean one of the following? [`name`, `topic`]. SQLSTATE: 42703; line 1 pos 0;\n'Project ['key_struct]"
)
ROUTINE = "[UNRESOLVED_ROUTINE] Cannot resolve routine `uper` on search path [`system`.`builtin`]. SQLSTATE: 42883"
TYPES = '[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] Cannot resolve "(id = array(1))" due to data type mismatch'
PATTERN = (
    "[INVALID_PARAMETER_VALUE.PATTERN] The value of parameter(s) `regexp` in `regexp_like` is invalid: "
    r"'\\A(?:(?P<n>a))\\z'. SQLSTATE: 22023"
)
PATTERN_IN_TASK = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times (TID 0) (localhost executor driver): "
    "java.util.regex.PatternSyntaxException: Unknown inline modifier near index 6\n\\A(?:(?P<n>a))\\z\n      ^"
)
FAR_TIME = (
    "Job aborted due to stage failure: Task 0 in stage 4.0 failed 1 times, most recent failure: Lost task 0.0 in stage "
    "4.0 (TID 4) (localhost executor driver): java.lang.ArithmeticException: long overflow\n\tat java.base/java.lang."
)
OVERFLOW = "[ARITHMETIC_OVERFLOW] long overflow. Use 'try_multiply' to tolerate overflow. SQLSTATE: 22003"
JOBS: dict[str, Job] = {
    "merge": StatementsJob(pipeline="p", batch=7, statements=()),
    "stage": StageJob("p", 7, Ranges({}), "read_committed", ()),
}
LASTING = {
    "null": ("merge", NULL, IncompatibleSchema, "a record has NULL in a column that the table requires; "),
    "column": ("stage", COLUMN, ConfigurationError, "with name `nme` cannot be resolved"),
    "routine": ("stage", ROUTINE, ConfigurationError, "Cannot resolve routine `uper`"),
    "types": ("stage", TYPES, ConfigurationError, 'Cannot resolve "(id = array(1))" due to data type mismatch; '),
    "pattern": ("stage", PATTERN, ConfigurationError, "`regexp` in `regexp_like` is invalid"),
    "time beyond Spark's": ("stage", FAR_TIME, BadRecord, "--time 9223372036854776"),
    "pattern in a task": ("stage", PATTERN_IN_TASK, ConfigurationError, "Unknown inline modifier near index 6; "),
}


@pytest.mark.parametrize(("verb", "text", "kind", "part"), LASTING.values(), ids=LASTING)
def test_failure_that_lasts_is_for_a_person(verb: str, text: str, kind: type, part: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # it is there: the failure is not that it went away
        engine = ConnectEngine(f"sc://127.0.0.1:{server.getsockname()[1]}", {}, "spark_default")
        of_server = engine._translate_error(JOBS[verb], AnalysisException(text))
    failure = JobFailure.from_json(JobFailure.from_error(AnalysisException(text)).to_json())
    of_submitted = failure.to_error(f"pipeline=p batch=7: {verb}", verb)
    for error in (of_server, of_submitted):
        assert (type(error), part in str(error), str(error).startswith("pipeline=p batch=7")) == (kind, True, True)


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("merge", COLUMN),
        ("merge", FAR_TIME),
        ("merge", "no space left"),
        ("stage", "no space left"),
        ("stage", OVERFLOW),
    ],
)
def test_failure_that_may_pass_is_tried_again(verb: str, text: str) -> None:
    """A merge reads a table whose columns somebody may have changed meanwhile."""
    assert type(JobFailure.from_error(AnalysisException(text)).to_error(f"p: {verb}", verb)) is RetryLater


HEAP = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times: java.lang.OutOfMemoryError: Java heap space"
)
FULL = "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0. SQLSTATE: 53200"
KILLED = "ExecutorLostFailure (executor 1 exited): Container killed by YARN for exceeding physical memory limits."
MEMORY_ADVICE = "give it more, or set merge.max_records lower"
DROP = ", and drop the intermediate table: what is staged keeps its size"


@pytest.mark.parametrize("text", [HEAP, FULL, KILLED], ids=["heap", "task", "container"])
@pytest.mark.parametrize(
    ("job", "way"),
    [
        (JOBS["merge"], f"{MEMORY_ADVICE}{DROP} (docs/operations.md#a-batch-that-is-too-large)"),
        (JOBS["stage"], f"{MEMORY_ADVICE} (docs/operations.md#a-batch-that-is-too-large)"),
        (MaintainJob("p", "lake.shop.orders", {}, "a1", "told"), "give it more"),
    ],
    ids=["merge", "stage", "maintain"],
)
def test_job_for_which_spark_has_too_little_memory_names_the_ways_out_and_is_tried_again(
    job: Job, way: str, text: str
) -> None:
    """A staged batch is as large in the next try, whatever merge.max_records says by then."""
    verb = get_verb(job)
    with socket.create_server(("127.0.0.1", 0)) as server:
        engine = ConnectEngine(f"sc://127.0.0.1:{server.getsockname()[1]}", {}, "spark_default")
        of_server = engine._translate_error(job, AnalysisException(text))
    of_submitted = JobFailure.from_json(JobFailure.from_error(AnalysisException(text)).to_json()).to_error("p", verb)
    for error in (of_server, of_submitted):
        assert type(error) is RetryLater
        assert ": Spark ran out of memory: " in str(error)
        assert str(error).endswith(f"; {way}")


@pytest.mark.parametrize(
    ("sql_state", "lasts"),
    [("42703", True), ("22012", True), ("42501", False), ("08000", False), ("", False), (None, False)],
)
def test_audit_has_no_answer_where_its_statement_or_its_data_fails(sql_state: str | None, lasts: bool) -> None:
    """A right that is missing may be granted, and a connection come back."""
    assert is_lasting_sql_state(sql_state) is lasts
