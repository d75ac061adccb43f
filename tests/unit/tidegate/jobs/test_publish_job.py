"""A publication's job is read from its text as it was written: spark-submit hands over nothing else."""

import pytest
from fakes.publications import Outside
from tidegate.jobs.publish_job import KeyPart, PublishJob, RowIdentity, TouchedFiles
from tidegate.model.offsets import Ranges
from tidegate.publications.publish import publish
from tidegate.spec.publication import Grouped

OPTIONAL_PARTS = {
    "parts": (KeyPart(0, None), KeyPart(1, '{"run": 1}', after="k", counts={"upserts": 2}, key_form="json:BIGINT")),
    "touched": TouchedFiles(("a.parquet", "b.parquet"), ("c.parquet", "d.parquet"), RowIdentity.ROW_ID),
    "grouped": Grouped("SELECT id, day FROM changed", ("id", "day")),
    "ranges": Ranges({"orders": {0: (1, 5), 1: (2, 7)}}),
}


@pytest.fixture
def job() -> PublishJob:
    """The job of a first run, as its plan builds it."""
    outside = Outside(delivery="exactly-once")
    outside.table.commit(a="1", b="2")
    publish(outside.open_session())
    return outside.spark.jobs[0]


def test_job_equals_the_one_of_its_text(job: PublishJob) -> None:
    assert PublishJob.from_json(job.to_json()) == job


@pytest.mark.parametrize("name", OPTIONAL_PARTS)
def test_optional_part_of_a_job_is_in_its_text(job: PublishJob, name: str) -> None:
    changed_job = PublishJob(**{**vars(job), name: OPTIONAL_PARTS[name]})
    assert changed_job != job
    assert PublishJob.from_json(changed_job.to_json()) == changed_job
