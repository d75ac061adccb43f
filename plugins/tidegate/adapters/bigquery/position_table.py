"""Where a pipeline stands in a BigQuery table: one row in a table of positions, moved in the transaction of its rows.

Every destination has a table of positions of its own: two transactions that change one table cancel each other, and
destinations must not hold each other up. The row carries a version, which the transaction asserts.
"""

import json
import logging
from dataclasses import astuple, dataclass, replace
from itertools import count
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse, job_name
from tidegate.adapters.bigquery.client.errors import JobFailed, judged
from tidegate.adapters.bigquery.publish_script import BROKEN, GONE, MOVED, all_staged, transaction, writes_into
from tidegate.adapters.bigquery.query_cost import told_of, would_scan
from tidegate.adapters.bigquery.stores import staging
from tidegate.adapters.bigquery.stores.ownership import check_readable, claim
from tidegate.adapters.bigquery.stores.table_marks import stay
from tidegate.errors import AuditFailed, CommitRefused, RetryLater
from tidegate.failpoints import reached
from tidegate.model import resource_names
from tidegate.model.ownership import own_positions
from tidegate.model.table_state import Source
from tidegate.ports.context import Head, Publication
from tidegate.ports.sql import Sql
from tidegate.sql.googlesql import quoted_name

log = logging.getLogger(__name__)
# What a row tells beside the pipeline's own properties: the table that it holds for, the job that wrote it, and what a
# dry run said of that, and how many of its last statements write the destination.
TABLE, JOB, SCANNED, WRITES = "table", "job", "bytes", "writes"


@dataclass(frozen=True)
class Row:
    """One pipeline's row. `properties` are empty where they were written for another table of the same name."""

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


def read(warehouse: Warehouse, table: str, uuid: str, pipeline: str) -> Row | None:
    """The pipeline's row, by a listing: it costs nothing and waits for no slot."""
    for row in _rows(warehouse, table):
        if row["pipeline"] == pipeline:
            held = json.loads(row["properties"])
            is_current = held.pop(TABLE, "") == uuid
            changed_ms = round(row["changed"].timestamp() * 1000)
            job, scanned, writes = held.pop(JOB, ""), held.pop(SCANNED, None), held.pop(WRITES, None)
            told = held if is_current else {}
            return Row(row["version"], row["attempt"] or "", told, changed_ms, is_current, job, scanned, writes)
    return None


def _rows(warehouse: Warehouse, table: str) -> list[dict[str, Any]]:
    positions, own = resource_names.positions_table(table), own_positions(table)
    return warehouse.listed(positions, lambda found: check_readable(found, positions, own))


def pipelines(warehouse: Warehouse, table: str, uuid: str) -> tuple[str, ...]:
    """Every pipeline that has a position in the table that is there now."""
    rows = _rows(warehouse, table)
    return tuple(sorted(row["pipeline"] for row in rows if json.loads(row["properties"]).get(TABLE) == uuid))


def seed(  # noqa: PLR0913 (each is one word of the row)
    warehouse: Warehouse, sql: Sql, *, table: str, uuid: str, pipeline: str, properties: dict[str, str]
) -> None:
    """Write a pipeline's first row for a table; `CommitRefused` if it has one.

    The job's name comes from the table that is there: of several first runs only one writes it. A job that wrote a row
    which is gone again, with the table of positions for instance, is followed by the next number.
    """
    found, positions = read(warehouse, table, uuid, pipeline), resource_names.positions_table(table)
    if found is not None and found.is_current:
        raise CommitRefused(f"table={table} pipeline={pipeline}: it has a position already")
    standing, own = warehouse.table(positions), own_positions(table)
    if standing is not None:
        claim(warehouse, standing, positions, own)
    warehouse.query(sql.render("create_positions", table=positions, own=own))
    reached("bigquery.positions_created")
    stay(warehouse, positions)
    told = json.dumps({**properties, TABLE: uuid}, sort_keys=True)
    version = found.version + 1 if found else 1
    script = sql.render("seed_position", table=positions, pipeline=pipeline, version=version, properties=told)
    where = f"pipeline={pipeline} table={table}"
    for number in count():
        name = job_name("seed", table, uuid, pipeline, *([number] if number else []))
        try:
            warehouse.once(where, name, lambda _: script, {"tidegate_pipeline": pipeline})
        except JobFailed as error:
            raise judged(where, error) from error
        written = read(warehouse, table, uuid, pipeline)
        if written is not None and written.is_current:
            return


