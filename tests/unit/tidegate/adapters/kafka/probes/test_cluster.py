"""Brokers that are not where they say that they are: a bootstrap address answers, and no record can be read."""

import socket
from types import SimpleNamespace
from typing import Any

from seeded_mistakes import require_found
from tidegate.adapters.kafka.probes.cluster import Cluster


def describe(*ports: int) -> Any:
    """What a bootstrap broker tells of the cluster; a real one advertises addresses that are there."""
    brokers = {n: SimpleNamespace(id=n, host="127.0.0.1", port=port) for n, port in enumerate(ports, 1)}
    return SimpleNamespace(brokers=brokers)


def test_broker_that_advertises_an_address_where_nobody_listens_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server_socket, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed, port = listener.getsockname()[1], server_socket.getsockname()[1]
        cluster = Cluster({"bootstrap.servers": f"127.0.0.1:{port}"}, "connection=kafka_default")
        findings = list(cluster._check_advertised(describe(port, closed)))
        assert not cluster.is_usable
        assert len(findings) == 1
        assert f"address=127.0.0.1:{closed}" in require_found("broker-advertises-nowhere", findings).cause
        assert [finding.check for finding in cluster._check_advertised(describe(port, port))] == ["kafka.brokers"]
        assert cluster.is_usable
