"""Runs that fail one after the other for one reason: who is told, and when the work is tried again."""

import hashlib
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate.errors import GiveUp, find_kind
from tidegate.model.plain_data import read_plain
from tidegate.ports.session import Session
from tidegate.settings import walk_files

log = logging.getLogger(__name__)
FIRST_PAUSE_SECONDS = 60
MAX_PAUSE_SECONDS = 30 * 60
# Behind such a time without a failed run, of a DAG that was paused or of a member that left its fleet, an equal failure
# is news. Longer than a day: a pipeline that flushes once a day tells of its failure once.
FORGOTTEN_SECONDS = 2 * 24 * 3600
MAX_REASON_CHARACTERS = 2000
WAITING = "Waiting"  # in place of an error's class, where a run did not try
JOB_TASKS = ("stage", "merge")  # what costs a Spark job; a failure of `plan` costs none
# a table and a record's place tell one failure from another; every other number may differ between two tries of the
# same work
PLACE = re.compile(r"\b(?:partition|offset)=\d+|\btable=[^\s:;,]+")
CHANGING_TEXT = re.compile(r"\b[0-9a-f]{8,}\b|[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True)
class FailedTask:
    """A task that failed in a run: `task` without its map index, `kind` the class of its error, empty if unknown.

    `tables` are those that it left undone, empty if unknown.
    """

    task: str
    kind: str
    message: str
    tables: tuple[str, ...] = ()

    @property
    def needs_person(self) -> bool:
        kind = find_kind(self.kind)
        return self.task in JOB_TASKS and kind is not None and issubclass(kind, GiveUp)


@dataclass(frozen=True)
class Failure:
    """Why a run failed, as text and as a digest. `inputs`: the digest of what was tried, if a new try needs a pause."""

    identity: str
    reason: str
    inputs: str = ""
    failed_tasks: tuple[FailedTask, ...] = ()


@dataclass(frozen=True)
class FailureStreak:
    """The failed runs since the last one that succeeded, or since the reason changed."""

    identity: str  # equal for failures of one reason
    reason: str
    since: float  # Unix time in seconds
    runs: int  # the runs that tried; `run_id` is the last
    run_id: str
    retry_at: float = 0.0
    inputs: str = ""  # a digest of what a person would change to fix the failure, empty if unknown
    has_earlier: bool = False  # a run before it failed too, for any reason
    failed: tuple[FailedTask, ...] = ()  # what the last run left undone
    failed_at: float = 0.0

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(table for task in self.failed for table in task.tables)

    @property
    def unstaged_tables(self) -> frozenset[str]:
        """Tables of which nothing is staged, so that a batch without them leaves nothing behind."""
        return frozenset(table for task in self.failed if task.task == "stage" for table in task.tables)

    @property
    def is_new(self) -> bool:
        return self.runs == 1

    def must_wait(self, inputs: str, now: float) -> bool:
        """Whether a scheduled run leaves the work alone: nothing was changed, and it is too early."""
        # a time that is further off than any pause was noted before the clock was set back
        return bool(self.inputs) and inputs == self.inputs and 0 < self.retry_at - now <= MAX_PAUSE_SECONDS

    def rests(self, now: float) -> bool:
        """Whether it is too early for a call that comes again and again, as those of staging for a merge."""
        return 0 <= now - self.failed_at < compute_pause(self.runs)

    def is_ended_by(self, run_id: str, known_at: float | None) -> bool:
        """Whether the success of this run, of which a person has cleared tasks, ends the failures.

        `known_at`: when it read what is to be done, None if it did not read again.
        """
        return self.run_id == run_id or (known_at is not None and known_at >= self.failed_at)

    def to_dict(self) -> dict[str, Any]:
        failed_tasks = [{**asdict(task), "tables": list(task.tables)} for task in self.failed]
        return {**asdict(self), "failed": failed_tasks}  # lists: Airflow's store takes no tuples

    @classmethod
    def from_dict(cls, data: Any) -> "FailureStreak | None":
        """Read a streak; None for nothing, and for what cannot be read."""
        try:
            return read_plain(cls, data)
        except (KeyError, TypeError, ValueError):
            return None


@dataclass
class PipelineOutcome:
    """What became of one pipeline in one run."""

    pipeline: str
    failed_tasks: list[FailedTask] = field(default_factory=list)
    refused_tasks: list[FailedTask] = field(default_factory=list)  # one for each table that `plan` refused
    waiting_tables: set[str] = field(default_factory=set)  # left out, as they failed before
    messages: list[str] = field(default_factory=list)  # why the run is red because of it
    has_published: bool = False  # of a pipeline with one table

    def add_refusals(self, by_plan: Iterable[Mapping[str, str]], by_stage: Iterable[Mapping[str, str]]) -> None:
        for refusal in by_plan:
            if refusal["kind"] == WAITING:
                self.waiting_tables.add(refusal["table"])
            else:
                self.refused_tasks.append(_to_failed_task("plan", refusal))
        self.failed_tasks += [_to_failed_task("stage", refusal) for refusal in by_stage]

    def to_failure(self, streak: FailureStreak | None, *, has_several: bool, tried_inputs: str) -> Failure | None:
        """Return what later runs must know; None if it did not try, so that what failed before stays.

        `has_several`: the pipeline has several tables. `tried_inputs`: the digest of what this run tried.
        """
        if streak is not None:
            if any(task.kind == WAITING for task in self.failed_tasks):
                return None
            if self.waiting_tables and not self.failed_tasks and not self.refused_tasks:
                return None
        left_out = [task for task in streak.failed if self.waiting_tables & set(task.tables)] if streak else []
        failed_tasks = (*self.failed_tasks, *left_out)
        known = [*failed_tasks, *self.refused_tasks]
        message = "\n".join(self.messages)
        reason = "\n".join(task.message for task in known if task.message) or message
        if has_several:
            waits = can_wait_by_table(failed_tasks)
        else:
            waits = needs_pause(failed_tasks, has_published=self.has_published)
        tables = {table for task in failed_tasks for table in task.tables}
        inputs = tried_inputs if waits and streak is not None and streak.tables == tables else ""
        return Failure(identify_reason(message, known), reason, inputs, failed_tasks)


def _to_failed_task(task: str, refusal: Mapping[str, str]) -> FailedTask:
    return FailedTask(task, refusal["kind"], refusal["message"], (refusal["table"],))


@dataclass(frozen=True)
class Ending:
    """The end of a run at a Unix time in seconds; `was_cleared`: a person has cleared tasks of it."""

    run_id: str
    now: float
    was_cleared: bool = False


class Streaks:
    """The streaks of pipelines, by pipeline and kind of failure."""

    def __init__(self, data: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._streaks: dict[tuple[str, str], FailureStreak] = {}
        for pipeline, kinds in (data or {}).items():
            for kind, entry in kinds.items():
                streak = FailureStreak.from_dict(entry)
                if streak is not None:
                    self._streaks[pipeline, kind] = streak

    def to_dict(self) -> dict[str, dict[str, Any]]:
        data: dict[str, dict[str, Any]] = {}
        for (pipeline, kind), streak in self._streaks.items():
            data.setdefault(pipeline, {})[kind] = streak.to_dict()
        return data

    @property
    def pipelines(self) -> set[str]:
        return {pipeline for pipeline, _ in self._streaks}

    def get(self, pipeline: str, kind: str) -> FailureStreak | None:
        return self._streaks.get((pipeline, kind))

    def note_failure(self, pipeline: str, kind: str, failure: Failure, run: Ending) -> FailureStreak:
        streak = extend_streak(self.get(pipeline, kind), failure, run.run_id, run.now)
        self._streaks[pipeline, kind] = streak
        return streak

    def note_success(
        self, pipeline: str, kind: str, run: Ending, known_at: float | None = None
    ) -> FailureStreak | None:
        """Note a success; return the failures that are over, if people must be told of that.

        An older run does not end them: `known_at` is when it read what is to be done, None if unknown.
        """
        streak = self.get(pipeline, kind)
        if streak is None:
            return None
        is_older = known_at is not None and known_at < streak.failed_at <= run.now  # later: the clock was set back
        if (is_older or run.was_cleared) and not streak.is_ended_by(run.run_id, known_at):
            log.info("pipeline=%s: this run is older than its failures, and they stay", pipeline)
            return None
        del self._streaks[pipeline, kind]
        return streak if streak.run_id != run.run_id or streak.has_earlier else None

    def forget_others(self, pipelines: Collection[str]) -> None:
        """Keep only these pipelines: the files of the others are gone."""
        self._streaks = {key: streak for key, streak in self._streaks.items() if key[0] in pipelines}


def is_worth_telling(tries: int) -> bool:
    """Whether this is the first, second, fourth, eighth … try that fails for one reason."""
    return not tries & (tries - 1)


def identify_reason(message: str, failed_tasks: Iterable[FailedTask]) -> str:
    """Return a digest that two failures share if they are equal for a person: errors, texts and places of records."""
    parts = sorted(
        {
            # the text of an error that is not ours is not reported
            (task.task, "" if find_kind(task.kind) else task.kind, _blur_numbers(line))
            for task in failed_tasks
            for line in task.message.splitlines() or [""]
        }
    )
    return hashlib.sha256(repr(parts or _blur_numbers(message)).encode()).hexdigest()[:16]


def _blur_numbers(text: str) -> str:
    places: list[str] = []

    def keep_place(match: re.Match[str]) -> str:
        places.append(match.group())
        return "\0"

    blurred = CHANGING_TEXT.sub("#", PLACE.sub(keep_place, text))
    return blurred + " ".join(places)


def extend_streak(streak: FailureStreak | None, failure: Failure, run_id: str, now: float) -> FailureStreak:
    """Add one failed run, to failures that are not forgotten. A second try of the same run changes only the times."""
    has_earlier = streak is not None and (streak.has_earlier or streak.run_id != run_id)
    is_forgotten = streak is not None and now - streak.failed_at > FORGOTTEN_SECONDS
    if streak is None or is_forgotten or streak.identity != failure.identity:
        streak = FailureStreak(
            identity=failure.identity, reason=failure.reason[:MAX_REASON_CHARACTERS], since=now, runs=1, run_id=run_id
        )
    elif streak.run_id != run_id:
        streak = replace(streak, runs=streak.runs + 1, run_id=run_id)
    retry_at = now + compute_pause(streak.runs) if failure.inputs else 0.0
    failed_tasks = tuple(replace(task, message=task.message[:MAX_REASON_CHARACTERS]) for task in failure.failed_tasks)
    return replace(
        streak, retry_at=retry_at, inputs=failure.inputs, has_earlier=has_earlier, failed=failed_tasks, failed_at=now
    )


def compute_pause(runs: int) -> int:
    """Return the seconds between the last of so many failed runs and the next try: 1, 1, 2, 4 … 30 minutes."""
    return min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS << min(max(runs - 2, 0), 10))


def needs_pause(failed_tasks: Collection[FailedTask], *, has_published: bool) -> bool:
    """Whether trying again at once is a waste: the work of one table fails for what a person must fix."""
    return not has_published and bool(failed_tasks) and all(task.needs_person for task in failed_tasks)


def can_wait_by_table(failed_tasks: Collection[FailedTask]) -> bool:
    """Whether, in a pipeline with several tables, each failure is one of known tables, so that the others go on."""
    return bool(failed_tasks) and all(task.needs_person and task.tables for task in failed_tasks)


# of include/: what lies there belongs to one pipeline or publication each
FOLDERS_OF_OTHER_FILES = ("pipelines", "publications")


def digest_work_inputs(session: Session, include: Path, tables: Collection[str] = ()) -> str:
    """Return a digest of the include folder, without other pipelines' files, and of the state of these tables, or all.

    Reads each table's metadata once. Raises what `TableStore.read_state` raises.
    """
    pipeline = session.pipeline
    digest = hashlib.sha256()
    for file in sorted(walk_files(include)):
        parts = file.relative_to(include).parts
        is_own = parts[0] not in FOLDERS_OF_OTHER_FILES or (parts[0] == "pipelines" and file.stem == pipeline.name)
        if is_own and not any(part.startswith(".") for part in parts):
            digest.update(f"{file.relative_to(include)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    for table in sorted(tables) or [table.name for table in pipeline.tables]:
        state = session.tables.read_state(table, pipeline.name)
        marks = None if state is None else sorted(state.marks.items())
        seen = state and (state.uuid, state.snapshot_id, state.columns, state.struct, state.position, marks)
        digest.update(repr(seen).encode())
    return digest.hexdigest()[:32]
