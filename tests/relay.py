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
                client_socket, _ = server.accept()
                try:
                    target_socket = socket.create_connection(self.target)
                except OSError:  # the server is away: so is the way to it
                    client_socket.close()
                    continue
                with self._lock:
                    if server is not self._server:  # closed since it was accepted
                        client_socket.close()
                        target_socket.close()
                        return
                    self._sockets += [client_socket, target_socket]
                if self.last is not None and len(self._sockets) >= 2 * self.last:
                    self.close()
                for source, sink in ((client_socket, target_socket), (target_socket, client_socket)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass on what comes, and the end too: who still waits for an answer would wait for ever."""
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Nobody comes through any more, and who was through is cut off."""
        with self._lock:
            server, self._server = self._server, None
            if server is None:
                return
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            for open_socket in self._sockets:
                with suppress(OSError):
                    open_socket.shutdown(socket.SHUT_RDWR)
                open_socket.close()
            self._sockets.clear()
