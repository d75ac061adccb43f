"""Tables that cannot go on, while the others do: from an error of one table to what plans and messages say."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidegate.errors import GiveUp, RetryLater, join_tables
from tidegate.model.batch import Refusal
from tidegate.model.offsets import format_names
from tidegate.ports.session import Session

log = logging.getLogger(__name__)
Failure = tuple[str, GiveUp]  # a table that cannot be staged, and why
Delay = tuple[str, GiveUp | RetryLater]  # a table that cannot be planned, for good or for now, and why


def to_refusals(session: Session, delays: Sequence[Delay], *, has_work: bool) -> tuple[Refusal, ...]:
    """Return the refusals that a plan carries, so that the other tables go on.

    Raises one reason if all tables are refused, and `SomeTables` if the other tables have no work.
    """
    if delays and len(delays) == len(session.pipeline.tables):
        raise next((error for _, error in delays if isinstance(error, RetryLater)), delays[0][1])
    refusals = note_refusals(delays)
    if refusals and not has_work:
        raise join_tables(format_refusals(session, refusals), [type(error) for _, error in delays])
    return refusals


@contextmanager
def isolate_failure(table: str, failures: list[Failure]) -> Iterator[None]:
    try:
        yield
    except GiveUp as error:
        failures.append((table, error))


def note_refusals(failures: Sequence[Delay]) -> tuple[Refusal, ...]:
    for message in dict.fromkeys(str(error) for _, error in failures):
        log.warning(message)
    return tuple(Refusal(table, type(error).__name__, str(error)) for table, error in failures)


def join_failures(failures: Sequence[Failure]) -> GiveUp:
    first = failures[0][1]
    words = dict.fromkeys(str(error) for _, error in failures)
    return first if len(words) == 1 else type(first)("\n".join(words))


def format_refusals(session: Session, refusals: Sequence[Refusal]) -> str:
    tables = format_names([refusal.table for refusal in refusals])  # the reasons behind them shall be seen, too
    reasons = dict.fromkeys(refusal.message for refusal in refusals)
    head = (
        f"pipeline={session.pipeline.name}: tables={tables} cannot go on and were left as they are, the others go on:"
    )
    return "\n".join([head, *reasons])
