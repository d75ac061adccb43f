"""Whether a server that takes connections says anything: asked with the first bytes of its protocol, for a few seconds.

A client of its own would wait for a silent one much longer: for as long as a busy server may take for an answer.
"""

import select
import socket
import ssl
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from enum import Enum
from urllib.parse import urlsplit

from tidegate.adapters.server_probe import Server

SILENCE_SECONDS = 3.0  # each of these is answered before any work is done, and before a log-in
CONNECT_SECONDS = 1.0  # the same address has taken a connection a moment ago


class Greeting(Enum):
    """What a client says first."""

    # ApiVersions, version 0: correlation id 0, no client id
    KAFKA = struct.pack("!ihhih", 10, 18, 0, 0, -1)
    HTTP = b"HEAD / HTTP/1.0\r\n\r\n"
    # HTTP/2's preface, and settings: none
    GRPC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    POSTGRES = struct.pack("!ii", 8, 80877103)  # does it speak TLS?


def greet_uri(server: Server, uri: str) -> bool:
    """Whether a server of a catalog or a registry is silent; its protocol is that of its address."""
    scheme = urlsplit(uri).scheme.partition("+")[0]
    if scheme == "postgresql":
        return is_silent(server, Greeting.POSTGRES)
    return scheme in ("http", "https") and is_silent(server, Greeting.HTTP, uses_tls=scheme == "https")


def is_silent(server: Server, greeting: Greeting, *, uses_tls: bool = False) -> bool:
    """Whether none of the addresses answers a byte within three seconds. A connection that is closed is an answer, too:
    the client itself says more of it. So is one that is refused, of which others tell."""
    with ExitStack() as stack:
        sockets = []
        for host, port in server.addresses:
            try:
                connection = stack.enter_context(socket.create_connection((host, port), timeout=CONNECT_SECONDS))
                connection.sendall(_build_client_hello(host) if uses_tls else greeting.value)
                sockets.append(connection)
            except (OSError, UnicodeError):
                continue
        return bool(sockets) and not _await_answer(sockets)


def _await_answer(sockets: Sequence[socket.socket]) -> bool:
    end = time.monotonic() + SILENCE_SECONDS
    while (remaining_seconds := end - time.monotonic()) > 0:
        if select.select(sockets, [], [], remaining_seconds)[0]:
            return True
    return False


def _build_client_hello(host: str) -> bytes:
    """The first message of a TLS handshake, which is never finished: no certificate is looked at."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    handshake = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host)
    with suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    return outgoing.read()
