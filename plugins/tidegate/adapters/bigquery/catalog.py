"""The BigQuery project of one catalog: its client, its tables, and jobs that are found again by their names."""

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import count
from typing import Any

from tidegate.adapters.bigquery.errors import JobFailed, pass_over_missing, translate_client_errors, translate_job_error
from tidegate.adapters.bigquery.files import Folder, open_folder
from tidegate.adapters.bigquery.login import Login
from tidegate.adapters.open_clients import NoWatcher, SentJob, Watcher
from tidegate.adapters.server_probe import Server, require_server
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError, GiveUp, OutcomeUnknown
from tidegate.failpoints import hit_failpoint
from tidegate.ports.session import Sql
from tidegate.spec.pipeline import Catalog
from tidegate.sql.googlesql import quote_name

CALL_TIMEOUT_SECONDS = 60  # one request; the client's own default is none at all
SERVICE_URL = "https://bigquery.googleapis.com"
MULTI_REGIONS = ("US", "EU")  # where BigQuery looks for a job if no location is named
RETRY_TIMEOUT_SECONDS = 120  # how long a request is repeated; the client's own default is ten minutes
UPLOAD_RETRIES = 3  # of one file, where the connection names no number
LISTED_TABLES_PER_PAGE = 1000  # of one request; BigQuery's own default is 50
SENT_JOB_TIMEOUT_SECONDS = 60  # how long a job is asked for whose name is taken; the client itself does so for 200 s
_CREATE_NAMESPACE_PATTERN = re.compile(r"CREATE SCHEMA IF NOT EXISTS `([^`]+)`\.`([^`]+)`\s*")


