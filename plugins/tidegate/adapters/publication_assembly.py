"""Puts the ports of one publication together: files and connections in, ready-to-use adapters out."""

import json
import time
import uuid
from pathlib import Path

from tidegate.adapters.assembly import file_of, iceberg_catalogs, local_jars, spark_master
from tidegate.adapters.catalogs_file import read_catalogs
from tidegate.adapters.connections import Resolve
from tidegate.adapters.iceberg_snapshots import IcebergSnapshots
from tidegate.adapters.kafka_publications import KafkaTopics
from tidegate.adapters.kafka_settings import java_settings, kafka_settings
from tidegate.adapters.publication_file import load_publication
from tidegate.adapters.registry import registry_settings
from tidegate.adapters.spark_catalogs import catalog_properties, spark_catalog_conf
from tidegate.adapters.spark_connect import ConnectEngine
from tidegate.adapters.spark_jobs import private_conf
from tidegate.adapters.spark_place import spark_remote
from tidegate.adapters.spark_submit import SubmitEngine
from tidegate.errors import ConfigurationError
from tidegate.pipeline import Catalog
from tidegate.ports import Engine
from tidegate.publications.job import PRODUCER_CONF, REGISTRY_CONF
from tidegate.publications.ports import PublicationPorts
from tidegate.publications.publication import Publication


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
