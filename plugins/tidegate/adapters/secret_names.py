"""Which settings on a record's way are secrets, so that no file, message or log line carries their value."""

import re
from collections.abc import Mapping
from typing import Any

SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|private[._-]?key|account[._-]key|key\.pem$"
    r"|connection[._-]string|jaas|user[._]info",
    re.IGNORECASE,
)
# Names that hold one of the words above and still are only addresses, times or switches.
HARMLESS = re.compile(r"(url|uri|endpoint|location|file|provider|scope|enabled|expires-at|-ms|-type)$", re.IGNORECASE)
# A raw slash in a password is wrong in a URI, yet SQLAlchemy reads it, so people write it.
IN_TEXT = re.compile(r";\s*token=|://[^/@:\s]*:[^@\s]+@", re.IGNORECASE)
HIDDEN = "***"


def is_secret_name(name: object) -> bool:
    """Whether a setting of this name holds a secret: ``sasl.password`` does, a token endpoint's URL does not."""
    text = str(name)
    return bool(SECRET.search(text)) and not HARMLESS.search(text)


def holds_secret(value: object) -> bool:
    """Whether a text carries a secret inside: ``user:password@`` of a URI, or ``;token=`` of a Spark remote."""
    return isinstance(value, str) and bool(IN_TEXT.search(value))


def masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `settings` for people, with every secret replaced by ``***``."""
    return {name: HIDDEN if is_secret_name(name) or holds_secret(v) else v for name, v in settings.items()}
