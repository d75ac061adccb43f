"""How files of a stage job come into a BigQuery table: load jobs, each with a name of its own, appended once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.adapters.bigquery.client.client import CALL_SECONDS, Warehouse, labels_of
from tidegate.adapters.bigquery.client.errors import JobFailed, judged, told
from tidegate.failpoints import reached


@dataclass(frozen=True)
class Load:
    """What the jobs of one attempt share: words for messages, the table, and the labels of cost reports."""

    where: str
    into: str
    labels: Mapping[str, str]


def load(warehouse: Warehouse, asked: Load, name: str, source: Path | str) -> int:
    """Append a Parquet file, or all that a URI names, to a table by a load job of this name; rows that came in.

    A job of that name which is there was sent by a call whose answer was lost: its end is waited for. One that failed,
    and was told, is followed by the next number: a load that failed has brought in nothing.
    """
    number = 0
    while True:
        job_id = f"{name}_{number}" if number else name
        with told(asked.where):
            job, is_new = _sent(warehouse, job_id, asked, source)
            reached("bigquery.load_sent")
            warehouse.wait(job, is_named=True)
            rows = int(job.output_rows or 0)
        if not job.error_result:
            reached("bigquery.loaded")
            return rows
        if warehouse.is_news(job_id, is_new):
            failed = JobFailed.of(job)
            raise judged(asked.where, failed) from failed
        number = max(number + 1, warehouse.newest(name, number))


def _sent(warehouse: Warehouse, job_id: str, asked: Load, source: Path | str) -> tuple[Any, bool]:
    from google.api_core.exceptions import Conflict

    try:
        return _submitted(warehouse, job_id, asked, source), True
    except Conflict:  # the answer to an earlier try was lost
        return warehouse.job(job_id), False


def _submitted(warehouse: Warehouse, job_id: str, asked: Load, source: Path | str) -> Any:
    into, config = warehouse.reference(asked.into), _config(warehouse, asked)
    job = {"job_id": job_id, "job_config": config, "timeout": CALL_SECONDS}
    if isinstance(source, str):
        return warehouse.client.load_table_from_uri(source, into, **job)
    with source.open("rb") as file:
        return warehouse.client.load_table_from_file(file, into, num_retries=3, **job)


def _config(warehouse: Warehouse, asked: Load) -> Any:
    from google.cloud import bigquery

    lists = bigquery.format_options.ParquetOptions()
    lists.enable_list_inference = True
    table = warehouse.table(asked.into)
    return bigquery.LoadJobConfig(
        source_format="PARQUET",
        schema=table.schema if table else None,
        write_disposition="WRITE_APPEND",
        create_disposition="CREATE_NEVER",
        parquet_options=lists,
        labels=labels_of(asked.labels),
    )
