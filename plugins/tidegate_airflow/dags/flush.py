"""The DAG that flushes: plan → stage → merge → commit_offsets → clean_up → heartbeat, and compact.

One builder for a pipeline, whose merges are mapped over its tables, and for a fleet, whose stage and merge are mapped
over the pipelines with work. With `stage.interval` there are two DAGs: plan → stage → finish, and the one above without
its stage; a fleet's keeps it, to hand on what is staged. Opens no connection and imports nothing heavy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    Param,
    TaskGroup,
    TriggerRule,
    task,
    task_group,
)
from airflow.sdk.definitions.param import ParamsDict
from tidegate.fleet.timing import Clock, build_clock
from tidegate.monitoring.backlog import MonitoredPipeline
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.time_text import UNIT_SECONDS

from tidegate_airflow import tasks
from tidegate_airflow.assets import (
    build_asset_alias,
    build_backlog_alias,
    build_backlog_asset,
    build_complete_asset,
    refer_to_backlog,
)
from tidegate_airflow.dag_ids import format_flush_dag_id, name_fleet, name_flush, name_stage
from tidegate_airflow.dags import flush_run, task_docs
from tidegate_airflow.dags.dag_settings import (
    SHORT_TIMEOUT,
    build_dag_settings,
    build_job_task_settings,
    choose_operator,
    format_pool_name,
    format_stage_pool_name,
)
from tidegate_airflow.dags.request import build_fleet_form, build_form, build_merge_form
from tidegate_airflow.operators.step import MemberOperator, StepOperator, VerbOperator

MAX_TAG_LETTERS = 100  # Airflow refuses the DAG of a longer one, and with it the DAGs of every other file
MAX_DESCRIPTION_LETTERS = 250
DEFAULT_POOL = "default_pool"
# A run with a member that takes long stays for as long as that, and the next ones go on without it. Airflow's default.
RUNS_AT_ONCE = 16
# Of tasks that keep what later runs must know: two of them at once would overwrite what the other has noted.
ONE_IN_ALL_RUNS: dict[str, Any] = {"max_active_tis_per_dag": 1}
MAPPED = {"map_index_template": "{{ task.given['pipeline'] }}"}  # known before the task begins its work


@dataclass(frozen=True)
class _Flow:
    """What flushes in one DAG: a pipeline, or the members of a fleet, none in the process of its task."""

    name: str  # of DAG, aliases and backlog
    subject: str  # what the tasks get
    members: Sequence[Pipeline]
    clock: Clock  # when it runs
    steps: Mapping[str, tuple[Callable[..., Any], str]]  # of the tasks of which a run has one each, with their texts
    calls_next: str  # the task that calls for the next run
    timeout: timedelta | None = None  # of commit_offsets and heartbeat; those of a fleet limit each member by itself

    @property
    def pool(self) -> str:
        return format_pool_name(self.members[0]) if self.members else DEFAULT_POOL

    @property
    def backlog(self) -> Asset:
        watchers = list[AssetWatcher]()
        for member in self.members:
            if member.merge.records_threshold > 0 and not member.stage.has_clock:
                from tidegate_airflow.triggers.backlog import BacklogTrigger

                trigger = BacklogTrigger(member.source.kafka, MonitoredPipeline.from_pipeline(member).to_dict())
                watchers.append(AssetWatcher(name=build_backlog_asset(member.name).name, trigger=trigger))
        # the DAG names it so everywhere: Airflow takes the last one's watchers
        return build_backlog_asset(self.name, watchers)


def build_flush_dag(pipeline: Pipeline) -> DAG:
    """Build the DAG ``tidegate_<pipeline>``; of merges alone, if staging has a clock of its own."""
    merges_alone = pipeline.stage.has_clock
    plan_all = (flush_run.plan_as_requested, task_docs.PLAN)
    plan_merges = (flush_run.plan_merges, task_docs.PLAN_MERGES)
    steps = {
        "plan": plan_merges if merges_alone else plan_all,
        "commit_offsets": (tasks.run_commit_offsets, task_docs.COMMIT_OFFSETS),
        "clean_up": (flush_run.clean_up_unless_dry, task_docs.CLEAN_UP),
        "heartbeat": (flush_run.finish_run, task_docs.HEARTBEAT),
    }
    flow = _Flow(
        name=pipeline.name, subject=pipeline.name, members=[pipeline], clock=build_clock([pipeline]), steps=steps,
        calls_next="heartbeat", timeout=SHORT_TIMEOUT,
    )  # fmt: skip
    settings = _build_settings(flow, pipeline, "flush", describe_schedule(pipeline))
    tables = ", ".join(table.name for table in pipeline.entries)
    quick: dict[str, Any] = {"execution_timeout": SHORT_TIMEOUT, "multiple_outputs": False}

    def build_rows(flush_plan: Any) -> Any:
        if merges_alone:
            return _build_merge_task(pipeline, flush_plan)
        with TaskGroup("rows", prefix_group_id=False, tooltip="From the log into the tables"):
            return _build_merge_task(pipeline, _build_stage_task(pipeline, flush_plan))

    def build_behind(cleaned: Any) -> None:
        if pipeline.maintenance.follows_flushes:
            _build_compact_task(pipeline, cleaned)
        build_complete_tasks(pipeline, cleaned, quick)

    with DAG(
        dag_id=format_flush_dag_id(pipeline.name),
        description=pipeline.description or f"Kafka into {tables}",
        doc_md=_format_doc_md(pipeline),
        schedule=_build_schedule(flow),
        **settings,
    ) as dag:
        beat = _build_tasks(flow, build_rows, build_behind)
        if pipeline.freshness_target_seconds is not None:
            freshness_settings = {**quick, "retries": 0, "inlets": [flow.backlog], "doc_md": task_docs.FRESHNESS}
            task(task_id="freshness", **freshness_settings)(flush_run.check_freshness)(
                beat, pipeline.name, pipeline.freshness_target_seconds
            )
    dag.params = to_params_dict(build_merge_form() if merges_alone else build_form())
    return dag


def build_stage_dag(pipeline: Pipeline) -> DAG:
    """Build the DAG ``tidegate_<pipeline>_stage``, which stages beside the merges of the other one."""
    plan_staging = (flush_run.plan_staging, task_docs.PLAN)
    finish_staging = (flush_run.finish_staging, task_docs.FINISH)
    flow = _Flow(
        name=name_stage(pipeline.name), subject=pipeline.name, members=[pipeline],
        clock=Clock(pipeline.stage.interval_seconds or 0, pipeline.stage.cron),
        steps={"plan": plan_staging, "finish": finish_staging}, calls_next="finish",
    )  # fmt: skip
    clock = describe_clock(flow.clock)
    memory: dict[str, Any] = {"inlets": [flow.backlog], **ONE_IN_ALL_RUNS}
    with DAG(
        dag_id=format_flush_dag_id(flow.name),
        description=f"Stages beside the merges: {pipeline.description or pipeline.name}",
        doc_md=_format_doc_md(pipeline),
        schedule=_build_schedule(flow),
        **_build_settings(flow, pipeline, "stage", clock),
    ) as dag:
        stage_plan = _build_task(flow, "plan", execution_timeout=SHORT_TIMEOUT, **memory)
        merges = name_flush(pipeline.name, pipeline.fleet)
        calls_merge = {
            "inlets": [refer_to_backlog(merges)],  # of failed merges
            "outlets": [build_backlog_alias(merges)],
            "pool": format_stage_pool_name(pipeline),
        }
        staged = _build_stage_task(pipeline, stage_plan, verb="stage_ahead", **calls_merge)
        finish_settings = {"execution_timeout": SHORT_TIMEOUT, "trigger_rule": TriggerRule.ALL_DONE, **memory}
        staged >> _build_task(flow, "finish", **finish_settings)
    dag.params = to_params_dict(build_form())
    return dag


def _build_settings(flow: _Flow, pipeline: Pipeline, kind: str, tag: str) -> dict[str, Any]:
    settings = build_dag_settings(flow.name, [pipeline], kind)
    settings["tags"].append(tag if len(tag) <= MAX_TAG_LETTERS else f"{tag[: MAX_TAG_LETTERS - 1]}…")
    return settings


def build_fleet_dag(fleet: str, members: Sequence[Pipeline]) -> DAG:
    """Build the DAG ``tidegate_fleet_<fleet>``. The process of a task needs no members."""
    from tidegate_airflow.dags import fleet_plan, fleet_run

    steps = {
        "plan": (fleet_plan.plan_fleet, task_docs.FLEET_PLAN),
        "commit_offsets": (fleet_run.commit_offsets_of_members, task_docs.FLEET_COMMIT_OFFSETS),
        "clean_up": (fleet_run.clean_up_members, task_docs.FLEET_CLEAN_UP),
        "heartbeat": (fleet_run.finish_fleet_run, task_docs.FLEET_HEARTBEAT),
    }
    flow = _Flow(
        name=name_fleet(fleet), subject=fleet, members=members, clock=build_clock(members), steps=steps,
        calls_next="clean_up",
    )  # fmt: skip
    names = [member.name for member in members]
    description = f"Flushes {len(members)} pipelines together: {', '.join(names)}"
    rows = [
        f"| `{member.name}` | {', '.join(f'`{t.name}`' for t in member.entries)} | {describe_schedule(member)} |"
        for member in members
    ]

    def build_compact_tasks(cleaned: Any) -> None:
        fixed: dict[str, Any] = {"doc_md": task_docs.COMPACT, "retries": 0, "pool": flow.pool, **MAPPED}
        MemberOperator.partial(task_id="compact", verb="compact", fleet=flow.name, **fixed).expand(given=cleaned)

    with DAG(
        dag_id=format_flush_dag_id(flow.name),
        description=description[:MAX_DESCRIPTION_LETTERS],
        doc_md=task_docs.FLEET.format(fleet=fleet, rows="\n".join(rows)),
        schedule=_build_schedule(flow),
        **{**build_dag_settings(flow.name, members, "fleet"), "max_active_runs": RUNS_AT_ONCE},
    ) as dag:
        _build_tasks(flow, lambda entries: _build_member_tasks(flow, entries), build_compact_tasks)
    dag.params = to_params_dict(build_fleet_form(names))
    return dag


def to_params_dict(form: Mapping[str, Param]) -> ParamsDict:
    """Return a DAG's form.

    Set it after the tasks are there: each would copy it, and that takes longer than all the rest.
    """
    return ParamsDict(dict(form))


def _build_tasks(flow: _Flow, build_rows: Callable[[Any], Any], build_behind: Callable[[Any], None]) -> Any:
    """Build the tasks of which a run has one each; return the heartbeat.

    `build_rows` makes stage and merge after the plan, `build_behind` what follows clean_up beside the heartbeat.
    """
    memory: dict[str, Any] = {"inlets": [flow.backlog], **ONE_IN_ALL_RUNS}  # of the failed runs before
    flush_plan = _build_task(flow, "plan", execution_timeout=SHORT_TIMEOUT, **memory)
    rows = build_rows(flush_plan)
    beat = _build_task(flow, "heartbeat", trigger_rule=TriggerRule.ALL_DONE, execution_timeout=flow.timeout, **memory)
    with TaskGroup("progress", prefix_group_id=False, tooltip="Reported to Kafka, and tidied up"):
        committed = _build_task(
            flow, "commit_offsets", trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, execution_timeout=flow.timeout
        )
        cleaned = _build_task(
            flow,
            "clean_up",
            pool=flow.pool,
            trigger_rule=TriggerRule.ALL_DONE,  # also for what a run left that was killed after its publish
            outlets=[build_asset_alias(flow.name)],
        )
        rows >> committed >> cleaned >> beat
        build_behind(cleaned)
    return beat


def _build_task(flow: _Flow, task_id: str, **settings: Any) -> Any:
    step, doc = flow.steps[task_id]
    settings = {"doc_md": doc, "multiple_outputs": False, **settings}
    outlets = [*settings.pop("outlets", []), *([build_backlog_alias(flow.name)] if task_id == flow.calls_next else [])]
    return task(task_id=task_id, outlets=outlets, **settings)(step)(flow.subject)


def _build_stage_task(pipeline: Pipeline, flush_plan: Any, verb: str = "stage", **more_settings: Any) -> Any:
    settings = {**build_job_task_settings(pipeline, "stage", task_docs.STAGE), **more_settings}
    operator, arguments = choose_operator(pipeline, StepOperator, verb, **settings)
    return operator(given=flush_plan, **arguments).output


def _build_merge_task(pipeline: Pipeline, stage_output: Any) -> Any:
    settings = build_job_task_settings(pipeline, "merge", task_docs.MERGE)
    settings["outlets"] = [build_asset_alias(pipeline.name)]
    settings["multiple_outputs"] = True  # a result for each count beside the whole: the UI shows them at a glance
    operator, arguments = choose_operator(pipeline, StepOperator, "merge", **settings)
    if pipeline.has_several:
        return operator.partial(map_index_template="{{ table }}", **arguments).expand(given=stage_output).output
    return operator(given=stage_output, **arguments).output


def _build_member_tasks(flow: _Flow, entries: Any) -> Any:
    # a merge begins after its own stage, whatever the others do

    @task_group(group_id="rows", prefix_group_id=False, tooltip="From the log into the tables, for each pipeline")
    def flush_member(entry: Any) -> None:
        stage_settings: dict[str, Any] = {"fleet": flow.name, "pool": flow.pool, **MAPPED}
        stage = MemberOperator(
            task_id="stage", verb="stage", given=entry, doc_md=task_docs.FLEET_STAGE, **stage_settings
        )
        merge_settings: dict[str, Any] = {
            "doc_md": task_docs.FLEET_MERGE,
            "outlets": [build_asset_alias(flow.name)],
            **stage_settings,
        }
        MemberOperator(task_id="merge", verb="merge", given=stage.output, **merge_settings)

    return flush_member.expand(entry=entries)


def build_complete_tasks(pipeline: Pipeline, cleaned: Any, settings: dict[str, Any]) -> None:
    if pipeline.complete is None:
        return
    # whatever became of the run: each table's position says what is in it, and one that stands still delays no other
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
        )(flush_run.report_complete_unless_dry)(pipeline.name, table.name, pipeline.complete.value, table.branch)


def _build_compact_task(pipeline: Pipeline, cleaned: Any) -> None:
    # clean_up, on which it alone depends, skips it if no table is due
    settings = {**build_job_task_settings(pipeline, "compact", task_docs.COMPACT), "retries": 0}
    operator, arguments = choose_operator(pipeline, VerbOperator, "compact", **settings)
    operator(given=cleaned, **arguments)


def _build_schedule(flow: _Flow) -> Any:
    clock = flow.clock
    timetable: Any = None
    if clock.cron is not None:
        timetable = CronTriggerTimetable(clock.cron, timezone="UTC")
    elif clock.seconds > 0:
        timetable = DeltaTriggerTimetable(timedelta(seconds=clock.seconds))
    return [flow.backlog] if timetable is None else AssetOrTimeSchedule(timetable=timetable, assets=[flow.backlog])


def describe_schedule(pipeline: Pipeline) -> str:
    """Describe when it flushes, as a tag: Airflow's list shows no time of a DAG that an asset may start."""
    merge = pipeline.merge
    words = [describe_clock(Clock(merge.interval_seconds, merge.cron))] if merge.is_timed else []
    kind = "staged records" if pipeline.stage.has_clock else "records"
    words += [f"at {merge.records_threshold} {kind}"] if merge.records_threshold > 0 else []
    return " or ".join(words) or "by hand"


def describe_clock(clock: Clock) -> str:
    if clock.cron is not None:
        return f"cron {clock.cron}"
    letter, unit = next(entry for entry in reversed(UNIT_SECONDS.items()) if clock.seconds % entry[1] == 0)
    return f"every {clock.seconds // unit}{letter}"


def _format_doc_md(pipeline: Pipeline) -> str:
    rows = "\n".join(f"| `{t.name}` | {', '.join(t.topics) or 'all'} | {t.mode} |" for t in pipeline.entries)
    return f"{pipeline.description}\n\n| table | topics | mode |\n| --- | --- | --- |\n{rows}\n"
