"""The edge of a port: whatever a library raises behind it leaves as one of the product's own errors."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from tidegate.errors import CommitRefused, OutcomeUnknown, RetryLater, TidegateError
from tidegate.model.table_state import Publication

Verbs = TypeVar("Verbs", bound=type)
Judge = Callable[[Any, str, str, Exception], TidegateError | None]
Where = Callable[[Any, str], str]
MAX_TEXT_CHARACTERS = 500
log = logging.getLogger(__name__)


def name_table(port: Any, table: str) -> str:
    """How a message names what a verb was asked of."""
    return f"table={table}"


def translate_errors(judge: Judge, where: Where = name_table) -> Callable[[Verbs], Verbs]:
    """Decorate a class whose public verbs name first what they are asked of: a table, or the publication of one.

    `judge` gets the port, the verb, that name and the error, and returns the product's error for those that it knows.
    All others pass for the caller: it tries again, and a person sees the error's kind and text. A publish that failed
    in an unknown way may have been committed all the same: its position is read before anything is repeated.
    """

    def decorate(verbs: Verbs) -> Verbs:
        for name, verb in list(vars(verbs).items()):
            if callable(verb) and not name.startswith("_"):
                setattr(verbs, name, _translate_method(verb, judge, where))
        return verbs

    return decorate


def _translate_method(verb: Callable[..., Any], judge: Judge, where: Where) -> Callable[..., Any]:
    @wraps(verb)
    def call(port: Any, *given: Any, **named: Any) -> Any:
        try:
            return verb(port, *given, **named)
        except (TidegateError, CommitRefused):
            raise
        except Exception as error:
            first = given[0] if given else ""
            is_publish = isinstance(first, Publication)
            subject = first.table if isinstance(first, Publication) else str(first)
            known = judge(port, verb.__name__, subject, error)
            known = known or to_unexpected_error(verb.__name__, where(port, subject), error)
            raise (OutcomeUnknown(*known.args) if is_publish and type(known) is RetryLater else known) from error

    return call


def to_unexpected_error(verb: str, where: str, error: Exception) -> RetryLater:
    """An error that nobody foresaw: its kind and text, and the traceback in the log of who asks for it (-v)."""
    log.info("unexpected: %s verb=%s", where, verb, exc_info=error)
    return RetryLater(
        f"{where}: {verb} failed with an unexpected {type(error).__name__}: {format_one_line(error)}; it will "
        f"be tried again; "
        "if it fails each time, the log with -v has the traceback"
    )


def format_one_line(error: Exception) -> str:
    """The error's text without line breaks; of a database's error what it says, without the statement's parameters."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:MAX_TEXT_CHARACTERS]
