"""Tables that a `select` joins: their columns, and the snapshots that a batch reads of them."""

import json
from dataclasses import replace

from tidegate.errors import ConfigurationError
from tidegate.model.table_state import TableState
from tidegate.ports.session import Session
from tidegate.spec.projection import Dimension, Field, Select
from tidegate.spec.table import Table


def describe_table(session: Session, table: Table) -> Table:
    """Return `table` as its schemas describe it, with the columns of the dimensions that its `select` joins."""
    described_table = session.schemas.describe_table(table)
    if described_table.select is None or not described_table.select.dimensions:
        return described_table
    dimensions = []
    for dimension in described_table.select.dimensions:
        state = _read_dimension_state(session, described_table, dimension)
        columns = tuple(Field(c.name, c.type, c.nullable) for c in state.columns)
        dimensions.append(replace(dimension, columns=columns))
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
