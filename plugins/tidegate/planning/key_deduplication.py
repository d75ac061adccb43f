"""Whether a later record of a raw key may stand for the earlier ones, so that these are never decoded or staged.

Where it may, it is not always worth it: choosing the last record of each key moves every record between Spark's tasks.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tidegate.formats.registry import get_format
from tidegate.model.offsets import Ranges
from tidegate.schema.wire_format import OTHER_IDS, WIRE
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.runtime import UseWhen
from tidegate.spec.table import DeleteMode, Table, TableMode

# With these options the key's bytes alone do not identify it, or the last record of a key may make no row.
BESIDE_BYTES = ("wire_format", "ignored_records", WIRE, OTHER_IDS)
# Smaller batches are not sampled: choosing the last records of one takes less than a second.
SAMPLED_MIN_RECORDS = 100_000
MIN_SAMPLED_KEYS = 500  # fewer give no estimate
FREQUENT_KEY_COUNT = 4  # a key seen so often in a sample is counted by itself, not extrapolated
MIN_SUPERSEDED_SHARE = 0.5  # from here on the saved decoding, writing and merging pays for finding the last records


def can_keep_last_per_key(pipeline: Pipeline, table: Table) -> bool:
    """Whether staging only the last record of each raw key provably gives the same table.

    It does if the last record of a key, by offset, decides alone. It does not if a condition looks at values, if
    earlier records become rows too, if every record must be decoded, or if a truncate may lie between two records. One
    key may have several byte forms, so the merge still chooses the last record of each decoded key. The job keeps
    records that hold a placeholder for an unchanged value.
    """
    return (
        table.last_per_key != UseWhen.NEVER
        and table.mode == TableMode.UPSERT_DELETE
        and table.deletes == DeleteMode.HARD
        and not table.sequence_by
        and table.history is None
        and not get_format(table.value.format).holds_several_rows
        and not any(set(BESIDE_BYTES) & set(part.options) for part in (table.key, table.value))
        and not table.key.from_value
        and not table.partial_updates
        and not table.value.applies_truncates
        and _is_found_in_bytes(table.value.unavailable)
        and table.when is None
        and table.route is None
        and table.naming is None
        and table.delete_when is None
        and pipeline.source.errors.max_dead_letters is None
        and not pipeline.source.verify_integrity
    )


def _is_found_in_bytes(placeholder: str | None) -> bool:
    """Whether the job can find the placeholder of unchanged values in the raw bytes, before it decodes a record."""
    return placeholder is None or re.fullmatch("[A-Za-z0-9_]+", placeholder) is not None


def is_deduplication_worth_it(share: float | None) -> bool:
    """Whether enough records would be left out to pay for it; an unknown share counts as enough."""
    return share is None or share >= MIN_SUPERSEDED_SHARE


def estimate_superseded_share(keys: Mapping[tuple[str, int], Sequence[bytes | None]], ranges: Ranges) -> float | None:
    """The estimated share of records that a later record of the same key supersedes; None if too few keys were sampled.

    Two records of a sample have the same key as often as two records of the whole range, so pairs in the sample give
    the number of pairs in the range. Keys seen often are counted by themselves. A record without a key supersedes none.
    """
    spans = {(topic, partition): end - start for topic, partition, start, end in ranges}
    samples = {place: sample for place, sample in keys.items() if len(sample) >= MIN_SAMPLED_KEYS}
    weight = sum(spans[place] for place in samples)
    if not weight:
        return None
    shares = (spans[place] * _estimate_partition_share(sample, spans[place]) for place, sample in samples.items())
    return round(sum(shares) / weight, 2)


def _estimate_partition_share(sample: Sequence[bytes | None], span: int) -> float:
    counts = Counter(key for key in sample if key is not None)
    often = sum(count for count in counts.values() if count >= FREQUENT_KEY_COUNT)
    rare_records = len(sample) - often
    repeat_pairs = sum(count * (count - 1) for count in counts.values() if count < FREQUENT_KEY_COUNT)
    rare_repeats = (
        span * rare_records / len(sample) * repeat_pairs / (rare_records * (rare_records - 1))
        if rare_records > 1
        else 0.0
    )
    return (often + rare_records * rare_repeats / (1 + rare_repeats)) / len(sample)
