"""Changes a BigQuery table so that it holds a pipeline's columns: additive, idempotent, before anything is merged."""

from collections.abc import Iterator
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.type_mapping import (
    read_table_struct,
    to_bigquery_schema,
    to_bigquery_type,
    to_stored_columns,
)
from tidegate.errors import IncompatibleSchema
from tidegate.schema.column import Column
from tidegate.schema.evolution import ChangeKind, EvolutionRules, Path, SchemaChange, find_schema_changes
from tidegate.sql.googlesql import quote, quote_name

Field = dict[str, Any]


def evolve(warehouse: Warehouse, name: str, columns: tuple[Column, ...], rules: EvolutionRules) -> list[str]:
    """Add missing columns, relax required ones, widen types; returns a sentence for each change.

    `IncompatibleSchema` where the table cannot hold the columns; then nothing is changed.
    """
    table = warehouse.find_table(name)
    if table is None:
        return []
    fields = [field.to_api_repr() for field in table.schema]
    changes = find_schema_changes(name, read_table_struct(fields), to_stored_columns(columns), rules)
    widened = [change for change in changes if change.kind is ChangeKind.WIDEN]
    for change in widened:
        _check_widens(name, change)
    schema_changes = [change for change in changes if change.kind is not ChangeKind.WIDEN]
    if schema_changes:
        for change in schema_changes:
            _apply_change(fields, change)
        table.schema = fields
        warehouse.update_table(table, "schema")
    for change in widened:
        column = quote(change.path[0])
        kind = to_bigquery_type(change.type)
        quoted_table = quote_name(warehouse.to_reference(name))
        warehouse.run_statement(f"ALTER TABLE {quoted_table} ALTER COLUMN {column} SET DATA TYPE {kind}")
    return [str(change) for change in changes]


def _check_widens(name: str, change: SchemaChange) -> None:
    if len(change.path) > 1:
        raise IncompatibleSchema(
            f"table={name} column={'.'.join(change.path)}: BigQuery widens no field inside a column: "
            f"{change.before} to {change.type}; nothing was written; copy the table with the wider type"
        )


def _apply_change(fields: list[Field], change: SchemaChange) -> None:
    """Add or relax one field in the table's schema, in place."""
    *above, last = _list_field_names(fields, change.path)
    for step in above:
        fields = _find_field(fields, step).setdefault("fields", [])
    if change.kind is ChangeKind.ADD:
        fields += to_bigquery_schema([Column(last, change.type)])
    else:
        _find_field(fields, last)["mode"] = "NULLABLE"


def _list_field_names(fields: list[Field], path: Path) -> Iterator[str]:
    """The names of the fields on the path. The step into an array is no field, though a field may have its name."""
    is_in_array = False
    for step in path:
        if is_in_array:
            is_in_array = False
            continue
        yield step
        field = next((field for field in fields if field["name"] == step), {})
        fields = field.get("fields", [])
        is_in_array = field.get("mode") == "REPEATED"


def _find_field(fields: list[Field], name: str) -> Field:
    return next(field for field in fields if field["name"] == name)
