"""Catalogs in a database: a SQLite file before its first users meet in it, and what PyIceberg leaves to others."""

import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata

from tidegate.adapters.iceberg.table.format_version import refuse_cut_path
from tidegate.errors import RetryLater

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog

# A flush loads its table, the intermediate table and the history again and again. That of many snapshots is large.
MAX_KEPT_METADATA = 4
MAX_CLOCK_SKEW_MS = 60_000  # Iceberg's Java library opens no table whose times go back by more
VIEW_TYPE = "VIEW"

# Spark's and PyIceberg's catalogs both create these tables when they are missing; two first users at once collide.
CREATE_TABLES_SQL = """
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key)
);
"""


def prepare_database(path: Path) -> None:
    """Create the file with its tables if need be, in WAL mode: readers do not block a commit. Idempotent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=60)
    try:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(CREATE_TABLES_SQL)
    finally:
        connection.close()


def has_view(catalog: "SqlCatalog", identifier: str) -> bool:
    """Whether a view has this name, as Java's catalogs keep them beside the tables; an older database keeps none."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    if catalog._schema_version != "v1":
        return False
    namespace, _, name = identifier.rpartition(".")
    query = select(IcebergTables.iceberg_type).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == namespace,
        IcebergTables.table_name == name,
    )
    with Session(catalog.engine) as session:
        return session.scalar(query) == VIEW_TYPE


def keep_metadata(catalog: "SqlCatalog") -> None:
    """Read a metadata file once: at each load the database names the file, which is never written again."""
    from pyiceberg.catalog.sql import SqlCatalog

    @lru_cache(MAX_KEPT_METADATA)
    def read_metadata(location: str) -> TableMetadata:
        return FromInputFile.table_metadata(catalog._load_file_io(location=location).new_input(location))

    def build_table(row: "IcebergTables") -> Table:
        location = row.metadata_location
        if not location or not row.table_namespace or not row.table_name:
            return SqlCatalog._convert_orm_to_iceberg(catalog, row)  # which says what is missing
        refuse_cut_path(".".join((catalog.name, row.table_namespace, row.table_name)), location)
        metadata = read_metadata(location)
        return Table(
            identifier=(*catalog.identifier_to_tuple(row.table_namespace), row.table_name),
            metadata=metadata,
            metadata_location=location,
            io=catalog._load_file_io(metadata.properties, location),
            catalog=catalog,
        )

    catalog._convert_orm_to_iceberg = build_table  # type: ignore[method-assign, assignment]


def keep_order_of_time(catalog: "SqlCatalog") -> None:
    """`RetryLater` in place of a commit that would close the table to Spark: PyIceberg writes it by any clock.

    The times of a table's log must not go back. A REST server commits by its own clock, and looks at that itself.
    """
    stage = catalog._update_and_stage_table

    def stage_in_order(current: Table | None, *arguments: Any) -> StagedTable:
        staged_table = stage(current, *arguments)
        table_name = ".".join((catalog.name, *current.name())) if current else ""
        behind_ms = _find_newest_ms(current.metadata) - staged_table.metadata.last_updated_ms if current else 0
        if current is not None and behind_ms > MAX_CLOCK_SKEW_MS:
            raise RetryLater(
                f"table={table_name}: its last change is ahead of this machine's clock by "
                f"seconds={behind_ms // 1000}, and Spark opens no table whose times go back by more than "
                f"{MAX_CLOCK_SKEW_MS // 1000}: nothing was changed; set the clocks of this machine, of Spark and of "
                "whoever else writes the table by NTP; it will be tried again"
            )
        return staged_table

    catalog._update_and_stage_table = stage_in_order  # type: ignore[method-assign, assignment]


def _find_newest_ms(metadata: TableMetadata) -> int:
    """The latest time that a table tells."""
    return max(metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log[-1:]), 0)
