"""Whether a schema registry is there and lets us in, asked once and with a short wait."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.adapters.schema_registry.apicurio import is_apicurio
from tidegate.adapters.schema_registry.client import ACCESS_STATUS_CODES
from tidegate.adapters.server_greeting import SILENCE_SECONDS, greet_uri
from tidegate.adapters.server_probe import Server, find_connection_failure
from tidegate.diagnosis.finding import Finding, make_error, make_ok

REQUEST_TIMEOUT_SECONDS = 4.0
REACHABLE_ADVICE = "check that the registry runs, and that the address is the right one"
LOGIN_ADVICE = "check login, password and rights of the registry's connection"


def check_registry(name: str, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Address, answer and log-in, until one of these is wrong. `settings` are the client's, secrets included."""
    import httpx

    urls = [url.strip() for url in str(settings.get("url", "")).split(",")]
    server = Server.from_uris("schema registry", f"registry={name}", ",".join(urls))
    refusal = find_connection_failure(server.addresses)
    if refusal is not None:
        yield make_error("registry.reachable", f"{server} took no connection: {refusal}", REACHABLE_ADVICE)
        return
    if greet_uri(server, urls[0]):
        cause = f"{server} took a connection and said nothing for {SILENCE_SECONDS:.0f} s"
        yield make_error("registry.reachable", cause, REACHABLE_ADVICE)
        return
    place = "/search/artifacts?limit=1" if is_apicurio(urls[0]) else "/subjects?subjectPrefix=tidegate-doctor"
    user, _, password = str(settings.get("basic.auth.user.info", "")).partition(":")
    token = settings.get("bearer.auth.token")
    try:
        answer = httpx.get(
            urls[0].rstrip("/") + place,
            auth=(user, password) if user else None,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            verify=settings.get("ssl.ca.location") or True,
            timeout=REQUEST_TIMEOUT_SECONDS,
        )
    except (httpx.HTTPError, OSError) as fault:
        yield make_error("registry.reachable", f"{server} gave no answer: {fault}", REACHABLE_ADVICE)
        return
    if answer.status_code in ACCESS_STATUS_CODES:
        yield make_error("registry.login", f"{server} refuses the log-in: status={answer.status_code}", LOGIN_ADVICE)
    elif answer.status_code >= 500:
        yield make_error("registry.reachable", f"{server} is not well: status={answer.status_code}", "see its log")
    else:
        yield make_ok("registry.login", f"{server}: it lets the connection's user in")
