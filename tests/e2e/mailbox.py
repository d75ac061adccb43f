"""A mail server: takes messages over SMTP and keeps them, as the service behind a notifier does."""

import email
import email.policy
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import cast

from background_server import start_serving, stop_serving


class Mailbox(socketserver.ThreadingTCPServer):
    """`messages` holds what came in, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.messages: list[EmailMessage] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def subjects(self) -> list[str]:
        return [" ".join(str(message["Subject"]).split()) for message in self.messages]


class _Session(socketserver.StreamRequestHandler):
    """One client's commands: RFC 5321 without extensions."""

    def handle(self) -> None:
        self._answer(220, "ready")
        while line := self.rfile.readline():
            match line[:4].upper().strip():
                case b"DATA":
                    self._answer(354, "go on")
                    self._keep_message()
                    self._answer(250, "kept")
                case b"QUIT":
                    self._answer(221, "bye")
                    return
                case b"EHLO" | b"HELO" | b"MAIL" | b"RCPT" | b"RSET" | b"NOOP":
                    self._answer(250, "OK")
                case _:
                    self._answer(502, "not known here")

    def _keep_message(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        message = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
        cast("Mailbox", self.server).messages.append(cast("EmailMessage", message))

    def _answer(self, code: int, text: str) -> None:
        self.wfile.write(f"{code} {text}\r\n".encode())


@contextmanager
def run_mailbox() -> Iterator[Mailbox]:
    """The server on a free port; it ends with the block."""
    with Mailbox() as server:
        thread = start_serving(server)
        try:
            yield server
        finally:
            stop_serving(server, thread)
