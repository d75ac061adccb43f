"""The flush DAG of one pipeline: plan → stage → merge → commit_offsets → clean_up → heartbeat, and compact."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param, TaskGroup, TriggerRule, task
from airflow.sdk.definitions.param import ParamsDict
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow import tasks
from tidegate_airflow.assets import build_asset_alias, build_backlog_alias, build_complete_asset
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import (
    SHORT_TIMEOUT,
    build_dag_settings,
    build_job_task_settings,
    format_pool_name,
    is_submitted,
)
from tidegate_airflow.dags.flush_params import build_form
from tidegate_airflow.dags.run_outcome import (
    COMPACT_TASK_ID,
    check_freshness,
    clean_up_unless_dry,
    finish_run,
    plan_as_requested,
    report_complete_unless_dry,
)
from tidegate_airflow.dags.schedule import build_schedule, build_watched_backlog, describe_schedule
from tidegate_airflow.operators.step import StepOperator

MAX_TAG_LETTERS = 100  # Airflow refuses the DAG of a longer one, and with it the DAGs of every other file


def build_flush_dag(pipeline: Pipeline) -> DAG:
    """The DAG ``tidegate_<pipeline>``. No connection is opened and nothing heavy is imported here."""
    settings = build_dag_settings(pipeline, "flush")
    schedule_text = describe_schedule(pipeline)
    settings["tags"].append(
        schedule_text if len(schedule_text) <= MAX_TAG_LETTERS else f"{schedule_text[: MAX_TAG_LETTERS - 1]}…"
    )
    with DAG(
        dag_id=f"tidegate_{pipeline.name}",
        description=pipeline.description or f"Kafka into {', '.join(table.name for table in pipeline.entries)}",
        doc_md=_format_doc_md(pipeline),
        schedule=build_schedule(pipeline),
        **settings,
    ) as dag:
        _build_tasks(pipeline)
    dag.params = to_params_dict(build_form())
    return dag


def to_params_dict(form: Mapping[str, Param]) -> ParamsDict:
    """A DAG's form, for when its tasks are there: each would copy it, and that takes longer than all the rest."""
    return ParamsDict(dict(form))


def _build_tasks(pipeline: Pipeline) -> None:
    name: str = pipeline.name
    quick: dict[str, Any] = {"execution_timeout": SHORT_TIMEOUT, "multiple_outputs": False}
    memory: dict[str, Any] = {"inlets": [build_watched_backlog(pipeline)]}  # of the failed runs before
    plan = task(task_id="plan", doc_md=task_docs.PLAN, **memory, **quick)(plan_as_requested)
    commit_offsets = task(
        task_id="commit_offsets",
        doc_md=task_docs.COMMIT_OFFSETS,
        trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
        **quick,
    )(tasks.run_commit_offsets)
    clean_up = task(
        task_id="clean_up",
        doc_md=task_docs.CLEAN_UP,
        pool=format_pool_name(pipeline),
        trigger_rule=TriggerRule.ALL_DONE,  # also for what a run left that was killed after its publish
        outlets=[build_asset_alias(name)],
    )(clean_up_unless_dry)
    heartbeat = task(
        task_id="heartbeat",
        doc_md=task_docs.HEARTBEAT,
        trigger_rule=TriggerRule.ALL_DONE,
        outlets=[build_backlog_alias(name)],
        **memory,
        **quick,
    )(finish_run)
    flush_plan = plan(name)
    beat = heartbeat(name)
    with TaskGroup("rows", prefix_group_id=False, tooltip="From the log into the tables"):
        merge_output = _build_merge_task(pipeline, _build_stage_task(pipeline, flush_plan))
    with TaskGroup("progress", prefix_group_id=False, tooltip="Reported to Kafka, and tidied up"):
        cleaned = clean_up(name)
        merge_output >> commit_offsets(name) >> cleaned >> beat
        if pipeline.maintenance.follows_flushes:
            _build_compact_task(pipeline, cleaned)
        build_complete_tasks(pipeline, cleaned, quick)
    if pipeline.freshness_target_seconds is not None:
        task(task_id="freshness", doc_md=task_docs.FRESHNESS, **memory, **{**quick, "retries": 0})(check_freshness)(
            beat, name, pipeline.freshness_target_seconds
        )


