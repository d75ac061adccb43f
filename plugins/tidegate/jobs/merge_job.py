"""The argument of the merge job: statements, audits and the branch that they write."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.jobs.job_results import parse_job_result, read_list, read_text


@dataclass(frozen=True)
class Audits:
    """What to ask once the statements have run: each question is answered with a number, 0 where the audit holds.

    The answers are left in the `property` of `table`, with the merge's `attempt`. `texts` are the user's words for the
    questions, in their order.
    """

    questions: tuple[str, ...]
    table: str
    property: str
    attempt: str
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditAnswers:
    """What a merge's attempt found: for each of its questions, in their order, the number that answers it."""

    attempt: str
    broken: tuple[int | None, ...]

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> "AuditAnswers":
        """Inverse of `to_json`; `GiveUp` where a field is missing or has another shape."""
        return parse_job_result(place, lambda: cls._parse(json.loads(text)))

    @classmethod
    def _parse(cls, data: Mapping[str, Any]) -> "AuditAnswers":
        return cls(read_text(data, "attempt"), read_list(data, "broken"))


@dataclass(frozen=True)
class MergeJob:
    """Run `statements` in order, in one session of their own; `conf` is set before the first.

    `table` tells whose statements they are, where another engine than Spark may run them.
    """

    pipeline: str
    batch: int
    statements: tuple[str, ...]
    conf: dict[str, str] = field(default_factory=dict)
    audits: Audits | None = None
    table: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "MergeJob":
        """Inverse of `to_json`."""
        data = json.loads(text)
        audit_data = data["audits"]
        lists = {name: tuple(audit_data[name]) for name in ("questions", "texts")} if audit_data else {}
        audits = None if audit_data is None else Audits(**{**audit_data, **lists})
        return cls(**{**data, "statements": tuple(data["statements"]), "audits": audits})
