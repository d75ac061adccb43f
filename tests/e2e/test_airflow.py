"""The flush under the real scheduler, as people see it: DAGs, runs, results, assets, red where it must be red."""

import json
import os
import signal
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition
from e2e.airflow_client import wait_until
from e2e.conftest import HARBOUR, PIPELINES, PUBLICATIONS, Scene
from tidegate.spec.time_text import to_utc_datetime

pytestmark = pytest.mark.real
SIX = ("plan", "stage", "merge", "commit_offsets", "clean_up", "heartbeat")


def test_a_broken_pipeline_file_is_an_import_error_and_stops_no_other(scene: Scene) -> None:
    wanted = {f"tidegate_{name}" for name in PIPELINES if name != "broken"}
    wanted |= {f"{dag}_{kind}" for dag in wanted for kind in ("actions", "backfill", "maintenance", "replay")}
    wanted |= {"tidegate_clocks_stage", "tidegate_pilot_stage", "tidegate_solo_verify"}
    wanted = wanted - {f"tidegate_{name}" for name in HARBOUR} | {"tidegate_fleet_harbour"}
    wanted |= {f"tidegate_publish_{name}" for name in PUBLICATIONS}
    # many flush seldom, and beat between
    wanted |= {"tidegate-janitor", "tidegate-heartbeats", "consumer"}
    wait_until(lambda: wanted <= scene.airflow.list_dag_ids(), "the DAGs")
    wait_until(lambda: bool(scene.airflow.list_import_errors()), "the import error")
    assert scene.airflow.list_dag_ids() == wanted
    [error] = scene.airflow.list_import_errors()
    assert "broken.yaml" in error
    for mistake in ("colour", "nowhere", "merge.interval=soon"):
        assert mistake in error
    pools = {pool["name"] for pool in scene.airflow.get("pools")["pools"]}
    assert "tidegate_lake" in pools, "a task in a pool that does not exist would wait for ever"


@pytest.mark.usefixtures("submitted_run")  # begun here, and looked at by the last tests
def test_the_schedule_flushes_by_itself_and_a_run_without_work_is_skipped(scene: Scene) -> None:
    dag = "tidegate_solo"
    scene.produce("solo", {1: "a", 2: "b", 3: "c"})
    scene.airflow.unpause(dag)
    wait_until(lambda: scene.exists("e2e.solo") and len(scene.read_rows("e2e.solo")) == 3, "the first flush")
    scene.produce("solo", {1: "A", 2: None, 4: "d"})
    wait_until(lambda: scene.read_rows("e2e.solo") == {1: "A", 3: "c", 4: "d"}, "the second flush")
    wait_until(lambda: any(_is_skipped(scene, dag, run) for run in scene.airflow.list_runs(dag)), "a run without work")
    scene.airflow.unpause(dag, paused=True)
    flushes = [run for run in scene.airflow.list_runs(dag) if _has_published(scene, dag, run)]
    assert len(flushes) >= 2
    assert {run["state"] for run in flushes} == {"success"}
    first = scene.airflow.result(dag, flushes[-1]["dag_run_id"], "merge")
    assert (first["batch"], first["staged"], first["inserted"]) == (1, 3, 3)
    assert first["ranges"].keys() == {"solo"}
    assert len(scene.table("e2e.solo").sort_order().fields) == 1
    measured = scene.airflow.result(dag, flushes[-1]["dag_run_id"], "compact")
    assert measured == [{"table": "lake.e2e.solo", "compacted": False}], "one file is not worth it"
    idle = next(run for run in scene.airflow.list_runs(dag) if _is_skipped(scene, dag, run))
    assert scene.airflow.read_task_states(dag, idle["dag_run_id"])["compact"] == ["skipped"]
    assert scene.airflow.result(dag, idle["dag_run_id"], "clean_up")[0]["measure"] is False
    # each published batch updates the asset of its table
    events = scene.airflow.list_asset_events("lake.e2e.solo")
    assert [event["extra"]["batch"] for event in reversed(events)][:2] == [1, 2]
    times = [event["extra"]["valid_through"] for event in reversed(events)]
    stamp = scene.table("e2e.solo").properties["tidegate.solo.valid-through-ts"]
    assert times[-1] == (to_utc_datetime(int(stamp)).isoformat() if stamp else None)
    known_times = [time for time in times if time is not None]
    assert known_times == sorted(known_times)
    assert times[len(times) - len(known_times) :] == known_times, (
        "once every partition has shown a record, it is always known"
    )