def _build_stage_task(pipeline: Pipeline, flush_plan: Any) -> Any:
    settings = build_job_task_settings(pipeline, "stage", task_docs.STAGE)
    if is_submitted(pipeline):
        from tidegate_airflow.operators.spark_submit import SubmitOperator

        connection = pipeline.spark.connection
        return SubmitOperator(
            verb="stage", pipeline=pipeline.name, given=flush_plan, conn_id=connection, **settings
        ).output

    return StepOperator(verb="stage", pipeline=pipeline.name, given=flush_plan, **settings).output


def _build_merge_task(pipeline: Pipeline, stage_output: Any) -> Any:
    settings = {
        **build_job_task_settings(pipeline, "merge", task_docs.MERGE),
        "outlets": [build_asset_alias(pipeline.name)],
    }
    # one result for each count beside the whole, so that the UI shows them at a glance
    output_settings: dict[str, Any] = {"multiple_outputs": True}
    several = pipeline.has_several
    if several:
        settings["map_index_template"] = "{{ table }}"
    if is_submitted(pipeline):
        from tidegate_airflow.operators.spark_submit import SubmitOperator

        fixed: dict[str, Any] = {
            "verb": "merge",
            "pipeline": pipeline.name,
            "conn_id": pipeline.spark.connection,
            **settings,
        }
        if several:
            return SubmitOperator.partial(**fixed).expand(given=stage_output).output
        return SubmitOperator(given=stage_output, **fixed).output

    fixed = {"verb": "merge", "pipeline": pipeline.name, **settings, **output_settings}
    if several:
        return StepOperator.partial(**fixed).expand(given=stage_output).output
    return StepOperator(given=stage_output, **fixed).output


def build_complete_tasks(pipeline: Pipeline, cleaned: Any, settings: dict[str, Any]) -> None:
    """The task `complete` of each table, if asked for, whatever became of the run: each table's position says by itself
    what is in it, and one that stands still keeps no other's hours back. The heartbeat beside them colours the run.
    """
    if pipeline.complete is None:
        return
    for number, table in enumerate(pipeline.tables):
        asset = build_complete_asset(table.name, pipeline.complete, table.branch)
        cleaned >> task(
            task_id=f"complete_{number}" if len(pipeline.tables) > 1 else "complete",
            doc_md=task_docs.COMPLETE,
            inlets=[asset],
            outlets=[asset],
            trigger_rule=TriggerRule.ALL_DONE,
            max_active_tis_per_dag=1,  # another run would report the same hours
            **{**settings, "retries": 0},  # the next run reports what this one could not, and no flush waits for it
        )(report_complete_unless_dry)(pipeline.name, table.name, pipeline.complete.value, table.branch)


def _build_compact_task(pipeline: Pipeline, cleaned: Any) -> None:
    """Skipped by clean_up, on which it alone depends, where no table is due."""
    settings = {
        **build_job_task_settings(pipeline, COMPACT_TASK_ID, task_docs.COMPACT),
        "retries": 0,
    }
    if is_submitted(pipeline):
        from tidegate_airflow.operators.spark_submit import SubmitOperator

        connection = pipeline.spark.connection
        SubmitOperator(verb=COMPACT_TASK_ID, pipeline=pipeline.name, given=cleaned, conn_id=connection, **settings)
    else:
        task(**settings)(tasks.run_compact)(pipeline.name, cleaned)


def _format_doc_md(pipeline: Pipeline) -> str:
    rows = "\n".join(f"| `{t.name}` | {', '.join(t.topics) or 'all'} | {t.mode} |" for t in pipeline.entries)
    return f"{pipeline.description}\n\n| table | topics | mode |\n| --- | --- | --- |\n{rows}\n"
