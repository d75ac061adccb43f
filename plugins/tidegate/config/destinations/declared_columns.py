"""The columns that a table will have, as far as the pipeline file tells them, each with the key that names it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from tidegate.config.models.formats import KeyModel
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.select_statement import parse_select
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import Column, DataType, Primitive, Struct
from tidegate.spec.projection import Field, resolve_projection
from tidegate.spec.source import METADATA_TYPES
from tidegate.sql.spark import quote
from tidegate.table.columns import find_key_names

UNKNOWN_TYPE = "UNKNOWN"  # the file does not tell it


class DeclaredColumn(NamedTuple):
    """`path` is the key of the file that names the column."""

    path: KeyPath
    column: Column


def find_table_columns(model: PipelineModel, table: TableModel, path: KeyPath) -> tuple[list[DeclaredColumn], bool]:
    """The table's columns, and whether they are all; `path` is that of its entry."""
    record, is_whole = find_record_columns(model, table, path)
    if table.select is not None:
        columns, has_all_items = _select_columns(table.select, (declared.column for declared in record))
        record = [DeclaredColumn((*path, "select"), column) for column in columns]
        is_whole = is_whole and has_all_items
    return [*record, *_list_product_columns(table, record, path)], is_whole


def find_record_columns(model: PipelineModel, table: TableModel, path: KeyPath) -> tuple[list[DeclaredColumn], bool]:
    """The columns of a decoded record (key, value and metadata), and whether they are all."""
    key, key_path = (table.key, (*path, "key")) if table.key else (model.source.key, ("source", "key"))
    value, value_path = (table.value, (*path, "value")) if table.value else (model.source.value, ("source", "value"))
    key_columns = try_parse_columns(key.schema_)
    value_columns = try_parse_columns(value.schema_)
    columns = dict[str, DeclaredColumn]()
    for declared in _list_key_columns(key, (*key_columns, *value_columns), key_path):
        columns[declared.column.name] = declared
    left_out = (
        find_key_names(key.fields, key.prefix, key.into, [column.name for column in key_columns])
        if value.fields_include == "EXCEPT_KEY"
        else set()
    )
    for column in value_columns:
        if column.name not in left_out:
            columns.setdefault(column.name, DeclaredColumn((*value_path, "schema"), column))
    for name, word in model.source.metadata.items():
        column = Column(name, METADATA_TYPES.get(word, UNKNOWN_TYPE))
        columns.setdefault(name, DeclaredColumn(("source", "metadata", name), column))
    return list(columns.values()), bool(value.schema_)


def _list_key_columns(key: KeyModel, typed_columns: Iterable[Column], path: KeyPath) -> Iterator[DeclaredColumn]:
    types = dict[str, str]()
    for column in typed_columns:
        types.setdefault(column.name, column.type)
    if key.into is not None:
        parts = ", ".join(f"{quote(name)}: {types[name]}" for name in key.fields if name in types)
        yield DeclaredColumn((*path, "into"), Column(key.into, f"STRUCT<{parts}>" if parts else UNKNOWN_TYPE))
        return
    for index, name in enumerate(key.fields):
        named_by = (*path, "prefix") if key.prefix else (*path, "fields", index)
        yield DeclaredColumn(named_by, Column(key.prefix + name, types.get(name, UNKNOWN_TYPE)))


def _list_product_columns(
    table: TableModel, columns: Iterable[DeclaredColumn], path: KeyPath
) -> Iterator[DeclaredColumn]:
    if table.deletes == "soft":
        yield DeclaredColumn((*path, "deleted_column"), Column(table.deleted_column, "BOOLEAN"))
    if table.history == "none":
        return
    types = {declared.column.name.casefold(): declared.column.type for declared in columns}
    axis = types.get(table.sequence_by[0].casefold(), UNKNOWN_TYPE) if table.sequence_by else "TIMESTAMP"
    for word, name in table.history_columns.model_dump().items():
        kind = "BOOLEAN" if word == "is_current" else axis
        yield DeclaredColumn((*path, "history_columns", word), Column(name, kind))


def _select_columns(text: str, record: Iterable[Column]) -> tuple[list[Column], bool]:
    try:
        select = parse_select(text)
    except ValueError:
        return [], False
    fields = [Field(c.name, c.type, c.nullable) for c in record]
    columns = list[Column]()
    is_whole = True
    for item in select.items:
        try:
            made_here = resolve_projection(replace(select, items=(item,)), fields, "")
        except ConfigurationError:
            # the file does not tell columns of dimension tables
            is_whole = False
            continue
        columns += [Column(c.name, c.type, c.nullable) for c in made_here]
    return columns, is_whole


def find_type(struct: Struct, path: tuple[str, ...]) -> DataType | str | None:
    """The type at the end of a path through structs; None where the first step is unknown.

    A text says what is wrong: the path goes on below another type, or to a missing field.
    """
    data_type: DataType = struct
    for number, step in enumerate(path):
        if data_type == Primitive(UNKNOWN_TYPE):
            return None
        name = data_type.find_name(step) if isinstance(data_type, Struct) else None
        if name is None and number == 0:
            return None
        if name is None or not isinstance(data_type, Struct):
            return f"{step} is no field of a struct; name a column, or a field of one that is a STRUCT"
        data_type = dict(data_type.fields)[name]
    return data_type


def try_parse_columns(ddl: str | None) -> tuple[Column, ...]:
    """Empty for a wrong schema."""
    try:
        return parse_columns(ddl) if ddl is not None else ()
    except ValueError:
        return ()
