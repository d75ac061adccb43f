"""Commits to Iceberg tables, each a set of requirements and the updates that hold only if all of them do."""

import warnings
from collections.abc import Iterable
from uuid import UUID

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.expressions import In, LessThanOrEqual, Or
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from sqlalchemy.exc import OperationalError

from tidegate.adapters.iceberg.table.catalogs import format_name
from tidegate.adapters.iceberg.table.data_files import remove_old_metadata
from tidegate.adapters.port_errors import format_one_line
from tidegate.errors import CommitRefused, ConfigurationError, OutcomeUnknown, RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.model import resource_names
from tidegate.model.table_state import TableCommit

MAIN = "main"
HIGHEST_BATCH_PROPERTY = "tidegate.highest-batch"  # of an intermediate table; the statement that makes it sets it too
NAME_MAPPING = TableProperties.DEFAULT_NAME_MAPPING
RETENTION_FIELDS = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
FOREVER_MS = 2**63 - 1


def commit(table: Table, requirements: Iterable[TableRequirement], updates: Iterable[TableUpdate]) -> None:
    """One commit, tried once. `CommitRefused` if a requirement failed, `OutcomeUnknown` if no answer came.

    PyIceberg's own transactions repeat a refused commit on the moved main: right for data, wrong for a
    compare-and-swap. If the table was dropped meanwhile, a database reports a failed requirement, and a REST server a
    missing table. Changes that do not fit what another writer has made of it meanwhile are refused too: its snapshot on
    another branch has taken the number of ours.
    """
    changes = tuple(updates)
    try:
        response = table.catalog.commit_table(table, tuple(requirements), changes)
    except (CommitFailedException, NoSuchTableError) as error:
        raise CommitRefused(str(error)) from error
    except ValueError as error:
        if table.catalog.load_table(table.name()).metadata_location == table.metadata_location:
            raise
        raise CommitRefused(str(error)) from error
    except CommitStateUnknownException as error:
        raise _build_unknown(table, "the catalog gave no answer", error) from error
    except OperationalError as error:
        raise _build_unknown(table, "the catalog's database failed", error) from error
    hit_failpoint("catalog.committed")
    _require_references(table, changes, response.metadata)
    remove_old_metadata(table, response.metadata)


def _require_references(table: Table, changes: Iterable[TableUpdate], after: TableMetadata) -> None:
    """Refuse a catalog that confirms a commit and does not store its tags and branches: a position needs the tag.

    A catalog that stores one of them stores all. A REST server answers with the present state of the table, and another
    run may have dropped a branch meanwhile.
    """
    names = [change.ref_name for change in changes if isinstance(change, SetSnapshotRefUpdate)]
    missing = [name for name in names if name not in after.refs]
    if missing and not set(after.refs) - {MAIN}:
        raise ConfigurationError(
            f"table={format_name(table)}: its catalog keeps no tags and branches of tables: it took a commit, and "
            f"references={', '.join(missing)} are missing; no batch can be published there exactly once; use another "
            "catalog, see docs/catalogs.md"
        )


def _build_unknown(table: Table, event: str, error: Exception) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"table={format_name(table)}: {event}, and the commit may have been made; the table is read again: "
        f"{format_one_line(error)}"
    )


def start_branch(table: Table, at: tuple[str, int], branch: str, target: str = MAIN) -> None:
    """Start `branch` at a snapshot, given with the table's UUID, if the branch that is written is there."""
    uuid, snapshot_id = at
    requirements = (
        AssertTableUUID(uuid=UUID(uuid)),
        *_require_branch_at(table, target, snapshot_id),
        AssertRefSnapshotId(ref=branch, snapshot_id=None),
    )
    commit(table, requirements, (_build_reference(branch, SnapshotRefType.BRANCH, snapshot_id),))


