"""The control table: what each batch did, for people and as a shortcut for programs; never needed to be right."""

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tidegate.model import resource_names
from tidegate.model.backfill import AppliedSlice
from tidegate.model.batch import RECORD_COUNTS, PublishedBatch, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.publish_cost import COST_COUNTS, NOTHING_PUBLISHED, PublishOutcome
from tidegate.ports.batch_history import HistoryRow
from tidegate.ports.context import Ports

log = logging.getLogger(__name__)
# The columns of the control table by type, the same in every destination; each may be NULL.
INTEGER_FIELDS = (
    "batch", "published_at_ms", "span", *RECORD_COUNTS, "inserted", "updated", "deleted", "staged_snapshot_id",
    "snapshot_id", "valid_through_ms", "staged_bytes", *COST_COUNTS,
)  # fmt: skip
TEXT_FIELDS = ("table", "attempt", "ranges", "backfill", "written_as")
FRACTION_FIELDS = ("seconds", "stage_seconds")


def record_batch(ports: Ports, staged_batch: StagedBatch, published_batch: PublishedBatch) -> None:
    """Append one batch to the pipeline's control table; a failure is logged, the rows are published all the same.

    Nothing is written for a result that says that another attempt has published: so a retried merge appends no second
    row, and a crash right behind the publish leaves the row out.
    """
    if published_batch.outcome == PublishOutcome.PUBLISHED:
        row = _build_row(ports, staged_batch, published_batch, staged_batch.batch)
        with _log_failure(ports, staged_batch.batch, published_batch.table):
            _append_row(ports, {**row, "valid_through_ms": published_batch.valid_through_ms})


def record_slice(ports: Ports, staged_batch: StagedBatch, applied_slice: AppliedSlice) -> None:
    """Append one slice of a backfill, under the number of the batch that the table stood at; a failure is logged."""
    if applied_slice.outcome == PublishOutcome.PUBLISHED:
        with _log_failure(ports, staged_batch.batch, applied_slice.table):
            state = ports.tables.read_state(applied_slice.table, ports.pipeline.name)
            row = _build_row(ports, staged_batch, applied_slice, state.highest_batch if state else 0)
            _append_row(
                ports, {**row, "backfill": f"{applied_slice.backfill} {applied_slice.slice}/{applied_slice.slices}"}
            )


def find_last_advances(rows: Iterable[HistoryRow]) -> dict[tuple[str, int], int]:
    """By topic and partition: when a batch last moved it, in milliseconds, as far as these rows of history tell.

    The rows come newest first. Once all partitions of a table's newest batch are known, no older row of the table is
    looked into: each names all of them, and the page asks for hundreds of rows every few seconds.
    """
    last_advances, partitions = dict[tuple[str, int], int](), dict[str, set[tuple[str, int]]]()
    for row in rows:
        unknown = partitions.get(row["table"], set()) - last_advances.keys()
        if row["backfill"] is not None or (row["table"] in partitions and not unknown):
            continue
        ranges = list(Ranges.from_dict(json.loads(row["ranges"])))
        partitions.setdefault(row["table"], {(topic, partition) for topic, partition, _, _ in ranges})
        for topic, partition, start, end in ranges:
            if end > start:
                last_advances.setdefault((topic, partition), row["published_at_ms"])
    return last_advances


def _build_row(
    ports: Ports, staged_batch: StagedBatch, published_batch: PublishedBatch | AppliedSlice, batch: int
) -> HistoryRow:
    # batches without rows that went along changed none
    is_last = isinstance(published_batch, AppliedSlice) or staged_batch.batch == published_batch.batch
    cost = published_batch if is_last else NOTHING_PUBLISHED
    counts = staged_batch.counts
    return {
        "batch": batch,
        "table": published_batch.table,
        "attempt": staged_batch.attempt,
        "ranges": json.dumps(staged_batch.ranges.to_dict()),
        "span": counts.span,
        "read": counts.read,
        "staged": counts.staged,
        "superseded": counts.superseded,
        "filtered": counts.filtered,
        "ignored": counts.ignored,
        "dead_lettered": counts.dead_lettered,
        "inserted": published_batch.inserted if is_last else 0,
        "updated": published_batch.updated if is_last else 0,
        "deleted": published_batch.deleted if is_last else 0,
        **cost.to_counts(),
        "seconds": published_batch.seconds,
        "stage_seconds": staged_batch.stage_seconds,
        "staged_bytes": staged_batch.bytes,
        "written_as": getattr(published_batch, "written_as", ""),
        "staged_snapshot_id": staged_batch.snapshot_id,
        "snapshot_id": published_batch.snapshot_id,
        "published_at_ms": ports.now_ms(),
        "valid_through_ms": None,
        "backfill": None,
    }


def _append_row(ports: Ports, row: HistoryRow) -> None:
    ports.history.append_history(resource_names.name_control_table(ports.pipeline), row)


@contextmanager
def _log_failure(ports: Ports, batch: int, table: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # history must not fail a flush or a slice whose rows are published
        place = f"pipeline={ports.pipeline.name} batch={batch} table={table}"
        log.warning("no history: %s: the batch is published, its row of history is lost: %s", place, error)
        log.info("no history: %s", place, exc_info=error)
