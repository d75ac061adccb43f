"""Puts the ports of one pipeline together: files and connections in, ready-to-use adapters out."""

import time
import uuid
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.destination import build_bigquery_destination
from tidegate.adapters.bigquery.engine import BigQueryEngine
from tidegate.adapters.catalog_routing import RoutedEngine, route_by_catalog
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.leftovers import find_leftovers
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.settings import resolve_kafka_settings, to_java_settings
from tidegate.adapters.open_clients import OpenClients
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.adapters.spark.catalog_conf import build_spark_catalog_conf, resolve_catalog_properties
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.entry_points import build_private_conf
from tidegate.adapters.spark.remote_address import resolve_spark_remote
from tidegate.adapters.spark.submit import SubmitEngine
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.pipeline_file import check_tables_of_others, load_all_pipelines, load_pipeline
from tidegate.connections import Resolve, require_connection
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.ports.context import Ports
from tidegate.ports.engine import Engine
from tidegate.settings import find_repository_root
from tidegate.spec.catalog import Catalog
from tidegate.spec.pipeline import Pipeline
from tidegate.wiring.entry_points import build_hook


def find_pipeline_file(include: Path, name: str) -> Path:
    """The file of the pipeline of that name; ConfigurationError names those there are."""
    return find_file(include, "pipeline", name)


def find_file(include: Path, kind: str, name: str) -> Path:
    """The file of a pipeline or a publication; ConfigurationError names those there are."""
    path = include / f"{kind}s" / f"{name}.yaml"
    if not path.exists():
        known_names = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ConfigurationError(f"{kind}={name}: no such {kind}; there are: {known_names}")
    return path


def assemble_pipeline(
    include: Path,
    name: str,
    resolve: Resolve,
    engine: Engine | None = None,
    clients: OpenClients | None = None,
) -> Ports:
    """The ports of a pipeline. Nothing is connected to before it is used.

    `engine` replaces the pipeline's own; `clients` are those of catalogs that other pipelines in this process use too.
    """
    pipeline = load_pipeline(find_pipeline_file(include, name))
    catalogs = _select_catalogs(include, pipeline)
    clients = clients or OpenClients()
    warehouses = _open_warehouses(catalogs, resolve, clients, name)
    googlesql = SqlFiles("bigquery", {name: warehouse.project for name, warehouse in warehouses.items()})
    spark = engine or _build_engine(pipeline, resolve, build_spark_conf(include, pipeline, resolve))
    librdkafka = resolve_kafka_settings(pipeline.source.kafka, resolve)
    iceberg = build_iceberg_destination(
        build_iceberg_catalogs(catalogs, resolve, clients), {table.name: table.branch for table in pipeline.tables}
    )
    bigquery = build_bigquery_destination(warehouses, googlesql)
    destination = route_by_catalog({c.name: bigquery if c.type == "bigquery" else iceberg for c in catalogs})
    return Ports(
        pipeline=pipeline,
        broker=KafkaBroker(librdkafka),
        tables=destination.tables,
        commits=destination.commits,
        staging=destination.staging,
        dead_letters=destination.dead_letters,
        history=destination.history,
        engine=RoutedEngine(spark, {name: BigQueryEngine(warehouse) for name, warehouse in warehouses.items()}),
        sql=SqlFiles("iceberg"),
        now_ms=lambda: int(time.time() * 1000),
        new_attempt=lambda: uuid.uuid4().hex,
        schemas=RegistrySchemas(resolve, include),
        heartbeat_hook=build_hook(pipeline.heartbeat.hook),
        dialects=dict.fromkeys(warehouses, googlesql),
    )


def assemble_checked_pipeline(include: Path, name: str, resolve: Resolve, engine: Engine | None = None) -> Ports:
    """The same for a command: first every other pipeline file is read, for tables that two of them need."""
    ports = assemble_pipeline(include, name, resolve, engine)
    check_tables_of_others(include, name)
    return ports