def test_a_backfill_from_the_form_shows_first_and_then_restores_what_is_missing(scene: Scene) -> None:
    dag, times = "tidegate_solo_backfill", {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    before = scene.read_rows("e2e.solo")
    assert scene.airflow.post_run(dag, ranges={"solo": {"zero": [0, 1]}}).status_code == 400
    assert scene.airflow.post_run(dag, **{**times, "from": "yesterday"}).status_code == 400
    with pytest.warns(UserWarning, match="copy-on-write"):
        scene.table("e2e.solo").delete()
    scene.airflow.unpause(dag)
    dry_run = scene.airflow.trigger(dag, **times, dry_run=True)
    assert scene.airflow.await_run(dag, dry_run) == "success"
    [table] = scene.airflow.result(dag, dry_run, "plan", key="tables")
    assert (table["table"], table["records"], table["batches"], table["later"]) == ("lake.e2e.solo", 6, 1, 0)
    assert scene.read_rows("e2e.solo") == {}
    run = scene.airflow.trigger(dag, **times)
    assert scene.airflow.await_run(dag, run) == "success"
    assert scene.airflow.read_task_states(dag, run) == {
        "plan": ["success"],
        "batch": ["success"],
        "clean_up": ["success"],
    }
    assert scene.read_rows("e2e.solo") == before
    assert scene.airflow.await_run(dag, scene.airflow.trigger(dag)) == "failed"


@pytest.mark.repeats(
    "unit/tidegate_airflow/operators/test_maintain.py::test_tables_are_mapped_one_by_one_as_long_as_airflow_takes_them"
)
def test_the_maintenance_of_a_pipeline_is_one_mapped_task_for_each_of_its_tables(scene: Scene) -> None:
    dag, before = "tidegate_solo_maintenance", scene.read_rows("e2e.solo")
    run = scene.find_first_run(dag)
    assert scene.airflow.await_run(dag, run) == "success"
    tables = scene.airflow.result(dag, run, "tables")
    assert tables == ["lake.e2e.solo", "lake.e2e.solo_solo_tmp", "lake.e2e.tidegate_solo_batches"]
    results = [scene.airflow.result(dag, run, "maintain", number) for number in range(len(tables))]
    assert [result["table"] for result in results] == tables
    assert results[0]["after"]["data_files"] >= 1
    reports = {report["table"]: report for report in scene.airflow.page("pipelines/solo")["airflow"]["maintenance"]}
    assert {name: reports[name]["after"] for name in tables} == {result["table"]: result["after"] for result in results}
    assert scene.read_rows("e2e.solo") == before
    scene.airflow.unpause(dag, paused=True)


@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_dags.py::test_pipeline_that_is_verified_by_the_clock_has_a_dag_whose_form_names_a_table"
)
def test_verification_by_the_clock_says_that_the_table_is_what_its_log_says(scene: Scene) -> None:
    dag, rows = "tidegate_solo_verify", scene.read_rows("e2e.solo")
    run = scene.find_first_run(dag)
    assert scene.airflow.await_run(dag, run) == "success"
    [counts] = scene.airflow.result(dag, run, "verify")
    assert (counts["table"], counts["equal"]) == ("lake.e2e.solo", len(rows))
    assert counts["missing"] + counts["surplus"] + counts["different"] + counts["unknowable"] == 0
    scene.airflow.unpause(dag, paused=True)


# the same path of spark-submit, with a flush of two tasks and a compaction
@pytest.mark.repeats("e2e/test_what_others_see.py::test_spark_submit_on_a_standalone_cluster_gives_the_same_table")
def test_publication_through_spark_submit_brings_the_table_to_its_topic(scene: Scene) -> None:
    """The table that the schedule has filled."""
    dag = "tidegate_publish_solo_out"
    scene.airflow.unpause(dag)
    run = scene.airflow.trigger(dag)
    assert scene.airflow.await_run(dag, run, patience=600) == "success"
    assert scene.airflow.result(dag, run, "publish")["inserted"] == 3
    assert read_last_values(scene, "solo.out") == scene.read_rows("e2e.solo") == {1: "A", 3: "c", 4: "d"}
    second_run = scene.airflow.trigger(dag)
    assert scene.airflow.await_run(dag, second_run, patience=600) == "success"
    assert scene.airflow.read_task_states(dag, second_run) == {"publish": ["skipped"]}, "nothing came since"
    scene.produce("solo.out", {9: "of nobody"})
    third_run = scene.airflow.trigger(dag, resynchronise=True)
    assert scene.airflow.await_run(dag, third_run, patience=600) == "success"
    assert scene.airflow.result(dag, third_run, "publish")["deleted"] == 1
    assert read_last_values(scene, "solo.out") == scene.read_rows("e2e.solo"), "the form's switch came to the job"
    scene.airflow.unpause(dag, paused=True)


