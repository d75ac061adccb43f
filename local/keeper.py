"""Keeps one server running for the supervisor: starts it, waits until it answers, restarts it when it dies."""

import os
import subprocess
import threading
import time
from collections.abc import Callable

from local.processes import Identity, end_all_processes
from local.server import Server

POLL_SECONDS = 0.2
SHORT_LIFE_SECONDS = 10.0
RESTART_DELAY_SECONDS = 5.0


class Keeper:
    """A thread that keeps one server running until `stop` is set.

    `changed(name, identity, seconds)` is called when a process was started (seconds is None) and when it answered.
    `failed` holds the error of the first start; later starts are tried again for ever.
    """

    def __init__(
        self,
        server: Server,
        mark: str,
        stop: threading.Event,
        report_change: Callable[[str, Identity, float | None], None],
    ) -> None:
        self.server = server
        self.failed: Exception | None = None
        self.ready = threading.Event()
        self._mark, self._stop, self._changed = mark, stop, report_change
        self._leader: Identity | None = None
        self._thread = threading.Thread(target=self._run, name=server.name, daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the thread to notice `stop`."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self.server.prepare()
            process = self._start()
        except Exception as error:
            self.failed = error
            return
        self.ready.set()
        self._watch(process)
        while not self._stop.is_set():
            self._start_again()

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the server and return when it answers; the error of `wait_until_it_answers` after ending it."""
        if self._stop.is_set():
            raise self.server.build_error("was not started: the stack is going down")
        start_seconds = time.monotonic()
        process = self.server.start(self._mark)
        self._leader = Identity.from_pid(process.pid, f"{self._mark}:{self.server.name}")
        self._changed(self.server.name, self._leader, None)
        try:
            self.server.wait_until_it_answers(process, self._stop.is_set)
        except Exception:
            self._end_remains(process)
            raise
        self._changed(self.server.name, self._leader, time.monotonic() - start_seconds)
        return process

    def _start_again(self) -> None:
        start_seconds = time.monotonic()
        try:
            self._watch(self._start())
        except Exception as error:
            print(f"{self.server.name}: {error}", flush=True)
        if time.monotonic() - start_seconds < SHORT_LIFE_SECONDS:
            self._stop.wait(RESTART_DELAY_SECONDS)

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until the process ends, then end its child processes; return at once when the stack goes down."""
        while not self._stop.wait(POLL_SECONDS):
            if _has_ended(process.pid):
                self._end_remains(process)
                print(f"{self.server.name}: ended with code={process.returncode}", flush=True)
                return

    def _end_remains(self, process: "subprocess.Popen[bytes]") -> None:
        """End the server's children, which would keep its port or its files; then reap it."""
        leaders = [self._leader] if self._leader else []
        end_all_processes(f"{self._mark}:{self.server.name}", leaders, patience=0.5)
        process.wait()


def _has_ended(child: int) -> bool:
    """Check the process without reaping it: while a dead process is not reaped, no other process gets its id."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
