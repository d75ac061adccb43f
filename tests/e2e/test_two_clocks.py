"""Staging and merges on clocks of their own, under the real scheduler."""

from collections.abc import Iterator
from typing import Any

import pytest
from e2e.airflow_client import wait_until
from e2e.conftest import Scene

pytestmark = pytest.mark.real

STAGING, MERGES = "tidegate_clocks_stage", "tidegate_clocks"
TABLES = ("Clocks", "clock_names")


@pytest.fixture(scope="module")
def ticking(scene: Scene) -> Iterator[Scene]:
    """The scene with both DAGs switched on; a paused one would not hear that a merge is called for."""
    for dag in (MERGES, STAGING):
        scene.airflow.unpause(dag)
    yield scene
    for dag in (STAGING, MERGES):
        scene.airflow.unpause(dag, paused=True)


def read_waiting(scene: Scene) -> dict[str, tuple[int, int]]:
    """Of each table, how many offsets wait to be staged, and how many to be merged, as the page says."""
    rows: list[dict[str, Any]] = scene.airflow.page("pipelines/clocks")["pipeline"].get("tables", [])
    return {row["table"].rpartition(".")[2]: (row["staging"]["lag"], row["lag"]) for row in rows}


def list_merged(scene: Scene) -> list[dict[str, Any]]:
    """The runs of merges that published something, the oldest first."""
    runs = [run for run in reversed(scene.airflow.list_runs(MERGES)) if run["state"] == "success"]
    states = {run["dag_run_id"]: scene.airflow.read_task_states(MERGES, run["dag_run_id"]) for run in runs}
    return [run for run in runs if states[run["dag_run_id"]]["merge"] == ["success", "success"]]


def count_batches(scene: Scene, run: dict[str, Any]) -> list[int]:
    """How many batches each table's merge has taken."""
    results = (scene.airflow.result(MERGES, run["dag_run_id"], "merge", number) for number in range(len(TABLES)))
    return [result["batches"] for result in results]


def test_batches_are_staged_until_enough_rows_wait_and_one_merge_takes_them(ticking: Scene) -> None:
    scene = ticking
    for count, name in ((100, "first"), (200, "second")):  # each its own batch, and too few for a merge
        scene.produce("clocks", dict.fromkeys(range(count - 100, count), name))
        wait_until(lambda c=count: read_waiting(scene) == dict.fromkeys(TABLES, (0, c)), f"{count} staged")
    assert not any(scene.exists(f"e2e.{table}") for table in TABLES)
    scene.produce("clocks", {key: None if key < 10 else "third" for key in range(100)})
    expected = dict.fromkeys(range(10, 100), "third") | dict.fromkeys(range(100, 200), "second")
    wait_until(lambda: read_waiting(scene) == dict.fromkeys(TABLES, (0, 0)), "the merge")
    assert scene.read_rows("e2e.Clocks") == expected
    assert scene.read_rows("e2e.clock_names") == {key: name.upper() for key, name in expected.items()}
    wait_until(lambda: len(list_merged(scene)) == 1, "the end of the run")
    [run] = list_merged(scene)
    assert run["run_type"] == "asset_triggered"
    assert count_batches(scene, run) == [3, 3]
    added = [int(snapshot.summary.get("added-records") or 0) for snapshot in scene.table("e2e.Clocks").snapshots()]
    assert added == [0, 190]  # the table's first snapshot is empty


@pytest.mark.repeats("test_batches_are_staged_until_enough_rows_wait_and_one_merge_takes_them")
def test_rows_that_wait_are_merged_by_hand_and_staging_goes_on(ticking: Scene) -> None:
    scene = ticking
    scene.produce("clocks", dict.fromkeys(range(10), "back"))
    wait_until(lambda: read_waiting(scene) == dict.fromkeys(TABLES, (0, 10)), "ten staged")
    run = scene.airflow.trigger(MERGES)
    assert scene.airflow.await_run(MERGES, run) == "success"
    assert {key: name for key, name in scene.read_rows("e2e.Clocks").items() if key < 10} == dict.fromkeys(
        range(10), "back"
    )
    scene.produce("clocks", {0: None})
    wait_until(lambda: read_waiting(scene) == dict.fromkeys(TABLES, (0, 1)), "one more staged")
    assert scene.airflow.await_run(MERGES, scene.airflow.trigger(MERGES)) == "success"
    assert sorted(scene.read_rows("e2e.clock_names")) == list(range(1, 200))
