"""A server that takes connections and says nothing is told from one that answers, closes, or is not there."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from tidegate.adapters import server_greeting
from tidegate.adapters.server_greeting import Greeting, greet_uri, is_silent
from tidegate.adapters.server_probe import Server

Answer = Callable[[socket.socket], None]


@contextmanager
def run_server(answer: Answer) -> Iterator[int]:
    """Answers each connection in a thread of its own, and ends with the last of them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def say_nothing(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass


def say_something(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"!")


def refuse_tls(connection: socket.socket) -> None:
    """A door with TLS that has no certificate: it answers with an alert, and what is no handshake with nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with suppress(ssl.SSLError):
        context.wrap_socket(connection, server_side=True)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers need not be waited for as long as one that may."""
    monkeypatch.setattr(server_greeting, "SILENCE_SECONDS", 0.2)


def build_server(*ports: int) -> Server:
    return Server("server", "connection=c", tuple(("127.0.0.1", port) for port in ports))


@pytest.mark.parametrize("uses_tls", [False, True])
@pytest.mark.parametrize("greeting", list(Greeting))
def test_silent_server_is_found_whatever_is_said_first(greeting: Greeting, uses_tls: bool, short: None) -> None:
    with run_server(say_nothing) as first, run_server(say_nothing) as second:
        assert is_silent(build_server(first, second), greeting, uses_tls=uses_tls)


def test_one_address_that_answers_or_closes_is_enough() -> None:
    with (
        run_server(say_nothing) as silent,
        run_server(say_something) as answering,
        run_server(lambda _: None) as closing,
    ):
        assert not is_silent(build_server(silent, answering), Greeting.KAFKA)
        assert not is_silent(build_server(silent, closing), Greeting.GRPC)


def test_door_with_tls_answers_a_handshake() -> None:
    with run_server(refuse_tls) as port:
        assert not is_silent(build_server(port), Greeting.HTTP, uses_tls=True)


def test_server_that_is_not_there_is_not_silent_others_tell_of_it() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        assert not is_silent(build_server(listener.getsockname()[1]), Greeting.HTTP)
    assert not is_silent(build_server(), Greeting.HTTP)


@pytest.mark.parametrize("scheme", ["http", "https", "postgresql", "postgresql+psycopg2"])
def test_address_says_which_protocol_is_spoken(scheme: str, short: None) -> None:
    with run_server(say_nothing) as port:
        assert greet_uri(build_server(port), f"{scheme}://user:word@127.0.0.1:{port}/x")
        assert not greet_uri(build_server(port), "sqlite:////a/file.db")
