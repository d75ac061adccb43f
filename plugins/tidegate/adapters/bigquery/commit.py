"""The one transaction that publishes in BigQuery: rows and position move together, or neither does."""

import json
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from tidegate.adapters.bigquery.catalog import BigQueryPort, Warehouse, get_uuid, name_job
from tidegate.adapters.bigquery.errors import COST_ADVICE, JobFailed, translate_bigquery_errors, translate_job_error
from tidegate.adapters.bigquery.position import (
    JOB_KEY,
    SCANNED_BYTES_KEY,
    TABLE_KEY,
    WRITES_KEY,
    PositionRow,
    mark_table,
    read_position_row,
    remove_expiration,
)
from tidegate.adapters.bigquery.staging import forget_attempt, read_loaded_rows
from tidegate.errors import AuditFailed, CommitRefused, GiveUp, RetryLater, TidegateError
from tidegate.failpoints import hit_failpoint
from tidegate.model import resource_names
from tidegate.model.ownership import check_mark, describe_positions
from tidegate.model.position import Position
from tidegate.model.table_state import Head, StagedSource, TableCommit
from tidegate.ports.destination import BranchCommits
from tidegate.ports.session import Sql
from tidegate.sql.googlesql import quote_name, render_literal

log = logging.getLogger(__name__)
MAX_SCRIPT_BYTES = 1024 * 1024  # BigQuery's limit of an unresolved query, in bytes
# errors of a script: its position has changed since it was read, its rows break an audit, staged rows are missing
POSITION_MOVED = "tidegate: the position has moved"
AUDIT_FAILED = "tidegate: an audit does not hold"
MISSING_ROWS_TEXT = "tidegate: staged rows are gone"
_DDL_KEYWORDS = ("CREATE", "ALTER")
_CREATE_TABLE_PATTERN = re.compile(r"^CREATE TABLE IF NOT EXISTS `[^`]+`\.`([^`]+)`\.`([^`]+)`", re.MULTILINE)


class BigQueryCommits(BigQueryPort, BranchCommits):
    """There are no branches: a merge is written by the transaction that publishes it."""

    @translate_bigquery_errors
    def seed(self, table: str, pipeline: str, position: Position) -> None:
        # The table's UUID is part of the job's name, so of several first runs only one writes the row. If a job wrote
        # a row that is gone again, for instance with the table of positions, the next number is used.
        warehouse = self._get_warehouse(table)
        uuid = get_uuid(warehouse.require_table(table))
        row = read_position_row(warehouse, table, uuid, pipeline)
        place = f"pipeline={pipeline} table={table}"
        if row is not None and row.is_current:
            raise CommitRefused(f"{place}: it has a position already")
        positions = self._create_positions(warehouse, table)
        script = self._sql.render(
            "seed_position",
            table=positions,
            pipeline=pipeline,
            version=row.version + 1 if row else 1,
            properties=json.dumps({**position.to_properties(pipeline), TABLE_KEY: uuid}, sort_keys=True),
        )
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

    def _create_positions(self, warehouse: Warehouse, table: str) -> str:
        positions = resource_names.name_positions_table(table)
        owner = describe_positions(table)
        loaded_table = warehouse.find_table(positions)
        if loaded_table is not None:
            check_mark(positions, owner, owner.labels, loaded_table.labels)
        warehouse.run_statement(self._sql.render("create_positions", table=positions, own=owner))
        hit_failpoint("bigquery.positions_created")
        remove_expiration(warehouse, positions)
        return positions

    @translate_bigquery_errors
    def read_head(self, table: str, branch: str) -> Head | None:
        # only the tag that names a pipeline's last publish has one
        warehouse = self._get_warehouse(table)
        uuid = get_uuid(warehouse.require_table(table))
        pipeline = resource_names.parse_tag_pipeline(branch)
        row = read_position_row(warehouse, table, uuid, pipeline) if pipeline else None
        if row is None or not row.is_current:
            return None
        return replace(row.head, summary={**row.head.summary, **_read_publish_changes(warehouse, row)})

    @translate_bigquery_errors
    def publish(self, table_commit: TableCommit) -> None:
        # Each try at this batch gives the job the same name. So a job whose answer was lost is found, and does not run
        # twice. Once it has moved the position, the name would be another one, and `CommitRefused` is raised.
        warehouse = self._get_warehouse(table_commit.table)
        loaded_table = warehouse.require_table(table_commit.table)
        if get_uuid(loaded_table) != table_commit.uuid:
            raise CommitRefused(f"table={table_commit.table}: it was replaced by another of the same name")
        mark_table(warehouse, table_commit.table, loaded_table, table_commit.pipeline)
        row = read_position_row(warehouse, table_commit.table, table_commit.uuid, table_commit.pipeline)
        if row is not None and table_commit.source is not None and row.version != table_commit.cut:
            raise CommitRefused(
                f"table={table_commit.table} pipeline={table_commit.pipeline}: the position has version={row.version}, "
                f"and this publish moves version={table_commit.cut}"
            )
        properties = {**(row.properties if row else {}), **table_commit.properties}
        name = name_publish_job(table_commit, table_commit.source, row) if row and table_commit.source else ""
        run_table_commit(warehouse, self._sql, replace(table_commit, properties=properties), name)
        for created_table in list_created_tables(table_commit.table, table_commit.statements):
            remove_expiration(warehouse, created_table)


