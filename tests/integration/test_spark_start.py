"""A Spark server that is started again: it takes no request before it can answer one, and knows no session any more."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from conftest import wait_until
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import ConfigRequest
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.errors import RetryLater
from tidegate.jobs.merge_job import MergeJob

ANSWER_SECONDS = 60.0


def ask(remote: str) -> grpc.StatusCode:
    """What a new session is answered to its first question, as every job asks it."""
    wanted = ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=["spark.app.name"]))
    request = ConfigRequest(session_id=str(uuid.uuid4()), operation=wanted)
    with grpc.insecure_channel(remote.removeprefix("sc://").rstrip("/")) as channel:
        try:
            SparkConnectServiceStub(channel).Config(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def ask_until_answered(remote: str) -> Iterator[grpc.StatusCode]:
    while (status := ask(remote)) is not grpc.StatusCode.OK:
        yield status
        time.sleep(0.05)  # a server that starts needs the processor more than its test


def test_server_that_starts_again_fails_no_request_and_a_job_of_before_is_told_why_it_failed(
    own_stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_server(spark: Any, _job: MergeJob) -> None:
        before = own_stack.variables["SPARK_PID"]
        os.kill(int(before), signal.SIGKILL)
        statuses.update(ask_until_answered(own_stack.spark_remote))
        wait_until(lambda: own_stack.variables["SPARK_PID"] != before, "the stack's probe of the server")
        for _ in range(2):  # PySpark says another thing the second time
            with pytest.raises(PySparkException) as failure:
                spark.sql("SELECT 1").collect()
            reasons.add(str(engine._translate_error(job, failure.value)))
        raise failure.value

    statuses, reasons = set[grpc.StatusCode](), set[str]()
    engine, job = ConnectEngine(own_stack.spark_remote, {}, "spark_default"), MergeJob("p", 7, statements=())
    monkeypatch.setattr("tidegate_spark.merge.job.run", lose_server)
    with pytest.raises(RetryLater) as caught:
        engine.run(job)
    assert statuses == {grpc.StatusCode.UNAVAILABLE}
    address = own_stack.spark_remote.removeprefix("sc://").rstrip("/")
    sentence = (
        f"pipeline=p batch=7: Spark spark_default address={address} does not know the session of merge any more: it "
        "was started again, or ended the session; no incomplete batch was published; it will be tried again"
    )
    assert (reasons, str(caught.value)) == ({sentence}, sentence)
