"""A Spark server that starts takes no request before it can answer one."""

import os
import signal
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
from conftest import wait_until
from pyspark.sql.connect.proto import ConfigRequest
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

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


def test_spark_that_starts_again_fails_no_request(own_stack: Any) -> None:
    before = own_stack.variables["SPARK_PID"]
    os.kill(int(before), signal.SIGKILL)
    assert set(ask_until_answered(own_stack.spark_remote)) == {grpc.StatusCode.UNAVAILABLE}
    wait_until(lambda: own_stack.variables["SPARK_PID"] != before, "the stack's probe of the server")
