"""Owns Airflow's database before its services start: the tables, and a pool per catalog. Runs in its own process."""

import os
import sqlite3
import sys
from pathlib import Path

import yaml

POOL_SLOTS = 2


def main(catalogs: Path) -> int:
    """Create the metadata database of AIRFLOW_HOME and a pool `tidegate_<catalog>` for each catalog of the file."""
    from airflow.models.pool import Pool
    from airflow.utils.db import initdb

    initdb()
    for name in _catalog_names(catalogs):
        Pool.create_or_update_pool(f"tidegate_{name}", POOL_SLOTS, f"Merges into the catalog {name}", False)
    with sqlite3.connect(Path(os.environ["AIRFLOW_HOME"]) / "airflow.db") as database:
        database.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
    return 0


def _catalog_names(catalogs: Path) -> list[str]:
    """The keys of the catalogs file; none without the file, or when `validate` will complain about it."""
    try:
        content = yaml.safe_load(catalogs.read_text())
    except (OSError, yaml.YAMLError):
        return []
    return list(map(str, content)) if isinstance(content, dict) else []


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
