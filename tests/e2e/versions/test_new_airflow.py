"""A newer Airflow takes the place of the oldest one that is supported in the middle of runs, on the same database.

Planned and not staged, staged and not merged, put aside for a job, failed, published, waiting for records: all of it
goes on. At the end every table equals what was sent, no batch or offset stands twice in a history, and nothing is left.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version

import pytest
from confluent_kafka import Consumer, TopicPartition
from e2e.airflow_client import wait_until
from e2e.executors import verdict
from e2e.executors.land import freeze_spark
from e2e.versions import older_airflow
from e2e.versions.land import DEADLINE_SECONDS, LAKE_SLOTS, Land, write_pipeline
from e2e.versions.opening import open_land
from e2e.versions.pipelines import FLEET, LOADED, PIPELINES, PUBLICATION, PUBLISHED, THRESHOLD, WAREHOUSE

from local.layout import PYTHON, ROOT
from local.server import build_clean_environment

pytestmark = pytest.mark.real
NEWER = version("apache-airflow")
POOL = "tidegate_lake"
BACKLOG_TRIGGER = "tidegate_airflow.triggers.backlog.BacklogTrigger"
RUNNING = "SELECT count(*) FROM dag_run WHERE dag_id = %s AND state IN ('queued', 'running')"


@pytest.fixture
def land(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Land]:
    if not older_airflow.is_there():
        pytest.skip(f"skipped: {older_airflow.MISSING}")
    folder = tmp_path_factory.mktemp("airflow")
    with open_land(folder, older_airflow.lay_tree(folder / "older")) as land:
        yield land


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
def test_newer_airflow_goes_on_with_all_that_the_one_before_left_under_way(land: Land) -> None:
    assert land.airflow.get("version")["version"] == older_airflow.VERSION != NEWER
    begin_everything(land)
    run_ids = stop_in_the_middle(land)
    assert len(land.list_triggers()) == 2

    migrate(land)
    land.install(ROOT)
    assert land.airflow.get("version")["version"] == NEWER
    finish_runs(land, run_ids)
    fix_the_failed_pipeline(land)
    wait_until(
        lambda: land.list_triggers() == {BACKLOG_TRIGGER}, "the trigger that waits for records", DEADLINE_SECONDS
    )
    flush_changes(land, 3)
    move_into_fleet(land)
    verdict.wait_until_clean(land.find_leftovers, "a clean end", DEADLINE_SECONDS)
    expect_publication(land)
    assert land.airflow.list_import_errors() == []


def migrate(land: Land) -> None:
    """What an upgrade of Airflow begins with."""
    folders = os.pathsep.join(str(ROOT / name) for name in ("plugins", "jobs"))
    home = land.stack.variables["AIRFLOW_HOME"]
    environment = {**build_clean_environment(), **land.stack.variables, "AIRFLOW_HOME": home, "PYTHONPATH": folders}
    command = [str(PYTHON), str(PYTHON.parent / "airflow"), "db", "migrate"]
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert process.returncode == 0, process.stderr


def find_dag(pipeline: str) -> str:
    return f"tidegate_{pipeline}"


def change_rows(land: Land, number: int, names: Iterable[str] = PIPELINES) -> None:
    """Rows that are new, others that change, and some that go; as many as a trigger waits for where one does."""
    for name in names:
        keys = range(THRESHOLD + 100) if name == "counted" else range(50 * number)
        deleted_keys = {key for key in keys if key % 10 == number}
        land.send(name, {key: None if key in deleted_keys else f"{name} {number} {key}" for key in keys})


def begin_everything(land: Land) -> None:
    """The older version flushes and publishes once: its tables, positions, state and history."""
    change_rows(land, 1)
    unpause_everything(land)
    expect_rows(land, "the rows of the older Airflow")
    expect_publication(land)


def unpause_everything(land: Land) -> None:
    for name in (f"publish_{PUBLICATION}", *PIPELINES):  # who hears of tables first
        wait_until(
            lambda name=name: find_dag(name) in land.airflow.list_dag_ids(), f"the DAG of {name}", DEADLINE_SECONDS
        )
        land.airflow.unpause(find_dag(name))


def flush_changes(land: Land, number: int) -> None:
    """One run of each, but of the one that flushes by itself."""
    change_rows(land, number)
    runs = {name: land.airflow.trigger(find_dag(name)) for name in PIPELINES if name != "counted"}
    for name, run in runs.items():
        expect_success(land, name, run)
    expect_rows(land, f"the rows of round {number}")


def stop_in_the_middle(land: Land) -> dict[str, str]:
    """The runs that are under way when the older Airflow is stopped, by pipeline."""
    land.send_bad_record("odd")
    change_rows(land, 2, [name for name in PIPELINES if name != "tug"])
    run_id = land.airflow.trigger(find_dag("odd"))
    assert land.airflow.await_run(find_dag("odd"), run_id, DEADLINE_SECONDS) == "failed"
    runs = {"odd": run_id}
    for name, kind, task in ((PUBLISHED, "query", "merge"), (LOADED, "load", "stage")):
        land.held_jobs.add(kind)
        runs[name] = land.airflow.trigger(find_dag(name))
        land.wait_for_state(find_dag(name), runs[name], task, "deferred")
    with freeze_spark(land.stack):
        runs["pairs"] = land.airflow.trigger(find_dag("pairs"))
        land.wait_for_state(find_dag("pairs"), runs["pairs"], "stage", "running")
        land.airflow.resize_pool(POOL, 0)  # from now on nothing begins there
    land.wait_for_state(find_dag("pairs"), runs["pairs"], "stage", "success")
    runs["orders"] = land.airflow.trigger(find_dag("orders"))
    land.wait_for_state(find_dag("orders"), runs["orders"], "plan", "success")
    assert {*land.read_states(find_dag("orders"), runs["orders"], "stage")} <= {"None", "scheduled"}
    assert {*land.read_states(find_dag("pairs"), runs["pairs"], "merge")} <= {"None", "scheduled"}
    return runs


def finish_runs(land: Land, run_ids: dict[str, str]) -> None:
    """Each run continues after the start of the newer one, except the run that had failed."""
    land.airflow.resize_pool(POOL, LAKE_SLOTS)
    for name in ("orders", "pairs"):
        expect_success(land, name, run_ids[name])
    wait_until(
        lambda: {f"tidegate_{name}_actions" for name in PIPELINES} <= land.airflow.list_dag_ids(), "the new DAGs"
    )
    for name, task in ((LOADED, "stage"), (PUBLISHED, "merge")):
        assert land.read_states(find_dag(name), run_ids[name], task) == ["deferred"]
    land.held_jobs.clear()
    for name in WAREHOUSE:
        expect_success(land, name, run_ids[name])
    expect_rows(land, "what was under way, but for the pipeline that failed", but_for=("odd",))


def fix_the_failed_pipeline(land: Land) -> None:
    """It fails for the same reason, in one sentence, until its file says what becomes of bad records."""
    run_id = land.airflow.trigger(find_dag("odd"))
    assert land.airflow.await_run(find_dag("odd"), run_id, DEADLINE_SECONDS) == "failed"
    reason = land.airflow.result(find_dag("odd"), run_id, "stage", key="error")
    assert reason["error"] == "BadRecord"
    assert "topic=odd" in reason["message"]
    write_pipeline(land.folder, "odd", tolerance="all")
    expect_success(land, "odd", land.airflow.trigger(find_dag("odd")))


def move_into_fleet(land: Land) -> None:
    """A key of the new version: the pipeline's own DAG goes, and leaves no run behind."""
    write_pipeline(land.folder, "tug", more=f"fleet: {FLEET}\n")
    dag = f"tidegate_fleet_{FLEET}"
    wait_until(lambda: dag in land.airflow.list_dag_ids(), "the fleet's DAG", DEADLINE_SECONDS)
    wait_until(
        lambda: find_dag("tug") not in land.airflow.list_dag_ids(),
        "the end of the pipeline's own DAG",
        DEADLINE_SECONDS,
    )
    change_rows(land, 4, ["tug"])
    land.airflow.unpause(dag)
    expect_rows(land, "the rows that the fleet flushes")
    wait_until(lambda: land.metadata.ask(RUNNING, find_dag("tug")) == [(0,)], "no run of the old DAG", DEADLINE_SECONDS)


