"""The table that remembers deletes or changes, in BigQuery: how those leave it that no late record comes after."""

from tidegate.adapters.bigquery_client import Warehouse
from tidegate.adapters.bigquery_ownership import kind_of
from tidegate.bigquery_sql import quoted, quoted_name
from tidegate.ownership import MEMORIES

CHANGED = "_tidegate_timestamp"  # as tables that remember whole changes have it, beside the user's own columns


def forget(warehouse: Warehouse, deletes: str, before_ms: int) -> int:
    """Remove deletes whose record is older; returns how many. None goes from a table without our mark."""
    table = warehouse.table(deletes)
    if table is None or kind_of(table) not in MEMORIES:
        return 0
    name, columns = quoted_name(warehouse.reference(deletes)), [field.name for field in table.schema]
    column = quoted(CHANGED if CHANGED in columns else "timestamp")
    job = warehouse.query(f"DELETE FROM {name} WHERE {column} < TIMESTAMP_MILLIS({before_ms})")
    return int(job.num_dml_affected_rows or 0)
