"""Owns Airflow's database before its services start: the tables. Runs in its own process.

The pools of the catalogs are made by the plugin when Airflow starts, here as everywhere.
"""

import os
import sqlite3
import sys
from pathlib import Path


def main() -> int:
    """Create the metadata database of AIRFLOW_HOME."""
    from airflow.utils.db import initdb

    initdb()
    with sqlite3.connect(Path(os.environ["AIRFLOW_HOME"]) / "airflow.db") as database:
        database.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
    return 0


if __name__ == "__main__":
    sys.exit(main())
