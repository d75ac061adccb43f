"""Where every column of the golden pipelines and publications comes from, as files that people can read.

``REGENERATE_GOLDEN=1 pytest tests/unit/tidegate/lineage`` writes the files anew: read what changed.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from fakes import build_pipeline, build_table
from golden_files import compare_with_golden
from tidegate.config.parsing.column_reads import read_publication
from tidegate.config.pipeline_file import load_pipeline
from tidegate.config.publication_file import load_publication
from tidegate.lineage.columns import (
    FlushedTable,
    PublishedTopic,
    describe_flushed_table,
    describe_published_topics,
    list_inputs,
)
from tidegate.lineage.dataset import Dataset, DatasetField, DatasetName, FieldSource
from tidegate.schema.data_types import Column, Primitive, Struct
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import DeleteMode, Table
from tidegate.table.columns import list_destination_columns
from tidegate.table.session import make_concrete_table
from tidegate.wiring.lineage import read_table_statements

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "lineage"
PIPELINES = {
    path.stem: path for folder in (GOLDEN / "pipelines", ROOT / "demo" / "pipelines") for path in folder.glob("*.yaml")
}
PUBLICATIONS = {path.stem: path for path in (GOLDEN / "publications").glob("*.yaml")}
CATALOGS = """
lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:////x/c.db', warehouse: 's3://lake/warehouse'}}
dwh: {type: bigquery, project: shop-project, staging: 'gs://b/p'}
"""
CUSTOMERS = Dataset(
    DatasetName("s3://lake", "warehouse/customers"),
    (DatasetField("id", "BIGINT"), DatasetField("name", "STRING"), DatasetField("level", "INT")),
)
ORDER_TYPES = {
    "id": "BIGINT",
    "name": "STRING",
    "amount": "DECIMAL(12,2)",
    "customer": "BIGINT",
    "current_at": "TIMESTAMP",
}
ORDERS = Dataset(
    DatasetName("s3://lake", "warehouse/orders"), tuple(DatasetField(name, kind) for name, kind in ORDER_TYPES.items())
)
CONSTANTS = {"computed.region"}  # columns that nothing is read for


@pytest.fixture
def include(tmp_path: Path) -> Path:
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    for folder in ("pipelines", "publications"):
        (tmp_path / folder).mkdir()
    return tmp_path


def copy_file(include: Path, kind: str, source: Path) -> Path:
    path = include / kind / source.name
    path.write_text(source.read_text())
    return path


def list_tables(pipeline: Pipeline) -> list[Table]:
    concrete_tables = [make_concrete_table(pipeline, "dwh.shop.orders")] if pipeline.template else []
    return [*(table for table in pipeline.tables if table.naming is None), *concrete_tables]


def flush(pipeline: Pipeline, table: Table) -> FlushedTable:
    if table.select is not None:
        fields = tuple(Column(field.name, field.type or "") for field in CUSTOMERS.fields)
        dimensions = tuple(replace(d, columns=fields) for d in table.select.dimensions)
        table = replace(table, select=replace(table.select, dimensions=dimensions))
    reads, conditions = read_table_statements(table)
    return FlushedTable(
        table=table,
        name=DatasetName("s3://lake", table.name),
        columns=(*list_destination_columns(table), Column("added_by_others", "STRING")),
        topics=tuple(DatasetName("kafka://broker:9092", topic) for topic in table.topics or ("shop.orders",)),
        reads=reads,
        conditions=conditions,
        dimensions={d.alias: CUSTOMERS for d in (table.select.dimensions if table.select else ())},
    )


def format_source(source: FieldSource) -> str:
    return f"{source.dataset.name}: {source.field} ({source.how})"


def to_text(inputs: tuple[Dataset, ...], outputs: list[Dataset]) -> str:
    def show(dataset: Dataset) -> dict[str, Any]:
        description: dict[str, Any] = {"name": asdict(dataset.name), "fields": {f.name: f.type for f in dataset.fields}}
        if dataset.sources:
            description["columns"] = {
                name: list(map(format_source, sources)) for name, sources in dataset.sources.items()
            }
            description["rows"] = list(map(format_source, dataset.row_sources))
        return description

    return json.dumps({"inputs": list(map(show, inputs)), "outputs": list(map(show, outputs))}, indent=1) + "\n"


def check_sources(label: str, column_names: list[str], inputs: tuple[Dataset, ...], output: Dataset) -> None:
    """Every column that is written has a source, and every source is a field that an input has."""
    assert list(output.sources) == column_names
    bare = {f"{label}.{name}" for name, sources in output.sources.items() if not sources}
    assert bare <= CONSTANTS
    known = {(dataset.name, field.name) for dataset in inputs for field in dataset.fields}
    source_fields = [source for sources in (*output.sources.values(), output.row_sources) for source in sources]
    assert {(source.dataset, source.field) for source in source_fields} <= known


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_each_column_of_a_pipelines_tables_is_traced_to_fields_of_its_topics(name: str, include: Path) -> None:
    pipeline = load_pipeline(copy_file(include, "pipelines", PIPELINES[name]))
    inputs, outputs = dict[DatasetName, Dataset](), []
    for table in list_tables(pipeline):
        flushed = flush(pipeline, table)
        output = describe_flushed_table(flushed)
        check_sources(
            name,
            [c.name for c in list_destination_columns(flushed.table)],
            list_inputs(flushed),
            output,
        )
        inputs |= {dataset.name: dataset for dataset in list_inputs(flushed)}
        outputs.append(output)
    compare_with_golden(GOLDEN / f"{name}.json", to_text(tuple(inputs.values()), outputs))


@pytest.mark.parametrize("name", sorted(PUBLICATIONS))
def test_each_part_of_a_published_record_is_traced_to_columns_of_its_tables(name: str, include: Path) -> None:
    publication = load_publication(copy_file(include, "publications", PUBLICATIONS[name]))
    fields_by_table = {"lake.shop.orders": ORDERS, "lake.shop.customers": CUSTOMERS}
    columns = {table: [field.name for field in dataset.fields] for table, dataset in fields_by_table.items()}
    reads, aliases = read_publication(publication.sql, publication.table, columns)
    topics = tuple(DatasetName("kafka://broker:9092", topic) for topic in publication.topics)
    published = PublishedTopic(
        publication, topics, reads, {alias: fields_by_table[table] for alias, table in aliases.items()}
    )
    outputs = describe_published_topics(published)
    inputs = tuple(fields_by_table[table] for table in aliases.values())
    for output in outputs:
        check_sources(name, [field.name for field in output.fields], inputs, output)
    compare_with_golden(GOLDEN / f"publish_{name}.json", to_text(inputs, list(outputs)))


def test_columns_that_the_table_spells_or_names_otherwise_are_traced_by_its_own_names() -> None:
    text, number = Primitive("STRING"), Primitive("BIGINT")
    target = Struct((("ID", number), ("title", text), ("gone", Primitive("BOOLEAN"))), aliases=(("name", "title"),))
    columns = (Column("id", "BIGINT"), Column("name", "STRING"), Column("Title", "STRING"))
    table = replace(build_table(columns=columns, target_schema=target), deletes=DeleteMode.SOFT, deleted_column="Gone")
    output = describe_flushed_table(replace(flush(build_pipeline(table), table), columns=()))
    assert list(output.sources) == ["ID", "title", "gone"]
    assert [source.field for source in output.sources["title"]] == ["value.name", "value.Title"]
