"""Brokers that go away between two readings: told at once and by name, not after half a minute of knocking."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.kafka.shared_broker import SharedBroker
from tidegate.errors import RetryLater


class Client:
    """An admin client that was connected once; `asked` counts."""

    asked = 0

    def list_topics(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        topic = SimpleNamespace(partitions={0: None}, error=None)
        return SimpleNamespace(topics={"orders": topic, "users": topic})

    def poll(self, timeout: float) -> int:
        return 0


def test_brokers_that_are_gone_at_the_next_reading_are_named_before_they_are_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        shared, client = SharedBroker({"bootstrap.servers": address}, "connection=kafka_default"), Client()
        shared._broker._client = client  # type: ignore[assignment]
        assert shared.list_topics("o.*") == ("orders",)
        assert shared.list_topics("u.*") == ("users",)
    asked = client.asked
    shared.forget()
    for _ in range(2):
        with pytest.raises(RetryLater, match=rf"Kafka connection=kafka_default address={address} took no connection"):
            shared.list_topics("o.*")
    assert client.asked == asked
