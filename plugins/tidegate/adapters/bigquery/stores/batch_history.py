"""The control table in BigQuery: one row per published batch, the newest of them."""

import logging
from collections.abc import Mapping
from typing import cast

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.stores.namespaces import drop_existing_namespaces
from tidegate.adapters.bigquery.stores.ownership import claim
from tidegate.adapters.bigquery.stores.table_marks import remove_expiration
from tidegate.errors import TidegateError
from tidegate.failpoints import hit_failpoint
from tidegate.model.ownership import describe_control
from tidegate.ports.batch_history import HistoryRow
from tidegate.sql.googlesql import quote, quote_name, render_literal
from tidegate.table.history import FRACTION_FIELDS, INTEGER_FIELDS, TEXT_FIELDS

FIELDS_BY_TYPE = {"INT64": INTEGER_FIELDS, "STRING": TEXT_FIELDS, "FLOAT64": FRACTION_FIELDS}
COLUMN_TYPES = {name: kind for kind, names in FIELDS_BY_TYPE.items() for name in names}
# Each look at the newest rows is billed for all of them, and plans of large batches look: 50,000 rows are about 20 MB.
MAX_ROWS = 50_000
KEPT_ROWS = 25_000
log = logging.getLogger(__name__)


def append_row(warehouse: Warehouse, control: str, row: HistoryRow) -> None:
    """Append one row; the table and its dataset are created if missing.

    An INSERT, not a load job: those are counted by the day, and several tables share this one.
    """
    from google.cloud.bigquery import ScalarQueryParameter

    rows_before = _open_table(warehouse, control)
    hit_failpoint("history.opened")
    parameters = [
        ScalarQueryParameter(f"c{n}", kind, row.get(column)) for n, (column, kind) in enumerate(COLUMN_TYPES.items())
    ]
    columns = ", ".join(map(quote, COLUMN_TYPES))
    places = ", ".join(f"@c{n}" for n in range(len(COLUMN_TYPES)))
    name = quote_name(warehouse.to_reference(control))
    warehouse.run_statement(f"INSERT INTO {name} ({columns}) VALUES ({places})", parameters)
    hit_failpoint("history.appended")
    if rows_before >= MAX_ROWS:
        _remove_oldest_rows(warehouse, name)


def _remove_oldest_rows(warehouse: Warehouse, name: str) -> None:
    """Keep the newest rows. A failure is logged alone: the next batch tries again."""
    newest = f"SELECT published_at_ms FROM {name} ORDER BY published_at_ms DESC LIMIT {KEPT_ROWS}"
    try:
        warehouse.run_statement(
            f"DELETE FROM {name} WHERE published_at_ms < (SELECT MIN(published_at_ms) FROM ({newest}))"
        )
    except TidegateError as error:
        log.info("old rows of history stay: table=%s: %s", name, error)


def _open_table(warehouse: Warehouse, control: str) -> int:
    """Create the table if it is missing; else check that it is ours, and add columns that an earlier version lacks.

    Returns how many rows it has.
    """
    loaded_table = warehouse.find_table(control)
    owner = describe_control(control)
    if loaded_table is None:
        _create_table(warehouse, control, owner.labels)
        return 0
    claim(warehouse, loaded_table, control, owner)
    if loaded_table.expires is not None:  # an earlier version kept the dataset's default
        remove_expiration(warehouse, control)
    missing = set(COLUMN_TYPES) - {field.name for field in loaded_table.schema}
    if missing:
        column_clauses = (f"ADD COLUMN IF NOT EXISTS {quote(name)} {COLUMN_TYPES[name]}" for name in sorted(missing))
        warehouse.run_statement(
            f"ALTER TABLE {quote_name(warehouse.to_reference(control))} {', '.join(column_clauses)}"
        )
    return int(loaded_table.num_rows or 0)


def _create_table(warehouse: Warehouse, control: str, labels: Mapping[str, str]) -> None:
    reference = warehouse.to_reference(control)
    dataset = quote_name(reference.rsplit(".", 1)[0])
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in COLUMN_TYPES.items())
    rendered_labels = ", ".join(f"({render_literal(key)}, {render_literal(value)})" for key, value in labels.items())
    statements = (
        f"CREATE SCHEMA IF NOT EXISTS {dataset}",
        f"CREATE TABLE IF NOT EXISTS {quote_name(reference)} ({columns}) CLUSTER BY batch "
        f"OPTIONS (labels = [{rendered_labels}])",
    )
    for statement in drop_existing_namespaces(warehouse, statements):
        warehouse.run_statement(statement)
    remove_expiration(warehouse, control)


def read_newest_batches(warehouse: Warehouse, control: str, limit: int) -> list[HistoryRow]:
    """The newest rows, newest first."""
    if warehouse.find_table(control) is None:
        return []
    query = f"SELECT * FROM {quote_name(warehouse.to_reference(control))} ORDER BY published_at_ms DESC LIMIT {limit}"
    return cast("list[HistoryRow]", warehouse.query_rows(query))
