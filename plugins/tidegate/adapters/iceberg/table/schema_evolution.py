"""Making an Iceberg table able to hold a pipeline's columns: additive, idempotent, before anything is merged."""

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema

from tidegate.adapters.iceberg.table.type_mapping import read_table_struct, to_iceberg_type
from tidegate.adapters.port_errors import format_one_line
from tidegate.errors import CommitRefused, IncompatibleSchema
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import ChangeKind, EvolutionRules, SchemaChange, find_schema_changes


def evolve(table: Table, name: str, columns: tuple[Column, ...], rules: EvolutionRules) -> list[str]:
    """Add missing columns, widen types, relax required ones; returns a sentence for each change.

    `IncompatibleSchema` names the column, both types and the way out where the table cannot hold what is asked; then
    nothing is changed. A name that a partition of the table has, or had, cannot become that of another column.
    """
    changes = find_schema_changes(name, read_table_struct(table), columns, rules)
    if not changes:
        return []
    update = _prepare_update(table, name, changes)
    try:
        update.commit()
    except (CommitFailedException, NoSuchTableError) as error:
        raise CommitRefused(f"table={name}: another writer changed it: {error}") from error
    return [str(change) for change in changes]


def _prepare_update(table: Table, name: str, changes: tuple[SchemaChange, ...]) -> UpdateSchema:
    """The changes, looked at as the commit does before it sends them."""
    update = table.update_schema(case_sensitive=False)
    try:
        for change in changes:
            _apply_change(update, change)
        update._apply()
    except ValueError as error:
        raise IncompatibleSchema(
            f"table={name}: Iceberg refuses its changes ({', '.join(map(str, changes))}): {format_one_line(error)}; "
            "nothing was written; give the column another name in the pipeline file, or write to another table"
        ) from error
    return update


def _apply_change(update: UpdateSchema, change: SchemaChange) -> None:
    if change.kind is ChangeKind.ADD:
        update.add_column(change.path, to_iceberg_type(change.type))
    elif change.kind is ChangeKind.WIDEN:
        widened = to_iceberg_type(change.type)
        assert widened.is_primitive
        update.update_column(change.path, widened)
    else:
        update.make_column_optional(change.path)
