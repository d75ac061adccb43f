"""Stores a pipeline's position in a BigQuery table: one row in a table of positions, moved in the transaction of the
rows.

Each destination has its own table of positions, because two transactions that change one table cancel each other. The
row has a version, which the transaction asserts.
"""

import json
import logging
from dataclasses import astuple, dataclass, replace
from itertools import count
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.client.errors import JobFailed, translate_job_error
from tidegate.adapters.bigquery.client.named_jobs import name_job
from tidegate.adapters.bigquery.publish_script import (
    AUDIT_FAILED,
    MISSING_ROWS_TEXT,
    POSITION_MOVED,
    render_staged_assertion,
    render_transaction,
    writes_into,
)
from tidegate.adapters.bigquery.query_cost import estimate_scan_bytes, read_job_cost
from tidegate.adapters.bigquery.stores import staging
from tidegate.adapters.bigquery.stores.namespaces import drop_existing_namespaces
from tidegate.adapters.bigquery.stores.ownership import check_readable, claim
from tidegate.adapters.bigquery.stores.table_marks import remove_expiration
from tidegate.errors import AuditFailed, CommitRefused, RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.model import resource_names
from tidegate.model.ownership import describe_positions
from tidegate.model.table_state import StagedSource
from tidegate.ports.context import Head, TableCommit
from tidegate.ports.sql import Sql
from tidegate.sql.googlesql import quote_name

log = logging.getLogger(__name__)
# Keys of a row's properties beside the pipeline's own: the table that the position is of, the job that wrote the row,
# the bytes that its dry runs estimated, and how many of its last statements write the destination.
TABLE_KEY = "table"
JOB_KEY = "job"
SCANNED_BYTES_KEY = "bytes"
WRITES_KEY = "writes"


@dataclass(frozen=True)
class PositionRow:
    """One pipeline's row. `properties` are empty if they were written for a former table of the same name."""

    version: int
    attempt: str
    properties: dict[str, str]
    changed_ms: int
    is_current: bool
    job: str
    scanned: int | None = None
    writes: int | None = None

    @property
    def head(self) -> Head:
        """What was published last, as a snapshot of the table."""
        return Head(self.version, self.version - 1, {**self.properties, "tidegate.attempt": self.attempt})


def read_position_row(warehouse: Warehouse, table: str, uuid: str, pipeline: str) -> PositionRow | None:
    """Read the pipeline's row by a listing, which is free and waits for no slot; None without one."""
    for row in _list_rows(warehouse, table):
        if row["pipeline"] == pipeline:
            data = json.loads(row["properties"])
            is_current = data.pop(TABLE_KEY, "") == uuid
            changed_ms = round(row["changed"].timestamp() * 1000)
            job = data.pop(JOB_KEY, "")
            scanned_bytes = data.pop(SCANNED_BYTES_KEY, None)
            writes = data.pop(WRITES_KEY, None)
            properties = data if is_current else {}
            return PositionRow(
                version=row["version"],
                attempt=row["attempt"] or "",
                properties=properties,
                changed_ms=changed_ms,
                is_current=is_current,
                job=job,
                scanned=scanned_bytes,
                writes=writes,
            )
    return None


def _list_rows(warehouse: Warehouse, table: str) -> list[dict[str, Any]]:
    positions = resource_names.name_positions_table(table)
    owner = describe_positions(table)
    return warehouse.list_rows(positions, lambda loaded_table: check_readable(loaded_table, positions, owner))


def list_pipelines(warehouse: Warehouse, table: str, uuid: str) -> tuple[str, ...]:
    """List the pipelines that have a position in the current table, by name."""
    rows = _list_rows(warehouse, table)
    return tuple(sorted(row["pipeline"] for row in rows if json.loads(row["properties"]).get(TABLE_KEY) == uuid))


def seed_position(  # noqa: PLR0913 (each is one word of the row)
    warehouse: Warehouse, sql: Sql, *, table: str, uuid: str, pipeline: str, properties: dict[str, str]
) -> None:
    """Write a pipeline's first row for a table. `CommitRefused` if it has one, or has just begun in a newer table.

    The table's UUID is part of the job's name, so of several first runs only one writes the row. If a job wrote a row
    that is gone again, for instance with the table of positions, the next number is used.
    """
    row = read_position_row(warehouse, table, uuid, pipeline)
    positions = resource_names.name_positions_table(table)
    if row is not None and row.is_current:
        raise CommitRefused(f"table={table} pipeline={pipeline}: it has a position already")
    loaded_table = warehouse.find_table(positions)
    owner = describe_positions(table)
    if loaded_table is not None:
        claim(warehouse, loaded_table, positions, owner)
    warehouse.run_statement(sql.render("create_positions", table=positions, own=owner))
    hit_failpoint("bigquery.positions_created")
    remove_expiration(warehouse, positions)
    content = json.dumps({**properties, TABLE_KEY: uuid}, sort_keys=True)
    version = row.version + 1 if row else 1
    script = sql.render("seed_position", table=positions, pipeline=pipeline, version=version, properties=content)
    place = f"pipeline={pipeline} table={table}"
    for number in count():
        name = name_job("seed", table, uuid, pipeline, *([number] if number else []))
        try:
            warehouse.run_script_once(place, name, lambda _: script, {"tidegate_pipeline": pipeline})
        except JobFailed as error:
            raise translate_job_error(place, error) from error
        position_row = read_position_row(warehouse, table, uuid, pipeline)
        if position_row is not None and position_row.is_current:
            return
        if position_row is not None and (row is None or position_row.version != row.version):
            raise CommitRefused(f"{place}: it has a position in a table that came in place of this one")


