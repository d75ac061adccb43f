"""Airflow's connections as steps get them: read through Airflow's own code, over a task's socket."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    CommsDecoder,
    ConnectionResult,
    ErrorResponse,
    _RequestFrame,
    _ResponseFrame,
)
from tidegate.adapters.kafka.settings import resolve_kafka_settings
from tidegate.errors import ConfigurationError, RetryLater
from tidegate_airflow.connections import resolve_connection

UNREACHABLE = {"error": "API_SERVER_ERROR", "detail": {"status_code": 503, "message": "the password is s3cret"}}
SERVER_ERROR = {"error": "API_SERVER_ERROR", "detail": {"status_code": None, "exception_type": "ConnectError"}}


def receive(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := end.recv(size - len(data))):
        data += chunk
    return data


@contextlib.contextmanager
def run_supervisor(answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The other end of a task's socket: a connection, an error that Airflow's API server gave, or none of that id."""
    task_end, own_end = socket.socketpair()
    connection_ids: list[str] = []

    def serve() -> None:
        while head := receive(own_end, 4):
            frame = msgspec.msgpack.decode(receive(own_end, int.from_bytes(head, "big")), type=_RequestFrame)
            if frame.body.get("type") != "GetConnection":
                own_end.sendall(_ResponseFrame(id=frame.id, body=None).as_bytes())
                continue
            connection_ids.append(frame.body["conn_id"])
            answer = answers.get(frame.body["conn_id"])
            missing = ErrorResponse.model_validate({"error": "CONNECTION_NOT_FOUND", "detail": None}).model_dump()
            is_error = isinstance(answer, dict) and answer.get("error") == "API_SERVER_ERROR"
            body = None if is_error else (missing if answer is None else answer)
            error = ErrorResponse.model_validate(answer).model_dump() if is_error else None
            own_end.sendall(_ResponseFrame(id=frame.id, body=body, error=error).as_bytes())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", CommsDecoder(socket=task_end), raising=False)
    try:
        yield connection_ids
    finally:
        task_end.close()
        thread.join(60)
        own_end.close()


def build_connection(conn_id: str, extra: str | None) -> dict[str, Any]:
    place: dict[str, Any] = {"conn_id": conn_id, "conn_type": "kafka", "host": "kafka", "port": 9092, "extra": extra}
    return ConnectionResult(schema=None, login=None, password=None, **place).model_dump(by_alias=True)


def test_connection_that_airflow_has_is_found_and_one_that_it_has_not_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = build_connection("kafka_default", json.dumps({"security.protocol": "SSL", "session.timeout.ms": 6000}))
    with run_supervisor({"kafka_default": connection}, monkeypatch):
        airflow_connection = resolve_connection("kafka_default")
        assert airflow_connection is not None
        assert (airflow_connection.host, airflow_connection.port, airflow_connection.extra["session.timeout.ms"]) == (
            "kafka",
            9092,
            6000,
        )
        assert resolve_connection("spark_default") is None


@pytest.mark.parametrize(("answer", "expected"), [(UNREACHABLE, "status=503"), (SERVER_ERROR, "ConnectError")])
def test_api_server_that_does_not_answer_is_tried_again_and_is_no_missing_connection(
    answer: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_supervisor({"kafka_default": answer}, monkeypatch), pytest.raises(RetryLater) as problem:
        resolve_connection("kafka_default")
    assert str(problem.value).startswith("connection=kafka_default: ")
    assert expected in str(problem.value)
    assert "s3cret" not in str(problem.value)


def test_connection_that_is_denied_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = ErrorResponse.model_validate({"error": "PERMISSION_DENIED", "detail": {"status_code": 403}}).model_dump()
    with (
        run_supervisor({"kafka_default": denied}, monkeypatch),
        pytest.raises(RetryLater, match=r"^connection=kafka_default: .*denies.*; "),
    ):
        resolve_connection("kafka_default")


@pytest.mark.parametrize("value", ['{"conn_type": "kafka", "extra": ', "kafka://host:port", '{"type": "kafka"}'])
def test_variable_that_airflow_cannot_read_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", value)
    with (
        run_supervisor({}, monkeypatch),
        pytest.raises(ConfigurationError, match=r"^AIRFLOW_CONN_KAFKA_DEFAULT: cannot be read; write Airflow's"),
    ):
        resolve_connection("kafka_default")


@pytest.mark.parametrize("extra", ['{"bootstrap.servers": "kafka:9092",}', "[1, 2]", '"kafka:9092"', "7"])
def test_extra_that_is_no_object_is_one_sentence(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        run_supervisor({"kafka_default": build_connection("kafka_default", extra)}, monkeypatch),
        pytest.raises(ConfigurationError, match=r"^connection=kafka_default: its extra is no JSON object; "),
    ):
        resolve_connection("kafka_default")


@pytest.mark.parametrize("extra", [None, "", "{}", " "])
def test_connection_without_an_extra_has_none(extra: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_supervisor({"kafka_default": build_connection("kafka_default", extra)}, monkeypatch):
        connection = resolve_connection("kafka_default")
        assert connection is not None
        assert (connection.host, connection.extra) == ("kafka", {})


def test_value_that_is_null_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = json.dumps({"security.protocol": "SSL", "ssl.ca.location": None})
    with run_supervisor({"kafka_default": build_connection("kafka_default", extra)}, monkeypatch):
        settings = resolve_kafka_settings("kafka_default", resolve_connection)
    assert settings == {"security.protocol": "SSL", "bootstrap.servers": "kafka:9092"}
