"""Load jobs append the files of a stage job to a BigQuery table. Each has a name of its own, so it appends once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.adapters.bigquery.client.client import CALL_TIMEOUT_SECONDS, Warehouse, to_labels
from tidegate.adapters.bigquery.client.errors import JobFailed, translate_client_errors, translate_job_error
from tidegate.errors import RetryLater
from tidegate.failpoints import hit_failpoint


@dataclass(frozen=True)
class LoadRequest:
    """What the load jobs of one attempt share: the place that messages name, the table, and the labels for cost
    reports.
    """

    message_prefix: str
    table: str
    labels: Mapping[str, str]


def run_load_job(warehouse: Warehouse, request: LoadRequest, name: str, source: Path | str) -> int:
    """Append a Parquet file, or all files of a URI, to a table by a named load job; returns the number of rows.

    A repeat appends nothing twice: if a job of this name exists, its answer was lost, and this call waits for it. If
    that job failed, and the failure was reported, the next number is used: a failed load has appended nothing.
    """
    number = 0
    while True:
        job_id = f"{name}_{number}" if number else name
        with translate_client_errors(request.message_prefix):
            job, is_new = _submit_or_find(warehouse, job_id, request, source)
            hit_failpoint("bigquery.load_sent")
            warehouse.wait(job, is_named=True)
            rows = int(job.output_rows or 0)
        if not job.error_result:
            hit_failpoint("bigquery.loaded")
            return rows
        if warehouse.is_new_failure(job_id, is_new):
            job_failure = JobFailed.from_job(job)
            raise translate_job_error(request.message_prefix, job_failure) from job_failure
        number = max(number + 1, warehouse.find_newest_number(name, number))


def _submit_or_find(warehouse: Warehouse, job_id: str, request: LoadRequest, source: Path | str) -> tuple[Any, bool]:
    from google.api_core.exceptions import Conflict

    try:
        return _submit_job(warehouse, job_id, request, source), True
    except Conflict:  # the answer to an earlier try was lost
        return warehouse.find_sent_job(request.message_prefix, job_id), False


def _submit_job(warehouse: Warehouse, job_id: str, request: LoadRequest, source: Path | str) -> Any:
    into = warehouse.to_reference(request.table)
    config = _build_config(warehouse, request)
    job = {"job_id": job_id, "job_config": config, "timeout": CALL_TIMEOUT_SECONDS}
    if isinstance(source, str):
        return warehouse.client.load_table_from_uri(source, into, **job)
    try:
        file = source.open("rb")
    except FileNotFoundError as error:
        raise RetryLater(
            f"{request.message_prefix}: file={source} is gone; another run has published its batch, or somebody "
            "removed it; nothing of it is merged; run the flush again"
        ) from error
    with file:
        return warehouse.client.load_table_from_file(file, into, num_retries=3, **job)


def _build_config(warehouse: Warehouse, request: LoadRequest) -> Any:
    from google.cloud import bigquery

    lists = bigquery.format_options.ParquetOptions()
    lists.enable_list_inference = True
    table = warehouse.find_table(request.table)
    return bigquery.LoadJobConfig(
        source_format="PARQUET",
        schema=table.schema if table else None,
        write_disposition="WRITE_APPEND",
        create_disposition="CREATE_NEVER",
        parquet_options=lists,
        decimal_target_types=["NUMERIC", "BIGNUMERIC"],  # the smaller one that holds a file's decimals, as columns have
        labels=to_labels(request.labels),
    )
