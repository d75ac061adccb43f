"""What an Iceberg table says of pipelines: whose it is, where one stands, what a rollback took, who else publishes."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, takewhile

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform

from tidegate.adapters.iceberg.catalog import format_name
from tidegate.adapters.iceberg.files import count_live_rows
from tidegate.adapters.iceberg.format_version import ROW_ID_VERSION, list_reserved_columns
from tidegate.adapters.iceberg.lineage import (
    Lineage,
    count_changed_rows,
    find_emptied_columns,
    has_changed_row_counts,
    read_summary,
)
from tidegate.adapters.iceberg.types import read_table_struct, to_columns
from tidegate.errors import GiveUp
from tidegate.merge.write_mode import WRITTEN_AS_PROPERTY
from tidegate.model import resource_names
from tidegate.model.ownership import (
    KIND_PROPERTY,
    PIPELINE,
    STAGING_KINDS,
    Ownership,
    TableKind,
    check_kind,
    check_mark,
)
from tidegate.model.position import Position
from tidegate.model.table_state import CarriedPosition, Head, PastSnapshot, Rollback, SnapshotLine, TableState
from tidegate.sql.spark import quote_name

COMMITTED_KINDS = (*STAGING_KINDS, TableKind.BATCHES)  # tables that PyIceberg must commit to in each flush
PICKED_PROPERTY = "source-snapshot-id"  # of a snapshot that holds the changes of another one, from another branch
MERGE_MODE_PROPERTY = "write.merge.mode"
MERGE_ON_READ = "merge-on-read"
ANY_SCHEMA_PROPERTY = "write.spark.accept-any-schema"
POSITION_PATTERN = re.compile(r"tidegate\.([^.]+)\.position")


def claim(table: Table, name: str, owner: Ownership) -> dict[str, str]:
    """The properties of a table with our mark; `GiveUp` for another owner or format."""
    properties = table.metadata.properties
    check_mark(name, owner, owner.properties, properties)
    # somebody may have raised its Iceberg format; Spark alone could still write it
    if owner.kind in COMMITTED_KINDS and table.metadata.format_version >= ROW_ID_VERSION:
        raise GiveUp(
            f"table={name} format-version={table.metadata.format_version} kind={owner.kind}: somebody has changed its "
            "format, and PyIceberg cannot commit to it any more; drop it when no batch waits, and it is created again: "
            f"DROP TABLE {quote_name(name)} PURGE"
        )
    return dict(properties)


def check_removable(table: Table, kinds: Collection[str]) -> None:
    """`GiveUp` before anything is removed from another product's table."""
    check_kind(".".join(table.name()), table.metadata.properties.get(KIND_PROPERTY), kinds)


