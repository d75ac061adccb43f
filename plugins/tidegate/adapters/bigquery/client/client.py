"""The client of one BigQuery project: named jobs, tables, and a time limit for each request."""

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from tidegate.adapters.bigquery.client.credentials import build_credentials
from tidegate.adapters.bigquery.client.errors import JobFailed, translate_client_errors, translate_job_error
from tidegate.adapters.bigquery.client.named_jobs import NamedJob, find_newest_number, iterate_pauses
from tidegate.adapters.bigquery.client.staging_files import Folder, open_folder
from tidegate.adapters.open_clients import NoWatcher, Watcher
from tidegate.adapters.server_probe import Server, require_server
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError, GiveUp, OutcomeUnknown
from tidegate.failpoints import hit_failpoint
from tidegate.spec.catalog import Catalog

CALL_TIMEOUT_SECONDS = 60  # one request; the client's own default is none at all
SERVICE_URL = "https://bigquery.googleapis.com"
MULTI_REGIONS = ("US", "EU")  # where BigQuery looks for a job if no location is named
RETRY_TIMEOUT_SECONDS = 120  # how long a request is repeated; the client's own default is ten minutes
LISTED_TABLES_PER_PAGE = 1000  # of one request; BigQuery's own default is 50
SENT_JOB_TIMEOUT_SECONDS = 60  # how long a job is asked for whose name is taken; the client itself does so for 200 s


