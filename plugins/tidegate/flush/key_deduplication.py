"""Which records a batch needs: where only the last one of each raw key counts, and whether finding those pays."""

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
    return (
        # the last record of a key, by offset, must decide alone; keys have several byte forms, so the merge chooses
        # once more
        table.last_per_key != UseWhen.NEVER
        and table.mode == TableMode.UPSERT_DELETE
        and table.deletes == DeleteMode.HARD
        and not table.sequence_by
        and table.history is None
        and not get_format(table.value.format).holds_several_rows
        and not any(set(BESIDE_BYTES) & set(part.options) for part in (table.key, table.value))
        and not table.key.from_value
        and not table.folds_records
        and not table.value.adds_columns  # which columns there are must not depend on what a later record supersedes
        and not table.value.applies_truncates
        # the job looks for the placeholder in the raw bytes, before it decodes a record
        and (table.value.unavailable is None or re.fullmatch("[A-Za-z0-9_]+", table.value.unavailable) is not None)
        and table.when is None
        and table.route is None
        and table.naming is None
        and table.delete_when is None
        and pipeline.source.errors.max_dead_letters is None
        and not pipeline.source.verify_integrity
    )


def is_deduplication_worth_it(share: float | None) -> bool:
    return share is None or share >= MIN_SUPERSEDED_SHARE


def estimate_superseded_share(keys: Mapping[tuple[str, int], Sequence[bytes | None]], ranges: Ranges) -> float | None:
    """Estimate the share of records that a later record of their key supersedes; None if too few keys were sampled."""
    spans = {(topic, partition): end - start for topic, partition, start, end in ranges}
    # two records of a sample have one key as often as two records of the whole range
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