def build_state(table: Table, pipeline: str, branch: str = "main") -> TableState:
    """What one load of the table's metadata says about a pipeline; `branch` is the one that the pipeline writes.

    1. The recorded position is a table property, as snapshots may expire; without it the tagged snapshot's summary.
    2. The tag is on the last published snapshot. If that is no ancestor of the branch's head, the table was rolled
       back. The position is then that of the newest ancestor with one, unless a later batch was cherry-picked.
    3. A snapshot above the tag that has a position was made main by somebody (`fast_forward`): its position counts.
    """
    metadata = table.metadata
    tagged = table.snapshot_by_name(resource_names.name_tag(pipeline))
    current = _find_head(table, branch)
    lineage = Lineage(metadata)
    own_prefix = resource_names.name_pipeline_property(pipeline, "")
    position_snapshots = chain([tagged] if tagged else [], lineage.iterate_ancestors(current))
    recorded = _read_recorded_position(table, pipeline) or _find_carried_position(position_snapshots, pipeline)
    newer = list(lineage.iterate_ancestors_to(current, tagged))
    rolled_back = recorded is not None and (tagged is None or not newer or newer[-1].snapshot_id != tagged.snapshot_id)
    picked_batch = _find_picked_batch(newer, lineage, pipeline) if rolled_back else None
    position = _find_carried_position(newer if rolled_back else newer[:-1], pipeline)
    recorded = recorded if rolled_back else position or recorded
    return TableState(
        uuid=str(metadata.table_uuid),
        snapshot_id=current.snapshot_id if current else None,
        schema_id=metadata.current_schema_id,
        position=(position if picked_batch is None else None) if rolled_back else recorded,
        highest_batch=recorded.batch if recorded else 0,
        columns=to_columns(table.schema()),
        schema=read_table_struct(table),
        emptied_columns=find_emptied_columns(metadata, lineage.iterate_ancestors(current)),
        is_rolled_back=rolled_back,
        recorded_position=recorded,
        marks={name: value for name, value in metadata.properties.items() if name.startswith(own_prefix)},
        snapshot_ms=tagged.timestamp_ms if tagged else 0,
        snapshots_since_publish=len(newer) - 1 if tagged and not rolled_back else 0,
        is_untraceable=rolled_back and tagged is not None and _is_cut_off(newer, tagged),
        is_untagged=rolled_back and tagged is None,
        cherry_picked_batch=picked_batch,
        kind=metadata.properties.get(KIND_PROPERTY, ""),
        total_records=_read_total_records(current),
        dropped_partition=_find_lost_partition(table),
        takes_any_schema=metadata.properties.get(ANY_SCHEMA_PROPERTY, "").lower() == "true",
        rewrites_files=_rewrites_files(table),
        format_version=metadata.format_version,
        reserved_columns=list_reserved_columns(metadata.format_version, rewrites_files=_rewrites_files(table)),
    )


def _read_recorded_position(table: Table, pipeline: str) -> Position | None:
    try:
        return Position.from_properties(pipeline, table.metadata.properties, format_name(table))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        prefix = resource_names.name_pipeline_property(pipeline, "")
        raise GiveUp(
            f"table={format_name(table)}: its properties {prefix}* hold no position any more: somebody has changed "
            f"them: {error}; remove {prefix}position from the table: its last published snapshot has all of them too"
        ) from error


def _rewrites_files(table: Table) -> bool:
    metadata = table.metadata
    return metadata.format_version == 1 or metadata.properties.get(MERGE_MODE_PROPERTY) != MERGE_ON_READ


def _find_lost_partition(table: Table) -> str:
    field_ids = table.schema().field_ids
    fields = (field for spec in table.specs().values() for field in spec.fields)
    # a void partition was taken away on purpose
    return next(
        (f.name for f in fields if f.source_id not in field_ids and not isinstance(f.transform, VoidTransform)), ""
    )


def _read_total_records(snapshot: Snapshot | None) -> int | None:
    if snapshot is None:
        return 0
    total = read_summary(snapshot).get("total-records", "")
    # some writers do not count rows
    return int(total) if total.isdecimal() else None


def _find_head(table: Table, branch: str) -> Snapshot | None:
    reference = table.metadata.refs.get(branch)
    if reference is not None and reference.snapshot_ref_type == SnapshotRefType.TAG:
        raise GiveUp(f"table={format_name(table)}: branch={branch} is a tag there; name a branch, or drop the tag")
    return table.current_snapshot() if reference is None else table.metadata.snapshot_by_id(reference.snapshot_id)


def _is_cut_off(line: list[Snapshot], tagged: Snapshot) -> bool:
    if not line or line[-1].parent_snapshot_id is None:
        return False
    # expiry cut the line above the tag: it may have led there
    return (line[-1].sequence_number or 0) > (tagged.sequence_number or 0)


def _find_carried_position(line: Iterable[Snapshot], pipeline: str) -> Position | None:
    positions = (Position.from_properties(pipeline, read_summary(snapshot)) for snapshot in line)
    return next((position for position in positions if position is not None), None)


def _find_picked_batch(line: Iterable[Snapshot], lineage: Lineage, pipeline: str) -> int | None:
    for snapshot in line:
        summary = read_summary(snapshot)
        # only batches above the position that the line carries count
        if Position.from_properties(pipeline, summary) is not None:
            return None
        number = summary.get(PICKED_PROPERTY, "")
        source = lineage.get_snapshot(int(number)) if re.fullmatch(r"-?\d+", number) else None
        position = Position.from_properties(pipeline, read_summary(source)) if source else None
        if position is not None:
            return position.batch
    return None