def read_last_values(scene: Scene, topic: str) -> dict[int, str]:
    """The last value of each key that was not deleted, for a reader of what is committed."""
    settings = {"group.id": "held", "isolation.level": "read_committed", "enable.partition.eof": "true"}
    consumer = Consumer({"bootstrap.servers": scene.guarded.backdoor, "auto.offset.reset": "earliest", **settings})
    partitions = set(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    names: dict[int, str] = {}
    while partitions:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            partitions.discard(message.partition())
        elif message.value() is None:
            names.pop(json.loads(message.key())["id"], None)
        else:
            row = json.loads(message.value())
            names[row["id"]] = row["name"]
    consumer.close()
    return names


@pytest.fixture(scope="module")
def flushed_fan(scene: Scene) -> None:
    """The two tables of a pipeline after its first run."""
    scene.produce("fan.left", {1: "left"})
    scene.produce("fan.right", {1: "right", 2: "right"})
    run = scene.find_first_run("tidegate_fan")
    assert scene.airflow.await_run("tidegate_fan", run) == "success"


@pytest.mark.repeats("e2e/test_fleet.py::test_members_with_work_are_flushed_beside_one_that_fails_and_one_that_idles")
@pytest.mark.usefixtures("flushed_fan")
def test_a_pipeline_with_two_tables_merges_them_in_mapped_tasks(scene: Scene) -> None:
    wait_until(lambda: scene.read_rows("e2e.fan_right") == {1: "right", 2: "right"}, "both tables")
    assert scene.read_rows("e2e.fan_left") == {1: "left"}


@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_flush_run.py::test_tables_that_can_be_staged_are_merged_and_the_run_is_red_with_the_others_reason"
)
@pytest.mark.usefixtures("flushed_fan")
def test_a_table_that_was_rolled_back_leaves_the_run_red_with_its_reason_and_the_other_published(scene: Scene) -> None:
    table = scene.table("e2e.fan_left")
    newest = table.metadata.snapshots[-1]
    assert newest.parent_snapshot_id is not None
    table.manage_snapshots().set_current_snapshot(newest.parent_snapshot_id).commit()
    for topic in ("fan.left", "fan.right"):
        scene.produce(topic, {3: "meanwhile"})
    run = scene.airflow.trigger("tidegate_fan")
    assert scene.airflow.await_run("tidegate_fan", run) == "failed"
    states = scene.airflow.read_task_states("tidegate_fan", run)
    assert {n: task_states for n, task_states in states.items() if task_states != ["success"]} == {
        "heartbeat": ["failed"],
        "compact": ["skipped"],
    }
    [refused] = scene.airflow.result("tidegate_fan", run, "plan")["refused"]
    assert (refused["table"], refused["kind"]) == ("lake.e2e.fan_left", "PositionLost")
    assert "table=lake.e2e.fan_left is refused" in scene.airflow.log("tidegate_fan", run, "heartbeat")
    assert scene.read_rows("e2e.fan_right")[3] == "meanwhile"
    scene.table("e2e.fan_left").manage_snapshots().set_current_snapshot(newest.snapshot_id).commit()
    assert scene.airflow.await_run("tidegate_fan", scene.airflow.trigger("tidegate_fan")) == "success"
    assert scene.read_rows("e2e.fan_left")[3] == "meanwhile"


@pytest.mark.repeats(
    "unit/tidegate_airflow/dags/test_flush_run.py::test_tables_that_can_be_staged_are_merged_and_the_run_is_red_with_the_others_reason"
)
@pytest.mark.usefixtures("flushed_fan")
def test_one_table_that_fails_leaves_the_run_red_and_the_others_published(scene: Scene) -> None:
    before = scene.table("e2e.fan_left").schema()
    with scene.table("e2e.fan_left").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("name")
    with scene.table("e2e.fan_left").update_schema() as update:
        update.add_column("name", before.find_type("id"))  # another type: an incompatible change
    scene.produce("fan.left", {5: "later"})
    scene.produce("fan.right", {5: "now"})
    run = scene.airflow.trigger("tidegate_fan")
    assert scene.airflow.await_run("tidegate_fan", run) == "failed"
    states = scene.airflow.read_task_states("tidegate_fan", run)
    assert states["merge"] == ["failed", "success"]
    assert states["commit_offsets"] == states["clean_up"] == ["success"]
    assert scene.read_rows("e2e.fan_right")[5] == "now"
    scene.airflow.unpause("tidegate_fan", paused=True)


