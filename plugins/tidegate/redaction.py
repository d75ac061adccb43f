"""Which settings Spark shows as stars, in its UI, its event log and the answers to SET: those with a secret's name."""

from collections.abc import Mapping

WORDS = (
    "secret|passw(or)?d|passphrase|token|credential|authorization|jaas|user[._-]?info|connection[._-]string"
    "|(access|account|private|shared)[._-]?key"
)
CORE, CORE_REGEX = "spark.redaction.regex", f"(?i){WORDS}"
OPTIONS, OPTIONS_REGEX = "spark.sql.redaction.options.regex", f"(?i)url|{WORDS}"


def redacted_in_session(conf: Mapping[str, str]) -> dict[str, str]:
    """`conf` with what a session may say: executions and SET hide secrets, whatever the server's own setting is."""
    return {**conf, OPTIONS: _also(conf.get(OPTIONS), OPTIONS_REGEX)}


def redacted_in_application(conf: Mapping[str, str]) -> dict[str, str]:
    """The same for an application of its own, whose event log and environment page follow its own setting."""
    return {**redacted_in_session(conf), CORE: _also(conf.get(CORE), CORE_REGEX)}


def _also(given: str | None, regex: str) -> str:
    """Both expressions; one that has the other already stays as it is."""
    return regex if not given or given == regex else given if given.endswith(f"|{regex}") else f"{given}|{regex}"
