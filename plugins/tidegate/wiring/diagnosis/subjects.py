"""What is looked at: the chosen files that can be read, and the servers that they name."""

from dataclasses import dataclass, field
from pathlib import Path

from tidegate.adapters.schema_registry.schema_provider import REGISTRY_OPTION
from tidegate.adapters.spark.remote_address import describe_spark_place
from tidegate.connections import Connection, Resolve
from tidegate.diagnosis.finding import SecretMask
from tidegate.errors import ConfigurationError
from tidegate.formats.record_format import SchemaKind
from tidegate.formats.registry import get_format
from tidegate.spec.catalog import Catalog
from tidegate.spec.formats import KeyFormat, ValueFormat
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.publication import KeyOut, Publication, ValueOut
from tidegate.spec.runtime import SparkMode, SparkTarget

DEFAULT_REGISTRY = "schema_registry_default"
FIXED_SCHEMA_OPTIONS = ("schema", "descriptor")
Part = KeyFormat | ValueFormat | KeyOut | ValueOut


@dataclass
class Subjects:
    """Files that can be read. `resolve` finds a connection, and notes its secrets in `mask`."""

    include: Path
    resolve: Resolve
    mask: SecretMask
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    publications: dict[str, Publication] = field(default_factory=dict)
    catalogs: dict[str, Catalog] = field(default_factory=dict)

    def list_connections(self) -> dict[str, tuple[str, ...]]:
        """Each connection that the files need, with those who name it. That of Spark may be `SPARK_REMOTE` instead."""
        users: dict[str, dict[str, None]] = {}
        for name, kafka in self.list_kafka():
            if isinstance(kafka, str):
                users.setdefault(kafka, {})[name] = None
        for place, names in self.list_registries().items():
            if "://" not in place:
                users.setdefault(place, {}).update(dict.fromkeys(names))
        for catalog, names in self.list_catalogs().items():
            if catalog.connection:
                users.setdefault(catalog.connection, {}).update(dict.fromkeys(names))
        for target, names in self.list_spark().values():
            if target.mode is SparkMode.SUBMIT and target.master is None:
                users.setdefault(target.connection, {}).update(dict.fromkeys(names))
        return {connection: tuple(names) for connection, names in users.items()}

    def list_kafka(self) -> list[tuple[str, str | dict[str, str]]]:
        """Who reads or writes topics, and over which connection or inline settings."""
        read = [(name, pipeline.source.kafka) for name, pipeline in self.pipelines.items()]
        return [*read, *((name, publication.kafka) for name, publication in self.publications.items())]

    def list_registries(self) -> dict[str, tuple[str, ...]]:
        """Addresses or connections of schema registries, with those who need them."""
        users: dict[str, dict[str, None]] = {}
        parts = [(name, part) for name, pipeline in self.pipelines.items() for part in list_parts(pipeline)]
        parts += [
            (name, part)
            for name, publication in self.publications.items()
            for part in (publication.key, publication.value)
        ]
        for name, part in parts:
            if needs_registry(part):
                users.setdefault(str(part.options.get(REGISTRY_OPTION, DEFAULT_REGISTRY)), {})[name] = None
        return {place: tuple(names) for place, names in users.items()}

    def list_catalogs(self) -> "dict[CatalogUse, tuple[str, ...]]":
        """Declared catalogs, with those who need them."""
        users: dict[str, dict[str, None]] = {}
        for name, pipeline in self.pipelines.items():
            for catalog in pipeline.catalogs:
                users.setdefault(catalog, {})[name] = None
        for name, publication in self.publications.items():
            users.setdefault(publication.catalog, {})[name] = None
        return {
            CatalogUse(key, self.catalogs[key].connection): tuple(names)
            for key, names in users.items()
            if key in self.catalogs
        }

    def list_spark(self) -> dict[str, tuple[SparkTarget, tuple[str, ...]]]:
        """Places where jobs run, with a target for each and those who use it."""
        targets: dict[str, tuple[SparkTarget, tuple[str, ...]]] = {}
        for name, spark_target in self.list_targets():
            address = next(
                (f"{n}={v}" for n, v in (("remote", spark_target.remote), ("master", spark_target.master)) if v), None
            )
            key = address or f"connection={spark_target.connection} mode={spark_target.mode}"
            target, names = targets.get(key, (spark_target, ()))
            targets[key] = target, (*names, name)
        return targets

    def list_targets(self) -> list[tuple[str, SparkTarget]]:
        """Whose jobs run where."""
        pipeline_targets = [(name, pipeline.spark) for name, pipeline in self.pipelines.items()]
        return [*pipeline_targets, *((name, publication.spark) for name, publication in self.publications.items())]

    def is_defined(self, connection: str) -> bool:
        """Whether the connection is here and can be read; if not, `files.connections` tells so."""
        try:
            return self.resolve(connection) is not None
        except ConfigurationError:
            return False

    def has_connections(self, name: str) -> bool:
        """Whether each connection that a pipeline or publication needs is here."""
        return all(
            self.is_defined(connection) for connection, users in self.list_connections().items() if name in users
        )

    def describe_spark(self, target: SparkTarget) -> str:
        """Where Spark's address stands; the connection where it cannot be read."""
        try:
            return describe_spark_place(target, self.resolve)
        except ConfigurationError:
            return f"connection={target.connection}"


@dataclass(frozen=True)
class CatalogUse:
    """A catalog by its name, and the connection that its login comes from."""

    name: str
    connection: str | None


def list_parts(pipeline: Pipeline) -> list[Part]:
    """Keys and values of a pipeline's tables."""
    return [part for table in pipeline.entries for part in (table.key, table.value)]


def needs_registry(part: Part) -> bool:
    """Whether a registry is asked for the schema of these keys or values."""
    if any(part.options.get(name) for name in FIXED_SCHEMA_OPTIONS):
        return False
    return get_format(part.format).schema is not None or REGISTRY_OPTION in part.options


def uses_avro(pipeline: Pipeline) -> bool:
    """Whether a pipeline's jobs decode Avro."""
    return any(get_format(part.format).schema is SchemaKind.AVRO for part in list_parts(pipeline))


def build_masking_resolve(resolve: Resolve, mask: SecretMask) -> Resolve:
    """`resolve`, which notes the secrets of what it finds."""

    def find(conn_id: str) -> Connection | None:
        connection = resolve(conn_id)
        if connection is not None:
            mask.add_value(connection.password)
            mask.add_settings(connection.extra)
        return connection

    return find
