"""A server that dies comes back on its port; one that cannot start says why."""

import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.keeper import Keeper
from local.ports import HOST, choose_ports, is_answering
from local.processes import Identity, end_all_processes
from local.server import Server, build_clean_environment


class Told:
    """What a keeper told about its server."""

    def __init__(self) -> None:
        self.answered: list[int] = []

    def __call__(self, name: str, identity: Identity, seconds: float | None) -> None:
        if seconds is not None:
            self.answered.append(identity.pid)


@pytest.fixture
def mark() -> Iterator[str]:
    new_mark = uuid.uuid4().hex
    yield new_mark
    end_all_processes(new_mark, [], 0)


def build_web_server(folder: Path, port: int) -> Server:
    command = (sys.executable, "-m", "http.server", "--bind", HOST, str(port))
    return Server(
        "web", command, folder, folder / "log", lambda _: is_answering(port), build_clean_environment(), patience=20
    )


def wait_for(starts: list[int], count: int) -> None:
    deadline = time.monotonic() + 20
    while len(starts) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(starts) >= count


def test_a_killed_server_comes_back_on_its_port(tmp_path: Path, mark: str) -> None:
    events, stop, port = Told(), threading.Event(), choose_ports(["web"])["web"]
    keeper = Keeper(build_web_server(tmp_path, port), mark, stop, events)
    keeper.begin()
    wait_for(events.answered, 1)
    Identity.from_pid(events.answered[0], mark).find_process().kill()  # type: ignore[union-attr]
    wait_for(events.answered, 2)
    assert events.answered[0] != events.answered[1]
    assert is_answering(port)
    stop.set()
    keeper.join(5)


def test_a_server_that_exits_at_once_says_why(tmp_path: Path, mark: str) -> None:
    script = "echo starting; echo 'java.net.BindException: Address already in use' >&2; echo '  at x'; exit 3"
    server = Server(
        "broker", ("bash", "-c", script), tmp_path, tmp_path / "log", lambda _: False, build_clean_environment()
    )
    keeper = Keeper(server, mark, threading.Event(), Told())
    keeper.begin()
    keeper.join(10)
    message = str(keeper.failed)
    assert "broker exited with code=3" in message
    assert "Address already in use" in message
    assert str(tmp_path / "log") in message


def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path, mark: str) -> None:
    events = Told()
    command = ("bash", "-c", "exec sleep 60")
    server = Server(
        "mute", command, tmp_path, tmp_path / "log", lambda _: False, build_clean_environment(), patience=0.5
    )
    keeper = Keeper(server, mark, threading.Event(), events)
    keeper.begin()
    keeper.join(10)
    assert "mute does not answer" in str(keeper.failed)
    assert events.answered == []
