"""Reads a connector's configuration from the REST address of its Connect worker."""

from http import HTTPStatus
from urllib.parse import SplitResult, quote, unquote, urlsplit

from tidegate.errors import ConfigurationError, RetryLater

TIMEOUT_SECONDS = 15


def fetch_connector(address: str) -> str:
    """The answer of ``http://host:8083/connectors/NAME`` as text, JSON that holds secrets: never print it.

    `ConfigurationError` for an unknown connector or a refused log-in, `RetryLater` without an answer. A log-in in the
    address is used, and stands in no message.
    """
    import httpx

    parts = _split_address(address)
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    try:
        with httpx.Client(auth=auth, timeout=TIMEOUT_SECONDS, follow_redirects=True) as client:
            answer = client.get(place)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
        raise RetryLater(
            f"connector={place}: cannot be asked: {fault}; check the address of the Connect worker"
        ) from None
    if answer.status_code == HTTPStatus.OK:
        return str(answer.text)
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise ConfigurationError(
            f"connector={place}: status={answer.status_code}: the log-in was refused; put it into the address "
            f"(http://user:password@{quote(parts.hostname or '')}...), or give the configuration as a file"
        )
    if answer.status_code == HTTPStatus.NOT_FOUND:
        raise ConfigurationError(
            f"connector={place}: there is no such connector; write http://host:8083/connectors/NAME, and see "
            f"http://host:8083/connectors for the names"
        )
    raise RetryLater(f"connector={place}: status={answer.status_code}; look at the Connect worker's log")


def _split_address(address: str) -> SplitResult:
    """`ConfigurationError`, without a word of the address, where its parts are uncertain."""
    try:
        parts = urlsplit(address)
        # a raw slash, question mark or hash of a password ends the host: what is left of it looks like a port
        rest = parts.path.partition("/connectors/")[0] + parts.query + parts.fragment
        is_cut = parts.port is not None and "@" in rest
    # a bracket begins a host, and some letters stand for a slash: the error's own text quotes the password
    except ValueError:
        is_cut = True
    if is_cut:
        raise ConfigurationError(
            "the connector's address cannot be read; write http://host:8083/connectors/NAME, and in a password %2F for "
            "a slash, %3F for a question mark, %23 for a hash, %5B for a bracket"
        )
    return parts