def read_ref_head(table: Table, ref: str) -> Head | None:
    """The snapshot that a branch or tag names."""
    snapshot = table.snapshot_by_name(ref)
    if snapshot is None:
        return None
    return Head(snapshot.snapshot_id, snapshot.parent_snapshot_id, read_summary(snapshot))


def list_attempt_branches(table: Table, pipeline: str, up_to_batch: int) -> list[str]:
    """This pipeline's branches of batches up to that number."""
    numbered = {name: resource_names.parse_branch_batch(pipeline, name) for name in list_branches(table)}
    return [name for name, batch in numbered.items() if batch is not None and batch <= up_to_batch]


def list_gone_backfill_branches(table: Table, pipeline: str, is_gone: Callable[[str], bool]) -> list[str]:
    """Branches of this pipeline's backfills and replays that `is_gone`."""
    backfills = {name: resource_names.parse_branch_backfill(pipeline, name) for name in list_branches(table)}
    return [name for name, backfill in backfills.items() if backfill is not None and is_gone(backfill)]


def list_backfill_branches(table: Table, pipeline: str, backfill: str) -> list[str]:
    slices = {name: resource_names.parse_backfill_slice(pipeline, backfill, name) for name in list_branches(table)}
    return [name for name, number in slices.items() if number is not None]


def list_branches(table: Table) -> list[str]:
    # no tags: the name of another pipeline's tag can read like that of our branch
    return [name for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type == SnapshotRefType.BRANCH]


def find_values_rolled_back(table: Table, branch: str, name: str) -> frozenset[str]:
    """Values of `name` in summaries of snapshots that `branch` does not descend from."""
    values = {s.snapshot_id: value for s in table.metadata.snapshots if (value := read_summary(s).get(name))}
    if not values:
        return frozenset()
    stays = _list_staying(table, list(Lineage(table.metadata).iterate_ancestors(_find_head(table, branch))))
    return frozenset(values.values()) - {value for number, value in values.items() if number in stays}


def read_snapshot_line(table: Table, branch: str, pipeline: str) -> SnapshotLine:
    line = list(Lineage(table.metadata).iterate_ancestors(_find_head(table, branch)))
    positions = []
    for snapshot in reversed(line):
        summary = read_summary(snapshot)
        position = Position.from_properties(pipeline, summary, format_name(table))
        if position is not None:
            carried = CarriedPosition(
                snapshot_id=snapshot.snapshot_id,
                at_ms=snapshot.timestamp_ms,
                batch=position.batch,
                staged_attempt=position.staged_attempt,
                offsets=position.offsets,
                is_batch=WRITTEN_AS_PROPERTY in summary,
            )
            positions.append(carried)
    known = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    staying = _list_staying(table, line)
    return SnapshotLine(tuple(positions), frozenset(known - staying), frozenset(staying))


def _list_staying(table: Table, line: Sequence[Snapshot]) -> set[int]:
    # cherrypick_snapshot puts a snapshot's rows onto the branch, too
    stays = {s.snapshot_id for s in line} | {int(read_summary(s).get(PICKED_PROPERTY, "0")) for s in line}
    # expiry may have cut the line: an older snapshot may lie behind the cut
    return stays | (_list_behind_cut(table.metadata.snapshots, line[-1]) if line else set())


def _list_behind_cut(snapshots: Sequence[Snapshot], oldest: Snapshot) -> set[int]:
    end = oldest.sequence_number or 0
    number_by_id = {s.snapshot_id: s.sequence_number or 0 for s in snapshots}
    if oldest.parent_snapshot_id is not None:
        return {snapshot_id for snapshot_id, number in number_by_id.items() if number <= end}
    # PyIceberg's expiry also removes the parent's id, as if the table had been replaced; one between must have expired:
    # without a gap in the numbers there was none
    numbers = sorted(number_by_id.values())
    place = bisect_left(numbers, end)
    return {
        snapshot_id
        for snapshot_id, number in number_by_id.items()
        if number < end and place - bisect_right(numbers, number) < end - number - 1
    }


