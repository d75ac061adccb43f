"""How many runs go on at once in one process, and whose turn it is."""

import threading
from collections import deque
from collections.abc import Callable

LOOK_SECONDS = 1.0  # seconds between two looks at whether to give up waiting


class Slots:
    """A number of runs at once; the one that has waited longest is next.

    Not a `threading.Semaphore`: a few pipelines that always have work would keep all others out.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._waiting = deque[object]()
        self._changed = threading.Condition()

    def acquire(self, must_end: Callable[[], bool]) -> bool:
        """Wait for a slot; return False if `must_end` became true."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                while not self._free or self._waiting[0] is not ticket:
                    if must_end():
                        return False
                    self._changed.wait(LOOK_SECONDS)
                self._free -= 1
                return True
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()
