"""The DAG of heartbeats between flushes: one for all pipelines that flush less often than they shall beat."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Context, get_current_context, task
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowSkipException
from tidegate.fleet.timing import compute_shortest_beat, list_seldom_flushed
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.dag_ids import HEARTBEATS_DAG_ID, list_dag_ids
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import build_plain_settings
from tidegate_airflow.errors import describe_failure, raise_airflow_errors, raise_joined

Data = dict[str, Any]
log = logging.getLogger(__name__)


def build_heartbeats_dag(pipelines: Mapping[str, Pipeline]) -> DAG:
    """Build the DAG that runs at the shortest `heartbeat.interval` of these pipelines.

    Not paused at first, as it leaves alone the pipelines whose own DAG is.
    """
    seconds = compute_shortest_beat(pipelines.values())
    with DAG(
        dag_id=HEARTBEATS_DAG_ID,
        description="Heartbeats of pipelines that flush less often than they shall beat",
        doc_md=task_docs.HEARTBEATS,
        schedule=timedelta(seconds=seconds) if seconds else None,
        is_paused_upon_creation=False,
        **build_plain_settings("heartbeat"),
    ) as dag:
        task(task_id="heartbeat", doc_md=task_docs.HEARTBEATS, multiple_outputs=False)(send_heartbeats)()
    return dag


def send_heartbeats() -> Data:
    """Run the heartbeat of each pipeline that flushes seldom; return its result by pipeline. Red if one failed.

    Leaves alone pipelines whose DAG is paused, and those that a run is flushing, as it ends with a heartbeat.
    """
    from tidegate.config.pipeline_file import load_all_pipelines
    from tidegate.fleet.attend import attend_members
    from tidegate.fleet.members import open_members
    from tidegate.flush.heartbeat import require_begun

    from tidegate_airflow.dags.fleet_run import beat

    context = get_current_context()
    include = find_include_folder()
    loaded = {name: result for name, result in load_all_pipelines(include) if isinstance(result, Pipeline)}
    seldom = list_seldom_flushed(loaded)
    shortest = compute_shortest_beat(seldom.values())
    pipelines = {
        name: hasten_beat(pipeline, shortest) for name, pipeline in seldom.items() if _may_beat(context, pipeline)
    }
    with raise_airflow_errors():
        opened = open_members(include, pipelines.values(), resolve_connection)
        beats = attend_members(opened, lambda session: beat(require_begun(session)), pipelines)
    results = {name: result["beat"] for name, result in beats.results.items()}
    if beats.failures:
        context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, results)
        messages = {name: describe_failure(problem)["message"] for name, problem in beats.failures.items()}
        raise_joined("SomePipelinesFailed", [f"pipeline={name}: {message}" for name, message in messages.items()])
    if not results:
        raise AirflowSkipException("no pipeline that flushes seldom is to beat now")
    return results


def hasten_beat(pipeline: Pipeline, seconds: int) -> Pipeline:
    """Return the pipeline with an interval that is over now, if the next run, `seconds` later, would be too late."""
    interval_seconds = pipeline.heartbeat.interval_seconds
    if interval_seconds <= 0:
        return pipeline
    return replace(pipeline, heartbeat=replace(pipeline.heartbeat, interval_seconds=max(1, interval_seconds - seconds)))


def _may_beat(context: Context, pipeline: Pipeline) -> bool:
    # not beside a run that commits to the group: each would find the offsets of the other
    dag_id = list_dag_ids(pipeline.name, pipeline.fleet)["flush"]
    task_instance = context["ti"]
    try:
        is_paused = task_instance.get_dag(dag_id).is_paused
        return not is_paused and task_instance.get_dr_count(dag_id=dag_id, states=["running"]) == 0
    except Exception as fault:  # a DAG that Airflow has not read yet
        log.info("pipeline=%s has no heartbeat now: dag_id=%s: %s", pipeline.name, dag_id, type(fault).__name__)
        return False