def _open_warehouses(
    catalogs: Iterable[Catalog], resolve: Resolve, clients: OpenClients, pipeline: str
) -> dict[str, Warehouse]:
    """The warehouse of each BigQuery catalog; pipelines share it while its settings, secrets included, are the same."""
    found = dict[str, Warehouse]()
    for catalog in (catalog for catalog in catalogs if catalog.type == "bigquery"):
        settings = (catalog, resolve(catalog.connection) if catalog.connection else None)
        opened = partial(Warehouse, catalog, resolve, clients.watcher, pipeline)
        found[catalog.name] = clients.client(catalog.name, settings, opened)
    return found


def build_iceberg_catalogs(
    catalogs: Iterable[Catalog], resolve: Resolve, clients: OpenClients | None = None
) -> Catalogs:
    """Those of the catalogs that are Iceberg's, with the logins of their connections."""
    selected = [catalog for catalog in catalogs if catalog.type == "iceberg"]
    connections = {catalog.name: catalog.connection for catalog in selected}
    properties = {catalog.name: resolve_catalog_properties(catalog, resolve) for catalog in selected}
    return Catalogs(properties, connections, clients)


def build_spark_conf(include: Path, pipeline: Pipeline, resolve: Resolve) -> dict[str, str]:
    """What a job's session needs: the pipeline's own `spark.conf`, its catalogs and brokers. Never log it: secrets."""
    conf: dict[str, str] = dict(pipeline.spark.conf)
    for catalog in (c for c in _select_catalogs(include, pipeline) if c.type == "iceberg"):
        conf |= build_spark_catalog_conf(catalog, resolve_catalog_properties(catalog, resolve))
    return build_private_conf(conf, to_java_settings(resolve_kafka_settings(pipeline.source.kafka, resolve)))


def _select_catalogs(include: Path, pipeline: Pipeline) -> list[Catalog]:
    catalogs = read_catalogs(include)
    chosen = []
    for name in pipeline.catalogs:
        catalog = catalogs.get(name)
        if not isinstance(catalog, Catalog):
            raise ConfigurationError(f"catalog={name}: {catalog or 'not declared in catalogs.yaml'}")
        chosen.append(catalog)
    return chosen


def _build_engine(pipeline: Pipeline, resolve: Resolve, conf: dict[str, str]) -> Engine:
    if pipeline.spark.mode == "connect":
        return ConnectEngine(resolve_spark_remote(pipeline.spark, resolve), conf)
    master = pipeline.spark.master or resolve_spark_master(pipeline.spark.connection, resolve)
    return SubmitEngine(master, list_local_jars(), conf)


def resolve_spark_master(connection_id: str, resolve: Resolve) -> str:
    """A Spark connection's master, as Airflow's spark-submit hook reads it."""
    connection = require_connection(connection_id, resolve)
    host = connection.host or ""
    return f"{host}:{connection.port}" if connection.port else host


def list_local_jars() -> str:
    """The jars that ``make setup`` brought, for --jars; empty where Spark has its own."""
    folder = find_repository_root() / ".cache" / "jars" / "spark"
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))


def find_all_leftovers(include: Path, resolve: Resolve) -> tuple[list[dict[str, Any]], list[TidegateError]]:
    """What pipelines without a file have left in the Iceberg catalogs of an include folder; and what is not known."""
    pipeline_names = {name for name, _ in load_all_pipelines(include)}
    leftovers, failures = list[dict[str, Any]](), list[TidegateError]()
    for name, catalog in read_catalogs(include).items():
        try:
            if not isinstance(catalog, Catalog):
                raise ConfigurationError(f"catalog={name}: {catalog}")
            if catalog.type == "iceberg":
                leftovers += find_leftovers(build_iceberg_catalogs([catalog], resolve), name, pipeline_names, failures)
        except ConfigurationError as error:
            failures.append(error)
    return leftovers, failures
