"""Apache Iceberg as a destination: how a catalog is declared, what its tables can do, and what is built of it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from tidegate.adapters.iceberg.table.format_version import (
    MERGE_COLUMNS,
    NEWEST_SUPPORTED_VERSION,
    PATH_ENDS,
    UNSUPPORTED_REASON,
)
from tidegate.adapters.open_clients import OpenClients
from tidegate.adapters.opened_destination import OpenedDestination
from tidegate.config.destinations.destination import DestinationType
from tidegate.config.destinations.iceberg_partitions import check_partitions, read_types
from tidegate.config.models.catalogs import CatalogModel
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.models.settings import PropertyText
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.connections import Resolve
from tidegate.diagnosis.destinations import CatalogNeed
from tidegate.diagnosis.finding import Finding
from tidegate.errors import TidegateError
from tidegate.lineage.dataset import Dataset, DatasetField
from tidegate.lineage.dataset_names import name_iceberg_table
from tidegate.model.ownership import PipelineLeftovers
from tidegate.ports.publication_ports import Snapshots
from tidegate.redaction import has_secret, is_secret_name
from tidegate.sinks.world import SinkNotes
from tidegate.spec.catalog import Catalog
from tidegate.spec.pipeline import Pipeline

PYICEBERG_TYPES = ("sql", "rest")
SHARED_URI_PREFIXES = ("sqlite:////", "sqlite+pysqlite:////", "postgresql://", "postgresql+psycopg2://")


class IcebergModel(CatalogModel):
    """PyIceberg's words; Spark's are derived from them."""

    type: Literal["iceberg"]
    properties: dict[str, PropertyText] = Field(default={}, description="PyIceberg's properties.")

    def to_shared_properties(self) -> dict[str, Any]:
        """PyIceberg's own names."""
        return dict(self.properties)


def _check_catalog(properties: dict[str, Any], catalog: KeyPath, findings: Problems) -> None:
    path = (*catalog, "properties")
    for name, value in properties.items():
        if is_secret_name(name) or has_secret(value):
            findings.add_broken(
                (*path, name), "a secret in a file; put it into an Airflow connection and name that in `connection`"
            )
    kind, uri = properties.get("type"), properties.get("uri", "")
    if kind not in PYICEBERG_TYPES:
        findings.add(
            (*path, "type") if kind else path, f"PyIceberg's type of catalog; {suggest_closest('', PYICEBERG_TYPES)}"
        )
    if "uri" not in properties:
        findings.add(path, "uri is missing; write e.g. sqlite:////absolute/catalog.db or http://host:8181")
    elif kind == "sql" and not uri.startswith(SHARED_URI_PREFIXES):
        findings.add(
            (*path, "uri"), f"Spark cannot share it; absolute paths and hosts only: {', '.join(SHARED_URI_PREFIXES)}"
        )
    if kind == "sql" and "warehouse" not in properties:
        findings.add(path, "warehouse is missing; write e.g. file:///absolute/warehouse or s3://bucket/prefix")


def _check_table(
    model: PipelineModel, table: TableModel, catalog: Catalog | None, path: KeyPath, findings: Problems
) -> None:
    check_partitions(model, table, path, findings)
    _check_names(model, table, path, findings)
    _check_folder(table.name, catalog, (*path, "name"), findings)
    version_path = (*path, "create", "properties", "format-version")
    version = table.create.properties.get("format-version", str(NEWEST_SUPPORTED_VERSION))
    if not version.isdecimal():
        findings.add(version_path, "not a number; write '2', or leave it out")
    elif int(version) > NEWEST_SUPPORTED_VERSION:
        findings.add(version_path, f"not supported: {UNSUPPORTED_REASON}")


