"""Clients of catalogs that are open in this process, so that pipelines which are looked at together share them."""

from collections.abc import Callable
from typing import Any, Protocol

from tidegate.spec.catalog import Catalog


class SentJob(Protocol):
    """A job that an adapter has named before it sent it, in the project and the location where it runs."""

    @property
    def catalog(self) -> Catalog:
        """Which says how to get there."""
        ...

    @property
    def project(self) -> str:
        """Where it runs, and is paid for."""
        ...

    @property
    def location(self) -> str:
        """The region, empty where there is none."""
        ...

    @property
    def job_id(self) -> str:
        """Its name, by which it is found again."""
        ...

    @property
    def address(self) -> str:
        """Where people look at it."""
        ...


class OpenClients:
    """One client for each catalog's name, made again when the catalog's settings, secrets included, have changed.

    `watcher` is told of the named jobs that a client runs, where it runs some.
    """

    def __init__(self, watcher: Any = None) -> None:
        self.watcher = watcher
        self._clients: dict[str, tuple[Any, Any]] = {}

    def client(self, catalog: str, settings: Any, make: Callable[[], Any]) -> Any:
        """The catalog's client for these settings. Two threads that need the first one at once may each make one."""
        entry = self._clients.get(catalog)
        if entry is None or entry[0] != settings:
            entry = self._clients[catalog] = (settings, make())
        return entry[1]
