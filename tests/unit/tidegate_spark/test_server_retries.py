"""Spark's client gives up a port at which nobody listens after a moment, and waits on for a network that fails."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from tidegate.adapters.server_probe import find_connection_failure
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.errors import RetryLater
from tidegate.jobs.statements_job import StatementsJob
from tidegate_spark import server_retries
from tidegate_spark.server_retries import RetryWhileListening


@contextmanager
def listen() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def build_unavailable_error(port: int) -> grpc.RpcError:
    """What gRPC raises for that address."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as error_info:
        channel.unary_unary("/none/none")(b"", timeout=5)
    return error_info.value


def knock_at(port: int) -> RetryWhileListening:
    return RetryWhileListening(lambda: find_connection_failure([("127.0.0.1", port)]) is not None)


def test_server_that_is_gone_is_asked_for_a_moment_only_and_one_that_comes_back_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_retries, "MAX_DOWN_SECONDS", 0.2)
    with listen() as port:
        pass
    error, policy = build_unavailable_error(port), knock_at(port)
    assert policy.can_retry(error)
    with socket.create_server(("127.0.0.1", port)):
        time.sleep(0.3)
        assert policy.can_retry(error)
    assert policy.can_retry(error)
    time.sleep(0.3)
    assert not policy.can_retry(error)


def test_what_spark_itself_does_not_try_again_is_not_tried_again() -> None:
    with listen() as port:
        policy = knock_at(port)
        assert not policy.can_retry(ValueError("no"))
    assert policy.max_retries is not None
    least_ms = sum(min(50 * 4**n, policy.max_backoff or 0) for n in range(policy.max_retries))
    assert least_ms >= 600_000, "a network may fail for ten minutes, as Spark promises"


def test_engine_without_a_server_says_so_at_once_with_connection_and_address_and_no_token() -> None:
    with listen() as port:
        pass
    engine = ConnectEngine(f"sc://127.0.0.1:{port}/;token=s3cret", {}, "connection=spark_default")
    begun = time.monotonic()
    with pytest.raises(RetryLater) as error_info:
        engine.run(StatementsJob("shop", 1, ()))
    assert time.monotonic() - begun < 5
    assert str(error_info.value).startswith(
        f"Spark connection=spark_default address=127.0.0.1:{port} took no connection"
    )
    assert "s3cret" not in str(error_info.value)