class Warehouse:
    """The BigQuery project of one catalog. Google's client is created at its first use: its import takes seconds."""

    def __init__(
        self, catalog: Catalog, resolve: Resolve, watcher: Watcher | None = None, pipeline: str | None = None
    ) -> None:
        self._catalog = catalog
        self._login = Login(catalog, resolve)
        self._watcher = watcher or NoWatcher()
        self._pipeline_label = {"tidegate_pipeline": pipeline} if pipeline else {}
        self._regions = set[str]()  # where tables were seen to lie, if the catalog does not say where

    @property
    def project(self) -> str:
        return str(self._catalog.properties["project"])

    @property
    def max_bytes_billed(self) -> int | None:
        """The most that one query may read, None without a limit."""
        limit = self._catalog.properties.get("max_bytes_billed")
        return None if limit is None else int(limit)

    @cached_property
    def client(self) -> Any:
        from google.cloud import bigquery

        endpoint = self._catalog.properties.get("endpoint")
        connection = self._catalog.connection
        place = f"connection={connection}" if connection else "of catalogs.yaml"
        require_server(Server.from_uri(f"BigQuery catalog={self._catalog.name}", place, str(endpoint or SERVICE_URL)))
        return bigquery.Client(
            project=self.project,
            credentials=self._login.credentials,
            location=self._login.location,
            client_options={"api_endpoint": endpoint} if endpoint else None,
        )

    @cached_property
    def folder(self) -> Folder:
        """Load jobs read their files here."""
        staging = self._catalog.properties.get("staging")
        if not staging:
            raise ConfigurationError(
                f"catalog={self._catalog.name}: staging is missing; give gs://bucket/prefix, or file:///folder that "
                "Spark and the workers share"
            )
        return open_folder(str(staging), lambda: self._login.credentials, self.project)

    @cached_property
    def limits(self) -> dict[str, Any]:
        """How long, and how often, one request is tried."""
        from google.cloud.bigquery.retry import DEFAULT_RETRY

        retry = DEFAULT_RETRY.with_timeout(RETRY_TIMEOUT_SECONDS)
        if self._login.num_retries is not None:
            retry = limit_retries(retry, self._login.num_retries)
        return {"retry": retry, "timeout": CALL_TIMEOUT_SECONDS}

    def to_reference(self, name: str) -> str:
        """``project.dataset.table`` of ``catalog.dataset.table``."""
        return f"{self.project}.{name.split('.', 1)[1]}"

    def quote_name(self, name: str) -> str:
        """For statements."""
        return quote_name(self.to_reference(name))

    def find_table(self, name: str) -> Any:
        """Always reads the table's metadata anew."""
        with translate_client_errors(f"table={name}"), pass_over_missing():
            table = self.client.get_table(self.to_reference(name), **self.limits)
            if table.location not in (None, *MULTI_REGIONS) and self._login.location is None:
                self._regions.add(table.location)
            return table
        return None

    def require_table(self, name: str) -> Any:
        """`GiveUp` where there is no table."""
        table = self.find_table(name)
        if table is None:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans again")
        return table

    def has_dataset(self, reference: str) -> bool:
        """False also where the identity may not look."""
        from google.api_core.exceptions import Forbidden, NotFound

        with translate_client_errors(f"dataset={reference}"), suppress(Forbidden, NotFound):
            return bool(self.client.get_dataset(reference, **self.limits))
        return False

    def drop_existing_namespaces(self, statements: Iterable[str]) -> list[str]:
        """Leave out the statements that create an existing dataset."""
        matches = ((statement, _CREATE_NAMESPACE_PATTERN.fullmatch(statement)) for statement in statements)
        # BigQuery asks for bigquery.datasets.create before it looks whether the dataset exists
        return [text for text, match in matches if match is None or not self.has_dataset(f"{match[1]}.{match[2]}")]

    def list_datasets(self) -> list[str]:
        with translate_client_errors(f"project={self.project}"):
            return sorted(dataset.dataset_id for dataset in self.client.list_datasets(self.project, **self.limits))

    def list_labels(self, namespace: str) -> dict[str, dict[str, str]]:
        """Return the labels of each table of a dataset, without reading the tables."""
        with translate_client_errors(f"dataset={namespace}"):
            return {table.table_id: dict(table.labels or {}) for table in self._iterate_tables(namespace)}

    def list_tables(self, namespace: str) -> list[str]:
        with translate_client_errors(f"dataset={namespace}"), pass_over_missing():
            return sorted(table.table_id for table in self._iterate_tables(namespace))
        return []

    def _iterate_tables(self, namespace: str) -> Iterator[Any]:
        reference = self.to_reference(namespace)
        return iter(self.client.list_tables(reference, page_size=LISTED_TABLES_PER_PAGE, **self.limits))

    def update_table(self, table: Any, *fields: str) -> None:
        with translate_client_errors(f"table={table.reference}"):
            self.client.update_table(table, list(fields), **self.limits)

    def delete_table(self, name: str) -> None:
        """Delete a table, or one partition as ``table$N``; a missing one is no error."""
        with translate_client_errors(f"table={name}"), pass_over_missing():
            self.client.delete_table(self.to_reference(name), **self.limits)

    def list_rows(self, name: str, check: Callable[[Any], None]) -> list[dict[str, Any]]:
        """All rows of a small table that passes the check, read without a job; none without a table."""
        with translate_client_errors(f"table={name}"), pass_over_missing():
            table = self.client.get_table(self.to_reference(name), **self.limits)
            check(table)
            return [dict(row) for row in self.client.list_rows(table, **self.limits)]
        return []

    def run_statement(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the finished job. The statement may run twice, so it must be idempotent."""
        config = self._build_config({}, query_parameters=list(parameters))
        place = f"statement={' '.join(sql.split())[:60]}"
        job_id = f"tidegate_{uuid.uuid4().hex}"
        with translate_client_errors(place):
            job, _ = self._send_or_find(place, job_id, lambda job_id: self._send_query(sql, job_id, config))
            self._wait(job)
        if job.error_result:
            job_failure = JobFailed.from_job(job)
            raise translate_job_error(place, job_failure) from job_failure
        return job

    def query_rows(self, sql: str) -> list[dict[str, Any]]:
        return list(self.iterate_rows(sql))

    def iterate_rows(self, sql: str) -> Iterator[dict[str, Any]]:
        job = self.run_statement(sql)
        with translate_client_errors("query"):
            yield from map(dict, job.result(**self.limits))

    def run_script_once(self, place: str, name: str, script: Callable[[str], str], labels: Mapping[str, str]) -> Any:
        """Run a script as a named job, at most once. The script may contain its job's id.

        Raises `JobFailed`, or `OutcomeUnknown`.
        """
        config = self._build_config(labels)

        def send(job_id: str) -> Any:
            job = self._send_query(script(job_id), job_id, config)
            hit_failpoint("bigquery.sent")
            return job

        job = self.run_job_once(place, name, send, is_sent=True)
        hit_failpoint("bigquery.answered")
        return job

    def run_job_once(self, place: str, name: str, send: Callable[[str], Any], *, is_sent: bool = False) -> Any:
        """Send a job under a name, unless it was sent before, and return it when it has ended well.

        A job of this name comes from an earlier call, whose answer was lost or which went to wait elsewhere: this call
        only waits for it. If it failed, and the failure was reported, the next number is used. Raises `JobFailed`;
        with `is_sent`, `OutcomeUnknown` where no answer comes.
        """
        number = 0
        while True:
            job_id = f"{name}_{number}"
            with translate_client_errors(place, is_sent=is_sent):
                job, is_new = self._send_or_find(place, job_id, send)
                self._wait(job, is_named=True)
            if not job.error_result:
                return job
            if is_new or job_id == self._watcher.deferred_job_id:  # nobody was told of this failure yet
                self._watcher.deferred_job_id = ""
                raise JobFailed.from_job(job)
            number = max(number + 1, self._find_newest_number(name, number))

    def _find_newest_number(self, name: str, known_number: int) -> int:
        # numbers are given in order, so few lookups are needed
        low = known_number
        step = 1
        while self._has_job(f"{name}_{low + step}"):
            low = low + step
            step = step * 2
        while step > 1:
            step //= 2
            low += step if self._has_job(f"{name}_{low + step}") else 0
        return low

    def _has_job(self, job_id: str) -> bool:
        with translate_client_errors(f"job={job_id}"), pass_over_missing():
            return bool(self._get_job(job_id))
        return False

    def _get_job(self, job_id: str, location: str | None = None) -> Any:
        for place in [location] if location else self._regions:
            with pass_over_missing():
                return self.client.get_job(job_id, location=place, **self.limits)
        # without a location BigQuery looks in few places only
        return self.client.get_job(job_id, **self.limits)

    def _send_query(self, sql: str, job_id: str, config: Any) -> Any:
        return self.client.query(sql, job_id=job_id, job_config=config, job_retry=None, **self.limits)

    def _send_or_find(self, place: str, job_id: str, send: Callable[[str], Any]) -> tuple[Any, bool]:
        from google.api_core.exceptions import Conflict

        try:
            return send(job_id), True
        except Conflict:  # the answer to an earlier try was lost
            return self._find_sent_job(place, job_id), False

    def _find_sent_job(self, place: str, job_id: str) -> Any:
        began = time.monotonic()
        for pause in iterate_pauses():
            with pass_over_missing():
                return self._get_job(job_id)
            if time.monotonic() - began > SENT_JOB_TIMEOUT_SECONDS:
                break
            time.sleep(pause)
        raise OutcomeUnknown(
            f"{place}: job={job_id} was sent before, and BigQuery does not show it; it will be asked for again; name "
            "the catalog's location in catalogs.yaml, unless it is US or EU: jobs are looked for there"
        )

    @property
    def upload_retries(self) -> int:
        return UPLOAD_RETRIES if self._login.num_retries is None else self._login.num_retries

    def build_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """A job's labels: those of the connection, and these."""
        return to_labels({**self._login.labels, **labels})

    def _build_config(self, labels: Mapping[str, str], **words: Any) -> Any:
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(labels=self.build_labels({**self._pipeline_label, **labels}), **words)
        if self.max_bytes_billed is not None:
            config.maximum_bytes_billed = self.max_bytes_billed
        return config

    def estimate_read_bytes(self, sql: str) -> int:
        """By a dry run, which is free; 0 if the server does not count."""
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False)
        with translate_client_errors("dry run"):
            job = self.client.query(sql, job_config=config, job_retry=None, **self.limits)
            return int(job.total_bytes_processed or 0)

    def read_job(self, job_id: str, location: str | None = None) -> Any:
        with translate_client_errors(f"job={job_id}"):
            return self._get_job(job_id, location)

    def count_changed_rows(self, job_id: str) -> list[dict[str, int]]:
        """Rows inserted, updated and deleted, for each statement of a script that changes rows, in its order."""
        with translate_client_errors(f"job={job_id}"):
            children = list(self.client.list_jobs(parent_job=job_id, **self.limits))
        children.sort(key=lambda job: int(re.sub(r".*\D", "", job.job_id) or 0))
        dml_stats = [job.dml_stats for job in children if getattr(job, "dml_stats", None)]
        names = ("inserted", "updated", "deleted")
        return [{name: int(getattr(stats, f"{name}_row_count")) for name in names} for stats in dml_stats]

    def _wait(self, job: Any, *, is_named: bool = False) -> None:
        named_job = describe_job(self._catalog, job) if is_named else None
        began = time.monotonic()
        if named_job is not None:
            self._watcher.report_sent(named_job)
        for pause in iterate_pauses():
            job.reload(**self.limits)
            if job.state == "DONE":
                return
            if named_job is not None:
                self._watcher.report_running(named_job, time.monotonic() - began)
            time.sleep(pause)


