"""What a publish costs in BigQuery: the bytes that its statements would scan, and those that its job was billed."""

import logging
from collections.abc import Sequence

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.client.errors import COST_ADVICE
from tidegate.adapters.bigquery.publish_script import is_ddl
from tidegate.errors import GiveUp, TidegateError

log = logging.getLogger(__name__)


def estimate_scan_bytes(warehouse: Warehouse, place: str, statements: Sequence[str]) -> int | None:
    """Bytes that the statements of a transaction would read, each estimated by a dry run; None where nobody can tell.

    A dry run knows no script, and no table that the script has yet to make. Every merge reads its staged rows: 0 says
    that the server counts nothing. `GiveUp` beyond the catalog's `max_bytes_billed`, before anything is sent.
    """
    limit = warehouse.max_bytes_billed
    dml_statements = [statement for statement in statements if not is_ddl(statement)]
    try:
        scanned_bytes = sum(warehouse.estimate_read_bytes(statement) for statement in dml_statements) or None
    except TidegateError as error:  # the number is for people, and the job itself carries the limit
        log.info("bytes to scan are not known: %s: %s", place, error)
        return None
    log.info("to scan: %s bytes=%s", place, scanned_bytes)
    if scanned_bytes is not None and limit is not None and scanned_bytes > limit:
        raise GiveUp(
            f"{place}: the publish would read bytes={scanned_bytes} max_bytes_billed={limit}; nothing was sent; "
            f"{COST_ADVICE}"
        )
    return scanned_bytes


def read_job_cost(warehouse: Warehouse, job_id: str) -> dict[str, str]:
    """Of a job that has ended: where people find it, and the bytes that it was billed, where the server counts them."""
    job = warehouse.read_job(job_id)
    billed = int(job.total_bytes_billed or 0)
    summary = {"tidegate.job": f"{job.project}:{job.location}.{job.job_id}"}
    return {**summary, "tidegate.bytes-billed": str(billed)} if billed else summary
