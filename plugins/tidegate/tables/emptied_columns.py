"""Columns that somebody dropped and added again: the name is there, and rows that were written have NULL in it."""

from collections.abc import Iterable

from tidegate.errors import IncompatibleSchema
from tidegate.ports.context import TableState
from tidegate.schema.evolution import find_own_path
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.tables.columns import list_key_leaves


def check_filled(pipeline: Pipeline, table: Table, state: TableState, deciding: Iterable[str]) -> None:
    """Raise `IncompatibleSchema` for such a column of the key, or of those by which rows are decided.

    Each key of before would get a second row, or an older record would win. `table` changes rows by their key.
    """
    for path in (*list_key_leaves(table), *((name,) for name in deciding)) if state.emptied_columns else ():
        own_path = find_own_path(state.struct, path)
        if own_path in state.emptied_columns:
            raise IncompatibleSchema(
                f"pipeline={pipeline.name} table={table.name} column={'.'.join(own_path)}: somebody has dropped it and "
                "added it again, so its earlier rows have NULL there: records would not find them, or older records "
                "would overwrite them; nothing was written; fill it in all rows, e.g. from an older snapshot of the "
                "table, or write to another table"
            )
