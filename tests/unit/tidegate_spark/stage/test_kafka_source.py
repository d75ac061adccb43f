"""How Spark's Kafka source is asked."""

import json
from types import SimpleNamespace
from typing import Any

from tidegate.jobs.stage_job import KAFKA_CONF
from tidegate_spark.stage.kafka_source import build_client_options


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
