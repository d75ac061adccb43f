"""Puts the ports of one pipeline together: files and connections in, ready-to-use adapters out."""

import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.client.named_jobs import Watcher
from tidegate.adapters.bigquery.destination import BigQueryDestination
from tidegate.adapters.bigquery.engine import BigQueryEngine
from tidegate.adapters.catalog_routing import RoutedEngine, routed
from tidegate.adapters.iceberg.destination import IcebergDestination
from tidegate.adapters.iceberg.leftovers import leftovers
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.settings import java_settings, kafka_settings
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.adapters.spark.catalog_conf import catalog_properties, spark_catalog_conf
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.entry_points import private_conf
from tidegate.adapters.spark.remote_address import spark_remote
from tidegate.adapters.spark.submit import SubmitEngine
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.pipeline_file import check_tables_of_others, load_all, load_pipeline
from tidegate.connections import Resolve, required
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.ports.context import Ports
from tidegate.ports.destination import Destination
from tidegate.ports.engine import Engine
from tidegate.settings import repository_root
from tidegate.spec.catalog import Catalog
from tidegate.spec.pipeline import Pipeline
from tidegate.wiring.entry_points import hook


def pipeline_path(include: Path, name: str) -> Path:
    """The file of the pipeline of that name; ConfigurationError names those there are."""
    return file_of(include, "pipeline", name)


def file_of(include: Path, kind: str, name: str) -> Path:
    """The file of a pipeline or a publication; ConfigurationError names those there are."""
    path = include / f"{kind}s" / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ConfigurationError(f"{kind}={name}: no such {kind}; there are: {known}")
    return path


def assemble(
    include: Path, name: str, resolve: Resolve, engine: Engine | None = None, watcher: Watcher | None = None
) -> Ports:
    """The ports of a pipeline. Nothing is connected to before it is used.

    `engine` replaces the pipeline's own; `watcher` is told of the named jobs of its warehouses.
    """
    pipeline = load_pipeline(pipeline_path(include, name))
    catalogs = _catalogs(include, pipeline)
    warehouses = {c.name: Warehouse(c, resolve, watcher, name) for c in catalogs if c.type == "bigquery"}
    googlesql = SqlFiles("bigquery", {name: warehouse.project for name, warehouse in warehouses.items()})
    spark = engine or _engine(pipeline, resolve, spark_conf(include, pipeline, resolve))
    librdkafka = kafka_settings(pipeline.source.kafka, resolve)
    return Ports(
        pipeline=pipeline,
        broker=KafkaBroker(librdkafka),
        destination=_destination(
            pipeline, catalogs, iceberg_catalogs(catalogs, resolve), BigQueryDestination(warehouses, googlesql)
        ),
        engine=RoutedEngine(spark, {name: BigQueryEngine(warehouse) for name, warehouse in warehouses.items()}),
        sql=SqlFiles("iceberg"),
        now_ms=lambda: int(time.time() * 1000),
        new_attempt=lambda: uuid.uuid4().hex,
        schemas=RegistrySchemas(resolve, include),
        heartbeat_hook=hook(pipeline.heartbeat.hook),
        dialects=dict.fromkeys(warehouses, googlesql),
    )


def assemble_checked(include: Path, name: str, resolve: Resolve, engine: Engine | None = None) -> Ports:
    """The same for a command: first every other pipeline file is read, for tables that two of them need."""
    ports = assemble(include, name, resolve, engine)
    check_tables_of_others(include, name)
    return ports


def _destination(
    pipeline: Pipeline, catalogs: list[Catalog], open_catalogs: Catalogs, bigquery: BigQueryDestination
) -> Destination:
    """The destinations of all catalogs as one."""
    iceberg = IcebergDestination(open_catalogs, {table.name: table.branch for table in pipeline.tables})
    return routed({c.name: bigquery if c.type == "bigquery" else iceberg for c in catalogs})


def iceberg_catalogs(catalogs: Iterable[Catalog], resolve: Resolve) -> Catalogs:
    """Those of the catalogs that are Iceberg's, with the logins of their connections."""
    found = [catalog for catalog in catalogs if catalog.type == "iceberg"]
    connections = {catalog.name: catalog.connection for catalog in found}
    return Catalogs({catalog.name: catalog_properties(catalog, resolve) for catalog in found}, connections)


def spark_conf(include: Path, pipeline: Pipeline, resolve: Resolve) -> dict[str, str]:
    """What a job's session needs: the pipeline's own `spark.conf`, its catalogs and brokers. Never log it: secrets."""
    conf: dict[str, str] = dict(pipeline.spark.conf)
    for catalog in (c for c in _catalogs(include, pipeline) if c.type == "iceberg"):
        conf |= spark_catalog_conf(catalog, catalog_properties(catalog, resolve))
    return private_conf(conf, java_settings(kafka_settings(pipeline.source.kafka, resolve)))


def _catalogs(include: Path, pipeline: Pipeline) -> list[Catalog]:
    found = read_catalogs(include)
    chosen = []
    for name in pipeline.catalogs:
        catalog = found.get(name)
        if not isinstance(catalog, Catalog):
            raise ConfigurationError(f"catalog={name}: {catalog or 'not declared in catalogs.yaml'}")
        chosen.append(catalog)
    return chosen


def _engine(pipeline: Pipeline, resolve: Resolve, conf: dict[str, str]) -> Engine:
    if pipeline.spark.mode == "connect":
        return ConnectEngine(spark_remote(pipeline.spark, resolve), conf)
    master = pipeline.spark.master or spark_master(pipeline.spark.connection, resolve)
    return SubmitEngine(master, local_jars(), conf)


def spark_master(connection_id: str, resolve: Resolve) -> str:
    """A Spark connection's master, as Airflow's spark-submit hook reads it."""
    connection = required(connection_id, resolve)
    host = connection.host or ""
    return f"{host}:{connection.port}" if connection.port else host


def local_jars() -> str:
    """The jars that ``make setup`` brought, for --jars; empty where Spark has its own."""
    folder = repository_root() / ".cache" / "jars" / "spark"
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))


def leftovers_below(include: Path, resolve: Resolve) -> tuple[list[dict[str, Any]], list[TidegateError]]:
    """What pipelines without a file have left in the Iceberg catalogs of an include folder; and what is not known."""
    kept = {name for name, _ in load_all(include)}
    found, failures = list[dict[str, Any]](), list[TidegateError]()
    for name, catalog in read_catalogs(include).items():
        try:
            if not isinstance(catalog, Catalog):
                raise ConfigurationError(f"catalog={name}: {catalog}")
            if catalog.type == "iceberg":
                found += leftovers(iceberg_catalogs([catalog], resolve), name, kept, failures)
        except ConfigurationError as error:
            failures.append(error)
    return found, failures
