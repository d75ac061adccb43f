"""Whose account may write into datasets, and make none, never asks BigQuery to make one."""

from collections.abc import Collection
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.commit import run_table_commit
from tidegate.adapters.bigquery.destination import BigQueryEngine, build_bigquery_destination
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp
from tidegate.jobs.statements_job import StatementsJob
from tidegate.model.table_state import TableCommit
from tidegate.spec.pipeline import Catalog

SQL = SqlFiles("bigquery", {"dwh": "my-project"})
TABLE, LETTERS, CONTROL = "dwh.shop.orders", "dwh.letters.bad", "dwh.shop.tidegate_shop_batches"


class Editor(Warehouse):
    """A project of `datasets` in which we may not make one; what was sent is kept, and nothing is run."""

    def __init__(self, datasets: Collection[str], unseen: Collection[str] = ()) -> None:
        super().__init__(Catalog("dwh", "bigquery", {"project": "my-project"}), lambda _: None)
        self.sent: list[str] = []
        self._datasets, self._unseen = datasets, unseen

    @property
    def client(self) -> Any:
        return SimpleNamespace(get_dataset=self._get, query=self._query, get_table=self._get_table)

    def _get(self, reference: str, **_: Any) -> Any:
        from google.api_core.exceptions import Forbidden, NotFound

        if reference in self._unseen:
            raise Forbidden("you may not look")
        if reference not in self._datasets:
            raise NotFound("there is none")
        return SimpleNamespace()

    def _get_table(self, *_: Any, **__: Any) -> Any:
        from google.api_core.exceptions import NotFound

        raise NotFound("there is none")

    def _query(self, sql: str, **_: Any) -> Any:
        from google.api_core.exceptions import Forbidden

        self.sent.append(sql)
        if "CREATE SCHEMA" in sql:
            raise Forbidden("User does not have bigquery.datasets.create permission in project my-project.")
        job_fields = {"state": "DONE", "error_result": None, "reload": lambda **_: None, "total_bytes_processed": 0}
        return SimpleNamespace(job_id="j", project="my-project", location="EU", **job_fields)


def render_creation(table: str) -> tuple[str, str]:
    parent = SQL.render("create_namespace", parent=table.rsplit(".", 1)[0])
    return parent, SQL.render("create_names", table=table, own=SimpleNamespace(labels={"tidegate-kind": "x"}))


def test_tables_are_made_in_datasets_that_are_there() -> None:
    warehouse = Editor(["my-project.shop", "my-project.letters"])
    (first, first_creation), (second, second_creation) = render_creation(TABLE), render_creation(LETTERS)
    BigQueryEngine(warehouse).run(
        StatementsJob("shop", 1, (first, first_creation, second, second_creation), table=TABLE)
    )
    assert warehouse.sent == [first_creation, second_creation]


@pytest.mark.parametrize("unseen", [(), ("my-project.letters",)])
def test_a_dataset_that_is_missing_or_not_shown_is_asked_for(unseen: tuple[str, ...]) -> None:
    warehouse = Editor(["my-project.shop"], unseen)
    job = StatementsJob("shop", 1, (*render_creation(TABLE), *render_creation(LETTERS)), table=TABLE)
    with pytest.raises(GiveUp, match=r"bigquery\.datasets\.create"):
        BigQueryEngine(warehouse).run(job)
    assert len(warehouse.sent) == 2


def test_publish_that_makes_a_table_of_dead_letters_makes_no_dataset_that_is_there() -> None:
    warehouse = Editor(["my-project.shop", "my-project.letters"])
    run_table_commit(
        warehouse,
        SQL,
        TableCommit(TABLE, "1", 0, 3, "", 4, {}, pipeline="shop", attempt="m1", statements=render_creation(LETTERS)),
    )
    (script,) = warehouse.sent
    assert "CREATE TABLE IF NOT EXISTS `my-project`.`letters`.`bad`" in script
    assert "CREATE SCHEMA" not in script


def test_history_is_begun_in_a_dataset_that_is_there() -> None:
    warehouse = Editor(["my-project.shop"])
    row: Any = {"batch": 1, "published_at_ms": round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)}
    build_bigquery_destination({"dwh": warehouse}, SQL).history.append_history(CONTROL, row)
    assert [statement.split(" (")[0] for statement in warehouse.sent] == [
        "CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`tidegate_shop_batches`",
        "INSERT INTO `my-project`.`shop`.`tidegate_shop_batches`",
    ]
