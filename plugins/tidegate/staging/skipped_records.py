"""Records that a person has said to set aside: bad ones, by their place, in a pipeline that fails at the first bad one.

The list is a property of the destination beside the position, so that every runner sees the same. It is kept after the
records were set aside: one that is read again, say after a rewind, is set aside again.
"""

import json
from dataclasses import asdict, dataclass, replace

from tidegate.model import resource_names
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.ports.context import TableState
from tidegate.spec.source import Errors
from tidegate.spec.table import Table

SKIPPED_PROPERTY = "skipped"
MAX_SKIPPED_RECORDS = 100  # more of them say that the schema is wrong, not a record
SET_ASIDE = Errors("all", MAX_SKIPPED_RECORDS)


@dataclass(frozen=True)
class SkippedRecord:
    """The place of a record, in the topic of this id."""

    topic: str
    partition: int
    offset: int
    topic_id: str

    @property
    def place(self) -> tuple[str, int, int]:
        """Without the topic's id."""
        return self.topic, self.partition, self.offset


def list_skipped_records(pipeline: str, state: TableState | None) -> list[SkippedRecord]:
    """The records that a person has skipped for the table, oldest first."""
    marks = state.marks if state else {}
    text = marks.get(resource_names.name_pipeline_property(pipeline, SKIPPED_PROPERTY), "[]")
    return [SkippedRecord(**entry) for entry in json.loads(text)]


def build_property(pipeline: str, records: list[SkippedRecord]) -> dict[str, str]:
    """The property of the table that keeps the list."""
    text = json.dumps([asdict(skipped_record) for skipped_record in records], separators=(",", ":"))
    return {resource_names.name_pipeline_property(pipeline, SKIPPED_PROPERTY): text}


def add_skipped_record(
    known: list[SkippedRecord], record: SkippedRecord, position: Offsets
) -> list[SkippedRecord] | None:
    """The list with one more; records that the table has passed, or whose topic was created again, make room.

    None where it is full without them.
    """

    def is_over(skipped_record: SkippedRecord) -> bool:
        is_old = skipped_record.topic == record.topic and skipped_record.topic_id != record.topic_id
        return is_old or skipped_record.offset < (
            get_offset(position, skipped_record.topic, skipped_record.partition) or 0
        )

    other_records = [skipped_record for skipped_record in known if skipped_record != record]
    if sum(not is_over(skipped_record) for skipped_record in other_records) >= MAX_SKIPPED_RECORDS:
        return None
    while len(other_records) >= MAX_SKIPPED_RECORDS:
        other_records.remove(next(filter(is_over, other_records)))
    return [*other_records, record]


def find_skipped_places(
    pipeline: str, state: TableState | None, ranges: Ranges, topic_ids: dict[str, str]
) -> tuple[tuple[str, int, int], ...] | None:
    """Those that a batch of these ranges holds, None where the table has none at all."""
    known = list_skipped_records(pipeline, state)
    bounds = {(topic, partition): (start, end) for topic, partition, start, end in ranges}
    current_records = [
        skipped_record for skipped_record in known if topic_ids.get(skipped_record.topic, "") == skipped_record.topic_id
    ]
    inside = [
        skipped_record
        for skipped_record in current_records
        if _lies_within(skipped_record, bounds.get((skipped_record.topic, skipped_record.partition)))
    ]
    return tuple(sorted(skipped_record.place for skipped_record in inside)) if known else None


def _lies_within(skipped_record: SkippedRecord, bounds: tuple[int, int] | None) -> bool:
    return bounds is not None and bounds[0] <= skipped_record.offset < bounds[1]


def make_room_for_letters(table: Table) -> Table:
    """The table as one whose staged rows stand beside bad records."""
    return replace(table, errors=SET_ASIDE)
