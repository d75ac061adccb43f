"""The argument of the job that runs statements and asks questions, and its answers: merge, dead letters, verify."""

from dataclasses import dataclass, field
from typing import Any

from tidegate.jobs.job_json import JsonJob, JsonResult


@dataclass(frozen=True)
class JobQuestions:
    """Queries to run after the statements; each gives one value: 0 where an audit holds, or a text.

    The answers go to the `property` of `table`, with the `attempt` that asks. `texts` name the queries in messages, in
    the same order: an audit by the user's words.
    """

    queries: tuple[str, ...]
    table: str
    property: str
    attempt: str
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobAnswers(JsonResult):
    """For each question of an attempt, in order, the number or the text that answers it."""

    attempt: str
    broken: tuple[Any, ...]


@dataclass(frozen=True)
class StatementsJob(JsonJob):
    """Runs `statements` in order, in one session of their own; `conf` is set before the first.

    `table`: whose statements they are, where another engine than Spark may run them.
    """

    pipeline: str
    batch: int
    statements: tuple[str, ...]
    conf: dict[str, str] = field(default_factory=dict)
    questions: JobQuestions | None = None
    table: str = ""
