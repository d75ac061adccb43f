"""A way to a server that can be taken away and given back."""

import socket
import threading
from contextlib import suppress


class Relay:
    """What comes in at `port` goes to the server and back, until `close`; from `open` on again, at the same port.

    With `last` it closes by itself, as soon as that many connections were made.
    """

    last: int | None = None
    _server: socket.socket | None = None

    def __init__(self, host: str, port: int) -> None:
        self.target, self._sockets = (host, port), list[socket.socket]()
        self.port, self._lock = 0, threading.Lock()
        self.open()

    def open(self) -> None:
        """Let everybody through."""
        server = self._server = socket.create_server(("127.0.0.1", self.port))
        self.port = server.getsockname()[1]
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = server.accept()
                try:
                    far = socket.create_connection(self.target)
                except OSError:  # the server is away: so is the way to it
                    near.close()
                    continue
                with self._lock:
                    if server is not self._server:  # closed since it was accepted
                        near.close()
                        far.close()
                        return
                    self._sockets += [near, far]
                if self.last is not None and len(self._sockets) >= 2 * self.last:
                    self.close()
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)

    def close(self) -> None:
        """Nobody comes through any more, and who was through is cut off."""
        with self._lock:
            server, self._server = self._server, None
            if server is None:
                return
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            for one in self._sockets:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._sockets.clear()
