"""Lets a stage that stopped while BigQuery loaded its files go on at the files, without running Spark again.

The step gives each table an attempt and runs a job for it. A checkpoint keeps both. Called again with it, the step
gives the same attempts, skips the jobs that have ended, and goes on with the files.
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
    """What a stage has done so far: attempts that it gave, in order, and jobs that have ended, by their digest."""

    attempts: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StageCheckpoint":
        """What a deferred task has stored; keys of others are passed over."""
        return cls(list(data.get("attempts", ())), list(data.get("jobs", ())))

    def to_dict(self) -> dict[str, Any]:
        """Inverse of `from_dict`."""
        return {"attempts": list(self.attempts), "jobs": list(self.jobs)}


def wrap_with_checkpoint(ports: Ports, checkpoint: StageCheckpoint) -> Ports:
    """Ports over which a stage repeats what the checkpoint holds, and then adds to it."""
    earlier_attempts = iter(tuple(checkpoint.attempts))

    def choose_attempt() -> str:
        earlier = next(earlier_attempts, None)
        if earlier is None:
            checkpoint.attempts.append(ports.new_attempt())
        return earlier or checkpoint.attempts[-1]

    return replace(ports, new_attempt=choose_attempt, engine=_CheckpointedEngine(ports.engine, checkpoint))


class _CheckpointedEngine:
    def __init__(self, engine: Engine, checkpoint: StageCheckpoint) -> None:
        self._engine, self._checkpoint = engine, checkpoint
        self._earlier_jobs = iter(tuple(checkpoint.jobs))

    def run(self, job: Job) -> None:
        """Run a stage job unless the checkpoint has it. RetryLater if the checkpoint has another job in its place."""
        if not isinstance(job, StageJob):
            self._engine.run(job)
            return
        digest, earlier = _compute_digest(job), next(self._earlier_jobs, None)
        if earlier is None:
            self._engine.run(job)
            self._checkpoint.jobs.append(digest)
        elif earlier != digest:
            raise RetryLater(
                f"pipeline={job.pipeline} batch={job.batch}: the pipeline, or this version, was changed while its rows "
                "were brought in; they are staged again"
            )


def _compute_digest(job: StageJob) -> str:
    """What is asked of Spark; a table that was missing at first is there now."""
    finder = job.finder and replace(job.finder, create=())
    same_job = replace(job, tables=tuple(replace(table, create=()) for table in job.tables), finder=finder)
    return hashlib.sha256(same_job.to_json().encode()).hexdigest()
