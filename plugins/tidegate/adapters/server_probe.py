"""Whether a server takes connections: checked before a client that would wait for minutes."""

import logging
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tidegate.errors import RetryLater

PROBE_SECONDS = 3.0  # of one address; a server in the same network answers within milliseconds
PAUSE_SECONDS = 1.0
COMMAND_PATIENCE_SECONDS = 30.0  # longer than a broker or a container takes to start again, short for one who looks on
DEFAULT_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "sc": 15002, "spark": 7077}
NO_HOST = "an address without a host; write host:port"
log = logging.getLogger(__name__)


class Patience:
    """How long this process waits for a server that takes no connection.

    Not at all in a task, which the scheduler tries again after growing pauses, in `tidegate run`, which does too, nor
    for a web page; another command waits, as nobody tries it again.
    """

    seconds = 0.0


@dataclass(frozen=True)
class Server:
    """One server, by `name` for people, at any of its addresses. `place` is where the address stands: a connection."""

    name: str
    place: str
    addresses: tuple[tuple[str, int], ...]

    @classmethod
    def from_uri(cls, name: str, place: str, uri: str) -> "Server":
        """By ``scheme://host:port``; keeps nothing of a URI's login and parameters.

        Has no address without a host, or where a proxy leads to the host.
        """
        try:
            parts = urlsplit(uri)
            scheme = parts.scheme.partition("+")[0]
            port = parts.port or DEFAULT_PORTS.get(scheme)
        except ValueError:  # the client's own message is the better one
            return cls(name, place, ())
        has_proxy = scheme in getproxies() and not proxy_bypass(parts.hostname or "")
        if not parts.hostname or port is None or has_proxy:
            return cls(name, place, ())
        return cls(name, place, ((parts.hostname, port),))

    @classmethod
    def from_uris(cls, name: str, place: str, uris: str) -> "Server":
        """By addresses with commas between them, of which any will do."""
        servers = [cls.from_uri(name, place, uri.strip()) for uri in uris.split(",")]
        return cls(name, place, tuple(address for server in servers for address in server.addresses))

    @classmethod
    def from_list(cls, name: str, place: str, text: str) -> "Server":
        """By ``host:port,host:port``, of which any will do."""
        return cls.from_uris(
            name, place, ",".join(f"any://{uri.rpartition('://')[2].strip()}" for uri in text.split(","))
        )

    def is_refused(self) -> bool:
        """Whether none of the addresses takes a connection now."""
        return find_connection_failure(self.addresses) is not None

    def __str__(self) -> str:
        text = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return " ".join(part for part in (self.name, self.place, f"address={text}") if part)


def explain_address(address: str, *, needs_port: bool = False) -> str | None:
    """Why no server can be at ``[protocol://][login@]host[:port]``; None where one can be.

    The text repeats only the host: the rest may hold a login.
    """
    try:
        parts = urlsplit(f"any://{address.strip().rpartition('://')[2]}")
    except ValueError:  # brackets that do not close
        return NO_HOST
    if not parts.hostname or re.search(r"\s", parts.hostname):
        return NO_HOST
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        return f"host={parts.hostname}: its port must be a number, 1 to 65535, and is not; write host:port"
    if port is None and needs_port:
        return f"host={parts.hostname}: it has no port; write host:port"
    return None


def require_server(server: Server) -> None:
    """Return once one of the addresses takes a connection; `RetryLater` when patience has ended.

    Costs one TCP connect. A server without an address passes.
    """
    begin_seconds = time.monotonic()
    is_told = False
    while (reason := find_connection_failure(server.addresses)) is not None:
        remaining_seconds = begin_seconds + Patience.seconds - time.monotonic()
        if remaining_seconds <= 0:
            waited_text = f" for {Patience.seconds:.0f} s" if Patience.seconds else ""
            raise RetryLater(
                f"{server} took no connection{waited_text}: {reason}; check that the server runs, and that the address "
                "is the right one; it will be tried again"
            )
        if not is_told:
            log.warning("waiting for %s, %.0f s at most: %s", server, Patience.seconds, reason)
            is_told = True
        time.sleep(min(PAUSE_SECONDS, remaining_seconds))


def find_connection_failure(addresses: Iterable[tuple[str, int]]) -> str | None:
    """Why none of the addresses takes a connection; None where one does, or without addresses."""
    reason = None
    for address in addresses:
        try:
            with socket.create_connection(address, timeout=PROBE_SECONDS):
                return None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return reason