def name_publish_job(table_commit: TableCommit, source: StagedSource, row: PositionRow) -> str:
    """Name the job after what is staged and after the position row that it moves.

    So a run that was killed, or went to wait elsewhere, finds the job that it sent, also under another attempt.
    """
    position_version = (table_commit.cut, row.version, row.changed_ms)
    return name_job(
        "publish", table_commit.table, table_commit.uuid, *position_version, source.intermediate, *source.parts
    )


def run_table_commit(warehouse: Warehouse, sql: Sql, table_commit: TableCommit, name: str = "") -> None:
    """Commit rows and position in one transaction, which fails if the position's version has changed.

    The row gets only the commit's properties.
    """
    place = f"pipeline={table_commit.pipeline} table={table_commit.table}"
    name = name or name_job("publish", table_commit.table, table_commit.uuid, table_commit.attempt)
    statements = warehouse.drop_existing_namespaces(table_commit.statements)
    source = table_commit.source
    if source is not None:  # partitions expire, and missing rows would be merged as none
        attempts = [part.attempt for part in source.parts]
        rows = sum(read_loaded_rows(warehouse, source.intermediate, attempts).values())
        staged_table = warehouse.to_reference(source.intermediate)
        statements = [render_staged_assertion(staged_table, source, rows), *statements]
    target = warehouse.quote_name(table_commit.table)
    writes = sum(writes_into(statement, target) for statement in table_commit.statements)
    row_properties: dict[str, str | int] = {**table_commit.properties, TABLE_KEY: table_commit.uuid}
    scanned_bytes = estimate_scan_bytes(warehouse, place, table_commit.statements) if table_commit.statements else None
    if scanned_bytes is not None:
        row_properties[SCANNED_BYTES_KEY] = scanned_bytes
    if writes:
        row_properties[WRITES_KEY] = writes

    def render_script(job: str) -> str:
        return render_transaction(
            sql,
            positions=resource_names.name_positions_table(table_commit.table),
            pipeline=table_commit.pipeline,
            version=table_commit.cut,
            attempt=table_commit.attempt,
            properties={**row_properties, JOB_KEY: job if writes else ""},
            statements=statements,
            audits=table_commit.audits,
        )

    labels = {"tidegate_pipeline": table_commit.pipeline, "tidegate_table": table_commit.table.rsplit(".", 1)[1]}
    try:
        job = warehouse.run_script_once(place, name, render_script, labels)
    except JobFailed as error:
        raise _translate_publish_error(warehouse, place, table_commit, error) from error
    log.info("committed: %s job=%s", place, job.job_id)


def _translate_publish_error(
    warehouse: Warehouse, place: str, table_commit: TableCommit, error: JobFailed
) -> Exception:
    source = table_commit.source
    if MISSING_ROWS_TEXT in error.message and source is not None:
        _forget_missing(warehouse, source)
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


def _forget_missing(warehouse: Warehouse, source: StagedSource) -> None:
    table = warehouse.quote_name(source.intermediate)
    where = _render_parts_condition(source)
    rows = warehouse.query_rows(f"SELECT attempt, COUNT(*) AS n FROM {table} WHERE {where} GROUP BY attempt")
    counts = {row["attempt"]: row["n"] for row in rows}
    loaded_rows = read_loaded_rows(warehouse, source.intermediate, [part.attempt for part in source.parts])
    # attempts whose rows are all there need not be staged again
    for part in source.parts:
        if counts.get(part.attempt, 0) != loaded_rows[part.attempt]:
            forget_attempt(warehouse, source.intermediate, part.batch, part.attempt)


def _read_publish_changes(warehouse: Warehouse, row: PositionRow) -> dict[str, str]:
    if not row.job or not row.writes:
        return {}
    summary = {} if row.scanned is None else {"tidegate.bytes-scanned": str(row.scanned)}
    try:
        summary |= read_job_cost(warehouse, row.job)
        # the last statements of a script write the destination
        statement_counts = warehouse.count_changed_rows(row.job)[-row.writes :]
    except Exception as error:  # counts are for people, and the batch is published
        log.warning("rows changed are not known: job=%s: %s", row.job, error)
        return summary
    totals = Counter[str]()
    for counts in statement_counts:
        totals.update(counts)
    return summary | {f"tidegate.{name}": str(total) for name, total in totals.items()}


