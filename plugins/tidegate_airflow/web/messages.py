"""What may be shown of a problem: the product's own sentences as they are, all others without what they may hold."""

import re

from tidegate.errors import TidegateError
from tidegate.redaction import SECRET_MASK, SECRET_NAME_PATTERN, mask_addresses

SECRET_SETTING_PATTERN = re.compile(
    rf"\b([\w.\-]*(?:{SECRET_NAME_PATTERN.pattern})[\w.\-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&)]+)", re.I
)
MAX_MESSAGE_CHARACTERS = 2000


def describe_problem(problem: BaseException) -> str:
    text = str(problem).strip()
    if not isinstance(problem, TidegateError):
        text = f"{type(problem).__name__}: {text}" if text else type(problem).__name__
    return hide_secrets(text)[:MAX_MESSAGE_CHARACTERS]


def hide_secrets(text: str) -> str:
    """Hide log-ins in addresses, values of secret settings, and what Airflow knows as secret."""
    from airflow.sdk.log import redact

    return str(redact(SECRET_SETTING_PATTERN.sub(rf"\1{SECRET_MASK}", mask_addresses(text))))
