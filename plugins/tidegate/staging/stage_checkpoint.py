"""A stage that was interrupted while a destination took its files in: the same step again, without Spark's part.

The step gives each table an attempt and runs a job for it. Called again with what it remembers, it gives the same
attempts, finds the jobs done, and goes on where it was: at the files.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.errors import RetryLater
from tidegate.jobs.job import Job
from tidegate.jobs.stage_job import StageJob
from tidegate.ports.context import Ports
from tidegate.ports.engine import Engine


@dataclass
class StageCheckpoint:
    """What a stage has done so far: attempts that it gave, in order, and jobs that have ended, by their text."""

    attempts: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "StageCheckpoint":
        """From plain data."""
        return cls(list(data.get("attempts", ())), list(data.get("jobs", ())))


def wrap_with_checkpoint(ports: Ports, memory: StageCheckpoint) -> Ports:
    """Ports over which a stage repeats what `memory` holds, and then adds to it."""
    given = iter(tuple(memory.attempts))

    def attempt() -> str:
        known = next(given, None)
        if known is None:
            memory.attempts.append(ports.new_attempt())
        return known or memory.attempts[-1]

    return replace(ports, new_attempt=attempt, engine=_CheckpointedEngine(ports.engine, memory))


class _CheckpointedEngine:
    def __init__(self, engine: Engine, memory: StageCheckpoint) -> None:
        self._engine, self._memory, self._known = engine, memory, iter(tuple(memory.jobs))

    def run(self, job: Job) -> None:
        """Run a stage job unless it has been run; another one in its place means that the pipeline was changed."""
        if not isinstance(job, StageJob):
            self._engine.run(job)
            return
        text, known = _compute_digest(job), next(self._known, None)
        if known is None:
            self._engine.run(job)
            self._memory.jobs.append(text)
        elif known != text:
            raise RetryLater(
                f"pipeline={job.pipeline} batch={job.batch}: the pipeline was changed while its rows were brought in; "
                "they are staged again"
            )


def _compute_digest(job: StageJob) -> str:
    """What is asked of Spark; a table that was missing at first is there now."""
    finder = job.finder and replace(job.finder, create=())
    asked = replace(job, tables=tuple(replace(table, create=()) for table in job.tables), finder=finder)
    return hashlib.sha256(asked.to_json().encode()).hexdigest()
