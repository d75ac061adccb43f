"""What became of each member in a run of a fleet, read from what its mapped tasks have left."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow.sdk import Context
from tidegate.monitoring.failure_streak import (
    FailedTask,
    Failure,
    FailureStreak,
    can_wait_by_table,
    identify_reason,
    needs_pause,
)
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.dags.fleet.attend_members import FAILED_MEMBERS_KEY, FAILED_STATES
from tidegate_airflow.errors import ERROR_KEY
from tidegate_airflow.failures.back_off import WAITING, to_failed_task
from tidegate_airflow.operators.member import PLANNED_KEY
from tidegate_airflow.operators.step import REFUSED_TABLES_KEY

Data = dict[str, Any]
SHARED_TASKS = ("commit_offsets", "clean_up")


@dataclass
class MemberOutcome:
    """One member in one run. `failed_tasks`: its own tasks. `refused_tasks`: one for each table that plan refused."""

    pipeline: str
    failed_tasks: list[FailedTask] = field(default_factory=list)
    refused_tasks: list[FailedTask] = field(default_factory=list)
    waiting_tables: set[str] = field(default_factory=set)
    messages: list[str] = field(default_factory=list)
    is_published: bool = False

    @property
    def is_red(self) -> bool:
        """Whether the run is red because of it."""
        return bool(self.messages)

    def add_failure(self, task: FailedTask) -> None:
        """A task of its own failed, or its part of a task that runs for all."""
        self.failed_tasks.append(task)
        reason = task.message or "see the log of the task"
        self.messages.append(f"pipeline={self.pipeline}: {task.task} failed: {reason}")

    def waits(self, streak: FailureStreak) -> bool:
        """Whether it did not try in this run, as it failed before: what failed then stays as it is."""
        if any(failed_task.kind == WAITING for failed_task in self.failed_tasks):
            return True
        if self.waiting_tables and not self.failed_tasks and not self.refused_tasks:
            return True
        self.failed_tasks += [
            failed_task for failed_task in streak.failed if self.waiting_tables & set(failed_task.tables)
        ]
        return False

    def to_failure(self, pipeline: Pipeline, streak: FailureStreak | None, inputs: str) -> Failure:
        """What later runs must know; `inputs` is the digest of what this run tried."""
        known = (*self.failed_tasks, *self.refused_tasks)
        message = "\n".join(self.messages)
        reason = "\n".join(failed_task.message for failed_task in known if failed_task.message) or message
        tried_inputs = inputs if self._needs_pause(pipeline, streak) else ""
        return Failure(identify_reason(message, list(known)), reason, tried_inputs, tuple(self.failed_tasks))

    def _needs_pause(self, pipeline: Pipeline, streak: FailureStreak | None) -> bool:
        if pipeline.has_several:
            waits = can_wait_by_table(self.failed_tasks)
        else:
            waits = needs_pause(self.failed_tasks, has_published=self.is_published)
        return (
            waits
            and streak is not None
            and streak.tables == {name for failed_task in self.failed_tasks for name in failed_task.tables}
        )


def read_outcomes(context: Context, entries: list[Data], states: Mapping[str, str]) -> dict[str, MemberOutcome]:
    """The outcome of each member that had a mapped task, or failed in a task that runs for all."""
    outcomes = {entry["pipeline"]: MemberOutcome(entry["pipeline"]) for entry in entries}
    for number, entry in enumerate(entries):
        task_states = {verb: states.get(f"{verb}_{number}", "") for verb in ("stage", "merge")}
        _read_tasks(context, outcomes[entry["pipeline"]], entry, number, task_states)
    for task in SHARED_TASKS:
        failed_members = context["ti"].xcom_pull(task_ids=task, key=FAILED_MEMBERS_KEY, map_indexes=-1) or {}
        for name, failure in failed_members.items():
            outcomes.setdefault(name, MemberOutcome(name)).add_failure(
                FailedTask(task, failure["error"], failure["message"])
            )
    return outcomes


def _read_tasks(context: Context, outcome: MemberOutcome, entry: Data, number: int, states: Mapping[str, str]) -> None:
    member_plan = entry["plan"]
    if member_plan is None and not entry["failure"]:
        member_plan = context["ti"].xcom_pull(task_ids="stage", key=PLANNED_KEY, map_indexes=number)
    tables = [batch["table"] for batch in member_plan["tables"]] if member_plan else []
    if states["stage"] in FAILED_STATES:
        failed_task = _read_failed(context, "stage", number, tables)
        is_planned = member_plan or entry["failure"]
        outcome.add_failure(failed_task if is_planned else replace(failed_task, task="plan", tables=()))
    elif states["merge"] in FAILED_STATES:
        outcome.add_failure(_read_failed(context, "merge", number, tables))
    outcome.is_published = states["merge"] == "success"
    refused_by_stage = context["ti"].xcom_pull(task_ids="stage", key=REFUSED_TABLES_KEY, map_indexes=number) or []
    refusals = member_plan["refused"] if member_plan else []
    outcome.failed_tasks += [to_failed_task("stage", refusal) for refusal in refused_by_stage]
    outcome.refused_tasks += [to_failed_task("plan", refusal) for refusal in refusals if refusal["kind"] != WAITING]
    outcome.waiting_tables |= {refusal["table"] for refusal in refusals if refusal["kind"] == WAITING}
    outcome.messages += [
        f"pipeline={outcome.pipeline} table={refusal['table']} is refused, the others go on: {refusal['message']}"
        for refusal in (*refusals, *refused_by_stage)
    ]


def _read_failed(context: Context, task_id: str, number: int, tables: list[str]) -> FailedTask:
    error = context["ti"].xcom_pull(task_ids=task_id, key=ERROR_KEY, map_indexes=number)
    error_words = error if isinstance(error, dict) else {}
    failed_tables = tuple(error_words.get("tables") or tables)
    return FailedTask(task_id, str(error_words.get("error", "")), str(error_words.get("message", "")), failed_tables)
