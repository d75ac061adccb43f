"""Whose turn it is where more runs are due than may go on at once."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from tidegate.runner.worker import Slots

DEADLINE_SECONDS = 60.0
RUN_SECONDS = 0.002  # for which a run has its slot; longer than it takes to ask for the next


def deny() -> bool:
    return False


def run_beside_each_other(count: int, live: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=live, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()


def test_whoever_always_has_work_keeps_nobody_out() -> None:
    """Each gives its slot back and asks for the next at once, as a pipeline that is behind does."""
    slots, turns, lock = Slots(2), list[int](), threading.Lock()
    has_begun = threading.Barrier(6)

    def live(number: int) -> None:
        has_begun.wait(DEADLINE_SECONDS)
        while len(turns) < 240:
            assert slots.acquire(deny)
            with lock:
                turns.append(number)
            time.sleep(RUN_SECONDS)
            slots.release()

    run_beside_each_other(6, live)
    turn_counts = Counter(turns)
    assert (len(turn_counts), min(turn_counts.values()) > 20) == (6, True), turn_counts


def test_so_many_run_at_once_and_no_more_and_who_gives_up_is_out_of_the_line() -> None:
    slots = Slots(2)
    assert slots.acquire(deny)
    assert slots.acquire(deny)
    assert not slots.acquire(lambda: True)
    slots.release()
    assert slots.acquire(deny)
