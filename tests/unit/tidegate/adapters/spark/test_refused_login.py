"""A Spark Connect server that wants another token: one sentence that names the connection, and no second try."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from seeded_mistakes import require_found
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.probe import check_connect
from tidegate.diagnosis.finding import make_error
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.jobs.statements_job import StatementsJob

REFUSALS = {
    "unauthenticated": (grpc.StatusCode.UNAUTHENTICATED, "Invalid authentication token"),
    "forbidden": (grpc.StatusCode.PERMISSION_DENIED, "user=someone may not open a session"),
}


class Refuse(grpc.ServerInterceptor):
    """Answers every call with one status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._handlers = {
            kind: make(lambda _, context: context.abort(code, details))
            for kind, make in (
                ("unary", grpc.unary_unary_rpc_method_handler),
                ("stream", grpc.unary_stream_rpc_method_handler),
            )
        }

    def intercept_service(self, continuation, details) -> grpc.RpcMethodHandler:
        return self._handlers["stream" if details.method.endswith("ExecutePlan") else "unary"]


@contextmanager
def run_refusing_server(code: grpc.StatusCode, details: str) -> Iterator[str]:
    """Its address, with a token of a user's."""
    server = grpc.server(ThreadPoolExecutor(2), interceptors=[Refuse(code, details)])
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"sc://localhost:{port}/;user_id=someone"
    finally:
        server.stop(0).wait()


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_token_is_an_error_that_names_the_connection_and_is_not_tried_again(name: str) -> None:
    code, details = REFUSALS[name]
    with run_refusing_server(code, details) as remote, pytest.raises(ConfigurationError) as error_info:
        ConnectEngine(remote, {}, "connection=spark_default").run(StatementsJob("shop", 3, ()))
    port = remote.split(":")[2].partition("/")[0]
    assert str(error_info.value) == (
        f"Spark connection=spark_default address=localhost:{port} refuses the log-in: {details}; nothing was changed; "
        "check the token (the connection's password), and that the server was started with it"
    )


def test_other_status_of_the_server_is_told_by_its_words_and_tried_again() -> None:
    with (
        run_refusing_server(grpc.StatusCode.INTERNAL, "disk full") as remote,
        pytest.raises(
            RetryLater,
            match=r"^pipeline=shop batch=3: Spark failed in merge: INTERNAL: disk full; it will be tried again; ",
        ),
    ):
        ConnectEngine(remote, {}).run(StatementsJob("shop", 3, ()))


def test_session_that_the_server_did_not_release_is_not_asked_by_later_ones() -> None:
    from pyspark.sql.connect.session import SparkSession

    with run_refusing_server(*REFUSALS["unauthenticated"]) as remote, pytest.raises(ConfigurationError):
        ConnectEngine(remote, {}).run(StatementsJob("shop", 3, ()))
    assert SparkSession.getActiveSession() is None
    assert SparkSession._get_default_session() is None


def test_doctor_names_the_log_in_and_the_way_out() -> None:
    with run_refusing_server(*REFUSALS["unauthenticated"]) as remote, pytest.raises(ConfigurationError) as refusal:
        list(check_connect(remote, "connection=spark_default"))
    finding = require_found("spark-token-wrong", [make_error("spark.reachable", refusal.value)])
    assert "connection=spark_default" in finding.cause
    assert "Invalid authentication token" in finding.cause
