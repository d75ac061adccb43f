"""Servers that a test has in the background: one of the standard library's, or a program as the local stack runs it."""

import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from local.server import Server

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


def tie_to_test(command: Sequence[str]) -> list[str]:
    """The command of a process that is killed when the thread that started it has gone, however that ended."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


@contextmanager
def hold_server(server: Server) -> Iterator[None]:
    """A program that answers within the block, and is killed behind it."""
    process = replace(server, command=tuple(tie_to_test(server.command))).start(server.name)
    try:
        server.wait_until_it_answers(process, lambda: False)
        yield
    finally:
        process.kill()
        process.wait()
