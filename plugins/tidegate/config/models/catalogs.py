"""The words of ``catalogs.yaml``: how a record's destination may be declared."""

from abc import ABC, abstractmethod
from typing import Any, Literal

from pydantic import Field

from tidegate.config.models.formats import StrictModel
from tidegate.config.models.settings import PropertyText


class CatalogModel(StrictModel, ABC):
    """What both types of catalog share."""

    connection: str | None = Field(default=None, min_length=1, description="Airflow connection that holds the secrets.")

    @abstractmethod
    def to_shared_properties(self) -> dict[str, Any]:
        """The properties under the names that the destination's client knows."""


class IcebergModel(CatalogModel):
    """PyIceberg's words; Spark's are derived from them."""

    type: Literal["iceberg"]
    properties: dict[str, PropertyText] = Field(default={}, description="PyIceberg's properties.")

    def to_shared_properties(self) -> dict[str, Any]:
        """PyIceberg's own names."""
        return dict(self.properties)


class BigQueryModel(CatalogModel):
    """A Google Cloud project and where load jobs find their files."""

    type: Literal["bigquery"]
    project: str
    location: str | None = None
    staging: str | None = None
    endpoint: str | None = None
    max_bytes_billed: int | None = Field(default=None, ge=1, description="The most that one publish may scan.")

    def to_shared_properties(self) -> dict[str, Any]:
        """What was given, under our names."""
        properties = self.model_dump(exclude={"type", "connection"})
        return {name: value for name, value in properties.items() if value is not None}


CATALOG_MODELS: dict[str, type[CatalogModel]] = {"iceberg": IcebergModel, "bigquery": BigQueryModel}
