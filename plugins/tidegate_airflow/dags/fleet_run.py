"""The tasks of a fleet that run once for all members, each member by itself: commit_offsets, clean_up and heartbeat.

The heartbeat decides what became of each member, who is told, and the run's colour.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from airflow.configuration import conf
from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowSkipException
from tidegate.fleet.attend import StepOutcomes
from tidegate.flush.heartbeat import heartbeat
from tidegate.monitoring.failure_streak import FailedTask, Failure, PipelineOutcome
from tidegate.ports.session import Session
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Notifier, Pipeline

from tidegate_airflow import tasks
from tidegate_airflow.assets import PICKED, emit_asset_event, emit_backlog_event
from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.dag_ids import name_fleet
from tidegate_airflow.dags.fleet_plan import LOOK_KEY, read_taken_members
from tidegate_airflow.dags.flush_run import pull_mapped, read_task_states
from tidegate_airflow.dags.request import read_run_params
from tidegate_airflow.errors import describe_failure, raise_joined
from tidegate_airflow.failures.keeper import (
    FLUSH_KEY,
    FRESHNESS_KEY,
    FailureKeeper,
    describe_lateness,
    read_failed_task,
    was_cleared,
)
from tidegate_airflow.failures.notifiers import MEMBER_FAILURES_KEY, NO_PIPELINE, join_notifiers
from tidegate_airflow.operators.step import MEMBER_PLAN_KEY, REFUSED_TABLES_KEY, UNREPORTED_KEY

Data = dict[str, Any]
Result = TypeVar("Result")
# results of a task beside its own
FAILED_MEMBERS_KEY = "failed_members"
CLEANED_KEY = "cleaned"
SOME_FAILED = "SomePipelinesFailed"
FAILED_STATES = {"failed", "upstream_failed"}
SHARED_TASKS = ("commit_offsets", "clean_up")
PLAN_FAILED = "tasks=plan failed in this run, and no pipeline was flushed; see its log"
PLAN_MARKED = (
    "task=plan has left no result, and no pipeline was flushed: it was marked as success by hand, or the database of "
    "Airflow was cleaned; clear task=plan with what follows it, or leave the work to the next run"
)


def pull_look(context: Context) -> Data:
    return context["ti"].xcom_pull(task_ids="plan", key=LOOK_KEY, map_indexes=-1) or {}


def pull_entries(context: Context) -> list[Data]:
    return context["ti"].xcom_pull(task_ids="plan", map_indexes=-1) or []


def run_step_for(
    fleet: str, names: Collection[str], step: Callable[[Session], Result]
) -> tuple[dict[str, Pipeline], StepOutcomes[Result]]:
    """Run a step for these members of the fleet, without those whose file is gone, or wrong by now."""
    from tidegate.fleet.members import load_members

    loaded = load_members(find_include_folder(), fleet)
    members = {name: member for name, member in loaded.items() if name in names}
    return members, _run_step(members, step)


def _run_step(members: Mapping[str, Pipeline], step: Callable[[Session], Result]) -> StepOutcomes[Result]:
    from tidegate.fleet.attend import attend_members
    from tidegate.fleet.members import open_members

    return attend_members(open_members(find_include_folder(), members.values(), resolve_connection), step, members)


def commit_offsets_of_members(fleet: str) -> Data:
    """Run commit_offsets for each member that has staged something; return by pipeline what was committed."""
    from tidegate.flush.heartbeat import commit_offsets

    context = get_current_context()
    _, outcome = run_step_for(fleet, [result["pipeline"] for result in pull_mapped(context, "stage")], commit_offsets)
    note_member_failures(context, outcome.failures)
    if outcome.failures:
        messages = {name: describe_failure(problem)["message"] for name, problem in outcome.failures.items()}
        # the next run is the next try: one of this run would do again what was done for the other members
        raise_joined(SOME_FAILED, [f"pipeline={name}: {message}" for name, message in messages.items()])
    if not outcome.results:
        raise AirflowSkipException("no table of these pipelines has a position yet")
    return outcome.results


def clean_up_members(fleet: str) -> list[Data]:
    """Run clean_up for each member that had work or whose heartbeat is due; return those with tables to compact.

    Also emits events of tables that a merge published before it failed, and calls for the next run.
    """
    from tidegate.flush.clean_up import list_tables_to_compact

    context = get_current_context()
    # Airflow drops the events of a task that fails, so this one does not fail for a member: the heartbeat does
    members, outcome = run_step_for(fleet, pull_look(context).get("attended", []), tidy_up)
    cleaned = {name: reports for name, (reports, _) in outcome.results.items()}
    called = {name for name, (_, is_called) in outcome.results.items() if is_called}
    context["ti"].xcom_push(key=CLEANED_KEY, value=cleaned)
    note_member_failures(context, outcome.failures)
    for merge_report in pull_mapped(context, "merge", UNREPORTED_KEY):
        for published_batch in merge_report["tables"]:
            emit_asset_event(context, published_batch, name_fleet(fleet))
    called_names = call_next_run(fleet, context, pull_look(context), called)
    compactions = [
        {"pipeline": name, "tables": reports}
        for name, reports in cleaned.items()
        # one that is called for catches up first: a rewrite beside its next flush would lose against that
        if name not in called_names and members[name].maintenance.follows_flushes and list_tables_to_compact(reports)
    ]
    return compactions[
        : conf.getint("core", "max_map_length")
    ]  # the others wait for ten batches more, or for maintenance


def tidy_up(session: Session) -> tuple[list[Data], bool]:
    """Run clean_up; also return whether enough was staged beside the run for one more merge."""
    from tidegate.flush.clean_up import clean_up
    from tidegate.flush.flush import has_enough_staged
    from tidegate.table.observed_table import observe_tables

    reports = [report.to_dict() for report in clean_up(session)]
    # the run that staging called for has left the member out, as it was at work in this one
    return reports, session.pipeline.stage.has_clock and any(map(has_enough_staged, observe_tables(session)))


def call_next_run(fleet: str, context: Context, look: Data, called: Collection[str]) -> list[str]:
    """Let the next run begin at once for the members that this one leaves behind; return them.

    Also for those that are `called` for. Not where a merge failed: its rows would call again and again.
    """
    params = read_run_params(context)
    later = look.get("later", [])
    behind = list[str]()
    left = set[str]()
    if params["until_current"]:
        left = {result["pipeline"] for result in pull_mapped(context, "stage") if result.get("left")} | {*called}
    if left:
        states = read_task_states(context)
        behind = [
            entry["pipeline"]
            for number, entry in enumerate(pull_entries(context))
            if entry["pipeline"] in left and states.get(f"merge_{number}") not in FAILED_STATES
        ]
    if behind or later:
        emit_backlog_event(context, name_fleet(fleet), {**params, PICKED: [*later, *behind]})
    return [*later, *behind]


def note_member_failures(context: Context, failures: Mapping[str, Exception]) -> None:
    """Store the reason of each member for the heartbeat, which is red for it."""
    failure_descriptions = {name: describe_failure(problem) for name, problem in failures.items()}
    context["ti"].xcom_push(key=FAILED_MEMBERS_KEY, value=failure_descriptions)


def read_outcomes(context: Context, entries: list[Data], states: Mapping[str, str]) -> dict[str, PipelineOutcome]:
    outcomes = {entry["pipeline"]: PipelineOutcome(entry["pipeline"]) for entry in entries}
    for number, entry in enumerate(entries):
        task_states = {verb: states.get(f"{verb}_{number}", "") for verb in ("stage", "merge")}
        _read_tasks(context, outcomes[entry["pipeline"]], entry, number, task_states)
    for task in SHARED_TASKS:
        failed_members = context["ti"].xcom_pull(task_ids=task, key=FAILED_MEMBERS_KEY, map_indexes=-1) or {}
        for name, failure in failed_members.items():
            outcome = outcomes.setdefault(name, PipelineOutcome(name))
            _add_failure(outcome, FailedTask(task, failure["error"], failure["message"]))
    return outcomes


def _read_tasks(
    context: Context, outcome: PipelineOutcome, entry: Data, number: int, states: Mapping[str, str]
) -> None:
    pull = context["ti"].xcom_pull
    member_plan = entry["plan"]
    if member_plan is None:
        member_plan = pull(task_ids="stage", key=MEMBER_PLAN_KEY, map_indexes=number)
    tables = [batch["table"] for batch in member_plan["tables"]] if member_plan else []
    if states["stage"] in FAILED_STATES:
        failed_task = read_failed_task(context, "stage", number, tables)
        is_planned = member_plan or entry["failure"]
        _add_failure(outcome, failed_task if is_planned else replace(failed_task, task="plan", tables=()))
    elif states["merge"] in FAILED_STATES:
        _add_failure(outcome, read_failed_task(context, "merge", number, tables))
    outcome.has_published = states["merge"] == "success"
    by_stage = pull(task_ids="stage", key=REFUSED_TABLES_KEY, map_indexes=number) or []
    by_plan = member_plan["refused"] if member_plan else []
    outcome.add_refusals(by_plan, by_stage)
    outcome.messages += [
        f"pipeline={outcome.pipeline} table={refusal['table']} is refused, the others go on: {refusal['message']}"
        for refusal in (*by_plan, *by_stage)
    ]


def _add_failure(outcome: PipelineOutcome, task: FailedTask) -> None:
    outcome.failed_tasks.append(task)
    outcome.messages.append(
        f"pipeline={outcome.pipeline}: {task.task} failed: {task.message or 'see the log of the task'}"
    )


def finish_fleet_run(fleet: str) -> Data:
    """Run the heartbeat of each member that had work, or whose interval is over; red if a member failed."""
    from tidegate.fleet.members import load_fleet

    context = get_current_context()
    all_members, wrong_names = load_fleet(find_include_folder(), fleet)
    keeper = FailureKeeper(name_fleet(fleet), context)
    states = read_task_states(context)
    look = pull_look(context)
    if states.get("plan") != "success" or not look:
        reason = PLAN_FAILED if states.get("plan") != "success" else PLAN_MARKED
        keeper.note_failure(NO_PIPELINE, FLUSH_KEY, Failure("plan", reason))
        _keep(keeper, context, all_members, wrong_names)
        raise_joined(SOME_FAILED, [reason])
    keeper.note_success(NO_PIPELINE, FLUSH_KEY, look.get("at"))
    outcomes = read_outcomes(context, pull_entries(context), states)
    members = {name: member for name, member in all_members.items() if name in look["attended"]}
    beats = _run_step(members, beat)
    for name, problem in beats.failures.items():
        outcome = outcomes.setdefault(name, PipelineOutcome(name))
        failure = describe_failure(problem)
        if failure["message"] not in [failed_task.message for failed_task in outcome.failed_tasks]:
            _add_failure(outcome, FailedTask("heartbeat", failure["error"], failure["message"]))
    keeper.memory.beats |= dict.fromkeys(beats.results, keeper.now)
    keeper.memory.failed_beats = dict.fromkeys(beats.failures, keeper.now) | {
        name: at for name, at in keeper.memory.failed_beats.items() if name not in look["attended"]
    }
    # a later run reports the outcome of members that it has taken
    taken = read_taken_members(fleet, context)
    overtaken = {name for name, entry in taken.items() if look.get("at", 0.0) < entry.at <= keeper.now}
    if was_cleared(context):  # a person tries again here what failed there too; who is well since stays well
        overtaken = {name for name in overtaken if keeper.memory.streaks.get(name, FLUSH_KEY) is None}
    # also of a member whose file became wrong in this run: the next ones do not know that it is one
    possible_names = {*all_members, *wrong_names} - overtaken
    own_outcomes = {name: outcome for name, outcome in outcomes.items() if name in possible_names}
    own_members = {name: member for name, member in members.items() if name not in overtaken}
    messages = _note_members(keeper, look, own_outcomes, own_members)
    messages += _note_freshness(keeper, beats.results, members)
    _keep(keeper, context, all_members, wrong_names)
    if messages:
        raise_joined(SOME_FAILED, ["offsets are kept, but", *messages])
    return {name: result["beat"] for name, result in beats.results.items()}


def _keep(
    keeper: FailureKeeper, context: Context, all_members: Mapping[str, Pipeline], wrong_names: Collection[str]
) -> None:
    context["ti"].xcom_push(key=MEMBER_FAILURES_KEY, value=keeper.failures)
    keeper.memory.forget_others({NO_PIPELINE, *all_members, *wrong_names})
    on_recovery: dict[str, Sequence[Notifier]] = {name: member.on_recovery for name, member in all_members.items()}
    # all have heard of that failure, not only who had work in this run
    on_recovery[NO_PIPELINE] = join_notifiers(on_recovery.values())
    keeper.keep(on_recovery)


def beat(session: Session) -> Data:
    """Run the heartbeat of one member, and measure it if its metrics are used."""
    result = heartbeat(session)
    return {
        "beat": {"group": session.pipeline.source.group, **result.to_dict()},
        "measured": tasks.measure_where_asked(session),
    }


def _note_members(
    keeper: FailureKeeper, look: Data, outcomes: Mapping[str, PipelineOutcome], members: Mapping[str, Pipeline]
) -> list[str]:
    messages = list[str]()
    for name in dict.fromkeys((*look["looked"], *outcomes)):
        outcome = outcomes.get(name)
        if outcome is not None and outcome.messages:
            inputs = look["inputs"].get(name, "")
            has_several = name in members and members[name].has_several
            keeper.note_outcome(outcome, has_several=has_several, tried_inputs=inputs)
            messages += outcome.messages
        elif name in members and name in look["looked"] and name not in (*look["postponed"], *look["later"]):
            keeper.note_success(name, FLUSH_KEY, look.get("at"))
    return messages


def _note_freshness(keeper: FailureKeeper, results: Mapping[str, Data], members: Mapping[str, Pipeline]) -> list[str]:
    reasons = list[str]()
    for name, result in results.items():
        target = members[name].freshness_target_seconds
        # a file without a target ends what was noted for an earlier one
        reason = None if target is None else describe_lateness(name, result["measured"].behind, target)
        if reason is None:
            keeper.note_success(name, FRESHNESS_KEY, keeper.now)
            continue
        keeper.note_failure(name, FRESHNESS_KEY, Failure(FRESHNESS_KEY, reason))
        reasons.append(reason)
    return reasons
