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
from tidegate.progress.topic_log import read_log
from tidegate.reprocess.backfill_plan import require_position
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


def merge_slice(one: Slice) -> tuple[AppliedSlice, StagedBatch | None]:
    """Apply one slice and return what changed; a slice that is applied already is a success too.

    1. Read the table, and stage what was flushed into it since the slice was staged: it may decide.
    2. Cut a branch from that snapshot and merge the slice's records into it, except keys with a later record.
    3. Publish as a flush does, but leave position and tag alone; then the backfill's own table says that it is applied.

    Main moved, by a flush or by others: back to 1, so that a newer record is never overwritten.
    """
    return retry_commits(one.ports, one.where, partial(_merge_round, one, one.ports.now_ms()))


def _merge_round(one: Slice, started_ms: int) -> tuple[AppliedSlice, StagedBatch | None]:
    tables, name = one.ports.tables, one.ports.pipeline.name
    state = tables.read_state(one.table.name, name)
    one.check_same_topics(require_position(one.ports, one.table, state).topic_ids)
    if state is None or one.is_applied:
        return _build_result(one, None, None, started_ms, PublishOutcome.ALREADY_APPLIED), None
    position = one.require_position(state)
    table = resolve_columns(one.table, one.ports.pipeline.source.metadata, state)
    check_mergeable(one.ports.pipeline, table, state)
    columns = list_destination_columns(table, one.ports.pipeline.source.metadata)
    if tables.evolve(table.name, columns, add=table.add_columns, widen=table.widen, relax=table.relax):
        state = tables.read_state(one.table.name, name) or state
        position = one.require_position(state)
    staged = next(batch for batch in stage_missing_slice(one, position.offsets).batches if batch.batch == one.number)
    one.check_same_topics(read_log(one.ports).topic_ids)  # once all is read: an id never comes back
    if not staged.counts.staged:
        return _build_result(one, None, staged, started_ms, PublishOutcome.NO_ROWS), staged
    return _merge_and_publish(_SliceRound(one, state, staged, started_ms)), staged


def _merge_and_publish(cut: _SliceRound) -> AppliedSlice:
    one, ports = cut.slice, cut.slice.ports
    name, attempt = ports.pipeline.name, ports.new_attempt()
    branch = resource_names.name_backfill_branch(name, one.backfill.id, number=one.number, attempt=attempt)
    facts = {"id": one.backfill.id, "slice": one.number, "slices": len(one.all_ranges), "attempt": cut.staged.attempt}
    ranges = cut.staged.ranges.to_dict()
    swap = Swap(
        ports=ports,
        where=one.where,
        table=one.table.name,
        state=cut.state,
        branch=branch,
        attempt=attempt,
        properties={},
        guard=partial(_check_same_table, cut),
        summary={
            "tidegate.pipeline": name,
            resource_names.SLICE_PROPERTY: one.label,
            resource_names.BACKFILL_PROPERTY: build_slice_note(name, one.backfill.asked, {**facts, "ranges": ranges}),
        },
        source=StagedSource(one.intermediate, cut.staged.batch, cut.staged.attempt),
    )
    table = resolve_columns(one.table, ports.pipeline.source.metadata, cut.state)
    statements = render_backfill_statements(ports, table, cut.staged, branch, one.intermediate)
    head = write_on_branch(swap, one.number, *statements)
    head = publish_head(swap, head)
    with suppress(CommitRefused, RetryLater, GiveUp):  # without it, or its table, the slice is applied once more
        ports.history.mark_applied(one.intermediate, one.number)
    log.info("applied: %s snapshot=%s", one.where, head.snapshot_id)
    return _build_result(one, head, cut.staged, cut.started_ms, PublishOutcome.PUBLISHED)


def _check_same_table(cut: _SliceRound, state: TableState | None) -> None:
    """Raise when the branch was cut from another table than the one that is there."""
    if state is None or state.uuid != cut.state.uuid:
        raise PositionLost(
            f"{cut.slice.where}: the table was dropped, or replaced by another of the same name, during the backfill; "
            "nothing of this slice was applied; flush, then begin the backfill again"
        )


def _build_result(
    one: Slice, head: Head | None, staged: StagedBatch | None, started_ms: int, outcome: PublishOutcome
) -> AppliedSlice:
    return AppliedSlice(
        table=one.table.name,
        backfill=one.backfill.id,
        slice=one.number,
        slices=len(one.all_ranges),
        ranges=one.all_ranges[one.number - 1],
        staged=staged.counts.staged if staged else 0,
        **vars(count_changes(head)),
        **vars(read_cost(head.summary if head else None)),
        seconds=round((one.ports.now_ms() - started_ms) / 1000, 2),
        snapshot_id=head.snapshot_id if head else None,
        outcome=outcome,
    )
