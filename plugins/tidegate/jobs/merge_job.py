"""The argument of the merge job: statements, audits and the branch that they write."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.jobs.job_results import parse_job_result
from tidegate.model.plain_data import read_plain


@dataclass(frozen=True)
class Audits:
    """Questions to ask after the statements; the answer is a number, 0 where the audit holds, or of others a text.

    The answers go to the `property` of `table`, with the merge's `attempt`. `texts`: the user's words, in the order of
    the questions.
    """

    questions: tuple[str, ...]
    table: str
    property: str
    attempt: str
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditAnswers:
    """For each question of a merge's attempt, in order, the number that answers it, or the text of a verification."""

    attempt: str
    broken: tuple[Any, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> "AuditAnswers":
        """`GiveUp` where a field is missing or has another shape."""
        return parse_job_result(place, lambda: read_plain(cls, json.loads(text)))


@dataclass(frozen=True)
class MergeJob:
    """Runs `statements` in order, in one session of their own; `conf` is set before the first.

    `table`: whose statements they are, where another engine than Spark may run them.
    """

    pipeline: str
    batch: int
    statements: tuple[str, ...]
    conf: dict[str, str] = field(default_factory=dict)
    audits: Audits | None = None
    table: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "MergeJob":
        return read_plain(cls, json.loads(text))
