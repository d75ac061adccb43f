"""Reads the tables in the destination: all rows of a table, and the rows that an intermediate table still has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from demo.shop import Row


class Tables(Protocol):
    """Tables by `namespace.table`."""

    def read_rows(self, table: str) -> list[Row]:
        """All rows, as Python values; none when the table does not exist yet."""
        ...

    def describe_leftovers(self, intermediate: str) -> str | None:
        """What an intermediate table still holds, in words: rows, or files; None when it is empty."""
        ...


class IcebergTables:
    """Tables of the demo's own Iceberg catalog."""

    def __init__(self, name: str, properties: dict[str, str]) -> None:
        from pyiceberg.catalog import load_catalog

        self._catalog = load_catalog(name, **properties)

    def read_rows(self, table: str) -> list[Row]:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            rows: list[Row] = self._catalog.load_table(table).scan().to_arrow().to_pylist()
        except NoSuchTableError:
            return []
        return rows

    def describe_leftovers(self, intermediate: str) -> str | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._catalog.load_table(intermediate)
        except NoSuchTableError:
            return None
        return _describe_leftovers(
            intermediate, table.scan().count(), _list_files(f"{table.location()}/data", table.io)
        )


@dataclass(frozen=True)
class BigQueryTables:
    """Tables on the local server that answers like BigQuery, and the folder of staged files."""

    project: str
    endpoint: str
    staging: Path

    def read_rows(self, table: str) -> list[Row]:
        return self._run_query(f"SELECT * FROM `{table}`")

    def describe_leftovers(self, intermediate: str) -> str | None:
        rows = self._run_query(f"SELECT COUNT(*) AS rows_left FROM `{intermediate}`")
        files = [file for file in (self.staging / intermediate.replace(".", "/")).rglob("*") if file.is_file()]
        return _describe_leftovers(intermediate, rows[0]["rows_left"] if rows else 0, files)

    def _run_query(self, query: str) -> list[Row]:
        from google.api_core.exceptions import NotFound
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        options = {"api_endpoint": self.endpoint}
        client = bigquery.Client(self.project, credentials=AnonymousCredentials(), client_options=options)
        try:
            return [dict(row) for row in client.query(query, timeout=60).result(timeout=60)]
        except NotFound:
            return []
        finally:
            client.close()


def _list_files(location: str, io: Any) -> list[str]:
    """Data files below a location on disk or in an object store, whether or not a table refers to them."""
    from pyarrow.fs import FileSelector

    scheme, place, path = io.parse_location(location)
    selector = FileSelector(path, recursive=True, allow_not_found=True)
    file_infos = io.fs_by_scheme(scheme, place).get_file_info(selector)
    return [info.path for info in file_infos if info.path.endswith(".parquet")]


def _describe_leftovers(intermediate: str, rows: int, files: list[Any]) -> str | None:
    return f"{intermediate}: {rows} rows, {len(files)} files" if rows or files else None
