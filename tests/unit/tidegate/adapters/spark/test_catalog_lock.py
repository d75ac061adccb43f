"""A SQLite catalog whose lock somebody keeps is told before Spark waits for it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tidegate.adapters.iceberg.catalog import prepare_database
from tidegate.adapters.spark import entry_points
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.entry_points import require_free_catalogs
from tidegate.adapters.spark.submit import SubmitEngine
from tidegate.adapters.spark.target import SubmitTarget
from tidegate.errors import RetryLater
from tidegate.jobs.statements_job import StatementsJob


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    """A session of two SQLite catalogs and one of PostgreSQL's."""
    for name in ("lake", "pond"):
        prepare_database(tmp_path / f"{name}.db")
    uris = {name: f"jdbc:sqlite:{tmp_path}/{name}.db?busy_timeout=30000" for name in ("lake", "pond")}
    uris["sea"] = "jdbc:postgresql://nowhere.invalid/sea"
    return {f"spark.sql.catalog.{name}.uri": uri for name, uri in uris.items()}


@pytest.fixture
def locked(conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Another program writes to one of them."""
    monkeypatch.setattr(entry_points, "LOCK_SECONDS", 0.0)
    with closing(sqlite3.connect(tmp_path / "pond.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield conf


def test_free_catalogs_are_left_free_and_unchanged(conf: dict[str, str], tmp_path: Path) -> None:
    before = (tmp_path / "lake.db").read_bytes()
    require_free_catalogs(conf)
    assert (tmp_path / "lake.db").read_bytes() == before
    with closing(sqlite3.connect(tmp_path / "lake.db", timeout=0, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")


def test_catalog_that_lies_on_another_machine_is_not_looked_at_and_not_made(tmp_path: Path) -> None:
    require_free_catalogs({"spark.sql.catalog.far.uri": f"jdbc:sqlite:{tmp_path}/far.db"})
    assert list(tmp_path.iterdir()) == []


def test_lock_that_another_program_keeps_is_told_before_spark_is_asked(locked: dict[str, str], tmp_path: Path) -> None:
    job = StatementsJob("shop", 3, ())
    for engine in (ConnectEngine("", locked), SubmitEngine(SubmitTarget("local[1]"), "", locked)):
        with pytest.raises(RetryLater, match=f"catalog=pond file={tmp_path}/pond.db: another program has kept its"):
            engine.run(job)
