"""The port `BranchCommits` over Iceberg."""

from collections.abc import Callable

from tidegate.adapters.iceberg import reparent as iceberg_reparent
from tidegate.adapters.iceberg import rollback as iceberg_rollback
from tidegate.adapters.iceberg.ports.port import IcebergPort
from tidegate.adapters.iceberg.pruning import key_ranges
from tidegate.adapters.iceberg.table import commit
from tidegate.adapters.iceberg.table import state as iceberg_state
from tidegate.adapters.iceberg.table.errors import translate_iceberg_errors
from tidegate.errors import CommitRefused
from tidegate.model import resource_names
from tidegate.model.merge_input import MergeInput
from tidegate.model.position import Position
from tidegate.model.table_state import Head, Rollback, TableCommit, TableState

MAX_COMMITS = 5  # of a snapshot without rows; each takes milliseconds


class IcebergCommits(IcebergPort):
    """Implements the port `BranchCommits`."""

    @translate_iceberg_errors
    def has_branches(self, table: str) -> bool:
        """See the port."""
        return True

    @translate_iceberg_errors
    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """See the port."""
        commit.seed(self._load_table(table), pipeline, position.to_properties(pipeline), self._branch(table))

    @translate_iceberg_errors
    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """See the port."""
        if state.snapshot_id is None:
            raise CommitRefused(f"table={table} has no snapshot to cut from")
        commit.start_branch(self._load_table(table), (state.uuid, state.snapshot_id), branch, self._branch(table))

    @translate_iceberg_errors
    def read_head(self, table: str, branch: str) -> Head | None:
        """See the port."""
        return iceberg_state.read_ref_head(self._load_table(table), branch)

    @translate_iceberg_errors
    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """See the port. Tried again where others commit to other branches; refused where this one has moved."""
        loaded_table = self._load_table(table)
        head = loaded_table.metadata.refs.get(branch)
        for _ in range(MAX_COMMITS):
            try:
                return commit.append_empty(loaded_table, branch, summary)
            except CommitRefused:
                loaded_table = self._load_table(table)
                if loaded_table.metadata.refs.get(branch) != head:
                    raise
        raise CommitRefused(f"table={table}: other commits were faster {MAX_COMMITS} times")

    @translate_iceberg_errors
    def publish(self, table_commit: TableCommit) -> None:
        """See the port."""
        commit.commit_rows_and_position(
            self._load_table(table_commit.table), table_commit, self._branch(table_commit.table)
        )

    @translate_iceberg_errors
    def reparent(
        self, table_commit: TableCommit, onto: int, keys: MergeInput | None, summary: dict[str, str] | None = None
    ) -> Head | None:
        """See the port."""
        table = self._load_table(table_commit.table)
        staging_table = self.catalogs.table(keys["source"]) if keys else None
        ranges = key_ranges.find_key_ranges(staging_table, keys) if keys and staging_table is not None else ()
        written_files = iceberg_reparent.find_written_files(table, table_commit, onto, None if keys is None else ranges)
        if written_files is None:
            return None
        parent = iceberg_reparent.NewParent(onto, summary or {})
        iceberg_reparent.reparent(table, table_commit, parent, written_files, self._branch(table_commit.table))
        return self.read_head(table_commit.table, table_commit.branch)

    @translate_iceberg_errors
    def drop_branch(self, table: str, branch: str) -> None:
        """See the port."""
        loaded_table = self._load_table(table)
        if branch in loaded_table.metadata.refs:
            commit.drop_references(loaded_table, [branch])

    @translate_iceberg_errors
    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        """See the port."""
        loaded_table = self._load_table(table)
        stale = iceberg_state.list_attempt_branches(loaded_table, pipeline, up_to_batch)
        stale += iceberg_state.list_gone_backfill_branches(loaded_table, pipeline, is_gone)
        if stale:
            commit.drop_references(loaded_table, stale)
        return len(stale)

    @translate_iceberg_errors
    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        """See the port."""
        return iceberg_rollback.find_rollback(self._load_table(table), pipeline, self._branch(table))

    @translate_iceberg_errors
    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        """See the port."""
        line = (rollback.current_snapshot_id, rollback.tagged_snapshot_id)
        tag = resource_names.name_tag(pipeline)
        commit.return_to_tag(self._load_table(table), line, tag, properties, self._branch(table))

    @translate_iceberg_errors
    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """See the port."""
        return iceberg_state.find_attempt_snapshots(self._load_table(table), attempt)

    @translate_iceberg_errors
    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        if loaded_table is None:
            return frozenset()
        return iceberg_state.list_rolled_back(loaded_table, self._branch(table), name)
