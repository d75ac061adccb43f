"""Each action is tried twice, and the first try ends anywhere: what is done in the end is what was asked for, once."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes import BAD, World, build_pipeline, build_table
from tidegate.errors import BadRecord, NothingToDo
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status
from tidegate.reprocess import discard as reprocess_discard
from tidegate.spec.source import Errors
from tidegate_airflow import errors, tasks
from unit.tidegate_airflow.operators.test_action_tries import Run

FIRST, SECOND = "lake.shop.orders", "lake.shop.users"
TABLES = (FIRST, SECOND)
STRICT = build_pipeline(*(build_table(name, topics=("orders",)) for name in TABLES))
ALL = Errors("all", 9)
TOLERANT = build_pipeline(
    *(replace(build_table(name, topics=("orders",)), errors=ALL) for name in TABLES), source={"errors": ALL}
)
LETTERS = "lake.shop.tidegate_shop_dead_letters"


class Ended(BaseException):
    """The process is gone."""


class Outside:
    """Two tables of one topic with two partitions, and the calls that change something, at any of which it ends."""

    def __init__(self, pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.pipeline, self.monkeypatch = World(), pipeline, monkeypatch
        self.calls, self.ends_at = 0, -1
        self.world.broker.create("orders", 2)
        monkeypatch.setattr(tasks, "assemble_session", lambda name, engine=None: self.world.open_session(pipeline))
        monkeypatch.setattr(errors, "push_failure_reason", lambda reason: None)

    def produce(self, partition: int, key: str, value: Any = None) -> None:
        self.world.broker.produce("orders", {"id": key}, value or {"id": key, "name": key}, partition)

    def flush(self) -> None:
        flush(self.world.open_session(self.pipeline))

    def count(self, run: Run) -> None:
        """From now on every change of a table and of the task's state is counted, and may be the last."""
        destination, state = self.world.destination, run.task_state
        for owner, name in (
            (destination, "publish"),
            (destination, "add_snapshot"),
            (destination, "undo_rollback"),
            (state, "set"),
        ):
            self.monkeypatch.setattr(owner, name, self._wrap(getattr(owner, name)))

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            result = original(*words, **more)
            number, self.calls = self.calls, self.calls + 1
            if number == self.ends_at:
                raise Ended
            return result

        return call

    def list_actions(self) -> dict[str, list[tuple[str, str]]]:
        status = read_status(self.world.open_session(self.pipeline))
        return {row["table"]: [(one["action"], one["by"]) for one in row["actions"]] for row in status["tables"]}

    def read_ids(self) -> dict[str, list[str]]:
        return {name: sorted(row["id"] for row in self.world.read_rows(name)) for name in TABLES}

    def roll_back(self) -> None:
        for name in TABLES:
            table = self.world.destination.tables[name]
            self.world.destination.rollback(name, table.snapshots[int(table.refs["main"])].parent)


def build_bad_record(monkeypatch: pytest.MonkeyPatch) -> Outside:
    outside = Outside(STRICT, monkeypatch)
    outside.produce(0, "a")
    outside.flush()
    outside.produce(1, "bad", BAD)
    outside.produce(1, "b")
    with pytest.raises(BadRecord):
        outside.flush()
    return outside


def build_rolled_back(monkeypatch: pytest.MonkeyPatch) -> Outside:
    outside = Outside(STRICT, monkeypatch)
    for keys in ("ab", "cd"):
        for partition, key in enumerate(keys):
            outside.produce(partition, key)
        outside.flush()
    outside.roll_back()
    return outside


def build_letters(monkeypatch: pytest.MonkeyPatch) -> Outside:
    """A statement takes one of the two letters that each table has."""
    monkeypatch.setattr(reprocess_discard, "MAX_LETTERS_PER_STATEMENT", 1)
    outside = Outside(TOLERANT, monkeypatch)
    produce_letters(outside)
    return outside


def produce_letters(outside: Outside) -> None:
    for partition in (0, 1):
        outside.produce(partition, f"bad{partition}", BAD)
        outside.produce(partition, f"good{partition}")
    outside.flush()


def judge_bad_record(outside: Outside) -> None:
    outside.flush()
    assert outside.read_ids() == {FIRST: [*"ab"], SECOND: [*"ab"]}


