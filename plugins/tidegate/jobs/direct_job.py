"""The argument of the direct job: what it reads, and the one statement that merges what it decodes."""

import json
from dataclasses import dataclass, field
from typing import Any

from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.stage_outcome import StageOutcome

ROWS_NAME = "tidegate_direct_rows"  # what the statement calls the decoded rows


@dataclass(frozen=True)
class DirectJob:
    """Read and decode what `stage` asks for, of its one table, and run `statement` on the rows instead of staging them.

    `conf` is set before; it holds what goes into the summary of the snapshot that the statement makes.
    """

    stage: StageJob
    statement: str
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def pipeline(self) -> str:
        """For messages."""
        return self.stage.pipeline

    @property
    def batch(self) -> int:
        """For messages."""
        return self.stage.batch

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({"stage": self.stage.to_json(), "statement": self.statement, "conf": self.conf})

    @classmethod
    def from_json(cls, text: str) -> "DirectJob":
        """Inverse of `to_json`."""
        data = json.loads(text)
        return cls(StageJob.from_json(data["stage"]), data["statement"], data["conf"])


@dataclass(frozen=True)
class DirectOutcome:
    """What a direct job counted in the pass that wrote the rows; None where Spark lost it.

    `unusual_records` counts the records that a plain pass cannot decode. If there are any, the rows may be wrong and
    must not be published.
    """

    stage_outcome: StageOutcome | None
    unusual_records: int = 0

    def to_json(self) -> str:
        """One line of JSON."""
        counts: dict[str, Any] | None = None if self.stage_outcome is None else self.stage_outcome.to_dict()
        return json.dumps({"counted": counts, "unusual": self.unusual_records})

    @classmethod
    def from_json(cls, text: str, place: str) -> "DirectOutcome":
        """Inverse of `to_json`; `GiveUp` where a field is missing or has another shape."""
        data = json.loads(text)
        counts = data["counted"]
        return cls(None if counts is None else StageOutcome.from_dict(counts, place), data["unusual"])
