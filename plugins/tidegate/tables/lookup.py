"""A pipeline's table by its name."""

import logging
from dataclasses import replace

from tidegate.errors import ConfigurationError, TableRemoved
from tidegate.model.batch import Plan
from tidegate.ports.context import Ports
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.tables.dimension_tables import describe_table
from tidegate.tables.templated_tables import can_make_table, make_concrete_table

log = logging.getLogger(__name__)


def find_table(ports: Ports, name: str) -> Table:
    """The pipeline's table of that name, as its schemas describe it; one that is not among them its template made.

    ConfigurationError for a table that the file does not name.
    """
    if not has_table(ports.pipeline, name):
        raise ConfigurationError(f"pipeline={ports.pipeline.name} table={name} is not in the file; put it there again")
    configured_table = next((table for table in ports.pipeline.tables if table.name == name), None)
    return describe_table(ports, configured_table or make_concrete_table(ports.pipeline, name))


def check_table_is_known(ports: Ports, name: str) -> None:
    """TableRemoved where the file, changed since the run began, names the table no more."""
    if not has_table(ports.pipeline, name):
        raise _build_removed_error(ports.pipeline, name)


def keep_known_tables(ports: Ports, plan: Plan) -> Plan:
    """The plan without the tables that the file names no more; TableRemoved where none is left."""
    known = tuple(table for table in plan.tables if has_table(ports.pipeline, table.table))
    errors = [_build_removed_error(ports.pipeline, table.table) for table in plan.tables if table not in known]
    if errors and not known:
        raise errors[0]
    for reason in errors:
        log.warning("%s", reason)
    return replace(plan, tables=known)


def _build_removed_error(pipeline: Pipeline, name: str) -> TableRemoved:
    return TableRemoved(
        f"pipeline={pipeline.name} table={name} is not in the file any more: nothing is written to it; what is staged "
        "for it waits until the file names it again"
    )


def has_table(pipeline: Pipeline, name: str) -> bool:
    """Whether the file of the pipeline names the table, or its records can."""
    return any(table.name == name for table in pipeline.tables) or can_make_table(pipeline, name)