@pytest.mark.repeats(
    "integration/test_servers_down.py::test_spark_that_goes_in_the_middle_and_stays_away_ends_the_flush_and_the_next_recovers"
)
def test_kill_of_the_spark_server_during_a_merge_is_recovered_by_the_retry(scene: Scene) -> None:
    dag = "tidegate_solo"
    scene.airflow.unpause(dag)
    assert any(_kill_and_await_retry(scene, dag, attempt) for attempt in range(10)), "no merge was killed in its middle"
    wait_until(lambda: scene.table("e2e.solo_solo_tmp").scan().to_arrow().num_rows == 0, "the clean-up of rows")
    wait_until(lambda: not _list_branches(scene), "the clean-up of branches")
    scene.airflow.unpause(dag, paused=True)


def _kill_and_await_retry(scene: Scene, dag: str, attempt: int) -> bool:
    """Kill the server during a merge, and wait for its rows; whether a retry published them, as Spark had to end it."""
    server = scene.stack.variables.get("SPARK_PID")
    rows = _kill_during_merge(scene, attempt)
    if rows is None:
        return False
    wait_until(lambda: rows.items() <= scene.read_rows("e2e.solo").items(), "the retry")
    if _is_merged_by_retry(scene, dag):
        return True
    wait_until(lambda: scene.stack.variables.get("SPARK_PID", server) != server, "Spark is back")
    return False


def _kill_during_merge(scene: Scene, attempt: int) -> dict[int, str | None] | None:
    """Produce, and kill the server when the merge's branch is seen; None when the merge was too quick for that."""
    rows: dict[int, str | None] = {n: f"again {attempt} {n}" for n in range(2000)}
    scene.produce("solo", rows)
    branches: list[str] = []

    def is_merging_or_over() -> bool:
        branches.extend(_list_branches(scene))
        return bool(branches) or rows.items() <= scene.read_rows("e2e.solo").items()

    wait_until(is_merging_or_over, "a merge", pause=0.02)
    if not branches:
        return None
    os.kill(int(scene.stack.variables["SPARK_PID"]), signal.SIGKILL)
    return rows


def _is_merged_by_retry(scene: Scene, dag: str) -> bool:
    """Whether a merge that ran more than once has published the newest batch."""
    newest = scene.table("e2e.solo").properties["tidegate.solo.batch"]
    wait_until(
        lambda: str(scene.airflow.list_asset_events("lake.e2e.solo")[0]["extra"]["batch"]) == newest, "its event"
    )
    run = scene.airflow.list_asset_events("lake.e2e.solo")[0]["source_run_id"]
    return scene.airflow.count_tries(dag, run)["merge"] > 1


def _list_branches(scene: Scene) -> list[str]:
    return [name for name in scene.table("e2e.solo").metadata.refs if name.startswith("tidegate_solo_")]


# the demo's parts: its events and its verdict in unit tests, its stack and its DAGs in every other end-to-end test
@pytest.mark.repeats("test_the_schedule_flushes_by_itself_and_a_run_without_work_is_skipped")
def test_the_demo_ends_with_every_table_equal_to_the_truth() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "demo", "--once", "--flushes", "3"],
        capture_output=True,
        text=True,
        timeout=1200,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert process.returncode == 0, f"{process.stdout[-3000:]}\n{process.stderr[-3000:]}"


def _is_skipped(scene: Scene, dag: str, run: dict[str, str]) -> bool:
    states = scene.airflow.read_task_states(dag, run["dag_run_id"])
    return states.get("plan") == ["skipped"] and states.get("heartbeat") == ["success"] and run["state"] == "success"


def _has_published(scene: Scene, dag: str, run: dict[str, str]) -> bool:
    states = scene.airflow.read_task_states(dag, run["dag_run_id"])
    return all(states.get(task) == ["success"] for task in SIX)
