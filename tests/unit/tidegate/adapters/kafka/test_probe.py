"""Brokers that are not where they say that they are: a bootstrap address answers, and no record can be read."""

import socket
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from seeded_mistakes import require_found
from tidegate.adapters.kafka.probe import ProbedBroker
from tidegate.diagnosis.finding import make_error
from tidegate.errors import GiveUp


def describe(*session: int) -> Any:
    """An admin client of such brokers; a real one advertises addresses that are there."""
    nodes = [SimpleNamespace(id=number, host="127.0.0.1", port=port) for number, port in enumerate(session, 1)]
    answer: Future[Any] = Future()
    answer.set_result(SimpleNamespace(nodes=nodes))
    return SimpleNamespace(describe_cluster=lambda **_: answer)


def test_broker_that_advertises_an_address_where_nobody_listens_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server_socket, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed = listener.getsockname()[1]
        port = server_socket.getsockname()[1]
        broker = ProbedBroker({"bootstrap.servers": f"127.0.0.1:{port}"}, "connection=kafka_default")
        broker._client = describe(port, closed)
        with pytest.raises(GiveUp) as refusal:
            list(broker.check_brokers())
        finding = require_found("broker-advertises-nowhere", [make_error("kafka.reachable", refusal.value)])
        assert f"address=127.0.0.1:{closed}" in finding.cause
        broker._client = describe(port, port)
        [finding] = broker.check_brokers()
        assert "number=2: each takes connections" in finding.cause
