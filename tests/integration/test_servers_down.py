"""Servers that are down, at the command line: within half a minute an error names the server."""

import os
import re
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
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return "127.0.0.1:" + str(listener.getsockname()[1])


def produce(workbench: Any, topic: str, *ids: int) -> None:
    for partition in (0, 1):
        records = (({"id": 10 * partition + i}, {"name": "x"}, {"partition": partition}) for i in ids)
        workbench.produce(topic, *records)


def read_ids(workbench: Any, name: str) -> list[int]:
    return sorted(row["id"] for row in workbench.read_rows(f"shop.{name}"))


# the same wait, for another server; its words without thirty real seconds
@pytest.mark.repeats("unit/tidegate/adapters/test_server_probe.py::test_patience_ends")
def test_flush_without_spark_waits_half_a_minute_and_says_whom_it_waited_for(workbench: Any, closed: str) -> None:
    topic = workbench.topic(2)
    spark = {"remote": f"sc://{closed}"}
    workbench.pipeline("sparkless", [topic], key=KEY, value=VALUE, spark=spark)
    produce(workbench, topic, 1, 2)
    begun = time.monotonic()
    process = workbench.run_process("flush", "sparkless")
    assert process.returncode == 1
    assert 25 < time.monotonic() - begun < MAX_SECONDS
    waited, message = process.stderr.strip().splitlines()
    assert f"waiting for Spark spark.remote of the file address={closed}, 30 s at most" in waited
    assert f"Spark spark.remote of the file address={closed} took no connection for 30 s: Connection refused" in message
    assert message.endswith("run the command again")
    workbench.pipeline("sparkless", [topic], key=KEY, value=VALUE)
    workbench.drain("sparkless")
    assert read_ids(workbench, "sparkless") == [1, 2, 11, 12]


@pytest.mark.repeats("unit/tidegate/adapters/test_server_probe.py::test_patience_ends")
@pytest.mark.parametrize("command", ["plan", "status"])
def test_commands_without_brokers_say_so(workbench: Any, closed: str, command: str) -> None:
    kafka = {"bootstrap.servers": closed, "security.protocol": "PLAINTEXT"}
    workbench.pipeline("brokerless", ["nowhere"], key=KEY, value=VALUE, source={"kafka": kafka})
    begun = time.monotonic()
    process = workbench.run_process(command, "brokerless")
    assert (process.returncode, time.monotonic() - begun < MAX_SECONDS) == (1, True)
    assert f"waiting for Kafka kafka of the file address={closed}" in process.stderr
    assert f"Kafka kafka of the file address={closed} took no connection for 30 s" in process.stderr


@pytest.fixture
def relay(stack: Any) -> Iterator[Relay]:
    environment = stack.build_environment()
    address = urlsplit(environment["SPARK_REMOTE"])
    relay_server = Relay(address.hostname or "", address.port or 0)
    yield relay_server
    with suppress(OSError):
        relay_server.close()


def test_spark_that_goes_in_the_middle_and_stays_away_ends_the_flush_and_the_next_recovers(
    workbench: Any, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_retries, "MAX_DOWN_SECONDS", 3.0)
    topic = workbench.topic(2)
    workbench.pipeline("leaving", [topic], key=KEY, value=VALUE, spark={"remote": f"sc://127.0.0.1:{relay.port}"})
    produce(workbench, topic, 1, 2)
    ports = workbench.open_session("leaving")
    staged = workbench.folder / "warehouse" / "shop" / "leaving_leaving_tmp" / "data"

    def leave() -> None:
        wait_until(lambda: any(staged.rglob("*.parquet")), "rows are staged")
        relay.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    from tidegate.flush.flush import flush

    begun = time.monotonic()
    with pytest.raises(RetryLater) as error_info:
        flush(ports)
    assert time.monotonic() - begun < 100
    leaving.join()
    assert f"address=127.0.0.1:{relay.port} " in str(error_info.value)
    assert "Connection refused" in str(error_info.value)
    workbench.pipeline("leaving", [topic], key=KEY, value=VALUE)
    workbench.drain("leaving")
    assert read_ids(workbench, "leaving") == [1, 2, 11, 12]


