"""Opens a pipeline as a session: files and connections in, ready-to-use adapters out."""

import importlib
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tidegate.adapters.catalog_routing import OpenedDestination, RoutedEngine, route_by_catalog
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.settings import resolve_kafka_settings, to_java_settings
from tidegate.adapters.open_clients import OpenClients
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.entry_points import build_private_conf
from tidegate.adapters.spark.submit import SubmitEngine
from tidegate.adapters.spark.target import describe_spark_place, read_submit_target, resolve_spark_remote
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.destinations.registry import SPARK_DESTINATION, get_destination
from tidegate.config.pipeline_file import check_tables_of_others, load_all_pipelines, load_pipeline
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError, GiveUp, TidegateError
from tidegate.model.offsets import format_names
from tidegate.model.ownership import PipelineLeftovers
from tidegate.ports.broker import Broker
from tidegate.ports.session import Engine, Session
from tidegate.settings import describe_run, find_home_folder, find_jars_folder, format_path, list_named_files
from tidegate.spec.pipeline import Catalog, Pipeline
from tidegate.spec.runtime import SparkMode, SparkTarget


def build_hook(entry_point: str | None) -> Callable[..., Any] | None:
    """Return a function that loads the entry point at its first call; `ConfigurationError` then, if there is none."""
    if entry_point is None:
        return None

    def call(*arguments: Any) -> Any:
        return _load_entry_point(entry_point)(*arguments)

    return call


def _load_entry_point(entry_point: str) -> Callable[..., Any]:
    module, _, function = entry_point.partition(":")
    for folder in ("plugins", "dags"):
        path = str(find_home_folder() / folder)
        if path not in sys.path:
            sys.path.append(path)
    try:
        hook = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as fault:
        raise ConfigurationError(
            f"heartbeat.hook={entry_point}: {fault}; put the module into plugins/ or dags/, and name module:function"
        ) from fault
    if not callable(hook):
        raise ConfigurationError(f"heartbeat.hook={entry_point}: not a function; name one as module:function")
    hook_function: Callable[..., Any] = hook
    return hook_function


class NoEngine:
    """The port `Engine` without Spark."""

    def run(self, job: object) -> None:
        """Refuse: this session must not start a job."""
        raise GiveUp("the doctor and the page start no jobs")


def find_file(include: Path, kind: str, name: str) -> Path:
    """Return the file of a pipeline or a publication; `ConfigurationError` lists those there are."""
    folder = include / f"{kind}s"
    files = {path.stem: path for path in list_named_files(folder)}
    if name not in files:
        way_out = "write its file there, or set TIDEGATE_INCLUDE to the folder that has it"
        nothing = f"none in {format_path(folder)}; {way_out}"
        raise ConfigurationError(f"{kind}={name}: no such {kind}; there are: {format_names(files) or nothing}")
    return files[name]


def assemble_pipeline(
    include: Path,
    name: str,
    resolve: Resolve,
    engine: Engine | None = None,
    clients: OpenClients | None = None,
) -> Session:
    """Open one pipeline. Nothing is connected to before it is used.

    `engine` replaces the pipeline's own; `clients` are shared with other pipelines of this process.
    """
    pipeline = load_pipeline(find_file(include, "pipeline", name))
    broker = KafkaBroker.open(pipeline.source.kafka, resolve)
    spark = engine or build_engine(pipeline.spark, resolve, build_spark_conf(include, pipeline, resolve))
    parts = SharedParts(include=include, resolve=resolve, engine=spark, clients=clients or OpenClients())
    return assemble_loaded_pipeline(parts, pipeline, broker)


@dataclass(frozen=True, kw_only=True)
class SharedParts:
    """What pipelines that are assembled together share; `catalogs.yaml` is read once for all of them."""

    include: Path
    resolve: Resolve
    engine: Engine
    clients: OpenClients

    @cached_property
    def catalogs(self) -> Mapping[str, Catalog | str]:
        return read_catalogs(self.include)