def publish(warehouse: Warehouse, sql: Sql, publication: Publication) -> None:
    """The law: rows and position move in one transaction, if the position's version is still the one that was read.

    The job has a name that every try at this batch gives it: sent again after a lost answer, it is found and not run
    twice.
    """
    row = read(warehouse, publication.table, publication.uuid, publication.pipeline)
    kept = row.properties if row else {}
    name = name_of_publish(publication, publication.source, row) if row and publication.source else ""
    rewrite(warehouse, sql, replace(publication, properties={**kept, **publication.properties}), name)


def name_of_publish(publication: Publication, source: Source, row: Row) -> str:
    """What is staged names the job, and the row that it moves on.

    So a run that was killed, or went to wait elsewhere, finds the job that it sent, whatever its own attempt is.
    """
    moved = (publication.cut, row.version, row.changed_ms)
    return job_name("publish", publication.table, publication.uuid, *moved, *astuple(source))


def rewrite(warehouse: Warehouse, sql: Sql, publication: Publication, name: str = "") -> None:
    """The same, where the publication's properties are all that the row is to tell."""
    where = f"pipeline={publication.pipeline} table={publication.table}"
    name = name or job_name("publish", publication.table, publication.uuid, publication.attempt)
    statements = (*_still_there(warehouse, publication.source), *publication.statements)

    scanned = would_scan(warehouse, where, publication.statements) if publication.statements else None
    target = quoted_name(warehouse.reference(publication.table))
    writes = sum(writes_into(statement, target) for statement in publication.statements)

    told: dict[str, str | int] = {TABLE: publication.uuid, **({} if scanned is None else {SCANNED: scanned})}
    told |= {WRITES: writes} if writes else {}

    def script(job: str) -> str:
        return transaction(
            sql,
            positions=resource_names.positions_table(publication.table),
            pipeline=publication.pipeline,
            version=publication.cut,
            attempt=publication.attempt,
            properties={**publication.properties, **told, JOB: job if writes else ""},
            statements=statements,
            audits=publication.audits,
        )

    labels = {"tidegate_pipeline": publication.pipeline, "tidegate_table": publication.table.rsplit(".", 1)[1]}
    try:
        job = warehouse.once(where, name, script, labels)
    except JobFailed as error:
        raise _refused(warehouse, where, publication, error) from error
    log.info("committed: %s job=%s", where, job.job_id)


def _still_there(warehouse: Warehouse, source: Source | None) -> list[str]:
    """An assertion that the staged rows are all there: partitions expire, and what is not there cannot be missed."""
    if source is None:
        return []
    rows = staging.rows_of(warehouse, source.intermediate, source.attempt)
    return [all_staged(warehouse.reference(source.intermediate), source, rows)]


def _refused(warehouse: Warehouse, where: str, publication: Publication, error: JobFailed) -> Exception:
    source = publication.source
    if GONE in error.message and source is not None:
        staging.disown(warehouse, source.intermediate, source.batch, source.attempt)
        return RetryLater(f"{where}: staged rows are gone from intermediate={source.intermediate}")
    if BROKEN in error.message:
        told = " ".join(error.message.partition(BROKEN)[2].strip(" :").split())
        return AuditFailed(
            f"{where}: audit {told} does not hold; nothing was published and the batch stays staged; correct the audit "
            "in the pipeline file, or what the audit looks at; the next flush tries again"
        )
    if MOVED in error.message or error.is_conflict:
        return CommitRefused(f"{where}: {error}")
    return judged(where, error)


def changed_by(warehouse: Warehouse, row: Row) -> dict[str, str]:
    """What the publish that wrote this row changed and cost, as a summary tells it; empty where nobody knows any more.

    The last statements of a script write the destination. An earlier version's had the position's move behind them.
    """
    if not row.job:
        return {}
    found = {} if row.scanned is None else {"tidegate.bytes-scanned": str(row.scanned)}
    try:
        found |= told_of(warehouse, row.job)
        changed = warehouse.changed(row.job)[-row.writes :] if row.writes else warehouse.changed(row.job)[-2:-1]
    except Exception as error:  # counts are for people, and the batch is published
        log.warning("rows changed are not known: job=%s: %s", row.job, error)
        return found
    totals = {name: sum(one[name] for one in changed) for name in (changed[0] if changed else ())}
    return found | {f"tidegate.{name}": str(total) for name, total in totals.items()}
