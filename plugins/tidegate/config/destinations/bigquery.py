"""BigQuery as a destination: how a project is declared, what its tables can do, and what is built of it."""

import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from tidegate.adapters.bigquery.table_layout import INGESTION_TIME_COLUMN
from tidegate.adapters.open_clients import OpenClients
from tidegate.adapters.opened_destination import OpenedDestination
from tidegate.config.destinations.bigquery_limits import check_limits, check_pace
from tidegate.config.destinations.destination import CatalogProbe, DestinationType
from tidegate.config.models.catalogs import CatalogModel
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.connections import Resolve
from tidegate.errors import TidegateError
from tidegate.lineage.dataset import Dataset, DatasetField, DatasetName
from tidegate.model.ownership import PipelineLeftovers
from tidegate.spec.catalog import Catalog
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table_template import FIELD_PATTERN, split_template

DEFAULT_LOCATION = "US"
DATASET_PATTERN = re.compile(r"\w+", re.ASCII)


class BigQueryModel(CatalogModel):
    """A Google Cloud project and where load jobs find their files."""

    type: Literal["bigquery"]
    project: str
    location: str | None = None
    staging: str | None = None
    endpoint: str | None = None
    max_bytes_billed: int | None = Field(default=None, ge=1, description="The most that one publish may scan.")

    def to_shared_properties(self) -> dict[str, Any]:
        """What was given, under our names."""
        properties = self.model_dump(exclude={"type", "connection"})
        return {name: value for name, value in properties.items() if value is not None}


def _check_catalog(_: dict[str, Any], __: KeyPath, ___: Problems) -> None:
    """The model says it all."""


def _check_pipeline(model: PipelineModel, catalogs: Sequence[Catalog], findings: Problems) -> None:
    """BigQuery itself has quotas of jobs, and places: a server that a catalog names by its endpoint has neither."""
    served_catalogs = [catalog for catalog in catalogs if "endpoint" not in catalog.properties]
    if served_catalogs:
        check_pace(model.merge, findings)
    locations = {str(catalog.properties.get("location", DEFAULT_LOCATION)).upper() for catalog in served_catalogs}
    if len(locations) > 1 and model.source.errors.tolerance != "none":
        findings.add(
            ("source", "errors", "tolerance"),
            f"all needs every table in one location: dead letters are written by the job that publishes their batch, "
            f"and these catalogs lie in {', '.join(sorted(locations))}; write none, or make a pipeline for each",
        )


def _check_table(
    model: PipelineModel, table: TableModel, catalog: Catalog | None, path: KeyPath, findings: Problems
) -> None:
    if catalog is not None and not catalog.properties.get("staging"):
        findings.add(
            (*path, "name"),
            f"catalog={catalog.name} has no staging in catalogs.yaml; give gs://bucket/prefix, or file:///folder",
        )
    namespace, _ = split_template(table.name.partition(".")[2])
    for index, name in enumerate(table.namespaces):
        if not DATASET_PATTERN.fullmatch(name):
            findings.add((*path, "namespaces", index), "not a dataset's name: letters, digits and underscores")
    literal_text = FIELD_PATTERN.sub("", namespace)
    if "." in literal_text:
        findings.add((*path, "name"), "BigQuery has one level of datasets; write <catalog>.<dataset>.<table>")
    elif literal_text and not DATASET_PATTERN.fullmatch(literal_text):
        problem = f"dataset={namespace}: BigQuery's datasets have letters, digits and underscores"
        findings.add((*path, "name"), f"{problem}; name another one")
    _check_history(model, table, path, findings)
    check_limits(model, table, path, findings)


def _check_history(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    """A row of history is made of several records, so that it has no partition by the time of one."""
    by_ingestion = any(INGESTION_TIME_COLUMN in text.upper() for text in table.create.partition_by)
    if table.history != "none" and by_ingestion and model.merge.partition_time == "record":
        problem = (
            "a row of history has no record's time to lie at; name a column, e.g. valid_from, or set "
            "merge.partition_time: wall-clock"
        )
        findings.add((*path, "create", "partition_by", 0), problem)


def _open(catalogs: Sequence[Catalog], pipeline: Pipeline, resolve: Resolve, clients: OpenClients) -> OpenedDestination:
    """The warehouse of each catalog; pipelines share it while its settings, secrets included, are the same."""
    from tidegate.adapters.bigquery.client.client import Warehouse
    from tidegate.adapters.bigquery.destination import open_bigquery

    warehouses = dict[str, Warehouse]()
    for catalog in catalogs:
        settings = (catalog, resolve(catalog.connection) if catalog.connection else None)
        open_warehouse = partial(Warehouse, catalog, resolve, clients.watcher, pipeline.name)
        warehouses[catalog.name] = clients.get_client(catalog.name, settings, open_warehouse)
    return open_bigquery(warehouses)


def _build_spark_conf(_: Catalog, __: Resolve) -> dict[str, str]:
    """Spark writes files beside BigQuery, and does not know it."""
    return {}


def _find_leftovers(
    _: Catalog, __: Resolve, ___: Collection[str]
) -> tuple[list[PipelineLeftovers], list[TidegateError]]:
    """Whose tables these are is not looked for in BigQuery."""
    return [], []


def _probe(catalog: Catalog, resolve: Resolve) -> CatalogProbe:
    from tidegate.adapters.bigquery.client.client import Warehouse
    from tidegate.adapters.bigquery.probe import WarehouseProbe

    return WarehouseProbe(Warehouse(catalog, resolve))


def _describe_dataset(catalog: Catalog, resolve: Resolve, table: str) -> Dataset | None:
    from tidegate.adapters.bigquery.client.client import Warehouse
    from tidegate.adapters.bigquery.destination import open_bigquery

    destination = open_bigquery({catalog.name: Warehouse(catalog, resolve)})
    state = destination.ports.tables.read_state(table, "")
    if state is None:
        return None
    name = DatasetName("bigquery", f"{catalog.properties['project']}.{table.partition('.')[2]}")
    return Dataset(name, tuple(DatasetField(c.name, c.type) for c in state.columns))


BIGQUERY = DestinationType(
    name="bigquery",
    title="BigQuery",
    model=BigQueryModel,
    check_catalog=_check_catalog,
    check_table=_check_table,
    check_pipeline=_check_pipeline,
    open=_open,
    build_spark_conf=_build_spark_conf,
    find_leftovers=_find_leftovers,
    probe=_probe,
    describe_dataset=_describe_dataset,
    max_name_bytes=1024,
    partition_columns=(INGESTION_TIME_COLUMN,),
)
