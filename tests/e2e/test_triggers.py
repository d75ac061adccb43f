"""What starts a flush beside time: records that wait, a backlog that one batch does not empty, and a person's form."""

import pytest
from e2e.airflow_client import wait_until
from e2e.conftest import Scene

pytestmark = pytest.mark.real


def test_records_that_wait_start_a_flush_and_fewer_do_not(scene: Scene) -> None:
    dag = "tidegate_counted"
    first = scene.find_first_run(dag)  # the heartbeat's
    scene.airflow.parse_again(dag)  # by which Airflow begins to watch for records of a DAG that was paused before
    assert scene.airflow.await_run(dag, first) == "success"
    scene.produce("counted", dict.fromkeys(range(900), "few"))
    scene.produce("counted", dict.fromkeys(range(900, 1000), "enough"))
    wait_until(lambda: scene.exists("e2e.counted") and len(scene.read_rows("e2e.counted")) == 1000, "the flush")
    kinds = [run["run_type"] for run in scene.airflow.list_runs(dag)]
    assert kinds == ["asset_triggered", "scheduled"]
    scene.airflow.unpause(dag, paused=True)


@pytest.mark.repeats("unit/tidegate/flush/test_plan.py::test_plan_changes_nothing")
def test_a_dry_run_shows_the_plan_and_a_wrong_word_is_refused_by_the_form(scene: Scene) -> None:
    dag = "tidegate_behind"
    assert (
        scene.airflow.await_run(dag, scene.find_first_run(dag)) == "success"
    )  # of its last time by the cron expression
    scene.produce("behind", dict.fromkeys(range(130), "x"))
    assert scene.airflow.post_run(dag, max_records=0).status_code == 400
    assert scene.airflow.post_run(dag, max_records="many").status_code == 400
    run = scene.airflow.trigger(dag, dry_run=True, max_records=7)
    assert scene.airflow.await_run(dag, run) == "success"
    planned = scene.airflow.result(dag, run, "plan", key="planned")
    assert (planned["tables"][0]["offsets"], planned["left"]) == (7, 123)
    assert set(map(tuple, scene.airflow.read_task_states(dag, run).values())) == {("skipped",)}
    assert not scene.exists("e2e.behind")


@pytest.mark.repeats("test_records_that_wait_start_a_flush_and_fewer_do_not")
def test_one_batch_by_hand_and_then_back_to_back_until_current(scene: Scene) -> None:
    dag = "tidegate_behind"
    run = scene.airflow.trigger(dag, max_records=10, until_current=False)
    assert scene.airflow.await_run(dag, run) == "success"
    assert len(scene.read_rows("e2e.behind")) == 10
    scene.airflow.await_run(dag, scene.airflow.trigger(dag))
    wait_until(lambda: len(scene.read_rows("e2e.behind")) == 130, "the rest")
    wait_until(lambda: len([r for r in scene.airflow.list_runs(dag) if r["state"] == "success"]) == 6, "six runs")
    runs = list(reversed(scene.airflow.list_runs(dag)))[1:]
    assert [run["run_type"] for run in runs] == ["manual"] * 3 + ["asset_triggered"] * 2
    sizes = [scene.airflow.result(dag, run["dag_run_id"], "merge", key="staged") for run in runs[1:]]
    assert sizes == [10, 50, 50, 20]
    scene.airflow.unpause(dag, paused=True)


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_leftovers.py::test_tables_and_marks_of_a_pipeline_without_a_file_are_told"
)
def test_a_deleted_file_stops_its_pipeline_and_the_janitor_tells_what_is_left(scene: Scene) -> None:
    (scene.folder / "include" / "pipelines" / "behind.yaml").unlink()
    scene.airflow.parse_again("tidegate_counted")  # its DAG comes from the same file of DAGs
    wait_until(lambda: "tidegate_behind" not in scene.airflow.list_dag_ids(), "the DAG to go")
    assert "tidegate_counted" in scene.airflow.list_dag_ids()
    run = scene.find_first_run("tidegate-janitor")
    assert scene.airflow.await_run("tidegate-janitor", run) == "success"
    [leftover] = scene.airflow.result("tidegate-janitor", run, "leftovers")
    assert leftover["pipeline"] == "behind"
    assert leftover["tables"] == ["lake.e2e.behind_behind_tmp", "lake.e2e.tidegate_behind_batches"]
    assert leftover["destinations"] == ["lake.e2e.behind"]
    assert len(scene.read_rows("e2e.behind")) == 130
