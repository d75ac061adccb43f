"""The control table in Iceberg: one row per published batch."""

from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table

COLUMNS = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("batch", "published_at_ms", "span", "read", "staged", "ignored")),
        *(pa.field(name, pa.int64()) for name in ("filtered", "inserted", "updated", "deleted")),
        *(pa.field(name, pa.int64()) for name in ("staged_snapshot_id", "snapshot_id", "valid_through_ms")),
        *(pa.field(name, pa.string()) for name in ("table", "attempt", "ranges")),
        pa.field("seconds", pa.float64()),
    ]
)
PROPERTIES = {"format-version": "2", "write.metadata.delete-after-commit.enabled": "true"}


def append(catalog: Catalog, identifier: str, row: dict[str, Any]) -> None:
    """Append one row; the table and its namespace are created if missing. Other writers are waited for."""
    table = _opened(catalog, identifier)
    table.append(pa.Table.from_pylist([row], schema=COLUMNS))


def _opened(catalog: Catalog, identifier: str) -> Table:
    with suppress(NoSuchTableError):
        return catalog.load_table(identifier)
    with suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(identifier.rsplit(".", 1)[0])
    try:
        return catalog.create_table(identifier, COLUMNS, properties=PROPERTIES)
    except TableAlreadyExistsError:
        return catalog.load_table(identifier)


def newest(table: Table, limit: int) -> list[dict[str, Any]]:
    """The newest rows, newest first."""
    rows = table.scan(selected_fields=("*",)).to_arrow().sort_by([("published_at_ms", "descending")])
    return list(rows.slice(0, limit).to_pylist())
