"""Puts the ports of one publication together: files and connections in, ready-to-use adapters out."""

import json
import time
import uuid
from pathlib import Path

from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.adapters.kafka.publication_topics import KafkaTopics
from tidegate.adapters.kafka.settings import java_settings, kafka_settings
from tidegate.adapters.schema_registry.client import registry_settings
from tidegate.adapters.spark.catalog_conf import catalog_properties, spark_catalog_conf
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.adapters.spark.entry_points import private_conf
from tidegate.adapters.spark.remote_address import spark_remote
from tidegate.adapters.spark.submit import SubmitEngine
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.publication_file import load_publication
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError
from tidegate.jobs.publish_job import PRODUCER_CONF, REGISTRY_CONF
from tidegate.ports.engine import Engine
from tidegate.ports.publication_ports import PublicationPorts
from tidegate.spec.catalog import Catalog
from tidegate.spec.publication import Publication
from tidegate.wiring.pipeline import file_of, iceberg_catalogs, local_jars, spark_master


def publication_path(include: Path, name: str) -> Path:
    """The file of the publication of that name; ConfigurationError names those there are."""
    return file_of(include, "publication", name)


def assemble_publication(include: Path, name: str, resolve: Resolve, engine: Engine | None = None) -> PublicationPorts:
    """The ports of a publication. Nothing is connected to before it is used. `engine` replaces the file's own."""
    publication = load_publication(publication_path(include, name))
    catalog = _catalog(include, publication)
    return PublicationPorts(
        publication=publication,
        topics=KafkaTopics(kafka_settings(publication.kafka, resolve)),
        snapshots=IcebergSnapshots(iceberg_catalogs([catalog], resolve)),
        engine=engine or _engine(publication, resolve, publication_conf(include, publication, resolve)),
        now_ms=lambda: int(time.time() * 1000),
        new_run=lambda: uuid.uuid4().hex,
    )


def publication_conf(include: Path, publication: Publication, resolve: Resolve) -> dict[str, str]:
    """What a job's session needs: `spark.conf`, the catalog, consumer and producer. Never log it: secrets."""
    catalog, kafka = _catalog(include, publication), kafka_settings(publication.kafka, resolve)
    conf = dict(publication.spark.conf) | spark_catalog_conf(catalog, catalog_properties(catalog, resolve))
    registries = {
        what: registry_settings(str(part.options["registry"]), resolve)
        for what, part in (("key", publication.key), ("value", publication.value))
        if part.format in ("avro", "protobuf") and not part.options.get("schema")
    }
    private = {PRODUCER_CONF: json.dumps(kafka), REGISTRY_CONF: json.dumps(registries)}
    return {**private_conf(conf, java_settings(kafka)), **private}


def _catalog(include: Path, publication: Publication) -> Catalog:
    catalog = read_catalogs(include).get(publication.catalog)
    if not isinstance(catalog, Catalog):
        raise ConfigurationError(f"catalog={publication.catalog}: {catalog or 'not declared in catalogs.yaml'}")
    return catalog


def _engine(publication: Publication, resolve: Resolve, conf: dict[str, str]) -> Engine:
    spark = publication.spark
    if spark.mode == "connect":
        return ConnectEngine(spark_remote(spark, resolve), conf)
    return SubmitEngine(spark.master or spark_master(spark.connection, resolve), local_jars(), conf)
