"""One finding of a check: what is so, how bad it is, and what to do next."""

import re
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import TidegateError

# What a step's message says of its batch: a diagnosis has none.
STEP_PATTERN = re.compile(r";?\s*(it will be (tried|staged|merged) again|nothing was (written|changed))(?=;|$)")


class Severity(StrEnum):
    """How bad a finding is: no flush succeeds, some flush will suffer, or all is well."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """`check` is one of `ADVICE`. `used_by` are the pipelines and publications that it concerns."""

    check: str
    severity: Severity
    cause: str
    advice: str = ""
    used_by: tuple[str, ...] = ()


def make_error(check: str, message: TidegateError | str) -> Finding:
    """What makes a flush fail. `message` is one of the product's: the cause, and behind a semicolon the way out."""
    return _split_message(check, Severity.ERROR, message)


def make_warning(check: str, message: TidegateError | str) -> Finding:
    """What will make trouble later, or work that is not needed."""
    return _split_message(check, Severity.WARNING, message)


def make_ok(check: str, cause: str) -> Finding:
    """What was looked at and is right."""
    return Finding(check, Severity.OK, cause)


def _split_message(check: str, severity: Severity, message: TidegateError | str) -> Finding:
    cause, _, advice = STEP_PATTERN.sub("", " ".join(str(message).split())).partition("; ")
    return Finding(check, severity, cause.rstrip(";"), advice)
