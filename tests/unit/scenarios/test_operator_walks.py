"""Random stories of an operator: flushes that die, tables and topics that come and go, rollbacks, moves, backfills, bad
records and a log that changes. Whoever does what the messages say ends with the tables that the records ask for.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from examples import choose_number
from fakes import BAD, Crash, CrashAt, FailsToMerge, PauseAt, World, build_pipeline, build_table
from tidegate.errors import NothingToDo, TidegateError
from tidegate.flush.flush import flush, merge_staged_batches, stage_new_batches
from tidegate.model.offsets import find_lowest, iterate_offsets
from tidegate.model.table_state import TableState
from tidegate.ports.session import Session
from tidegate.reprocess.backfill import apply_slice, drop_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.rebase import propose_moves, propose_rebase, rebase_position
from tidegate.reprocess.record import parse_address
from tidegate.reprocess.rollback import propose_answer, propose_undo
from tidegate.reprocess.skip import propose_skip
from tidegate.spec.pipeline import Stage
from tidegate.table.observed_table import observe_tables

NAMES = ("lake.shop.one", "lake.shop.two", "lake.shop.three")
MODES = ("upsert_delete", "upsert_delete", "upsert", "append")
MAX_FLUSHES = 200


class Operator:
    """One pipeline over one or two topics, what its records ask for, and a person who reads messages."""

    def __init__(self, seed: int, clock: Stage) -> None:
        self.clock = clock
        self.choice, self.world = Random(seed), World()
        self.topics = ["orders", "more"][: self.choice.choice((1, 2))]
        for topic in self.topics:
            self.world.broker.create(topic, self.choice.randint(1, 3))
        table_names = NAMES[: self.choice.randint(1, 3)]
        self.modes = {name: self.choice.choice(MODES) for name in table_names}
        self.named = set(table_names)
        self.cap, self.growth = self.choice.choice((2, 3, 50)), "fail"
        self.changes: list[tuple[str, str | None]] = []
        self.is_short = False  # whether the log has lost what was published

    def open_session(self, hook: Callable[[str, str], None] | None = None, **options: Any) -> Session:
        topics = tuple(self.topics)
        tables = [build_table(name, self.modes[name], topics=topics) for name in NAMES if name in self.named]
        pipeline_options = {"max_records": self.cap, "on_partition_growth": self.growth, "stage": self.clock}
        return self.world.open_session(build_pipeline(*tables, **pipeline_options), hook, **options)

    def state(self, name: str) -> TableState | None:
        return self.world.destination.read_state(name, "shop")

    def any_table(self) -> str:
        return self.choice.choice(sorted(self.named))

    def produce(self) -> None:
        """Each key lies in one partition."""
        topic = self.choice.choice(self.topics)
        partition = self.choice.randrange(len(self.world.broker.partitions[topic]))
        key = f"{topic}-{partition}-{self.choice.randrange(3)}"
        name = None if self.choice.random() < 0.2 else str(len(self.changes))
        self.world.broker.produce(topic, {"id": key}, None if name is None else {"id": key, "name": name}, partition)
        self.changes.append((key, name))

    def produce_bad(self) -> None:
        self.world.broker.produce(self.choice.choice(self.topics), {"id": "bad"}, BAD)

    def flush(self) -> None:
        table, number = self.any_table(), self.choice.randint(1, 90)
        hook, engine = None, self.world.engine
        run: Callable[[Session], object] = flush
        if self.clock.has_clock:
            run = self.choice.choice((stage_new_batches, stage_new_batches, merge_staged_batches))
        match self.choice.randrange(6):
            case 0:
                hook = CrashAt(number)
            case 1:
                hook = PauseAt(number, self.flush)
            case 2:
                engine = FailsToMerge(self.world.engine, table)
        with suppress(TidegateError, Crash):
            run(self.open_session(hook, engine=engine))

    def roll_back(self) -> None:
        """Where the log has lost records a person undoes it: nothing else brings the rows back."""
        name = self.any_table()
        table, state = self.world.destination.tables.get(name), self.state(name)
        if table is None or state is None or state.is_rolled_back or "tidegate_shop" not in table.refs:
            return
        line = [ancestor.id for ancestor in table.ancestors()]
        back = line.index(table.refs["tidegate_shop"]) + self.choice.randint(1, 3)
        if back < len(line):
            self.world.destination.rollback(name, line[back])
            if self.is_short or self.choice.random() < 0.8:
                self.answer(name)

    def answer(self, name: str) -> None:
        session = self.open_session()
        if not self.is_short and self.choice.random() < 0.5:
            with suppress(TidegateError):
                propose_answer(session, "rewind", name).perform("ann")
        with suppress(NothingToDo):
            propose_undo(session, name, discard_foreign=True).perform("ann")
        if self.modes[name].startswith("upsert") and not self.is_short:
            with suppress(TidegateError):  # what lay behind the last flush, and was rolled back too
                self.apply(name, whole=True)

    def back_fill(self) -> None:
        with suppress(TidegateError, Crash):
            self.apply(self.any_table())

    def apply(self, name: str, *, whole: bool = False) -> None:
        """A backfill of parts of some partitions, with flushes between its batches; or of all that was published."""
        state = self.state(name)
        offsets = state.position.offsets if state and state.position else {}
        ranges: dict[str, dict[int, list[int]]] = {topic: {} for topic in offsets}
        for topic, partition, end in iterate_offsets(offsets):
            ends = sorted((self.choice.randint(0, end), self.choice.randint(0, end)))
            if whole or self.choice.random() < 0.6:
                ranges[topic][partition] = [0, end] if whole else ends
        planned = propose_backfill(self.open_session(), parse_request(ranges, None, None, (name,))).backfill
        for number in planned.numbers:
            if not whole:
                self.choice.choice((self.flush, self.produce, lambda: None))()
            apply_slice(self.open_session(), planned, number)
        drop_backfill(self.open_session(), planned.id)

    def move_back(self) -> None:
        """Rows that are appended would come twice."""
        name = self.any_table()
        state = self.state(name)
        if state is None or state.recorded_position is None or state.is_rolled_back or self.modes[name] == "append":
            return
        offsets = {
            topic: {partition: self.choice.randint(0, end) for partition, end in parts.items()}
            for topic, parts in state.recorded_position.offsets.items()
        }
        to = self.choice.choice(("earliest", json.dumps(offsets), json.dumps({topic: {} for topic in offsets})))
        with suppress(TidegateError):
            (move,) = propose_moves(self.open_session(), to, name)
            if not any(part.skipped for part in move.moves):  # staged, and gone from the log
                rebase_position(self.open_session(), move, "ann")

    def switch(self) -> None:
        self.cap = self.choice.choice((2, 3, 50))

    def take_table_out(self) -> None:
        if len(self.named) > 1:
            self.named.remove(self.any_table())

    def put_table_back(self) -> None:
        self.named |= {self.choice.choice(sorted(self.modes))}

    def compact(self) -> None:
        for table in (self.world.destination.tables.get(name) for name in self.modes):
            if table is not None and "main" in table.refs and self.choice.random() < 0.5:
                name = next(
                    table_name
                    for table_name, other_table in self.world.destination.tables.items()
                    if other_table is table
                )
                self.world.destination.add_snapshot(name, "main", tuple(table.read_rows()), {"operation": "replace"})

    def grow(self) -> None:
        topic = self.choice.choice(self.topics)
        self.world.broker.grow(topic, min(4, len(self.world.broker.partitions[topic]) + 1))

    def expire(self) -> None:
        """The log forgets what each table has, or has staged."""
        ends = [table.end for table in observe_tables(self.open_session()) if table.error is None]
        if self.named != set(self.modes) or len(ends) < len(self.modes) or not all(ends):
            return
        for topic, partition, end in iterate_offsets(find_lowest(*(end.offsets for end in ends if end))):
            is_new = any(partition not in end.offsets.get(topic, {}) for end in ends if end)
            if topic in self.topics and not is_new and self.choice.random() < 0.5:
                self.world.broker.retain_from(topic, end, partition)
                self.is_short = True

    def change_log(self) -> None:
        """A topic is made again, or left, or all are copied to another cluster; everything is published before."""
        self.named = set(self.modes)
        self.settle()
        topic, broker = self.choice.choice(self.topics), self.world.broker
        match self.choice.randrange(3):
            case 0:
                broker.create(topic, self.choice.randint(1, 3))
            case 1 if len(self.topics) > 1:
                self.topics.remove(topic)
            case 2:
                broker.cluster_id, broker.groups = f"cluster-{len(self.changes)}", {}
                broker.ids = {name: f"{name} in {broker.cluster_id}" for name in broker.ids}
        self.is_short = True  # backfills and rewinds go no farther back
        with suppress(TidegateError):
            self.settle()

    def settle(self) -> None:
        """Flush until nothing is left, and give the commands that messages name."""
        for _ in range(MAX_FLUSHES):
            self.world.clock.tick(600_000)
            try:
                flush(self.open_session())
            except NothingToDo:
                return
            except TidegateError as error:
                self.obey(str(error))
        raise AssertionError("the pipeline never came to rest")

    def obey(self, message: str) -> None:
        try:
            self.follow(message)
        except TidegateError as error:  # which names what comes first
            self.follow(str(error))

    def follow(self, message: str) -> None:
        if match := re.search(r"tidegate undo-rollback shop --table (\S+?);", message):
            self.answer(match[1])
        elif match := re.search(r"tidegate skip shop --at (\S+)", message):
            propose_skip(self.open_session(), parse_address(match[1])).perform("ann")
        elif match := re.search(r"tidegate rebase shop(?: --table (\S+))? --to (?:'([^']+)'|(\w+))", message):
            propose_rebase(self.open_session(), match[2] or match[3], match[1]).perform("ann")
        elif "on_partition_growth: accept" in message:
            self.growth = "accept"

    def expect(self, name: str) -> list[tuple[str, str]]:
        """The model."""
        if self.modes[name] == "append":
            return sorted((key, text) for key, text in self.changes if text is not None)
        rows: dict[str, str] = {}
        for key, text in self.changes:
            if text is not None:
                rows[key] = text
            elif self.modes[name] == "upsert_delete":
                rows.pop(key, None)
        return sorted(rows.items())


STEPS = {
    "produce": 30, "produce_bad": 2, "flush": 24, "roll_back": 6, "back_fill": 6, "move_back": 4, "switch": 3,
    "take_table_out": 2, "put_table_back": 4, "compact": 3, "grow": 1, "expire": 3, "change_log": 2, "settle": 2,
}  # fmt: skip


@pytest.mark.parametrize("clock", [Stage(), Stage(10)], ids=["one clock", "two clocks"])
@pytest.mark.parametrize("seed", range(choose_number(320) // 4))
def test_tables_hold_what_their_records_ask_for_after_any_story(seed: int, clock: Stage) -> None:
    operator = Operator(seed, clock)
    for step in operator.choice.choices(list(STEPS), list(STEPS.values()), k=60):
        getattr(operator, step)()
    operator.named = set(operator.modes)
    operator.settle()
    for name in operator.modes:
        actual_rows = sorted((row["id"], row["name"]) for row in operator.world.read_rows(name))
        expected_rows = operator.expect(name)
        if operator.is_short and operator.modes[name] == "append":  # a move to the begin of another log reads it whole
            actual_rows, expected_rows = sorted(set(actual_rows)), sorted(set(expected_rows))
        assert actual_rows == expected_rows, name
