"""The port `BatchHistory` over BigQuery."""

from tidegate.adapters.bigquery import position_table
from tidegate.adapters.bigquery.client.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.ports.port import BigQueryPort
from tidegate.adapters.bigquery.ports.tables import BigQueryTables
from tidegate.adapters.bigquery.stores import backfills as bigquery_backfills
from tidegate.adapters.bigquery.stores import batch_history
from tidegate.model import resource_names
from tidegate.model.ownership import Ownership, TableKind
from tidegate.ports.batch_history import HistoryRow
from tidegate.ports.context import TableCommit


class BigQueryHistory(BigQueryPort):
    """Implements the port `BatchHistory`."""

    @translate_bigquery_errors
    def append_history(self, control: str, row: HistoryRow) -> None:
        """See the port."""
        batch_history.append_row(self._get_warehouse(control), control, row)

    @translate_bigquery_errors
    def read_history(self, control: str, limit: int) -> list[HistoryRow]:
        """See the port."""
        return batch_history.read_newest_batches(self._get_warehouse(control), control, limit)

    @translate_bigquery_errors
    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        """See the port."""
        owner = Ownership(TableKind.INTERMEDIATE, pipeline, table.split(".", 1)[1])
        return bigquery_backfills.read_backfill_notes(
            self._get_warehouse(table), resource_names.get_backfill_prefix(pipeline, table), owner
        )

    @translate_bigquery_errors
    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        """See the port."""
        return bigquery_backfills.list_applied_slices(self._get_warehouse(intermediate), intermediate, shape)

    @translate_bigquery_errors
    def mark_applied(self, intermediate: str, number: int) -> None:
        """See the port."""
        bigquery_backfills.mark_applied(self._get_warehouse(intermediate), intermediate, number)

    @translate_bigquery_errors
    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        """See the port: there are no branches."""
        state = BigQueryTables(self._warehouses, self._sql).read_state(table, pipeline)
        mark = resource_names.name_backfill_property(pipeline, backfill)
        if state is None or state.snapshot_id is None or mark not in state.marks:
            return
        properties = {name: value for name, value in state.marks.items() if name != mark}
        attempt = f"forget {mark} {state.snapshot_id}"
        table_commit = TableCommit(
            table=table,
            uuid=state.uuid,
            schema_id=0,
            cut=state.snapshot_id,
            branch="",
            head=0,
            properties=properties,
            tag=None,
            pipeline=pipeline,
            attempt=attempt,
        )
        position_table.run_table_commit(self._get_warehouse(table), self._sql, table_commit)
