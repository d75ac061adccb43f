"""Partial updates: what a record that does not hold every column changes of its key's row."""

from collections.abc import Iterable

from tidegate.errors import ConfigurationError
from tidegate.spec.table import Table


def find_retracting_answers(table: Table) -> tuple[str, ...]:
    """The answers of `when`, as text, for which a record deletes its key's row; none without `when_false: delete`.

    In partial updates NULL may only say that the record lacks what the condition reads: it is left out.
    """
    if table.when is None or table.when_false == "ignore":
        return ()
    return ("false",) if table.partial_updates else ("false", "null")


def find_grouped(table: Table) -> tuple[str, ...]:
    """The columns of sequence groups, without case: a record writes them only together with a newer sequence."""
    return tuple(name.casefold() for sequence, columns in table.sequence_groups for name in (sequence, *columns))


def find_sequences(table: Table, columns: Iterable[str]) -> dict[str, str]:
    """The sequence column of each of the destination's `columns` that is in a group; a sequence is its own.

    `ConfigurationError` for a group whose columns the destination does not have.
    """
    find_own_name = table.target_schema.find_name if table.target_schema else lambda _: None
    own_names = {name.casefold(): name for name in columns}

    def find(name: str) -> str:
        column = own_names.get((find_own_name(name) or name).casefold())
        if column is None:
            raise ConfigurationError(
                f"table={table.name}: {name} of sequence_groups is no column of the table beside its key; there are "
                f"{', '.join(own_names.values())}"
            )
        return column

    return {find(n): find(sequence) for sequence, members in table.sequence_groups for n in (sequence, *members)}
