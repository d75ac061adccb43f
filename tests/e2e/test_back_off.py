"""A pipeline that a bad record stops, under the scheduler: its runs wait, it tells once, and a change is tried."""

import pytest
from e2e.airflow_client import wait_until
from e2e.conftest import PIPELINES, Scene

DAG = "tidegate_stopped"


def list_failed_plans(scene: Scene) -> list[str]:
    """The runs that did not try, newest first."""
    runs = [run["dag_run_id"] for run in scene.airflow.list_runs(DAG) if run["state"] == "failed"]
    return [run for run in runs if scene.airflow.read_task_states(DAG, run)["plan"] == ["failed"]]


# end to end: each DAG has run once; what a person may say to it, and when it waits, is judged without a scheduler
@pytest.mark.repeats(
    "unit/tidegate_airflow/failures/test_back_off.py::test_change_of_a_file_is_tried_at_once_and_that_of_another_pipeline_is_not"
)
def test_stopped_pipeline_waits_and_tells_once_and_tries_at_once_when_its_file_is_changed(scene: Scene) -> None:
    scene.produce_text("stopped", {1: '{"id": 1, "amount": 1}', 2: '{"id": 2, "amount": "much"}'})
    scene.airflow.unpause(DAG)
    wait_until(lambda: len(list_failed_plans(scene)) >= 2, "two runs that wait", 600)
    [run, *_] = list_failed_plans(scene)
    assert scene.airflow.read_task_states(DAG, run)["stage"] == ["upstream_failed"]
    reason = scene.airflow.result(DAG, run, "plan", key="error")["message"]
    assert reason.startswith("pipeline=stopped ")
    assert reason.index("topic=stopped") < reason.index("amount") < reason.index("; the same failure in ")
    wait_until(lambda: bool(scene.mailbox.subjects), "the message")
    [subject] = scene.mailbox.subjects
    assert subject.startswith("failed: ")
    assert "topic=stopped" in subject

    by_hand = scene.airflow.trigger(DAG)
    assert scene.airflow.await_run(DAG, by_hand) == "failed"
    assert scene.airflow.read_task_states(DAG, by_hand)["stage"] == ["failed"]
    assert scene.mailbox.subjects == [subject]

    file = scene.folder / "include" / "pipelines" / "stopped.yaml"
    corrected = PIPELINES["stopped"].replace("tables:\n", "  errors: {tolerance: all}\ntables:\n")
    file.write_text(corrected)
    wait_until(lambda: scene.airflow.list_runs(DAG)[0]["state"] == "success", "a run that succeeds", 600)
    rows = scene.table("e2e.stopped").scan().to_arrow().to_pylist()
    assert rows == [{"id": 1, "amount": 1}]
    wait_until(lambda: len(scene.mailbox.subjects) > 1, "the message of the recovery")
    assert scene.mailbox.subjects == [subject, subject.replace("failed: ", "well again: ")]
    scene.airflow.unpause(DAG, paused=True)
