"""What a flush or a publication made of what, from its file, the brokers' address, and its tables as they stand."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from tidegate.adapters.kafka.settings import resolve_kafka_settings
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.destinations.registry import get_destination
from tidegate.config.parsing.column_reads import read_condition, read_publication, read_select
from tidegate.config.publication_file import load_publication
from tidegate.connections import Resolve
from tidegate.lineage.columns import (
    FlushedTable,
    PublishedTopic,
    describe_flushed_table,
    describe_published_topics,
    list_inputs,
)
from tidegate.lineage.dataset import Dataset, DatasetName, StatementReads, TaskLineage, name_broker_namespace
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Catalog
from tidegate.spec.projection import RECORD_COLUMNS
from tidegate.spec.table import Table
from tidegate.table.columns import list_record_columns, resolve_columns
from tidegate.table.session import find_table
from tidegate.wiring.pipeline import find_file


def trace_flush(
    include: Path, session: Session, resolve: Resolve, topics: Mapping[str, Collection[str]]
) -> TaskLineage:
    """Return what was written into the tables that `topics` names, out of their topics. Missing tables are left out."""
    brokers = _find_broker_namespace(session.pipeline.source.kafka, resolve)
    inputs = dict[DatasetName, Dataset]()
    outputs = list[Dataset]()
    for name, read in topics.items():
        flushed = _look_up_table(include, session, resolve, name)
        if flushed is None:
            continue
        flushed = replace(flushed, topics=tuple(DatasetName(brokers, topic) for topic in sorted(read)))
        outputs.append(describe_flushed_table(flushed))
        for dataset in list_inputs(flushed):
            known = inputs.get(dataset.name)
            fields = dict.fromkeys((*(known.fields if known else ()), *dataset.fields))
            inputs[dataset.name] = Dataset(dataset.name, tuple(fields))
    return TaskLineage(tuple(inputs.values()), tuple(outputs))


def trace_publication(include: Path, name: str, resolve: Resolve) -> TaskLineage:
    publication = load_publication(find_file(include, "publication", name))
    tables = {table: _describe(include, resolve, table) for table in (publication.table, *publication.joined_tables)}
    found_datasets = {table: dataset for table, dataset in tables.items() if dataset is not None}
    if len(found_datasets) < len(tables):
        return TaskLineage(tuple(found_datasets.values()))
    columns = {table: [field.name for field in dataset.fields] for table, dataset in found_datasets.items()}
    reads, aliases = read_publication(publication.sql, publication.table, columns)
    brokers = _find_broker_namespace(publication.kafka, resolve)
    topics = tuple(DatasetName(brokers, topic) for topic in publication.topics)
    datasets = {alias: found_datasets[table] for alias, table in aliases.items()}
    published_topic = PublishedTopic(publication, topics, reads, datasets)
    return TaskLineage(tuple(found_datasets.values()), describe_published_topics(published_topic))


def _find_broker_namespace(kafka: str | Mapping[str, str], resolve: Resolve) -> str:
    settings = resolve_kafka_settings(kafka, resolve)
    return name_broker_namespace(settings.get("bootstrap.servers") or settings.get("metadata.broker.list") or "")


def read_table_statements(table: Table) -> tuple[StatementReads | None, tuple[str, ...]]:
    """Return what a table's `select` reads, and the record's columns that its conditions and its route look at."""
    columns = [c.name for c in list_record_columns(table)]
    names = [*columns, *(column.name for column in RECORD_COLUMNS if column.name not in columns)]
    conditions = [condition for condition in (table.when, table.delete_when) if condition]
    looked_at = [name for condition in conditions for name in read_condition(condition, names)]
    looked_at += [table.route.steps[0]] if table.route is not None else []
    looked_at += table.naming.fields if table.naming is not None else ()
    if table.select is None:
        return None, tuple(dict.fromkeys(looked_at))
    return read_select(table.select, columns), tuple(dict.fromkeys(looked_at))


def _look_up_table(include: Path, session: Session, resolve: Resolve, name: str) -> FlushedTable | None:
    described_table = _describe(include, resolve, name)
    state = session.tables.read_state(name, session.pipeline.name)
    if described_table is None or state is None or state.kind:
        return None
    table = resolve_columns(find_table(session, name), state)
    reads, conditions = read_table_statements(table)
    dimensions = {
        d.alias: _describe(include, resolve, d.table) for d in (table.select.dimensions if table.select else ())
    }
    return FlushedTable(
        table=table,
        name=described_table.name,
        columns=state.columns,
        topics=(),
        reads=reads,
        conditions=conditions,
        dimensions={alias: dataset for alias, dataset in dimensions.items() if dataset is not None},
    )


def _describe(include: Path, resolve: Resolve, table: str) -> Dataset | None:
    catalog = read_catalogs(include).get(table.partition(".")[0])
    if not isinstance(catalog, Catalog):
        return None
    return get_destination(catalog).describe_dataset(catalog, resolve, table)
