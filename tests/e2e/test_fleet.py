"""A fleet under the scheduler: one look at all, tasks for those with work, and one pipeline's failure is its own."""

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from e2e.airflow_client import wait_until
from e2e.conftest import HARBOUR, PIPELINES, Scene

pytestmark = pytest.mark.real
DAG = "tidegate_fleet_harbour"
SKIPPED_TASKS = ("stage", "merge", "commit_offsets", "clean_up", "compact", "heartbeat")


def read_committed_offsets(scene: Scene, pipeline: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": scene.guarded.backdoor, "group.id": f"tidegate-{pipeline}"})
    try:
        committed = consumer.committed([TopicPartition(pipeline, number) for number in (0, 1)], timeout=30)
        return {place.partition: place.offset for place in committed if place.offset >= 0}
    finally:
        consumer.close()


def list_mails(scene: Scene) -> list[str]:
    return [subject for subject in scene.mailbox.subjects if subject.startswith("fleet: ")]


def read_page_rows(scene: Scene) -> dict[str, Any]:
    """The members' rows of the page's overview."""
    rows = scene.airflow.page("pipelines")["pipelines"]
    return {row["pipeline"]: row for row in rows if row["pipeline"] in HARBOUR}


def test_members_with_work_are_flushed_beside_one_that_fails_and_one_that_idles(scene: Scene) -> None:
    """The first run: two have work, of one and of two tables, one has none, and one meets a bad record."""
    scene.produce("barge", {1: "a", 2: "b", 3: "c"})
    scene.produce("ferry", {1: "a", 2: "b"})
    scene.produce_text("wreck", {1: json.dumps({"id": 1, "name": "a"}), 2: "nonsense"})
    run = scene.find_first_run(DAG)
    assert scene.airflow.await_run(DAG, run, 600) == "failed"
    assert scene.read_rows("e2e.barge") == {1: "a", 2: "b", 3: "c"}
    assert (scene.read_rows("e2e.ferry"), scene.read_rows("e2e.ferry_names")) == ({1: "a", 2: "b"}, {1: "A", 2: "B"})
    stages = {"barge": "success", "ferry": "success", "wreck": "failed"}
    assert scene.airflow.read_mapped_states(DAG, run, "stage") == stages, "pilot and raft have no task"
    merges = scene.airflow.read_mapped_states(DAG, run, "merge")
    assert (merges["barge"], merges["ferry"]) == ("success", "success")
    look = scene.airflow.result(DAG, run, "plan", key="look")
    assert (look["looked"], look["idle"]) == (list(HARBOUR), ["pilot", "raft"])
    reason = scene.airflow.result(DAG, run, "heartbeat", key="error")["message"]
    assert "pipeline=wreck: stage failed: " in reason
    assert not any(f"pipeline={name}" in reason for name in ("barge", "ferry", "raft"))
    assert sum(read_committed_offsets(scene, "barge").values()) == 3
    assert sum(read_committed_offsets(scene, "ferry").values()) == 2
    for table, rows in (("barge", 3), ("ferry", 2), ("ferry_names", 2)):
        [event] = scene.airflow.list_asset_events(f"lake.e2e.{table}")
        assert (event["extra"]["batch"], event["extra"]["inserted"]) == (1, rows)
    wait_until(lambda: bool(list_mails(scene)), "the message")
    [mail] = list_mails(scene)
    assert mail.startswith("fleet: wreck: ")


def test_member_with_a_clock_of_staging_calls_the_fleet_s_dag_and_that_merges_for_it_alone(scene: Scene) -> None:
    """Behind the first run, in which nothing of it was staged: both DAGs of the pipeline are on by now."""
    scene.produce("pilot", {1: "a", 2: "b", 3: "c"})
    staging = scene.find_first_run("tidegate_pilot_stage")
    assert scene.airflow.await_run("tidegate_pilot_stage", staging) == "success"
    find_called = lambda: [r for r in scene.airflow.list_runs(DAG) if r["run_type"] == "asset_triggered"]  # noqa: E731
    wait_until(lambda: bool(find_called()), "the run that staging calls for")
    [run] = [run["dag_run_id"] for run in find_called()]
    assert scene.airflow.await_run(DAG, run) == "success"
    assert scene.airflow.result(DAG, run, "plan", key="look")["looked"] == ["pilot"]
    assert scene.airflow.read_mapped_states(DAG, run, "merge") == {"pilot": "success"}
    assert scene.read_rows("e2e.pilot") == {1: "a", 2: "b", 3: "c"}
    assert sum(read_committed_offsets(scene, "pilot").values()) == 3


@pytest.mark.repeats("unit/tidegate_airflow/web/test_fleet_runs.py::test_member_s_own_failures_are_its_reason")
def test_page_shows_a_member_s_own_state_in_the_dag_of_its_fleet(scene: Scene) -> None:
    states = {"wreck": "failing", **dict.fromkeys(("barge", "ferry", "pilot", "raft"), "current")}
    # the first answer may come before each pipeline was read
    wait_until(lambda: {n: row["state"] for n, row in read_page_rows(scene).items()} == states, "the members' states")
    rows = read_page_rows(scene)
    assert {(row["dag_id"], row["fleet"]) for row in rows.values()} == {(DAG, "harbour")}
    wreck, barge = (scene.airflow.page(f"pipelines/{name}") for name in ("wreck", "barge"))
    assert wreck["airflow"]["dags"]["flush"]["dag_id"] == DAG
    assert (wreck["may"]["flush"], wreck["may"]["pause"]) == (True, True)
    assert "stage" in {error["task_id"] for error in wreck["airflow"]["errors"]}
    assert {error["task_id"] for error in barge["airflow"]["errors"]} == {"heartbeat"}


def test_form_picks_pipelines_and_a_person_s_run_tries_what_waits(scene: Scene) -> None:
    assert scene.airflow.post_run(DAG, pipelines=["solo"]).status_code == 400
    scene.produce("barge", {1: None, 4: "d"})
    dry_run = scene.airflow.trigger(DAG, dry_run=True, pipelines=["barge"])
    assert scene.airflow.await_run(DAG, dry_run) == "success"
    assert list(scene.airflow.result(DAG, dry_run, "plan", key="planned")) == ["barge"], (
        "not wreck, which has work, too"
    )
    run = scene.airflow.trigger(DAG, pipelines=["barge", "raft"])
    assert scene.airflow.await_run(DAG, run) == "success"
    assert scene.airflow.read_mapped_states(DAG, run, "merge") == {"barge": "success"}
    assert scene.read_rows("e2e.barge") == {2: "b", 3: "c", 4: "d"}
    file = scene.folder / "include" / "pipelines" / "wreck.yaml"
    file.write_text(PIPELINES["wreck"].replace("tables:\n", "  errors: {tolerance: all}\ntables:\n"))
    run = scene.airflow.trigger(DAG)
    assert scene.airflow.await_run(DAG, run) == "success"
    assert scene.airflow.read_mapped_states(DAG, run, "merge") == {"wreck": "success"}
    assert scene.read_rows("e2e.wreck") == {1: "a"}
    wait_until(lambda: len(list_mails(scene)) > 1, "the message of the recovery")
    assert list_mails(scene)[1] == "fleet: well again: wreck"


@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_fleet_run.py::test_one_long_batch_holds_up_no_other_member_and_is_begun_once"
)
def test_run_beside_another_one_leaves_out_who_is_at_work_there(scene: Scene) -> None:
    """The batch of barge waits for a slot, as one that takes hours would; ferry has work meanwhile."""
    plans = lambda run: scene.airflow.read_task_states(DAG, run)["plan"]  # noqa: E731
    scene.airflow.resize_pool("tidegate_lake", 0)
    try:
        scene.produce("barge", {5: "e"})
        slow = scene.airflow.trigger(DAG, pipelines=["barge"])
        wait_until(lambda: plans(slow) == ["success"], "the plan of the slow run")
        scene.produce("ferry", {3: "c"})
        beside = scene.airflow.trigger(DAG)
        wait_until(lambda: plans(beside) == ["success"], "the plan of the run beside it")
        look = scene.airflow.result(DAG, beside, "plan", key="look")
        assert (look["at_work"], sorted(look["looked"])) == (["barge"], ["ferry", "pilot", "raft", "wreck"])
    finally:
        scene.airflow.resize_pool("tidegate_lake", 4)
    assert [scene.airflow.await_run(DAG, run) for run in (slow, beside)] == ["success", "success"]
    assert scene.airflow.read_mapped_states(DAG, beside, "merge") == {"ferry": "success"}
    assert scene.read_rows("e2e.barge") == {2: "b", 3: "c", 4: "d", 5: "e"}
    assert scene.read_rows("e2e.ferry") == {1: "a", 2: "b", 3: "c"}