def expect_success(land: Land, name: str, run: str) -> None:
    state = land.airflow.await_run(find_dag(name), run, DEADLINE_SECONDS)
    assert state == "success", (name, land.airflow.read_task_states(find_dag(name), run))


def expect_rows(land: Land, expectation: str, but_for: tuple[str, ...] = ()) -> None:
    def find() -> list[str]:
        return [line for line in land.find_differences() if not line.startswith(but_for)]

    verdict.wait_until_clean(find, expectation, DEADLINE_SECONDS)


def expect_publication(land: Land) -> None:
    """A reader of the topic has the table's rows, and has met each of them once."""
    wanted = land.rows["orders"]

    def find() -> list[str]:
        present = dict(read_publication(land))  # the last of each key
        differ = {key: name for key, name in present.items() if name is not None}.items() ^ wanted.items()
        return [f"{len(differ)} keys of the topic differ"] if differ else []

    verdict.wait_until_clean(find, "the publication", DEADLINE_SECONDS)
    times = Counter(record for record in read_publication(land) if record[1] is not None)
    assert max(times.values()) == 1, "a row was published twice"


def read_publication(land: Land) -> list[tuple[int, str | None]]:
    """Key and name of each record, in the order of each partition."""
    settings = {"bootstrap.servers": land.stack.kafka_bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    try:
        partitions = consumer.list_topics(PUBLICATION, timeout=60).topics[PUBLICATION].partitions
        consumer.assign([TopicPartition(PUBLICATION, number, 0) for number in partitions])
        rows, ended_partitions = list[tuple[int, str | None]](), set[int]()
        while len(ended_partitions) < len(partitions):
            message = consumer.poll(60)
            assert message is not None, "the end of the publication's topic"
            if message.error():
                ended_partitions.add(message.partition())
                continue
            value = message.value()
            rows.append((json.loads(message.key())["id"], None if value is None else json.loads(value)["name"]))
        return rows
    finally:
        consumer.close()