def _require_branch_at(table: Table, target: str, snapshot_id: int) -> tuple[TableRequirement, ...]:
    """The branch is at the snapshot that was read; if it did not exist then, main is, and it still does not exist."""
    if target in table.metadata.refs:
        return (AssertRefSnapshotId(ref=target, snapshot_id=snapshot_id),)
    main = AssertRefSnapshotId(ref=MAIN, snapshot_id=snapshot_id)
    return (main,) if target == MAIN else (main, AssertRefSnapshotId(ref=target, snapshot_id=None))


def _require_unmoved(table: Table, table_commit: TableCommit, main: int, target: str) -> tuple[TableRequirement, ...]:
    """Table and schema are those of the commit, main stands at that snapshot, and the branch at the head."""
    return (
        AssertTableUUID(uuid=UUID(table_commit.uuid)),
        *_require_branch_at(table, target, main),
        AssertRefSnapshotId(ref=table_commit.branch, snapshot_id=table_commit.head),
        AssertCurrentSchemaId(current_schema_id=table_commit.schema_id),
    )


def commit_rows_and_position(table: Table, table_commit: TableCommit, target: str = MAIN) -> None:
    """The compare-and-swap: main, tag and properties change together, if main, branch, schema and table are unchanged.

    With a `target`, that branch moves, and main stays where it is.
    """
    requirements = _require_unmoved(table, table_commit, table_commit.cut, target)
    updates: list[TableUpdate] = [
        _move_branch(table, target, table_commit.head),
        SetPropertiesUpdate(updates=table_commit.properties),
        RemoveSnapshotRefUpdate(ref_name=table_commit.branch),
    ]
    if table_commit.tag is not None:
        updates.append(_build_reference(table_commit.tag, SnapshotRefType.TAG, table_commit.head))
    commit(table, requirements, updates)


def replace_branch_head(
    table: Table, table_commit: TableCommit, onto: int, snapshot: TableUpdate, target: str = MAIN
) -> None:
    """Add a snapshot above `onto`, and move the commit's branch to it from the head, which is removed."""
    assert isinstance(snapshot, AddSnapshotUpdate)
    requirements = _require_unmoved(table, table_commit, onto, target)
    branch_update = _build_reference(table_commit.branch, SnapshotRefType.BRANCH, snapshot.snapshot.snapshot_id)
    commit(table, requirements, (snapshot, branch_update, RemoveSnapshotsUpdate(snapshot_ids=[table_commit.head])))


def return_to_tag(
    table: Table, line: tuple[int, int], tag: str, properties: dict[str, str], target: str = MAIN
) -> None:
    """Move main from the first snapshot of `line` to the second, which has the tag, if neither has moved."""
    head, tagged = line
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        *_require_branch_at(table, target, head),
        AssertRefSnapshotId(ref=tag, snapshot_id=tagged),
    )
    commit(table, requirements, (_move_branch(table, target, tagged), SetPropertiesUpdate(updates=properties)))


def append_empty(table: Table, branch: str, summary: dict[str, str]) -> None:
    """One snapshot without rows on `branch`."""
    transaction = _add_empty_snapshot(table, branch, summary)
    commit(table, transaction._requirements, transaction._updates)


def _add_empty_snapshot(table: Table, branch: str, summary: dict[str, str]) -> Transaction:
    """Without Arrow, which has no table for each schema (a UUID in a list), and without merging manifests: those of an
    older partition spec may be such that nobody can write them again.
    """
    transaction = table.transaction()
    with transaction.update_snapshot(snapshot_properties=summary, branch=branch).fast_append():
        return transaction


