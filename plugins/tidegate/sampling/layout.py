"""Proposes a table's partitions and its flush interval from the size and the rate of the log."""

from collections.abc import Sequence
from typing import NamedTuple

from tidegate.sampling.columns import PLAIN_NAME_PATTERN, ProposedColumn, quote_if_needed
from tidegate.sampling.samples import TopicSample, count

LARGE_LOG = 1_000_000  # offsets; below that one partition is read in a moment
BUCKETS = 16
BUCKET_TYPES = ("INT", "BIGINT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
TIME_TYPES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")
# seconds between records beyond which a minute is vain
SLOW_SECONDS = 600
SLOW_INTERVAL = "10m"
USUAL_INTERVAL = "60s"


class Proposal(NamedTuple):
    """A value with the reason for it."""

    value: str
    reason: str


def propose_partitioning(
    sample: TopicSample, columns: Sequence[ProposedColumn], keys: Sequence[ProposedColumn]
) -> Proposal:
    """Propose a partition transform, or none. Merges find rows by key; appended tables are mostly read by time."""
    if sample.span < LARGE_LOG:
        return Proposal("", f"none: {count(sample.span, 'offset')} in the log; decide before the table grows large")
    if keys:
        first = next((c for c in keys if c.type in BUCKET_TYPES and PLAIN_NAME_PATTERN.fullmatch(c.name)), None)
        if first is None:
            return Proposal("", "none: no field of the key has a plain name and a type that buckets can be made of")
        return Proposal(
            f"bucket({BUCKETS}, {quote_if_needed(first.name)})",
            f"{sample.span} offsets in the log, rows are found by key",
        )
    plain = [c for c in columns if c.type in TIME_TYPES and PLAIN_NAME_PATTERN.fullmatch(c.name)]
    times = [c for c in plain if any("never null" in remark for remark in c.remarks)]
    if len(times) != 1:
        return Proposal("", f"none: {len(times)} columns hold a time in every row; choose one, e.g. days(column)")
    return Proposal(
        f"days({quote_if_needed(times[0].name)})", f"{sample.span} offsets in the log, {times[0].name} is its one time"
    )


def propose_interval(sample: TopicSample) -> Proposal:
    """Propose the flush interval: one minute, or longer if records are rare."""
    times = [record.timestamp_ms for record in sample.records if record.timestamp_ms > 0]
    seconds = (max(times) - min(times)) / 1000 if times else 0.0
    if len(times) < 2 or seconds <= 0:
        return Proposal(USUAL_INTERVAL, "the default; the sample tells no pace")
    pause = seconds / max(1, sample.span)
    if pause > SLOW_SECONDS:
        return Proposal(SLOW_INTERVAL, f"a record each {pause / 60:.0f} minutes by the records' own times")
    pace = f"{1 / pause:.1f} records a second" if pause < 1 else f"a record each {pause:.0f} s"
    return Proposal(USUAL_INTERVAL, f"the default; about {pace} by the records' own times")
