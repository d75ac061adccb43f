"""The task `plan` of a fleet: one look at all members, and an entry for each that has work, or that must be red."""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.configuration import conf
from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import DownstreamTasksSkipped
from tidegate.fleet.timing import has_failed_just_now, list_late_heartbeats
from tidegate.ports.context import Ports
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow import tasks
from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.dags.fleet.at_work import Taken, find_members_at_work
from tidegate_airflow.dags.fleet.fleet_params import FleetRequest, read_fleet_request
from tidegate_airflow.dags.fleet.memory import (
    FleetMemory,
    read_memory,
    read_planned_at,
    read_taken_members,
    write_planned_at,
    write_taken_members,
)
from tidegate_airflow.errors import raise_airflow_errors
from tidegate_airflow.failures.back_off import (
    FLUSH_KEY,
    build_waiting_reason,
    has_other_work,
    is_asked_for,
    leave_out,
)

if TYPE_CHECKING:  # Kafka's client is not loaded where DAGs are read
    from tidegate.fleet.look import MemberLook
    from tidegate.fleet.members import OpenedMembers

Data = dict[str, Any]
log = logging.getLogger(__name__)
# results of plan
LOOK_KEY = "look"
PLANNED_KEY = "planned"


@dataclass
class FleetLook:
    """What plan leaves for the tasks that run once, beside the entries of the members that have work.

    `looked`: the members that the run looked at; `attended`: those for which clean_up and heartbeat run; `idle`: those
    without work, `postponed` those with too little, or whose heartbeat waits for its next try; `inputs` by pipeline:
    what would have to change for a try to end otherwise; `later`: members whose work did not fit into this run;
    `at_work`: those that it leaves to another run, which works on them; `at`: Unix time in seconds.
    """

    looked: list[str] = field(default_factory=list)
    attended: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)
    at_work: list[str] = field(default_factory=list)
    at: float = 0.0


@dataclass(frozen=True)
class _Run:
    """One run of the fleet, as its plan sees it."""

    context: Context
    include: Path
    members: Mapping[str, Pipeline]
    request: FleetRequest
    memory: FleetMemory
    now: float
    at_work: Collection[str]  # their own run ends with a heartbeat; two at once would find each other's offsets

    def wait_for(self, entry: Data, ports: Ports, look: FleetLook) -> Data:
        """The entry, without what has failed before while nothing was changed since and it is too early to try."""
        from tidegate.monitoring.work_inputs import digest_work_inputs

        name = entry["pipeline"]
        streak = self.memory.get_streak(entry["pipeline"], FLUSH_KEY)
        if streak is None:
            return entry
        try:
            look.inputs[name] = digest_work_inputs(ports, self.include, tuple(streak.tables))
        except Exception as fault:  # a file that cannot be read, a catalog that does not answer: the run tries
            log.warning("pipeline=%s: what was changed is not known; it is tried: %s", name, type(fault).__name__)
            return entry
        if is_asked_for(self.context) or not streak.must_wait(look.inputs[name], self.now):
            return entry
        if has_other_work(entry["plan"], streak):
            return {**entry, "plan": leave_out(entry["plan"], streak)}
        return {**entry, "plan": None, "failure": build_waiting_reason(streak)}


def plan_fleet(fleet: str) -> list[Data]:
    """An entry for each member that has work, waits after a failure, or could not be planned; the rest costs no task.

    Members that another run works on are left out. Where nothing is to be done, and in a dry run, every other task is
    skipped.
    """
    from tidegate.fleet.members import check_refused_members, load_members, open_members

    context = get_current_context()
    now = time.time()
    include = find_include_folder()
    if context["dag_run"].run_type == "backfill":
        log.warning("Airflow's own backfill repeats a DAG for past dates; a flush reads what waits: nothing is done")
        _skip_others(context)
    with raise_airflow_errors():
        members = load_members(include, fleet)
        if not members:
            check_refused_members(include, fleet)
        request = read_fleet_request(context, members, read_planned_at(fleet, context), now)
        at_work, taken = find_members_at_work(context, read_taken_members(fleet, context))
        if not request.params["dry_run"]:
            request = request.leave_out(at_work)
        fleet_members = open_members(include, [members[name] for name in request.names], resolve_connection)
        looks = _look_at(fleet_members, members, request)
    if request.params["dry_run"]:
        plans = {look.name: look.plan.to_dict() for look in looks if look.plan is not None}
        context["ti"].xcom_push(key=PLANNED_KEY, value=plans)
        _skip_others(context)
    run = _Run(
        context=context,
        include=include,
        members=members,
        request=request,
        memory=read_memory(fleet, context),
        now=now,
        at_work=at_work,
    )
    entries, look = _build_entries(run, fleet_members, looks)
    look.at_work = sorted(at_work & members.keys())
    if look.at_work:
        log.info("pipelines=%s are at work in another run, which goes on with them", ", ".join(look.at_work))
    context["ti"].xcom_push(key=LOOK_KEY, value=asdict(look))
    # last: a plan that is killed before is tried for all of them
    _note_planned(fleet, context, request, members, now)
    _note_taken(run, fleet, taken, [entry["pipeline"] for entry in entries])
    if not look.attended:
        _skip_others(context)
    return entries


