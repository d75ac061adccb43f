"""Dimension tables of a `select`: looked up in their catalogs, and pinned for one attempt at a batch."""

import json
from dataclasses import replace

from tidegate.errors import ConfigurationError
from tidegate.ports.context import Ports, TableState
from tidegate.spec.projection import Dimension, Field, Select
from tidegate.spec.table import Table


def describe_table(ports: Ports, table: Table) -> Table:
    """`table` as its schemas describe it, and the columns of the dimension tables that its `select` joins."""
    described_table = ports.schemas.describe_table(table)
    if described_table.select is None or not described_table.select.dimensions:
        return described_table
    joined_dimensions = tuple(
        _look_up_columns(ports, described_table, dimension) for dimension in described_table.select.dimensions
    )
    return replace(described_table, select=replace(described_table.select, dimensions=joined_dimensions))


def _look_up_columns(ports: Ports, table: Table, dimension: Dimension) -> Dimension:
    state = _read_dimension_state(ports, table, dimension)
    return replace(dimension, columns=tuple(Field(c.name, c.type, c.nullable) for c in state.columns))


def _read_dimension_state(ports: Ports, table: Table, dimension: Dimension) -> TableState:
    state = ports.tables.read_state(dimension.table, ports.pipeline.name)
    if state is None:
        raise ConfigurationError(
            f"pipeline={ports.pipeline.name} table={table.name}: select joins table={dimension.table}, which does not "
            "exist; create it, or correct the name"
        )
    return state


def pin_dimensions(ports: Ports, table: Table) -> Table:
    """`table` with each dimension at the snapshot that stands there now: all of a batch's records see the same rows."""
    if table.select is None:
        return table
    pinned_dimensions = tuple(
        replace(d, snapshot_id=_read_dimension_state(ports, table, d).snapshot_id) for d in table.select.dimensions
    )
    return replace(table, select=replace(table.select, dimensions=pinned_dimensions))


def format_pins(select: Select | None) -> dict[str, str]:
    """For the staged batch's summary: which snapshot of each dimension table its rows were made with."""
    if select is None or not select.dimensions:
        return {}
    pins = {d.table: None if d.snapshot_id is None else str(d.snapshot_id) for d in select.dimensions}
    return {"tidegate.dimensions": json.dumps(pins)}
