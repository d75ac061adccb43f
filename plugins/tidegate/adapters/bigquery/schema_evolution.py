"""Making a BigQuery table able to hold a pipeline's columns: additive, idempotent, before anything is merged."""

from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.type_mapping import bigquery_schema, bigquery_type, held_by, stored_columns
from tidegate.errors import IncompatibleSchema
from tidegate.schema.column import Column
from tidegate.schema.evolution import Change, Rules, changes
from tidegate.sql.googlesql import quoted, quoted_name

Field = dict[str, Any]


def evolve(warehouse: Warehouse, name: str, columns: tuple[Column, ...], rules: Rules) -> list[str]:
    """Add missing columns, relax required ones, widen types; returns a sentence for each change.

    `IncompatibleSchema` where the table cannot hold what is asked; then nothing is changed.
    """
    table = warehouse.table(name)
    if table is None:
        return []
    fields = [field.to_api_repr() for field in table.schema]
    wanted = changes(name, held_by(fields), stored_columns(columns), rules)
    widened = [change for change in wanted if change.kind == "widen"]
    for change in widened:
        _check_widens(name, change)
    changed = [change for change in wanted if change.kind != "widen"]
    if changed:
        for change in changed:
            _apply(fields, change)
        table.schema = fields
        warehouse.update(table, "schema")
    for change in widened:
        column, kind = quoted(change.path[0]), bigquery_type(change.type)
        where = quoted_name(warehouse.reference(name))
        warehouse.query(f"ALTER TABLE {where} ALTER COLUMN {column} SET DATA TYPE {kind}")
    return [str(change) for change in wanted]


def _check_widens(name: str, change: Change) -> None:
    if len(change.path) > 1:
        raise IncompatibleSchema(
            f"table={name} column={'.'.join(change.path)}: BigQuery widens no field inside a column: "
            f"{change.before} to {change.type}; nothing was written; copy the table with the wider type"
        )


def _apply(fields: list[Field], change: Change) -> None:
    """Add or relax one field in the table's schema, in place; an element of an array has no field of its own."""
    *above, last = (step for step in change.path if step != "element")
    for step in above:
        fields = _named(fields, step).setdefault("fields", [])
    if change.kind == "add":
        fields += bigquery_schema([Column(last, change.type)])
    else:
        _named(fields, last)["mode"] = "NULLABLE"


def _named(fields: list[Field], name: str) -> Field:
    return next(field for field in fields if field["name"] == name)
