"""``python -m tidegate``: the same operations without the scheduler."""

import io
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from tidegate.cli.main import INTERRUPTED, main

PROBE_THREAD_PREFIX = "doctor "


def _wait_for_servers() -> None:
    from tidegate.adapters.server_probe import COMMAND_PATIENCE_SECONDS, Patience

    Patience.seconds = COMMAND_PATIENCE_SECONDS


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    # as by Ctrl-C, so that a command cleans up, for example a submitted job's secrets
    raise KeyboardInterrupt


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # the number of a closed stream would go to the next file that is opened, for example a database's
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (as long as the process lives)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error does


def run_and_exit() -> NoReturn:
    _prepare_streams()
    signal.signal(signal.SIGTERM, _interrupt)
    code = main(prepare=_wait_for_servers)
    # merges in threads are not waited for: whatever they do now, the next run makes good; nor is a server that the
    # doctor has given up, which Spark's client would still ask to clean up
    if code == INTERRUPTED or any(thread.name.startswith(PROBE_THREAD_PREFIX) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
