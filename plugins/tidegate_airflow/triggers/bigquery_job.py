"""Waits, in the triggerer, for a BigQuery job that a task has sent: Google's trigger, and our way to the job."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.google.cloud.hooks.bigquery import BigQueryAsyncHook
from airflow.providers.google.cloud.triggers.bigquery import BigQueryInsertJobTrigger
from airflow.triggers.base import TriggerEvent
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.login import DEFAULT_CONNECTION
from tidegate.spec.pipeline import Catalog

from tidegate_airflow.connections import resolve_connection

POLL_SECONDS = 4.0  # between two looks; Google's own default
# A task that is woken before the scheduler has heard that it was put aside is taken for one that was lost, and retried.
FIRST_POLL_SECONDS = 10.0


class JobTrigger(BigQueryInsertJobTrigger):
    """Fires when the job has ended, well or not: the task reads the rest itself.

    Connects as the worker does. Never cancels the job: a publish finds it again by its name.
    """

    def __init__(self, catalog: dict[str, Any], project_id: str, location: str, job_id: str) -> None:
        super().__init__(
            conn_id=catalog["connection"] or DEFAULT_CONNECTION,
            job_id=job_id,
            project_id=project_id,
            location=location or None,
            poll_interval=POLL_SECONDS,
            cancel_on_kill=False,
        )
        self.catalog = catalog

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return how the triggerer makes it again; a catalog holds no secret."""
        job_reference = {"project_id": self.project_id, "location": self.location or "", "job_id": self.job_id}
        return f"{__name__}.{type(self).__name__}", {"catalog": self.catalog, **job_reference}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(FIRST_POLL_SECONDS)
        async for event in super().run():
            yield event

    def _get_async_hook(self) -> BigQueryAsyncHook:
        return CatalogHook(self.conn_id, Warehouse(Catalog(**self.catalog), resolve_connection), self.location)


class CatalogHook(BigQueryAsyncHook):
    """Google's hook, which finds a job through a catalog's own client, and at the location where it was sent."""

    def __init__(self, connection: str, warehouse: Warehouse, location: str | None) -> None:
        super().__init__(gcp_conn_id=connection)
        self._warehouse = warehouse
        self._location = location

    async def _get_job(self, job_id: str | None, project_id: str = "", location: str | None = None) -> Any:
        return await asyncio.to_thread(self._warehouse.read_job, job_id or "", self._location)
