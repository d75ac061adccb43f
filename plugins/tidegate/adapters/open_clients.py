"""Clients of catalogs that are open in this process, so that pipelines which are looked at together share them."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from tidegate.spec.pipeline import Catalog

Client = TypeVar("Client")


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


class Watcher(Protocol):
    """Hears of the named jobs of a task.

    `deferred_job_id`: the job for which the task was deferred, empty if it was not.
    """

    deferred_job_id: str

    def report_sent(self, job: SentJob) -> None:
        """A job was sent, or found where an earlier call had sent it."""
        ...

    def report_running(self, job: SentJob, seconds: float) -> None:
        """It has been waited for so long and runs still; may raise, to wait elsewhere: the job is found by its name."""
        ...


class NoWatcher:
    """Nobody is told, and jobs are waited for where they were sent."""

    deferred_job_id = ""

    def report_sent(self, job: SentJob) -> None:
        return

    def report_running(self, job: SentJob, seconds: float) -> None:
        return


class OpenClients:
    """One client for each catalog's name, made again when the catalog's settings, secrets included, have changed.

    `watcher` is called for the named jobs that a client runs, if it runs some.
    """

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.watcher = watcher
        self._clients: dict[str, tuple[object, Any]] = {}  # a client is what its adapter makes

    def get_client(self, catalog: str, settings: object, make: Callable[[], Client]) -> Client:
        """The catalog's client for these settings. Two threads that need the first one at once may each make one."""
        entry = self._clients.get(catalog)
        if entry is None or entry[0] != settings:
            entry = self._clients[catalog] = (settings, make())
        return cast("Client", entry[1])
