"""Opens a publication as a session: files and connections in, ready-to-use adapters out."""

import json
import time
import uuid
from pathlib import Path

from tidegate.adapters.kafka.publication_topics import KafkaTopics
from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings, to_java_settings
from tidegate.adapters.schema_registry.client import resolve_registry_settings
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.entry_points import build_private_conf
from tidegate.adapters.spark.remote_address import describe_spark_place, resolve_spark_remote
from tidegate.adapters.spark.submit import SubmitEngine
from tidegate.adapters.spark.submit_target import read_submit_target
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.destinations.registry import get_destination
from tidegate.config.publication_file import check_topics_of_others, load_publication
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import get_format
from tidegate.jobs.publish_job import PRODUCER_CONF, REGISTRY_CONF
from tidegate.ports.publication_session import PublicationSession, Snapshots
from tidegate.ports.session import Engine
from tidegate.spec.pipeline import Catalog
from tidegate.spec.publication import Publication
from tidegate.spec.runtime import SparkMode
from tidegate.wiring.pipeline import find_file, list_local_jars


def find_publication_file(include: Path, name: str) -> Path:
    return find_file(include, "publication", name)


def assemble_publication(
    include: Path, name: str, resolve: Resolve, engine: Engine | None = None
) -> PublicationSession:
    """Open one publication. Nothing is connected to before it is used. `engine` replaces the file's own."""
    return assemble_loaded_publication(include, load_publication(find_publication_file(include, name)), resolve, engine)


def assemble_loaded_publication(
    include: Path, publication: Publication, resolve: Resolve, engine: Engine | None = None
) -> PublicationSession:
    catalog = _select_catalog(include, publication)
    return PublicationSession(
        publication=publication,
        topics=KafkaTopics(resolve_kafka_settings(publication.kafka, resolve), describe_kafka_place(publication.kafka)),
        snapshots=_open_snapshots(catalog, resolve),
        engine=engine or _build_engine(publication, resolve, build_publication_conf(include, publication, resolve)),
        now_ms=lambda: int(time.time() * 1000),
        new_run=lambda: uuid.uuid4().hex,
    )


def assemble_checked_publication(
    include: Path, name: str, resolve: Resolve, engine: Engine | None = None
) -> PublicationSession:
    """Open a publication, and check every other file for topics that two of them name."""
    session = assemble_publication(include, name, resolve, engine)
    check_topics_of_others(include, name)
    return session


def _open_snapshots(catalog: Catalog, resolve: Resolve) -> Snapshots:
    destination = get_destination(catalog)
    if destination.open_snapshots is None:
        raise ConfigurationError(f"catalog={catalog.name}: a {destination.title} table cannot be published")
    return destination.open_snapshots(catalog, resolve)


def build_publication_conf(include: Path, publication: Publication, resolve: Resolve) -> dict[str, str]:
    """Return what a job's session needs. Never log it: it has secrets."""
    catalog = _select_catalog(include, publication)
    kafka = resolve_kafka_settings(publication.kafka, resolve)
    conf = dict(publication.spark.conf) | get_destination(catalog).build_spark_conf(catalog, resolve)
    registries = {
        part_name: resolve_registry_settings(str(part.options["registry"]), resolve)
        for part_name, part in (("key", publication.key), ("value", publication.value))
        if get_format(part.format).schema is not None and not part.options.get("schema")
    }
    private = {PRODUCER_CONF: json.dumps(kafka), REGISTRY_CONF: json.dumps(registries)}
    return {**build_private_conf(conf, to_java_settings(kafka)), **private}


def _select_catalog(include: Path, publication: Publication) -> Catalog:
    catalog = read_catalogs(include).get(publication.catalog)
    if not isinstance(catalog, Catalog):
        raise ConfigurationError(f"catalog={publication.catalog}: {catalog or 'not declared in catalogs.yaml'}")
    return catalog


def _build_engine(publication: Publication, resolve: Resolve, conf: dict[str, str]) -> Engine:
    spark = publication.spark
    if spark.mode == SparkMode.CONNECT:
        return ConnectEngine(resolve_spark_remote(spark, resolve), conf, describe_spark_place(spark, resolve))
    return SubmitEngine(read_submit_target(spark, resolve), list_local_jars(), conf)
