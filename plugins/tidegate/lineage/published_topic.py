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


def describe_published_topics(published_topic: PublishedTopic) -> tuple[Dataset, ...]:
    """The topics, with the sources of each part of their records."""
    parts = _list_parts(published_topic)
    fields = tuple(DatasetField(name, _find_type(published_topic, reads)) for name, reads in parts.items())
    sources = {name: tuple(_resolve(published_topic, read) for read in reads) for name, reads in parts.items()}
    topic_column = published_topic.publication.metadata.topic
    routed = () if topic_column is None else _get_reads(published_topic, topic_column)
    rows = [_resolve(published_topic, read) for read in published_topic.reads.rows]
    rows += [_resolve(published_topic, Read(read.source, read.column, Transformation.FILTER)) for read in routed]
    return tuple(Dataset(topic, fields, sources, tuple(dict.fromkeys(rows))) for topic in published_topic.topics)


def _list_parts(published_topic: PublishedTopic) -> dict[str, tuple[Read, ...]]:
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
    return parts


def _name(side: str, format_name: str, field: str) -> str:
    return side if get_format(format_name).only_column is not None else f"{side}.{field}"


def _get_reads(published_topic: PublishedTopic, column: str) -> tuple[Read, ...]:
    return next(
        (reads for name, reads in published_topic.reads.columns.items() if name.casefold() == column.casefold()), ()
    )


def _resolve(published_topic: PublishedTopic, read: Read) -> FieldSource:
    return FieldSource(published_topic.tables[read.source].name, read.column, read.how)


def _find_type(published_topic: PublishedTopic, reads: tuple[Read, ...]) -> str | None:
    """The type of a column that is published as it is; of what is computed Spark alone knows it."""
    if len(reads) != 1 or reads[0].how is not Transformation.IDENTITY:
        return None
    fields = published_topic.tables[reads[0].source].fields
    return next((field.type for field in fields if field.name == reads[0].column), None)
