"""Owns Airflow's database before its services start: the database itself, and its tables. Runs in its own process.

The pools of the catalogs are made by the plugin when Airflow starts, here as everywhere.
"""

import sqlite3
import sys
import time

from sqlalchemy.engine import URL, make_url

DATABASE_DEADLINE_SECONDS = 60


def main() -> int:
    """Create the metadata database that the settings name."""
    from airflow.configuration import conf
    from airflow.utils.db import initdb

    url = make_url(conf.get_mandatory_value("database", "sql_alchemy_conn"))
    if url.get_backend_name() == "postgresql":
        _create_on_postgres(url)
    initdb()
    if url.get_backend_name() == "sqlite":
        with sqlite3.connect(str(url.database)) as database:
            database.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
    return 0


def _create_on_postgres(url: URL) -> None:
    """Create the database on a server that may be starting still."""
    import psycopg2  # type: ignore[import-untyped]
    from psycopg2 import sql

    deadline = time.monotonic() + DATABASE_DEADLINE_SECONDS
    while True:
        try:
            connection = psycopg2.connect(
                host=url.host, port=url.port, user=url.username, password=url.password, dbname="postgres"
            )
            break
        except psycopg2.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    connection.autocommit = True  # a database is not created in a transaction
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(str(url.database))))
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
