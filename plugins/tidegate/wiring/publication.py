"""Opens a publication as a session: files and connections in, ready-to-use adapters out."""

import json
import time
import uuid
from pathlib import Path

from tidegate.adapters.kafka.publication_topics import KafkaTopics
from tidegate.adapters.kafka.settings import resolve_kafka_settings, to_java_settings
from tidegate.adapters.schema_registry.client import resolve_registry_settings
from tidegate.adapters.spark.entry_points import build_private_conf
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.destinations.registry import get_destination
from tidegate.config.publication_file import check_topics_of_others, load_publication
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import get_format
from tidegate.jobs.publish_job import PRODUCER_CONF, REGISTRY_CONF
from tidegate.ports.publication_session import PublicationSession
from tidegate.ports.session import Engine
from tidegate.spec.publication import Publication
from tidegate.wiring.pipeline import build_engine, find_file, require_catalog


def assemble_publication(
    include: Path, name: str, resolve: Resolve, engine: Engine | None = None
) -> PublicationSession:
    """Open one publication. Nothing is connected to before it is used. `engine` replaces the file's own."""
    publication = load_publication(find_file(include, "publication", name))
    return assemble_loaded_publication(include, publication, resolve, engine)


def assemble_loaded_publication(
    include: Path, publication: Publication, resolve: Resolve, engine: Engine | None = None
) -> PublicationSession:
    catalog = require_catalog(read_catalogs(include), publication.catalog)
    destination = get_destination(catalog)
    if destination.open_snapshots is None:
        raise ConfigurationError(f"catalog={catalog.name}: a {destination.title} table cannot be published")
    if engine is None:
        engine = build_engine(publication.spark, resolve, build_publication_conf(include, publication, resolve))
    return PublicationSession(
        publication=publication,
        topics=KafkaTopics.open(publication.kafka, resolve),
        snapshots=destination.open_snapshots(catalog, resolve),
        engine=engine,
        now_ms=lambda: int(time.time() * 1000),
        new_run=lambda: uuid.uuid4().hex,
    )


def assemble_checked_publication(include: Path, name: str, resolve: Resolve) -> PublicationSession:
    """Open a publication, and check every other file for topics that two of them name."""
    session = assemble_publication(include, name, resolve)
    check_topics_of_others(include, name)
    return session


def build_publication_conf(include: Path, publication: Publication, resolve: Resolve) -> dict[str, str]:
    """Return what a job's session needs. Never log it: it has secrets."""
    catalog = require_catalog(read_catalogs(include), publication.catalog)
    kafka = resolve_kafka_settings(publication.kafka, resolve)
    conf = dict(publication.spark.conf) | get_destination(catalog).build_spark_conf(catalog, resolve)
    registries = {
        part_name: resolve_registry_settings(str(part.options["registry"]), resolve)
        for part_name, part in (("key", publication.key), ("value", publication.value))
        if get_format(part.format).schema is not None and not part.options.get("schema")
    }
    private = {PRODUCER_CONF: json.dumps(kafka), REGISTRY_CONF: json.dumps(registries)}
    return {**build_private_conf(conf, to_java_settings(kafka)), **private}