@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_heartbeats.py::test_pipelines_beat_between_flushes_where_runs_come_less_often_than_heartbeats"
)
def test_members_of_a_fleet_that_runs_seldom_beat_between_its_runs_unless_it_is_paused(scene: Scene) -> None:
    heartbeats = "tidegate-heartbeats"
    for is_paused in (False, True):
        scene.airflow.unpause(DAG, paused=is_paused)
        run = scene.airflow.trigger(heartbeats)
        scene.airflow.await_run(heartbeats, run)
        [state] = scene.airflow.read_task_states(heartbeats, run)["heartbeat"]
        beats = {} if state == "skipped" else scene.airflow.result(heartbeats, run, "heartbeat")
        assert beats.keys() & {*HARBOUR} == (set() if is_paused else {*HARBOUR})
    scene.airflow.unpause(DAG)


@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_fleet_run.py::test_run_without_work_is_the_look_alone_until_a_heartbeat_is_due"
)
def test_run_without_work_is_one_task_until_a_heartbeat_is_due(scene: Scene) -> None:
    run = scene.airflow.trigger(DAG)
    assert scene.airflow.await_run(DAG, run) == "success"
    states = scene.airflow.read_task_states(DAG, run)
    assert states == {"plan": ["success"], **{name: ["skipped"] for name in SKIPPED_TASKS}}
    assert sorted(scene.airflow.result(DAG, run, "plan", key="look")["idle"]) == sorted(HARBOUR)
    for dag in (DAG, "tidegate_pilot_stage"):
        scene.airflow.unpause(dag, paused=True)
