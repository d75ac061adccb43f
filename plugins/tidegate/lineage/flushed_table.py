"""Of which parts of records, and of which dimension tables, each column of a destination table is made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.lineage.column_reads import Read, StatementReads
from tidegate.lineage.dataset import Dataset, DatasetField, DatasetName, FieldSource, Transformation
from tidegate.lineage.record_parts import TIMESTAMP, VALUE, Part, list_record_parts, list_topic_fields
from tidegate.schema.column import Column
from tidegate.spec.table import DeleteMode, Table
from tidegate.table.columns import list_destination_columns


@dataclass(frozen=True)
class FlushedTable:
    """A table whose columns are known, and the names of what it is made of.

    `columns` are those that it has, of others too. `reads` is what its `select` reads, None without one; `conditions`
    are the record's columns that its conditions look at. `dimensions` are the datasets that it joins, by their aliases.
    """

    table: Table
    metadata: dict[str, str]
    name: DatasetName
    columns: tuple[Column, ...]
    topics: tuple[DatasetName, ...]
    reads: StatementReads | None = None
    conditions: tuple[str, ...] = ()
    dimensions: Mapping[str, Dataset] = field(default_factory=dict)


def describe_flushed_table(flushed: FlushedTable) -> Dataset:
    """The table, with the sources of each column that the pipeline writes."""
    sources = _Sources(flushed)
    written_columns = list_destination_columns(flushed.table, flushed.metadata)
    return Dataset(
        flushed.name,
        tuple(DatasetField(c.name, c.type) for c in flushed.columns),
        {c.name: sources.find_column(c.name) for c in written_columns},
        sources.find_rows(),
    )


def list_inputs(flushed: FlushedTable) -> tuple[Dataset, ...]:
    """The topics, and the dimension tables."""
    fields = list_topic_fields(flushed.table, flushed.metadata)
    return (*(Dataset(topic, fields) for topic in flushed.topics), *flushed.dimensions.values())


class _Sources:
    """Looks up what is made of what."""

    def __init__(self, flushed: FlushedTable) -> None:
        self._flushed = flushed
        self._table = flushed.table
        parts = list_record_parts(flushed.table, flushed.metadata)
        self._parts = {name.casefold(): sources for name, sources in parts.items()}
        derived_columns = flushed.reads.columns if flushed.reads else {}
        self._derived_columns = {name.casefold(): reads for name, reads in derived_columns.items()}

    def find_column(self, name: str) -> tuple[FieldSource, ...]:
        """The sources of a column of the destination."""
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
        """What decides which rows there are: the keys that find them, the order of records, conditions and joins."""
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