def _check_names(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    key = table.key or model.source.key
    upsert, delete = (bool(key.fields) if setting is None else setting for setting in (table.upsert, table.delete))
    declared_columns = {*read_types(model, table), *(name.casefold() for name in model.source.metadata)}
    for name in sorted(declared_columns & set(MERGE_COLUMNS)) if upsert or delete else ():
        findings.add(path, f"Iceberg reserves {name} in Spark; give the column another name, e.g. in select")


def _check_folder(name: str, catalog: Catalog | None, path: KeyPath, findings: Problems) -> None:
    """A database's catalog puts a table's files into a folder of its name; a REST server chooses it."""
    if catalog is not None and catalog.properties.get("type") == "sql" and any(end in name for end in PATH_ENDS):
        findings.add(path, "names a folder, and PyIceberg takes # and ? for the end of a path; use other characters")


def _check_pipeline(_: PipelineModel, __: Sequence[Catalog], ___: Problems) -> None:
    """Any pipeline may write Iceberg tables."""


def _open(catalogs: Sequence[Catalog], pipeline: Pipeline, resolve: Resolve, clients: OpenClients) -> OpenedDestination:
    from tidegate.adapters.iceberg.destination import build_iceberg_destination, open_catalogs

    branches = {table.name: table.branch for table in pipeline.tables}
    return OpenedDestination(build_iceberg_destination(open_catalogs(catalogs, resolve, clients), branches))


def _build_spark_conf(catalog: Catalog, resolve: Resolve) -> dict[str, str]:
    from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf, resolve_catalog_properties

    return build_spark_catalog_conf(catalog, resolve_catalog_properties(catalog, resolve))


def _find_leftovers(
    catalog: Catalog, resolve: Resolve, pipelines: Collection[str]
) -> tuple[list[PipelineLeftovers], list[TidegateError]]:
    from tidegate.adapters.iceberg.destination import open_catalogs
    from tidegate.adapters.iceberg.leftovers import find_leftovers

    return find_leftovers(open_catalogs([catalog], resolve), catalog.name, pipelines)


def _open_snapshots(catalog: Catalog, resolve: Resolve) -> Snapshots:
    from tidegate.adapters.iceberg.destination import open_catalogs
    from tidegate.adapters.iceberg.snapshots import IcebergSnapshots

    return IcebergSnapshots(open_catalogs([catalog], resolve))


def _open_sink_notes(catalog: Catalog, resolve: Resolve) -> SinkNotes:
    from tidegate.adapters.iceberg.connector_notes import ConnectorNotes
    from tidegate.adapters.iceberg.destination import open_catalogs

    return ConnectorNotes(open_catalogs([catalog], resolve))


def _probe(catalog: Catalog, resolve: Resolve, need: CatalogNeed) -> Iterator[Finding]:
    from tidegate.adapters.iceberg.destination import open_catalogs
    from tidegate.adapters.iceberg.probe import check_catalog

    return check_catalog(open_catalogs([catalog], resolve), catalog.name, need)


def _describe_dataset(catalog: Catalog, resolve: Resolve, table: str) -> Dataset | None:
    from tidegate.adapters.iceberg.destination import build_iceberg_destination, open_catalogs

    catalogs = open_catalogs([catalog], resolve)
    loaded_table, state = catalogs.table(table), build_iceberg_destination(catalogs).tables.read_state(table, "")
    if loaded_table is None or state is None:
        return None
    name = name_iceberg_table(loaded_table.location(), catalog.properties.get("uri", ""), table.partition(".")[2])
    return Dataset(name, tuple(DatasetField(c.name, c.type) for c in state.columns))


ICEBERG = DestinationType(
    name="iceberg",
    title="Iceberg",
    model=IcebergModel,
    check_catalog=_check_catalog,
    check_table=_check_table,
    check_pipeline=_check_pipeline,
    open=_open,
    build_spark_conf=_build_spark_conf,
    find_leftovers=_find_leftovers,
    probe=_probe,
    describe_dataset=_describe_dataset,
    open_snapshots=_open_snapshots,
    open_sink_notes=_open_sink_notes,
    has_named_branches=True,
    is_joinable=True,
    keeps_letters_of_others=True,
)
