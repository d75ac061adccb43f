"""What a stage job that explains leaves behind: how the decoder reads one record and each of its fields."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.jobs.job_results import parse_job_result, read_count, read_list, read_text


@dataclass(frozen=True, kw_only=True)
class FieldExplanation:
    """How one column of the `part` (key or value) is read.

    `type` is expected, `found` is the text in the record. `accepted` is None where a column alone does not tell.
    """

    part: str
    name: str
    type: str
    found: str | None
    accepted: bool | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class RecordExplanation:
    """How one record is read. Without a record (`is_found`) the other fields are empty.

    `fate` is bad, staged, filtered or ignored; `reason` and `stage` say why and where it cannot be read. `row` is the
    result
    as JSON: of several `rows` the first, or the first bad one.
    """

    is_found: bool
    rows: int = 0
    fate: str = ""
    reason: str | None = None
    stage: str | None = None
    operation: str | None = None
    row: str | None = None
    fields: tuple[FieldExplanation, ...] = ()

    def to_json(self) -> str:
        data = asdict(self)
        is_found = data.pop("is_found")
        return json.dumps({"found": is_found, **data} if is_found else {"found": is_found})

    @classmethod
    def from_json(cls, text: str, place: str) -> "RecordExplanation":
        """`GiveUp` where a field is missing or has another shape."""
        return parse_job_result(place, lambda: cls._parse(json.loads(text)))

    @classmethod
    def _parse(cls, data: Mapping[str, Any]) -> "RecordExplanation":
        if not data["found"]:
            return cls(is_found=False)
        verdict = {name: data[name] for name in ("reason", "stage", "operation", "row")}
        fields = tuple(FieldExplanation(**field) for field in read_list(data, "fields"))
        return cls(is_found=True, rows=read_count(data, "rows"), fate=read_text(data, "fate"), fields=fields, **verdict)
