"""The edge of a port: each error of a library behind it leaves as one of the product's own errors."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tidegate.errors import CommitRefused, OutcomeUnknown, RetryLater, TidegateError
from tidegate.model.table_state import TableCommit
from tidegate.redaction import mask_addresses

P = ParamSpec("P")
T = TypeVar("T")
Judge = Callable[[Any, str, str, Exception], TidegateError | None]
DescribePlace = Callable[[Any, str], str]
MAX_TEXT_CHARACTERS = 500
log = logging.getLogger(__name__)


def name_table(port: Any, table: str) -> str:
    return f"table={table}"


def translate_errors(
    judge: Judge, describe_place: DescribePlace = name_table
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a port's method whose first argument is its subject: a table, or the commit to one.

    `judge` gets the port, the method's name, the subject and the error, and returns the product's error, or None for an
    unknown one. An unknown one becomes `RetryLater` with its kind and text.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def call(*arguments: P.args, **keywords: P.kwargs) -> T:
            try:
                return method(*arguments, **keywords)
            except (TidegateError, CommitRefused):
                raise
            except Exception as error:
                port = arguments[0]
                first = arguments[1] if len(arguments) > 1 else ""
                verb = method.__name__
                subject = first.table if isinstance(first, TableCommit) else str(first)
                place = describe_place(port, subject)
                known = judge(port, verb, subject, error) or to_unexpected_error(verb, place, error)
                is_unknown = isinstance(first, TableCommit) and type(known) is RetryLater
                raise (OutcomeUnknown(*known.args) if is_unknown else known) from error

        return call

    return decorate


def to_unexpected_error(verb: str, place: str, error: Exception) -> RetryLater:
    """With the error's kind and text; its traceback goes to the log (-v)."""
    log.info("unexpected: %s verb=%s", place, verb, exc_info=error)
    return RetryLater(
        f"{place}: {verb} failed with an unexpected {type(error).__name__}: {format_one_line(error)}; it will "
        "be tried again; if it fails each time, the log with -v has the traceback"
    )


def format_one_line(error: Exception) -> str:
    """Without line breaks and secrets of addresses; of a database's error without the statement's parameters."""
    return mask_addresses(" ".join(str(getattr(error, "orig", None) or error).split()))[:MAX_TEXT_CHARACTERS]
