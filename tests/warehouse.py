"""The BigQuery side of a workbench: its catalog, its tables, and a client to look at them."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

import yaml

_numbers = itertools.count(1)
PROJECT = os.environ.get("TIDEGATE_BIGQUERY_PROJECT", "test-proj")  # a real one: see tests/bigquery_service
LOCATION = os.environ.get("TIDEGATE_BIGQUERY_LOCATION") or None


def build_client(endpoint: str) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery

    if not endpoint:
        return bigquery.Client(project=PROJECT, location=LOCATION)
    options = {"api_endpoint": endpoint}
    return bigquery.Client(project=PROJECT, credentials=AnonymousCredentials(), client_options=options)


class WarehouseBench:
    """Adds the catalog `dwh` to a workbench. Tables are named without catalog and dataset."""

    def __init__(self, workbench: Any, endpoint: str) -> None:
        self.bench, self.client = workbench, build_client(endpoint)
        self.dataset = f"d{os.getpid()}_{next(_numbers)}"
        self.files: Path = workbench.folder / "staging"
        entry = {"type": "bigquery", "project": PROJECT, "endpoint": endpoint, "staging": f"file://{self.files}"}
        path = workbench.include / "catalogs.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "dwh": entry}))

    def table(self, name: str) -> str:
        """The name in a pipeline file."""
        return f"dwh.{self.dataset}.{name}"

    def pipeline(self, name: str, topics: list[str], **sections: Any) -> str:
        """A pipeline of one table of the same name."""
        table = {"name": self.table(name), **sections.pop("table", {})}
        return self.bench.pipeline(name, topics, tables=[table], **sections)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement with this test's dataset as the default."""
        from google.cloud.bigquery import QueryJobConfig

        config = QueryJobConfig(default_dataset=f"{PROJECT}.{self.dataset}")
        return [dict(row) for row in self.client.query(statement, job_config=config).result()]

    def read_rows(self, table: str) -> list[dict[str, Any]]:
        """All rows, ordered by their columns as JSON."""
        return sorted(self.sql(f"SELECT * FROM `{table}`"), key=lambda row: json.dumps(row, default=repr))

    def tables(self) -> list[str]:
        return sorted(table.table_id for table in self.client.list_tables(f"{PROJECT}.{self.dataset}"))

    def drop(self) -> None:
        """Drop the dataset: the local server takes longer for each statement the more tables it has."""
        self.client.delete_dataset(f"{PROJECT}.{self.dataset}", delete_contents=True, not_found_ok=True)

    def list_staging_files(self) -> list[str]:
        """Files below the staging folder."""
        return sorted(str(path.relative_to(self.files)) for path in self.files.rglob("*") if path.is_file())
