"""Three brokers behind TLS, log-ins and rights, and a Spark server that asks for a token: `WITH="brokers secure"`."""

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from conftest import Workbench, wait_until
from tidegate.errors import NothingToDo, RetryLater

from local.kafka.cluster import ADMIN_FILE, CONNECTION
from local.stack import Stack, start_stack

pytestmark = pytest.mark.real
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
SPARK_CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"
BROKERS = ("KAFKA_PID", "KAFKA_2_PID", "KAFKA_3_PID")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("secured")
    running = start_stack(folder, {"kafka", "spark", "brokers", "secure"}, tied_to=os.getpid())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def administrator(secured: Stack) -> dict[str, str]:
    lines = Path(secured.variables[ADMIN_FILE]).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def bench(secured: Stack, administrator: dict[str, str], tmp_path: Path) -> Workbench:
    admin = AdminClient({**administrator, "log_level": 0})
    producer = Producer({**administrator, "enable.idempotence": True, "log_level": 0})
    return Workbench(secured, admin, producer, tmp_path, administrator)


@pytest.fixture
def secrets(secured: Stack) -> dict[str, str]:
    variables = secured.variables
    return {
        "broker": json.loads(variables[CONNECTION])["extra"]["sasl.password"],
        "spark": json.loads(variables[SPARK_CONNECTION])["password"],
    }


def read_names(bench: Workbench, table: str) -> dict[int, str]:
    return {row["id"]: row["name"] for row in bench.read_rows(table)}


def make_pipeline(bench: Workbench, name: str) -> list[str]:
    topics = [bench.topic(), bench.topic()]
    tables = [{"name": f"lake.shop.{name}_{side}", "topics": [topic]} for side, topic in zip("ab", topics, strict=True)]
    bench.pipeline(name, topics, key=KEY, value=VALUE, tables=tables)
    return topics


def read_command_lines(stack: Stack) -> list[str]:
    pids = [value for name, value in stack.variables.items() if name.endswith("_PID")]
    return [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in pids]


@pytest.mark.repeats(
    "integration/test_security.py::test_the_documented_rights_are_enough_and_the_password_is_seen_nowhere[orders]"
)
def test_secured_servers_serve_a_flush_and_no_secret_of_theirs_is_to_be_seen(
    bench: Workbench, secured: Stack, secrets: dict[str, str]
) -> None:
    topics = make_pipeline(bench, "guarded")
    for topic in topics:
        bench.produce(topic, *(({"id": n}, {"id": n, "name": f"{topic} {n}"}) for n in range(20)), ({"id": 3}, None))
    process = bench.run_process("flush", "guarded")
    assert process.returncode == 0, process.stderr
    for side, topic in zip("ab", topics, strict=True):
        assert read_names(bench, f"shop.guarded_{side}") == {n: f"{topic} {n}" for n in range(20) if n != 3}
    texts = [process.stdout, process.stderr, *read_command_lines(secured)]
    texts += [file.read_text(errors="replace") for file in (secured.run_dir / "logs").iterdir()]
    texts += [str(row) for row in bench.run_spark_sql("SET -v")]
    assert len(read_command_lines(secured)) == 4
    assert [name for name, secret in secrets.items() if any(secret in text for text in texts)] == []


# a log-in that a Spark server refuses, at a small server; one broker that asks for log-ins and rights
@pytest.mark.repeats(
    "unit/tidegate/adapters/spark/test_refused_login.py::test_refused_token_is_an_error_that_names_the_connection_and_is_not_tried_again"
)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: {**c, "password": "of-another-server"}, "Invalid authentication token"),
        (lambda c: {**c, "password": ""}, "No authentication token provided"),
    ],
)
def test_spark_answers_nobody_without_its_token_and_the_next_flush_with_it_does_the_work(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any], words: str
) -> None:
    first, second = make_pipeline(bench, "tokens")
    bench.produce(first, ({"id": 1}, {"id": 1, "name": "x"}))
    bench.produce(second, ({"id": 2}, {"id": 2, "name": "y"}))
    environment = bench.build_environment()
    changed = json.dumps(change(json.loads(environment[SPARK_CONNECTION])))
    with monkeypatch.context() as patch:
        patch.setattr(bench, "build_environment", lambda: {**environment, SPARK_CONNECTION: changed})
        process = bench.run_process("flush", "tokens")
    assert process.returncode == 1
    assert "Spark connection=spark_default address=localhost:" in process.stderr
    assert f"refuses the log-in: {words}; nothing was changed; check the token" in process.stderr
    assert not bench.exists("shop.tokens_a")
    bench.drain("tokens")
    assert read_names(bench, "shop.tokens_a") == {1: "x"}
    assert read_names(bench, "shop.tokens_b") == {2: "y"}


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_every_broker_is_killed_in_turn_while_records_come_and_no_row_is_lost_or_doubled(
    bench: Workbench, secured: Stack
) -> None:
    topics = make_pipeline(bench, "rolling")
    models: dict[str, dict[int, str]] = {topic: {} for topic in topics}
    stop, errors = threading.Event(), list[BaseException]()
    writer = threading.Thread(target=write_changes, args=(bench, models, stop, errors))
    writer.start()
    try:
        for variable in BROKERS:
            flush_until(bench, "rolling", lambda: True)
            killed = secured.variables[variable]
            os.kill(int(killed), signal.SIGKILL)
            flush_until(bench, "rolling", lambda: secured.variables[variable] != killed)  # noqa: B023
    finally:
        stop.set()
        writer.join(180)
    assert not writer.is_alive()
    assert errors == []
    wait_until(lambda: flush_once(bench, "rolling") is NothingToDo, "the pipeline at rest")
    for side, topic in zip("ab", topics, strict=True):
        assert models[topic]
        assert read_names(bench, f"shop.rolling_{side}") == models[topic]
        assert set(bench.load_iceberg(f"shop.rolling_{side}").metadata.refs) == {"main", "tidegate_rolling"}
        assert bench.read_rows(f"shop.rolling_{side}_rolling_tmp") == []


def write_changes(
    bench: Workbench, models: dict[str, dict[int, str]], stop: threading.Event, errors: list[BaseException]
) -> None:
    """Updates and deletes of 100 keys in each topic, acknowledged by two brokers, until `stop`."""
    chooser = random.Random(20)
    number = 0
    try:
        while not stop.is_set():
            for topic, model in models.items():
                keys = chooser.sample(range(100), 20)
                names = {key: None if chooser.random() < 0.2 else f"{topic} {number}" for key in keys}
                bench.produce(
                    topic,
                    *(
                        ({"id": key}, None if name is None else {"id": key, "name": name})
                        for key, name in names.items()
                    ),
                )
                model.update({key: name for key, name in names.items() if name is not None})
                for key in (key for key, name in names.items() if name is None):
                    model.pop(key, None)
            number += 1
            stop.wait(0.5)
    except BaseException as error:
        errors.append(error)


def flush_once(bench: Workbench, name: str) -> type[Exception] | None:
    """Which of the errors that a scheduler is at ease with a flush ended in."""
    try:
        bench.flush(name)
    except (NothingToDo, RetryLater) as error:
        return NothingToDo if isinstance(error, NothingToDo) else RetryLater
    return None


def flush_until(bench: Workbench, name: str, condition: Callable[[], bool]) -> None:
    """Flush until a flush has published after the condition was met. A flush that loses a broker is repeated."""

    def has_published() -> bool:
        is_met = condition()
        return flush_once(bench, name) is None and is_met

    wait_until(has_published, f"a flush of {name}", seconds=300)
