"""A StatsD server: takes metrics over UDP and keeps the gauges, as the service behind a dashboard does."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

METRIC = re.compile(r"(?P<name>[^:|@]+):(?P<value>[+-]?[0-9.]+(e[+-]?[0-9]+)?)\|(?P<type>c|g|ms|s|h)(\|@[0-9.]+)?")


class StatsdServer:
    """`gauges` holds the newest value of each name; `refused` the lines that are not StatsD."""

    def __init__(self, listener: socket.socket) -> None:
        self.gauges: dict[str, float] = {}
        self.refused: list[str] = []
        self._listener = listener

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def serve(self) -> None:
        """Take datagrams until an empty one comes."""
        while datagram := self._listener.recv(65536):
            for line in datagram.decode().splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        metric = METRIC.fullmatch(line)
        if metric is None:
            self.refused.append(line)
        elif metric["type"] == "g":
            self.gauges[metric["name"]] = float(metric["value"])


@contextmanager
def run_statsd_server() -> Iterator[StatsdServer]:
    """The server on a free port; it ends with the block."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        server = StatsdServer(listener)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.sendto(b"", listener.getsockname())
            thread.join(60)
