"""How a publish ended and what it cost in bytes: kept in results and in the history of batches."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypedDict


class PublishOutcome(StrEnum):
    """How a merge or a backfill's slice ended; each is a success."""

    PUBLISHED = "published"
    ALREADY_PUBLISHED = "already published"  # by an attempt before this one
    ALREADY_APPLIED = "already applied"  # the same of a slice of a backfill
    NO_ROWS = "no rows"


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """Rows of the destination by what a publish did to them."""

    inserted: int
    updated: int
    deleted: int


class CostCounts(TypedDict):
    """The bytes of `PublishCost` as a part of each row about a batch."""

    bytes_scanned: int | None
    bytes_billed: int | None
    bytes_written: int | None


@dataclass(frozen=True, kw_only=True)
class PublishCost:
    """What a publish cost in bytes, each None where the destination does not count them, and the `job` that did it.

    `bytes_scanned`: what a dry run said that it would read; `bytes_billed`: what it was billed; `bytes_written`: the
    data and delete files that its snapshot added.
    """

    bytes_scanned: int | None = None
    bytes_billed: int | None = None
    bytes_written: int | None = None
    job: str = ""

    def to_counts(self) -> CostCounts:
        """Its bytes, for a row."""
        return {
            "bytes_scanned": self.bytes_scanned,
            "bytes_billed": self.bytes_billed,
            "bytes_written": self.bytes_written,
        }

    def add_cost(self, later: "PublishCost") -> "PublishCost":
        """Both costs together; the later job's."""
        counts = {name: _add_known(getattr(self, name), getattr(later, name)) for name in COST_COUNTS}
        return PublishCost(**counts, job=later.job or self.job)


COST_COUNTS = tuple(word.name for word in fields(PublishCost) if word.name != "job")
NOTHING_PUBLISHED = PublishCost(bytes_written=0)


def pick_cost_counts(row: CostCounts) -> CostCounts:
    """The bytes in a row."""
    return {
        "bytes_scanned": row["bytes_scanned"],
        "bytes_billed": row["bytes_billed"],
        "bytes_written": row["bytes_written"],
    }


def read_cost(summary: Mapping[str, str] | None) -> PublishCost:
    """What a publish cost, as its snapshot's summary tells it; of no snapshot, nothing was written."""
    if summary is None:
        return NOTHING_PUBLISHED
    # Iceberg leaves out what it has not added, and counts files in every snapshot
    added_bytes = summary.get("added-files-size", "0" if "total-data-files" in summary else None)
    cost_texts = {"bytes_written": added_bytes} | {
        f"bytes_{name}": summary.get(f"tidegate.bytes-{name}") for name in ("scanned", "billed")
    }
    counts = {name: None if value is None else int(value) for name, value in cost_texts.items()}
    return PublishCost(**counts, job=summary.get("tidegate.job", ""))


def _add_known(first_count: int | None, second_count: int | None) -> int | None:
    return None if first_count is None and second_count is None else (first_count or 0) + (second_count or 0)
