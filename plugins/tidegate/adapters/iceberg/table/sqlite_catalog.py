"""A SQLite file made ready as an Iceberg catalog, before its first users meet in it."""

import sqlite3
from pathlib import Path

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
