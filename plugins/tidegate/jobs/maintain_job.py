"""The argument of the maintenance job, and what it leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.jobs.job_json import JsonJob, JsonResult
from tidegate.model.plain_data import read_plain

ORPHANS = "orphans"  # the name of the statement that removes files to which nothing refers


@dataclass(frozen=True)
class MaintainJob(JsonJob):
    """Runs `statements`, by name, against one table, and leaves what they returned in its `property`."""

    pipeline: str
    table: str
    attempt: str
    property: str
    statements: dict[str, str]
    batch: int = 0


@dataclass(frozen=True)
class ProcedureOutcome:
    """What one procedure reported: `rows` returned and its own `numbers` by name, or why it `failed`."""

    rows: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    failed: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, **self.numbers} if self.failed is None else {"failed": self.failed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ProcedureOutcome":
        numbers = {name: number for name, number in data.items() if name not in ("failed", "rows")}
        return read_plain(cls, {**data, "numbers": numbers})


@dataclass(frozen=True)
class MaintenanceOutcome(JsonResult):
    """The outcomes of one attempt's procedures, by name and in order."""

    attempt: str
    steps: dict[str, ProcedureOutcome]

    def to_dict(self) -> dict[str, Any]:
        return {"attempt": self.attempt, **self.steps}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "MaintenanceOutcome":
        return read_plain(cls, {**data, "steps": {name: step for name, step in data.items() if name != "attempt"}})
