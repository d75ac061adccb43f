"""backfill, third part: apply one staged slice, only where no later record of a key exists up to the position."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tidegate.errors import CommitRefused, GiveUp, PositionLost, RetryLater
from tidegate.merge.compare_and_swap import Swap, publish_head, retry_commits, write_on_branch
from tidegate.merge.row_changes import count_changes
from tidegate.merge.statements import render_backfill_statements
from tidegate.model import resource_names
from tidegate.model.backfill import AppliedSlice
from tidegate.model.batch import StagedBatch
from tidegate.model.publish_cost import PublishOutcome, read_cost
from tidegate.model.table_state import StagedSource
from tidegate.ports.context import Head, TableState
from tidegate.progress.position_checks import refuse_cut
from tidegate.progress.topic_log import filter_table_log, read_log
from tidegate.reprocess.backfill_plan import refuse_waiting_letters, require_position
from tidegate.reprocess.backfill_stage import Slice, stage_missing_slice
from tidegate.tables.columns import list_destination_columns, resolve_columns
from tidegate.tables.compatibility import check_mergeable
from tidegate.tables.undone_backfills import build_slice_note

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _SliceRound:
    """What holds for one round: the table as it was read, the slice as it is staged, and when the work began."""

    slice: Slice
    state: TableState
    staged: StagedBatch
    started_ms: int


def merge_slice(table_slice: Slice) -> tuple[AppliedSlice, StagedBatch | None]:
    """Apply one slice and return what changed; a slice that is applied already is a success too.

    1. Read the table, and stage what was flushed into it since the slice was staged: it may decide.
    2. Cut a branch from that snapshot and merge the slice's records into it, except keys with a later record.
    3. Publish as a flush does, but leave position and tag alone; then the backfill's own table says that it is applied.

    Main moved, by a flush or by others: back to 1, so that a newer record is never overwritten.
    """
    return retry_commits(
        table_slice.ports, table_slice.message_prefix, partial(_merge_round, table_slice, table_slice.ports.now_ms())
    )


def _merge_round(table_slice: Slice, started_ms: int) -> tuple[AppliedSlice, StagedBatch | None]:
    tables, name = table_slice.ports.tables, table_slice.ports.pipeline.name
    state = tables.read_state(table_slice.table.name, name)
    table_slice.check_same_topics(require_position(table_slice.ports, table_slice.table, state).topic_ids)
    if state is None or table_slice.is_applied:
        return _build_result(table_slice, None, None, started_ms, PublishOutcome.ALREADY_APPLIED), None
    position = table_slice.require_position(state)
    slice_ranges = table_slice.all_ranges[table_slice.number - 1]
    refuse_waiting_letters(table_slice.ports, table_slice.table, slice_ranges, position)
    table = resolve_columns(table_slice.table, table_slice.ports.pipeline.source.metadata, state)
    check_mergeable(table_slice.ports.pipeline, table, state)
    columns = list_destination_columns(table, table_slice.ports.pipeline.source.metadata)
    if tables.evolve(table.name, columns, add=table.add_columns, widen=table.widen, relax=table.relax):
        state = tables.read_state(table_slice.table.name, name) or state
        position = table_slice.require_position(state)
    staged_batch = next(
        batch
        for batch in stage_missing_slice(table_slice, position.offsets).batches
        if batch.batch == table_slice.number
    )
    log_now = read_log(table_slice.ports)  # once all is read: neither an id nor an epoch comes back
    table_slice.check_same_topics(log_now.topic_ids)
    refuse_cut(table_slice.ports, table, position, filter_table_log(log_now, table))
    if not staged_batch.counts.staged:
        return _build_result(table_slice, None, staged_batch, started_ms, PublishOutcome.NO_ROWS), staged_batch
    return _merge_and_publish(_SliceRound(table_slice, state, staged_batch, started_ms)), staged_batch


def _merge_and_publish(slice_round: _SliceRound) -> AppliedSlice:
    table_slice, ports = slice_round.slice, slice_round.slice.ports
    name, attempt = ports.pipeline.name, ports.new_attempt()
    branch = resource_names.name_backfill_branch(
        name, table_slice.backfill.id, number=table_slice.number, attempt=attempt
    )
    facts = {
        "id": table_slice.backfill.id,
        "slice": table_slice.number,
        "slices": len(table_slice.all_ranges),
        "attempt": slice_round.staged.attempt,
    }
    ranges = slice_round.staged.ranges.to_dict()
    swap = Swap(
        ports=ports,
        message_prefix=table_slice.message_prefix,
        table=table_slice.table.name,
        state=slice_round.state,
        branch=branch,
        attempt=attempt,
        properties={},
        guard=partial(_check_same_table, slice_round),
        summary={
            "tidegate.pipeline": name,
            resource_names.SLICE_PROPERTY: table_slice.label,
            resource_names.BACKFILL_PROPERTY: build_slice_note(
                name, table_slice.backfill.asked, {**facts, "ranges": ranges}
            ),
        },
        source=StagedSource(table_slice.intermediate, slice_round.staged.batch, slice_round.staged.attempt),
    )
    table = resolve_columns(table_slice.table, ports.pipeline.source.metadata, slice_round.state)
    statements = render_backfill_statements(ports, table, slice_round.staged, branch, table_slice.intermediate)
    head = write_on_branch(swap, table_slice.number, *statements)
    head = publish_head(swap, head)
    with suppress(CommitRefused, RetryLater, GiveUp):  # without it, or its table, the slice is applied once more
        ports.history.mark_applied(table_slice.intermediate, table_slice.number)
    log.info("applied: %s snapshot=%s", table_slice.message_prefix, head.snapshot_id)
    return _build_result(table_slice, head, slice_round.staged, slice_round.started_ms, PublishOutcome.PUBLISHED)


def _check_same_table(slice_round: _SliceRound, state: TableState | None) -> None:
    """Raise when the branch was cut from another table than the one that is there."""
    if state is None or state.uuid != slice_round.state.uuid:
        raise PositionLost(
            f"{slice_round.slice.message_prefix}: the table was dropped, or replaced by another of the same name, "
            "during the backfill; nothing of this slice was applied; flush, then begin the backfill again"
        )


def _build_result(
    table_slice: Slice, head: Head | None, staged_batch: StagedBatch | None, started_ms: int, outcome: PublishOutcome
) -> AppliedSlice:
    return AppliedSlice(
        table=table_slice.table.name,
        backfill=table_slice.backfill.id,
        slice=table_slice.number,
        slices=len(table_slice.all_ranges),
        ranges=table_slice.all_ranges[table_slice.number - 1],
        staged=staged_batch.counts.staged if staged_batch else 0,
        **vars(count_changes(head)),
        **vars(read_cost(head.summary if head else None)),
        seconds=round((table_slice.ports.now_ms() - started_ms) / 1000, 2),
        snapshot_id=head.snapshot_id if head else None,
        outcome=outcome,
    )