def assemble_loaded_pipeline(parts: SharedParts, pipeline: Pipeline, broker: Broker) -> Session:
    catalogs = [require_catalog(parts.catalogs, name) for name in pipeline.catalogs]
    opened = dict[str, OpenedDestination]()
    for destination in {catalog.type: get_destination(catalog) for catalog in catalogs}.values():
        own_catalogs = [catalog for catalog in catalogs if catalog.type == destination.name]
        opened |= dict.fromkeys(
            (c.name for c in own_catalogs), destination.open(own_catalogs, pipeline, parts.resolve, parts.clients)
        )
    ports = route_by_catalog({name: destination.session for name, destination in opened.items()})
    engines = {name: engine for destination in opened.values() for name, engine in destination.engines.items()}
    open_heartbeat_broker = None
    if pipeline.heartbeat.kafka is not None:
        open_heartbeat_broker = partial(KafkaBroker.open, pipeline.heartbeat.kafka, parts.resolve)
    return Session(
        **vars(ports),
        pipeline=pipeline,
        broker=broker,
        engine=RoutedEngine(parts.engine, engines),
        sql=SqlFiles(SPARK_DESTINATION.name),
        now_ms=lambda: int(time.time() * 1000),
        new_attempt=lambda: uuid.uuid4().hex,
        run=describe_run(),
        schemas=RegistrySchemas(parts.resolve, parts.include),
        heartbeat_hook=build_hook(pipeline.heartbeat.hook),
        open_heartbeat_broker=open_heartbeat_broker,
        dialects={name: sql for destination in opened.values() for name, sql in destination.dialects.items()},
    )


def assemble_checked_pipeline(include: Path, name: str, resolve: Resolve) -> Session:
    """Open a pipeline for a command, and check every other file for tables that two of them need."""
    session = assemble_pipeline(include, name, resolve)
    check_tables_of_others(include, name)
    return session


def build_spark_conf(include: Path, pipeline: Pipeline, resolve: Resolve) -> dict[str, str]:
    """Return what a job's session needs. Never log it: it has secrets."""
    conf: dict[str, str] = dict(pipeline.spark.conf)
    catalogs = read_catalogs(include)
    for catalog in [require_catalog(catalogs, name) for name in pipeline.catalogs]:
        conf |= get_destination(catalog).build_spark_conf(catalog, resolve)
    return build_private_conf(conf, to_java_settings(resolve_kafka_settings(pipeline.source.kafka, resolve)))


def require_catalog(catalogs: Mapping[str, Catalog | str], name: str) -> Catalog:
    """`ConfigurationError` for one that `catalogs.yaml` does not declare, or not rightly."""
    catalog = catalogs.get(name)
    if not isinstance(catalog, Catalog):
        raise ConfigurationError(f"catalog={name}: {catalog or 'not declared in catalogs.yaml'}")
    return catalog


def build_engine(spark: SparkTarget, resolve: Resolve, conf: dict[str, str]) -> Engine:
    if spark.mode == SparkMode.CONNECT:
        return ConnectEngine(resolve_spark_remote(spark, resolve), conf, describe_spark_place(spark, resolve))
    return SubmitEngine(read_submit_target(spark, resolve), list_local_jars(), conf)


def list_local_jars() -> str:
    """Return the jars of ``make setup`` or ``tidegate jars``, for --jars; empty if Spark has its own."""
    return ",".join(str(jar) for jar in sorted(find_jars_folder().glob("*.jar")))


def find_all_leftovers(include: Path, resolve: Resolve) -> tuple[list[PipelineLeftovers], list[TidegateError]]:
    """Return what pipelines without a file have left in the catalogs of an include folder; and the errors."""
    pipeline_names = {name for name, _ in load_all_pipelines(include)}
    leftovers = list[PipelineLeftovers]()
    failures = list[TidegateError]()
    for name, catalog in read_catalogs(include).items():
        try:
            if not isinstance(catalog, Catalog):
                raise ConfigurationError(f"catalog={name}: {catalog}")
            catalog_leftovers, unreadable = get_destination(catalog).find_leftovers(catalog, resolve, pipeline_names)
        except ConfigurationError as error:
            failures.append(error)
        else:
            leftovers = leftovers + catalog_leftovers
            failures = failures + unreadable
    return leftovers, failures
