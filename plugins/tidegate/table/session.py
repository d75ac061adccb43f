"""One table of an opened pipeline: found by its name, with what was read of it and what its messages begin with.

Also the tables that records name, and those that a `select` joins.
"""

import json
import logging
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

from tidegate.errors import ConfigurationError, RetryLater, TableRemoved
from tidegate.model import resource_names
from tidegate.model.batch import Plan
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import format_names
from tidegate.model.position import Position
from tidegate.model.table_state import TableState
from tidegate.ports.session import Session, Sql
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.projection import Dimension, Select
from tidegate.spec.table import Table
from tidegate.spec.table_template import TableNaming
from tidegate.sql.pruning import Bounds
from tidegate.table.columns import list_destination_columns, list_fixed_names, resolve_columns

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableSession:
    """One table of an opened pipeline, and what was read of it."""

    session: Session
    spec: Table  # the table as its file and schemas describe it
    state: TableState | None = None  # as the catalog has it, None if there is none, or before the first `refresh`

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def pipeline(self) -> Pipeline:
        return self.session.pipeline

    @property
    def prefix(self) -> str:
        return f"pipeline={self.pipeline.name} table={self.name}"

    @property
    def arguments(self) -> str:
        """Of a command that acts on this table alone."""
        return f"{self.pipeline.name} --table {resource_names.quote_word(self.name)}"

    @property
    def intermediate(self) -> str:
        return resource_names.name_intermediate_table(self.pipeline, self.spec)

    @property
    def sql(self) -> Sql:
        return self.session.get_sql(self.name)

    @property
    def has_branches(self) -> bool:
        return self.session.commits.has_branches(self.name)

    @cached_property
    def resolved(self) -> Table:
        return resolve_columns(self.spec, self.state)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return list_destination_columns(self.resolved)

    def get_facts(self) -> dict[str, Any]:
        """Return each field by its name, to build a subclass from."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def require_state(self) -> TableState:
        """Return the state; `RetryLater` if the table was dropped meanwhile."""
        if self.state is None:
            raise RetryLater(f"{self.prefix}: the table is gone; it will be tried again")
        return self.state

    def add_columns(self, added: tuple[Column, ...]) -> Self:
        """Return the table with columns that records have made, and that the destination may not have yet.

        What the file names itself by now is left out: rows that were staged with such a column are staged again.
        """
        fixed = list_fixed_names(self.spec) if added else ()
        own = tuple(column for column in added if column.name.casefold() not in fixed)
        return replace(self, spec=replace(self.spec, value=replace(self.spec.value, added=own)))

    def refresh(self) -> Self:
        return replace(self, state=self.session.tables.read_state(self.name, self.pipeline.name))

    def list_other_pipelines(self) -> list[str]:
        return [name for name in self.session.tables.list_pipelines(self.name) if name != self.pipeline.name]

    def read_other_positions(self) -> dict[str, Position | None]:
        """Return the lasting position of each other pipeline that has published rows into the table."""
        states = {name: self.session.tables.read_state(self.name, name) for name in self.list_other_pipelines()}
        return {
            name: state.lasting_position
            for name, state in states.items()
            if state is not None and state.recorded_position is not None
        }

    def find_bounds(self, values: MergeInput) -> Bounds:
        return self.session.tables.find_bounds(self.name, values)

    def evolve(self) -> Self:
        """Let the table hold its columns; read it again if that changed its schema."""
        spec = self.resolved
        changed = self.session.tables.evolve(
            self.name, self.columns, add=spec.add_columns, widen=spec.widen, relax=spec.relax
        )
        evolved = self.refresh() if changed else self
        return self if evolved.state is None else evolved


def open_table(session: Session, name: str) -> TableSession:
    return TableSession(session, find_table(session, name))


def find_table(session: Session, name: str) -> Table:
    """Return the pipeline's table of that name, as its schemas describe it, or one that its template can make.

    `ConfigurationError` for a table that the file does not name.
    """
    if not has_table(session.pipeline, name):
        raise ConfigurationError(
            f"pipeline={session.pipeline.name} table={name} is not in the file; put it there again"
        )
    configured_table = next((table for table in session.pipeline.tables if table.name == name), None)
    return describe_table(session, configured_table or make_concrete_table(session.pipeline, name))


def select_tables(session: Session, name: str | None) -> tuple[Table, ...]:
    """Return the tables that rows are published into, or the one of that name; `ConfigurationError` without it."""
    tables = expand_template(session).pipeline.row_tables
    selected_tables = tuple(table for table in tables if name in (None, table.name))
    if not selected_tables:
        names = format_names([table.name for table in tables]) or "none yet"
        raise ConfigurationError(f"pipeline={session.pipeline.name} has no table={name}; it has: {names}")
    return selected_tables


def check_table_is_known(session: Session, name: str) -> None:
    """Raise `TableRemoved` if the file no longer names the table."""
    if not has_table(session.pipeline, name):
        raise _build_removed_error(session.pipeline, name)


def keep_known_tables(session: Session, plan: Plan) -> Plan:
    """Drop the tables that the file no longer names; `TableRemoved` if none is left."""
    known = tuple(table for table in plan.tables if has_table(session.pipeline, table.table))
    errors = [_build_removed_error(session.pipeline, table.table) for table in plan.tables if table not in known]
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
    return any(table.name == name for table in pipeline.tables) or can_make_table(pipeline, name)


# ---- tables that records name: the entry of the file that they share, and the tables that it has made so far


def expand_template(session: Session, *, again: bool = False) -> Session:
    """Add to the pipeline the tables that records have named so far, and the table of names.

    Done once for a session; `again` looks for tables that were named since.
    """
    pipeline = session.pipeline
    template = pipeline.template
    is_expanded = any(table.discovers_names for table in pipeline.tables)
    if template is None or (is_expanded and not again):
        return session
    pipeline = replace(pipeline, tables=tuple(table for table in pipeline.tables if table.naming is None))
    table_names = {table.name for table in pipeline.tables}
    concrete_names = [
        name
        for name in sorted(_list_candidates(session, template))
        if name not in table_names and _is_product_table(session, name)
    ]
    finder = replace(template, name=resource_names.name_registry_table(pipeline), naming=get_naming(pipeline))
    tables = (*pipeline.tables, *(make_concrete_table(pipeline, name) for name in concrete_names), finder)
    return replace(session, pipeline=replace(pipeline, tables=tables))


def refuse_template(pipeline: Pipeline, feature: str) -> None:
    """Raise `ConfigurationError` for what does not work with tables that records name."""
    if pipeline.template is not None:
        raise ConfigurationError(
            f"pipeline={pipeline.name} table={pipeline.template.name}: {feature} does not know tables that records "
            "name; rebase the pipeline to read their records again"
        )


def make_concrete_table(pipeline: Pipeline, name: str) -> Table:
    template = pipeline.template
    assert template is not None
    naming = replace(get_naming(pipeline), name=name.partition(".")[2])
    return replace(template, name=name, naming=naming)


def can_make_table(pipeline: Pipeline, name: str) -> bool:
    template = pipeline.template
    parent, _, table = name.rpartition(".")
    if template is None or parent not in {f"{template.catalog}.{namespace}" for namespace in template.namespaces}:
        return False
    return get_naming(pipeline).makes(table)


def get_naming(pipeline: Pipeline) -> TableNaming:
    template = pipeline.template
    assert template is not None
    fixed_tables = [table.identifier for table in pipeline.tables if table.naming is None]
    reserved_names = [identifier.rpartition(".")[2] for identifier in fixed_tables]
    # no table is called like a namespace: the files of that namespace's tables would lie among its own
    for namespace in template.namespaces:
        above = f"{namespace}.".casefold()
        inside = [name for name in (*fixed_tables, *template.namespaces) if name.casefold().startswith(above)]
        reserved_names += [name[len(above) :].partition(".")[0] for name in inside]
    return TableNaming(
        template.identifier,
        template.namespaces,
        resource_names.build_reserved_pattern(pipeline, dict.fromkeys(reserved_names)),
    )


def _list_candidates(session: Session, template: Table) -> set[str]:
    naming = get_naming(session.pipeline)
    suffix = resource_names.get_intermediate_suffix(session.pipeline).casefold()
    candidates = set[str]()
    for namespace in template.namespaces:
        parent = f"{template.catalog}.{namespace}"
        for listed in session.tables.list_tables(parent):
            bases = [listed[: -len(suffix)]] if listed.casefold().endswith(suffix) else []
            candidates |= {f"{parent}.{name}" for name in (listed, *bases) if naming.makes(name)}
    return candidates


def _is_product_table(session: Session, name: str) -> bool:
    pipeline = session.pipeline
    state = session.tables.read_state(name, pipeline.name)
    if state is not None and state.recorded_position is not None:
        return True
    return bool(session.staging.list_staged(name + resource_names.get_intermediate_suffix(pipeline), name))


# ---- tables that a `select` joins: their columns, and the snapshots that a batch reads of them


def describe_table(session: Session, table: Table) -> Table:
    """Return `table` as its schemas describe it, with the columns of the dimensions that its `select` joins."""
    described_table = session.schemas.describe_table(table)
    if described_table.select is None or not described_table.select.dimensions:
        return described_table
    dimensions = []
    for dimension in described_table.select.dimensions:
        state = _read_dimension_state(session, described_table, dimension)
        dimensions.append(replace(dimension, columns=state.columns))
    return replace(described_table, select=replace(described_table.select, dimensions=tuple(dimensions)))


def _read_dimension_state(session: Session, table: Table, dimension: Dimension) -> TableState:
    state = session.tables.read_state(dimension.table, session.pipeline.name)
    if state is None:
        raise ConfigurationError(
            f"pipeline={session.pipeline.name} table={table.name}: select joins table={dimension.table}, which does "
            "not exist; create it, or correct the name"
        )
    return state


def pin_dimensions(session: Session, table: Table) -> Table:
    """Fix each dimension's current snapshot, so that all of a batch's records see equal rows."""
    if table.select is None:
        return table
    pinned_dimensions = tuple(
        replace(d, snapshot_id=_read_dimension_state(session, table, d).snapshot_id) for d in table.select.dimensions
    )
    return replace(table, select=replace(table.select, dimensions=pinned_dimensions))


def format_pins(select: Select | None) -> dict[str, str]:
    if select is None or not select.dimensions:
        return {}
    pins = {d.table: None if d.snapshot_id is None else str(d.snapshot_id) for d in select.dimensions}
    return {"tidegate.dimensions": json.dumps(pins)}
