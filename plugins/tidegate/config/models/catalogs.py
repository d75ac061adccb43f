"""The words of ``catalogs.yaml`` that every type of destination shares."""

from abc import ABC, abstractmethod
from typing import Any

from pydantic import Field

from tidegate.config.models.formats import StrictModel


class CatalogModel(StrictModel, ABC):
    """What all types of catalog share."""

    connection: str | None = Field(default=None, min_length=1, description="Airflow connection that holds the secrets.")

    @abstractmethod
    def to_shared_properties(self) -> dict[str, Any]:
        """The properties under the names that the destination's client knows."""