def compare_with_tag(table: Table, pipeline: str, branch: str) -> Rollback | None:
    """The two lines of snapshots; None without a rollback, without rows, or without a tag to return to."""
    state = build_state(table, pipeline, branch)
    tag = resource_names.name_tag(pipeline)
    lineage = Lineage(table.metadata)
    head = lineage.get_snapshot(state.snapshot_id)
    tagged = table.snapshot_by_name(tag)
    if not state.is_rolled_back or tagged is None or head is None:
        return None
    now = list(lineage.iterate_ancestors(head))
    tagged_line = list(lineage.iterate_ancestors(tagged))
    shared = {snapshot.snapshot_id for snapshot in now} & {snapshot.snapshot_id for snapshot in tagged_line}
    # their common parent may have expired, and its children still name it
    origins = (now[-1].parent_snapshot_id, tagged_line[-1].parent_snapshot_id)
    has_one_origin = origins[0] is not None and origins[0] == origins[1]
    return Rollback(
        head.snapshot_id,
        tagged.snapshot_id,
        returning_snapshots=_list_until(tagged_line, shared),
        discarded_snapshots=_list_until(now, shared),
        is_traceable=bool(shared) or has_one_origin,
        rows_now=count_live_rows(table, branch),
        rows_then=count_live_rows(table, tag),
    )


def _list_until(line: list[Snapshot], shared: set[int]) -> tuple[PastSnapshot, ...]:
    own = takewhile(lambda snapshot: snapshot.snapshot_id not in shared, line)
    return tuple(_describe_snapshot(snapshot) for snapshot in own)


def _describe_snapshot(snapshot: Snapshot) -> PastSnapshot:
    summary = read_summary(snapshot)
    pipeline = summary.get(PIPELINE, "")
    batch = summary.get(resource_names.name_pipeline_property(pipeline, "batch")) if pipeline else None
    return PastSnapshot(
        snapshot_id=snapshot.snapshot_id,
        at_ms=snapshot.timestamp_ms,
        rows=count_changed_rows(snapshot) if has_changed_row_counts(snapshot) else None,
        pipeline=pipeline,
        batch=None if batch is None else int(batch),
    )


def list_branch_pipelines(table: Table, branch: str) -> tuple[str, ...]:
    """Pipelines whose position or tag the table carries, without those that publish only into another branch."""
    refs = table.metadata.refs
    lineage = Lineage(table.metadata)
    tags = {name for name, ref in refs.items() if ref.snapshot_ref_type == SnapshotRefType.TAG}
    by_position = (match[1] for name in table.metadata.properties if (match := POSITION_PATTERN.fullmatch(name)))
    by_tag = (resource_names.parse_tag_pipeline(name) for name in tags if resource_names.is_ours(name))
    target = branch if branch in refs else "main"
    # a tag outside of the branch counts unless it is on another branch of the user: it may have been rolled back
    lines = {
        name: {snapshot.snapshot_id: snapshot for snapshot in lineage.iterate_ancestors(table.snapshot_by_name(name))}
        for name in refs
        if name not in tags and (name == target or not resource_names.is_ours(name))
    }
    own_line = lines.pop(target, {})
    other_ids = {snapshot_id for line in lines.values() for snapshot_id in line}
    pipelines = sorted({*by_position, *by_tag})
    return tuple(name for name in pipelines if not _publishes_elsewhere(table, name, own_line, other_ids))


def _publishes_elsewhere(table: Table, pipeline: str, own_line: dict[int, Snapshot], other_ids: set[int]) -> bool:
    tag = table.metadata.refs.get(resource_names.name_tag(pipeline))
    if tag is None or tag.snapshot_id in own_line or tag.snapshot_id not in other_ids:
        return False
    position = resource_names.name_pipeline_property(pipeline, "position")
    return not any(position in read_summary(snapshot) for snapshot in own_line.values())
