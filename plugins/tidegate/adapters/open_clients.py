"""Clients of catalogs that are open in this process, shared by pipelines that are looked at together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from tidegate.spec.pipeline import Catalog

Client = TypeVar("Client")


@dataclass(frozen=True)
class SentJob:
    """A job that an adapter named before it sent it, so that it is found again; `address` is a page about it."""

    catalog: Catalog = field(repr=False)  # says with which client to reach it
    project: str  # runs the job, and pays for it
    location: str  # the region, or empty
    job_id: str
    address: str

    def __str__(self) -> str:
        return f"{self.project}:{self.location}.{self.job_id}"


class Watcher(Protocol):
    """Hears of the named jobs of a task. `deferred_job_id`: the job for which the task was deferred, or empty.

    The methods with a body report to nobody, and wait for jobs where they were sent.
    """

    deferred_job_id: str = ""

    def report_sent(self, job: SentJob) -> None:
        """The job was sent, now or by an earlier call."""
        return

    def report_running(self, job: SentJob, seconds: float) -> None:
        """The job still runs after so many seconds; may raise to wait elsewhere: the job is found by its name."""
        return


class NoWatcher(Watcher):
    """For a process without tasks."""


class OpenClients:
    """One client per catalog name, made again when the catalog's settings, secrets included, change.

    `watcher` hears of the named jobs that clients run.
    """

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.watcher = watcher
        self._clients: dict[str, tuple[object, Any]] = {}  # a client is what its adapter makes

    def get_client(self, catalog: str, settings: object, make: Callable[[], Client]) -> Client:
        """Two threads that need the first client at once may each make one."""
        entry = self._clients.get(catalog)
        if entry is None or entry[0] != settings:
            entry = self._clients[catalog] = (settings, make())
        return cast("Client", entry[1])
