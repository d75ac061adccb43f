"""commit_offsets and clean_up of a fleet: once for all members, each by itself."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from airflow.configuration import conf
from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from tidegate.errors import TidegateError
from tidegate.fleet.attend import StepOutcomes
from tidegate.ports.context import Ports
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.assets import emit_asset_event
from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.dag_ids import name_fleet
from tidegate_airflow.dags.fleet.fleet_params import PICKED
from tidegate_airflow.dags.fleet.plan_members import LOOK_KEY
from tidegate_airflow.dags.flush_params import read_run_params
from tidegate_airflow.dags.schedule import trigger_next_run
from tidegate_airflow.errors import ERROR_KEY, MAX_MESSAGE_CHARACTERS
from tidegate_airflow.operators.step import UNREPORTED_KEY

Data = dict[str, Any]
Result = TypeVar("Result")
# results of a task beside its own
FAILED_MEMBERS_KEY = "failed_members"
CLEANED_KEY = "cleaned"
FAILED_STATES = {"failed", "upstream_failed"}


def pull_look(context: Context) -> Data:
    """What plan has found, empty where it failed."""
    return context["ti"].xcom_pull(task_ids="plan", key=LOOK_KEY, map_indexes=-1) or {}


def pull_entries(context: Context) -> list[Data]:
    """The members with work, in the order of their mapped tasks."""
    return context["ti"].xcom_pull(task_ids="plan", map_indexes=-1) or []


def pull_mapped(context: Context, task_id: str, key: str = "return_value") -> list[Data]:
    """What the mapped tasks have left, one call for all; each names its pipeline."""
    value = context["ti"].xcom_pull(task_ids=task_id, key=key)
    return [value] if isinstance(value, dict) else [item for item in value or [] if item is not None]


def run_step_for(
    fleet: str, names: Collection[str], step: Callable[[Ports], Result]
) -> tuple[dict[str, Pipeline], StepOutcomes[Result]]:
    """Run a step for these members of the fleet; one whose file is gone, or wrong by now, is left out."""
    from tidegate.fleet.attend import attend_members
    from tidegate.fleet.members import load_members, open_members

    include = find_include_folder()
    members = {name: member for name, member in load_members(include, fleet).items() if name in names}
    return members, attend_members(open_members(include, members.values(), resolve_connection), step, members)


def commit_offsets_of_members(fleet: str) -> Data:
    """commit_offsets, of each member that has staged something: by pipeline, what was committed."""
    from tidegate.flush.heartbeat import commit_offsets

    context = get_current_context()
    _, outcome = run_step_for(fleet, [result["pipeline"] for result in pull_mapped(context, "stage")], commit_offsets)
    note_member_failures(context, outcome.failures)
    if outcome.failures:
        messages = {name: describe_failure(problem)["message"] for name, problem in outcome.failures.items()}
        raise_joined(context, [f"pipeline={name}: {message}" for name, message in messages.items()])
    if not outcome.results:
        raise AirflowSkipException("no table of these pipelines has a position yet")
    return outcome.results


def clean_up_members(fleet: str) -> list[Data]:
    """clean_up, of each member that had work or whose heartbeat is due; returns those with tables to compact.

    It tells of tables that were published by a merge which failed for another table of its pipeline. And it calls for
    the next run. Airflow drops the events of a task that fails, so this one does not fail for a member: the heartbeat
    does, with its reason.
    """
    from tidegate.flush.clean_up import clean_up, list_tables_to_compact

    context = get_current_context()
    members, outcome = run_step_for(fleet, pull_look(context).get("attended", []), clean_up)
    cleaned = {name: [report.to_dict() for report in reports] for name, reports in outcome.results.items()}
    context["ti"].xcom_push(key=CLEANED_KEY, value=cleaned)
    note_member_failures(context, outcome.failures)
    for merge_report in pull_mapped(context, "merge", UNREPORTED_KEY):
        for published_batch in merge_report["tables"]:
            emit_asset_event(context, published_batch, name_fleet(fleet))
    called_names = call_next_run(fleet, context, pull_look(context))
    compactions = [
        {"pipeline": name, "tables": reports}
        for name, reports in cleaned.items()
        # one that is called for catches up first: a rewrite beside its next flush would lose against that
        if name not in called_names and members[name].maintenance.follows_flushes and list_tables_to_compact(reports)
    ]
    return compactions[
        : conf.getint("core", "max_map_length")
    ]  # the others wait for ten batches more, or for maintenance


def call_next_run(fleet: str, context: Context, look: Data) -> list[str]:
    """Let the next run begin at once for the members that this one leaves behind, first for those that it had no room
    for; returns them.
    """
    params = read_run_params(context)
    later = look.get("later", [])
    behind = _list_behind(context) if params["until_current"] else []
    if behind or later:
        trigger_next_run(name_fleet(fleet), context, {**params, PICKED: [*later, *behind]})
    return [*later, *behind]


def _list_behind(context: Context) -> list[str]:
    """The members whose batch left records behind, and was merged."""
    behind_names = {result["pipeline"] for result in pull_mapped(context, "stage") if result.get("left")}
    if not behind_names:
        return []
    states = read_task_states(context)
    return [
        entry["pipeline"]
        for number, entry in enumerate(pull_entries(context))
        if entry["pipeline"] in behind_names and states.get(f"merge_{number}") not in FAILED_STATES
    ]


def read_task_states(context: Context) -> dict[str, str]:
    """The states of this run's tasks by task id; a mapped task's id ends in its index."""
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])[run.run_id]
    return {name: str(state) for name, state in states.items()}


def note_member_failures(context: Context, failures: Mapping[str, Exception]) -> None:
    """Leave the reason of each member for the heartbeat, which is red for it."""
    failure_descriptions = {name: describe_failure(problem) for name, problem in failures.items()}
    context["ti"].xcom_push(key=FAILED_MEMBERS_KEY, value=failure_descriptions)


def describe_failure(problem: Exception) -> Data:
    """The result `error` of one member; what is not ours may quote anything: its text stands in the log."""
    message = str(problem) if isinstance(problem, TidegateError) else "see the log of this task"
    return {"error": type(problem).__name__, "message": message[:MAX_MESSAGE_CHARACTERS]}


def raise_joined(context: Context, messages: Iterable[str]) -> NoReturn:
    """AirflowFailException, with the reasons as the task's result `error`. The next run is the next try: one of this
    run would do again what was done for the other members.
    """
    message = "\n".join(messages)
    context["ti"].xcom_push(
        key=ERROR_KEY, value={"error": "SomePipelinesFailed", "message": message[:MAX_MESSAGE_CHARACTERS]}
    )
    raise AirflowFailException(message)
