"""A submitted job is an argument of its program while it is short enough for one, else configuration."""

import sys
from pathlib import Path

import pytest
from tidegate.adapters.spark.submit import SubmitEngine, build_arguments, build_job_conf, pack_files
from tidegate.adapters.spark.target import SubmitTarget
from tidegate.errors import ConfigurationError, RetryLater, TidegateError
from tidegate.jobs.stage_job import FAILURE_CONF, JOB_CONF, JobFailure
from tidegate.jobs.statements_job import StatementsJob
from tidegate_spark.session import read_job_argument


def build_job(length: int) -> StatementsJob:
    return StatementsJob("shop", 1, ("x" * length,))


def test_short_job_is_the_programs_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    job = build_job(10)
    assert (build_arguments(job), build_job_conf(job)) == ([job.to_json()], {})
    monkeypatch.setattr(sys, "argv", ["merge.py", *build_arguments(job)])
    assert StatementsJob.from_json(read_job_argument()) == job


def test_job_that_is_too_long_for_an_argument_stands_in_the_properties_file() -> None:
    job = build_job(200_000)
    assert build_arguments(job) == []
    with pack_files({"spark.x": "y", **build_job_conf(job)}) as files:
        lines = Path(files.properties).read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(JOB_CONF)]
    assert StatementsJob.from_json(line.removeprefix(f"{JOB_CONF} ").replace("\\\\", "\\")) == job


def list_error_types(root: type[TidegateError] = TidegateError) -> set[type[TidegateError]]:
    return {root}.union(*(list_error_types(kind) for kind in root.__subclasses__()))


def test_error_of_a_submitted_job_keeps_its_kind_and_its_text() -> None:
    for kind in list_error_types():
        with pack_files({}) as files:
            assert files.read_failure("job", "stage") is None
            Path(files.failure).write_text(
                JobFailure.from_error(kind("key=1: it has several rows\nin lines")).to_json()
            )
            failure = files.read_failure("job", "stage")
        assert (type(failure), str(failure)) == (kind, "key=1: it has several rows\nin lines")


def test_error_of_a_library_in_a_submitted_job_is_tried_again_and_names_its_first_line() -> None:
    error = JobFailure.from_error(OSError("no space left on device\n\tat java.io")).to_error(
        "pipeline=p batch=7: stage"
    )
    assert (type(error), str(error)) == (
        RetryLater,
        "pipeline=p batch=7: stage: no space is left on a disk: OSError: no space left on device; make space there; "
        "it will be tried again",
    )


def test_driver_is_told_where_to_leave_its_failure() -> None:
    with pack_files({"spark.x": "y"}) as files:
        lines = Path(files.properties).read_text().splitlines()
        assert f"{FAILURE_CONF} {files.failure}" in lines
    assert not Path(files.failure).parent.exists()


@pytest.mark.parametrize(("options", "stack"), [("", "-Xss4m"), ("-Xss8m -Da=b", "-Xss8m")])
def test_threads_of_driver_and_executors_have_room_for_a_plan(options: str, stack: str) -> None:
    """A plan is walked by recursion; beyond the stack a job ends without a word."""
    names = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
    with pack_files(dict.fromkeys(names, options)) as files:
        lines = Path(files.properties).read_text().splitlines()
    for name in names:
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert [word for word in line.split() if word.startswith("-Xss")] == [stack]
        assert all(word in line for word in options.split())


def test_folder_without_a_spark_submit_is_named_and_no_reason_to_try_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="it has no bin/spark-submit"):
        SubmitEngine(SubmitTarget("local[1]"), "", {}).run(build_job(10))


def test_driver_that_left_no_failure_is_told_by_its_last_error_without_the_logs_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure_text = "Lost task 1.0 in stage 0.0 (TID 1): java.lang.OutOfMemoryError: Java heap space"
    program = tmp_path / "spark-submit"
    program.write_text(f"#!/bin/sh\necho '26/11/23 17:11:34 WARN TaskSetManager: {failure_text}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("tidegate.adapters.spark.submit.find_spark_submit", lambda: program)
    words = r"merge: Spark ran out of memory: TaskSetManager: Lost task 1\.0 .*Java heap space; give it more"
    with pytest.raises(RetryLater, match=words):
        SubmitEngine(SubmitTarget("local[1]"), "", {}).run(build_job(10))
