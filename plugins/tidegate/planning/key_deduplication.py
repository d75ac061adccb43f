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

# options by which more than a key's bytes says what it is, or by which the last record of a key may be no row's
BESIDE_BYTES = ("wire_format", "ignored_records", WIRE, OTHER_IDS)
# offsets of a batch from which its keys are looked at; choosing the last records of a smaller one costs no second
SAMPLED_MIN_RECORDS = 100_000
MIN_SAMPLED_KEYS = 500  # keys: fewer say nothing
FREQUENT_KEY_COUNT = 4  # times in a sample: a key by itself, which says nothing of the others
MIN_SUPERSEDED_SHARE = (
    0.5  # of the records: what it costs to leave them out is then saved in decoding, writing and merging them
)


def can_keep_last_per_key(pipeline: Pipeline, table: Table) -> bool:
    """Whether staging only the last record of each raw key provably gives the same table.

    Only where the last record of a key decides alone, by its offset: not where a condition looks at a value, where
    earlier records become rows too, where every record is to be decoded, or where a truncate may lie between them. One
    key can have several byte forms, so the merge chooses the last record of the decoded key all the same. Records in
    which the source holds the place of an unchanged value are not left out by the job.
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
        and pipeline.source.errors.set_aside is None
        and not pipeline.source.verify_integrity
    )


def _is_found_in_bytes(placeholder: str | None) -> bool:
    """Whether records with the placeholder, which do not decide alone, are told apart before they are decoded."""
    return placeholder is None or re.fullmatch("[A-Za-z0-9_]+", placeholder) is not None


def is_deduplication_worth_it(share: float | None) -> bool:
    """Whether so many records would be left out that it pays; where nothing is known, it is done."""
    return share is None or share >= MIN_SUPERSEDED_SHARE


def estimate_superseded_share(keys: Mapping[tuple[str, int], Sequence[bytes | None]], ranges: Ranges) -> float | None:
    """About which share of the records a later one of their key supersedes; None where too few keys were seen.

    From how many records of each partition's sample have the same key: two records of `n` have it by chance as often
    as two of the whole range. Keys that are seen often stand for themselves; a record without a key is of no other.
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
    rest = len(sample) - often
    same = sum(count * (count - 1) for count in counts.values() if count < FREQUENT_KEY_COUNT)
    others = span * rest / len(sample) * same / (rest * (rest - 1)) if rest > 1 else 0.0
    return (often + rest * others / (1 + others)) / len(sample)
