"""What a failing catalog or file store means for a batch: it passes, and the table is read again."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from pyiceberg.exceptions import ServerError, ServiceUnavailableError, TooManyRequestsError
from sqlalchemy.exc import OperationalError

from tidegate.errors import OutcomeUnknown, RetryLater
from tidegate.states import Publication

# OSError is also what every HTTP client and PyArrow's file systems raise
PASSING = (OSError, OperationalError, ServerError, ServiceUnavailableError, TooManyRequestsError)

Verbs = TypeVar("Verbs", bound=type)


def told(verbs: Verbs) -> Verbs:
    """Let each public verb of a destination tell of what it cannot reach as of a fault that passes.

    A table is read by its metadata of a moment before: a clean-up or an expiry beside it may take a file of it away,
    and whoever reads the table again finds what is so now. A publish without an answer has an unknown outcome.
    """
    for name, verb in list(vars(verbs).items()):
        if callable(verb) and not name.startswith("_"):
            setattr(verbs, name, _told(verb))
    return verbs


def _told(verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def call(destination: Any, first: str | Publication, *rest: Any, **named: Any) -> Any:
        try:
            return verb(destination, first, *rest, **named)
        except PASSING as error:
            raise _passing(verb.__name__, first, error) from error

    return call


def _passing(verb: str, first: str | Publication, error: Exception) -> RetryLater:
    table = first.table if isinstance(first, Publication) else first
    text = " ".join(str(getattr(error, "orig", error)).split())  # without the statement's parameters
    if isinstance(error, FileNotFoundError):
        return RetryLater(f"table={table}: a file went during {verb}, as clean-ups and expiries take them: {text}")
    kind = OutcomeUnknown if isinstance(first, Publication) else RetryLater
    return kind(f"table={table}: catalog or files did not answer during {verb}; it will be tried again: {text}")
