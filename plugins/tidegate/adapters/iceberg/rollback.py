"""What a rollback took from a pipeline: the snapshots between an Iceberg table as it stands and the last published."""

from itertools import takewhile

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidegate.adapters.iceberg.table.lineage import Lineage, count_changed_rows, has_changed_row_counts
from tidegate.adapters.iceberg.table.row_count import count_rows
from tidegate.adapters.iceberg.table.state import build_state, read_summary
from tidegate.model import resource_names
from tidegate.model.ownership import PIPELINE
from tidegate.model.table_state import PastSnapshot, Rollback


def find_rollback(table: Table, pipeline: str, branch: str) -> Rollback | None:
    """The two lines of snapshots; None where the table was not rolled back, is empty, or has no tag to go back to."""
    state = build_state(table, pipeline, branch)
    tag = resource_names.name_tag(pipeline)
    lineage = Lineage(table.metadata)
    reference = table.metadata.refs.get(tag)
    head = lineage.get_snapshot(state.snapshot_id)
    tagged = lineage.get_snapshot(reference.snapshot_id) if reference else None
    if not state.is_rolled_back or tagged is None or head is None:
        return None
    now = list(lineage.iterate_ancestors(head))
    tagged_line = list(lineage.iterate_ancestors(tagged))
    shared = {snapshot.snapshot_id for snapshot in now} & {snapshot.snapshot_id for snapshot in tagged_line}
    return Rollback(
        head.snapshot_id,
        tagged.snapshot_id,
        returning_snapshots=_list_until(tagged_line, shared),
        discarded_snapshots=_list_until(now, shared),
        is_traceable=bool(shared) or _have_same_origin(now, tagged_line),
        rows_now=count_rows(table, branch),
        rows_then=count_rows(table, tag),
    )


def _list_until(line: list[Snapshot], shared: set[int]) -> tuple[PastSnapshot, ...]:
    return tuple(
        _describe_snapshot(snapshot)
        for snapshot in takewhile(lambda snapshot: snapshot.snapshot_id not in shared, line)
    )


def _have_same_origin(now: list[Snapshot], tagged_line: list[Snapshot]) -> bool:
    """Whether the snapshot that both lines came from has expired, and its children still name it."""
    origins = (now[-1].parent_snapshot_id, tagged_line[-1].parent_snapshot_id)
    return origins[0] is not None and origins[0] == origins[1]


def _describe_snapshot(snapshot: Snapshot) -> PastSnapshot:
    summary = read_summary(snapshot)
    pipeline = summary.get(PIPELINE, "")
    batch = summary.get(resource_names.name_pipeline_property(pipeline, "batch")) if pipeline else None
    rows = count_changed_rows(snapshot) if has_changed_row_counts(snapshot) else None
    return PastSnapshot(
        snapshot_id=snapshot.snapshot_id,
        at_ms=snapshot.timestamp_ms,
        rows=rows,
        pipeline=pipeline,
        batch=None if batch is None else int(batch),
    )