class BigQueryPort:
    """Every BigQuery catalog of ``catalogs.yaml``."""

    def __init__(self, warehouses: Mapping[str, Warehouse], sql: Sql) -> None:
        self._warehouses = warehouses
        self._sql = sql

    def _get_warehouse(self, name: str) -> Warehouse:
        return self._warehouses[name.split(".", 1)[0]]


def get_uuid(table: Any) -> str:
    """The creation time in milliseconds tells a table from a former one of the same name."""
    return str(round(table.created.timestamp() * 1000))


def to_labels(values: Mapping[str, str]) -> dict[str, str]:
    """BigQuery takes lower case letters, digits, dashes and underscores, at most 63."""
    return {name: re.sub(r"[^a-z0-9_-]", "_", value.casefold())[:63] for name, value in values.items()}


def describe_job(catalog: Catalog, job: Any) -> SentJob:
    """A load job or a publish, with its page in the console, or what a test server has in its place."""
    location = job.location or ""
    endpoint = catalog.properties.get("endpoint")
    address = f"{endpoint}/bigquery/v2/projects/{job.project}/jobs/{job.job_id}"
    if not endpoint:
        place = f"project={job.project}&j=bq:{location}:{job.job_id}"
        address = f"https://console.cloud.google.com/bigquery?{place}&page=queryresults"
    return SentJob(catalog=catalog, project=job.project, location=location, job_id=job.job_id, address=address)


def name_job(*parts: object) -> str:
    """Equal parts give an equal name, of letters that BigQuery takes."""
    text = "/".join(str(part) for part in parts)
    return f"tidegate_{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def iterate_pauses() -> Iterator[float]:
    """Seconds between two polls: short at first, longer later, because some statements take minutes."""
    return (min(2.0, 0.05 * 1.5**n) for n in count())


def limit_retries(retry: Any, count: int) -> Any:
    """One of the client's retries, that tries each request at most `count` times again."""

    def wrap(call: Callable[..., Any]) -> Any:
        failures = list[Exception]()

        def stop(error: Exception) -> None:
            failures.append(error)
            if len(failures) > count:
                raise error

        return retry(call, on_error=stop)

    return wrap