def read_job_cost(warehouse: Warehouse, job_id: str) -> dict[str, str]:
    """Where people find an ended job, and the bytes that it was billed, if the server counts them."""
    job = warehouse.read_job(job_id)
    billed = int(job.total_bytes_billed or 0)
    summary = {"tidegate.job": f"{job.project}:{job.location}.{job.job_id}"}
    return {**summary, "tidegate.bytes-billed": str(billed)} if billed else summary


def estimate_scan_bytes(warehouse: Warehouse, place: str, statements: Sequence[str]) -> int | None:
    """The sum of dry runs of the statements; None where they cannot tell.

    `GiveUp` beyond the catalog's `max_bytes_billed`, before anything is sent.
    """
    limit = warehouse.max_bytes_billed
    # a dry run knows no script, and no table that the script has yet to make
    dml_statements = [statement for statement in statements if not is_ddl(statement)]
    try:
        # every merge reads its staged rows: 0 says that the server counts nothing
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


def render_transaction(  # noqa: PLR0913 - one argument per column of the position, all by name
    sql: Sql,
    *,
    positions: str,
    pipeline: str,
    version: int,
    attempt: str,
    properties: Mapping[str, str | int],
    statements: Sequence[str],
    audits: Sequence[tuple[str, str]] = (),
) -> str:
    """The script runs `statements` and increments the position's `version`, if that has not changed.

    `audits`: questions whose answer must be 0, each with the user's words. `GiveUp` if BigQuery cannot read a script so
    long.
    """
    before = [statement for statement in statements if is_ddl(statement)]
    script = sql.render(
        "publish",
        positions=positions,
        pipeline=pipeline,
        version=version,
        attempt=attempt,
        properties=json.dumps(dict(properties), sort_keys=True),
        before=before,
        statements=[statement for statement in statements if statement not in before],
        audits=[(question, f"{AUDIT_FAILED}: {number}: {text}") for number, (question, text) in enumerate(audits)],
        moved=f"{POSITION_MOVED}: pipeline={pipeline} version={version}",
    )
    if len(script.encode()) > MAX_SCRIPT_BYTES:
        texts = {
            "statements": statements,
            "audits": [text for audit in audits for text in audit],
            "position": [str(value) for value in properties.values()],
        }
        sizes = " ".join(f"{name}={sum(len(text.encode()) for text in part)}" for name, part in texts.items())
        raise GiveUp(
            f"pipeline={pipeline} positions={positions}: the script that publishes has bytes={len(script.encode())} "
            f"({sizes}), and BigQuery reads {MAX_SCRIPT_BYTES}; nothing was merged; if the statements are the longest "
            "part, give the table fewer columns, shorter names or larger partitions, or let batches hold fewer "
            "records; if the audits are, write shorter ones; if the position is, read fewer topics in this pipeline"
        )
    return script


def render_staged_assertion(table: str, source: StagedSource, rows: int) -> str:
    """Assert that ``project.dataset.table`` has this number of rows of the staged attempts."""
    return (
        f"ASSERT (SELECT COUNT(*) FROM {quote_name(table)} WHERE {_render_parts_condition(source)}) = {rows} "
        f"AS {render_literal(MISSING_ROWS_TEXT)}"
    )


def _render_parts_condition(source: StagedSource) -> str:
    numbers = ", ".join(str(part.batch) for part in source.parts)
    attempts = ", ".join(render_literal(part.attempt) for part in source.parts)
    return f"batch_number IN ({numbers}) AND attempt IN ({attempts})"


def is_ddl(statement: str) -> bool:
    """Whether a statement makes or alters a table: a transaction takes none of these."""
    return _get_first_line(statement).upper().startswith(_DDL_KEYWORDS)


def writes_into(statement: str, table: str) -> bool:
    """Whether a statement changes rows of `table`, a quoted name."""
    words = ("MERGE INTO", "INSERT INTO", "DELETE FROM")
    return _get_first_line(statement).startswith(tuple(f"{word} {table} " for word in words))


def _get_first_line(statement: str) -> str:
    code = (line.lstrip() for line in statement.splitlines())
    return next((line for line in code if line and not line.startswith("--")), "")


def list_created_tables(table: str, statements: Sequence[str]) -> list[str]:
    """Tables in the catalog of `table` that these statements make if they are missing."""
    catalog = table.split(".", 1)[0]
    names = (name for statement in statements for name in _CREATE_TABLE_PATTERN.findall(statement))
    return [f"{catalog}.{dataset}.{name}" for dataset, name in names]
