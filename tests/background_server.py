"""A server of the standard library, serving in the background of a test."""

import socketserver
import threading

# `serve_forever` looks so often whether it shall end; by default each end of a server takes half a second
POLL_SECONDS = 0.02


def start_serving(server: socketserver.BaseServer) -> threading.Thread:
    """Serve until `stop_serving`, or until the process ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL_SECONDS}, daemon=True)
    thread.start()
    return thread


def stop_serving(server: socketserver.BaseServer, thread: threading.Thread) -> None:
    """End it; its port is free afterwards."""
    server.shutdown()
    thread.join()
    server.server_close()
