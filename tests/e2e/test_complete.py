"""Hours of a table under the scheduler: a DAG of somebody else's starts for each, once, and not before it is whole."""

import json
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from e2e.airflow_client import wait_until
from e2e.conftest import Scene

DAG, CONSUMER, TABLE = "tidegate_hourly", "consumer", "e2e.hourly"
HOUR_MS = 3_600_000
FIRST = (int(time.time() * 1000) // HOUR_MS - 6) * HOUR_MS  # an hour that has passed, in which the table begins


def produce(scene: Scene, *records: tuple[int, float]) -> None:
    """One record for each partition and hour behind FIRST; waits until they are in the table."""
    before = len(scene.read_rows(TABLE)) if scene.exists(TABLE) else 0
    producer = Producer({"bootstrap.servers": scene.guarded.backdoor})
    for number, (partition, hours) in enumerate(records, before):
        value = json.dumps({"id": number, "name": f"{hours}"})
        at = FIRST + int(hours * HOUR_MS)
        producer.produce("hourly", value, json.dumps({"id": number}), partition=partition, timestamp=at)
    assert producer.flush(60) == 0
    wait_until(lambda: scene.exists(TABLE) and len(scene.read_rows(TABLE)) == before + len(records), "the rows", 600)


def list_started(scene: Scene) -> list[str]:
    """The hours that the other DAG was started for, oldest run first."""
    return [str(run["partition_key"]) for run in reversed(scene.airflow.list_runs(CONSUMER))]


def await_runs(scene: Scene, number: int) -> None:
    """Wait until so many more runs have begun and ended well: each has looked for hours."""
    known_ids = {run["dag_run_id"] for run in scene.airflow.list_runs(DAG)}

    def list_new() -> list[str]:
        runs = [run for run in scene.airflow.list_runs(DAG) if run["dag_run_id"] not in known_ids]
        return [run["dag_run_id"] for run in runs if run["state"] == "success"]

    wait_until(lambda: len(list_new()) >= number, f"{number} runs", 600)


def format_partition_key(hours: int) -> str:
    return datetime.fromtimestamp((FIRST + hours * HOUR_MS) / 1000, UTC).strftime("%Y-%m-%dT%H")


# the same DAG of partitions, started by the real scheduler behind real flushes
@pytest.mark.repeats(
    "unit/tidegate_airflow/operators/test_complete.py::test_dag_that_is_scheduled_on_partitions_starts_once_for_each_hour"
)
def test_dag_behind_a_table_starts_once_for_each_hour_and_not_before_its_last_record(scene: Scene) -> None:
    wait_until(lambda: CONSUMER in scene.airflow.list_dag_ids(), "the other DAG")
    for dag in (CONSUMER, DAG):
        scene.airflow.unpause(dag)
        scene.airflow.parse_again(dag)
    produce(scene, (0, 0.5), (1, 0.4))
    await_runs(scene, 1)

    produce(scene, (0, 1.5), (0, 3.2))  # of the other partition records may still come
    await_runs(scene, 2)
    assert list_started(scene) == []

    produce(scene, (1, 1.9), (1, 2.1))
    wait_until(lambda: len(list_started(scene)) >= 1, "the first hour", 600)
    await_runs(scene, 2)
    assert list_started(scene) == [format_partition_key(1)]

    produce(scene, (1, 4.5), (0, 4.2))
    wait_until(lambda: len(list_started(scene)) >= 3, "the next hours", 600)
    await_runs(scene, 2)
    assert list_started(scene)[0] == format_partition_key(1)
    assert sorted(list_started(scene)) == [format_partition_key(1), format_partition_key(2), format_partition_key(3)]
    run = scene.airflow.list_runs(CONSUMER)[0]["dag_run_id"]
    assert scene.airflow.await_run(CONSUMER, run) == "success"
    assert scene.airflow.result(CONSUMER, run, "consume") in {format_partition_key(2), format_partition_key(3)}
    scene.airflow.unpause(DAG, paused=True)
