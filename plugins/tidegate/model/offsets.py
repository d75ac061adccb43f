"""Where in the log a record lies: offsets by topic and partition, and half-open ranges of them.

`end` is the first offset that is not read; it becomes the position and is what is committed to Kafka.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Offsets = dict[str, dict[int, int]]
RecordAddress = tuple[str, int, int]  # topic, partition, offset
# of Kafka's protocol
MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1
MAX_NAMED_PARTITIONS = 20  # in a message or a line of a log: of a topic of thousands the rest of it would not be seen


def parse_offsets(data: Mapping[str, Mapping[Any, Any]]) -> Offsets:
    """Read offsets out of JSON, ``{"topic": {"0": 42}}``; ValueError for a partition or offset that is no number."""
    return {topic: {int(p): int(o) for p, o in parts.items()} for topic, parts in sorted(data.items())}


def iterate_offsets(offsets: Offsets) -> Iterator[tuple[str, int, int]]:
    for topic in sorted(offsets):
        for partition in sorted(offsets[topic]):
            yield topic, partition, offsets[topic][partition]


def group_by_topic(flat: Mapping[tuple[str, int], int]) -> Offsets:
    result: Offsets = {}
    for (topic, partition), offset in sorted(flat.items()):
        result.setdefault(topic, {})[partition] = offset
    return result


def get_offset(offsets: Offsets, topic: str, partition: int) -> int | None:
    return offsets.get(topic, {}).get(partition)


def merge_offsets(*parts: Offsets) -> Offsets:
    result: Offsets = {}
    for part in parts:
        for topic, partition, offset in iterate_offsets(part):
            result.setdefault(topic, {})[partition] = offset
    return result


def find_lowest(*parts: Offsets) -> Offsets:
    """Return per partition the smallest offset of those maps that have it: the low watermark."""
    return _choose_per_partition(min, parts)


def find_highest(*parts: Offsets) -> Offsets:
    """Return per partition the greatest number of those maps that have it."""
    return _choose_per_partition(max, parts)


def _choose_per_partition(choose: Callable[[int, int], int], maps: Iterable[Offsets]) -> Offsets:
    result: Offsets = {}
    for offsets in maps:
        for topic, partition, number in iterate_offsets(offsets):
            partitions = result.setdefault(topic, {})
            partitions[partition] = choose(number, partitions.get(partition, number))
    return result


def format_offsets(offsets: Offsets) -> str:
    """Format as `--to` takes them, ``{"topic": {"0": 42}}``; of many partitions the first, and how many more."""
    entries = list(iterate_offsets(offsets))
    if len(entries) <= MAX_NAMED_PARTITIONS:
        return json.dumps(offsets)
    first = group_by_topic({(t, p): offset for t, p, offset in entries[:MAX_NAMED_PARTITIONS]})
    return f"{json.dumps(first)} and {len(entries) - MAX_NAMED_PARTITIONS} partitions more"


def format_partitions(partitions: Collection[int]) -> str:
    """Format for messages, ``[0, 1]``; of many the first, and how many more."""
    entries = sorted(partitions)
    more = len(entries) - MAX_NAMED_PARTITIONS
    return str(entries) if more <= 0 else f"{entries[:MAX_NAMED_PARTITIONS]} and {more} more"


def format_names(names: Collection[str]) -> str:
    """Format topics or tables for messages, in order; of many the first, and how many more."""
    name_list = list(names)
    more = len(names) - MAX_NAMED_PARTITIONS
    return ", ".join(name_list) if more <= 0 else f"{', '.join(name_list[:MAX_NAMED_PARTITIONS])} and {more} more"


def keep_partitions(offsets: Offsets, known: Offsets) -> Offsets:
    return {t: {p: o for p, o in parts.items() if p in known[t]} for t, parts in offsets.items() if t in known}


@dataclass(frozen=True)
class Ranges:
    """Half-open offset ranges, `{topic: {partition: (start, end)}}`; quiet partitions are there with start = end."""

    by_topic: dict[str, dict[int, tuple[int, int]]]

    def __post_init__(self) -> None:
        for topic, partition, start, end in self:
            if not 0 <= start <= end:
                raise ValueError(
                    f"a range must run forward from zero: topic={topic} partition={partition} start={start} end={end}"
                )

    def __iter__(self) -> Iterator[tuple[str, int, int, int]]:
        for topic in sorted(self.by_topic):
            for partition in sorted(self.by_topic[topic]):
                yield topic, partition, *self.by_topic[topic][partition]

    @classmethod
    def between(cls, start: Offsets, end: Offsets) -> "Ranges":
        """Return ranges from `start` to `end`; ValueError if they name other partitions, or one would run backwards."""
        if {(t, p) for t, p, _ in iterate_offsets(start)} != {(t, p) for t, p, _ in iterate_offsets(end)}:
            raise ValueError(f"start and end name different partitions: start={start} end={end}")
        return cls({t: {p: (o, end[t][p]) for p, o in parts.items()} for t, parts in start.items()})

    @property
    def start(self) -> Offsets:
        return {t: {p: se[0] for p, se in parts.items()} for t, parts in self.by_topic.items()}

    @property
    def end(self) -> Offsets:
        return {t: {p: se[1] for p, se in parts.items()} for t, parts in self.by_topic.items()}

    @property
    def span(self) -> int:
        return sum(end - start for _, _, start, end in self)

    def get_range(self, topic: str, partition: int) -> tuple[int, int]:
        """Return an empty range for a partition that is not named."""
        return self.by_topic.get(topic, {}).get(partition, (0, 0))

    def contains(self, topic: str, partition: int, offset: int) -> bool:
        start, end = self.get_range(topic, partition)
        return start <= offset < end

    def extend_to(self, later: "Ranges") -> "Ranges":
        """Return ranges from this start to the end of `later`, which continues these and may have more partitions."""
        return Ranges.between(merge_offsets(later.start, self.start), later.end)

    def select_topics(self, topics: tuple[str, ...]) -> "Ranges":
        return Ranges({t: parts for t, parts in self.by_topic.items() if t in topics})

    def continues(self, position: Offsets) -> bool:
        """Whether the ranges start exactly at `position`; partitions that the position does not have may join."""
        starts = self.start
        return all(get_offset(starts, t, p) == offset for t, p, offset in iterate_offsets(position))

    def to_dict(self) -> dict[str, dict[str, list[int]]]:
        """Return them as people write them: ``{"topic": {"0": [100, 900]}}``."""
        return {t: {str(p): list(se) for p, se in sorted(parts.items())} for t, parts in sorted(self.by_topic.items())}

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[Any, Any]]) -> "Ranges":
        return cls({t: {int(p): (int(s), int(e)) for p, (s, e) in parts.items()} for t, parts in data.items()})


def find_missing_ranges(start: Offsets, end: Offsets) -> Ranges:
    """Return ranges from `start` to `end` in the partitions of `start`; empty ones if `end` is not beyond it."""
    reach = {t: {p: max(o, get_offset(end, t, p) or 0) for p, o in parts.items()} for t, parts in start.items()}
    return Ranges.between(start, reach)


def cap_ranges(start: Offsets, end: Offsets, max_records: int) -> Ranges:
    """Return ranges from `start` towards `end` with a span of at most `max_records` offsets.

    Small backlogs are taken whole, and large ones share what is left evenly, so no partition starves. ValueError if an
    end lies before its start.
    """
    backlog = {(t, p): (get_offset(end, t, p) or o) - o for t, p, o in iterate_offsets(start)}
    remaining_records = max_records
    takes = {}
    partitions = sorted(backlog, key=lambda tp: (backlog[tp], tp))
    for position, partition in enumerate(partitions):
        takes[partition] = min(backlog[partition], remaining_records // (len(partitions) - position))
        remaining_records -= takes[partition]
    stop = {t: {p: o + takes[t, p] for p, o in parts.items()} for t, parts in start.items()}
    return Ranges.between(start, merge_offsets(start, stop))
