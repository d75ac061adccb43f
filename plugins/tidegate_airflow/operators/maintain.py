"""The mapped tasks of a maintenance run: one for each table, or for some of them where there are very many."""

from collections.abc import Sequence
from typing import Any

from airflow.configuration import conf
from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from tidegate.errors import SomeTablesDelayed, SomeTablesFailed
from tidegate.ports.session import Engine

from tidegate_airflow import tasks
from tidegate_airflow.errors import raise_joined

Data = dict[str, Any]


def list_table_groups(name: str) -> list[str | list[str]]:
    """What the tasks are mapped over: names of tables; lists of them where Airflow takes no entry for each."""
    return group_tables(tasks.run_tables(name), conf.getint("core", "max_map_length"))


def group_tables(names: Sequence[str], limit: int) -> list[str | list[str]]:
    size = -(-len(names) // limit)
    return list(names) if size <= 1 else [list(names[at : at + size]) for at in range(0, len(names), size)]


def maintain_tables(pipeline: str, table_names: str | list[str], engine: Engine | None = None) -> Data | list[Data]:
    """Maintain the table, or each of several; a failure does not stop the others. Return what changed."""
    names = [table_names] if isinstance(table_names, str) else table_names
    get_current_context()["table"] = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if len(names) == 1:
        return tasks.run_maintain(pipeline, names[0], engine)
    reports = list[Data]()
    failures = list[AirflowException]()
    for name in names:
        try:
            reports.append(tasks.run_maintain(pipeline, name, engine))
        except AirflowSkipException:
            continue
        except AirflowException as problem:
            failures.append(problem)
    if failures:
        is_passing = not all(isinstance(problem, AirflowFailException) for problem in failures)
        kind = SomeTablesDelayed if is_passing else SomeTablesFailed
        raise_joined(kind.__name__, map(str, failures), is_passing=is_passing)
    return reports
