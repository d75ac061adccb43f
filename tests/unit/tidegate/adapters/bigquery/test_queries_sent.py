"""The statements that stand in the adapters and not in a template, read by GoogleSQL's own analyzer too."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from fakes import build_pipeline
from googlesql import Analyzer
from tidegate.adapters.bigquery import history
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.commit import render_staged_assertion
from tidegate.adapters.bigquery.destination import build_bigquery_destination
from tidegate.adapters.bigquery.files import LocalFolder
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import RetryLater
from tidegate.model.batch import StagedPart
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import KIND_LABEL, describe_control
from tidegate.model.table_state import DeadLetter, StagedSource
from tidegate.ports.destination import Destination
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Catalog
from unit.tidegate.adapters.bigquery.test_commit import NAME, SHAPES, build_analyzer, build_shaped_table

CATALOG = Catalog("dwh", "bigquery", {"project": "my-project"})
SQL = SqlFiles("bigquery", {"dwh": "my-project"})
CONTROL, LETTERS, DELETES, CHANGES = (
    "dwh.shop.tidegate_shop_batches",
    "dwh.shop.tidegate_shop_dead_letters",
    "dwh.shop.o_deletes",
    "dwh.shop.o_changes",
)
TYPES = {"INT64": "BIGINT", "STRING": "STRING", "FLOAT64": "DOUBLE"}
TEXTS = ("topic", "stage", "error_class", "message", "attempt", "table", "topic_id", "replayed_by")
TABLE_COLUMNS = {
    CONTROL: tuple(Column(name, TYPES[kind]) for name, kind in history.COLUMN_TYPES.items()),
    LETTERS: (
        *(Column(name, "STRING") for name in TEXTS),
        *(Column(name, "BIGINT") for name in ("partition", "offset", "batch")),
        *(Column(name, "TIMESTAMP") for name in ("timestamp", "written_at", "replayed_at")),
        *(Column(name, "BINARY") for name in ("key", "value")),
        Column("headers", "ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>"),
    ),
    DELETES: (Column("it's", "STRING"), Column("timestamp", "TIMESTAMP")),
    CHANGES: (Column("it's", "STRING"), Column("_tidegate_timestamp", "TIMESTAMP")),
    "dwh.shop.o": (Column("n", "DECIMAL(5,0)"), Column("größe", "DECIMAL(9,2)")),
}


class Judged(Warehouse):
    """A project where every statement is judged instead of run, over the tables that are `held`."""

    def __init__(self, *row_text: str) -> None:
        super().__init__(CATALOG, lambda _: None)
        self.asked, self._held, self.labels = list[str](), row_text, dict[str, dict[str, str]]()
        self.expires: dict[str, Any] = {}
        self.num_rows = 0
        self._analyzer = Analyzer({name.replace("dwh", "my-project", 1): TABLE_COLUMNS[name] for name in TABLE_COLUMNS})

    @property
    def port(self) -> Destination:
        return build_bigquery_destination({"dwh": self}, SQL)

    def find_table(self, name: str) -> Any:
        if name not in self._held:
            return None
        from google.cloud.bigquery import SchemaField
        from tidegate.adapters.bigquery.types import to_bigquery_schema

        columns = to_bigquery_schema(TABLE_COLUMNS[name])
        kind = "changes" if name == CHANGES else "deletes"
        labels = describe_control(name).labels if name == CONTROL else {KIND_LABEL: kind}
        labels = self.labels.get(name, labels)
        schema = [SchemaField.from_api_repr(field) for field in columns]
        table_fields = {"expires": self.expires.get(name), "etag": len(self.asked), "num_rows": self.num_rows}
        return SimpleNamespace(name=name, schema=schema, labels=labels, **table_fields)

    def has_dataset(self, reference: str) -> bool:
        return False

    def update_table(self, table: Any, *fields: str) -> None:
        assert fields in (("labels",), ("expires",))
        if table.etag != len(self.asked):
            raise RetryLater("Precondition check failed: the table has changed since it was read")
        self.labels[table.name], self.expires[table.name] = table.labels, table.expires

    def run_statement(self, sql: str, parameters: Any = ()) -> Any:
        for parameter in parameters:
            sql = sql.replace(f"@{parameter.name},", "NULL,").replace(f"@{parameter.name})", "NULL)")
        self._analyzer.check(sql)
        self.asked.append(sql)
        letter = {**dict.fromkeys(field.name for field in fields(DeadLetter)), "headers": []}
        row = {**letter, "waiting": 1, "done": 0, "discarded": 0, "n": 0}
        return SimpleNamespace(num_dml_affected_rows=0, result=lambda **_: [row])


def append_history(warehouse: Judged) -> None:
    row: Any = dict.fromkeys(history.COLUMN_TYPES)
    warehouse.port.history.append_history(CONTROL, row)


WRITTEN = {
    "no table": ((), ["CREATE", "CREATE", "INSERT"]),
    "a table": ((CONTROL,), ["INSERT"]),
}


@pytest.mark.parametrize(("existing_tables", "words"), WRITTEN.values(), ids=WRITTEN)
def test_history_is_written_by_statements_that_bigquery_reads(existing_tables: Any, words: list[str]) -> None:
    warehouse = Judged(*existing_tables)
    append_history(warehouse)
    assert [statement.split()[0] for statement in warehouse.asked] == words


def test_history_of_many_rows_loses_its_oldest_by_a_statement_that_bigquery_reads() -> None:
    warehouse = Judged(CONTROL)
    for warehouse.num_rows in (history.MAX_ROWS - 1, history.MAX_ROWS):
        append_history(warehouse)
    assert [statement.split()[0] for statement in warehouse.asked] == ["INSERT", "INSERT", "DELETE"]


def test_history_whose_making_was_killed_is_kept_when_its_dataset_lets_tables_expire() -> None:
    warehouse = Judged(CONTROL)
    warehouse.expires[CONTROL] = datetime(2026, 12, 1, tzinfo=UTC)
    for _ in range(2):
        append_history(warehouse)
    assert warehouse.expires == {CONTROL: None}


def test_what_is_asked_of_history_and_dead_letters_is_what_bigquery_reads(tmp_path: Path) -> None:
    warehouse = Judged(CONTROL, LETTERS, DELETES, CHANGES)
    ranges = Ranges.from_dict({"it's": {"0": [1, 3], "7": [2, 2]}})
    warehouse.folder = LocalFolder(tmp_path)
    warehouse.port.history.read_history(CONTROL, 5)
    warehouse.port.dead_letters.read_dead_letters(LETTERS, 5)
    warehouse.port.dead_letters.read_letters_of_attempt(LETTERS, "it's", "a")
    warehouse.port.dead_letters.count_letters_of_others(LETTERS, "it's", ["a", "b'"], ranges)
    warehouse.port.dead_letters.copy_dead_letters(LETTERS, "it's", "dwh.shop.o_tmp")
    for memory in (DELETES, CHANGES):
        warehouse.port.tables.forget_deletes(memory, 5)
    assert len(warehouse.asked) == 8


@pytest.mark.parametrize(("letters", "rows_by_file"), [(0, [0]), (9, [9]), (10, [10]), (25, [10, 10, 5])])
def test_letters_are_copied_file_by_file_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, letters: int, rows_by_file: list[int]
) -> None:
    """Millions may wait, each with its bytes: a worker has no room for all of them."""
    monkeypatch.setattr("tidegate.adapters.bigquery.letters.ROWS_PER_FILE", 10)
    warehouse, fetched, fetched_at_write = Judged(LETTERS), list[int](), list[int]()
    empty = dict.fromkeys((*TEXTS, "partition", "timestamp", "replayed_at", "key", "value", "headers"))

    def fetch() -> Iterator[dict[str, Any]]:
        for offset in range(letters):
            fetched.append(offset)
            yield {**empty, "offset": offset}

    class Folder(LocalFolder):
        def write(self, path: str, content: bytes) -> None:
            fetched_at_write.append(len(fetched))
            super().write(path, content)

    warehouse.folder = Folder(tmp_path)
    monkeypatch.setattr(warehouse, "run_statement", lambda *_: SimpleNamespace(result=lambda **_: fetch()))
    folder = tmp_path / "shop" / "o_tmp" / "letters"
    assert warehouse.port.dead_letters.copy_dead_letters(LETTERS, "dwh.shop.o", "dwh.shop.o_tmp") == f"file://{folder}"
    files = [folder / f"part-{number}.parquet" for number in range(len(rows_by_file))]
    assert [pq.read_table(file).num_rows for file in files] == rows_by_file
    assert sorted(folder.iterdir()) == files
    assert fetched_at_write == [sum(rows_by_file[: number + 1]) for number in range(len(files))]


def test_letters_in_many_ranges_are_counted_by_a_short_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each merge: with ten thousand partitions that have records, BigQuery would not read it."""
    warehouse, ranges = Judged(LETTERS), Ranges({"it's": {number: (number, number + 2) for number in range(10_000)}})
    places = (("it's", 7, 6), ("it's", 7, 7), ("it's", 7, 8), ("it's", 7, 9), ("other", 7, 7), ("it's", 10_000, 1))
    rows = [dict(zip(("topic", "partition", "offset"), place, strict=True)) for place in places]
    monkeypatch.setattr(warehouse, "query_rows", lambda sql: rows if warehouse.run_statement(sql) else [])
    counts = warehouse.port.dead_letters.count_letters_of_others(LETTERS, "it's", ["a", "b'"], ranges)
    assert counts == {("it's", 7): 2}
    (statement,) = warehouse.asked
    assert len(statement) < 1000
    assert "`offset` >= 0 AND `offset` < 10001" in statement


