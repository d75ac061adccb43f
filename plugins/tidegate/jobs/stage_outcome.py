"""What a stage job leaves behind: the counts of a batch, the names that its records hold, or how one record is read."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.jobs.job_json import JsonResult, build_error
from tidegate.model.batch import RECORD_COUNTS, Counts, StagedBatch
from tidegate.model.offsets import Offsets, Ranges
from tidegate.model.plain_data import read_plain
from tidegate.model.unknown_fields import UnknownFields
from tidegate.schema.inferred_types import GrownColumns

# What is counted for tables with `sequence_by`.
DELETE_COUNTS = ("deletes", "unsequenced_deletes")
# What is counted where a record may keep some of the row's values: those that do.
UNCHANGED_COUNTS = ("kept",)
# The offset of a batch's last truncate, where such are applied; null where it has none.
TRUNCATED_AT = "truncated_at"
ROW_COUNT = "rows"  # that a stage job wrote, dead letters included: a record may be several
UNKNOWN_FIELDS = "unknown_fields"
LACKING_COLUMNS = "lacking_columns"
# A Connect server waits a tenth of a second for the counts of a pass and then answers without them: it is made again.
MAX_PASSES = 3
EXTRA_COUNTS = (ROW_COUNT, *DELETE_COUNTS, *UNCHANGED_COUNTS)


@dataclass(frozen=True)
class FirstBadRecord:
    """The place of the first record that could not be read, and why.

    `columns`: those that earlier records have made and that do not hold what it has.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    columns: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        data = asdict(self)
        columns = data.pop("columns")
        return {**data, "columns": columns} if columns else data


def require_first_bad(outcome: "StageOutcome | DiscoveredNames", place: str) -> FirstBadRecord:
    """`GiveUp` where a job counted bad records and did not report the first."""
    if outcome.first_bad is None:
        raise build_error(place, f"bad={outcome.bad} and first_bad is missing")
    return outcome.first_bad


@dataclass(frozen=True, kw_only=True)
class StageOutcome(JsonResult):
    """What a stage job counted in one batch of one table.

    - The first six are those of `Counts`.
    - `bad`: records that keep the batch from being merged, ever.
    - `first_bad`: the first of these, or of those that were set aside.
    - `timestamps`: the latest of each partition, in milliseconds.
    - `applies_truncates`: truncates were looked for. `truncated_at`: the offset of the last one, None without one.

    The others are None where they make no difference:

    - `rows`: how many were written as files.
    - `deletes`, `unsequenced_deletes`: all deletes, and those without a sequence.
    - `kept`: rows that keep some value.
    - `unknown_fields`: what the staged rows hold beside their columns.
    - `lacking`: the columns that the records make beside those of the job; without them nothing is merged.
    """

    read: int
    staged: int
    superseded: int
    filtered: int
    ignored: int
    dead_lettered: int
    bad: int
    rows: int | None = None
    deletes: int | None = None
    unsequenced_deletes: int | None = None
    kept: int | None = None
    unknown_fields: UnknownFields | None = None
    lacking: GrownColumns = field(default_factory=GrownColumns)
    applies_truncates: bool = False
    truncated_at: int | None = None
    timestamps: Offsets
    first_bad: FirstBadRecord | None = None

    def count_records(self, span: int) -> Counts:
        """`span`: the length of the batch's ranges in offsets."""
        return Counts(span=span, **{name: getattr(self, name) for name in RECORD_COUNTS})

    def can_be_merged(self, span: int) -> bool:
        """Whether no bad record failed the batch, its rows have all columns, and its counts add up to the span."""
        return not self.bad and not self.lacking.fields and self.count_records(span).explain_imbalance() is None

    def to_staged_batch(self, table: str, summary: Mapping[str, str], snapshot_id: int) -> StagedBatch:
        """`summary`: the attempt's snapshot summary, which holds what the job was asked."""
        request = json.loads(summary["tidegate.staged"])
        counts = self.count_records(Ranges.from_dict(request["ranges"]).span)
        known: dict[str, Any] = {name: getattr(self, name) or 0 for name in (*DELETE_COUNTS, *UNCHANGED_COUNTS)}
        known |= {"timestamps": self.timestamps, TRUNCATED_AT: self.truncated_at}
        known |= {"table": table, "batch": int(summary["tidegate.batch"]), "attempt": summary["tidegate.attempt"]}
        known |= {UNKNOWN_FIELDS: self.unknown_fields and self.unknown_fields.to_dict()}
        known |= {"snapshot_id": snapshot_id, "bytes": int(summary.get("added-files-size", "0"))}
        return StagedBatch.from_dict({**known, "counts": asdict(counts), **request})

    def to_dict(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in (*RECORD_COUNTS, "bad")}
        data |= {name: getattr(self, name) for name in EXTRA_COUNTS if getattr(self, name) is not None}
        if self.applies_truncates:
            data[TRUNCATED_AT] = self.truncated_at
        if self.unknown_fields is not None:
            data[UNKNOWN_FIELDS] = self.unknown_fields.to_dict()
        if self.lacking.fields:
            data[LACKING_COLUMNS] = asdict(self.lacking)
        first_bad = None if self.first_bad is None else self.first_bad.to_dict()
        return {**data, "timestamps": self.timestamps, "first_bad": first_bad}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StageOutcome":
        known = {**data, "applies_truncates": TRUNCATED_AT in data}
        known |= {"lacking": data[LACKING_COLUMNS]} if LACKING_COLUMNS in data else {}
        return read_plain(cls, known)


@dataclass(frozen=True)
class DiscoveredNames(JsonResult):
    """The tables that a batch's records name. `bad` records name none or cannot be read."""

    attempt: str
    names: tuple[str, ...]
    bad: int
    first_bad: FirstBadRecord | None = None


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
class RecordOutline:
    """What becomes of the record at one place, with the words of `RecordExplanation`."""

    topic: str
    partition: int
    offset: int
    rows: int
    fate: str
    reason: str | None
    operation: str | None
    row: str | None


@dataclass(frozen=True, kw_only=True)
class RecordExplanation(JsonResult):
    """How one record is read. Without a record (`is_found`) the other fields are empty.

    `fate` is bad, staged, filtered or ignored; `reason` and `stage` say why and where it cannot be read. `row` is the
    result as JSON: of several `rows` the first, or the first bad one. `outlines`: of a job that was asked for several
    places, and then nothing else.
    """

    is_found: bool
    rows: int = 0
    fate: str = ""
    reason: str | None = None
    stage: str | None = None
    operation: str | None = None
    row: str | None = None
    fields: tuple[FieldExplanation, ...] = ()
    outlines: tuple[RecordOutline, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        data = asdict(self)
        is_found = data.pop("is_found")
        if not self.outlines:
            del data["outlines"]
        return {"found": is_found, **data} if is_found else {"found": is_found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RecordExplanation":
        return read_plain(cls, {**data, "is_found": data["found"]})