class Warehouse:
    """The BigQuery project of one catalog. Google's client is created at its first use: its import takes seconds."""

    def __init__(
        self, catalog: Catalog, resolve: Resolve, watcher: Watcher | None = None, pipeline: str | None = None
    ) -> None:
        self._catalog = catalog
        self._resolve = resolve
        self._watcher = watcher or NoWatcher()
        self._labels = {"tidegate_pipeline": pipeline} if pipeline else {}
        self._regions = set[str]()  # where tables were seen to lie, if the catalog does not say where

    @property
    def project(self) -> str:
        """The project that the tables lie in."""
        return str(self._catalog.properties["project"])

    @property
    def max_bytes_billed(self) -> int | None:
        """The most that one query may read, None for as much as it takes."""
        limit = self._catalog.properties.get("max_bytes_billed")
        return None if limit is None else int(limit)

    @cached_property
    def client(self) -> Any:
        """Google's client."""
        from google.cloud import bigquery

        endpoint = self._catalog.properties.get("endpoint")
        connection = self._catalog.connection
        place = f"connection={connection}" if connection else "of catalogs.yaml"
        require_server(Server.from_uri(f"BigQuery catalog={self._catalog.name}", place, str(endpoint or SERVICE_URL)))
        return bigquery.Client(
            project=self.project,
            credentials=build_credentials(self._catalog, self._resolve),
            location=self._catalog.properties.get("location"),
            client_options={"api_endpoint": endpoint} if endpoint else None,
        )

    @cached_property
    def folder(self) -> Folder:
        """Where load jobs find their files."""
        staging = self._catalog.properties.get("staging")
        if not staging:
            raise ConfigurationError(
                f"catalog={self._catalog.name}: staging is missing; give gs://bucket/prefix, or file:///folder that "
                "Spark and the workers share"
            )
        return open_folder(str(staging), lambda: build_credentials(self._catalog, self._resolve), self.project)

    @cached_property
    def _limits(self) -> dict[str, Any]:
        from google.cloud.bigquery.retry import DEFAULT_RETRY

        return {"retry": DEFAULT_RETRY.with_timeout(RETRY_TIMEOUT_SECONDS), "timeout": CALL_TIMEOUT_SECONDS}

    def to_reference(self, name: str) -> str:
        """``project.dataset.table`` of ``catalog.dataset.table``."""
        return f"{self.project}.{name.split('.', 1)[1]}"

    def find_table(self, name: str) -> Any:
        """A fresh look at a table's metadata; None where there is none."""
        from google.api_core.exceptions import NotFound

        with translate_client_errors(f"table={name}"):
            try:
                table = self.client.get_table(self.to_reference(name), **self._limits)
            except NotFound:
                return None
        if table.location not in (None, *MULTI_REGIONS) and "location" not in self._catalog.properties:
            self._regions.add(table.location)
        return table

    def require_table(self, name: str) -> Any:
        """The same; `GiveUp` where there is none."""
        table = self.find_table(name)
        if table is None:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans anew")
        return table

    def has_dataset(self, reference: str) -> bool:
        """Whether ``project.dataset`` exists; False also where the identity may not look."""
        from google.api_core.exceptions import Forbidden, NotFound

        with translate_client_errors(f"dataset={reference}"), suppress(Forbidden, NotFound):
            return bool(self.client.get_dataset(reference, **self._limits))
        return False

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the tables in ``catalog.dataset``."""
        from google.api_core.exceptions import NotFound

        with translate_client_errors(f"dataset={namespace}"):
            try:
                reference = self.to_reference(namespace)
                listed_tables = self.client.list_tables(reference, page_size=LISTED_TABLES_PER_PAGE, **self._limits)
                return sorted(table.table_id for table in listed_tables)
            except NotFound:
                return []

    def list_datasets(self) -> list[str]:
        """Names of the project's datasets that the identity may see."""
        with translate_client_errors(f"project={self.project}"):
            return sorted(dataset.dataset_id for dataset in self.client.list_datasets(self.project, **self._limits))

    def update_table(self, table: Any, *fields: str) -> None:
        """Write a table's changed metadata back."""
        with translate_client_errors(f"table={table.reference}"):
            self.client.update_table(table, list(fields), **self._limits)

    def delete_table(self, name: str) -> None:
        """Delete a table, or one partition as ``table$N``; nothing happens where there is none."""
        from google.api_core.exceptions import NotFound

        with translate_client_errors(f"table={name}"), suppress(NotFound):
            self.client.delete_table(self.to_reference(name), **self._limits)

    def list_rows(self, name: str, check: Callable[[Any], None]) -> list[dict[str, Any]]:
        """All rows of a small table that passes the check, read without a job; none where there is no table."""
        from google.api_core.exceptions import NotFound

        with translate_client_errors(f"table={name}"):
            try:
                table = self.client.get_table(self.to_reference(name), **self._limits)
                check(table)
                return [dict(row) for row in self.client.list_rows(table, **self._limits)]
            except NotFound:
                return []

    def run_statement(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run one statement and return the finished job. It may run twice, so it must be idempotent."""
        config = self._build_config({}, query_parameters=list(parameters))
        place = f"statement={' '.join(sql.split())[:60]}"
        with translate_client_errors(place):
            job, _ = self._submit_or_find(place, sql, f"tidegate_{uuid.uuid4().hex}", config)
            return self._require_success(place, job)

    def query_rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Run one query and return its rows, by column name."""
        return list(self.iterate_rows(sql, parameters))

    def iterate_rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[dict[str, Any]]:
        """The same, some rows at a time."""
        job = self.run_statement(sql, parameters)
        with translate_client_errors("query"):
            yield from map(dict, job.result(**self._limits))

    def run_script_once(self, place: str, name: str, script: Callable[[str], str], labels: Mapping[str, str]) -> Any:
        """Run a script as a named job, at most once, and return the finished job. The script may contain its job's id.

        A job of this name that exists was sent by an earlier call, whose answer was lost or which went to wait
        elsewhere. This call waits for that job and sends none. If that job failed, and the failure was reported, the
        next number is used. Raises `JobFailed`, or `OutcomeUnknown`.
        """
        number = 0
        while True:
            job_id = f"{name}_{number}"
            with translate_client_errors(place, is_sent=True):
                job, is_new = self._submit_or_find(place, script(job_id), job_id, self._build_config(labels))
                hit_failpoint("bigquery.sent")
                self.wait(job, is_named=True)
                hit_failpoint("bigquery.answered")
            if not job.error_result:
                return job
            if self.is_new_failure(job_id, is_new):
                raise JobFailed.from_job(job)
            number = max(number + 1, self.find_newest_number(name, number))

    def is_new_failure(self, job_id: str, is_new: bool) -> bool:
        """Whether this job's failure has not been reported yet. The next call then uses the next number."""
        if not is_new and job_id != self._watcher.deferred_job_id:
            return False
        self._watcher.deferred_job_id = ""
        return True

    def find_newest_number(self, name: str, known_number: int) -> int:
        """The highest number that a job of this name has."""
        return find_newest_number(lambda number: self._has_job(f"{name}_{number}"), known_number)

    def _has_job(self, job_id: str) -> bool:
        from google.api_core.exceptions import NotFound

        with translate_client_errors(f"job={job_id}"), suppress(NotFound):
            return bool(self._get_job(job_id))
        return False

    def _get_job(self, job_id: str, location: str | None = None) -> Any:
        """Read a job at its location, or where tables were found; else BigQuery looks at the catalog's, or in two."""
        from google.api_core.exceptions import NotFound

        for place in [location] if location else self._regions:
            with suppress(NotFound):
                return self.client.get_job(job_id, location=place, **self._limits)
        return self.client.get_job(job_id, **self._limits)

    def _submit_or_find(self, place: str, sql: str, job_id: str, config: Any) -> tuple[Any, bool]:
        from google.api_core.exceptions import Conflict

        try:
            return self.client.query(sql, job_id=job_id, job_config=config, job_retry=None, **self._limits), True
        except Conflict:
            return self.find_sent_job(place, job_id), False

    def find_sent_job(self, place: str, job_id: str) -> Any:
        """Read the job that has taken a name. `OutcomeUnknown` if BigQuery says for too long that there is none."""
        from google.api_core.exceptions import NotFound

        began = time.monotonic()
        for pause in iterate_pauses():
            with suppress(NotFound):
                return self._get_job(job_id)
            if time.monotonic() - began > SENT_JOB_TIMEOUT_SECONDS:
                break
            time.sleep(pause)
        raise OutcomeUnknown(
            f"{place}: job={job_id} was sent before, and BigQuery does not show it; it will be asked for again; name "
            "the catalog's location in catalogs.yaml, unless it is US or EU: jobs are looked for there"
        )

    def _build_config(self, labels: Mapping[str, str], **words: Any) -> Any:
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(labels=to_labels({**self._labels, **labels}), **words)
        if self.max_bytes_billed is not None:
            config.maximum_bytes_billed = self.max_bytes_billed
        return config

    def estimate_read_bytes(self, sql: str) -> int:
        """Bytes that one statement would read, by a dry run, which is free; 0 if the server does not count them."""
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False)
        with translate_client_errors("dry run"):
            job = self.client.query(sql, job_config=config, job_retry=None, **self._limits)
            return int(job.total_bytes_processed or 0)

    def read_job(self, job_id: str, location: str | None = None) -> Any:
        """Read the current state of a job."""
        with translate_client_errors(f"job={job_id}"):
            return self._get_job(job_id, location)

    def count_changed_rows(self, job_id: str) -> list[dict[str, int]]:
        """Rows inserted, updated and deleted by each statement of a script that changes rows, in its order."""
        with translate_client_errors(f"job={job_id}"):
            children = list(self.client.list_jobs(parent_job=job_id, **self._limits))
        children.sort(key=lambda job: int(re.sub(r".*\D", "", job.job_id) or 0))
        dml_stats = [job.dml_stats for job in children if getattr(job, "dml_stats", None)]
        names = ("inserted", "updated", "deleted")
        return [{name: int(getattr(stats, f"{name}_row_count")) for name in names} for stats in dml_stats]

    def _require_success(self, place: str, job: Any, *, is_named: bool = False) -> Any:
        self.wait(job, is_named=is_named)
        if job.error_result:
            job_failure = JobFailed.from_job(job)
            raise translate_job_error(place, job_failure) from job_failure
        return job

    def wait(self, job: Any, *, is_named: bool = False) -> None:
        """Poll a job until it has ended, well or not. Each request has its own time limit.

        The wait for a named job may go on elsewhere: whoever continues finds the job by its name.
        """
        named_job = NamedJob.from_job(self._catalog, job) if is_named else None
        began = time.monotonic()
        if named_job is not None:
            self._watcher.report_sent(named_job)
        for pause in iterate_pauses():
            job.reload(**self._limits)
            if job.state == "DONE":
                return
            if named_job is not None:
                self._watcher.report_running(named_job, time.monotonic() - began)
            time.sleep(pause)


def get_uuid(table: Any) -> str:
    """The creation time in milliseconds, which tells a table from a former one of the same name."""
    return str(round(table.created.timestamp() * 1000))


def to_labels(values: Mapping[str, str]) -> dict[str, str]:
    """Labels as BigQuery takes them: lower case letters, digits, dashes, underscores, 63 at most."""
    return {name: re.sub(r"[^a-z0-9_-]", "_", value.casefold())[:63] for name, value in values.items()}
