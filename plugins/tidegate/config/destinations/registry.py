"""All types of destination. A new one is registered here, and nowhere else."""

from collections.abc import Callable

from tidegate.config.destinations.bigquery import BIGQUERY
from tidegate.config.destinations.destination import DestinationType
from tidegate.config.destinations.iceberg import ICEBERG
from tidegate.spec.pipeline import Catalog

SPARK_DESTINATION = ICEBERG  # the one whose statements Spark runs
DESTINATIONS = {destination.name: destination for destination in (SPARK_DESTINATION, BIGQUERY)}


def get_destination(catalog: Catalog | str | None) -> DestinationType:
    """For a catalog with a wrong declaration, or none, Spark's own type."""
    return DESTINATIONS[catalog.type] if isinstance(catalog, Catalog) else SPARK_DESTINATION


def list_titles(can: Callable[[DestinationType], bool]) -> str:
    return " or ".join(destination.title for destination in DESTINATIONS.values() if can(destination))
