"""Tables in catalogs of several types: a call goes to the port, or the engine, of the catalog that its table names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidegate.jobs.statements_job import StatementsJob
from tidegate.model.table_state import TableCommit
from tidegate.ports.destination import Destination
from tidegate.ports.session import Engine, Job, Sql


@dataclass(frozen=True)
class OpenedDestination:
    """The ports over catalogs of one type; `engines` and `dialects` by name of the catalogs that Spark does not run."""

    session: Destination
    engines: Mapping[str, Engine] = field(default_factory=dict)
    dialects: Mapping[str, Sql] = field(default_factory=dict)


class _CatalogLookup:
    """Any port over several catalogs: its methods' first argument is a table, a namespace, or a commit to one.

    The test of this module calls all methods of the five ports.
    """

    def __init__(self, session: Mapping[str, Any]) -> None:
        self._session = session

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(subject: str | TableCommit, *arguments: Any, **options: Any) -> Any:
            name = subject.table if isinstance(subject, TableCommit) else subject
            return getattr(self._session[_get_catalog(name)], method)(subject, *arguments, **options)

        return call


def _get_catalog(table: str) -> str:
    return table.split(".", 1)[0]


def route_by_catalog(by_catalog: Mapping[str, Destination]) -> Destination:
    """The ports of one destination over catalogs of several types."""
    destinations = list(by_catalog.values())
    if all(destination is destinations[0] for destination in destinations):
        return destinations[0]
    lookups: dict[str, Any] = {
        port.name: _CatalogLookup({name: getattr(destination, port.name) for name, destination in by_catalog.items()})
        for port in fields(Destination)
    }
    return Destination(**lookups)


class RoutedEngine:
    """Spark, but for the statements of tables whose catalog has an engine of its own."""

    def __init__(self, spark: Engine, by_catalog: Mapping[str, Engine]) -> None:
        self._spark = spark
        self._by_catalog = by_catalog

    def run(self, job: Job) -> None:
        table = job.table if isinstance(job, StatementsJob) else ""
        self._by_catalog.get(_get_catalog(table), self._spark).run(job)
