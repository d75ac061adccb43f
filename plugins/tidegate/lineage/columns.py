"""From which parts of a record, or columns of a table, each column of a flushed table or published topic comes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.formats.registry import get_format
from tidegate.lineage.dataset import (
    Dataset,
    DatasetField,
    DatasetName,
    FieldSource,
    Read,
    StatementReads,
    Transformation,
)
from tidegate.schema.data_types import Column
from tidegate.spec.projection import RECORD_COLUMNS
from tidegate.spec.publication import Publication
from tidegate.spec.source import METADATA_TYPES, split_cast
from tidegate.spec.table import DeleteMode, Table
from tidegate.table.columns import (
    find_key_field,
    list_destination_columns,
    list_flat_key_columns,
    list_key_columns,
    list_value_columns,
)

# a record's own parts; a field of the first two is `key.id`
KEY = "key"
VALUE = "value"
TIMESTAMP = "timestamp"
OTHER_SHAPES = {"header-list": "headers"}  # words of `metadata` that are a part in another shape


@dataclass(frozen=True)
class Part:
    """A part of a record as the topic's schema names it, and how it becomes a column."""

    field: str
    how: Transformation = Transformation.IDENTITY


def list_record_parts(table: Table) -> dict[str, tuple[Part, ...]]:
    """The parts of each column of a decoded record, metadata included."""
    parts: dict[str, tuple[Part, ...]] = {c.name: (Part(c.name),) for c in RECORD_COLUMNS}
    parts |= {c.name: (_name_part(table, VALUE, c.name),) for c in list_value_columns(table)}
    for column in list_key_columns(table):
        field = find_key_field(table, column.name)
        side = _get_key_side(table)
        if field is not None:
            parts[column.name] = (_name_part(table, side, field),)
        else:  # one struct of all fields
            parts[column.name] = tuple(
                Part(_name_part(table, side, name).field, Transformation.TRANSFORMATION) for name in table.key.fields
            )
    return parts | {name: (Part(_name_word(word)),) for name, word in table.metadata.items()}


def _name_word(word: str) -> str:
    source, _ = split_cast(word)
    return OTHER_SHAPES.get(source, source)


def list_topic_fields(table: Table) -> tuple[DatasetField, ...]:
    """Fields of the topic's records, as far as the pipeline knows them."""
    side = _get_key_side(table)
    keys = zip(table.key.fields, list_flat_key_columns(table), strict=True)
    part_types = {_name_part(table, side, name).field: column.type for name, column in keys}
    part_types |= {
        _name_part(table, VALUE, c.name).field: c.type for c in list_value_columns(table) if c.name not in part_types
    }
    part_types |= {_name_word(word): METADATA_TYPES[_name_word(word)] for word in table.metadata.values()}
    part_types |= {c.name: c.type for c in RECORD_COLUMNS}
    return tuple(DatasetField(name, kind) for name, kind in ({VALUE: "BINARY"} | part_types).items())


def _get_key_side(table: Table) -> str:
    return VALUE if table.key.from_value else KEY


def _name_part(table: Table, side: str, name: str) -> Part:
    return Part(_name(side, table.value.format if side == VALUE else table.key.format, name))


def _name(side: str, format_name: str, field: str) -> str:
    # a format without fields: the whole key or value
    return side if get_format(format_name).only_column is not None else f"{side}.{field}"


@dataclass(frozen=True)
class FlushedTable:
    """A table whose columns are known, and the names of its sources.

    `columns`: all of the table's, of other writers too. `reads`: of its `select`, None without one; `conditions`: the
    record's columns in its conditions. `dimensions`: the joined datasets by alias.
    """

    table: Table
    name: DatasetName
    columns: tuple[Column, ...]
    topics: tuple[DatasetName, ...]
    reads: StatementReads | None = None
    conditions: tuple[str, ...] = ()
    dimensions: Mapping[str, Dataset] = field(default_factory=dict)


def describe_flushed_table(flushed: FlushedTable) -> Dataset:
    """With the sources of each column that the pipeline writes, by the table's own names."""
    sources = _Sources(flushed)
    target = flushed.table.target_schema
    columns = dict[str, tuple[FieldSource, ...]]()
    for column in list_destination_columns(flushed.table):
        name = target.get_own_name(column.name) if target else column.name
        # one that was renamed may be written under several names
        columns[name] = tuple(dict.fromkeys((*columns.get(name, ()), *sources.find_column(column.name))))
    fields = tuple(DatasetField(c.name, c.type) for c in flushed.columns)
    return Dataset(flushed.name, fields, columns, sources.find_rows())


def list_inputs(flushed: FlushedTable) -> tuple[Dataset, ...]:
    """The topics, and the dimension tables."""
    fields = list_topic_fields(flushed.table)
    return (*(Dataset(topic, fields) for topic in flushed.topics), *flushed.dimensions.values())


