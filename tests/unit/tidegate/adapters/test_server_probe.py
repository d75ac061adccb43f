"""A server that is down is told within the time that was given, by name, connection and address, without a secret."""

import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from tidegate.adapters import server_probe
from tidegate.adapters.server_probe import Patience, Server, require_server
from tidegate.errors import RetryLater


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_server_that_listens_costs_one_connection_and_no_wait(open_port: int, closed_port: int) -> None:
    begun = time.monotonic()
    require_server(Server("Kafka", "connection=k", (("127.0.0.1", closed_port), ("127.0.0.1", open_port))))
    assert time.monotonic() - begun < 1


def test_without_patience_a_closed_port_is_told_at_once_with_connection_and_address(closed_port: int) -> None:
    with pytest.raises(RetryLater) as error_info:
        require_server(Server.from_uri("Spark", "connection=s", f"sc://127.0.0.1:{closed_port}/;token=s3cret"))
    text = str(error_info.value)
    assert text.startswith(f"Spark connection=s address=127.0.0.1:{closed_port} took no connection: Connection refused")
    assert "s3cret" not in text
    assert "\n" not in text


def test_patient_command_says_once_what_it_waits_for_and_goes_on_when_the_server_comes(
    closed_port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Patience, "seconds", 20.0)
    monkeypatch.setattr(server_probe, "PAUSE_SECONDS", 0.05)
    listening: list[socket.socket] = []
    later = threading.Timer(0.5, lambda: listening.append(socket.create_server(("127.0.0.1", closed_port))))
    later.start()
    with caplog.at_level(logging.WARNING):
        require_server(Server.from_list("Kafka", "connection=k", f"SASL_SSL://127.0.0.1:{closed_port}"))
    later.join()
    listening[0].close()
    (message,) = [record.getMessage() for record in caplog.records]
    assert (
        message == f"waiting for Kafka connection=k address=127.0.0.1:{closed_port}, 20 s at most: Connection refused"
    )


def test_patience_ends(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "seconds", 0.3)
    begun = time.monotonic()
    with pytest.raises(RetryLater, match="took no connection for 0 s"):
        require_server(Server("Kafka", "", (("127.0.0.1", closed_port),)))
    assert 0.2 < time.monotonic() - begun < 3


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("postgresql+psycopg2://me:s3cret@db/lake", ("db", 5432)),
        ("https://rest.example/catalog", ("rest.example", 443)),
        ("http://[::1]:8181/", ("::1", 8181)),
        ("sc://host:1/;token=x", ("host", 1)),
        ("sqlite:////data/catalog.db", None),
        ("local[*]", None),
        ("http://host:port/", None),
    ],
)
def test_address_is_read_from_a_uri(uri: str, address: tuple[str, int] | None) -> None:
    assert Server.from_uri("it", "", uri).addresses == ((address,) if address else ())


def test_host_behind_a_proxy_is_not_knocked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inside")
    assert Server.from_uri("it", "", "https://outside:1/").addresses == ()
    assert Server.from_uri("it", "", "https://inside:1/").addresses == (("inside", 1),)
