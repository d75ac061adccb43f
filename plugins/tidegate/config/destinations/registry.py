"""The types of destination that there are. A new one is registered here, and nowhere else."""

from collections.abc import Callable

from tidegate.config.destinations.bigquery import BIGQUERY
from tidegate.config.destinations.destination import DestinationType
from tidegate.config.destinations.iceberg import ICEBERG
from tidegate.spec.pipeline import Catalog

SPARK_DESTINATION = ICEBERG  # the one whose statements Spark runs
DESTINATIONS = {destination.name: destination for destination in (SPARK_DESTINATION, BIGQUERY)}


def get_destination(catalog: Catalog | str | None) -> DestinationType:
    """What a catalog's tables can do: those of a catalog that is declared wrongly, or not at all, as Spark's can."""
    return DESTINATIONS[catalog.type] if isinstance(catalog, Catalog) else SPARK_DESTINATION


def list_titles(can: Callable[[DestinationType], bool]) -> str:
    """The names of the types that can do something, for a message."""
    return " or ".join(destination.title for destination in DESTINATIONS.values() if can(destination))
