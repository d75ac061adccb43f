"""Servers that are not there, as a person meets them at the command line: told within half a minute, by name."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import wait_until
from relay import Relay
from tidegate.errors import RetryLater
from tidegate_spark import server_retries

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
MAX_SECONDS = 75  # half a minute of waiting, and what the imports take on a machine that is busy


@pytest.fixture
def closed() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return "127.0.0.1:" + str(one.getsockname()[1])


def produce(workbench: Any, topic: str, *ids: int) -> None:
    for partition in (0, 1):
        records = (({"id": 10 * partition + i}, {"name": "x"}, {"partition": partition}) for i in ids)
        workbench.produce(topic, *records)


def read_ids(workbench: Any, name: str) -> list[int]:
    return sorted(row["id"] for row in workbench.rows(f"shop.{name}"))


def test_flush_without_spark_waits_half_a_minute_and_says_whom_it_waited_for(workbench: Any, closed: str) -> None:
    topic = workbench.topic(2)
    spark = {"remote": f"sc://{closed}"}
    workbench.pipeline("sparkless", [topic], key=KEY, value=VALUE, spark=spark)
    produce(workbench, topic, 1, 2)
    begun = time.monotonic()
    done = workbench.process("flush", "sparkless")
    assert done.returncode == 1
    assert 25 < time.monotonic() - begun < MAX_SECONDS
    waited, told = done.stderr.strip().splitlines()
    assert f"waiting for Spark spark.remote of the file address={closed}, 30 s at most" in waited
    assert f"Spark spark.remote of the file address={closed} took no connection for 30 s: Connection refused" in told
    assert told.endswith("run the command again")
    workbench.pipeline("sparkless", [topic], key=KEY, value=VALUE)
    workbench.drain("sparkless")
    assert read_ids(workbench, "sparkless") == [1, 2, 11, 12]


@pytest.mark.parametrize("command", ["plan", "status"])
def test_commands_without_brokers_say_so(workbench: Any, closed: str, command: str) -> None:
    kafka = {"bootstrap.servers": closed, "security.protocol": "PLAINTEXT"}
    workbench.pipeline("brokerless", ["nowhere"], key=KEY, value=VALUE, source={"kafka": kafka})
    begun = time.monotonic()
    done = workbench.process(command, "brokerless")
    assert (done.returncode, time.monotonic() - begun < MAX_SECONDS) == (1, True)
    assert f"waiting for Kafka kafka of the file address={closed}" in done.stderr
    assert f"Kafka kafka of the file address={closed} took no connection for 30 s" in done.stderr


@pytest.fixture
def relay(stack: Any) -> Iterator[Relay]:
    environment = stack.build_environment()
    address = urlsplit(environment["SPARK_REMOTE"])
    made = Relay(address.hostname or "", address.port or 0)
    yield made
    with suppress(OSError):
        made.close()


def test_spark_that_goes_in_the_middle_and_stays_away_ends_the_flush_and_the_next_makes_good(
    workbench: Any, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_retries, "GONE_SECONDS", 3.0)
    topic = workbench.topic(2)
    workbench.pipeline("leaving", [topic], key=KEY, value=VALUE, spark={"remote": f"sc://127.0.0.1:{relay.port}"})
    produce(workbench, topic, 1, 2)
    ports = workbench.ports("leaving")
    staged = workbench.folder / "warehouse" / "shop" / "leaving_leaving_tmp" / "data"

    def leave() -> None:
        wait_until(lambda: any(staged.rglob("*.parquet")), "rows are staged")
        relay.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    from tidegate.steps.flush import flush

    begun = time.monotonic()
    with pytest.raises(RetryLater) as caught:
        flush(ports)
    assert time.monotonic() - begun < 100
    leaving.join()
    assert f"address=127.0.0.1:{relay.port} " in str(caught.value)
    assert "Connection refused" in str(caught.value)
    workbench.pipeline("leaving", [topic], key=KEY, value=VALUE)
    workbench.drain("leaving")
    assert read_ids(workbench, "leaving") == [1, 2, 11, 12]


@pytest.mark.parametrize("last", [2, 4])  # the client's connection for the job that stages, and for the one that merges
def test_spark_that_goes_while_a_session_is_opened_ends_the_flush_as_soon(
    workbench: Any, relay: Relay, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    monkeypatch.setattr(server_retries, "GONE_SECONDS", 3.0)
    topic, name = workbench.topic(2), f"opening{last}"
    workbench.pipeline(name, [topic], key=KEY, value=VALUE, spark={"remote": f"sc://127.0.0.1:{relay.port}"})
    produce(workbench, topic, 1, 2)
    relay.last = last
    from tidegate.steps.flush import flush

    begun = time.monotonic()
    with pytest.raises(RetryLater, match=rf"address=127\.0\.0\.1:{relay.port} .*Connection refused"):
        flush(workbench.ports(name))
    assert time.monotonic() - begun < 100
    workbench.pipeline(name, [topic], key=KEY, value=VALUE)
    workbench.drain(name)
    assert read_ids(workbench, name) == [1, 2, 11, 12]


@pytest.mark.usefixtures("keyboard")
def test_interrupted_flush_says_in_one_line_what_stands_and_ends_with_130(workbench: Any) -> None:
    """Its Spark server takes connections and never answers."""
    topic = workbench.topic(2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote = f"sc://127.0.0.1:{silent.getsockname()[1]}"
        workbench.pipeline("stopped", [topic], key=KEY, value=VALUE, spark={"remote": remote})
        produce(workbench, topic, 1, 2)
        run = subprocess.Popen(
            workbench.command("flush", "stopped"), env=workbench.environment(), cwd=workbench.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        silent.settimeout(120)
        connections = [silent.accept()[0], silent.accept()[0]]  # the probe, and the client
        time.sleep(2)
        os.kill(run.pid, signal.SIGINT)
        begun = time.monotonic()
        with run:
            try:
                out, errors = run.communicate(timeout=60)
            finally:
                run.kill()
                for one in connections:
                    one.close()
        assert time.monotonic() - begun < 30
    assert (run.returncode, out) == (130, "")
    (line,) = errors.strip().splitlines()
    assert line.startswith("pipeline=stopped: interrupted: batches that are published stand")
    workbench.pipeline("stopped", [topic], key=KEY, value=VALUE)
    workbench.drain("stopped")
    assert read_ids(workbench, "stopped") == [1, 2, 11, 12]
