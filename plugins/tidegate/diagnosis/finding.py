"""One finding of a check: what is so, how bad it is, and what to do next."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tidegate.errors import TidegateError
from tidegate.redaction import SECRET_MASK, is_secret_name, mask_addresses

TOKEN_PATTERN = re.compile(r"(;\s*token=)[^;\s]+", re.IGNORECASE)
# What a step's message says of its batch: a diagnosis has none.
STEP_PATTERN = re.compile(r";?\s*(it will be (tried|staged|merged) again|nothing was (written|changed))(?=;|$)")
MIN_SECRET_CHARACTERS = 4  # a shorter value stands in many harmless words
MAX_CAUSE_CHARACTERS = 600


class Severity(StrEnum):
    """How bad a finding is: no flush succeeds, some flush will suffer, or all is well."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """`check` is one of the table of checks. `used_by` are the pipelines and publications that it concerns."""

    check: str
    severity: Severity
    cause: str
    advice: str = ""
    used_by: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The finding for programs."""
        return {
            "check": self.check,
            "severity": self.severity.value,
            "cause": self.cause,
            "advice": self.advice,
            "used_by": list(self.used_by),
        }


def make_error(check: str, cause: str, advice: str) -> Finding:
    """What lets a flush fail."""
    return Finding(check, Severity.ERROR, cause, advice)


def make_warning(check: str, cause: str, advice: str) -> Finding:
    """What will make trouble later, or work that is not needed."""
    return Finding(check, Severity.WARNING, cause, advice)


def make_ok(check: str, cause: str) -> Finding:
    """What was looked at and is right."""
    return Finding(check, Severity.OK, cause)


def from_error(check: str, error: TidegateError | str) -> Finding:
    """The product's own message as a finding: its first sentence is the cause, and what follows is the way out."""
    text = STEP_PATTERN.sub("", " ".join(str(error).split()))
    cause, _, advice = text.partition("; ")
    return make_error(check, cause.rstrip(";"), advice)


def from_unexpected(check: str, subject: str, error: Exception) -> Finding:
    """An error that no check foresees: its kind and text."""
    text = " ".join(str(error).split())[:MAX_CAUSE_CHARACTERS]
    return make_error(
        check,
        f"{subject}: an unexpected {type(error).__name__}: {text}",
        "run it again with tidegate -v doctor, which shows where the error came from",
    )


class SecretMask:
    """Takes known secrets, and what looks like one, out of texts for people."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add_settings(self, settings: Mapping[str, Any]) -> None:
        """Remember the values of settings whose names tell of a secret, nested ones included."""
        for name, value in settings.items():
            if isinstance(value, Mapping):
                self.add_settings(value)
            elif is_secret_name(name):
                self.add_value(value)

    def add_value(self, value: object) -> None:
        """Remember one secret."""
        text = str(value or "")
        if len(text) >= MIN_SECRET_CHARACTERS:
            self._values.add(text)

    def mask(self, text: str) -> str:
        """The text without secrets."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, SECRET_MASK)
        return TOKEN_PATTERN.sub(rf"\1{SECRET_MASK}", mask_addresses(text))

    def mask_finding(self, finding: Finding) -> Finding:
        """The finding without secrets."""
        return replace(finding, cause=self.mask(finding.cause), advice=self.mask(finding.advice))


def count_errors(findings: Iterable[Finding]) -> int:
    """How many findings are errors."""
    return sum(finding.severity is Severity.ERROR for finding in findings)
