"""A probe for each broker, registry and catalog that the chosen files name."""

import json
import time
import uuid
from collections.abc import Iterator
from functools import partial

from tidegate.adapters.kafka.probes.cluster import Cluster
from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings
from tidegate.adapters.schema_registry.client import resolve_registry_settings
from tidegate.adapters.schema_registry.probe import check_registry
from tidegate.config.destinations.registry import get_destination
from tidegate.diagnosis.destinations import CatalogNeed, NamespaceNeed
from tidegate.diagnosis.finding import Finding, from_error
from tidegate.diagnosis.probes import Probe
from tidegate.errors import ConfigurationError
from tidegate.wiring.diagnosis.subjects import Subjects
from tidegate.wiring.diagnosis.topics import check_topics, list_needs

SCRATCH_PREFIX = "tidegate_doctor_"
BLOCKING_KAFKA = ("kafka.settings", "kafka.reachable", "kafka.login", "kafka.brokers")
BLOCKING_REGISTRY = ("registry.reachable", "registry.login")
BLOCKING_CATALOG = ("catalog.reachable", "catalog.login")


def name_kafka_probe(kafka: str | dict[str, str]) -> str:
    """The probe's name: the connection's, or for settings of a file the brokers."""
    return f"Kafka connection={kafka}" if isinstance(kafka, str) else f"Kafka {json.dumps(kafka, sort_keys=True)}"


def name_registry_probe(place: str) -> str:
    """The probe's name."""
    return f"schema registry={place}"


def name_catalog_probe(catalog: str) -> str:
    """The probe's name."""
    return f"catalog={catalog}"


def list_server_probes(subjects: Subjects, *, is_read_only: bool) -> list[Probe]:
    """One probe for each server, whoever and however many need it. Those whose connection is missing have none."""
    return [
        *_list_kafka_probes(subjects),
        *_list_registry_probes(subjects),
        *_list_catalog_probes(subjects, is_read_only),
    ]


def _list_kafka_probes(subjects: Subjects) -> list[Probe]:
    users: dict[str, tuple[str | dict[str, str], tuple[str, ...]]] = {}
    for name, kafka in subjects.list_kafka():
        key = name_kafka_probe(kafka)
        users[key] = kafka, (*users.get(key, (kafka, ()))[1], name)
    return [
        Probe(
            name=key,
            check="kafka.reachable",
            run=partial(_check_kafka, subjects, kafka, names),
            used_by=names,
            blocks=BLOCKING_KAFKA,
            blocks_users=("kafka.topics", "kafka.publications"),
        )
        for key, (kafka, names) in users.items()
        if not isinstance(kafka, str) or subjects.is_defined(kafka)
    ]


def _check_kafka(subjects: Subjects, kafka: str | dict[str, str], names: tuple[str, ...]) -> Iterator[Finding]:
    try:
        settings = resolve_kafka_settings(kafka, subjects.resolve)
    except ConfigurationError as error:
        yield from_error("kafka.settings", error)
        return
    cluster = Cluster(settings, describe_kafka_place(kafka))
    yield from cluster.check()
    if cluster.is_usable:
        now_ms = int(time.time() * 1000)
        yield from check_topics(cluster, list_needs(subjects, names), settings, now_ms)


def _list_registry_probes(subjects: Subjects) -> list[Probe]:
    return [
        Probe(
            name=name_registry_probe(place),
            check="registry.reachable",
            run=partial(_check_registry, subjects, place),
            used_by=names,
            blocks=BLOCKING_REGISTRY,
        )
        for place, names in subjects.list_registries().items()
        if "://" in place or subjects.is_defined(place)
    ]


def _check_registry(subjects: Subjects, place: str) -> Iterator[Finding]:
    try:
        settings = resolve_registry_settings(place, subjects.resolve)
    except ConfigurationError as error:
        yield from_error("registry.reachable", error)
        return
    subjects.mask.add_settings(settings)
    yield from check_registry(place, settings)


def _list_catalog_probes(subjects: Subjects, is_read_only: bool) -> list[Probe]:
    probes = []
    for use, names in subjects.list_catalogs().items():
        if use.connection and not subjects.is_defined(use.connection):
            continue
        catalog = subjects.catalogs[use.name]
        # a name of its own for each: two catalogs may share a warehouse
        scratch = None if is_read_only else SCRATCH_PREFIX + uuid.uuid4().hex[:8]
        need = CatalogNeed(_list_namespaces(subjects, use.name), scratch)
        probes.append(
            Probe(
                name=name_catalog_probe(use.name),
                check="catalog.reachable",
                run=partial(get_destination(catalog).probe, catalog, subjects.resolve, need),
                used_by=names,
                blocks=BLOCKING_CATALOG,
            )
        )
    return probes


def _list_namespaces(subjects: Subjects, catalog: str) -> tuple[NamespaceNeed, ...]:
    """Namespaces that are written; those that records name are listed in `namespaces`, or not known here."""
    namespaces: dict[str, bool] = {}
    users: dict[str, list[str]] = {}
    for pipeline in subjects.pipelines.values():
        for table in pipeline.entries:
            namespace = table.identifier.rpartition(".")[0]
            names = table.namespaces if "{" in namespace else (namespace,)
            for name in names if table.catalog == catalog else ():
                namespaces[name] = namespaces.get(name, False) or table.create.enabled
                users.setdefault(name, []).append(pipeline.name)
    return tuple(
        NamespaceNeed(name, may_create, tuple(dict.fromkeys(users[name]))) for name, may_create in namespaces.items()
    )
