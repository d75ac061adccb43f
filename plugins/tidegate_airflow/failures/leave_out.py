"""What a plan leaves out: what failed before, while nothing was changed since and it is too early to try.

How long it waits is `FailureStreak.must_wait`.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Context
from tidegate.monitoring.failure_streak import WAITING, FailureStreak

from tidegate_airflow.failures.keeper import format_seconds

Data = dict[str, Any]
log = logging.getLogger(__name__)
AUTOMATIC_RUN_TYPES = {"scheduled", "asset_triggered"}


@dataclass(frozen=True)
class RemainingPlan:
    """A plan without what must wait.

    `plan` is None if nothing is left of it: then `failure` is the task's result `error`.
    """

    plan: Data | None
    inputs: str = ""  # a digest of what would have to change for a try to end otherwise, empty if unknown
    failure: Data | None = None


def leave_out_failed(
    context: Context, streak: FailureStreak | None, planned: Data, digest_inputs: Callable[[], str], now: float
) -> RemainingPlan:
    """Return one pipeline's plan without what has failed before and must wait.

    Tables that failed in `stage` are left out, listed under `refused`. A run that a person or another DAG triggers
    tries all, and so does a task that a person has cleared.
    """
    if streak is None:
        return RemainingPlan(planned)
    try:
        inputs = digest_inputs()
    except Exception as fault:  # a file that cannot be read, a catalog that does not answer: the run tries
        log.warning("what was changed since the last failure is not known; it is tried: %s", type(fault).__name__)
        return RemainingPlan(planned)
    is_asked_for = context["dag_run"].run_type not in AUTOMATIC_RUN_TYPES or context["ti"].try_number > 1
    if is_asked_for or not streak.must_wait(inputs, now):
        return RemainingPlan(planned, inputs)
    if streak.tables and any(batch["table"] not in streak.tables for batch in planned["tables"]):
        # not one whose merge failed: what is staged for it does not expire in Kafka
        left_out = [batch["table"] for batch in planned["tables"] if batch["table"] in streak.unstaged_tables]
        reasons = {table: task.message for task in streak.failed for table in task.tables}
        waiting = [
            {"table": table, "kind": WAITING, "message": _describe_wait(streak, reasons[table])} for table in left_out
        ]
        tables = [batch for batch in planned["tables"] if batch["table"] not in left_out]
        return RemainingPlan({**planned, "tables": tables, "refused": [*planned["refused"], *waiting]}, inputs)
    tasks_before = sorted({task.task for task in streak.failed})
    failure = {"error": WAITING, "message": _describe_wait(streak, streak.reason), "tasks": tasks_before}
    return RemainingPlan(None, inputs, failure)


def _describe_wait(streak: FailureStreak, reason: str) -> str:
    return (
        f"{reason}; the same failure in {streak.runs} runs since {format_seconds(streak.since)}; it is tried again at "
        f"{format_seconds(streak.retry_at)}, or at once when include/ or the table changes or when you trigger the DAG"
    )
