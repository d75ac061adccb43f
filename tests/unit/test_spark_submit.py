"""A submitted job is an argument of its program while it is short enough for one, else configuration."""

import sys
from pathlib import Path

import pytest
from tidegate.adapters.spark_submit import arguments, job_conf, packed
from tidegate.jobs import JOB_CONF, MergeJob
from tidegate_spark.sessions import given


def a_job(length: int) -> MergeJob:
    return MergeJob("shop", 1, ("x" * length,))


def test_short_job_is_the_programs_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(10)
    assert (arguments(job), job_conf(job)) == ([job.to_json()], {})
    monkeypatch.setattr(sys, "argv", ["merge.py", *arguments(job)])
    assert MergeJob.from_json(given()) == job


def test_job_that_is_too_long_for_an_argument_stands_in_the_properties_file() -> None:
    job = a_job(200_000)
    assert arguments(job) == []
    with packed({"spark.x": "y", **job_conf(job)}) as (properties, _):
        lines = Path(properties).read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(JOB_CONF)]
    assert MergeJob.from_json(line.removeprefix(f"{JOB_CONF} ").replace("\\\\", "\\")) == job
