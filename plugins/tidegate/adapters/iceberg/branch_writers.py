"""Which pipelines publish into one branch of an Iceberg table: what they share is kept for the slowest of them."""

import re

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from tidegate.adapters.iceberg.table.lineage import Lineage
from tidegate.adapters.iceberg.table.state import read_summary
from tidegate.model import resource_names

POSITION_PATTERN = re.compile(r"tidegate\.([^.]+)\.position")


def list_branch_pipelines(table: Table, branch: str) -> tuple[str, ...]:
    """Pipelines whose position or tag the table carries, without those that publish into another branch alone.

    A pipeline whose tag lies outside of `branch` is left out only if the tag lies on another branch of the user's, and
    nothing of `branch` was published by it: else the branch may have been rolled back.
    """
    refs = table.metadata.refs
    lineage = Lineage(table.metadata)
    by_position = (match[1] for name in table.metadata.properties if (match := POSITION_PATTERN.fullmatch(name)))
    by_tag = (
        resource_names.parse_tag_pipeline(name)
        for name, ref in refs.items()
        if _is_tag(ref) and resource_names.is_ours(name)
    )
    target = branch if branch in refs else "main"
    own_line = _read_branch_line(lineage, table, target)
    other_ids = {
        i
        for name in refs
        if not resource_names.is_ours(name) and name != target
        for i in _read_branch_line(lineage, table, name)
    }
    pipelines = sorted({*by_position, *by_tag})
    return tuple(name for name in pipelines if not _publishes_elsewhere(table, name, own_line, other_ids))


def _publishes_elsewhere(table: Table, pipeline: str, own_line: dict[int, Snapshot], other_ids: set[int]) -> bool:
    tag = table.metadata.refs.get(resource_names.name_tag(pipeline))
    if tag is None or tag.snapshot_id in own_line or tag.snapshot_id not in other_ids:
        return False
    position = resource_names.name_pipeline_property(pipeline, "position")
    return not any(position in read_summary(snapshot) for snapshot in own_line.values())


def _read_branch_line(lineage: Lineage, table: Table, ref: str) -> dict[int, Snapshot]:
    """The snapshots of a branch, none for a tag."""
    reference = table.metadata.refs.get(ref)
    if reference is None or _is_tag(reference):
        return {}
    head = lineage.get_snapshot(reference.snapshot_id)
    return {snapshot.snapshot_id: snapshot for snapshot in lineage.iterate_ancestors(head)}


def _is_tag(ref: object) -> bool:
    return getattr(ref, "snapshot_ref_type", None) == SnapshotRefType.TAG
