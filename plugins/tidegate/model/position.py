"""How far a destination table has come: the position that is swapped, in one commit, with the rows it describes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.model.offsets import Offsets, iterate_offsets, parse_offsets
from tidegate.model.ownership import FORMAT, refuse_other_format


class WatermarkSide(StrEnum):
    """Whether a table counts for the low watermark with one of its batches."""

    INSIDE = "inside"
    OUTSIDE = "outside"  # it came later, and has not caught up
    JOINS = "joins"  # it came later, and this batch brings it to where the others stand


@dataclass(frozen=True)
class Position:
    """What one pipeline has published into one table."""

    offsets: Offsets  # the next offset to read, by partition
    batch: int = 0
    staged_attempt: str = ""
    # the greatest published record timestamp of each partition, in milliseconds
    timestamps: Offsets = field(default_factory=dict)
    cluster_id: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict)  # show whether a topic was created again
    outside: bool = False  # the table was added later and has not caught up; the low watermark leaves it out
    # the leaders' when the batch was planned; they show whether the log was cut since
    epochs: Offsets = field(default_factory=dict)

    @property
    def valid_through_ms(self) -> int | None:
        """Later records have a greater timestamp; None while some partition has shown no record."""
        timestamps = {(t, p): ms for t, p, ms in iterate_offsets(self.timestamps)}
        all_of_them = [timestamps.get((t, p)) for t, p, _ in iterate_offsets(self.offsets)]
        known_timestamps = [ms for ms in all_of_them if ms is not None]
        return min(known_timestamps) if known_timestamps and len(known_timestamps) == len(all_of_them) else None

    def to_properties(self, pipeline: str) -> dict[str, str]:
        prefix = f"tidegate.{pipeline}."
        valid_through = self.valid_through_ms
        return {
            prefix + "format": FORMAT,
            prefix + "position": format_compact(self.offsets),
            prefix + "batch": str(self.batch),
            prefix + "staged-attempt": self.staged_attempt,
            prefix + "timestamps": format_compact(self.timestamps),
            prefix + "cluster-id": self.cluster_id,
            prefix + "topic-ids": format_compact(self.topic_ids),
            prefix + "leader-epochs": format_compact(self.epochs),
            prefix + "outside-watermark": "true" if self.outside else "",
            prefix + "valid-through-ts": "" if valid_through is None else str(valid_through),
        }

    @classmethod
    def from_properties(cls, pipeline: str, properties: Mapping[str, str], table: str = "") -> "Position | None":
        """Read a position; None if the properties have none of this pipeline.

        `GiveUp` for a position of another format; `table` is for its message.
        """
        prefix = f"tidegate.{pipeline}."
        if prefix + "position" not in properties:
            return None
        refuse_other_format(f"pipeline={pipeline} table={table}: its position", prefix + "format", properties)
        return cls(
            offsets=parse_offsets(json.loads(properties[prefix + "position"])),
            batch=int(properties[prefix + "batch"]),
            staged_attempt=properties[prefix + "staged-attempt"],
            timestamps=parse_offsets(json.loads(properties[prefix + "timestamps"])),
            cluster_id=properties[prefix + "cluster-id"],
            topic_ids=json.loads(properties[prefix + "topic-ids"]),
            epochs=parse_offsets(json.loads(properties[prefix + "leader-epochs"])),
            outside=properties[prefix + "outside-watermark"] == "true",
        )


def format_compact(value: object) -> str:
    """As one line of JSON, equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
