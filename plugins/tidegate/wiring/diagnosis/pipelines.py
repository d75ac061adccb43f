"""One pipeline, or publication: its topics, its tables and its positions, by the reads with which a flush begins."""

import time
from collections.abc import Iterator

from tidegate.diagnosis.finding import Finding, make_error, make_ok, make_warning
from tidegate.errors import NothingToDo, TidegateError
from tidegate.model.offsets import Ranges, iterate_offsets
from tidegate.ports.publication_session import PublicationSession
from tidegate.ports.session import Session
from tidegate.publications.plan import observe_publication, refuse_lost_progress
from tidegate.spec.table import Table
from tidegate.table.columns import list_destination_columns
from tidegate.table.compatibility import check_compatible
from tidegate.table.dimensions import describe_table
from tidegate.table.log import explain_no_row_topics, read_known_log
from tidegate.table.progress import attach_log, observe_tables
from tidegate.table.risks import find_lost_rows
from tidegate.table.session import TableSession
from tidegate.table.template import expand_template

MAX_FUTURE_SECONDS = 60.0  # of the newest record


def check_topics(session: Session) -> Iterator[Finding]:
    source = session.pipeline.source
    log, missing = read_known_log(session)
    if reason := explain_no_row_topics(session, log):
        yield make_error("kafka.topics", reason)
    yield from [make_error("kafka.topics", error) for error in missing.values()]
    if missing or not log.end:
        return
    try:
        session.broker.read_committed(source.group, tuple(log.end))
    except TidegateError as error:
        yield make_error("kafka.group", error)
    newest = [(ms / 1000, topic) for topic, _, ms in iterate_offsets(session.broker.read_newest_timestamps(log.end))]
    ahead_seconds, topic = max(newest, default=(0.0, ""))
    ahead_seconds -= time.time()
    if ahead_seconds > MAX_FUTURE_SECONDS:
        text = f"topic={topic}: its newest record lies ahead_seconds={ahead_seconds:.0f} in the future"
        advice = "set the clocks of producers, brokers and this machine by NTP; until then lag is wrong"
        yield make_warning("kafka.clock", f"{text}; {advice}")
    yield make_ok("kafka.topics", f"topics={len(log.end)} of pipeline={session.pipeline.name}: they can be read")


def check_table_columns(session: Session) -> Iterator[Finding]:
    session = expand_template(session)
    tables = [table for table in session.pipeline.tables if not table.discovers_names]
    faults = list[Finding]()
    for table in tables:
        check = "registry.schema"
        try:
            described_table = describe_table(session, table)
            check = "catalog.tables"
            _check_table(session, described_table)
        except TidegateError as error:
            faults.append(make_error(check, error))
    text = f"tables={len(tables)} of pipeline={session.pipeline.name}: columns and key fit"
    yield from faults or [make_ok("catalog.tables", text)]


def _check_table(session: Session, table: Table) -> None:
    table_session = TableSession(session, table).refresh()
    if table_session.state is None and not table.create.enabled:
        text = f"table={table.name} does not exist, and create.enabled is false"
        raise NothingToDo(f"{text}; create it, or set create.enabled: true")
    list_destination_columns(
        table_session.resolved, table_session.metadata
    )  # refuses columns that no table holds together
    check_compatible(table_session, Ranges({}))


def check_position(session: Session) -> Iterator[Finding]:
    """Check what `plan` reads first, without cutting a batch; and what waits where no flush looks."""
    session = expand_template(session)
    observed = observe_tables(session)
    log, missing = read_known_log(session)
    errors = [table.error for table in attach_log(observed, log, missing) if table.error is not None]
    text = f"pipeline={session.pipeline.name} tables={len(observed)}: their positions fit the topics"
    yield from [make_error("pipeline.position", error) for error in errors] or [make_ok("pipeline.position", text)]
    for sentence in find_lost_rows(session):
        yield make_warning("pipeline.position", sentence)


def check_publication(session: PublicationSession) -> Iterator[Finding]:
    name = session.publication.name
    try:
        table, topics, progress = observe_publication(session)
    except NothingToDo as reason:
        advice = "flush the pipeline that makes it, or correct table of the publication; until then nothing is produced"
        yield make_warning("catalog.tables", f"{reason}; {advice}")
        return
    refuse_lost_progress(session, progress, topics, table)
    yield make_ok("pipeline.position", f"publication={name}: its progress fits table and topics")
