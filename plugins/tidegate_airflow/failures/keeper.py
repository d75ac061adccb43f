"""What runs of a DAG keep for later ones of each pipeline: its failures and heartbeats; and who is told at a run's end.

Airflow's store of the backlog's state has one entry for all pipelines of the DAG, so that a run reads it once. If the
store cannot be read or written, runs try, and tell, as if each were the first.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Context
from tidegate.monitoring.failure_streak import Ending, FailedTask, Failure, FailureStreak, PipelineOutcome, Streaks
from tidegate.spec.pipeline import Notifier
from tidegate.spec.time_text import format_utc

from tidegate_airflow.assets import build_backlog_asset
from tidegate_airflow.errors import ERROR_KEY
from tidegate_airflow.failures.notifiers import notify_of_recovery

Data = dict[str, Any]
log = logging.getLogger(__name__)
MEMBERS_KEY = "members"  # of the backlog's state; written by one task at a time
# kinds of failures
FLUSH_KEY = "flush_failures"
FRESHNESS_KEY = "freshness_failures"


@dataclass
class Memory:
    """By pipeline: its failures, and for a fleet the times of its last heartbeat and its last failed one."""

    beats: dict[str, float] = field(default_factory=dict)
    failed_beats: dict[str, float] = field(default_factory=dict)
    streaks: Streaks = field(default_factory=Streaks)

    def forget_others(self, names: Collection[str]) -> None:
        """Keep only these pipelines: the files of the others are gone."""
        self.beats = {name: at for name, at in self.beats.items() if name in names}
        self.failed_beats = {name: at for name, at in self.failed_beats.items() if name in names}
        self.streaks.forget_others(names)

    def to_dict(self) -> Data:
        data = {"beats": self.beats, "failed_beats": self.failed_beats, "streaks": self.streaks.to_dict()}
        return data if any(data.values()) else {}


def read_memory(name: str, context: Context) -> Memory:
    kept = read_state(name, context, MEMBERS_KEY)
    streaks = Streaks(kept.get("streaks"))
    return Memory(dict(kept.get("beats", {})), dict(kept.get("failed_beats", {})), streaks)


def read_state(name: str, context: Context, key: str) -> Data:
    try:
        value = _open_store(name, context).get(key)
    except Exception as fault:  # whatever the store does, the run goes on
        log.warning(
            "the state of earlier runs cannot be read; every pipeline is due and tries again: %s", type(fault).__name__
        )
        return {}
    return value if isinstance(value, dict) else {}


def write_state(name: str, context: Context, key: str, value: Mapping[str, Any]) -> bool:
    """Keep an entry for later runs, or delete it if it is empty; return whether that worked."""
    try:
        store = _open_store(name, context)
        if value:
            store.set(key, value)
        else:
            store.delete(key)
    except Exception as fault:
        log.warning(
            "the state of this run was not stored; the next run tries and notifies again: %s", type(fault).__name__
        )
        return False
    return True


def _open_store(name: str, context: Context) -> Any:
    return context["asset_state_store"][build_backlog_asset(name)]


class FailureKeeper:
    """The end of one run: which pipelines failed, for the first time or again, and which are well.

    `failures`: what notifiers' templates see as `failure`. Nothing is kept, and nobody told, before `keep`.
    """

    def __init__(self, name: str, context: Context) -> None:
        self.now = time.time()
        self._run = Ending(context["dag_run"].run_id, self.now, was_cleared(context))
        self.memory = read_memory(name, context)
        self.failures = list[Data]()
        self._name = name
        self._context = context
        self._before = self.memory.to_dict()
        self._recoveries = list[tuple[str, str, FailureStreak]]()

    def note_outcome(self, outcome: PipelineOutcome, *, has_several: bool, tried_inputs: str) -> None:
        """Note that a pipeline's run is red; if it did not try, what failed before stays as it is."""
        streak = self.memory.streaks.get(outcome.pipeline, FLUSH_KEY)
        failure = outcome.to_failure(streak, has_several=has_several, tried_inputs=tried_inputs)
        if failure is not None:
            self.note_failure(outcome.pipeline, FLUSH_KEY, failure)
        elif streak is not None:
            self.failures.append(_describe_streak(outcome.pipeline, FLUSH_KEY, streak, is_new=False))

    def note_failure(self, pipeline: str, kind: str, failure: Failure) -> None:
        streak = self.memory.streaks.note_failure(pipeline, kind, failure, self._run)
        self.failures.append(_describe_streak(pipeline, kind, streak, is_new=streak.is_new))

    def note_success(self, pipeline: str, kind: str, known_at: float | None) -> None:
        """Note that the pipeline was well at `known_at`; None if the run cannot be older than the failures."""
        over = self.memory.streaks.note_success(pipeline, kind, self._run, known_at)
        if over is not None:
            self._recoveries.append((pipeline, kind, over))

    def keep(self, on_recovery: Mapping[str, Sequence[Notifier]]) -> None:
        """Keep what later runs must know, and tell who is to hear that one of these pipelines is well again."""
        kept = self.memory.to_dict()
        # nobody is told: the next run that succeeds does it
        if kept != self._before and not write_state(self._name, self._context, MEMBERS_KEY, kept):
            return
        for name, kind, streak in self._recoveries:
            failure = _describe_streak(name, kind, streak, is_new=False)
            notify_of_recovery(on_recovery.get(name, ()), self._context, failure)


def was_cleared(context: Context) -> bool:
    return bool(context["dag_run"].clear_number)


def read_failed_task(context: Context, task_id: str, number: int | None, tables: Collection[str]) -> FailedTask:
    """Read the reason of a failed task; `number` is that of a mapped task, `tables` are what it worked on."""
    mapped: Data = {} if number is None else {"map_indexes": number}
    error = context["ti"].xcom_pull(task_ids=task_id, key=ERROR_KEY, **mapped)
    reason = error if isinstance(error, dict) else {}
    failed_tables = tuple(reason.get("tables") or tables)
    return FailedTask(task_id, str(reason.get("error", "")), str(reason.get("message", "")), failed_tables)


def describe_lateness(pipeline: str, behind: float | None, target: int) -> str | None:
    if behind is not None and behind <= target:
        return None
    age = "behind=unknown" if behind is None else f"behind={behind:.0f}s"
    return (
        f"pipeline={pipeline}: {age}, freshness_target={target}s: records wait; see the lag of its partitions with: "
        f"tidegate status {pipeline}"
    )


def format_seconds(moment: float) -> str:
    return format_utc(datetime.fromtimestamp(moment, UTC), "seconds")


def _describe_streak(pipeline: str, kind: str, streak: FailureStreak, *, is_new: bool) -> Data:
    facts = {"reason": streak.reason, "since": format_seconds(streak.since), "runs": streak.runs}
    return {"pipeline": pipeline, "kind": kind, **facts, "is_new": is_new}
