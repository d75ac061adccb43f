"""The DAG of a fleet as Airflow reads it: one for its members, who have no flush DAG of their own."""

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.collection import AssetModelOperation
from airflow.sdk.execution_time.context import AssetStateStoreAccessors
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from dag_reading.process import read
from tidegate_airflow.assets import build_backlog_asset
from tidegate_airflow.dag_files import build_pipeline_dags
from tidegate_airflow.dags.flush import build_fleet_dag

PIPELINE = """
source:
  topics: [{name}]
  key: {{format: json, fields: [id], schema: id BIGINT}}
  value: {{format: json, schema: "id BIGINT, name STRING"}}
tables: [{{name: lake.shop.{name}}}, {{name: lake.shop.{name}_too}}]
fleet: {fleet}
{more}merge: {merge}
tags: [team-{name}]
on_failure: [{{notifier: a.module.that.is.not.There}}]
"""
LAKE = {"type": "sql", "uri": "postgresql://nowhere.invalid:1/c", "warehouse": "s3://nowhere/w"}
FLEET = "tidegate_fleet_shop"
MEMBERS = ("carts", "counted", "orders", "ticking")  # the last one stages on a clock of its own
STAGING = "tidegate_ticking_stage"


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("include")
    (folder / "pipelines").mkdir()
    (folder / "catalogs.yaml").write_text(json.dumps({"lake": {"type": "iceberg", "properties": LAKE}}))
    pipeline_files = {
        "carts": ("shop", "{interval: 5s}"),
        "counted": ("shop", "{interval: -1, records_threshold: 1000}"),
        "orders": ("shop", "{interval: 60s}"),
        "ticking": ("shop", "{interval: 1h, records_threshold: 1000}"),
        "nightly": ("night", "{interval: '30 2 * * *'}"),
        "alone": ("null", "{interval: 60s}"),
    }
    for name, (fleet, merge) in pipeline_files.items():
        more = "stage: {interval: 10s}\n" if name == "ticking" else ""
        text = PIPELINE.format(name=name, fleet=fleet, merge=merge, more=more)
        (folder / "pipelines" / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def dag_reading(include: Path) -> dict[str, Any]:
    return read(include)


def test_members_flush_in_the_dag_of_their_fleet_and_keep_their_other_dags(dag_reading: dict[str, Any]) -> None:
    dags = {name for name in dag_reading["dags"] if name.startswith("tidegate_")}
    kinds = ("actions", "backfill", "maintenance", "replay")
    other_dags = {f"tidegate_{name}_{kind}" for name in (*MEMBERS, "nightly") for kind in kinds}
    alone = {f"tidegate_alone{kind}" for kind in ("", "_actions", "_backfill", "_maintenance", "_replay")}
    assert dags == {FLEET, "tidegate_fleet_night", STAGING, *other_dags, *alone}
    assert dag_reading["opened"] == []
    assert dag_reading["imported"] == []


def test_tasks_of_a_fleet_are_named_by_the_verbs_and_explained(dag_reading: dict[str, Any]) -> None:
    tasks = dag_reading["dags"][FLEET]["tasks"]
    assert sorted(tasks) == ["clean_up", "commit_offsets", "compact", "heartbeat", "merge", "plan", "stage"]
    assert all(task["doc"] and task["owner"] == "tidegate" for task in tasks.values())
    assert {name for name, task in tasks.items() if task["group"] == "rows"} == {"stage", "merge"}
    assert "BigQuery job" in tasks["merge"]["links"]
    assert set(dag_reading["dags"][FLEET]["tags"]) == {
        "tidegate",
        "fleet",
        "lake",
        *(f"team-{name}" for name in MEMBERS),
    }


def test_runs_of_a_fleet_overlap_but_for_the_tasks_that_keep_what_later_runs_must_know() -> None:
    """Two of these at once would overwrite what the other has noted."""
    dag = build_fleet_dag("shop", [])
    assert dag.max_active_runs > 1
    serial = {task.task_id for task in dag.tasks if task.max_active_tis_per_dag == 1}
    assert serial == {"plan", "heartbeat"}


def test_fleet_runs_at_the_shortest_interval_and_when_enough_records_of_a_member_wait(
    dag_reading: dict[str, Any],
) -> None:
    serialized = dag_reading["dags"][FLEET]["serialized"]
    assert '"delta": 5.0' in serialized
    assert '"pipeline": "counted"' in serialized
    assert '"pipeline": "ticking"' not in serialized, "its staging calls"
    assert "30 2 * * *" in dag_reading["dags"]["tidegate_fleet_night"]["serialized"]


def test_staging_of_a_member_calls_the_dag_of_its_fleet_and_reads_how_its_merges_ended(include: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_INCLUDE", str(include))
        dag = build_pipeline_dags()[STAGING]
    stage = dag.get_task("stage")
    backlog = "tidegate_fleet_shop_backlog"
    assert [outlet.name for outlet in stage.outlets] == [inlet.name for inlet in stage.inlets] == [backlog]
    assert AssetStateStoreAccessors(stage.inlets, stage.outlets)[build_backlog_asset("fleet_shop")] is not None
    assert stage.pool == "tidegate_lake_stage"
    assert {dag.get_task(name).inlets[0].name for name in ("plan", "finish")} == {"tidegate_ticking_stage_backlog"}


@pytest.mark.parametrize("is_reversed", [False, True])
def test_staging_of_a_member_takes_no_watcher_from_its_fleet_in_whatever_order_airflow_reads_the_dags(
    include: Path, is_reversed: bool
) -> None:
    """All DAGs of a file are read at once, and of assets of one name Airflow keeps the last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_INCLUDE", str(include))
        dags = build_pipeline_dags()
    names = sorted(dags, reverse=is_reversed)
    found = AssetModelOperation.collect({name: LazyDeserializedDAG.from_dag(dags[name]) for name in names})
    watchers = {name: [watcher.name for watcher in asset.watchers] for (name, _), asset in found.assets.items()}
    assert watchers["tidegate_fleet_shop_backlog"] == ["tidegate_counted_backlog"]


def test_form_picks_members_and_asks_what_a_flush_is_asked(dag_reading: dict[str, Any]) -> None:
    params = dag_reading["dags"][FLEET]["params"]
    assert list(params) == ["pipelines", "max_records", "until_current", "dry_run"]
    assert params["pipelines"]["items"] == {"type": "string", "enum": list(MEMBERS)}
    assert all(schema["title"] and schema["description"] for schema in params.values())


def test_task_of_a_fleet_reads_no_pipeline_file_to_find_its_dag(include: Path, dag_reading: dict[str, Any]) -> None:
    own = read(include, _AIRFLOW_PARSING_CONTEXT_DAG_ID=FLEET)["dags"]
    assert own[FLEET]["tasks"] == dag_reading["dags"][FLEET]["tasks"]
    assert own[FLEET]["params"]["pipelines"]["items"] == {"type": "string"}


def test_task_of_a_member_s_other_dag_reads_its_own_file(include: Path) -> None:
    own = read(include, _AIRFLOW_PARSING_CONTEXT_DAG_ID="tidegate_orders_backfill")["dags"]
    assert {"tidegate_orders_actions", "tidegate_orders_backfill", "tidegate_orders_maintenance"} <= set(own)
    assert not {name for name in own if "carts" in name}
