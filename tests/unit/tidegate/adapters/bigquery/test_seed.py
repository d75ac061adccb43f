"""Where a pipeline begins in a BigQuery table: of several that begin, none takes another one's row."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.catalog import get_uuid
from tidegate.adapters.bigquery.commit import BigQueryCommits
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import CommitRefused
from tidegate.model.offsets import Offsets
from tidegate.model.position import Position

SQL = SqlFiles("bigquery", {"dwh": "my-project"})
NAME = "dwh.shop.orders"
OLD = datetime(2026, 1, 1, tzinfo=UTC)
NEW = datetime(2026, 1, 2, tzinfo=UTC)


class Beginning:
    """A project in which the job of a first row has run already; `meanwhile` happens before its answer comes."""

    def __init__(self, created: datetime, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.created = created
        self.rows: list[dict[str, Any]] = []
        self.jobs: list[str] = []
        self.meanwhile = meanwhile

    def put_row(self, created: datetime, version: int) -> None:
        properties = json.dumps({"table": get_uuid(SimpleNamespace(created=created))})
        changed = datetime(2026, 11, 26, tzinfo=UTC)
        row = {"pipeline": "shop", "version": version, "attempt": "", "properties": properties, "changed": changed}
        self.rows = [row]

    def list_rows(self, *_: Any) -> list[dict[str, Any]]:
        return self.rows

    def require_table(self, _: str) -> Any:
        return SimpleNamespace(created=self.created)

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


def begin(project: Beginning) -> None:
    warehouse: Any = project
    BigQueryCommits({"dwh": warehouse}, SQL).seed(NAME, "shop", Position(Offsets({}), 0))


def test_late_beginner_of_a_table_that_was_replaced_leaves_the_row_of_the_new_one() -> None:
    project = Beginning(OLD, lambda: project.put_row(NEW, 1))
    with pytest.raises(CommitRefused, match="a position in a table that came in place of this one"):
        begin(project)
    assert len(project.jobs) == 1
    assert json.loads(project.rows[0]["properties"]) == {"table": get_uuid(SimpleNamespace(created=NEW))}


def test_first_row_of_a_new_table_takes_the_place_of_the_row_that_was_read_alone() -> None:
    project = Beginning(NEW, lambda: project.put_row(NEW, 8))
    project.put_row(OLD, 7)
    begin(project)
    (job,) = project.jobs
    assert "WHEN MATCHED AND t.version = 7 THEN UPDATE SET version = 8" in job
