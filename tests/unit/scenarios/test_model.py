"""Random sequences of changes, flushes, deaths and zombies, against a model of a few lines: the table always agrees."""

import json
from contextlib import suppress
from typing import Any

from examples import choose_number
from fakes import build_pipeline, build_table
from fakes.interrupted_runner import STEPS_OF_TWO_CLOCKS, InterruptedRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tidegate.errors import ConfigurationError
from tidegate.reprocess.rebase import propose_rebase
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, Stage

NAME, PARTITIONS = "lake.shop.orders", 3
COLUMNS = (Column("id", "INT"), Column("part", "STRING"), Column("n", "INT"))
MODES = ("upsert_delete", "upsert", "delete", "append")
KEYS = st.tuples(st.integers(0, 3), st.sampled_from([None, "a"]))
CHANGES = st.tuples(st.just("change"), KEYS, st.one_of(st.none(), st.integers(0, 99)))
STEPS = st.one_of(
    CHANGES,
    CHANGES,
    CHANGES,
    st.tuples(st.just("abort"), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("flush"), st.integers(1, 8)),
    st.tuples(st.just("crash"), st.integers(1, 8), st.integers(1, 90)),
    st.tuples(st.just("pause"), st.integers(1, 8), st.integers(1, 60), st.integers(1, 2)),
    st.tuples(st.just("stage"), st.integers(1, 8)),
    st.tuples(st.just("queue"), st.integers(1, 3), st.integers(2, 4)),
    st.tuples(st.just("merge_as_zombie"), st.integers(0, 5)),
    st.tuples(st.just("foreign")),
    st.tuples(st.just("forget")),
    st.tuples(st.just("rollback"), st.integers(1, 4)),
    st.tuples(st.just("replay")),
)


def compute_rows(mode: str, changes: list[tuple[tuple, int | None]]) -> list[dict[str, Any]]:
    """The model."""
    rows: list[tuple[tuple, int]] = []
    for key, n in changes:
        if mode.startswith("upsert") and (n is not None or mode == "upsert_delete"):
            rows = [row for row in rows if row[0] != key]
        if mode == "delete" and n is None:
            rows = [row for row in rows if row[0] != key]
        if n is not None:
            rows.append((key, n))
    return [{"id": key[0], "part": key[1], "n": n} for key, n in rows]


class Runner(InterruptedRunner):
    """Plays one sequence of steps in a world of its own."""

    def __init__(self, mode: str, stage_seconds: int | None = None) -> None:
        super().__init__()
        self.mode, self.stage_clock = mode, Stage(stage_seconds)
        self.world.broker.create("orders", PARTITIONS)
        self.changes: list[tuple[tuple, int | None]] = []

    def build_pipeline(self, cap: int) -> Pipeline:
        table = build_table(NAME, self.mode, keys=("id", "part"), columns=COLUMNS)
        return build_pipeline(table, max_records=cap, on_rollback="rewind", stage=self.stage_clock)

    def change(self, key: tuple, n: int | None) -> None:
        key_values = {"id": key[0], "part": key[1]}
        partition = (key[0] * 2 + (key[1] is None)) % PARTITIONS
        self.world.broker.produce("orders", key_values, None if n is None else {**key_values, "n": n}, partition)
        self.changes.append((key, n))

    def abort(self, partition: int) -> None:
        self.world.broker.transaction("orders", [({"id": 0}, {"id": 0, "n": -1})], partition, "abort")

    def forget(self) -> None:
        self.world.broker.groups.clear()

    def replay(self) -> None:
        """Read everything once more: upserts end in the same rows, other modes are not meant for it."""
        if self.mode.startswith("upsert"):
            with suppress(ConfigurationError):  # no position yet
                session = self.world.open_session(self.build_pipeline(9))
                propose_rebase(session, "earliest").perform("ann")


def sort_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


MODEL_SETTINGS = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "phases": [Phase.generate, Phase.shrink],
}


def check_model(runner: Runner, steps: list[tuple]) -> None:
    for name, *arguments in steps:
        getattr(runner, name)(*arguments)
    runner.finish()
    assert sort_rows(runner.world.read_rows(NAME)) == sort_rows(compute_rows(runner.mode, runner.changes))
    ends = {p: part.end for p, part in enumerate(runner.world.broker.partitions["orders"])}
    if any(ends.values()):
        assert runner.world.broker.read_committed("tidegate-shop", ("orders",)) == {"orders": ends}


@settings(max_examples=choose_number(800), **MODEL_SETTINGS)
@given(st.sampled_from(MODES), st.lists(STEPS, min_size=4, max_size=30))
def test_table_equals_the_model_after_any_sequence_of_changes_deaths_and_zombies(mode: str, steps: list) -> None:
    check_model(Runner(mode), steps)


@settings(max_examples=choose_number(800), **MODEL_SETTINGS)
@given(st.sampled_from(MODES), st.lists(st.one_of(STEPS, CHANGES, STEPS_OF_TWO_CLOCKS), min_size=4, max_size=40))
def test_table_equals_the_model_after_any_runs_of_two_clocks_beside_each_other(mode: str, steps: list) -> None:
    check_model(Runner(mode, 10), steps)
