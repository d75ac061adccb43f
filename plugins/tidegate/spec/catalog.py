"""A catalog that holds destination tables."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Catalog:
    """One entry of ``catalogs.yaml``. `properties` are PyIceberg's words for an Iceberg catalog."""

    name: str
    type: str
    properties: dict[str, Any] = field(default_factory=dict)
    connection: str | None = None
