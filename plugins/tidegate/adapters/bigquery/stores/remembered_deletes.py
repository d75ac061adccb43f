"""Removes from the table that remembers deletes or changes, in BigQuery, those older than any late record.

A DELETE is billed for the whole table, however few rows go. So the time up to which deletes went is kept as a label,
which costs nothing to read, and no statement is sent before that time has moved far enough.
"""

from contextlib import suppress
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.stores.ownership import get_kind
from tidegate.errors import RetryLater
from tidegate.model.ownership import MEMORY_KINDS
from tidegate.sql.googlesql import quote, quote_name

FORGOTTEN_LABEL = "tidegate_forgotten"  # the time, in milliseconds, before whose records all are forgotten
TIMESTAMP_COLUMN = "_tidegate_timestamp"  # as tables that remember whole changes have it, beside the user's own columns


def forget_deletes(warehouse: Warehouse, deletes: str, before_ms: int, every_ms: int = 0) -> int:
    """Remove deletes whose record is older; returns how many. None goes from a table without our mark.

    Nothing is done unless `before_ms` is `every_ms` later than at the last removal.
    """
    table = warehouse.find_table(deletes)
    if table is None or get_kind(table) not in MEMORY_KINDS:
        return 0
    last = (table.labels or {}).get(FORGOTTEN_LABEL)
    if last is not None and before_ms - int(last) < every_ms:
        return 0
    name = quote_name(warehouse.to_reference(deletes))
    columns = [field.name for field in table.schema]
    column = quote(TIMESTAMP_COLUMN if TIMESTAMP_COLUMN in columns else "timestamp")
    job = warehouse.run_statement(f"DELETE FROM {name} WHERE {column} < TIMESTAMP_MILLIS({before_ms})")
    with suppress(RetryLater):  # without the note they are looked for again at the next clean-up
        _record_forgotten(warehouse, warehouse.find_table(deletes), before_ms)
    return int(job.num_dml_affected_rows or 0)


def _record_forgotten(warehouse: Warehouse, table: Any, before_ms: int) -> None:
    """The table is read again first: an update of one that has changed since it was read is refused."""
    if table is not None:
        table.labels = {**(table.labels or {}), FORGOTTEN_LABEL: str(max(before_ms, 0))}
        warehouse.update_table(table, "labels")
