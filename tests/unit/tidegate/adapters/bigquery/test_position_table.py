"""Where a pipeline begins in a BigQuery table: of several that begin, none takes another one's row."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.position_table import seed_position
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import CommitRefused

SQL = SqlFiles("bigquery", {"dwh": "my-project"})
NAME = "dwh.shop.orders"


class Beginning:
    """A project in which the job of a first row has run already; `meanwhile` happens before its answer comes."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.jobs: list[str] = []
        self.meanwhile = meanwhile

    def put_row(self, uuid: str, version: int) -> None:
        properties = json.dumps({"table": uuid})
        changed = datetime(2026, 11, 26, tzinfo=UTC)
        row = {"pipeline": "shop", "version": version, "attempt": "", "properties": properties, "changed": changed}
        self.rows = [row]

    def list_rows(self, *_: Any) -> list[dict[str, Any]]:
        return self.rows

    def find_table(self, _: str) -> Any:
        return None

    def run_statement(self, *_: Any) -> Any:
        return SimpleNamespace()

    def run_script_once(self, place: str, name: str, script: Callable[[str], str], labels: Any) -> Any:
        self.jobs.append(script(name))
        if len(self.jobs) > 9:
            raise AssertionError("it never ends")
        self.meanwhile()
        return SimpleNamespace()


def begin(project: Beginning, uuid: str) -> None:
    warehouse: Any = project
    seed_position(warehouse, SQL, table=NAME, uuid=uuid, pipeline="shop", properties={})


def test_late_beginner_of_a_table_that_was_replaced_leaves_the_row_of_the_new_one() -> None:
    project = Beginning(lambda: project.put_row("new", 1))
    with pytest.raises(CommitRefused, match="a position in a table that came in place of this one"):
        begin(project, "old")
    assert len(project.jobs) == 1
    assert json.loads(project.rows[0]["properties"]) == {"table": "new"}


def test_first_row_of_a_new_table_takes_the_place_of_the_row_that_was_read_alone() -> None:
    project = Beginning(lambda: project.put_row("new", 8))
    project.put_row("old", 7)
    begin(project, "new")
    (job,) = project.jobs
    assert "WHEN MATCHED AND t.version = 7 THEN UPDATE SET version = 8" in job
