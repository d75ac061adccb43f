"""Maintenance of more tables than Airflow maps tasks over."""

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from fakes.task_instance import PushedResults
from tidegate.errors import GiveUp, RetryLater
from tidegate_airflow import errors, tasks
from tidegate_airflow.errors import raise_airflow_errors
from tidegate_airflow.operators import job
from tidegate_airflow.operators.job import group_tables, list_table_groups, maintain_tables

TABLE_NAMES = [f"lake.shop.t{number}" for number in range(2002)]


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    context: Any = {"ti": PushedResults()}
    for module in (errors, job):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    return context


def test_tables_are_mapped_one_by_one_as_long_as_airflow_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "run_tables", lambda _: TABLE_NAMES)
    groups = list_table_groups("shop")
    assert len(groups) <= 1024
    assert [name for group in groups for name in group] == TABLE_NAMES
    assert {len(group) for group in groups} == {2}
    assert group_tables(TABLE_NAMES[:1024], 1024) == TABLE_NAMES[:1024]
    assert group_tables(TABLE_NAMES[:1025], 1024)[:2] == [TABLE_NAMES[:2], TABLE_NAMES[2:4]]
    assert group_tables([], 1024) == []


@pytest.mark.parametrize(
    ("problems", "kind", "error"),
    [
        ({"a": RetryLater("a fails"), "c": GiveUp("c fails")}, AirflowException, "SomeTablesDelayed"),
        ({"a": GiveUp("a fails"), "c": GiveUp("c fails")}, AirflowFailException, "SomeTablesFailed"),
    ],
)
def test_table_that_fails_keeps_none_of_its_group_from_its_maintenance(
    context: Any, monkeypatch: pytest.MonkeyPatch, problems: dict[str, Exception], kind: type, error: str
) -> None:
    tables = list[str]()

    def run(pipeline: str, table: str, engine: Any = None) -> dict[str, Any]:
        with raise_airflow_errors():
            if table in problems:
                raise problems[table]
        tables.append(table)
        return {"table": table}

    monkeypatch.setattr(tasks, "run_maintain", run)
    with pytest.raises(AirflowException) as error_info:
        maintain_tables("shop", ["a", "b", "c", "d"])
    assert type(error_info.value) is kind
    assert tables == ["b", "d"]
    assert context["ti"].pushed["error"] == {"error": error, "message": "a fails\nc fails"}
    assert maintain_tables("shop", ["b", "d"]) == [{"table": "b"}, {"table": "d"}]
    assert context["table"] == "b and 1 more"
    assert maintain_tables("shop", "b") == {"table": "b"}
    assert context["table"] == "b"
