"""The port `BranchCommits` over BigQuery."""

from collections.abc import Callable
from dataclasses import replace

from tidegate.adapters.bigquery import position_table
from tidegate.adapters.bigquery.client.client import get_uuid
from tidegate.adapters.bigquery.client.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.ports.port import BigQueryPort
from tidegate.adapters.bigquery.publish_script import list_created_tables
from tidegate.adapters.bigquery.stores import (
    table_marks,
)
from tidegate.errors import CommitRefused, GiveUp
from tidegate.model import resource_names
from tidegate.model.merge_input import MergeInput
from tidegate.model.position import Position
from tidegate.model.table_state import Rollback
from tidegate.ports.context import Head, TableCommit, TableState

NO_BRANCHES_REASON = "BigQuery has no branches: a merge is written by the transaction that publishes it"


class BigQueryCommits(BigQueryPort):
    """Implements the port `BranchCommits`."""

    @translate_bigquery_errors
    def has_branches(self, table: str) -> bool:
        """See the port."""
        return False

    @translate_bigquery_errors
    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """See the port."""
        uuid = get_uuid(self._get_warehouse(table).require_table(table))
        properties = position.to_properties(pipeline)
        position_table.seed_position(
            self._get_warehouse(table), self._sql, table=table, uuid=uuid, pipeline=pipeline, properties=properties
        )

    @translate_bigquery_errors
    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """See the port."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    @translate_bigquery_errors
    def read_head(self, table: str, branch: str) -> Head | None:
        """See the port: only the tag that names a pipeline's last publish has one."""
        pipeline = resource_names.parse_tag_pipeline(branch)
        loaded_table = self._get_warehouse(table).require_table(table)
        row = (
            position_table.read_position_row(self._get_warehouse(table), table, get_uuid(loaded_table), pipeline)
            if pipeline
            else None
        )
        if row is None or not row.is_current:
            return None
        publish_changes = position_table.read_publish_changes(self._get_warehouse(table), row)
        return replace(row.head, summary={**row.head.summary, **publish_changes})

    @translate_bigquery_errors
    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """See the port."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    @translate_bigquery_errors
    def publish(self, table_commit: TableCommit) -> None:
        """See the port."""
        loaded_table = self._get_warehouse(table_commit.table).require_table(table_commit.table)
        if get_uuid(loaded_table) != table_commit.uuid:
            raise CommitRefused(f"table={table_commit.table}: it was replaced by another of the same name")
        warehouse = self._get_warehouse(table_commit.table)
        catalog = table_commit.table.split(".", 1)[0]
        table_marks.mark_table(warehouse, table_commit.table, loaded_table, table_commit.pipeline)
        position_table.commit_rows_and_position(warehouse, self._sql, table_commit)
        for created_table in list_created_tables(table_commit.statements):
            table_marks.remove_expiration(warehouse, f"{catalog}.{created_table}")

    @translate_bigquery_errors
    def reparent(
        self, table_commit: TableCommit, onto: int, keys: MergeInput | None, summary: dict[str, str] | None = None
    ) -> Head | None:
        """See the port: nothing is written before it is published."""
        return None

    @translate_bigquery_errors
    def drop_branch(self, table: str, branch: str) -> None:
        """See the port: there are no branches."""

    @translate_bigquery_errors
    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        """See the port."""
        self._get_warehouse(table).require_table(table)
        return 0

    @translate_bigquery_errors
    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        """See the port: a table that was restored to an earlier time tells nothing of it."""
        return None

    @translate_bigquery_errors
    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        """See the port."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    @translate_bigquery_errors
    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """See the port: nothing is written before it is published."""
        return []

    @translate_bigquery_errors
    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        """See the port: a table that was restored to an earlier time tells nothing of it."""
        return frozenset()
