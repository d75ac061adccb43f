"""An HTTP proxy in front of a catalog or an object store that lets chosen requests meet a fault, one after the other.

A request is read to its end, and so is the answer of the server behind: "done and not answered" and "never done" are
two faults, and none is left to chance.
"""

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from background_server import start_serving, stop_serving

from local.ports import HOST

BACKEND_TIMEOUT_SECONDS = 120
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length"}
OWN_HEADERS = {*HOP_HEADERS, "expect", "accept-encoding"}  # answers come as they are, so that a test can read them
ACCESS_KEY_PATTERN = re.compile(r"Credential=([^/]+)/")


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def updates(self) -> list[dict[str, Any]]:
        """What a commit to a REST catalog changes in a table; nothing for other requests."""
        is_commit = self.method == "POST" and "/tables/" in self.path
        return json.loads(self.body).get("updates", []) if is_commit and self.body else []

    @property
    def access_key(self) -> str | None:
        """The access key of a request to an object store."""
        match = ACCESS_KEY_PATTERN.search(self.headers.get("authorization", ""))
        return match[1] if match else None


@dataclass(frozen=True)
class Fault:
    """What becomes of a request: whether the server behind gets it (`is_done`), and whether its answer goes on.

    A `status` stands in place of that answer, as a gateway would give it.
    """

    is_done: bool
    is_answered: bool = False
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0


LOST_ANSWER = Fault(is_done=True)
CUT_OFF = Fault(is_done=False)
NO_FAULT = Fault(is_done=True, is_answered=True)


def answer_after_commit(status: int) -> Fault:
    """The server has done it, and a gateway says that something failed."""
    return Fault(is_done=True, status=status)


def refuse(status: int, *headers: tuple[str, str]) -> Fault:
    """The server never sees it."""
    return Fault(is_done=False, status=status, headers=headers)


def delay(seconds: float) -> Fault:
    """The server does it, and its own answer comes late."""
    return Fault(is_done=True, is_answered=True, seconds=seconds)


Match = Callable[[Request], bool]
Answer = tuple[int, list[tuple[str, str]], bytes]  # status, headers and content


@dataclass
class _Rule:
    match: Match
    fault: Fault
    remaining_times: int


@dataclass
class FaultProxy:
    """Stands before one server. `requests` are all without what they brought, `faulty_requests` those that met a fault;
    `access_keys` is what a store was asked by.
    """

    backend: str
    faulty_requests: list[Request] = field(default_factory=list)
    access_keys: set[str] = field(default_factory=set)
    requests: list[Request] = field(default_factory=list)
    rewrite: Callable[[bytes], bytes] = bytes  # what becomes of each answer's content
    answer: Callable[[Request], Answer | None] = lambda _: None  # a test's own, in place of that of the server behind
    _rules: list[_Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_down: bool = False

    def __post_init__(self) -> None:
        self._server = ThreadingHTTPServer((HOST, 0), _build_handler(self))
        self._server.daemon_threads = True
        self.address = f"http://{HOST}:{self._server.server_address[1]}"
        self._thread = start_serving(self._server)

    def close(self) -> None:
        stop_serving(self._server, self._thread)

    def on(self, match: Match, fault: Fault, times: int = 1) -> None:
        """The next requests that match meet the fault."""
        self._rules.append(_Rule(match, fault, times))

    def die_after(self, match: Match) -> None:
        """The first request that matches is done and answered. From then on the proxy lets no request through."""
        self._rules.append(_Rule(match, NO_FAULT, -1))

    def revive(self) -> None:
        """Let all requests through, and drop the remaining faults."""
        with self._lock:
            self._rules.clear()
            self._is_down = False

    def choose_fault(self, request: Request) -> Fault:
        """What this request meets, counted."""
        with self._lock:
            self.requests.append(replace(request, body=b""))
            if request.access_key:
                self.access_keys.add(request.access_key)
            if self._is_down:
                self.faulty_requests.append(request)
                return CUT_OFF
            for rule in self._rules:
                if rule.remaining_times and rule.match(request):
                    self.faulty_requests.append(request)
                    self._is_down = rule.remaining_times < 0
                    rule.remaining_times -= rule.remaining_times > 0
                    return rule.fault
        return NO_FAULT

    def forward(self, request: Request) -> Answer:
        """The answer of the server behind."""
        place = urlsplit(self.backend)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=BACKEND_TIMEOUT_SECONDS)
        try:
            connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name not in OWN_HEADERS:
                    connection.putheader(name, value)
            connection.putheader("content-length", str(len(request.body)))
            connection.endheaders(request.body)
            answer = connection.getresponse()
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP_HEADERS]
            length = answer.getheader("content-length")
            content = self.rewrite(answer.read())
            size = length if request.method == "HEAD" and length else str(len(content))
            return answer.status, [*headers, ("Content-Length", size)], content
        finally:
            connection.close()


@contextmanager
def run_fault_proxy(backend: str) -> Iterator[FaultProxy]:
    """A proxy before the server at this address."""
    proxy = FaultProxy(backend)
    try:
        yield proxy
    finally:
        proxy.close()


def describe_error(status: int) -> bytes:
    """What a REST catalog says with a status that is no success."""
    error = {"message": f"a fault of the test: {status}", "type": "Fault", "code": status}
    return json.dumps({"error": error}).encode()


def _parse_size(line: bytes) -> int:
    """Of the next part of a body; ConnectionError where the client went away in its middle."""
    if not line:
        raise ConnectionError("the client went away")
    return int(line.partition(b";")[0], 16)


def _build_handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer goes out as a whole, not its head first: that would wait for the client's word
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, http.client.HTTPException):  # either side went away: so does this connection
                self.close_connection = True

        def serve(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self._read_body())
            fault = proxy.choose_fault(request)
            answer = (proxy.answer(request) or proxy.forward(request)) if fault.is_done else None
            time.sleep(fault.seconds)
            if fault.status is not None:
                content = describe_error(fault.status)
                self._answer(fault.status, [*fault.headers, ("Content-Length", str(len(content)))], content)
            elif answer is not None and fault.is_answered:
                self._answer(*answer)
            else:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_PATCH = do_HEAD = do_DELETE = serve  # noqa: N815 (names of http.server)

        def _read_body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            parts = []
            while size := _parse_size(self.rfile.readline()):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            """Nothing of it belongs into a test's output."""

    return Handler
