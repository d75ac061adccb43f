"""The task `plan` of a fleet: one look at all members, and an entry for each that has work, or that must be red.

It notes which members it takes on, and leaves out those of other runs, so that a slow one delays no other. Airflow
tells whether their tasks have ended, so a run that is killed, removed or ended by a person keeps no member out.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.configuration import conf
from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import DownstreamTasksSkipped
from tidegate.fleet.timing import has_failed_just_now, list_late_heartbeats
from tidegate.ports.session import Session
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import StartKind

from tidegate_airflow import tasks
from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.dag_ids import name_fleet
from tidegate_airflow.dags.request import FleetRequest, compute_min_records, read_fleet_request
from tidegate_airflow.errors import describe_failure, raise_airflow_errors
from tidegate_airflow.failures.keeper import FLUSH_KEY, Memory, read_memory, read_state, write_state
from tidegate_airflow.failures.leave_out import leave_out_failed

if TYPE_CHECKING:  # Kafka's client is not loaded where DAGs are read
    from tidegate.fleet.members import MemberLook, OpenedMembers

Data = dict[str, Any]
States = Mapping[str, str | None]
log = logging.getLogger(__name__)
# results of plan
LOOK_KEY = "look"
PLANNED_KEY = "planned"
# of the state of the fleet's backlog, written by plan, of which there is one at a time in all runs
PLANNED_AT_KEY = "planned_at"
TAKEN_KEY = "taken"
ENDED_STATES = {"success", "failed", "skipped", "upstream_failed", "removed"}
ROW_TASK = "merge"
SHARED_TASK = "clean_up"
LAST_TASK = "compact"


@dataclass(frozen=True)
class Taken:
    """A run has taken a member on: in its mapped tasks of the index `place`, at a Unix time in seconds."""

    run_id: str
    place: int
    at: float
    is_over: bool = False  # no task of that runs any more


def find_members_at_work(context: Context, taken: Mapping[str, Taken]) -> tuple[set[str], dict[str, Taken]]:
    """Return the members that other runs work on; and what was taken, with what is over by now."""
    own_id = context["dag_run"].run_id
    others = {name: entry for name, entry in taken.items() if not entry.is_over and entry.run_id != own_id}
    runs = sorted({entry.run_id for entry in others.values()})
    if not runs:
        return set(), dict(taken)
    task_instance = context["ti"]
    try:
        tasks = [ROW_TASK, SHARED_TASK, LAST_TASK]
        all_states = task_instance.get_task_states(dag_id=context["dag_run"].dag_id, run_ids=runs, task_ids=tasks)
    # nobody is at work then: two runs of one pipeline do no harm
    except Exception as fault:
        log.warning("what other runs are working on is not known; all are flushed: %s", type(fault).__name__)
        return set(), dict(taken)
    at_work = set[str]()
    known = dict(taken)
    for run_id in runs:
        places = {name: entry.place for name, entry in others.items() if entry.run_id == run_id}
        pull_compactions = partial(task_instance.xcom_pull, task_ids=SHARED_TASK, map_indexes=-1, run_id=run_id)
        busy_names = _list_busy(places, all_states.get(run_id, {}), pull_compactions)
        at_work |= busy_names & places.keys()
        if not busy_names:
            known |= {name: Taken(run_id, place, others[name].at, is_over=True) for name, place in places.items()}
    return at_work, known


def _list_busy(places: Mapping[str, int], states: States, pull_compactions: Callable[[], Any]) -> set[str]:
    if not states:
        return set()
    unmerged = {name for name, place in places.items() if not _has_ended(states, ROW_TASK, place)}
    if unmerged:
        return unmerged  # one may take hours: the run tidies up behind the others when they have long gone on
    if not _has_ended(states, SHARED_TASK):
        return set(places)
    if all(state in ENDED_STATES for task, state in states.items() if task.startswith(LAST_TASK)):
        return set()
    compacted_names = [compaction["pipeline"] for compaction in pull_compactions() or []]
    return {name for number, name in enumerate(compacted_names) if not _has_ended(states, LAST_TASK, number)}


def _has_ended(states: States, task: str, place: int = -1) -> bool:
    # of a mapped task that is not expanded yet, the state of the whole counts
    whole = states.get(task, "removed")
    return (whole if place < 0 else states.get(f"{task}_{place}", whole)) in ENDED_STATES


def read_taken_members(fleet: str, context: Context) -> dict[str, Taken]:
    """Read which run has taken which member on last; ignores what another version has left."""
    try:
        return {name: Taken(**entry) for name, entry in read_state(name_fleet(fleet), context, TAKEN_KEY).items()}
    except TypeError:
        return {}


@dataclass
class FleetLook:
    """What plan leaves for the tasks that run once, beside the entries of the members that have work."""

    looked: list[str] = field(default_factory=list)  # the members that the run looked at
    attended: list[str] = field(default_factory=list)  # those for which clean_up and heartbeat run
    idle: list[str] = field(default_factory=list)  # without work
    postponed: list[str] = field(default_factory=list)  # with too little, or whose heartbeat waits for its next try
    # by pipeline, what would have to change for a try to end otherwise
    inputs: dict[str, str] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)  # members whose work did not fit into this run
    at_work: list[str] = field(default_factory=list)  # members that another run works on
    at: float = 0.0  # Unix time in seconds


@dataclass(frozen=True)
class _Run:
    context: Context
    include: Path
    members: Mapping[str, Pipeline]
    request: FleetRequest
    memory: Memory
    now: float
    at_work: Collection[str]  # their own run ends with a heartbeat; two at once would find each other's offsets

    def leave_out_failed(self, entry: Data, session: Session, look: FleetLook) -> Data:
        from tidegate.monitoring.failure_streak import digest_work_inputs

        name = entry["pipeline"]
        streak = self.memory.streaks.get(name, FLUSH_KEY)
        tables = tuple(streak.tables) if streak else ()
        remaining = leave_out_failed(
            self.context, streak, entry["plan"], lambda: digest_work_inputs(session, self.include, tables), self.now
        )
        if remaining.inputs:
            look.inputs[name] = remaining.inputs
        return {**entry, "plan": remaining.plan, "failure": remaining.failure}


def plan_fleet(fleet: str) -> list[Data]:
    """Return an entry for each member that has work, waits after a failure, or could not be planned.

    Members that another run works on are left out. Without work, and in a dry run, every other task is skipped.
    """
    from tidegate.fleet.members import check_refused_members, load_members, open_members

    context = get_current_context()
    now = time.time()
    include = find_include_folder()
    if context["dag_run"].run_type == "backfill":
        log.warning("Airflow's own backfill does nothing here; trigger the backfill DAG of a pipeline")
        _skip_others(context)
    with raise_airflow_errors():
        members = load_members(include, fleet)
        if not members:
            check_refused_members(include, fleet)
        planned_at = read_state(name_fleet(fleet), context, PLANNED_AT_KEY)
        taken = read_taken_members(fleet, context)
        begun = {name for name, entry in taken.items() if entry.run_id == context["dag_run"].run_id}
        request = read_fleet_request(context, members, planned_at, now, begun)
        at_work, taken = find_members_at_work(context, taken)
        if not request.params["dry_run"]:
            request = request.leave_out(at_work)
        fleet_members = open_members(include, [members[name] for name in request.names], resolve_connection)
        looks = _look_at(context, fleet_members, members, request)
    if request.params["dry_run"]:
        _show_plans(context, looks)
    memory = read_memory(name_fleet(fleet), context)
    run = _Run(
        context=context, include=include, members=members, request=request, memory=memory, now=now, at_work=at_work
    )
    entries, look = _build_entries(run, fleet_members, looks)
    look.at_work = sorted(at_work & members.keys())
    if look.at_work:
        log.info("pipelines=%s are at work in another run, which goes on with them", ", ".join(look.at_work))
    context["ti"].xcom_push(key=LOOK_KEY, value=asdict(look))
    _settle_starts(members, fleet_members, looks)
    _note_taken(run, fleet, taken, [entry["pipeline"] for entry in entries])
    # last: a plan that is killed before is tried for all of them
    if request.self_timed_members:
        kept = {name: at for name, at in planned_at.items() if name in members}
        write_state(name_fleet(fleet), context, PLANNED_AT_KEY, kept | dict.fromkeys(request.self_timed_members, now))
    if not look.attended:
        _skip_others(context)
    return entries


def _look_at(
    context: Context, fleet_members: "OpenedMembers", members: Mapping[str, Pipeline], request: FleetRequest
) -> "list[MemberLook]":
    from tidegate.fleet.members import look_at_members

    least = {name: compute_min_records(members[name], context) for name in request.names}
    looks = look_at_members(fleet_members, least, partial(tasks.cap_batches, max_records=request.max_records))
    for look in looks:
        if look.error is not None:
            log.warning(
                "pipeline=%s cannot be planned with the others; its own task plans it: %s", look.name, look.error
            )
    return looks


def _show_plans(context: Context, looks: "Sequence[MemberLook]") -> NoReturn:
    plans: Data = {look.name: look.plan.shorten().to_dict() for look in looks if look.plan is not None}
    plans |= {look.name: describe_failure(look.error) for look in looks if look.error is not None}
    context["ti"].xcom_push(key=PLANNED_KEY, value=plans)
    _skip_others(context)


def _settle_starts(
    members: Mapping[str, Pipeline], fleet_members: "OpenedMembers", looks: "Sequence[MemberLook]"
) -> None:
    # their heartbeat comes behind the merges of the others, and not in each run; the stage of others does it
    from tidegate.fleet.attend import attend_members
    from tidegate.flush.heartbeat import settle_start

    idle = [look.name for look in looks if look.plan is None and look.error is None and not look.has_begun]
    beginning = [name for name in idle if members[name].source.start.kind == StartKind.LATEST]
    attend_members(fleet_members, settle_start, beginning)


def _note_taken(run: _Run, fleet: str, before: Mapping[str, Taken], names: Sequence[str]) -> None:
    run_id = run.context["dag_run"].run_id
    own = {name: Taken(run_id, place, run.now) for place, name in enumerate(names)}
    taken = {name: entry for name, entry in before.items() if name in run.members} | own
    if taken != read_taken_members(fleet, run.context):
        taken_data = {name: asdict(entry) for name, entry in taken.items()}
        write_state(name_fleet(fleet), run.context, TAKEN_KEY, taken_data)


def _build_entries(
    run: _Run, fleet_members: "OpenedMembers", looks: "Sequence[MemberLook]"
) -> tuple[list[Data], FleetLook]:
    look = FleetLook(looked=[look_of_member.name for look_of_member in looks], at=run.now)
    entries = list[Data]()
    order = {name: place for place, name in enumerate(run.request.names)}
    for member_look in sorted(looks, key=lambda sorted_look: order[sorted_look.name]):
        if member_look.plan is None and member_look.error is None:
            is_unknown = member_look.is_postponed or has_failed_just_now(
                member_look.name, run.memory.failed_beats, run.now
            )
            (look.postponed if is_unknown else look.idle).append(member_look.name)
            continue
        member_plan = member_look.plan.shorten().to_dict() if member_look.plan else None
        max_records = run.request.max_records
        entry = {"pipeline": member_look.name, "plan": member_plan, "failure": None, "max_records": max_records}
        entries.append(
            run.leave_out_failed(entry, fleet_members.sessions[member_look.name], look) if member_plan else entry
        )
    most = conf.getint("core", "max_map_length")
    entries, look.later = entries[:most], [entry["pipeline"] for entry in entries[most:]]
    idle_members = {name: member for name, member in run.members.items() if name not in run.at_work}
    late = list_late_heartbeats(idle_members, run.memory.beats, run.memory.failed_beats, run.now)
    attended_names = {*late, *(entry["pipeline"] for entry in entries), *(run.memory.streaks.pipelines & {*look.idle})}
    look.attended = [name for name in run.members if name in attended_names]
    log.info("looked=%s idle=%s with_work=%s", len(look.looked), len(look.idle), len(entries))
    return entries, look


def _skip_others(context: Context) -> NoReturn:
    """End the run here, green."""
    task = context["task"]
    raise DownstreamTasksSkipped(tasks=[name for name in task.dag.task_ids if name != task.task_id])
