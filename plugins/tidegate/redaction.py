"""Which settings Spark shows as stars, in its UI, its event log and the answers to SET: those with a secret's name."""

import re
from collections.abc import Mapping
from typing import Any

SECRET_WORDS = (
    "secret|passw(or)?d|passphrase|token|credential|authorization|jaas|user[._-]?info|connection[._-]string"
    "|(access|account|private|shared)[._-]?key"
)
SLOW_EVENTS_KEY = "spark.scheduler.listenerbus.logSlowEvent"
CORE_REGEX_KEY, CORE_REGEX = "spark.redaction.regex", f"(?i){SECRET_WORDS}"
OPTIONS_REGEX_KEY, OPTIONS_REGEX = "spark.sql.redaction.options.regex", f"(?i)url|{SECRET_WORDS}"


def redact_in_session(conf: Mapping[str, str]) -> dict[str, str]:
    """`conf` with what a session may say: executions and SET hide secrets, whatever the server's own setting is."""
    return {**conf, OPTIONS_REGEX_KEY: _combine_regexes(conf.get(OPTIONS_REGEX_KEY), OPTIONS_REGEX)}


def redact_in_application(conf: Mapping[str, str]) -> dict[str, str]:
    """The same for an application of its own, whose event log and environment page follow its own setting.

    Spark writes an event that took it more than a second into its log with all settings as they are: not this one.
    """
    regex = _combine_regexes(conf.get(CORE_REGEX_KEY), CORE_REGEX)
    return {**redact_in_session(conf), CORE_REGEX_KEY: regex, SLOW_EVENTS_KEY: "false"}


def _combine_regexes(old: str | None, regex: str) -> str:
    """Both expressions; one that has the other already stays as it is."""
    return regex if not old or old == regex else old if old.endswith(f"|{regex}") else f"{old}|{regex}"


SECRET_NAME_PATTERN = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|private[._-]?key|account[._-]key|key\.pem$"
    r"|connection[._-]string|jaas|user[._]info",
    re.IGNORECASE,
)
# Names that hold one of the words above and still are only addresses, times or switches.
HARMLESS_NAME_PATTERN = re.compile(
    r"(url|uri|endpoint|location|file|provider|scope|enabled|expires-at|-ms|-type)$", re.IGNORECASE
)
# A raw slash in a password is wrong in a URI, yet SQLAlchemy reads it, so people write it.
SECRET_TEXT_PATTERN = re.compile(r";\s*token=|://[^/@:\s]*:[^@\s]+@", re.IGNORECASE)
SECRET_MASK = "***"
# Who logs in, in an address; a raw slash or at sign in the password belongs to it: the last at sign ends it.
LOGIN_PATTERN = re.compile(r"(?<=://)(?:[^/@:\s]*:[^\s\"'<>]*|[^/@\s]+)@")


def is_secret_name(name: object) -> bool:
    """Whether a setting of this name holds a secret: ``sasl.password`` does, a token endpoint's URL does not."""
    text = str(name)
    return bool(SECRET_NAME_PATTERN.search(text)) and not HARMLESS_NAME_PATTERN.search(text)


def has_secret(value: object) -> bool:
    """Whether a text carries a secret inside: ``user:password@`` of a URI, or ``;token=`` of a Spark remote."""
    return isinstance(value, str) and bool(SECRET_TEXT_PATTERN.search(value))


def mask_logins(text: str) -> str:
    """`text` with the user and the password of each address replaced by ``***``."""
    return LOGIN_PATTERN.sub(f"{SECRET_MASK}@", text)


def mask_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `settings` for people, with every secret replaced by ``***``."""
    return {name: SECRET_MASK if is_secret_name(name) or has_secret(v) else v for name, v in settings.items()}
