"""Whether a batch may go into its destination as that stands: its columns, and its key."""

import json

from tidegate.errors import IncompatibleSchema
from tidegate.model import resource_names
from tidegate.model.offsets import Ranges
from tidegate.ports.context import TableState
from tidegate.schema.column import Column
from tidegate.schema.data_types import Struct, ddl
from tidegate.schema.evolution import Rules, changes, maps_as_entries, struct_of
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.tables.columns import destination_columns, key_columns

KEY = "key"


def check_compatible(pipeline: Pipeline, table: Table, state: TableState | None, ranges: Ranges) -> None:
    """Raise `IncompatibleSchema`, with the first offset it concerns, before anything of a batch is read or written.

    `table` has its columns resolved.
    """
    if state is None:
        return
    check_key(pipeline, table, state)
    rules = Rules(table.add_columns, table.widen, table.relax)
    try:
        columns = destination_columns(table, pipeline.source.metadata)
        changes(table.name, state.held, columns if state.has_maps else maps_as_entries(columns), rules)
    except IncompatibleSchema as error:
        raise IncompatibleSchema(f"pipeline={pipeline.name} {error}{_first(ranges)}") from None


def _first(ranges: Ranges) -> str:
    for topic, partition, start, end in ranges:
        if end > start:
            return f"; the first record that it concerns: topic={topic} partition={partition} offset={start}"
    return ""


def key_mark(pipeline: Pipeline, table: Table) -> dict[str, str]:
    """The property that keeps what the key was when a batch was published; nothing for a table without one."""
    if not table.key.fields:
        return {}
    columns = [[c.name, c.type, c.nullable] for c in _declared_key(table)]
    return {resource_names.mark(pipeline.name, KEY): json.dumps(columns)}


def check_key(pipeline: Pipeline, table: Table, state: TableState) -> None:
    """Raise `IncompatibleSchema` where rows that are there could no longer be found by the key.

    A key may gain nullable columns, relax required ones and widen; rows of before have NULL in a new column.
    The columns of `sequence_by`, and then the key's too, keep their names: remembered deletes are found by them. With
    history all do.
    """
    kept = table.key_columns if table.remembers else ()
    if table.history is not None:  # what remembers changes has the columns by the pipeline's names
        kept = tuple(column.name for column in destination_columns(table, pipeline.source.metadata))
    for name in dict.fromkeys((*table.sequence_by, *kept)):
        own = state.held.named(name) or name
        if own.casefold() != name.casefold():
            raise IncompatibleSchema(
                f"pipeline={pipeline.name} table={table.name} column={own}: it was called {name}, and with "
                "sequence_by or history such a column keeps its name; nothing was written; rename it back, or name "
                "it so in the pipeline file and in the records"
            )
    mark = state.marks.get(resource_names.mark(pipeline.name, KEY))
    if mark is None or table.mode == "append":
        return
    before, now = [Column(*column) for column in json.loads(mark)], _declared_key(table)
    held = {column.name.casefold(): column for column in before}
    for column in now:
        old = held.pop(column.name.casefold(), None)
        if old is None and not column.nullable:
            raise _key_changed(pipeline, table, f"column={column.name} is new and required: rows of before have none")
        if old is not None:
            _check_column(pipeline, table, old, column)
    if held:
        gone = ", ".join(column.name for column in held.values())
        raise _key_changed(pipeline, table, f"column={gone} is no longer part of it")


def check_same_fields(table: str, state: TableState, columns: tuple[Column, ...]) -> None:
    """Raise `IncompatibleSchema` where a column's struct has other fields than the table's."""
    held = dict(state.held.fields)
    for name, wanted in struct_of(columns).fields:
        found = held.get(state.held.named(name) or name)
        if isinstance(wanted, Struct) and isinstance(found, Struct) and _names(wanted) != _names(found):
            raise IncompatibleSchema(
                f"table={table} column={name}: incompatible change from type={ddl(found)} to type={ddl(wanted)}"
            )


def _names(struct: Struct) -> list[str]:
    return [name.casefold() for name, _ in struct.fields]


def _check_column(pipeline: Pipeline, table: Table, old: Column, new: Column) -> None:
    what = f"column={new.name} from type={_told(old)} to type={_told(new)}"
    if old.nullable and not new.nullable:
        raise _key_changed(pipeline, table, what)
    try:
        found = changes(table.name, struct_of([Column(old.name, old.type)]), [Column(new.name, new.type)], Rules())
    except IncompatibleSchema:
        raise _key_changed(pipeline, table, what) from None
    if any(change.kind == "add" for change in found):
        raise _key_changed(pipeline, table, what)


def _told(column: Column) -> str:
    return column.type if column.nullable else f"{column.type} NOT NULL"


def _key_changed(pipeline: Pipeline, table: Table, what: str) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"pipeline={pipeline.name} table={table.name}: incompatible change of the key: {what}; nothing was written; "
        "a key may gain nullable columns, relax and widen; set it back, or write to another table"
    )


def _declared_key(table: Table) -> list[Column]:
    """The key's columns, required where the schema that declares them says so."""
    declared = (*(table.value.columns or ()), *(table.key.columns or ()))
    required = {table.key.prefix + c.name for c in declared if not c.nullable}
    return [Column(c.name, c.type, c.name not in required) for c in key_columns(table)]
