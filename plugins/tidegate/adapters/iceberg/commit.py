"""Commits to Iceberg tables, each a set of requirements and the updates that hold only if all of them do."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from sqlalchemy.exc import OperationalError

from tidegate.adapters.iceberg.catalog import MAIN, IcebergPort, format_name
from tidegate.adapters.iceberg.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.files import remove_file, remove_old_metadata
from tidegate.adapters.iceberg.format_version import ROW_ID_VERSION
from tidegate.adapters.iceberg.lineage import Lineage, read_summary
from tidegate.adapters.iceberg.metadata_document import RETENTION_FIELDS
from tidegate.adapters.iceberg.pruning import KeyRange, find_key_ranges
from tidegate.adapters.iceberg.pyiceberg_private import SnapshotWithoutRows, get_updates, write_data_files
from tidegate.adapters.iceberg.reparent import NewParent, ReparentedSnapshot, WrittenFiles, find_written_files
from tidegate.adapters.iceberg.table_state import (
    compare_with_tag,
    find_values_rolled_back,
    list_attempt_branches,
    list_gone_backfill_branches,
    read_ref_head,
    read_snapshot_line,
)
from tidegate.adapters.port_errors import format_one_line
from tidegate.errors import CommitRefused, ConfigurationError, OutcomeUnknown
from tidegate.failpoints import hit_failpoint
from tidegate.model import resource_names
from tidegate.model.merge_input import MergeInput
from tidegate.model.position import Position
from tidegate.model.table_state import Head, Rollback, SnapshotLine, TableCommit, TableState
from tidegate.ports.destination import BranchCommits

if TYPE_CHECKING:
    import pyarrow as pa

NAME_MAPPING = TableProperties.DEFAULT_NAME_MAPPING
FOREVER_MS = 2**63 - 1
MAX_COMMITS = 5  # of a snapshot without rows; each takes milliseconds


class IcebergCommits(IcebergPort, BranchCommits):
    """A merge is written on a branch beside the table; one commit moves main, the tag and the position together."""

    @translate_iceberg_errors
    def has_branches(self, table: str) -> bool:
        return True

    @translate_iceberg_errors
    def seed(self, table: str, pipeline: str, position: Position) -> None:
        seed_table(self._load_table(table), pipeline, position.to_properties(pipeline), self._branch(table))

    @translate_iceberg_errors
    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        if state.snapshot_id is None:
            raise CommitRefused(f"table={table} has no snapshot to cut from")
        cut_branch(self._load_table(table), (state.uuid, state.snapshot_id), branch, self._branch(table))

    @translate_iceberg_errors
    def read_head(self, table: str, branch: str) -> Head | None:
        return read_ref_head(self._load_table(table), branch)

    @translate_iceberg_errors
    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        # tried again where others commit to other branches; refused where this one has moved
        loaded_table = self._load_table(table)
        head = loaded_table.metadata.refs.get(branch)
        for _ in range(MAX_COMMITS):
            try:
                return append_snapshot_without_rows(loaded_table, branch, summary)
            except CommitRefused:
                loaded_table = self._load_table(table)
                if loaded_table.metadata.refs.get(branch) != head:
                    raise
        raise CommitRefused(f"table={table}: other commits were faster {MAX_COMMITS} times")

    @translate_iceberg_errors
    def publish(self, table_commit: TableCommit) -> None:
        # The compare-and-swap: branch, tag and properties change together, if branch, schema and table are unchanged.
        # The branch is main, or the one that is written in place of it: then main stays where it is.
        table = self._load_table(table_commit.table)
        target = self._branch(table_commit.table)
        updates: list[TableUpdate] = [
            _move_branch(table, target, table_commit.head),
            SetPropertiesUpdate(updates=table_commit.properties),
            RemoveSnapshotRefUpdate(ref_name=table_commit.branch),
        ]
        if table_commit.tag is not None:
            updates.append(build_tag(table_commit.tag, table_commit.head))
        commit(table, updates, _require_unmoved(table, table_commit, table_commit.cut, target))

    @translate_iceberg_errors
    def reparent(
        self, table_commit: TableCommit, onto: int, keys: MergeInput | None, summary: dict[str, str] | None = None
    ) -> Head | None:
        table = self._load_table(table_commit.table)
        ranges: tuple[KeyRange, ...] | None = None
        if keys is not None:
            staging_table = self.catalogs.table(keys["source"])
            ranges = () if staging_table is None else find_key_ranges(staging_table, keys)
        written_files = find_written_files(table, table_commit, onto, ranges)
        if written_files is None:
            return None
        parent = NewParent(onto, summary or {})
        _replace_branch_head(table, table_commit, parent, written_files, self._branch(table_commit.table))
        return self.read_head(table_commit.table, table_commit.branch)

    @translate_iceberg_errors
    def note(self, table: str, state: TableState, properties: dict[str, str]) -> None:
        loaded_table = self._load_table(table)
        changed = [name for name in properties if loaded_table.properties.get(name) != state.marks.get(name)]
        if changed:
            raise CommitRefused(f"table={table}: property={changed[0]} has changed since the table was read")
        requirements: list[TableRequirement] = [AssertTableUUID(uuid=UUID(state.uuid))]
        if state.snapshot_id is not None:
            requirements += _require_branch_at(loaded_table, self._branch(table), state.snapshot_id)
        commit(loaded_table, [SetPropertiesUpdate(updates=properties)], requirements)

    @translate_iceberg_errors
    def fast_forward(self, table: str, branch: str, attempt: str) -> None:
        for _ in range(MAX_COMMITS):
            loaded_table = self._load_table(table)
            lineage = Lineage(loaded_table.metadata)
            main = loaded_table.current_snapshot()
            reference = loaded_table.metadata.refs.get(branch)
            if reference is None:
                if any(read_summary(s).get("tidegate.attempt") == attempt for s in lineage.iterate_ancestors(main)):
                    return None
                raise CommitRefused(f"table={table}: branch={branch} is gone")
            line = lineage.iterate_ancestors(lineage.get_snapshot(reference.snapshot_id))
            if main is not None and all(snapshot.snapshot_id != main.snapshot_id for snapshot in line):
                raise CommitRefused(f"table={table}: main moved to snapshot={main.snapshot_id}")
            updates = (
                _move_branch(loaded_table, MAIN, reference.snapshot_id),
                RemoveSnapshotRefUpdate(ref_name=branch),
            )
            requirements = (
                AssertRefSnapshotId(ref=MAIN, snapshot_id=main.snapshot_id if main else None),
                AssertRefSnapshotId(ref=branch, snapshot_id=reference.snapshot_id),
            )
            # tried again where something else of the table has changed
            with suppress(CommitRefused):
                return commit(loaded_table, updates, requirements)
        raise CommitRefused(f"table={table}: other commits were faster {MAX_COMMITS} times")

    @translate_iceberg_errors
    def drop_branch(self, table: str, branch: str) -> None:
        loaded_table = self._load_table(table)
        if branch in loaded_table.metadata.refs:
            commit(loaded_table, [RemoveSnapshotRefUpdate(ref_name=branch)])

    @translate_iceberg_errors
    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        loaded_table = self.catalogs.table(table)
        if loaded_table is None:
            return 0
        stale = list_attempt_branches(loaded_table, pipeline, up_to_batch)
        stale += list_gone_backfill_branches(loaded_table, pipeline, is_gone)
        if stale:
            commit(loaded_table, [RemoveSnapshotRefUpdate(ref_name=name) for name in stale])
        return len(stale)

    @translate_iceberg_errors
    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        return compare_with_tag(self._load_table(table), pipeline, self._branch(table))

    @translate_iceberg_errors
    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        loaded_table = self._load_table(table)
        target = self._branch(table)
        tagged = rollback.tagged_snapshot_id
        requirements = (
            *_require_branch_at(loaded_table, target, rollback.current_snapshot_id),
            AssertRefSnapshotId(ref=resource_names.name_tag(pipeline), snapshot_id=tagged),
        )
        updates = (_move_branch(loaded_table, target, tagged), SetPropertiesUpdate(updates=properties))
        commit(loaded_table, updates, requirements)

    @translate_iceberg_errors
    def upgrade_format(self, table: str, uuid: str, properties: dict[str, str]) -> None:
        loaded_table = self._load_table(table)
        updates = (UpgradeFormatVersionUpdate(format_version=ROW_ID_VERSION), SetPropertiesUpdate(updates=properties))
        commit(loaded_table, updates, (AssertTableUUID(uuid=UUID(uuid)),))

    @translate_iceberg_errors
    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        # one staged for an audit is on no branch
        snapshots = self._load_table(table).metadata.snapshots
        return [s.snapshot_id for s in snapshots if read_summary(s).get("tidegate.attempt") == attempt]

    @translate_iceberg_errors
    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        branch = self._branch(table)
        return self._read(table, lambda loaded: find_values_rolled_back(loaded, branch, name), frozenset[str]())

    @translate_iceberg_errors
    def read_snapshot_line(self, table: str, pipeline: str) -> SnapshotLine:
        branch = self._branch(table)
        return self._read(table, lambda loaded: read_snapshot_line(loaded, branch, pipeline), SnapshotLine())


def commit(table: Table, updates: Iterable[TableUpdate], requirements: Iterable[TableRequirement] = ()) -> None:
    """One commit to the table that was loaded, tried once, under more requirements if there are.

    `CommitRefused` if a requirement failed, as for a table of the same name, `OutcomeUnknown` if no answer came.

    PyIceberg's own transactions repeat a refused commit on the moved main: right for data, wrong for a
    compare-and-swap.
    """
    changes = tuple(updates)
    is_same_table = AssertTableUUID(uuid=table.metadata.table_uuid)
    try:
        response = table.catalog.commit_table(table, (is_same_table, *requirements), changes)
    # of a table dropped meanwhile, a database reports a failed requirement, a REST server a missing table
    except (CommitFailedException, NoSuchTableError) as error:
        raise CommitRefused(str(error)) from error
    # another writer's snapshot, on another branch, may have taken our sequence number
    except ValueError as error:
        if table.catalog.load_table(table.name()).metadata_location == table.metadata_location:
            raise
        raise CommitRefused(str(error)) from error
    except (CommitStateUnknownException, OperationalError) as error:
        is_database = isinstance(error, OperationalError)
        event = "the catalog's database failed" if is_database else "the catalog gave no answer"
        raise OutcomeUnknown(
            f"table={format_name(table)}: {event}, and the commit may have been made; the table is read again: "
            f"{format_one_line(error)}"
        ) from error
    hit_failpoint("catalog.committed")
    names = [change.ref_name for change in changes if isinstance(change, SetSnapshotRefUpdate)]
    missing = [name for name in names if name not in response.metadata.refs]
    # a catalog that stores one of them stores all; another run may have dropped a branch meanwhile
    if missing and not set(response.metadata.refs) - {MAIN}:
        raise ConfigurationError(
            f"table={format_name(table)}: its catalog keeps no tags and branches of tables: it took a commit, and "
            f"references={', '.join(missing)} are missing; no batch can be published there exactly once; use another "
            "catalog, see docs/catalogs.md"
        )
    remove_old_metadata(table, response.metadata)


def cut_branch(table: Table, at: tuple[str, int], branch: str, target: str = MAIN) -> None:
    """Start `branch` at the snapshot `at` (the table's UUID, snapshot id), if `target` still stands there."""
    uuid, snapshot_id = at
    requirements = (
        AssertTableUUID(uuid=UUID(uuid)),
        *_require_branch_at(table, target, snapshot_id),
        AssertRefSnapshotId(ref=branch, snapshot_id=None),
    )
    commit(table, (_build_reference(branch, SnapshotRefType.BRANCH, snapshot_id),), requirements)


def _require_branch_at(table: Table, target: str, snapshot_id: int) -> tuple[TableRequirement, ...]:
    if target in table.metadata.refs:
        return (AssertRefSnapshotId(ref=target, snapshot_id=snapshot_id),)
    main = AssertRefSnapshotId(ref=MAIN, snapshot_id=snapshot_id)
    # a target that did not exist then is read as main, and must still not exist
    return (main,) if target == MAIN else (main, AssertRefSnapshotId(ref=target, snapshot_id=None))


def _require_unmoved(
    table: Table, table_commit: TableCommit, expected_snapshot_id: int, target: str
) -> tuple[TableRequirement, ...]:
    return (
        AssertTableUUID(uuid=UUID(table_commit.uuid)),
        *_require_branch_at(table, target, expected_snapshot_id),
        AssertRefSnapshotId(ref=table_commit.branch, snapshot_id=table_commit.head),
        AssertCurrentSchemaId(current_schema_id=table_commit.schema_id),
    )


def _replace_branch_head(
    table: Table, table_commit: TableCommit, parent: NewParent, written_files: WrittenFiles, target: str
) -> None:
    head = table.metadata.snapshot_by_id(table_commit.head)
    assert head is not None
    reparented = ReparentedSnapshot(table, head, parent, written_files)
    requirements = _require_unmoved(table, table_commit, parent.snapshot_id, target)
    updates = (
        reparented.write(),
        _build_reference(table_commit.branch, SnapshotRefType.BRANCH, reparented.snapshot_id),
        # if both snapshots had the files, expiring the one that does not become main could delete them
        RemoveSnapshotsUpdate(snapshot_ids=[table_commit.head]),
    )
    try:
        commit(table, updates, requirements)
    except CommitRefused:
        _remove_files(table, reparented.written_paths)
        raise
    manifest_paths = [m.manifest_path for m in head.manifests(table.io) if m.added_snapshot_id == head.snapshot_id]
    _remove_files(table, [*manifest_paths, head.manifest_list])


def _remove_files(table: Table, locations: Iterable[str]) -> None:
    for location in locations:
        # a file that stays is an orphan, which maintenance removes
        with suppress(Exception):
            remove_file(table, location)


def replace_files(table: Table, dropped_files: Iterable[DataFile], parts: Iterable["pa.Table"]) -> int:
    """Take files from main and write `parts` of rows, one after the other; returns how many rows were written.

    `CommitRefused` where main has moved.
    """
    current = table.current_snapshot()
    transaction = table.transaction()
    written_rows = 0
    with transaction.update_snapshot().overwrite() as overwrite:
        for dropped_file in dropped_files:
            overwrite.delete_data_file(dropped_file)
        for rows in parts:
            written_rows += rows.num_rows
            for file in write_data_files(transaction.table_metadata, rows, table.io):
                overwrite.append_data_file(file)
    unmoved = AssertRefSnapshotId(ref=MAIN, snapshot_id=current.snapshot_id if current else None)
    commit(table, get_updates(transaction), (unmoved,))
    return written_rows


def append_snapshot_without_rows(table: Table, branch: str, summary: dict[str, str]) -> None:
    """A snapshot above a branch's head, or the first one of all; `CommitRefused` where the branch has moved."""
    reference = table.metadata.refs.get(branch)
    head = None if reference is None else reference.snapshot_id
    snapshot = SnapshotWithoutRows(table, head, summary)
    updates = (snapshot.write(), _move_branch(table, branch, snapshot.snapshot_id))
    commit(table, updates, (AssertRefSnapshotId(ref=branch, snapshot_id=head),))


def seed_table(table: Table, pipeline: str, properties: dict[str, str], target: str = MAIN) -> None:
    """Make a table's first snapshot, empty, with the starting position and the tag; refused if it has one."""
    first = SnapshotWithoutRows(table, None, properties)
    is_empty = AssertRefSnapshotId(ref=MAIN, snapshot_id=None)
    tag = build_tag(resource_names.name_tag(pipeline), first.snapshot_id)
    if NAME_MAPPING not in table.metadata.properties:  # with it a column may be renamed and is still found
        properties = {**properties, NAME_MAPPING: create_mapping_from_schema(table.schema()).model_dump_json()}
    # the first snapshot of all can only be main's; it holds no row
    branches = [_move_branch(table, name, first.snapshot_id) for name in dict.fromkeys((MAIN, target))]
    updates = (first.write(), *branches, tag, SetPropertiesUpdate(updates=properties))
    commit(table, updates, (is_empty,))


def _move_branch(table: Table, branch: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    reference = table.metadata.refs.get(branch)
    branch_update = _build_reference(branch, SnapshotRefType.BRANCH, snapshot_id)
    if reference is None:
        return branch_update
    # a user may have set a retention
    retention = {name: getattr(reference, name) for name in RETENTION_FIELDS if getattr(reference, name) is not None}
    return branch_update.model_copy(update=retention)


def build_tag(name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """A tag on a snapshot, kept as long as nobody removes it."""
    return _build_reference(name, SnapshotRefType.TAG, snapshot_id)


def _build_reference(name: str, kind: SnapshotRefType, snapshot_id: int) -> SetSnapshotRefUpdate:
    # a table's own history.expire.max-ref-age-ms would take the tag away, and with it the proof of the position
    retention = {"max_ref_age_ms": None if name == MAIN else FOREVER_MS}
    unset = {"max_snapshot_age_ms": None, "min_snapshots_to_keep": None}
    return SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id, **retention, **unset)
