"""``python -m tidegate``: the same operations without the scheduler."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from tidegate.cli.main import INTERRUPTED, main

PROBE_THREAD_PREFIX = "doctor "


def _wait_for_servers() -> None:
    """Wait for a server that is down: nobody would try the command again."""
    from tidegate.adapters.server_probe import COMMAND_PATIENCE_SECONDS, Patience

    Patience.seconds = COMMAND_PATIENCE_SECONDS


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End as by Ctrl-C, so that a command takes away what it left on this machine: a submitted job's secrets, say."""
    raise KeyboardInterrupt


def run_and_exit() -> NoReturn:
    """Run one command and end the process with its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    code = main(prepare=_wait_for_servers)
    # merges in threads are not waited for: whatever they do now, the next run makes good; nor is a server that the
    # doctor has given up, which Spark's client would still ask to clean up
    if code == INTERRUPTED or any(one.name.startswith(PROBE_THREAD_PREFIX) for one in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
