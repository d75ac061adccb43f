"""The DAG of a fleet: plan → stage and merge of each pipeline with work → commit_offsets → clean_up → heartbeat."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    TaskGroup,
    TriggerRule,
    task,
    task_group,
)
from tidegate.fleet.timing import build_clock
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.assets import build_asset_alias, build_backlog_alias, build_backlog_asset
from tidegate_airflow.dag_ids import format_fleet_dag_id, name_fleet
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import RETRY_ARGS, SHORT_TIMEOUT, format_pool_name
from tidegate_airflow.dags.fleet import fleet_docs
from tidegate_airflow.dags.fleet.attend_members import clean_up_members, commit_offsets_of_members
from tidegate_airflow.dags.fleet.finish_members import finish_fleet_run
from tidegate_airflow.dags.fleet.fleet_params import build_fleet_form
from tidegate_airflow.dags.fleet.plan_members import plan_fleet
from tidegate_airflow.dags.flush import to_params_dict
from tidegate_airflow.dags.schedule import build_watchers, describe_schedule
from tidegate_airflow.failures.notifiers import build_fleet_callbacks
from tidegate_airflow.operators.member import MemberOperator

DEFAULT_POOL = "default_pool"
# A run with a member that takes long stays for as long as that, and the next ones go on without it. Airflow's default.
RUNS_AT_ONCE = 16
# Of tasks that keep what later runs must know: two of them at once would overwrite what the other has noted.
ONE_IN_ALL_RUNS: dict[str, Any] = {"max_active_tis_per_dag": 1}
MAPPED = {"map_index_template": "{{ task.given['pipeline'] }}"}  # known before the task begins its work


def build_fleet_dag(fleet: str, members: Sequence[Pipeline]) -> DAG:
    """The DAG ``tidegate_fleet_<fleet>``. No connection is opened and nothing heavy is imported here.

    The process of a task needs no members: its tasks are the same, and what it is given names the pipeline.
    """
    backlog = build_backlog_asset(
        name_fleet(fleet), [watcher for member in members for watcher in _build_watchers(member)]
    )
    with DAG(
        dag_id=format_fleet_dag_id(fleet),
        description=f"Flushes {len(members)} pipelines together: {', '.join(member.name for member in members)}"[:250],
        doc_md=_format_doc_md(fleet, members),
        schedule=_build_schedule(members, backlog),
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=RUNS_AT_ONCE,
        on_failure_callback=build_fleet_callbacks(members),
        default_args={"owner": "tidegate", **RETRY_ARGS},
        tags=_list_tags(members),
    ) as dag:
        _build_tasks(fleet, format_pool_name(members[0]) if members else DEFAULT_POOL, backlog)
    dag.params = to_params_dict(build_fleet_form([member.name for member in members]))
    return dag


def _build_watchers(pipeline: Pipeline) -> list[AssetWatcher]:
    return build_watchers(pipeline) if pipeline.merge.records_threshold > 0 else []


def _build_schedule(members: Sequence[Pipeline], backlog: Asset) -> Any:
    """The clock of all members, or an event of the fleet's backlog, whichever comes first."""
    clock = build_clock(members)
    if clock.cron is not None:
        return AssetOrTimeSchedule(timetable=CronTriggerTimetable(clock.cron, timezone="UTC"), assets=[backlog])
    if clock.seconds > 0:
        delta = DeltaTriggerTimetable(timedelta(seconds=clock.seconds))
        return AssetOrTimeSchedule(timetable=delta, assets=[backlog])
    return [backlog]


def _list_tags(members: Sequence[Pipeline]) -> list[str]:
    catalogs = sorted({table.catalog for member in members for table in member.entries})
    return list(
        dict.fromkeys(["tidegate", "fleet", *catalogs, *sorted({tag for member in members for tag in member.tags})])
    )


def _build_tasks(fleet: str, pool: str, backlog: Asset) -> None:
    name = name_fleet(fleet)
    shared: dict[str, Any] = {"multiple_outputs": False, "inlets": [backlog]}  # attend_members has limits of its own
    pooled: dict[str, Any] = {"pool": pool}
    plan_settings: dict[str, Any] = {"execution_timeout": SHORT_TIMEOUT, **ONE_IN_ALL_RUNS, **shared}
    plan = task(task_id="plan", doc_md=fleet_docs.PLAN, **plan_settings)(plan_fleet)
    commit_offsets = task(
        task_id="commit_offsets",
        doc_md=fleet_docs.COMMIT_OFFSETS,
        trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
        **shared,
    )(commit_offsets_of_members)
    clean_up = task(
        task_id="clean_up",
        doc_md=fleet_docs.CLEAN_UP,
        multiple_outputs=False,
        trigger_rule=TriggerRule.ALL_DONE,  # also for what a run left that was killed after its publish
        outlets=[build_asset_alias(name), build_backlog_alias(name)],
        **pooled,
    )(clean_up_members)
    heartbeat = task(
        task_id="heartbeat",
        doc_md=fleet_docs.HEARTBEAT,
        trigger_rule=TriggerRule.ALL_DONE,
        **ONE_IN_ALL_RUNS,
        **shared,
    )(finish_fleet_run)
    rows = _build_member_tasks(name, plan(fleet), pooled)
    with TaskGroup("progress", prefix_group_id=False, tooltip="Reported to Kafka, and tidied up"):
        cleaned = clean_up(fleet)
        rows >> commit_offsets(fleet) >> cleaned >> heartbeat(fleet)
        fixed: dict[str, Any] = {"doc_md": task_docs.COMPACT, "retries": 0, **pooled, **MAPPED}
        MemberOperator.partial(task_id="compact", verb="compact", fleet=name, **fixed).expand(given=cleaned)


def _build_member_tasks(name: str, entries: Any, settings: dict[str, Any]) -> Any:
    """A group for each entry of the plan: a merge begins behind its own stage, whatever the others do."""

    @task_group(group_id="rows", prefix_group_id=False, tooltip="From the log into the tables, for each pipeline")
    def flush_member(entry: Any) -> None:
        stage_settings = {"fleet": name, **settings, **MAPPED}
        stage = MemberOperator(task_id="stage", verb="stage", given=entry, doc_md=fleet_docs.STAGE, **stage_settings)
        merge_settings = {"doc_md": fleet_docs.MERGE, "outlets": [build_asset_alias(name)], **stage_settings}
        MemberOperator(task_id="merge", verb="merge", given=stage.output, **merge_settings)

    return flush_member.expand(entry=entries)


def _format_doc_md(fleet: str, members: Sequence[Pipeline]) -> str:
    rows = [
        f"| `{pipeline.name}` | {', '.join(f'`{t.name}`' for t in pipeline.entries)} | {describe_schedule(pipeline)} |"
        for pipeline in members
    ]
    return fleet_docs.FLEET.format(fleet=fleet, rows="\n".join(rows))
