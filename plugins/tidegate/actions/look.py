"""The action look: what becomes of the last records of a partition, or of those around one. It changes nothing."""

from tidegate.actions.proposed_action import ProposedAction
from tidegate.errors import NothingToDo
from tidegate.ports.session import Session
from tidegate.reprocess.record import (
    RecordAddress,
    Verdict,
    outline_records,
    parse_neighbourhood,
    read_records_around,
)


def propose_look(session: Session, around: str, table: str | None = None) -> ProposedAction:
    """`NothingToDo` with a line for each record and table, without a record's content: it is kept by Airflow."""
    found = read_records_around(session, parse_neighbourhood(around))
    places = [RecordAddress(record.topic, record.partition, record.offset) for record in found.records]
    verdicts = outline_records(session, places, table)
    lines = [outline_fate(at, verdict) for at in places for verdict in verdicts[at]]
    raise NothingToDo("\n".join(lines) or "no record is there")


def outline_fate(at: RecordAddress, verdict: Verdict) -> str:
    reason = f": {verdict.reason}" if verdict.is_bad else ""
    return f"{at.topic}:{at.partition}:{at.offset} {verdict.table} {verdict.becomes}{reason}"


def format_outline(at: RecordAddress, verdict: Verdict) -> str:
    """With the row, for a terminal."""
    more = f", the first of {verdict.rows}" if verdict.rows > 1 else ""
    row = f" {verdict.row}{more}" if verdict.row and verdict.becomes in ("row", "delete") else ""
    return outline_fate(at, verdict) + row
