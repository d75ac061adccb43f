"""An entry of `tables` as checks see it: the key and value that feed it, and the columns that it will have."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from tidegate.config.models.formats import KeyModel, ValueModel
from tidegate.config.models.pipeline import BY_TOPIC, PipelineModel, TableModel
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.select_statement import parse_select
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import Array, Column, DataType, Map, Primitive, Struct
from tidegate.spec.projection import Select, resolve_projection
from tidegate.spec.source import METADATA_TYPES, find_topic_column
from tidegate.sql.spark import quote
from tidegate.table.columns import find_key_names

UNKNOWN_TYPE = "UNKNOWN"  # the file does not tell it


class DeclaredColumn(NamedTuple):
    """`path` is the key of the file that names the column."""

    path: KeyPath
    column: Column


@dataclass(frozen=True)
class TableEntry:
    """One entry. What cannot be read of it is None here, and noted by the check of that key alone."""

    model: PipelineModel
    index: int
    findings: Problems

    @property
    def table(self) -> TableModel:
        return self.model.tables[self.index]

    @property
    def path(self) -> KeyPath:
        return ("tables", self.index)

    @property
    def key(self) -> KeyModel:
        return self.table.key or self.model.source.key

    @property
    def key_path(self) -> KeyPath:
        return (*self.path, "key") if self.table.key else ("source", "key")

    @property
    def value(self) -> ValueModel:
        return self.table.value or self.model.source.value

    @property
    def value_path(self) -> KeyPath:
        return (*self.path, "value") if self.table.value else ("source", "value")

    @property
    def catalog_name(self) -> str:
        return self.table.name.partition(".")[0]

    @property
    def upserts(self) -> bool:
        return bool(self.key.fields) if self.table.upsert is None else self.table.upsert

    @property
    def deletes(self) -> bool:
        return bool(self.key.fields) if self.table.delete is None else self.table.delete

    @property
    def topic_column(self) -> str | None:
        """The metadata column that makes the topic a part of the key; None for other keys, or without such a column."""
        return find_topic_column(self.model.source.metadata) if self.table.disjoint_keys == BY_TOPIC else None

    @cached_property
    def key_columns(self) -> tuple[Column, ...] | None:
        return _try_parse_columns(self.key.schema_)

    @cached_property
    def value_columns(self) -> tuple[Column, ...] | None:
        return _try_parse_columns(self.value.schema_)

    @cached_property
    def select(self) -> Select | None:
        try:
            return None if self.table.select is None else parse_select(self.table.select)
        except ValueError:
            return None

    @cached_property
    def value_types(self) -> dict[str, str] | None:
        """Types of the value's columns by their names without case."""
        return None if self.value_columns is None else {c.name.casefold(): c.type for c in self.value_columns}

    @cached_property
    def metadata_words(self) -> dict[str, str]:
        """The words of the metadata columns by their names without case."""
        return {name.casefold(): word for name, word in self.model.source.metadata.items()}

    @property
    def metadata_types(self) -> dict[str, str]:
        return {name: METADATA_TYPES.get(word, "STRING") for name, word in self.metadata_words.items()}

    @property
    def own_key_names(self) -> list[str]:
        """The columns that the record's key makes, without case."""
        names = [self.key.prefix + field for field in self.key.fields] if self.key.into is None else [self.key.into]
        return [name.casefold() for name in names]

    @property
    def key_names(self) -> list[str]:
        """The table's key columns without case: the topic may be one."""
        topic_column = self.topic_column if self.key.into is None else None
        return [*self.own_key_names, *([topic_column.casefold()] if topic_column else [])]

    @property
    def left_out(self) -> set[str]:
        """The columns of `value.schema` that no value holds."""
        if self.value.fields_include != "EXCEPT_KEY":
            return set()
        stated = [column.name for column in self.key_columns or ()]
        return find_key_names(self.key.fields, self.key.prefix, self.key.into, stated)

    @property
    def history_names(self) -> list[str]:
        return list(self.table.history_columns.model_dump().values()) if self.table.history == "scd2" else []

    def add(self, key: str | KeyPath, problem: str) -> None:
        self.findings.add((*self.path, *((key,) if isinstance(key, str) else key)), problem)

    def find_columns(self) -> tuple[list[DeclaredColumn], bool]:
        """The table's columns, and whether they are all."""
        record, is_whole = self.find_record_columns()
        if self.table.select is not None:
            columns, has_all_items = self._select_columns([declared.column for declared in record])
            record = [DeclaredColumn((*self.path, "select"), column) for column in columns]
            is_whole = is_whole and has_all_items
        return [*record, *self._list_product_columns(record)], is_whole

    def find_record_columns(self) -> tuple[list[DeclaredColumn], bool]:
        """The columns of a decoded record (key, value and metadata), and whether they are all."""
        value_columns = self.value_columns or ()
        key_columns = self._list_key_columns((*(self.key_columns or ()), *value_columns))
        columns = {declared.column.name: declared for declared in key_columns}
        for column in value_columns:
            if column.name not in self.left_out:
                columns.setdefault(column.name, DeclaredColumn((*self.value_path, "schema"), column))
        for name, word in self.model.source.metadata.items():
            column = Column(name, METADATA_TYPES.get(word, UNKNOWN_TYPE))
            columns.setdefault(name, DeclaredColumn(("source", "metadata", name), column))
        return list(columns.values()), bool(self.value.schema_)

    def _list_key_columns(self, typed_columns: Iterable[Column]) -> Iterator[DeclaredColumn]:
        key = self.key
        types = dict[str, str]()
        for column in typed_columns:
            types.setdefault(column.name, column.type)
        if key.into is not None:
            parts = ", ".join(f"{quote(name)}: {types[name]}" for name in key.fields if name in types)
            kind = f"STRUCT<{parts}>" if parts else UNKNOWN_TYPE
            yield DeclaredColumn((*self.key_path, "into"), Column(key.into, kind))
            return
        for index, name in enumerate(key.fields):
            named_by = ("prefix",) if key.prefix else ("fields", index)
            column = Column(key.prefix + name, types.get(name, UNKNOWN_TYPE))
            yield DeclaredColumn((*self.key_path, *named_by), column)

    def _list_product_columns(self, columns: Iterable[DeclaredColumn]) -> Iterator[DeclaredColumn]:
        table = self.table
        if table.deletes == "soft":
            yield DeclaredColumn((*self.path, "deleted_column"), Column(table.deleted_column, "BOOLEAN"))
        if table.history == "none":
            return
        types = {declared.column.name.casefold(): declared.column.type for declared in columns}
        axis = types.get(table.sequence_by[0].casefold(), UNKNOWN_TYPE) if table.sequence_by else "TIMESTAMP"
        for word, name in table.history_columns.model_dump().items():
            kind = "BOOLEAN" if word == "is_current" else axis
            yield DeclaredColumn((*self.path, "history_columns", word), Column(name, kind))

    def _select_columns(self, record: list[Column]) -> tuple[list[Column], bool]:
        if self.select is None:
            return [], False
        columns = list[Column]()
        is_whole = True
        for item in self.select.items:
            try:
                made_here = resolve_projection(replace(self.select, items=(item,)), record, "")
            except ConfigurationError:
                # the file does not tell columns of dimension tables
                is_whole = False
                continue
            columns += [Column(c.name, c.type, c.nullable) for c in made_here]
        return columns, is_whole


def _try_parse_columns(ddl: str | None) -> tuple[Column, ...] | None:
    try:
        return None if ddl is None else parse_columns(ddl)
    except ValueError:
        return None


def find_type(struct: Struct, path: tuple[str, ...], in_expression: bool = False) -> DataType | str | None:
    """The type at the end of a path through structs; None where the first step is unknown.

    A text says what is wrong: the path goes on below another type, or to a missing field. In an expression of Spark it
    may go on below a map, to the value of a key, and below a list, to that field of each element: None, too.
    """
    data_type: DataType = struct
    for number, step in enumerate(path):
        if data_type == Primitive(UNKNOWN_TYPE) or (in_expression and isinstance(data_type, Map | Array)):
            return None
        name = data_type.find_name(step) if isinstance(data_type, Struct) else None
        if name is None and number == 0:
            return None
        if name is None or not isinstance(data_type, Struct):
            return f"{step} is no field of a struct; name a column, or a field of one that is a STRUCT"
        data_type = dict(data_type.fields)[name]
    return data_type