def judge_rewound(outside: Outside) -> None:
    outside.flush()
    assert outside.read_ids() == {FIRST: [*"abcd"], SECOND: [*"abcd"]}


def judge_kept(outside: Outside) -> None:
    with pytest.raises(NothingToDo):
        outside.flush()
    assert outside.read_ids() == {FIRST: [*"ab"], SECOND: [*"ab"]}


def judge_letters(outside: Outside) -> None:
    rows = outside.world.destination.tables[LETTERS].read_rows()
    assert sorted((row["table"], row["partition"], row["stage"], row["message"].count("by ann")) for row in rows) == [
        (name, partition, "discarded", 1) for name in TABLES for partition in (0, 1)
    ]


CASES: dict[str, tuple[dict[str, Any], Callable[..., Outside], Callable[[Outside], None]]] = {
    "skip": ({"at": "orders:1:0"}, build_bad_record, judge_bad_record),
    "rewind": ({}, build_rolled_back, judge_rewound),
    "keep": ({}, build_rolled_back, judge_kept),
    "discard": ({"because": "a load test"}, build_letters, judge_letters),
}


@pytest.mark.parametrize("is_previewed", [False, True], ids=["", "previewed"])
@pytest.mark.parametrize("action", CASES)
def test_try_that_ends_at_any_change_is_followed_by_one_that_does_the_rest(
    action: str, is_previewed: bool, record_property: Callable[[str, object], None]
) -> None:
    words, build, judge = CASES[action]
    ends_at, total = 0, 1000
    while ends_at < total:
        with pytest.MonkeyPatch.context() as monkeypatch:
            outside = build(monkeypatch)
            shown = Run(action=action, preview=True, **words)
            shown.attempt()
            run = Run(action=action, previewed=shown.preview["digest"] if is_previewed else None, **words)
            outside.count(run)
            outside.ends_at = ends_at
            try:
                run.attempt()
                total, outside.ends_at = outside.calls, -1
            except Ended:
                outside.ends_at, ends_at = -1, ends_at + 1
                run.attempt()
            case = f"ends behind change {ends_at}"
            assert outside.list_actions() == {FIRST: [(action, "ann")], SECOND: [(action, "ann")]}, case
            judge(outside)
    assert ends_at >= 6
    record_property("counted", {"action cases": ends_at})


@pytest.mark.parametrize("is_previewed", [False, True], ids=["", "previewed"])
def test_letters_that_come_between_two_tries_are_not_discarded(is_previewed: bool) -> None:
    """The second try discards what is left of those that were asked for, and these alone."""
    ends_at, total = 0, 1000
    while ends_at < total:
        with pytest.MonkeyPatch.context() as monkeypatch:
            outside = build_letters(monkeypatch)
            shown = Run(action="discard", preview=True, because="a load test")
            shown.attempt()
            digest = shown.preview["digest"] if is_previewed else None
            run = Run(action="discard", previewed=digest, because="a load test")
            outside.count(run)
            outside.ends_at = ends_at
            with suppress(Ended):
                run.attempt()
                total = outside.calls
            outside.ends_at, ends_at = -1, ends_at + 1
            outside.world.clock.pause(60)
            produce_letters(outside)
            run.attempt()
            rows = outside.world.destination.tables[LETTERS].read_rows()
            waiting = sorted((row["table"], row["partition"], row["offset"]) for row in rows if not row["replayed_at"])
            assert waiting == [(name, partition, 2) for name in TABLES for partition in (0, 1)]
            details = {
                table["table"]: [noted["details"] for noted in table["actions"]]
                for table in read_status(outside.world.open_session(TOLERANT))["tables"]
            }
            assert details == {name: ["dead_letters=2 because: a load test"] for name in TABLES}


def test_rest_of_a_discard_that_others_have_changed_is_refused_with_a_message_that_says_so() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        outside = build_letters(monkeypatch)
        run = Run(action="discard", table=FIRST, because="a load test")
        outside.count(run)
        outside.ends_at = 0
        with pytest.raises(Ended):
            run.attempt()
        outside.ends_at = -1
        Run(action="discard", table=FIRST, offsets=["orders:1:0"], because="by hand").attempt()
        with pytest.raises(
            AirflowFailException, match="discarded some dead letters, and those that wait are not just its rest"
        ):
            run.attempt()
