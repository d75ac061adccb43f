"""Jobs that a task waits for: a slice of a backfill, the maintenance of tables."""

from collections.abc import Sequence
from typing import Any

from airflow.configuration import conf
from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from tidegate.errors import SomeTablesDelayed, SomeTablesFailed
from tidegate.model.batch import PublishOutcome
from tidegate.ports.session import Engine

from tidegate_airflow import tasks
from tidegate_airflow.assets import emit_change_event
from tidegate_airflow.errors import raise_airflow_errors, raise_joined

Data = dict[str, Any]


def run_slice(
    context: Context, pipeline: str, backfill: Any, work_item: Any, engine: Any = None
) -> list[dict[str, Any]]:
    """Apply one slice of a backfill; return what was done to each table.

    A table that got rows is an event of its asset, also if an earlier try has published them.
    """
    from tidegate.model.backfill import Backfill
    from tidegate.reprocess.backfill import apply_slice

    context["slice"] = work_item["slice"]
    with raise_airflow_errors():
        session = tasks.assemble_session(pipeline, engine)
        applied = apply_slice(session, Backfill.from_dict(backfill), work_item["number"])
    applied_slices = [part.to_dict() for part in applied]
    for applied_slice in applied_slices:
        if applied_slice["snapshot_id"] is not None or applied_slice["outcome"] == PublishOutcome.ALREADY_APPLIED:
            emit_change_event(context, "backfill", applied_slice)
    return applied_slices


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
