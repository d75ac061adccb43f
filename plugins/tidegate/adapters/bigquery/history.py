"""What was applied to a table in BigQuery: batches, in the control table, and the slices of backfills."""

import logging
from typing import cast

from tidegate.adapters.bigquery.catalog import BigQueryPort, Warehouse, get_uuid
from tidegate.adapters.bigquery.commit import run_table_commit
from tidegate.adapters.bigquery.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.position import read_position_row, remove_expiration
from tidegate.adapters.bigquery.staging import get_folder, get_shape
from tidegate.errors import TidegateError
from tidegate.failpoints import hit_failpoint
from tidegate.model import resource_names
from tidegate.model.ownership import Ownership, TableKind, check_mark, describe_control
from tidegate.model.table_state import TableCommit
from tidegate.ports.destination import BatchHistory, HistoryRow
from tidegate.sql.googlesql import quote, render_literal
from tidegate.table.history import FRACTION_FIELDS, INTEGER_FIELDS, TEXT_FIELDS

log = logging.getLogger(__name__)
FIELDS_BY_TYPE = {"INT64": INTEGER_FIELDS, "STRING": TEXT_FIELDS, "FLOAT64": FRACTION_FIELDS}
COLUMN_TYPES = {name: kind for kind, names in FIELDS_BY_TYPE.items() for name in names}
# Each look at the newest rows is billed for all of them, and plans of large batches look: 50,000 rows are about 20 MB.
MAX_ROWS = 50_000
KEPT_ROWS = 25_000


class BigQueryHistory(BigQueryPort, BatchHistory):
    """Batches are rows of the control table; an applied slice is a file beside the table that it was staged in."""

    @translate_bigquery_errors
    def append_history(self, control: str, *rows: HistoryRow) -> None:
        # an INSERT for each, no load job: those are counted by the day, and several tables share this one
        from google.cloud.bigquery import ScalarQueryParameter

        warehouse = self._get_warehouse(control)
        rows_before = _open_control(warehouse, control)
        hit_failpoint("history.opened")
        columns = ", ".join(map(quote, COLUMN_TYPES))
        places = ", ".join(f"@c{n}" for n in range(len(COLUMN_TYPES)))
        name = warehouse.quote_name(control)
        for row in rows:
            types = enumerate(COLUMN_TYPES.items())
            parameters = [ScalarQueryParameter(f"c{n}", kind, row.get(column)) for n, (column, kind) in types]
            warehouse.run_statement(f"INSERT INTO {name} ({columns}) VALUES ({places})", parameters)
        hit_failpoint("history.appended")
        if rows_before < MAX_ROWS:
            return
        newest = f"SELECT published_at_ms FROM {name} ORDER BY published_at_ms DESC LIMIT {KEPT_ROWS}"
        try:
            warehouse.run_statement(
                f"DELETE FROM {name} WHERE published_at_ms < (SELECT MIN(published_at_ms) FROM ({newest}))"
            )
        except TidegateError as error:
            # the next batch tries again
            log.info("old rows of history stay: table=%s: %s", name, error)

    @translate_bigquery_errors
    def read_history(self, control: str, limit: int) -> list[HistoryRow]:
        warehouse = self._get_warehouse(control)
        if warehouse.find_table(control) is None:
            return []
        query = f"SELECT * FROM {warehouse.quote_name(control)} ORDER BY published_at_ms DESC, batch DESC LIMIT {limit}"
        return cast("list[HistoryRow]", warehouse.query_rows(query))

    @translate_bigquery_errors
    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        # a note is the description of the backfill's table; tables of another owner's mark are left out
        warehouse = self._get_warehouse(table)
        owner = Ownership(TableKind.INTERMEDIATE, pipeline, table.split(".", 1)[1])
        namespace, _, begin = resource_names.get_backfill_prefix(pipeline, table).rpartition(".")
        names = [f"{namespace}.{name}" for name in warehouse.list_tables(namespace) if name.startswith(begin)]
        loaded_tables = (warehouse.find_table(name) for name in names)
        owned_tables = (t for t in loaded_tables if t is not None and owner.labels.items() <= t.labels.items())
        return [owned_table.description for owned_table in owned_tables if owned_table.description]

    @translate_bigquery_errors
    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        # by files beside the table: a label takes few characters
        warehouse = self._get_warehouse(intermediate)
        table = warehouse.find_table(intermediate)
        if table is None or get_shape(table) != shape:
            return frozenset()
        paths = warehouse.folder.list_paths(f"{get_folder(intermediate)}/applied/{get_uuid(table)}")
        return frozenset(int(name.rpartition("/")[2]) for name in paths)

    @translate_bigquery_errors
    def mark_applied(self, intermediate: str, number: int) -> None:
        warehouse = self._get_warehouse(intermediate)
        uuid = get_uuid(warehouse.require_table(intermediate))
        warehouse.folder.write(f"{get_folder(intermediate)}/applied/{uuid}/{number}", b"applied")

    @translate_bigquery_errors
    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        warehouse = self._get_warehouse(table)
        loaded_table = warehouse.find_table(table)
        if loaded_table is None:
            return
        uuid = get_uuid(loaded_table)
        row = read_position_row(warehouse, table, uuid, pipeline)
        mark = resource_names.name_backfill_property(pipeline, backfill)
        if row is None or not row.is_current or mark not in row.properties:
            return
        own_prefix = resource_names.name_pipeline_property(pipeline, "")
        properties = {
            name: value for name, value in row.properties.items() if name.startswith(own_prefix) and name != mark
        }
        table_commit = TableCommit(
            table=table,
            uuid=uuid,
            schema_id=0,
            cut=row.version,
            branch="",
            head=0,
            properties=properties,
            tag=None,
            pipeline=pipeline,
            attempt=f"forget {mark} {row.version}",
        )
        run_table_commit(warehouse, self._sql, table_commit)


def _open_control(warehouse: Warehouse, control: str) -> int:
    """Make the table if it is missing; return how many rows it has."""
    loaded_table = warehouse.find_table(control)
    owner = describe_control(control)
    if loaded_table is not None:
        check_mark(control, owner, owner.labels, loaded_table.labels)
        if loaded_table.expires is not None:  # the run that made it was killed before it took the default away
            remove_expiration(warehouse, control)
        return int(loaded_table.num_rows or 0)
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in COLUMN_TYPES.items())
    labels = ", ".join(f"({render_literal(key)}, {render_literal(value)})" for key, value in owner.labels.items())
    statements = (
        f"CREATE SCHEMA IF NOT EXISTS {warehouse.quote_name(control.rsplit('.', 1)[0])}",
        f"CREATE TABLE IF NOT EXISTS {warehouse.quote_name(control)} ({columns}) CLUSTER BY batch "
        f"OPTIONS (labels = [{labels}])",
    )
    for statement in warehouse.drop_existing_namespaces(statements):
        warehouse.run_statement(statement)
    remove_expiration(warehouse, control)
    return 0
