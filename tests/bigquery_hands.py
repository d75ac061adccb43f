"""The hands of Spark and of foreign writers in a BigQuery table, for the suite that runs over every destination."""

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from contract_words import OWN_DELETES, OWN_STAGED
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.destination import build_bigquery_destination
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.model.ownership import Ownership
from tidegate.spec.pipeline import Catalog
from warehouse import LOCATION, PROJECT, build_client


def render_labels(ownership: Ownership) -> str:
    return f"[{', '.join(f'({key!r}, {value!r})' for key, value in ownership.labels.items())}]"


class BigQueryHands:
    """Catalog `lake` on the local server, with the dataset `shop` emptied."""

    def __init__(self, endpoint: str, folder: Path, table: str, staged: str) -> None:
        self.client, self.table, self.staged = build_client(endpoint), table, staged
        self.client.delete_dataset(f"{PROJECT}.shop", delete_contents=True, not_found_ok=True)
        self.client.create_dataset(f"{PROJECT}.shop")
        self.files = folder / "staging"
        server_options = {"endpoint": endpoint} if endpoint else {"location": LOCATION} if LOCATION else {}
        properties = {"project": PROJECT, "staging": f"file://{self.files}", **server_options}
        self.warehouse = Warehouse(Catalog("lake", "bigquery", properties), lambda _: None)
        self.googlesql = SqlFiles("bigquery", {"lake": PROJECT})
        self.port = build_bigquery_destination({"lake": self.warehouse}, self.googlesql)
        self._asked: dict[str, tuple[int, dict[str, str]]] = {}

    def sql(self, statement: str) -> Any:
        return self.client.query(statement).result()

    def name(self, table: str) -> str:
        return f"`{PROJECT}`.`shop`.`{table.rsplit('.', 1)[1]}`"

    def create(self) -> None:
        self.sql(f"CREATE TABLE {self.name(self.table)} (id STRING, n INT64)")

    def insert(self, rows: list[dict[str, Any]]) -> str:
        values = ", ".join(f"('{row['id']}', {row['n']})" for row in rows)
        return f"INSERT INTO {self.name(self.table)} (id, n) VALUES {values}"

    def append(self, ref: str, rows: list[dict[str, Any]], summary: dict[str, str]) -> None:
        assert ref == "main"
        self.sql(self.insert(rows))

    def touch(self) -> None:
        table = self.client.get_table(f"{PROJECT}.shop.orders")
        table.description = "x"
        self.client.update_table(table, ["description"])

    def replace_table(self) -> None:
        self.sql(f"DROP TABLE {self.name(self.table)}")
        self.create()

    def stage(self, batch: int, attempt: str, rows: int, summary: dict[str, str], outcome: str | None) -> None:
        """What a stage job leaves: Parquet, then the counts; and the worker that takes them in."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name(self.staged)} (batch_number INT64, n INT64, attempt STRING) "
            "PARTITION BY RANGE_BUCKET(batch_number, GENERATE_ARRAY(1, 9991, 1)) "
            f"OPTIONS (labels = {render_labels(OWN_STAGED)})"
        )
        content = io.BytesIO()
        staged_rows = [{"batch_number": batch, "n": n, "attempt": attempt} for n in range(rows)]
        schema = pa.schema([("batch_number", pa.int64()), ("n", pa.int64()), ("attempt", pa.string())])
        pq.write_table(pa.Table.from_pylist(staged_rows, schema=schema), content)
        self._asked[attempt] = (batch, summary)
        self._leave(batch, attempt, "rows/part-0.parquet", content.getvalue())
        self.port.staging.complete_attempt(self.staged, batch, attempt, summary)
        if outcome is not None:
            self.finish(attempt, outcome)

    def count(self, attempt: str, outcome: str) -> None:
        self._leave(self._asked[attempt][0], attempt, "counts/part-0.txt", outcome.encode())

    def finish(self, attempt: str, outcome: str) -> None:
        batch, summary = self._asked[attempt]
        self.count(attempt, outcome)
        self.port.staging.complete_attempt(self.staged, batch, attempt, summary)

    def _leave(self, batch: int, attempt: str, name: str, content: bytes) -> None:
        folder = Path(urlsplit(str(self.port.staging.find_landing_folder(self.staged, batch, attempt))).path)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    def note(self, table: str, text: str, labels: Mapping[str, str] | None = None) -> None:
        marks = ", ".join(f"('{key}', '{value}')" for key, value in (labels or {}).items())
        options = f"description = {json.dumps(text)}" + (f", labels = [{marks}]" if marks else "")
        self.sql(f"CREATE TABLE {self.name(table)} (n INT64) OPTIONS ({options})")

    def unmark(self, table: str) -> None:
        table_entry = self.client.get_table(f"{PROJECT}.shop.{table.rsplit('.', 1)[1]}")
        table_entry.labels = dict.fromkeys(table_entry.labels)
        self.client.update_table(table_entry, ["labels"])

    def make_staging(self, table: str, shape: str) -> None:
        marks = {"tidegate_shape": shape, **OWN_STAGED.labels}
        labels = f"[{', '.join(f'({key!r}, {value!r})' for key, value in marks.items())}]"
        self.sql(f"CREATE TABLE {self.name(table)} (batch_number INT64, n INT64) OPTIONS (labels = {labels})")

    def read_rows(self, table: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.sql(f"SELECT * FROM {self.name(table)}")]

    def remember(self, table: str, deletes: dict[str, int]) -> None:
        self.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name(table)} (id STRING, `timestamp` TIMESTAMP) "
            f"OPTIONS (labels = {render_labels(OWN_DELETES)})"
        )
        for id, ms in deletes.items():
            at = datetime.fromtimestamp(ms / 1000, UTC).isoformat()
            self.sql(f"INSERT INTO {self.name(table)} VALUES ('{id}', TIMESTAMP '{at}')")

    def bytes_on_disk(self) -> list[Path]:
        return sorted(path for path in self.files.rglob("*") if path.is_file())
