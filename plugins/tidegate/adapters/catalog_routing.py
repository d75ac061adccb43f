"""Sends what a step asks of a table to the destination, and the engine, of that table's catalog."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from tidegate.jobs.job import Job
from tidegate.jobs.merge_job import MergeJob
from tidegate.model.table_state import Publication
from tidegate.ports.destination import Destination
from tidegate.ports.engine import Engine


class _RoutedDestination:
    """Every verb of the port names its table first, or in the publication that it is given."""

    def __init__(self, by_catalog: Mapping[str, Destination]) -> None:
        self._by_catalog = by_catalog

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(first: str | Publication, *rest: Any, **named: Any) -> Any:
            table = first.table if isinstance(first, Publication) else first
            return getattr(self._by_catalog[table.split(".", 1)[0]], verb)(first, *rest, **named)

        return call


def route_by_catalog(by_catalog: Mapping[str, Destination]) -> Destination:
    """One destination over catalogs of several types."""
    kinds = list(by_catalog.values())
    if all(kind is kinds[0] for kind in kinds):
        return kinds[0]
    return cast("Destination", _RoutedDestination(by_catalog))


class RoutedEngine:
    """Spark, but for the statements of tables whose catalog has an engine of its own."""

    def __init__(self, spark: Engine, by_catalog: Mapping[str, Engine]) -> None:
        self._spark, self._by_catalog = spark, by_catalog

    def run(self, job: Job) -> None:
        """Run one job to its end."""
        table = job.table if isinstance(job, MergeJob) else ""
        self._by_catalog.get(table.split(".", 1)[0], self._spark).run(job)
