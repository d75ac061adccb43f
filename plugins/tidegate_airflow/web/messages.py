"""What may be shown of a problem: the product's own sentences as they are, all others without what they may hold."""

import re

from tidegate.errors import TidegateError
from tidegate.redaction import HIDDEN, SECRET

USER_INFO = re.compile(r"(?<=://)[^/\s@]+@")
ASSIGNED = re.compile(rf"\b([\w.\-]*(?:{SECRET.pattern})[\w.\-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&)]+)", re.I)
LONGEST = 2000


def told(problem: BaseException) -> str:
    """One problem for people; secrets in it are hidden."""
    text = str(problem).strip()
    if not isinstance(problem, TidegateError):
        text = f"{type(problem).__name__}: {text}" if text else type(problem).__name__
    return without_secrets(text)[:LONGEST]


def without_secrets(text: str) -> str:
    """`text` with the user part of addresses, values of settings that are secrets, and what Airflow knows, hidden."""
    hidden = ASSIGNED.sub(rf"\1{HIDDEN}", USER_INFO.sub(f"{HIDDEN}@", text))
    return str(_airflow_hides(hidden))


def _airflow_hides(text: str) -> object:
    from airflow.sdk.log import redact

    return redact(text)
