"""A right that Spark lacked ends the flush for a person, whichever way the job was sent."""

import socket

import pytest
from pyspark.errors import AnalysisException
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.jobs.merge_job import MergeJob
from tidegate.jobs.stage_job import JobFailure

# as Spark 4.1 and Iceberg 1.12 tell what PostgreSQL 15 says
REFUSED = (
    "(org.apache.iceberg.jdbc.UncheckedSQLException) Unknown failure: ERROR: permission denied for table iceberg_tables"
)
BEHIND = f"An error occurred while calling o9.sql.\n: java.lang.RuntimeException\nCaused by: {REFUSED}\n\tat java.base"
WHERE = "pipeline=p batch=7 merge"
SENTENCE = (
    f"{WHERE}: Spark was refused a right by the catalog's database: permission denied for table iceberg_tables; "
    "nothing was published that is not whole; give the user of the catalog's connection the rights that "
    "docs/security.md lists"
)


@pytest.mark.parametrize("text", [REFUSED, BEHIND])
def test_right_that_a_submitted_job_lacked_is_for_a_person(text: str) -> None:
    error = JobFailure.from_json(JobFailure.of(RuntimeError(text)).to_json()).to_error(WHERE)
    assert (type(error), str(error)) == (ConfigurationError, SENTENCE)


def test_right_that_a_job_on_a_server_lacked_is_for_a_person_and_another_failure_is_tried_again() -> None:
    job = MergeJob(pipeline="p", batch=7, statements=())
    with socket.create_server(("127.0.0.1", 0)) as server:  # it is there: the failure is not that it went away
        engine = ConnectEngine(f"sc://127.0.0.1:{server.getsockname()[1]}", {}, "spark_default")
        error = engine._translate_error(job, AnalysisException(REFUSED))
        other = engine._translate_error(job, AnalysisException("no space left on device"))
    assert (type(error), str(error)) == (ConfigurationError, SENTENCE)
    assert (type(other), str(other)) == (
        RetryLater,
        "pipeline=p batch=7: Spark failed in merge: no space left on device",
    )