class _Sources:
    """Looks up what is made of what."""

    def __init__(self, flushed: FlushedTable) -> None:
        self._flushed = flushed
        self._table = flushed.table
        parts = list_record_parts(flushed.table)
        self._parts = {name.casefold(): sources for name, sources in parts.items()}
        derived_columns = flushed.reads.columns if flushed.reads else {}
        self._derived_columns = {name.casefold(): reads for name, reads in derived_columns.items()}

    def find_column(self, name: str) -> tuple[FieldSource, ...]:
        table = self._table
        history = self._table.history
        if table.deletes == DeleteMode.SOFT and name == table.deleted_column:
            # a record without a value is a delete, or one that a condition calls so
            deletes = (FieldSource(topic, VALUE, Transformation.TRANSFORMATION) for topic in self._flushed.topics)
            return (*deletes, *self._find_conditions(Transformation.TRANSFORMATION))
        if history is not None and name in history.columns:
            axis = self._find_written((*table.sequence_by, TIMESTAMP)[0])
            return _replace_transformation(axis, Transformation.TRANSFORMATION) if name == history.is_current else axis
        return self._find_written(name)

    def find_rows(self) -> tuple[FieldSource, ...]:
        """What decides which rows there are: keys, the order of records, conditions and joins."""
        table = self._table
        reads = self._flushed.reads
        sources = [source for name in table.key_columns for source in self._find_as(name, Transformation.JOIN)]
        sources += [source for name in table.sequence_by for source in self._find_as(name, Transformation.SORT)]
        sources += self._find_conditions(Transformation.FILTER)
        sources += [source for read in (reads.rows if reads else ()) for source in self._resolve(read)]
        return tuple(dict.fromkeys(sources))

    def _find_conditions(self, transformation: Transformation) -> list[FieldSource]:
        return [
            source
            for name in self._flushed.conditions
            for source in _replace_transformation(self._find_in_record(name), transformation)
        ]

    def _find_as(self, name: str, transformation: Transformation) -> Iterable[FieldSource]:
        return _replace_transformation(self._find_written(name), transformation)

    def _find_written(self, name: str) -> tuple[FieldSource, ...]:
        if self._flushed.reads is None or name.casefold() not in self._derived_columns:
            return self._find_in_record(name)
        return tuple(
            dict.fromkeys(source for read in self._derived_columns[name.casefold()] for source in self._resolve(read))
        )

    def _resolve(self, read: Read) -> tuple[FieldSource, ...]:
        dimension = self._flushed.dimensions.get(read.source)
        if dimension is not None:
            return (FieldSource(dimension.name, read.column, read.how),)
        sources = self._find_in_record(read.column)
        return sources if read.how is Transformation.IDENTITY else _replace_transformation(sources, read.how)

    def _find_in_record(self, name: str) -> tuple[FieldSource, ...]:
        parts: tuple[Part, ...] = self._parts.get(name.casefold(), ())
        return tuple(FieldSource(topic, part.field, part.how) for topic in self._flushed.topics for part in parts)


def _replace_transformation(sources: Iterable[FieldSource], transformation: Transformation) -> tuple[FieldSource, ...]:
    return tuple(replace(source, how=transformation) for source in sources)


@dataclass(frozen=True)
class PublishedTopic:
    """A publication with what its SQL reads of its tables, which are known by their aliases there."""

    publication: Publication
    topics: tuple[DatasetName, ...]
    reads: StatementReads
    tables: Mapping[str, Dataset]


def describe_published_topics(published_topic: PublishedTopic) -> tuple[Dataset, ...]:
    """With the sources of each part of their records."""
    publication = published_topic.publication
    key = publication.key
    value = publication.value
    metadata = publication.metadata
    keys = {name.casefold() for name in key.fields}
    not_in_value = {name.casefold() for name in metadata.columns} | (
        keys if value.fields_include == "EXCEPT_KEY" else set()
    )
    in_value = [name for name in published_topic.reads.columns if name.casefold() not in not_in_value]
    parts = {
        _name(KEY, key.format, name.removeprefix(key.prefix)): _get_reads(published_topic, name) for name in key.fields
    }
    for name in in_value:
        parts[_name(VALUE, value.format, name)] = _get_reads(published_topic, name)
    for part, column in (("headers", metadata.headers), (TIMESTAMP, metadata.timestamp)):
        if column is not None:
            parts[part] = _get_reads(published_topic, column)
    fields = tuple(DatasetField(name, _find_type(published_topic, reads)) for name, reads in parts.items())
    sources = {name: tuple(_resolve(published_topic, read) for read in reads) for name, reads in parts.items()}
    topic_column = published_topic.publication.metadata.topic
    routed = () if topic_column is None else _get_reads(published_topic, topic_column)
    rows = [_resolve(published_topic, read) for read in published_topic.reads.rows]
    rows += [_resolve(published_topic, Read(read.source, read.column, Transformation.FILTER)) for read in routed]
    return tuple(Dataset(topic, fields, sources, tuple(dict.fromkeys(rows))) for topic in published_topic.topics)


def _get_reads(published_topic: PublishedTopic, column: str) -> tuple[Read, ...]:
    return next(
        (reads for name, reads in published_topic.reads.columns.items() if name.casefold() == column.casefold()), ()
    )


def _resolve(published_topic: PublishedTopic, read: Read) -> FieldSource:
    return FieldSource(published_topic.tables[read.source].name, read.column, read.how)


def _find_type(published_topic: PublishedTopic, reads: tuple[Read, ...]) -> str | None:
    if len(reads) != 1 or reads[0].how is not Transformation.IDENTITY:
        # only Spark knows the type of a computed column
        return None
    fields = published_topic.tables[reads[0].source].fields
    return next((field.type for field in fields if field.name == reads[0].column), None)
