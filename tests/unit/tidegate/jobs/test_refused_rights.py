"""A right that Spark lacked ends the flush for a person, whichever way the job was sent."""

import socket

import pytest
from pyspark.errors import AnalysisException
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.jobs.lasting_failures import find_refused_right, summarize_failure
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.stage_job import JobFailure
from tidegate.jobs.statements_job import StatementsJob

# as Spark 4.1 and Iceberg 1.12 tell what PostgreSQL 15 says
REFUSED = (
    "(org.apache.iceberg.jdbc.UncheckedSQLException) Unknown failure: ERROR: permission denied for table iceberg_tables"
)
BEHIND = f"An error occurred while calling o9.sql.\n: java.lang.RuntimeException\nCaused by: {REFUSED}\n\tat java.base"
# as moto's store and Amazon's refuse it, and Iceberg's client tells it from an executor
STORE = """[JOB_CANCELLED] Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: \
Lost task 0.0 in stage 3.0 (TID 9): software.amazon.awssdk.services.s3.model.S3Exception: {words} (Service: S3, \
Status Code: 403, Request ID: x) (SDK Attempt Count: 1)
\tat software.amazon.awssdk.services.s3.DefaultS3Client.{call}(DefaultS3Client.java:1)
\tat org.apache.iceberg.aws.s3.S3OutputStream.completeUploads(S3OutputStream.java:2)"""
AMAZON = (
    'User: arn:aws:iam::1:user/flusher is not authorized to perform: s3:PutObject on resource: "arn:aws:s3:::lake/x" '
    "because no identity-based policy allows the s3:PutObject action"
)
MERGE_LABEL = "pipeline=p batch=7 merge"
ADVICE = "give the user of the catalog's connection the rights that docs/security.md lists"
SENTENCE = (
    f"{MERGE_LABEL}: Spark was refused a right by the catalog's database: permission denied for table iceberg_tables; "
    "no incomplete batch was published; give the user of the catalog's connection the rights that "
    "docs/security.md lists"
)


@pytest.mark.parametrize("text", [REFUSED, BEHIND])
def test_right_that_a_submitted_job_lacked_is_for_a_person(text: str) -> None:
    error = JobFailure.from_json(JobFailure.from_error(RuntimeError(text)).to_json()).to_error(MERGE_LABEL)
    assert (type(error), str(error)) == (ConfigurationError, SENTENCE)


def test_right_that_a_job_on_a_server_lacked_is_for_a_person_and_another_failure_is_tried_again() -> None:
    job = StatementsJob(pipeline="p", batch=7, statements=())
    with socket.create_server(("127.0.0.1", 0)) as server:  # it is there: the failure is not that it went away
        engine = ConnectEngine(f"sc://127.0.0.1:{server.getsockname()[1]}", {}, "spark_default")
        error = engine._translate_error(job, AnalysisException(REFUSED))
        other_error = engine._translate_error(job, AnalysisException("no space left on device"))
    assert (type(error), str(error)) == (ConfigurationError, SENTENCE)
    assert (type(other_error), str(other_error)) == (
        RetryLater,
        "pipeline=p batch=7: no space is left on a disk: no space left on device; make space there; it will be tried "
        "again",
    )


@pytest.mark.parametrize(
    ("words", "call", "refusal"),
    [
        ("Access Denied", "putObject", "s3:PutObject: Access Denied"),
        ("Access Denied", "createMultipartUpload", "s3:PutObject: Access Denied"),
        ("Access Denied", "listObjectsV2", "s3:ListBucket: Access Denied"),
        ("", "headObject", "s3:GetObject: access denied"),
        (AMAZON, "putObject", "s3:PutObject: not authorized"),
        ("The AWS Access Key Id you provided does not exist in our records.", "unknownCall",
         "an action: The AWS Access Key Id you provided does not exist in our records."),
    ],
)  # fmt: skip
def test_action_that_the_store_refused_is_named_by_its_words_or_by_the_call(
    words: str, call: str, refusal: str
) -> None:
    text = STORE.format(words=words, call=call)
    error = JobFailure.from_json(JobFailure.from_error(RuntimeError(text)).to_json()).to_error(MERGE_LABEL)
    message = (
        f"{MERGE_LABEL}: Spark was refused a right by the object store: {refusal} (Service: S3, Status Code: 403); "
    )
    assert (type(error), str(error)) == (ConfigurationError, f"{message}no incomplete batch was published; {ADVICE}")


@pytest.mark.parametrize("words", [
    "Not authorized to access topics: [seen]",
    "Not authorized to access group: tidegate-p",
    "Transactional Id authorization failed",
])  # fmt: skip
def test_right_that_brokers_refused_a_job_is_for_a_person_and_names_the_kafka_connection(words: str) -> None:
    text = (
        f"Task 0 failed\nCaused by: org.apache.kafka.common.errors.TopicAuthorizationException: {words}\n\tat java.base"
    )
    error = JobFailure.from_json(JobFailure.from_error(RuntimeError(text)).to_json()).to_error(MERGE_LABEL)
    assert (type(error), str(error)) == (
        ConfigurationError,
        f"{MERGE_LABEL}: Spark was refused a right by the brokers: {words}; no incomplete batch was published; give "
        "the user of the Kafka connection the rights that docs/security.md lists",
    )


def test_refusal_to_maintain_a_table_names_the_table() -> None:
    job = MaintainJob(pipeline="p", table="lake.shop.t", attempt="a", property="x", statements={})
    with socket.create_server(("127.0.0.1", 0)) as server:
        engine = ConnectEngine(f"sc://127.0.0.1:{server.getsockname()[1]}", {}, "spark_default")
        error = engine._translate_error(job, AnalysisException(STORE.format(words="Access Denied", call="putObject")))
    assert str(error).startswith(
        "pipeline=p batch=0 table=lake.shop.t maintain: Spark was refused a right by the object"
    )


def test_right_that_is_told_at_the_end_of_a_long_text_is_kept_when_it_is_cut() -> None:
    text = "x" * 1000 + "\n" + STORE.format(words="Access Denied", call="deleteObjects")
    failure = summarize_failure(text, 100)
    assert len(failure) == 100
    assert (
        find_refused_right(failure)
        == "the object store: s3:DeleteObject: Access Denied (Service: S3, Status Code: 403)"
    )
    assert summarize_failure("no space left\nat line 7", 100) == "no space left"
    assert find_refused_right("Slow Down (Service: S3, Status Code: 503, Request ID: x)") is None
