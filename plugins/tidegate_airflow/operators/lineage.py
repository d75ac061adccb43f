"""Tells Airflow's OpenLineage provider, if it is installed, what a task has read and written, column by column."""

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.lineage.dataset import Dataset, DatasetName, FieldSource, TaskLineage
from tidegate.settings import find_include_folder

from tidegate_airflow.connections import resolve_connection

Topics = Mapping[str, Iterable[str]]  # of each table, those that it was read from


def trace_flushed_tables(pipeline: str, topics: Topics) -> TaskLineage:
    from tidegate.wiring.lineage import trace_flush
    from tidegate.wiring.pipeline import assemble_pipeline

    include = find_include_folder()
    session = assemble_pipeline(include, pipeline, resolve_connection)
    return trace_flush(include, session, resolve_connection, {name: tuple(read) for name, read in topics.items()})


def trace_published_topics(publication: str) -> TaskLineage:
    from tidegate.wiring.lineage import trace_publication

    return trace_publication(find_include_folder(), publication, resolve_connection)


def find_topics_of_queue(queue: Mapping[str, Any]) -> Topics:
    from tidegate.model.batch import StagedBatch

    batches = [StagedBatch.from_dict(batch) for batch in queue["batches"]]
    return {queue["table"]: sorted({topic for batch in batches for topic, _, _, _ in batch.ranges})}


def find_topics_of_slice(backfill: Mapping[str, Any], number: int) -> Topics:
    from tidegate.model.backfill import Backfill

    request = Backfill.from_dict(backfill)
    slices = {table.table: request.list_slices(table.table) for table in request.tables}
    return {
        name: sorted({topic for topic, _, _, _ in pieces[number - 1]})
        for name, pieces in slices.items()
        if number <= len(pieces)
    }


def to_operator_lineage(lineage: TaskLineage) -> Any:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    return OperatorLineage(
        inputs=[InputDataset(d.name.namespace, d.name.name, facets=_build_facets(d)) for d in lineage.inputs],
        outputs=[OutputDataset(d.name.namespace, d.name.name, facets=_build_facets(d)) for d in lineage.outputs],
    )


def _build_facets(dataset: Dataset) -> dict[str, Any]:
    from openlineage.client.facet_v2 import column_lineage_dataset, schema_dataset, symlinks_dataset

    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=field.name, type=field.type, ordinal_position=number)
        for number, field in enumerate(dataset.fields, 1)
    ]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)}
    if dataset.name.table is not None:
        namespace, name = dataset.name.table
        alias = symlinks_dataset.Identifier(namespace=namespace, name=name, type="TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[alias])
    if dataset.sources:
        columns = {
            name: column_lineage_dataset.Fields(inputFields=[_build_input(source) for source in sources])
            for name, sources in dataset.sources.items()
        }
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
            fields=columns, dataset=[_build_input(source) for source in dataset.row_sources]
        )
    return facets


def _build_input(source: FieldSource) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset

    name: DatasetName = source.dataset
    transformation = column_lineage_dataset.Transformation(
        type="DIRECT" if source.how.is_direct else "INDIRECT", subtype=source.how.value
    )
    return column_lineage_dataset.InputField(name.namespace, name.name, source.field, transformations=[transformation])
