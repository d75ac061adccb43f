"""Datasets by the names that lineage services know them by, their fields, and the sources of each field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit


class Transformation(StrEnum):
    """How a field is made of another, in OpenLineage's words; the last four only decide which rows there are."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    JOIN = "JOIN"
    FILTER = "FILTER"
    GROUP_BY = "GROUP_BY"
    SORT = "SORT"

    @property
    def is_direct(self) -> bool:
        return self in (Transformation.IDENTITY, Transformation.TRANSFORMATION, Transformation.AGGREGATION)


@dataclass(frozen=True)
class DatasetName:
    """A dataset's name by OpenLineage's naming rules; `table` is the name and namespace in its catalog."""

    namespace: str
    name: str
    table: tuple[str, str] | None = None  # namespace, name


@dataclass(frozen=True)
class DatasetField:
    """A field of a schema; `type` is None where unknown."""

    name: str
    type: str | None = None


@dataclass(frozen=True)
class FieldSource:
    """A field of another dataset that something is made of."""

    dataset: DatasetName
    field: str
    how: Transformation = Transformation.IDENTITY


@dataclass(frozen=True)
class Dataset:
    """A dataset that a task read or wrote. Only a written one has sources: of each field, and of its rows."""

    name: DatasetName
    fields: tuple[DatasetField, ...]
    sources: Mapping[str, tuple[FieldSource, ...]] = field(default_factory=dict)
    row_sources: tuple[FieldSource, ...] = ()


@dataclass(frozen=True)
class TaskLineage:
    """What one task read and wrote."""

    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()


@dataclass(frozen=True)
class Read:
    """A column that is read; `source` is a table's alias in the statement, or the record's."""

    source: str
    column: str
    how: Transformation = Transformation.IDENTITY


@dataclass(frozen=True)
class StatementReads:
    """What a statement reads: for each column of its answer, in order, and to choose, join and group rows."""

    columns: Mapping[str, tuple[Read, ...]] = field(default_factory=dict)
    rows: tuple[Read, ...] = ()


LOCAL_SCHEMES = ("", "file")
KEY_SCHEMES = ("s3", "gs", "abfss", "wasbs")  # what lies there has a key, which begins without a slash
SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
DEFAULT_BROKER_PORT = 9092


def name_broker_namespace(servers: str) -> str:
    """The namespace of topics: the first address of ``bootstrap.servers``."""
    server = servers.split(",", maxsplit=1)[0].strip().rpartition("://")[2]
    has_port = server.rpartition(":")[2].isdecimal() and not server.endswith("]")
    return f"kafka://{server}" if has_port else f"kafka://{server}:{DEFAULT_BROKER_PORT}"


def name_iceberg_table(location: str, catalog_uri: str, identifier: str) -> DatasetName:
    """By the location of its files, as OpenLineage's integration with Spark names it, and by its catalog."""
    parts = urlsplit(location)
    table = (name_catalog(catalog_uri), identifier)
    if parts.scheme in LOCAL_SCHEMES:
        return DatasetName("file", parts.path, table)
    scheme = SAME_SCHEMES.get(parts.scheme, parts.scheme)
    path = parts.path.lstrip("/") if scheme in KEY_SCHEMES else parts.path
    return DatasetName(f"{scheme}://{parts.netloc}", path, table)


def name_catalog(uri: str) -> str:
    """A catalog's address without login, options and driver."""
    parts = urlsplit(uri)
    if parts.scheme.startswith("sqlite"):
        return f"sqlite:{uri.partition(':')[2].partition('?')[0]}"
    return urlunsplit((parts.scheme.partition("+")[0], parts.netloc.rpartition("@")[2], parts.path, "", ""))
