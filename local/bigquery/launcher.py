"""Starts local-bigquery 0.4.0 on the DuckDB it is installed with, and teaches it six things that BigQuery does.

Runs in the server's own environment, with HOME as a folder of its own.

1. DuckDB's extensions come as packages: they are put where DuckDB looks for them, so that it downloads nothing.
2. A MERGE inside a transaction. The server finds out whether one is open by a BEGIN that fails, and on this DuckDB a
   failed BEGIN aborts what is open. Here the clock tells: inside a transaction now() stands still.
3. Bytes in Parquet, which a load with a schema takes for text in base64, as they are in JSON.
4. Deleting one partition, ``tables.delete`` of ``table$N``, for tables that are partitioned by an integer range.
5. Fields that ``tables.update`` adds inside of a column, which the server would forget.
6. A look at one table that costs the same however many there are: the server lists all tables of all datasets for it.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import local_bigquery
from local_bigquery.catalog import tables
from local_bigquery.cli import main
from local_bigquery.engine import database, types
from local_bigquery.jobs import load, merge

Object = tuple[str, str, int]  # name, kind, rows
RESULTS = ("emulator", "_results")


def offer_extensions() -> None:
    """Link every extension that came as a package to where DuckDB looks for it."""
    row = duckdb.sql("SELECT version(), platform FROM pragma_platform()").fetchone()
    assert row is not None
    folder = Path.home() / ".duckdb" / "extensions" / row[0] / row[1]
    folder.mkdir(parents=True, exist_ok=True)
    packages = Path(local_bigquery.__file__).parents[1]
    for extension in packages.glob(f"duckdb_extension_*/extensions/{row[0]}/*.duckdb_extension"):
        link = folder / extension.name
        if not link.exists():
            link.symlink_to(extension)


class Cursor:
    """A cursor whose BEGIN fails inside a transaction without touching it."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, sql: str, *parameters: Any) -> Any:
        """As DuckDB's, but for BEGIN."""
        if sql == "BEGIN" and self._is_in_transaction():
            raise duckdb.TransactionException("a transaction is open")
        return self._cursor.execute(sql, *parameters)

    def _is_in_transaction(self) -> bool:
        query = "SELECT epoch_us(now())"
        before = self._cursor.execute(query).fetchone()
        time.sleep(0.001)
        return bool(before == self._cursor.execute(query).fetchone())


def wrap_merge(run: Callable[..., Any]) -> Callable[..., Any]:
    """The server's MERGE over such a cursor."""
    return lambda cursor, tree, context: run(Cursor(cursor), tree, context)


def wrap_projection(projection: Callable[..., tuple[str, str]]) -> Callable[..., tuple[str, str]]:
    """The server's way from a file's columns to the table's, without a detour for Parquet."""

    def project_file(config: Any, fields: list[Any], columns: list[str]) -> tuple[str, str]:
        if not fields or config.sourceFormat != "PARQUET":
            return projection(config, fields, columns)
        casts = ((database.quote(field.name), types.duckdb_type(field)) for field in fields)
        return ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in casts), "false"

    return project_file


def wrap_delete(delete: Callable[[str, str, str], None]) -> Callable[[str, str, str], None]:
    """The server's deletion of tables, which knows ``table$N`` too."""

    def deleting(project: str, dataset: str, table: str) -> None:
        name, _, partition = table.partition("$")
        if not partition:
            delete(project, dataset, table)
            return
        ranged = tables.load(project, dataset, name).rangePartitioning
        column = ranged.field if ranged else "batch_number"
        database.execute(
            f"DELETE FROM {tables.name(project, dataset, name)} WHERE {database.quote(column)} = {int(partition)}"
        )

    return deleting


def wrap_alter(alter: Callable[[str, str, str, list[Any]], None]) -> Callable[[str, str, str, list[Any]], None]:
    """The server's change of a table's fields, which gives a column the fields that it gains inside, too."""

    def altering(project: str, dataset: str, table: str, fields: list[Any]) -> None:
        paths = list_paths(tables.columns(project, dataset, table))
        alter(project, dataset, table, fields)
        for field in fields:
            is_known = (field.name.casefold(),) in paths
            if is_known and not list_paths([field]) <= paths:
                change = f"ALTER COLUMN {database.quote(field.name)} SET DATA TYPE {types.duckdb_type(field)}"
                database.execute(f"ALTER TABLE {tables.name(project, dataset, table)} {change}")

    return altering


def list_paths(fields: list[Any] | None, *above: str) -> set[tuple[str, ...]]:
    """The names that lead to each field, at every depth."""
    paths: set[tuple[str, ...]] = set()
    for field in fields or []:
        path = (*above, field.name.casefold())
        paths |= {path} | list_paths(field.fields, *path)
    return paths


def wrap_objects(objects: Callable[..., list[Object]]) -> Callable[..., list[Object]]:
    """The server's list of tables and views, which looks for one alone where it is asked for one."""

    def listing(project: str, dataset: str, table: str | None = None) -> list[Object]:
        if table is None:
            return objects(project, dataset)
        if project == RESULTS[0]:
            return find_result(table) if dataset == RESULTS[1] else objects(project, dataset, table)
        return find_object(project, dataset, table)

    return listing


def find_object(project: str, dataset: str, table: str) -> list[Object]:
    """A table or a view, by what DuckLake has committed; a table's rows as DuckDB estimates them."""
    metadata = database.quote(f"__ducklake_metadata_{project}")
    try:
        rows: list[Object] = database.fetch(
            f"SELECT table_name, 'TABLE', coalesce(record_count, 0) FROM {metadata}.ducklake_table AS o "
            f"JOIN {metadata}.ducklake_schema AS s USING (schema_id) "
            f"LEFT JOIN {metadata}.ducklake_table_stats USING (table_id) "
            "WHERE schema_name = $1 AND table_name = $2 AND o.end_snapshot IS NULL AND s.end_snapshot IS NULL "
            f"UNION ALL SELECT view_name, 'VIEW', 0 FROM {metadata}.ducklake_view AS o "
            f"JOIN {metadata}.ducklake_schema AS s USING (schema_id) "
            "WHERE schema_name = $1 AND view_name = $2 AND o.end_snapshot IS NULL AND s.end_snapshot IS NULL",
            [dataset, table],
        )
    except duckdb.CatalogException:  # a project that nobody has used
        return []
    return rows


def find_result(table: str) -> list[Object]:
    """The result of a query, which the server keeps as a table."""
    try:
        rows = database.fetch(f"SELECT count(*) FROM {database.quote(*RESULTS, table)}")
    except duckdb.CatalogException:
        return []
    return [(table, "TABLE", rows[0][0])]


if __name__ == "__main__":
    offer_extensions()
    merge.run = wrap_merge(merge.run)
    load._projection = wrap_projection(load._projection)
    tables.delete = wrap_delete(tables.delete)
    database.objects = wrap_objects(database.objects)
    tables._alter = wrap_alter(tables._alter)
    sys.exit(main())
