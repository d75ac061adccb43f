"""A server of Cloud Storage's JSON API, as far as a staging folder uses it: objects by name in one process's memory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from background_server import start_serving, stop_serving


class _Handler(BaseHTTPRequestHandler):
    objects: dict[str, bytes]
    refusals: list[tuple[int, str]]

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""

    def do_GET(self) -> None:
        """List by prefix, or hand out one object."""
        url = urlsplit(self.path)
        name = unquote(url.path.partition("/o/")[2])
        if name:
            self._answer(self.objects.get(name))
        else:
            prefix = parse_qs(url.query).get("prefix", [""])[0]
            items = [{"name": name} for name in sorted(self.objects) if name.startswith(prefix)]
            self._answer(json.dumps({"items": items}).encode())

    def do_POST(self) -> None:
        """Take an upload: its description, then its content."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content_type = self.headers["Content-Type"].encode()
        description, content = message_from_bytes(b"Content-Type: " + content_type + b"\n\n" + body).get_payload()
        name = json.loads(description.get_payload())["name"]
        self.objects[name] = content.get_payload(decode=True)
        self._answer(json.dumps({"name": name}).encode())

    def do_DELETE(self) -> None:
        """Remove one object."""
        name = unquote(urlsplit(self.path).path.partition("/o/")[2])
        self._answer(None if self.objects.pop(name, None) is None else b"")

    def _answer(self, content: bytes | None) -> None:
        status = 404 if content is None else 200
        for status, message in self.refusals:
            content = json.dumps({"error": {"code": status, "message": message, "errors": []}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")


@contextmanager
def run_bucket_server(*refusals: tuple[int, str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the server's address and what it holds. It answers each request with a refusal: a status, a message."""
    objects: dict[str, bytes] = {}
    handler = type("Handler", (_Handler,), {"objects": objects, "refusals": refusals})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = start_serving(server)
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", objects
    finally:
        stop_serving(server, thread)
