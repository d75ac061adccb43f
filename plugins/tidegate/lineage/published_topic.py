"""Of which columns of tables each part of a publication's records is made."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.formats.registry import get_format
from tidegate.lineage.column_reads import Read, StatementReads
from tidegate.lineage.dataset import Dataset, DatasetField, DatasetName, FieldSource, Transformation
from tidegate.lineage.record_parts import KEY, TIMESTAMP, VALUE
from tidegate.spec.publication import Publication


@dataclass(frozen=True)
class PublishedTopic:
    """A publication with what its SQL reads of its tables, which are known by their aliases there."""

    publication: Publication
    topics: tuple[DatasetName, ...]
    reads: StatementReads
    tables: Mapping[str, Dataset]


def describe_published_topics(published: PublishedTopic) -> tuple[Dataset, ...]:
    """The topics, with the sources of each part of their records."""
    parts = _list_parts(published)
    fields = tuple(DatasetField(name, _find_type(published, reads)) for name, reads in parts.items())
    sources = {name: tuple(_resolve(published, read) for read in reads) for name, reads in parts.items()}
    chosen = published.publication.metadata.topic
    routed = () if chosen is None else _get_reads(published, chosen)
    rows = [_resolve(published, read) for read in published.reads.rows]
    rows += [_resolve(published, Read(read.source, read.column, Transformation.FILTER)) for read in routed]
    return tuple(Dataset(topic, fields, sources, tuple(dict.fromkeys(rows))) for topic in published.topics)


def _list_parts(published: PublishedTopic) -> dict[str, tuple[Read, ...]]:
    publication = published.publication
    key, value, metadata = publication.key, publication.value, publication.metadata
    keys = {name.casefold() for name in key.fields}
    not_in_value = {name.casefold() for name in metadata.columns} | (
        keys if value.fields_include == "EXCEPT_KEY" else set()
    )
    in_value = [name for name in published.reads.columns if name.casefold() not in not_in_value]
    parts = {_name(KEY, key.format, name.removeprefix(key.prefix)): _get_reads(published, name) for name in key.fields}
    for name in in_value:
        parts[_name(VALUE, value.format, name)] = _get_reads(published, name)
    for part, column in (("headers", metadata.headers), (TIMESTAMP, metadata.timestamp)):
        if column is not None:
            parts[part] = _get_reads(published, column)
    return parts


def _name(side: str, format_name: str, field: str) -> str:
    return side if get_format(format_name).only_column is not None else f"{side}.{field}"


def _get_reads(published: PublishedTopic, column: str) -> tuple[Read, ...]:
    return next((found for name, found in published.reads.columns.items() if name.casefold() == column.casefold()), ())


def _resolve(published: PublishedTopic, read: Read) -> FieldSource:
    return FieldSource(published.tables[read.source].name, read.column, read.how)


def _find_type(published: PublishedTopic, reads: tuple[Read, ...]) -> str | None:
    """The type of a column that is published as it is; of what is computed Spark alone knows it."""
    if len(reads) != 1 or reads[0].how is not Transformation.IDENTITY:
        return None
    fields = published.tables[reads[0].source].fields
    return next((field.type for field in fields if field.name == reads[0].column), None)
