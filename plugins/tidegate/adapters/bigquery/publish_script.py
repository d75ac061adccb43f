"""The one script that publishes a batch in BigQuery: rows and position in one transaction, or neither."""

import json
import re
from collections.abc import Mapping, Sequence

from tidegate.errors import GiveUp
from tidegate.model.table_state import StagedSource
from tidegate.ports.sql import Sql
from tidegate.sql.googlesql import quote_name, render_literal

MAX_SCRIPT_BYTES = 1024 * 1024  # BigQuery's limit of an unresolved query, in bytes
POSITION_MOVED = (
    "tidegate: the position has moved"  # the error of a script whose position has changed since it was read
)
AUDIT_FAILED = "tidegate: an audit does not hold"  # the error of a script whose rows break an audit
MISSING_ROWS_TEXT = (
    "tidegate: staged rows are gone"  # the error of a script that finds fewer staged rows than were loaded
)
_DDL_KEYWORDS = ("CREATE", "ALTER")
_CREATE_TABLE_PATTERN = re.compile(r"^CREATE TABLE IF NOT EXISTS `[^`]+`\.`([^`]+)`\.`([^`]+)`", re.MULTILINE)


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
    """The script that runs `statements` and moves the position's `version` on by one, if that is still as it was read.

    `audits` are questions whose answer must be 0, each with the user's words for it. `GiveUp` for a script that is
    longer than BigQuery reads.
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
        sizes = _format_sizes(statements, audits, properties)
        raise GiveUp(
            f"pipeline={pipeline} positions={positions}: the script that publishes has bytes={len(script.encode())} "
            f"({sizes}), and BigQuery reads {MAX_SCRIPT_BYTES}; nothing was merged; if the statements are the longest "
            "part, give the table fewer columns, shorter names or larger partitions, or let batches hold fewer "
            "records; if the audits are, write shorter ones; if the position is, read fewer topics in this pipeline"
        )
    return script


def _format_sizes(
    statements: Sequence[str], audits: Sequence[tuple[str, str]], properties: Mapping[str, str | int]
) -> str:
    """The bytes of each part of the script, as a message names them."""
    texts = {
        "statements": statements,
        "audits": [text for audit in audits for text in audit],
        "position": [str(value) for value in properties.values()],
    }
    return " ".join(f"{name}={sum(len(text.encode()) for text in part)}" for name, part in texts.items())


def render_staged_assertion(table: str, source: StagedSource, rows: int) -> str:
    """The assertion that so many rows of a staged attempt stand in ``project.dataset.table``."""
    return (
        f"ASSERT (SELECT COUNT(*) FROM {quote_name(table)} "
        f"WHERE batch_number = {source.batch} AND attempt = {render_literal(source.attempt)}) = {rows} "
        f"AS {render_literal(MISSING_ROWS_TEXT)}"
    )


def is_ddl(statement: str) -> bool:
    """Whether a statement makes or alters a table: none of these can stand in a transaction."""
    return _get_first_line(statement).upper().startswith(_DDL_KEYWORDS)


def writes_into(statement: str, table: str) -> bool:
    """Whether a statement changes rows of this very table, whose name is quoted."""
    words = ("MERGE INTO", "INSERT INTO", "DELETE FROM")
    return _get_first_line(statement).startswith(tuple(f"{word} {table} " for word in words))


def _get_first_line(statement: str) -> str:
    """The first line that is no comment."""
    code = (line.lstrip() for line in statement.splitlines())
    return next((line for line in code if line and not line.startswith("--")), "")


def list_created_tables(statements: Sequence[str]) -> list[str]:
    """The tables that these statements make if they are missing, each as ``dataset.table``."""
    return [
        f"{dataset}.{table}" for statement in statements for dataset, table in _CREATE_TABLE_PATTERN.findall(statement)
    ]
