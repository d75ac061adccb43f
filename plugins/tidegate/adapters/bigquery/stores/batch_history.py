"""The control table in BigQuery: one row per published batch."""

from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.stores.ownership import claim
from tidegate.adapters.bigquery.stores.table_marks import stay
from tidegate.failpoints import reached
from tidegate.model.ownership import own_control
from tidegate.sql.googlesql import literal, quoted, quoted_name
from tidegate.tables.batch_history import FRACTIONS, INTEGERS, TEXTS

KINDS = {"INT64": INTEGERS, "STRING": TEXTS, "FLOAT64": FRACTIONS}
COLUMNS = {name: kind for kind, names in KINDS.items() for name in names}


def append(warehouse: Warehouse, control: str, row: dict[str, Any]) -> None:
    """Append one row; the table and its dataset are created if missing.

    An INSERT, not a load job: those are counted by the day, and several tables share this one.
    """
    from google.cloud.bigquery import ScalarQueryParameter

    name = quoted_name(warehouse.reference(control))
    given = [ScalarQueryParameter(f"c{n}", kind, row.get(column)) for n, (column, kind) in enumerate(COLUMNS.items())]
    places = ", ".join(f"@c{n}" for n in range(len(COLUMNS)))
    insert = f"INSERT INTO {name} ({', '.join(map(quoted, COLUMNS))}) VALUES ({places})"
    found, own = warehouse.table(control), own_control(control)
    if found is not None:
        claim(warehouse, found, control, own)
    if found is None:
        marks = ", ".join(f"({literal(key)}, {literal(value)})" for key, value in own.labels.items())
        dataset = quoted_name(warehouse.reference(control).rsplit(".", 1)[0])
        columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in COLUMNS.items())
        warehouse.query(f"CREATE SCHEMA IF NOT EXISTS {dataset}")
        warehouse.query(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) CLUSTER BY batch OPTIONS (labels = [{marks}])")
        stay(warehouse, control)
    elif missing := set(COLUMNS) - {field.name for field in found.schema}:  # made by an earlier version
        added = (f"ADD COLUMN IF NOT EXISTS {quoted(name)} {COLUMNS[name]}" for name in sorted(missing))
        warehouse.query(f"ALTER TABLE {name} {', '.join(added)}")
    reached("history.opened")
    warehouse.query(insert, given)
    reached("history.appended")


def newest(warehouse: Warehouse, control: str, limit: int) -> list[dict[str, Any]]:
    """The newest rows, newest first."""
    if warehouse.table(control) is None:
        return []
    asked = f"SELECT * FROM {quoted_name(warehouse.reference(control))} ORDER BY published_at_ms DESC LIMIT {limit}"
    return warehouse.rows(asked)
