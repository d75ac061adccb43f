"""Whether a batch may go into its destination as that stands: its columns, and its key."""

import json

from tidegate.errors import IncompatibleSchema
from tidegate.model import resource_names
from tidegate.model.offsets import Ranges
from tidegate.ports.context import TableState
from tidegate.schema.column import Column
from tidegate.schema.data_types import Struct, format_type
from tidegate.schema.evolution import ChangeKind, EvolutionRules, find_schema_changes, replace_map_types, to_struct
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table, TableMode
from tidegate.tables.columns import list_destination_columns, list_key_columns

KEY_PROPERTY = "key"


def check_compatible(pipeline: Pipeline, table: Table, state: TableState | None, ranges: Ranges) -> None:
    """Raise `IncompatibleSchema`, with the first offset it concerns, before anything of a batch is read or written.

    `table` has its columns resolved.
    """
    if state is None:
        return
    check_key_unchanged(pipeline, table, state)
    rules = EvolutionRules(table.add_columns, table.widen, table.relax)
    try:
        columns = list_destination_columns(table, pipeline.source.metadata)
        find_schema_changes(table.name, state.struct, columns if state.has_maps else replace_map_types(columns), rules)
    except IncompatibleSchema as error:
        raise IncompatibleSchema(f"pipeline={pipeline.name} {error}{_find_first_offset(ranges)}") from None


def _find_first_offset(ranges: Ranges) -> str:
    for topic, partition, start, end in ranges:
        if end > start:
            return f"; the first record that it concerns: topic={topic} partition={partition} offset={start}"
    return ""


def build_key_property(pipeline: Pipeline, table: Table) -> dict[str, str]:
    """The property that keeps what the key was when a batch was published; nothing for a table without one."""
    if not table.key.fields:
        return {}
    columns = [[c.name, c.type, c.nullable] for c in _list_declared_key(table)]
    return {resource_names.name_pipeline_property(pipeline.name, KEY_PROPERTY): json.dumps(columns)}


def check_key_unchanged(pipeline: Pipeline, table: Table, state: TableState) -> None:
    """Raise `IncompatibleSchema` where rows that are there could no longer be found by the key.

    A key may gain nullable columns, relax required ones and widen; rows of before have NULL in a new column.
    The columns of `sequence_by`, and then the key's too, keep their names: remembered deletes are found by them. With
    history all do.
    """
    fixed_names = table.key_columns if table.remembers else ()
    if table.history is not None:  # what remembers changes has the columns by the pipeline's names
        fixed_names = tuple(column.name for column in list_destination_columns(table, pipeline.source.metadata))
    for name in dict.fromkeys((*table.sequence_by, *fixed_names)):
        own = state.struct.named(name) or name
        if own.casefold() != name.casefold():
            raise IncompatibleSchema(
                f"pipeline={pipeline.name} table={table.name} column={own}: it was called {name}, and with "
                "sequence_by or history such a column keeps its name; nothing was written; rename it back, or name "
                "it so in the pipeline file and in the records"
            )
    mark = state.marks.get(resource_names.name_pipeline_property(pipeline.name, KEY_PROPERTY))
    if mark is None or table.mode == TableMode.APPEND:
        return
    before, now = [Column(*column) for column in json.loads(mark)], _list_declared_key(table)
    previous_columns = {column.name.casefold(): column for column in before}
    for column in now:
        old = previous_columns.pop(column.name.casefold(), None)
        if old is None and not column.nullable:
            raise _describe_key_change(
                pipeline, table, f"column={column.name} is new and required: rows of before have none"
            )
        if old is not None:
            _check_column(pipeline, table, old, column)
    if previous_columns:
        dropped_names = ", ".join(column.name for column in previous_columns.values())
        raise _describe_key_change(pipeline, table, f"column={dropped_names} is no longer part of it")


def check_same_fields(table: str, state: TableState, columns: tuple[Column, ...]) -> None:
    """Raise `IncompatibleSchema` where a column's struct has other fields than the table's."""
    current_types = dict(state.struct.fields)
    for name, expected in to_struct(columns).fields:
        current = current_types.get(state.struct.named(name) or name)
        if (
            isinstance(expected, Struct)
            and isinstance(current, Struct)
            and _list_field_names(expected) != _list_field_names(current)
        ):
            raise IncompatibleSchema(
                f"table={table} column={name}: incompatible change from type={format_type(current)} to "
                f"type={format_type(expected)}"
            )


def _list_field_names(struct: Struct) -> list[str]:
    return [name.casefold() for name, _ in struct.fields]


def _check_column(pipeline: Pipeline, table: Table, old: Column, new: Column) -> None:
    what = f"column={new.name} from type={_describe_column(old)} to type={_describe_column(new)}"
    if old.nullable and not new.nullable:
        raise _describe_key_change(pipeline, table, what)
    try:
        changes = find_schema_changes(
            table.name, to_struct([Column(old.name, old.type)]), [Column(new.name, new.type)], EvolutionRules()
        )
    except IncompatibleSchema:
        raise _describe_key_change(pipeline, table, what) from None
    if any(change.kind is ChangeKind.ADD for change in changes):
        raise _describe_key_change(pipeline, table, what)


def _describe_column(column: Column) -> str:
    return column.type if column.nullable else f"{column.type} NOT NULL"


def _describe_key_change(pipeline: Pipeline, table: Table, what: str) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"pipeline={pipeline.name} table={table.name}: incompatible change of the key: {what}; nothing was written; "
        "a key may gain nullable columns, relax and widen; set it back, or write to another table"
    )


def _list_declared_key(table: Table) -> list[Column]:
    """The key's columns, required where the schema that declares them says so."""
    declared = (*(table.value.columns or ()), *(table.key.columns or ()))
    required = {table.key.prefix + c.name for c in declared if not c.nullable}
    return [Column(c.name, c.type, c.name not in required) for c in list_key_columns(table)]
