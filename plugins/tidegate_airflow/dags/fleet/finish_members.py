"""The task `heartbeat` of a fleet: heartbeats, what became of each member, who is told, and the run's colour."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import Context, get_current_context
from tidegate.flush.heartbeat import heartbeat
from tidegate.monitoring.failure_streak import FailedTask, Failure, extend_streak
from tidegate.monitoring.run_metrics import RunMetrics, measure_pipeline
from tidegate.ports.context import Ports
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow import metrics
from tidegate_airflow.dags.fleet.attend_members import (
    describe_failure,
    pull_entries,
    pull_look,
    raise_joined,
    read_task_states,
    run_step_for,
)
from tidegate_airflow.dags.fleet.member_failures import MemberOutcome, read_outcomes
from tidegate_airflow.dags.fleet.memory import FleetMemory, read_memory, read_taken_members, write_memory
from tidegate_airflow.failures.back_off import FLUSH_KEY, FRESHNESS_KEY, to_failure, was_cleared
from tidegate_airflow.failures.notifiers import MEMBER_FAILURES_KEY, notify_of_recovery
from tidegate_airflow.pipeline_files import list_pipeline_names

Data = dict[str, Any]
PLAN_FAILED = "tasks=plan failed in this run, and no pipeline was flushed; see its log"
PLAN_MARKED = (
    "task=plan has left no result, and no pipeline was flushed: it was marked as success by hand, or the database of "
    "Airflow was cleaned; clear task=plan with what follows it, or leave the work to the next run"
)
WHOLE_FLEET = ""  # where a pipeline stands: the run could not look at any


@dataclass
class _Ending:
    """The end of one run: what is remembered of each member, and which failures the notifiers report."""

    context: Context
    memory: FleetMemory
    now: float
    members: Mapping[str, Pipeline] = field(default_factory=dict)
    failures: list[Data] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def note_failure(self, name: str, key: str, failure: Failure, message: str) -> None:
        """The member failed: one more run of its streak."""
        before = self.memory.get_streak(name, key)
        streak = extend_streak(before, failure, self.context["dag_run"].run_id, self.now)
        self.memory.set_streak(name, key, streak)
        self.failures.append({"pipeline": name, **to_failure(streak, is_new=streak.is_new)})
        self.messages.append(message)

    def note_success(self, name: str, key: str, known_at: float | None) -> None:
        """The member is well: its failures are forgotten, and its notifiers told where earlier runs failed.

        Not where this run is older than the failures, as runs overlap and people clear tasks of old ones: `known_at` is
        when it looked.
        """
        streak = self.memory.get_streak(name, key)
        run_id = self.context["dag_run"].run_id
        if streak is None:
            return
        is_older = known_at is not None and known_at < streak.failed_at <= self.now  # later: the clock was set back
        if (is_older or was_cleared(self.context)) and not streak.is_ended_by(run_id, known_at):
            return
        self.memory.drop_streak(name, key)
        if name == WHOLE_FLEET:
            return  # everybody hears of their own
        if streak.run_id != run_id or streak.has_earlier:
            failure = {"pipeline": name, **to_failure(streak, is_new=False)}
            notify_of_recovery(self.members[name].on_recovery, self.context, failure)

    def keep(self, fleet: str) -> None:
        """Keep what later runs, and the callbacks of this one, must know."""
        self.memory.forget_others({WHOLE_FLEET, *list_pipeline_names()})
        write_memory(fleet, self.context, self.memory)
        self.context["ti"].xcom_push(key=MEMBER_FAILURES_KEY, value=self.failures)


def finish_fleet_run(fleet: str) -> Data:
    """The heartbeat of each member that had work, or whose interval is over; red if a member failed, with all names.

    The last task colours the run.
    """
    context = get_current_context()
    ending = _Ending(context, read_memory(fleet, context), time.time())
    states = read_task_states(context)
    look = pull_look(context)
    if states.get("plan") != "success" or not look:
        reason = PLAN_FAILED if states.get("plan") != "success" else PLAN_MARKED
        ending.note_failure(WHOLE_FLEET, FLUSH_KEY, Failure("plan", reason), reason)
        ending.keep(fleet)
        raise_joined(context, [reason])
    ending.note_success(WHOLE_FLEET, FLUSH_KEY, look.get("at"))
    outcomes = read_outcomes(context, pull_entries(context), states)
    ending.members, beats = run_step_for(fleet, look["attended"], beat)
    for name, problem in beats.failures.items():
        outcome = outcomes.setdefault(name, MemberOutcome(name))
        failure = describe_failure(problem)
        if failure["message"] not in [failed_task.message for failed_task in outcome.failed_tasks]:
            outcome.add_failure(FailedTask("heartbeat", failure["error"], failure["message"]))
    ending.memory.beats |= dict.fromkeys(beats.results, ending.now)
    ending.memory.failed_beats = dict.fromkeys(beats.failures, ending.now) | {
        name: at for name, at in ending.memory.failed_beats.items() if name not in look["attended"]
    }
    _note_members(ending, look, outcomes, _list_overtaken(fleet, ending, look))
    _note_freshness(ending, beats.results)
    ending.keep(fleet)
    if ending.messages:
        raise_joined(context, ["offsets are kept, but", *ending.messages])
    return {name: result["beat"] for name, result in beats.results.items()}


def beat(ports: Ports) -> Data:
    """The heartbeat of one member, and how it stands, where somebody wants to know."""
    result = heartbeat(ports)
    run_metrics: RunMetrics | None = None
    if ports.pipeline.freshness_target_seconds is not None or metrics.has_backend():
        run_metrics = measure_pipeline(ports)
        metrics.send_pipeline_metrics(ports.pipeline.name, run_metrics.to_values())
    return {"beat": {"group": ports.pipeline.source.group, **result.to_dict()}, "measured": run_metrics}


def _list_overtaken(fleet: str, ending: _Ending, look: Data) -> set[str]:
    """The members that a later run has taken on while this one waited for others: it tells what became of them.

    Not in a run that a person has cleared, which is asked for what it knows.
    """
    if was_cleared(ending.context):
        return set()
    taken = read_taken_members(fleet, ending.context)
    return {name for name, entry in taken.items() if look.get("at", 0.0) < entry.at <= ending.now}


def _note_members(
    ending: _Ending, look: Data, outcomes: Mapping[str, MemberOutcome], overtaken: Collection[str]
) -> None:
    for name in dict.fromkeys((*look["looked"], *outcomes)):
        outcome = outcomes.get(name)
        if name not in ending.members or name in overtaken:
            continue
        if outcome is not None and outcome.is_red:
            _note_red(ending, outcome, look["inputs"].get(name, ""))
        elif name in look["looked"] and name not in (*look["postponed"], *look["later"]):
            ending.note_success(name, FLUSH_KEY, look.get("at"))


def _note_red(ending: _Ending, outcome: MemberOutcome, inputs: str) -> None:
    name = outcome.pipeline
    streak = ending.memory.get_streak(outcome.pipeline, FLUSH_KEY)
    if streak is not None and outcome.waits(streak):
        ending.failures.append({"pipeline": name, **to_failure(streak, is_new=False)})
        ending.messages += outcome.messages
        return
    failure = outcome.to_failure(ending.members[name], streak, inputs)
    ending.note_failure(name, FLUSH_KEY, failure, "\n".join(outcome.messages))


def _note_freshness(ending: _Ending, results: Mapping[str, Data]) -> None:
    """`freshness_target` of the members that were measured; the others have no record that waits."""
    for name, result in results.items():
        target = ending.members[name].freshness_target_seconds
        run_metrics = result["measured"]
        if target is None or run_metrics is None:
            continue
        if run_metrics.behind is not None and run_metrics.behind <= target:
            ending.note_success(name, FRESHNESS_KEY, ending.now)
            continue
        age = "nobody can tell how long" if run_metrics.behind is None else f"behind={run_metrics.behind:.0f}s"
        reason = (
            f"pipeline={name}: {age}, freshness_target={target}s: records wait; see the lag of its partitions with: "
            f"tidegate status {name}"
        )
        ending.note_failure(name, FRESHNESS_KEY, Failure(FRESHNESS_KEY, reason), reason)