def seed(table: Table, pipeline: str, properties: dict[str, str], target: str = MAIN) -> None:
    """The first snapshot of a table, empty, with the starting position and the tag; refused if there is one already."""
    transaction = _add_empty_snapshot(table, MAIN, properties)
    first = transaction.table_metadata.current_snapshot_id
    if first is None:
        raise RetryLater(f"table={format_name(table)}: no first snapshot could be made; it will be tried again")
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid), AssertRefSnapshotId(ref=MAIN, snapshot_id=None))
    tag = _build_reference(resource_names.name_tag(pipeline), SnapshotRefType.TAG, first)
    if NAME_MAPPING not in table.metadata.properties:  # with it a column may be renamed and is still found
        properties = {**properties, NAME_MAPPING: create_mapping_from_schema(table.schema()).model_dump_json()}
    # the first snapshot of all can only be main's; it holds no row
    branch = [] if target == MAIN else [_build_reference(target, SnapshotRefType.BRANCH, first)]
    commit(table, requirements, (*transaction._updates, *branch, tag, SetPropertiesUpdate(updates=properties)))


def drop_references(table: Table, references: list[str]) -> None:
    """Remove branches."""
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
    commit(table, requirements, [RemoveSnapshotRefUpdate(ref_name=name) for name in references])


def drop_branches(table: Table, branches: list[str], mark: str) -> None:
    """Remove branches and one property; no commit where there are none."""
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=name) for name in branches]
    if mark in table.metadata.properties:
        updates.append(RemovePropertiesUpdate(removals=[mark]))
    if updates:
        commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), updates)


def drop_staged(
    table: Table, up_to_batch: int, numbers: list[int], snapshot_ids: list[int], properties: list[str]
) -> None:
    """Remove batches up to one, and of those `numbers`, their snapshots and counts from an intermediate table."""
    transaction = table.transaction()
    mark = {"tidegate.clean-up": str(up_to_batch)}
    with warnings.catch_warnings():  # their rows may be gone already, and only snapshots and counts be left
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        batch_filter = LessThanOrEqual(term="batch_number", value=up_to_batch)
        rows = (
            Or(batch_filter, In(term="batch_number", literals=set(map(literal, numbers)))) if numbers else batch_filter
        )
        transaction.delete(rows, snapshot_properties=mark)
    updates: list[TableUpdate] = list(transaction._updates)
    expired = [i for i in snapshot_ids if i != transaction.table_metadata.current_snapshot_id]
    if expired:
        updates.append(RemoveSnapshotsUpdate(snapshot_ids=expired))
    if properties:
        updates.append(RemovePropertiesUpdate(removals=properties))
    updates += _record_highest_batch(table, up_to_batch)
    current = table.current_snapshot()
    main = AssertRefSnapshotId(ref=MAIN, snapshot_id=current.snapshot_id if current else None)
    commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid), main), updates)


def drop_counts(table: Table, up_to_batch: int, properties: list[str]) -> None:
    """Remove counts of attempts from an intermediate table."""
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
    commit(
        table,
        requirements,
        [RemovePropertiesUpdate(removals=properties), *_record_highest_batch(table, up_to_batch)],
    )


def _record_highest_batch(table: Table, number: int) -> list[TableUpdate]:
    """Keep the number of a batch that is cleaned up: its snapshot may stay, if it has no rows, without its counts."""
    if number <= int(table.metadata.properties.get(HIGHEST_BATCH_PROPERTY, "0")):
        return []
    return [SetPropertiesUpdate(updates={HIGHEST_BATCH_PROPERTY: str(number)})]


def _move_branch(table: Table, branch: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """The branch at another snapshot, with the retention that a user may have set on it."""
    reference = table.metadata.refs.get(branch)
    branch_update = _build_reference(branch, SnapshotRefType.BRANCH, snapshot_id)
    if reference is None:
        return branch_update
    retention = {name: getattr(reference, name) for name in RETENTION_FIELDS if getattr(reference, name) is not None}
    return branch_update.model_copy(update=retention)


def _build_reference(name: str, kind: SnapshotRefType, snapshot_id: int) -> SetSnapshotRefUpdate:
    # a table's own history.expire.max-ref-age-ms would take the tag away, and with it the proof of the position
    retention = {"max_ref_age_ms": None if name == MAIN else FOREVER_MS}
    unset = {"max_snapshot_age_ms": None, "min_snapshots_to_keep": None}
    return SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id, **retention, **unset)
