"""What is secret, by its name or its shape: in Spark's settings, in files, and in messages."""

import re
from collections.abc import Mapping
from typing import Any

SECRET_WORDS = (
    "secret|passw(or)?d|passphrase|token|credential|authorization|jaas|user[._-]?info|connection[._-]string"
    "|(access|account|api|private|shared)[._-]?key"
)
SLOW_EVENTS_KEY = "spark.scheduler.listenerbus.logSlowEvent"
CORE_REGEX_KEY = "spark.redaction.regex"
CORE_REGEX = f"(?i){SECRET_WORDS}"
OPTIONS_REGEX_KEY = "spark.sql.redaction.options.regex"
OPTIONS_REGEX = f"(?i)url|{SECRET_WORDS}"


def redact_in_session(conf: Mapping[str, str]) -> dict[str, str]:
    """Add to `conf` that executions and SET hide secrets, whatever the server's own setting is."""
    return {**conf, OPTIONS_REGEX_KEY: _combine_regexes(conf.get(OPTIONS_REGEX_KEY), OPTIONS_REGEX)}


def redact_in_application(conf: Mapping[str, str]) -> dict[str, str]:
    """Do so for an application of its own, whose event log and environment page follow its own setting."""
    regex = _combine_regexes(conf.get(CORE_REGEX_KEY), CORE_REGEX)
    # Spark would log an event that took longer than a second with all settings as they are
    return {**redact_in_session(conf), CORE_REGEX_KEY: regex, SLOW_EVENTS_KEY: "false"}


def _combine_regexes(old: str | None, regex: str) -> str:
    return regex if not old or old == regex else old if old.endswith(f"|{regex}") else f"{old}|{regex}"


SECRET_NAME_PATTERN = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|private[._-]?key|account[._-]key|api[._-]?key|key\.pem$"
    r"|(^|[._-])authorization$|connection[._-]string|jaas|user[._]info",
    re.IGNORECASE,
)
# Names that hold one of the words above and still are only addresses, times or switches.
HARMLESS_NAME_PATTERN = re.compile(
    r"(url|uri|endpoint|location|file|provider|scope|enabled|expires-at|-ms|-type)$", re.IGNORECASE
)
SECRET_MASK = "***"
PRIVATE_KEY_PATTERN = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
# A part `name=value` of an address, of JDBC's or Azure's texts, of a JAAS entry or a `-D` option; not the place of a
# value that comes later: ${NAME}, {{ template }}.
ASSIGNED_SECRET_PATTERN = re.compile(
    r"((?:[?&;]\s*(?:[\w.-]*(?:secret|token|api[_-]?key|account[_-]?key|access[_-]?key)|pwd|sig)|[\w.-]*passw(?:or)?d)"
    r"=)(\"(?![$]{|{{)[^\"]+\"|'(?![$]{|{{)[^']+'|(?![\"'$]|{{)[^\s\"'&;,<>]+)",
    re.IGNORECASE,
)
# A raw slash in a password is wrong in a URI, yet SQLAlchemy reads it, so people write it.
LOGIN_TEXT_PATTERN = re.compile(r"://[^/@:\s]*:[^@\s]+@")
BEARER_PATTERN = re.compile(r"\s*Bearer\s+(?!{{)\S+\s*")
# Whoever knows such an address may post there.
WEBHOOK_PATTERN = re.compile(
    r"(://(?:hooks\.slack\.com/(?:services|workflows|triggers)|(?:[\w-]+\.)?discord(?:app)?\.com/api/webhooks"
    r"|[\w-]+\.webhook\.office\.com)/)[^\s\"',<>]+",
    re.IGNORECASE,
)
# Who logs in, in an address; a raw slash or at sign in the password belongs to it: the last at sign ends it.
LOGIN_PATTERN = re.compile(r"(?<=://)(?:[^/@:\s]*:[^\s\"'<>]*|[^/@\s]+)@")


def is_secret_name(name: object) -> bool:
    """Whether a setting of this name holds a secret: ``sasl.password`` does, a token endpoint's URL does not."""
    text = str(name)
    return bool(SECRET_NAME_PATTERN.search(text)) and not HARMLESS_NAME_PATTERN.search(text)


def has_secret(value: object) -> bool:
    """Whether a text carries a secret: in an address, a JAAS entry, Java's options, a private key or a header."""
    if not isinstance(value, str):
        return False
    shapes = (LOGIN_TEXT_PATTERN, ASSIGNED_SECRET_PATTERN, PRIVATE_KEY_PATTERN, WEBHOOK_PATTERN)
    return any(shape.search(value) for shape in shapes) or BEARER_PATTERN.fullmatch(value) is not None


def mask_addresses(text: str) -> str:
    """Replace log-ins, passwords and tokens in the addresses of `text`, and the path of a web hook, by ``***``."""
    without_logins = LOGIN_PATTERN.sub(f"{SECRET_MASK}@", text)
    without_parts = ASSIGNED_SECRET_PATTERN.sub(rf"\1{SECRET_MASK}", without_logins)
    return WEBHOOK_PATTERN.sub(rf"\1{SECRET_MASK}", without_parts)


def mask_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: SECRET_MASK if is_secret_name(name) or has_secret(v) else v for name, v in settings.items()}


TOKEN_PATTERN = re.compile(r"(;\s*token=)[^;\s]+", re.IGNORECASE)
MIN_SECRET_CHARACTERS = 4  # a shorter value stands in many harmless words


class SecretMask:
    """Takes known secrets, and what looks like one, out of texts for people."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add_settings(self, settings: Mapping[str, Any]) -> None:
        """Remember the values of settings whose names are those of secrets, nested ones included."""
        for name, value in settings.items():
            if isinstance(value, Mapping):
                self.add_settings(value)
            elif is_secret_name(name) and len(str(value or "")) >= MIN_SECRET_CHARACTERS:
                self._values.add(str(value))

    def mask(self, text: str) -> str:
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, SECRET_MASK)
        return TOKEN_PATTERN.sub(rf"\1{SECRET_MASK}", mask_addresses(text))