# the same client gives up
@pytest.mark.repeats("test_spark_that_goes_in_the_middle_and_stays_away_ends_the_flush_and_the_next_recovers", "2", "4")
@pytest.mark.parametrize("last", [2, 4])  # the client's connection for the job that stages, and for the one that merges
def test_spark_that_goes_while_a_session_is_opened_ends_the_flush_as_soon(
    workbench: Any, relay: Relay, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    monkeypatch.setattr(server_retries, "MAX_DOWN_SECONDS", 3.0)
    topic, name = workbench.topic(2), f"opening{last}"
    workbench.pipeline(name, [topic], key=KEY, value=VALUE, spark={"remote": f"sc://127.0.0.1:{relay.port}"})
    produce(workbench, topic, 1, 2)
    relay.last = last
    from tidegate.flush.flush import flush

    begun = time.monotonic()
    with pytest.raises(RetryLater, match=rf"address=127\.0\.0\.1:{relay.port} .*Connection refused"):
        flush(workbench.open_session(name))
    assert time.monotonic() - begun < 100
    workbench.pipeline(name, [topic], key=KEY, value=VALUE)
    workbench.drain(name)
    assert read_ids(workbench, name) == [1, 2, 11, 12]


class Frozen:
    """The stack's Spark server, stopped as if its machine stood still."""

    def __init__(self, stack: Any) -> None:
        self._pid = int(stack.variables["SPARK_PID"])

    def freeze_when(self, workbench: Any, name: str, job: str) -> threading.Thread:
        """Freeze as soon as that job of the pipeline has written a file, from a thread that is returned."""
        table = {"stage": f"{name}_{name}_tmp", "merge": name}[job]
        written = workbench.folder / "warehouse" / "shop" / table / "data"

        def freeze() -> None:
            wait_until(lambda: any(written.rglob("*.parquet")), f"{job} writes")
            os.kill(self._pid, signal.SIGSTOP)

        freezing = threading.Thread(target=freeze)
        freezing.start()
        return freezing

    def thaw(self) -> None:
        os.kill(self._pid, signal.SIGCONT)


@pytest.fixture
def frozen(own_stack: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Frozen]:
    monkeypatch.setattr(server_retries, "QUESTION_SECONDS", 0.5)
    monkeypatch.setattr(server_retries, "MAX_UNANSWERED", 4)
    frozen_server = Frozen(own_stack)
    yield frozen_server
    frozen_server.thaw()


FROZEN = r"Spark connection=spark_default address=127\.0\.0\.1:\d+ has answered nothing for {} s in the middle of {}; "


@pytest.mark.repeats(
    "unit/tidegate_spark/test_silent_server.py::test_server_that_freezes_while_a_statement_runs_ends_it"
)
@pytest.mark.parametrize("job", ["stage", "merge"])
def test_spark_that_freezes_in_the_middle_of_a_job_ends_the_flush_and_the_next_recovers(
    own_workbench: Any, frozen: Frozen, job: str
) -> None:
    """The server takes connections and requests as before: the kernel does. It goes on when the flush has ended."""
    workbench = own_workbench
    topic = workbench.topic(2)
    workbench.pipeline("freezing", [topic], key=KEY, value=VALUE, merge={"max_records": 2})
    produce(workbench, topic, 1, 2)  # two batches: there is a job behind each
    freezing = frozen.freeze_when(workbench, "freezing", job)
    from tidegate.flush.flush import flush

    with pytest.raises(RetryLater, match=FROZEN.format(2, job)):
        flush(workbench.open_session("freezing"))
    freezing.join()
    frozen.thaw()
    workbench.drain("freezing")
    assert read_ids(workbench, "freezing") == [1, 2, 11, 12]
    assert workbench.list_data_files("shop.freezing_freezing_tmp") == []


@pytest.mark.repeats(
    "unit/tidegate_spark/test_silent_server.py::test_server_that_freezes_while_a_statement_runs_ends_it"
)
@pytest.mark.usefixtures("keyboard")
def test_command_ends_within_four_minutes_where_spark_is_frozen_and_stays_so(
    own_workbench: Any, frozen: Frozen
) -> None:
    """With the time that users have: three minutes, and what the imports take."""
    workbench = own_workbench
    topic = workbench.topic(2)
    workbench.pipeline("hung", [topic], key=KEY, value=VALUE)
    produce(workbench, topic, 1, 2)
    freezing = frozen.freeze_when(workbench, "hung", "stage")
    process = subprocess.run(
        workbench.build_command("flush", "hung"), env=workbench.build_environment(), cwd=workbench.folder,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    freezing.join()
    frozen.thaw()
    (message,) = process.stderr.strip().splitlines()
    assert (process.returncode, re.search(FROZEN.format(180, "stage"), message) is not None) == (1, True), message
    assert message.endswith("; run the command again")
    workbench.drain("hung")
    assert read_ids(workbench, "hung") == [1, 2, 11, 12]
    assert workbench.list_data_files("shop.hung_hung_tmp") == []


# Spark's own server answers questions meanwhile, as the test's does
@pytest.mark.repeats(
    "unit/tidegate_spark/test_silent_server.py::test_server_that_goes_on_in_time_ends_the_statement_with_its_result"
)
def test_spark_that_goes_on_in_time_after_it_was_frozen_goes_on_with_its_job(
    own_workbench: Any, frozen: Frozen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_retries, "MAX_UNANSWERED", 1000)
    unanswered, ask = threading.Semaphore(0), server_retries.is_answering
    monkeypatch.setattr(server_retries, "is_answering", lambda client: ask(client) or unanswered.release())
    workbench = own_workbench
    topic = workbench.topic(2)
    workbench.pipeline("thawing", [topic], key=KEY, value=VALUE, table={"upsert": False, "delete": False})
    produce(workbench, topic, 1, 2)
    freezing = frozen.freeze_when(workbench, "thawing", "stage")

    def thaw() -> None:
        freezing.join()
        for _ in range(3):
            assert unanswered.acquire(timeout=60)
        frozen.thaw()

    thawing = threading.Thread(target=thaw)
    thawing.start()
    workbench.flush("thawing")
    thawing.join()
    assert read_ids(workbench, "thawing") == [1, 2, 11, 12]
    assert workbench.list_data_files("shop.thawing_thawing_tmp") == []


@pytest.mark.repeats(
    "unit/tidegate_spark/test_silent_server.py::test_statement_that_takes_long_without_a_word_is_not_ended"
)
def test_statement_that_takes_long_without_a_word_is_waited_for(own_stack: Any, frozen: Frozen) -> None:
    """Spark answers questions while a statement keeps it busy."""
    from tidegate_spark.session import close, connect_session

    with server_retries.ServerWatch(lambda: False) as watch:
        session = connect_session(own_stack.spark_remote, {}, watch)
        try:
            assert len(session.sql("SELECT reflect('java.lang.Thread', 'sleep', 6000L)").collect()) == 1
        finally:
            close(session)
    assert watch.silent_seconds == 0


@pytest.mark.repeats(
    "unit/scenarios/test_interrupted_flush.py::test_interrupt_does_not_wait_for_a_merge_that_hangs_and_the_next_flush_publishes_every_row"
)
@pytest.mark.usefixtures("keyboard")
def test_interrupted_flush_says_in_one_line_what_stands_and_ends_with_130(workbench: Any) -> None:
    """Its Spark server takes connections and never answers."""
    topic = workbench.topic(2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote = f"sc://127.0.0.1:{silent.getsockname()[1]}"
        workbench.pipeline("stopped", [topic], key=KEY, value=VALUE, spark={"remote": remote})
        produce(workbench, topic, 1, 2)
        run = subprocess.Popen(
            workbench.build_command("flush", "stopped"), env=workbench.build_environment(), cwd=workbench.folder,
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
                for connection in connections:
                    connection.close()
        assert time.monotonic() - begun < 30
    assert (run.returncode, out) == (130, "")
    (line,) = errors.strip().splitlines()
    assert line.startswith("pipeline=stopped: interrupted: published batches stay")
    workbench.pipeline("stopped", [topic], key=KEY, value=VALUE)
    workbench.drain("stopped")
    assert read_ids(workbench, "stopped") == [1, 2, 11, 12]
