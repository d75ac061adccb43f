"""Runs of a publication that are killed, stopped or overtaken at every call of their producers, in memory.

The keys take every way through three snapshots, so some return to an old value and some come and go; the next run
always leads to another snapshot than the one that was interrupted. On a real broker: `crash.publishing`.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
from fakes.producing import Killed
from fakes.publications import Outside
from tidegate.errors import NothingToDo, PublishedElsewhere, RetryLater
from tidegate.ports.publication_session import PublicationSession
from tidegate.publications.publish import publish
from tidegate.spec.publication import KeyOut

EXACTLY, AT_LEAST = "exactly-once", "at-least-once"
VALUES = ("", "x", "y")
WAYS = {"k" + "".join(v or "-" for v in way): way for way in product(VALUES, repeat=3) if any(way)}
PARTS = 3


def build_outside(delivery: str, is_first: bool = False) -> Outside:
    """The first snapshot is published, unless a first run is looked at."""
    world = Outside(delivery=delivery, parallelism=PARTS, transaction_records=3)
    commit(world, 0)
    if not is_first:
        publish(world.open_session())
    return world


def commit(world: Outside, number: int) -> None:
    world.table.commit(**{key: way[number] for key, way in WAYS.items() if way[number]})


def try_to_publish(session: PublicationSession) -> None:
    with suppress(NothingToDo, PublishedElsewhere, RetryLater, Killed):
        publish(session)


def finish(world: Outside) -> None:
    """Runs until one finds nothing to do."""
    for _ in range(4):
        try:
            publish(world.open_session())
        except NothingToDo:
            return
    raise AssertionError("there is always something left")


def judge(world: Outside, case: str) -> None:
    """A reader of committed records saw each key go its way, each change once, and ends with the table."""
    assert world.topic.read_latest() == world.table.read_latest(), case
    if world.publication.delivery == AT_LEAST:
        return
    values_by_key: dict[str, list[str]] = {}
    for key, value in world.topic.records:
        values_by_key.setdefault(key, [""]).append(value or "")
    for key, values in values_by_key.items():
        assert all(one != two for one, two in pairwise(values)), f"{case}: {key} twice: {values}"
        states = iter(("", *WAYS[key]))
        assert all(value in states for value in values), f"{case}: {key} saw {values}, its way is {WAYS[key]}"


def count_calls(delivery: str, is_first: bool) -> int:
    world = build_outside(delivery, is_first)
    commit(world, 1)
    world.topic.broker.calls = 0
    publish(world.open_session())
    return world.topic.broker.calls


@pytest.mark.guard(
    "publication: a resumed attempt continues after the last committed key",
    file="jobs/tidegate_spark/publish/producer.py",
    text="if self._superseded or (self._after is not None and key <= self._after):",
    off="if self._superseded:",
    case="exactly-once-changes",
)
@pytest.mark.guard(
    "publication: a part's progress is in the transaction of its changes",
    file="jobs/tidegate_spark/publish/producer.py",
    text="        value = json.dumps(position).encode()\n",
    off=(
        "        value = json.dumps(position).encode()\n"
        "        if self._is_transactional:\n"
        "            self._flush()\n"
        "            self._retry(lambda: self._producer.commit_transaction(ANSWER_TIMEOUT_SECONDS))\n"
        "            self._producer.begin_transaction()\n"
    ),
    case="exactly-once-changes",
)
@pytest.mark.guard(
    "publication: without a transaction a part records its target before its first change",
    file="jobs/tidegate_spark/publish/producer.py",
    text="record is not None and (self._is_transactional or bool(last_key))",
    off="record is not None",
    case="at-least-once-changes",
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first run", "changes"])
@pytest.mark.parametrize("delivery", [EXACTLY, AT_LEAST])
def test_killed_run_is_recovered_by_a_run_towards_another_snapshot(
    delivery: str, is_first: bool, record_property
) -> None:
    calls = count_calls(delivery, is_first)
    for at in range(calls):
        world = build_outside(delivery, is_first)
        commit(world, 1)
        world.die_at(at)
        with pytest.raises(Killed):
            publish(world.open_session())
        commit(world, 2)
        finish(world)
        judge(world, f"killed at call {at}")
    record_property("counted", {"crash cases": calls})


def build_events(delivery: str, snapshots: int) -> Outside:
    """A table of rows without a key, many of them equal, that grew so often and whose publication followed."""
    world = Outside(key=KeyOut(()), delivery=delivery, parallelism=PARTS, transaction_records=3)
    for number in range(snapshots):
        insert_rows(world, number)
        publish(world.open_session())
    return world


def insert_rows(world: Outside, number: int) -> None:
    rows = [f"row {row % 5}" for row in range(12 * (number + 1))]
    world.table.commit(**{f"{place}": text for place, text in enumerate(rows)})


@pytest.mark.parametrize("snapshots", [0, 1], ids=["first run", "changes"])
@pytest.mark.parametrize("delivery", [EXACTLY, AT_LEAST])
def test_inserted_rows_are_each_produced_once_whichever_call_kills_the_run(
    delivery: str, snapshots: int, record_property
) -> None:
    """Of equal rows as many as there are. At least once: none is lost."""
    world = build_events(delivery, snapshots)
    insert_rows(world, snapshots)
    world.topic.broker.calls = 0
    publish(world.open_session())
    calls = world.topic.broker.calls
    for at in range(calls):
        world = build_events(delivery, snapshots)
        insert_rows(world, snapshots)
        world.die_at(at)
        with pytest.raises(Killed):
            publish(world.open_session())
        insert_rows(world, snapshots + 1)
        finish(world)
        rows, produced = Counter(world.table.read_latest().values()), Counter(value for _, value in world.topic.records)
        assert rows <= produced if delivery == AT_LEAST else rows == produced, f"killed at call {at}"
        assert {key for key, _ in world.topic.records} == {""}
    record_property("counted", {"crash cases": calls})


class Interrupted:
    """Spark, but something takes place before a call of the producers; once."""

    def __init__(self, world: Outside, call: int, interrupt: Callable[[], None]) -> None:
        self._world, self._call, self._meanwhile = world, call, interrupt

    def run(self, job: Any) -> None:
        broker = self._world.topic.broker
        start = broker.calls

        def meet(number: int, name: str) -> None:
            if number == start + self._call:
                broker.before_call = lambda number, name: None
                self._meanwhile()

        broker.before_call = meet
        self._world.spark.run(job)


def meet_another_run(
    is_first: bool, stopped_at: int, killed_at: int | None, first_killed_at: int | None = None
) -> Outside:
    """A run stops, a later one from the same progress leads elsewhere and may die, the first one goes on."""
    world = build_outside(EXACTLY, is_first)
    commit(world, 1)

    def meanwhile() -> None:
        commit(world, 2)
        if killed_at is not None:
            world.die_at(killed_at)
        try_to_publish(world.open_session())
        world.die_at(-1 if first_killed_at is None else first_killed_at)

    try_to_publish(replace(world.open_session(), engine=Interrupted(world, stopped_at, meanwhile)))
    world.die_at(-1)
    finish(world)
    return world


@pytest.mark.guard(
    "publication: a part continues only from the progress for which its run was planned",
    file="jobs/tidegate_spark/publish/producer.py",
    text='        elif record != self._part["expected"]:\n',
    off="        elif False:\n",
    case="changes",
)
@pytest.mark.guard(
    "publication: a part that is behind continues from its own state",
    file="plugins/tidegate/publications/plan.py",
    text="origin=stays.to, joined_origin",
    off="joined_origin",
    case="changes",
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first run", "changes"])
def test_two_runs_from_the_same_progress_to_different_snapshots_leave_the_table(is_first: bool) -> None:
    """The later run dies at each of its calls, and the earlier one, which was planned before it, goes on behind it."""
    for killed_at in range(count_calls(EXACTLY, is_first)):
        world = meet_another_run(is_first, 0, killed_at)
        judge(world, f"the later run killed at call {killed_at}")


@pytest.mark.guard(
    "publication: a part continues between its own two states",
    file="plugins/tidegate/publications/plan.py",
    text="return part.pair == goal.pair if part.state is None else _is_origin(session, part, goal)",
    off="return part.state is None or _is_origin(session, part, goal)",
    case="changes",
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first run", "changes"])
def test_two_runs_that_both_die_on_their_ways_to_different_snapshots_leave_the_table(is_first: bool) -> None:
    calls = count_calls(EXACTLY, is_first)
    for killed_at, first_killed_at in product(range(0, calls, 5), repeat=2):
        world = meet_another_run(is_first, 0, killed_at, first_killed_at)
        judge(world, f"the later run killed at call {killed_at}, the earlier one at {first_killed_at}")


@pytest.mark.parametrize("is_first", [True, False], ids=["first run", "changes"])
def test_run_that_sleeps_at_any_call_while_others_go_on_changes_nothing_when_it_wakes(is_first: bool) -> None:
    calls = count_calls(EXACTLY, is_first)
    for stopped_at in range(calls):
        for killed_at in (None, calls // 2):
            world = meet_another_run(is_first, stopped_at, killed_at)
            judge(world, f"stopped at call {stopped_at}, the later run killed at {killed_at}")
