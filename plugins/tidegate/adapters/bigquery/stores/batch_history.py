"""The control table in BigQuery: one row per published batch."""

from collections.abc import Mapping
from typing import cast

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.stores.namespaces import drop_existing_namespaces
from tidegate.adapters.bigquery.stores.ownership import claim
from tidegate.adapters.bigquery.stores.table_marks import remove_expiration
from tidegate.failpoints import hit_failpoint
from tidegate.model.ownership import describe_control
from tidegate.ports.batch_history import HistoryRow
from tidegate.sql.googlesql import quote, quote_name, render_literal
from tidegate.tables.batch_history import FRACTION_FIELDS, INTEGER_FIELDS, TEXT_FIELDS

FIELDS_BY_TYPE = {"INT64": INTEGER_FIELDS, "STRING": TEXT_FIELDS, "FLOAT64": FRACTION_FIELDS}
COLUMN_TYPES = {name: kind for kind, names in FIELDS_BY_TYPE.items() for name in names}


def append_row(warehouse: Warehouse, control: str, row: HistoryRow) -> None:
    """Append one row; the table and its dataset are created if missing.

    An INSERT, not a load job: those are counted by the day, and several tables share this one.
    """
    from google.cloud.bigquery import ScalarQueryParameter

    _open_table(warehouse, control)
    hit_failpoint("history.opened")
    parameters = [
        ScalarQueryParameter(f"c{n}", kind, row.get(column)) for n, (column, kind) in enumerate(COLUMN_TYPES.items())
    ]
    columns, places = ", ".join(map(quote, COLUMN_TYPES)), ", ".join(f"@c{n}" for n in range(len(COLUMN_TYPES)))
    name = quote_name(warehouse.to_reference(control))
    warehouse.run_statement(f"INSERT INTO {name} ({columns}) VALUES ({places})", parameters)
    hit_failpoint("history.appended")


def _open_table(warehouse: Warehouse, control: str) -> None:
    """Make the table where it is missing; else see that it is ours, and bring one of an earlier version up to date."""
    loaded_table, own = warehouse.find_table(control), describe_control(control)
    if loaded_table is None:
        _create_table(warehouse, control, own.labels)
        return
    claim(warehouse, loaded_table, control, own)
    if loaded_table.expires is not None:  # version 0.1 left what the dataset had given it
        remove_expiration(warehouse, control)
    missing = set(COLUMN_TYPES) - {field.name for field in loaded_table.schema}
    if missing:
        added = (f"ADD COLUMN IF NOT EXISTS {quote(name)} {COLUMN_TYPES[name]}" for name in sorted(missing))
        warehouse.run_statement(f"ALTER TABLE {quote_name(warehouse.to_reference(control))} {', '.join(added)}")


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
