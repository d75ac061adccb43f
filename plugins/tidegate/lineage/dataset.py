"""Datasets by the names that lineage services know them by, their fields, and what each field is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
        """Whether the field's value is made of the other's."""
        return self in (Transformation.IDENTITY, Transformation.TRANSFORMATION, Transformation.AGGREGATION)


@dataclass(frozen=True)
class DatasetName:
    """A dataset's name by OpenLineage's naming rules; `table` is the name and namespace that its catalog gives it."""

    namespace: str
    name: str
    table: tuple[str, str] | None = None  # namespace, name


@dataclass(frozen=True)
class DatasetField:
    """A field as a schema tells it; `type` is None where it is not known."""

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
    """A dataset that a task read or wrote. Only one that was written has sources: of each field, and of its rows."""

    name: DatasetName
    fields: tuple[DatasetField, ...]
    sources: Mapping[str, tuple[FieldSource, ...]] = field(default_factory=dict)
    row_sources: tuple[FieldSource, ...] = ()


@dataclass(frozen=True)
class TaskLineage:
    """What one task has read, and what it has written of it."""

    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
