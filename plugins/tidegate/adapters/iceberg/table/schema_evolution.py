"""Making an Iceberg table able to hold a pipeline's columns: additive, idempotent, before anything is merged."""

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema

from tidegate.adapters.iceberg.table.type_mapping import read_table_struct, to_iceberg_type
from tidegate.errors import CommitRefused
from tidegate.schema.column import Column
from tidegate.schema.evolution import ChangeKind, EvolutionRules, SchemaChange, find_schema_changes


def evolve(table: Table, name: str, columns: tuple[Column, ...], rules: EvolutionRules) -> list[str]:
    """Add missing columns, widen types, relax required ones; returns a sentence for each change.

    `IncompatibleSchema` names the column, both types and the way out where the table cannot hold what is asked; then
    nothing is changed.
    """
    changes = find_schema_changes(name, read_table_struct(table), columns, rules)
    if not changes:
        return []
    try:
        with table.update_schema(case_sensitive=False) as update:
            for change in changes:
                _apply_change(update, change)
    except (CommitFailedException, NoSuchTableError) as error:
        raise CommitRefused(f"table={name}: another writer changed it: {error}") from error
    return [str(change) for change in changes]


def _apply_change(update: UpdateSchema, change: SchemaChange) -> None:
    if change.kind is ChangeKind.ADD:
        update.add_column(change.path, to_iceberg_type(change.type))
    elif change.kind is ChangeKind.WIDEN:
        widened = to_iceberg_type(change.type)
        assert widened.is_primitive
        update.update_column(change.path, widened)
    else:
        update.make_column_optional(change.path)