def _look_at(
    fleet_members: "OpenedMembers", members: Mapping[str, Pipeline], request: FleetRequest
) -> "list[MemberLook]":
    from tidegate.fleet.look import look_at_members

    least = {name: request.compute_min_records(members[name]) for name in request.names}
    looks = look_at_members(fleet_members, least, partial(tasks.cap_batches, max_records=request.max_records))
    for look in looks:
        if look.error is not None:
            log.warning(
                "pipeline=%s cannot be planned with the others; its own task plans it: %s", look.name, look.error
            )
    return looks


def _note_planned(fleet: str, context: Context, request: FleetRequest, members: Collection[str], now: float) -> None:
    """Keep when the members that are not due in each run were looked at; of pipelines that are gone nothing."""
    if request.self_timed_members:
        planned_at = read_planned_at(fleet, context)
        member_times = {name: at for name, at in planned_at.items() if name in members}
        write_planned_at(fleet, context, {**member_times, **dict.fromkeys(request.self_timed_members, now)})


def _note_taken(run: _Run, fleet: str, before: Mapping[str, Taken], names: Sequence[str]) -> None:
    """Keep which members this run has taken on; of pipelines that are gone nothing."""
    run_id = run.context["dag_run"].run_id
    own = {name: Taken(run_id, place, run.now) for place, name in enumerate(names)}
    taken = {name: entry for name, entry in before.items() if name in run.members} | own
    if taken != read_taken_members(fleet, run.context):
        write_taken_members(fleet, run.context, taken)


def _build_entries(run: _Run, member: "OpenedMembers", looks: "Sequence[MemberLook]") -> tuple[list[Data], FleetLook]:
    look = FleetLook(looked=[look_of_member.name for look_of_member in looks], at=run.now)
    ports = {other_look.name: other_look.ports for other_look in member.members}
    entries = list[Data]()
    order = {name: place for place, name in enumerate(run.request.names)}
    for member_look in sorted(looks, key=lambda sorted_look: order[sorted_look.name]):
        if member_look.plan is None and member_look.error is None:
            is_unknown = member_look.is_postponed or has_failed_just_now(
                member_look.name, run.memory.failed_beats, run.now
            )
            (look.postponed if is_unknown else look.idle).append(member_look.name)
            continue
        member_plan = member_look.plan.to_dict() if member_look.plan else None
        entry = {
            "pipeline": member_look.name,
            "plan": member_plan,
            "failure": None,
            "max_records": run.request.max_records,
        }
        entries.append(run.wait_for(entry, ports[member_look.name], look) if member_plan else entry)
    most = conf.getint("core", "max_map_length")
    entries, look.later = entries[:most], [entry["pipeline"] for entry in entries[most:]]
    idle_members = {name: member for name, member in run.members.items() if name not in run.at_work}
    late = list_late_heartbeats(idle_members, run.memory.beats, run.memory.failed_beats, run.now)
    attended_names = {*late, *(entry["pipeline"] for entry in entries), *(run.memory.streaks.keys() & {*look.idle})}
    look.attended = [name for name in run.members if name in attended_names]
    log.info("looked=%s idle=%s with_work=%s", len(look.looked), len(look.idle), len(entries))
    return entries, look


def _skip_others(context: Context) -> NoReturn:
    """End the run here, green: DownstreamTasksSkipped."""
    task = context["task"]
    raise DownstreamTasksSkipped(tasks=[name for name in task.dag.task_ids if name != task.task_id])