def commit_rows_and_position(warehouse: Warehouse, sql: Sql, table_commit: TableCommit) -> None:
    """Commit rows and position in one transaction, which is refused if the position's version has changed since it was
    read.

    Each try at this batch gives the job the same name. So a job whose answer was lost is found, and does not run twice.
    Once it has moved the position, the name would be another one, and `CommitRefused` is raised.
    """
    row = read_position_row(warehouse, table_commit.table, table_commit.uuid, table_commit.pipeline)
    if row is not None and table_commit.source is not None and row.version != table_commit.cut:
        raise CommitRefused(
            f"table={table_commit.table} pipeline={table_commit.pipeline}: the position has version={row.version}, and "
            f"this publish moves version={table_commit.cut}"
        )
    properties = row.properties if row else {}
    name = name_publish_job(table_commit, table_commit.source, row) if row and table_commit.source else ""
    run_table_commit(warehouse, sql, replace(table_commit, properties={**properties, **table_commit.properties}), name)


def name_publish_job(table_commit: TableCommit, source: StagedSource, row: PositionRow) -> str:
    """Name the job after what is staged and after the position row that it moves.

    So a run that was killed, or went to wait elsewhere, finds the job that it sent, also under another attempt.
    """
    position_version = (table_commit.cut, row.version, row.changed_ms)
    return name_job("publish", table_commit.table, table_commit.uuid, *position_version, *astuple(source))


def run_table_commit(warehouse: Warehouse, sql: Sql, table_commit: TableCommit, name: str = "") -> None:
    """The same, but the row gets the commit's properties alone, and keeps none of its former ones."""
    place = f"pipeline={table_commit.pipeline} table={table_commit.table}"
    name = name or name_job("publish", table_commit.table, table_commit.uuid, table_commit.attempt)
    checks = _render_staged_checks(warehouse, table_commit.source)
    statements = (*checks, *drop_existing_namespaces(warehouse, table_commit.statements))

    scanned_bytes = estimate_scan_bytes(warehouse, place, table_commit.statements) if table_commit.statements else None
    target = quote_name(warehouse.to_reference(table_commit.table))
    writes = sum(writes_into(statement, target) for statement in table_commit.statements)

    job_properties: dict[str, str | int] = {
        TABLE_KEY: table_commit.uuid,
        **({} if scanned_bytes is None else {SCANNED_BYTES_KEY: scanned_bytes}),
    }
    job_properties |= {WRITES_KEY: writes} if writes else {}

    def render_script(job: str) -> str:
        return render_transaction(
            sql,
            positions=resource_names.name_positions_table(table_commit.table),
            pipeline=table_commit.pipeline,
            version=table_commit.cut,
            attempt=table_commit.attempt,
            properties={**table_commit.properties, **job_properties, JOB_KEY: job if writes else ""},
            statements=statements,
            audits=table_commit.audits,
        )

    labels = {"tidegate_pipeline": table_commit.pipeline, "tidegate_table": table_commit.table.rsplit(".", 1)[1]}
    try:
        job = warehouse.run_script_once(place, name, render_script, labels)
    except JobFailed as error:
        raise _translate_publish_error(warehouse, place, table_commit, error) from error
    log.info("committed: %s job=%s", place, job.job_id)


def _render_staged_checks(warehouse: Warehouse, source: StagedSource | None) -> list[str]:
    """Assert that all staged rows exist: partitions expire, and missing rows would be merged as none."""
    if source is None:
        return []
    rows = staging.read_loaded_rows(warehouse, source.intermediate, source.attempt)
    return [render_staged_assertion(warehouse.to_reference(source.intermediate), source, rows)]


def _translate_publish_error(
    warehouse: Warehouse, place: str, table_commit: TableCommit, error: JobFailed
) -> Exception:
    source = table_commit.source
    if MISSING_ROWS_TEXT in error.message and source is not None:
        staging.forget_attempt(warehouse, source.intermediate, source.batch, source.attempt)
        return RetryLater(f"{place}: staged rows are gone from intermediate={source.intermediate}")
    if AUDIT_FAILED in error.message:
        text = " ".join(error.message.partition(AUDIT_FAILED)[2].strip(" :").split())
        return AuditFailed(
            f"{place}: audit {text} does not hold; nothing was published and the batch stays staged; correct the audit "
            "in the pipeline file, or what the audit looks at; the next flush tries again"
        )
    if POSITION_MOVED in error.message or error.is_conflict:
        return CommitRefused(f"{place}: {error}")
    return translate_job_error(place, error)


def read_publish_changes(warehouse: Warehouse, row: PositionRow) -> dict[str, str]:
    """What the publish that wrote this row changed and cost, as properties of a summary; empty if it is not known.

    The last statements of a script write the destination. In scripts of an earlier version the position moved after
    them.
    """
    if not row.job:
        return {}
    summary = {} if row.scanned is None else {"tidegate.bytes-scanned": str(row.scanned)}
    try:
        summary |= read_job_cost(warehouse, row.job)
        statement_counts = (
            warehouse.count_changed_rows(row.job)[-row.writes :]
            if row.writes
            else warehouse.count_changed_rows(row.job)[-2:-1]
        )
    except Exception as error:  # counts are for people, and the batch is published
        log.warning("rows changed are not known: job=%s: %s", row.job, error)
        return summary
    totals = {
        name: sum(counts[name] for counts in statement_counts)
        for name in (statement_counts[0] if statement_counts else ())
    }
    return summary | {f"tidegate.{name}": str(total) for name, total in totals.items()}