def test_memory_is_not_paid_for_again_before_the_time_has_moved_far_enough() -> None:
    warehouse = Judged(DELETES, CHANGES)
    statement_counts = []
    for before_ms in (1_000, 1_009, 1_010, 1_019, 1_025):
        for memory in (DELETES, CHANGES):
            warehouse.port.tables.forget_deletes(memory, before_ms, 10)
        statement_counts.append(len(warehouse.asked))
    assert statement_counts == [2, 2, 4, 4, 6]
    assert all("MILLIS(1025)" in statement for statement in warehouse.asked[-2:])


def test_columns_are_widened_by_a_statement_that_bigquery_reads() -> None:
    warehouse = Judged("dwh.shop.o")
    wider = (Column("n", "DECIMAL(20,0)"), Column("größe", "DECIMAL(20,2)"))
    warehouse.port.tables.evolve("dwh.shop.o", wider, add=True, widen=True, relax=True)
    assert [statement.split("ALTER COLUMN ")[1] for statement in warehouse.asked] == [
        "`n` SET DATA TYPE NUMERIC(20, 0)", "`größe` SET DATA TYPE NUMERIC(20, 2)",
    ]  # fmt: skip


def test_dead_letters_and_positions_are_written_by_statements_that_bigquery_reads() -> None:
    table = build_shaped_table(SHAPES["plain"], "upsert_delete")
    tmp, positions = f"{NAME}_shop_tmp", f"{NAME}_tidegate_position"
    analyzer = build_analyzer(build_pipeline(table), table, SHAPES["plain"], {LETTERS: TABLE_COLUMNS[LETTERS]})
    values = {"table": LETTERS, "target": "dwh.shop.it's", "attempt": "it's", "source": tmp}
    values |= {"parts": [StagedPart(7, "it's")], "attempts": ["it's", "0ae2"]}
    values |= {"ranges": [("it's", 0, 1, 3), ("b", 7, 2, 9)], "published": 6, "snapshot_id": 0}
    for name in ("create", "write", "forget", "reread", "replayed"):
        known = {"it's": "i'd", "b": "2"}
        for ids in (known,) if name == "reread" else (known, {"it's": "i'd", "b": ""}, {}):
            text = SQL.render(f"{name}_dead_letters", **values, ids=ids, own=describe_control(CONTROL))
            analyzer.check(text)
    row = {"table": positions, "pipeline": "it's", "version": 3, "properties": "{}"}
    analyzer.check(SQL.render("seed_position", **row))
    analyzer.check(SQL.render("assert_versions", positions=positions, versions=5))
    source = StagedSource(tmp, (StagedPart(6, "0ae2"), StagedPart(7, "it's")))
    analyzer.check(render_staged_assertion("my-project.shop.orders_shop_tmp", source, 5))
