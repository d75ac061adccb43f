"""Which columns a destination table has, and from which part of a record each one comes."""

import hashlib
from dataclasses import replace

from tidegate.errors import ConfigurationError
from tidegate.pipeline import Column, Table
from tidegate.ports import TableState

METADATA_TYPES = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp-type": "STRING",
    "headers": "MAP<STRING, BINARY>",
}


def resolved(table: Table, metadata: dict[str, str], state: TableState | None) -> Table:
    """`table` with a value schema: the one it states, else the columns of the destination as it stands."""
    if table.value.columns is not None or state is None:
        return table
    columns = tuple(c for c in state.columns if c.name not in metadata)
    return replace(table, value=replace(table.value, columns=columns))


def key_columns(table: Table) -> tuple[Column, ...]:
    """The key's columns with their prefix; a type that the key does not state is the value field's of that name."""
    declared = {c.name: c for c in (*(table.value.columns or ()), *(table.key.columns or ()))}
    missing = [name for name in table.key.fields if name not in declared]
    if missing:
        raise ConfigurationError(
            f"key.fields={missing} of table={table.name} have no type: name them in key.schema or value.schema"
        )
    return tuple(Column(table.key.prefix + name, declared[name].type) for name in table.key.fields)


def value_columns(table: Table) -> tuple[Column, ...]:
    """The value's columns as they are staged."""
    columns = table.value.columns
    if columns is None:
        raise ConfigurationError(
            f"value.schema of table={table.name} is missing and there is no table to take it from: add value.schema"
        )
    if table.value.fields_include == "EXCEPT_KEY":
        return tuple(c for c in columns if c.name not in table.key.fields)
    return columns


def metadata_columns(metadata: dict[str, str]) -> tuple[Column, ...]:
    """The columns that carry a record's Kafka metadata, in the user's order."""
    return tuple(Column(name, METADATA_TYPES[key]) for name, key in metadata.items())


def shape(table: Table, metadata: dict[str, str]) -> str:
    """A short name for what a table's staged rows look like: the same for the same columns, formats and conditions."""
    parts = (key_columns(table), value_columns(table), metadata, table.key.format, table.value.format)
    text = repr((*parts, table.value.timestamp_unit, table.mode, table.when, table.delete_when))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def destination_columns(table: Table, metadata: dict[str, str]) -> tuple[Column, ...]:
    """The destination's columns in order: key columns that the value lacks, the value's, then metadata."""
    values, keys = value_columns(table), key_columns(table)
    in_value = {c.name for c in values}
    by_key = {c.name: c for c in keys}
    ahead = tuple(c for c in keys if c.name not in in_value)
    return (*ahead, *(by_key.get(c.name, c) for c in values), *metadata_columns(metadata))
