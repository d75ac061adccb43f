"""A Spark server that answers nothing any more ends its sessions' requests; one whose job takes long does not."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyspark.sql.connect.proto as messages
import pytest
from pyspark.sql.connect.proto import base_pb2_grpc
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.errors import RetryLater
from tidegate.jobs.statements_job import StatementsJob
from tidegate_spark import server_retries
from tidegate_spark import session as session_module
from tidegate_spark.server_retries import ServerWatch, is_answering
from tidegate_spark.session import close, open_session

DEADLINE_SECONDS = 30
QUESTION_SECONDS, MAX_UNANSWERED = 0.2, 6


class Spark(base_pb2_grpc.SparkConnectServiceServicer):
    """A Connect server that can be frozen, and whose statements end when they are told to."""

    def __init__(self) -> None:
        self.awake, self.finished = threading.Event(), threading.Event()
        self.questions, self.executed = threading.Semaphore(0), list[str]()
        self.awake.set()
        self.refuses = False

    def _answer(self, request: Any, kind: Any, context: Any) -> Any:
        self.questions.release()
        self.awake.wait()
        if self.refuses:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "who are you?")
        return kind(session_id=request.session_id, server_side_session_id="one")

    def Config(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by Spark
        return self._answer(request, messages.ConfigResponse, context)

    def ReleaseExecute(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._answer(request, messages.ReleaseExecuteResponse, context)

    def ReleaseSession(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._answer(request, messages.ReleaseSessionResponse, context)

    def ExecutePlan(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        self.executed.append(request.operation_id)
        self.finished.wait()
        answer = self._answer(request, messages.ExecutePlanResponse, context)
        answer.operation_id, answer.response_id = request.operation_id, "last"
        answer.result_complete.SetInParent()
        yield answer


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_retries, "QUESTION_SECONDS", QUESTION_SECONDS)
    monkeypatch.setattr(server_retries, "MAX_UNANSWERED", MAX_UNANSWERED)


@pytest.fixture
def server(short: None) -> Iterator[tuple[Spark, str]]:
    spark = Spark()
    with ThreadPoolExecutor(20) as threads:
        server = grpc.server(threads)
        base_pb2_grpc.add_SparkConnectServiceServicer_to_server(spark, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield spark, f"sc://127.0.0.1:{port}"
        spark.awake.set()
        spark.finished.set()
        server.stop(0).wait()


def execute(remote: str, watch: ServerWatch) -> None:
    """One statement, in a session of its own."""
    spark: Any = open_session(remote, watch)
    try:
        spark.client._execute(spark.client._execute_plan_request_with_metadata())
    finally:
        close(spark)


class Execution(threading.Thread):
    """A statement that is waited for in a thread."""

    def __init__(self, remote: str) -> None:
        super().__init__(daemon=True)
        self.watch, self.error, self._remote = ServerWatch(lambda: False), list[Exception](), remote
        self.start()

    def run(self) -> None:
        with self.watch:
            try:
                execute(self._remote, self.watch)
            except Exception as error:
                self.error.append(error)


def await_questions(spark: Spark, number: int) -> None:
    for _ in range(number):
        assert spark.questions.acquire(timeout=DEADLINE_SECONDS)


def test_server_that_freezes_while_a_statement_runs_ends_it(server: tuple[Spark, str]) -> None:
    spark, remote = server
    execution = Execution(remote)
    await_questions(spark, 2)
    assert execution.watch.silent_seconds == 0
    spark.awake.clear()
    begun = time.monotonic()
    execution.join(DEADLINE_SECONDS)
    assert not execution.is_alive()
    assert time.monotonic() - begun >= (MAX_UNANSWERED - 1) * QUESTION_SECONDS
    assert (execution.watch.silent_seconds, len(execution.error)) == (QUESTION_SECONDS * MAX_UNANSWERED, 1)
    assert len(spark.executed) == 1


def test_server_that_goes_on_in_time_ends_the_statement_with_its_result(server: tuple[Spark, str]) -> None:
    spark, remote = server
    execution = Execution(remote)
    await_questions(spark, 1)
    for _ in range(2):  # only questions in a row count
        spark.awake.clear()
        await_questions(spark, MAX_UNANSWERED - 3)
        spark.awake.set()
        await_questions(spark, 2)
    spark.finished.set()
    execution.join(DEADLINE_SECONDS)
    assert (execution.is_alive(), execution.error, execution.watch.silent_seconds) == (False, [], 0)
    assert len(spark.executed) == 1


def test_statement_that_takes_long_without_a_word_is_not_ended(server: tuple[Spark, str]) -> None:
    spark, remote = server
    execution = Execution(remote)
    await_questions(spark, MAX_UNANSWERED + 3)
    assert execution.is_alive()
    spark.finished.set()
    execution.join(DEADLINE_SECONDS)
    assert (execution.is_alive(), execution.error, execution.watch.silent_seconds) == (False, [], 0)
    wait_for_no_watch()


def wait_for_no_watch() -> None:
    for column in threading.enumerate():
        if column.name == "watch":
            column.join(DEADLINE_SECONDS)
            assert not column.is_alive(), "a session that is closed is asked about no more"


@pytest.mark.usefixtures("short")
def test_engine_names_the_server_that_takes_connections_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        engine = ConnectEngine(f"sc://{address}/;token=s3cret", {}, "connection=spark_default")
        with pytest.raises(RetryLater) as error_info:
            engine.run(StatementsJob("shop", 3, ()))
    assert str(error_info.value).startswith(
        f"pipeline=shop batch=3: Spark connection=spark_default address={address} has answered nothing for 1 s in the "
        "middle of merge; no incomplete batch was published; "
    )
    assert str(error_info.value).endswith("; it will be tried again")
    assert "s3cret" not in str(error_info.value)
    wait_for_no_watch()


@pytest.mark.usefixtures("short")
def test_only_an_answer_of_the_server_is_one(server: tuple[Spark, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CLOSING_SECONDS", 0.1)
    spark, remote = server
    local_session, unreachable_session = open_session(remote), open_session("sc://127.0.0.1:9")
    assert is_answering(local_session.client)
    assert not is_answering(unreachable_session.client)
    spark.awake.clear()
    assert not is_answering(local_session.client)
    spark.awake.set()
    spark.refuses = True
    assert is_answering(local_session.client), "one that refuses lives"
    for session in (local_session, unreachable_session):
        close(session)
