"""Ctrl-C during merges that run beside each other: the flush ends at once, and the next one recovers."""

import signal
import threading
import time
from contextlib import suppress

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import NothingToDo
from tidegate.flush.flush import flush

TABLES = (build_table("lake.shop.a", topics=("a",)), build_table("lake.shop.b", topics=("b",)))


@pytest.mark.usefixtures("keyboard")
def test_interrupt_does_not_wait_for_a_merge_that_hangs_and_the_next_flush_publishes_every_row() -> None:
    world, release = World(), threading.Event()
    for topic in ("a", "b"):
        world.broker.create(topic, 2)
        for partition in (0, 1):
            name = f"{topic}{partition}"
            world.broker.produce(topic, {"id": name}, {"id": name, "name": "x"}, partition)
    barrier = threading.Barrier(2)  # an interrupt that meets the start of a thread would leave one that never ran

    def interrupt(call: str, moment: str) -> None:
        if (call, moment) != ("commits.publish", "before") or release.is_set():
            return
        if barrier.wait(30) == 0:
            # a real signal: `_thread.interrupt_main` wakes no thread that waits already
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        release.wait(30)

    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            flush(world.open_session(build_pipeline(*TABLES), interrupt), merges_at_once=2)
        assert time.monotonic() - begun < 15
    finally:
        release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("tidegate-merge"):
            thread.join(30)
    with suppress(NothingToDo):
        flush(world.open_session(build_pipeline(*TABLES)), merges_at_once=2)
    assert sorted(row["id"] for row in world.read_rows("lake.shop.a")) == ["a0", "a1"]
    assert sorted(row["id"] for row in world.read_rows("lake.shop.b")) == ["b0", "b1"]
