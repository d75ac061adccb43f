"""Two first flushes at once on a new namespace, and rows of history that several writers append at once."""

from pathlib import Path
from typing import Any

import pytest
from contract.test_destination import Kit, build_iceberg_kit
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from sqlalchemy.exc import IntegrityError
from tidegate.errors import RetryLater
from tidegate.jobs.statements_job import StatementsJob
from tidegate.table.history import FRACTION_FIELDS, INTEGER_FIELDS, TEXT_FIELDS
from tidegate_spark.merge import job as merge

CONTROL = "lake.new.tidegate_shop_batches"
CREATE = ("CREATE NAMESPACE IF NOT EXISTS `lake`.`new`", "CREATE TABLE IF NOT EXISTS `lake`.`new`.`orders` (id BIGINT)")


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return build_iceberg_kit(tmp_path)


def build_history_row(batch: int) -> dict[str, Any]:
    values = {
        **dict.fromkeys(INTEGER_FIELDS, 0),
        **dict.fromkeys(TEXT_FIELDS, ""),
        **dict.fromkeys(FRACTION_FIELDS, 0.0),
    }
    return {**values, "batch": batch, "table": "lake.new.orders"}


def read_batch_numbers(port: Any) -> list[int]:
    return sorted(batch_row["batch"] for batch_row in port.history.read_history(CONTROL, 10))


def test_namespace_that_another_first_run_makes_in_between_is_as_good(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = kit.port.tables.catalogs.catalog("lake")
    create = catalog.create_namespace

    def loses(namespace: str) -> None:
        create(namespace)  # the other run's
        raise IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed"))

    monkeypatch.setattr(catalog, "create_namespace", loses)
    kit.port.history.append_history(CONTROL, build_history_row(1))
    assert read_batch_numbers(kit.port) == [1]
    monkeypatch.setattr(catalog, "create_namespace", lambda _: 1 / 0)
    with pytest.raises(RetryLater, match="unexpected ZeroDivisionError"):
        kit.port.history.append_history("lake.elsewhere.tidegate_shop_batches", build_history_row(1))


@pytest.mark.parametrize("lost", [4, 5])
def test_row_of_history_outlives_lost_commits_and_is_there_once(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    kit.port.history.append_history(CONTROL, build_history_row(1))
    append, failures = Table.append, [lost]

    def busy(table: Table, *words: Any, **options: Any) -> None:
        if failures[0]:
            failures[0] -= 1
            raise CommitFailedException("branch main has changed")
        append(table, *words, **options)

    monkeypatch.setattr(Table, "append", busy)
    if lost == 5:
        with pytest.raises(RetryLater, match="another writer changed it during append_history"):
            kit.port.history.append_history(CONTROL, build_history_row(2))
    else:
        kit.port.history.append_history(CONTROL, build_history_row(2))
    assert read_batch_numbers(kit.port) == ([1] if lost == 5 else [1, 2])


class Refusing:
    """A session whose statements of that beginning are refused, so often."""

    def __init__(self, beginning: str, times: int) -> None:
        self.beginning, self.left = beginning, times
        self.statements: list[str] = []
        self.conf = self

    def sql(self, statement: str) -> None:
        if statement.startswith(self.beginning) and self.left:
            self.left -= 1
            raise PySparkException("already exists")
        self.statements.append(statement)


@pytest.mark.parametrize("beginning", ["CREATE NAMESPACE", "CREATE TABLE"])
def test_creation_that_loses_a_race_in_spark_is_run_again_once(beginning: str) -> None:
    job = StatementsJob("shop", 1, CREATE)
    spark: Any = Refusing(beginning, 1)
    merge.run(spark, job)
    assert spark.statements == [*CREATE]
    with pytest.raises(PySparkException):
        merge.run(Refusing(beginning, 2), job)  # type: ignore[arg-type]


def test_statement_that_changes_rows_is_never_run_again() -> None:
    spark: Any = Refusing("MERGE", 1)
    with pytest.raises(PySparkException):
        merge.run(spark, StatementsJob("shop", 1, (*CREATE, "MERGE INTO x")))
    assert spark.statements == [*CREATE]
