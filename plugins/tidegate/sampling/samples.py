"""Records sampled from a topic, and what a person has to check in the proposal."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.model.counts import format_count
from tidegate.model.kafka_log import KafkaRecord

MAX_EXAMPLES = 3


class PlacedCheck(NamedTuple):
    """A guess that may be wrong: `place` is its place in the file, `text` what to check."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(frozen=True)
class SampleLimits:
    """Limits of one topic's sample: about how many records, bytes of keys and values, and seconds."""

    records: int = 1000
    bytes: int = 32 * 2**20
    seconds: float = 20.0


@dataclass(frozen=True)
class TopicSample:
    """Some of a topic's records. `begin`, `end`: the log's offsets by partition; `is_compacted`: the topic's policy."""

    topic: str
    records: tuple[KafkaRecord, ...]
    begin: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    is_compacted: bool = False
    stopped_by: str = ""  # the limit that ended the sampling, empty where all that was asked for was read

    @property
    def span(self) -> int:
        """Offsets between the log's begin and end: records, markers of transactions, and gaps."""
        return sum(end - self.begin.get(partition, 0) for partition, end in self.end.items())

    @property
    def size(self) -> str:
        """For comments."""
        number = len(self.records)
        partitions = len({record.partition for record in self.records})
        of = f" of {self.span} offsets" if self.span > number else ""
        return f"{format_count(number, 'record')} of {format_count(partitions, 'partition')}{of}"


def list_record_addresses(records: Iterable[KafkaRecord]) -> str:
    """The first few, as `tidegate record --at` takes them."""
    all_records = list(records)
    addresses = ", ".join(f"{record.topic}:{record.partition}:{record.offset}" for record in all_records[:MAX_EXAMPLES])
    return addresses + (" and others" if len(all_records) > MAX_EXAMPLES else "")
