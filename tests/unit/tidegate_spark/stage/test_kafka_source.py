"""How Spark's Kafka source is asked."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.jobs.stage_job import KAFKA_CONF
from tidegate.model.offsets import Ranges
from tidegate_spark.stage.kafka_source import build_client_options, choose_tasks


def build_session(connection: dict[str, str]) -> Any:
    conf = {KAFKA_CONF.removeprefix("spark."): json.dumps(connection)}
    return SimpleNamespace(conf=SimpleNamespace(get=conf.get))


def test_fetch_at_the_end_of_the_log_keeps_nobody_waiting_unless_the_connection_says_so() -> None:
    """A broker keeps such a fetch open for half a second by default, and each task's last questions wait behind it."""
    session = build_session({"kafka.bootstrap.servers": "b:9092"})
    assert build_client_options(session, "read_committed") == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.isolation.level": "read_committed",
    }
    session = build_session({"kafka.fetch.max.wait.ms": "300", "kafka.isolation.level": "read_committed"})
    assert build_client_options(session, "read_uncommitted") == {
        "kafka.fetch.max.wait.ms": "300",
        "kafka.isolation.level": "read_uncommitted",
    }


@pytest.mark.parametrize(
    ("partitions", "records", "tasks"),
    [
        (1, 10, None),
        (4, 10_000, 1),
        (8, 99_999, 1),
        (4, 100_000, 2),
        (4, 200_000, None),  # each partition has enough for a task
        (9, 10, 2),
        (64, 640, 8),
        (64, 250_000, 8),
        (64, 250_001, None),
    ],
)
def test_a_task_reads_as_many_partitions_as_give_it_enough_to_do(
    partitions: int, records: int, tasks: int | None
) -> None:
    """Partitions without new records are not read at all."""
    ends = dict.fromkeys(range(partitions), records // partitions)
    ends[0] += records % partitions
    ranges = Ranges({"t": {number: (0, end) for number, end in ends.items()}, "idle": {0: (7, 7), 1: (0, 0)}})
    assert choose_tasks(ranges) == tasks
