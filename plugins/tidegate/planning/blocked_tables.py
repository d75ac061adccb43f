"""Tables that cannot go on while the others of their pipeline do: plan and stage find them, the end reports them."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidegate.errors import GiveUp, RetryLater, join_tables
from tidegate.model.batch import Refusal
from tidegate.model.offsets import format_names
from tidegate.ports.context import Ports

log = logging.getLogger(__name__)
Failure = tuple[str, GiveUp]  # a table that cannot be staged, and why
Delay = tuple[str, GiveUp | RetryLater]  # a table that cannot be planned, for good or for now, and why


def to_refusals(ports: Ports, delays: Sequence[Delay], *, has_work: bool) -> tuple[Refusal, ...]:
    """The refusals that a plan carries; the other tables go on.

    If all tables are refused, raises one reason: of one that a retry may solve, else of the first table. If the other
    tables have no work, raises `SomeTables`.
    """
    if delays and len(delays) == len(ports.pipeline.tables):
        raise next((error for _, error in delays if isinstance(error, RetryLater)), delays[0][1])
    refusals = note_refusals(delays)
    if refusals and not has_work:
        raise join_tables(format_refusals(ports, refusals), [type(error) for _, error in delays])
    return refusals


@contextmanager
def isolate_failure(table: str, failures: list[Failure]) -> Iterator[None]:
    """Note what a person must fix in one table, and let the others go on."""
    try:
        yield
    except GiveUp as error:
        failures.append((table, error))


def note_refusals(failures: Sequence[Delay]) -> tuple[Refusal, ...]:
    """The same failures as plain values for a plan or a task. Logs each message once."""
    for message in dict.fromkeys(str(error) for _, error in failures):
        log.warning(message)
    return tuple(Refusal(table, type(error).__name__, str(error)) for table, error in failures)


def join_failures(failures: Sequence[Failure]) -> GiveUp:
    """One error for all: the class of the first, with each message once."""
    first = failures[0][1]
    words = dict.fromkeys(str(error) for _, error in failures)
    return first if len(words) == 1 else type(first)("\n".join(words))


def format_refusals(ports: Ports, refusals: Sequence[Refusal]) -> str:
    """A line that names the tables that are refused, and one for each reason."""
    tables = format_names([refusal.table for refusal in refusals])  # the reasons behind them shall be seen, too
    reasons = dict.fromkeys(refusal.message for refusal in refusals)
    head = f"pipeline={ports.pipeline.name}: tables={tables} cannot go on and were left as they are, the others go on:"
    return "\n".join([head, *reasons])
