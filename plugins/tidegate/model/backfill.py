"""A part of the log that is to be applied again: its ranges for each table, cut into slices in the log's order."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from tidegate.model.batch import PublishResult
from tidegate.model.offsets import Offsets, Ranges, cap_ranges, find_missing_ranges, get_offset
from tidegate.model.plain_data import read_plain

ID_DIGITS = 10  # of a backfill's id


def cut_into_slices(ranges: Ranges, max_records: int) -> list[Ranges]:
    """Cut into consecutive ranges of at most `max_records` offsets, each in all partitions that still have some."""
    parts: list[Ranges] = []
    start = ranges.start
    end = ranges.end
    while True:
        part = cap_ranges(start, end, max_records)
        if not part.span:
            return parts
        parts.append(part)
        start = part.end


@dataclass(frozen=True)
class TableBackfill:
    """The part of a backfill that belongs to one table."""

    table: str
    ranges: Ranges


@dataclass(frozen=True)
class Backfill:
    """One backfill. Its slices follow from `ranges` and `max_records` alone, so `id` is a digest of them.

    `asked` are the user's words: a repeat of them goes on with an open backfill, although times may mean other offsets.
    """

    id: str
    asked: str
    max_records: int
    tables: tuple[TableBackfill, ...]
    cluster_id: str
    topic_ids: dict[str, str]

    @classmethod
    def build(cls, pipeline: str, **content: Any) -> "Backfill":
        draft = cls(id="", **content)
        text = json.dumps({"pipeline": pipeline, **draft.to_dict()}, sort_keys=True)
        return replace(draft, id=hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS])

    def list_slices(self, table: str) -> list[Ranges]:
        """Return one table's slices; number 1 is the first. Cached: a thousand take a second."""
        if table not in self._slices_by_table:
            self._slices_by_table[table] = cut_into_slices(self.get_ranges(table), self.max_records)
        return self._slices_by_table[table]

    @cached_property
    def _slices_by_table(self) -> dict[str, list[Ranges]]:
        return {}

    def get_ranges(self, table: str) -> Ranges:
        return next(t.ranges for t in self.tables if t.table == table)

    @property
    def slice_count(self) -> int:
        """The slices of the longest table. They are not cut for that: a wide range makes millions."""
        return max(-(-table.ranges.span // self.max_records) for table in self.tables)

    @property
    def numbers(self) -> list[int]:
        """All slices, newest first: what is read for one decides for those before it."""
        return list(range(self.slice_count, 0, -1))

    def to_dict(self) -> dict[str, Any]:
        tables = [{"table": t.table, "ranges": t.ranges.to_dict()} for t in self.tables]
        return {**asdict(self), "tables": tables}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Backfill":
        return read_plain(cls, data)


@dataclass(frozen=True, kw_only=True)
class AppliedSlice(PublishResult):
    """What one slice of a backfill did to one table."""

    backfill: str
    slice: int
    slices: int


def list_later_pieces(
    staged: Mapping[int, Ranges], begun: int, start: Offsets, position: Offsets, max_records: int
) -> list[tuple[int, Ranges]]:
    """Return what of the log from `start` to `position` is not staged yet, cut, with the numbers that come next.

    `staged` are ranges by number, of which those above `begun` are of this part of the log.
    """
    reach = find_reach([ranges for number, ranges in staged.items() if number > begun], start)
    following = max([begun, *staged]) + 1
    return list(enumerate(cut_into_slices(find_missing_ranges(reach, position), max_records), following))


def find_reach(pieces: list[Ranges], start: Offsets) -> Offsets:
    reach = {topic: dict(parts) for topic, parts in start.items()}
    for topic, partition, begin, end in sorted(entry for piece_ranges in pieces for entry in piece_ranges):
        offset = get_offset(reach, topic, partition)
        if offset is not None and begin <= offset < end:
            reach[topic][partition] = end
    return reach
