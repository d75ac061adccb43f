"""Type-2 history in memory: the rows of the model after any cuts and deaths, and what it is refused with."""

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from examples import choose_number
from fakes import build_pipeline, build_table
from fakes.interrupted_runner import STEPS_OF_TWO_CLOCKS, InterruptedRunner
from fakes.versions import Change, compute_versions
from fakes.world import Hook
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tidegate.config.pipeline_file import load_pipeline
from tidegate.errors import BadRecord, ConfigurationError, GiveUp, IncompatibleSchema
from tidegate.flush.flush import flush
from tidegate.flush.key_deduplication import can_keep_last_per_key
from tidegate.merge.owed import LetterFilter
from tidegate.merge.scd2_statements import list_change_columns
from tidegate.reprocess import rebase
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Catalog, Pipeline, Stage
from tidegate.spec.table import History
from tidegate.table.columns import list_destination_columns

NAME, PLAIN = "lake.shop.orders", "lake.shop.plain"
COLUMNS = (Column("id", "INT"), Column("v", "STRING"), Column("at", "TIMESTAMP"), Column("sub", "INT"))
CHANGES = st.tuples(
    st.just("change"),
    st.integers(0, 1),
    st.sampled_from(["upsert", "upsert", "upsert", "delete", "tombstone"]),
    st.tuples(st.integers(0, 5), st.sampled_from([None, 0, 1])),
    st.integers(0, 5),
    st.sampled_from("aab"),
)
STEPS = st.one_of(CHANGES, CHANGES, CHANGES, STEPS_OF_TWO_CLOCKS)
SETTINGS = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "phases": [Phase.generate, Phase.shrink],
}


def build_history_pipeline(timed: bool = True, **options: Any) -> Pipeline:
    table_options = {"sequence_by": ("at", "sub"), "delete_when": "gone"} if timed else {}
    return build_pipeline(build_table(NAME, columns=COLUMNS, history=History(), **table_options), **options)


class Runner(InterruptedRunner):
    """One world, and what was sent to it."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline, self.changes = pipeline, list[Change]()
        self.world.broker.create("orders", 1)
        self.world.engine.conditions["gone"] = lambda row: row.get("v") == "gone"

    def build_pipeline(self, cap: int) -> Pipeline:
        return replace(self.pipeline, merge=replace(self.pipeline.merge, max_records=cap))

    def change(self, key: int, kind: str, sequence: tuple[Any, ...], timestamp: int, value: str) -> None:
        row = {"id": key, "v": "gone" if kind == "delete" else value, "at": sequence[0], "sub": sequence[1]}
        self.world.broker.produce("orders", {"id": key}, None if kind == "tombstone" else row, timestamp=timestamp)
        self.changes.append((key, kind, sequence, timestamp, value))

    def flush(self, cap: int = 50, hook: Hook | None = None) -> bool:
        return super().flush(cap, hook)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        rows = self.world.read_rows(NAME)
        assert all(row["is_current"] == (row["valid_to"] is None) for row in rows)
        return sorted((r["id"], r["v"], r["valid_from"], order_end(r["valid_to"])) for r in rows)

    @property
    def model(self) -> list[tuple[Any, ...]]:
        return sorted((key, value, begin, order_end(end)) for key, value, begin, end in compute_versions(self.changes))


def order_end(end: int | None) -> int:
    return 99 if end is None else end


@settings(max_examples=choose_number(800), **SETTINGS)
@given(st.sampled_from([None, 10, 10]), st.lists(STEPS, min_size=4, max_size=30))
def test_rows_are_those_of_the_model_after_any_runs_of_one_or_two_clocks(
    stage_seconds: int | None, steps: list
) -> None:
    runner = Runner(build_history_pipeline(stage=Stage(stage_seconds), on_rollback="rewind"))
    for name, *arguments in steps:
        getattr(runner, name)(*arguments)
    runner.finish()
    assert runner.rows == runner.model


@settings(max_examples=choose_number(150), **SETTINGS)
@given(st.lists(CHANGES, min_size=1, max_size=8))
def test_records_that_are_read_again_change_nothing(changes: list) -> None:
    runner = Runner(build_history_pipeline())
    for _, *arguments in changes:
        runner.change(*arguments)
        runner.flush()
    before = runner.rows
    session = runner.world.open_session(runner.pipeline)
    rebase.propose_rebase(session, "earliest").perform("ann")
    runner.finish()
    assert runner.rows == before == runner.model


def test_late_change_is_woven_in_as_a_closed_row_and_a_repeated_one_opens_none() -> None:
    runner = Runner(build_history_pipeline())
    for at, value in ((10, "a"), (20, "a"), (30, "b")):
        runner.change(1, "upsert", (at, None), 0, value)
    runner.flush()
    assert runner.rows == [(1, "a", 10, 30), (1, "b", 30, 99)]
    runner.change(1, "upsert", (15, None), 0, "x")
    runner.flush()
    assert runner.rows == [(1, "a", 10, 15), (1, "a", 20, 30), (1, "b", 30, 99), (1, "x", 15, 20)]


def test_delete_closes_the_row_and_is_remembered_for_what_comes_late() -> None:
    runner = Runner(build_history_pipeline())
    runner.change(1, "delete", (30, None), 0, "")
    runner.flush()
    assert runner.rows == []
    runner.change(1, "upsert", (10, None), 0, "a")
    runner.flush()
    assert runner.rows == [(1, "a", 10, 30)]
    runner.change(1, "upsert", (40, None), 0, "a")
    runner.flush()
    assert runner.rows == [(1, "a", 10, 30), (1, "a", 40, 99)]


def test_tombstone_ends_what_came_before_it_even_if_its_own_clock_is_behind() -> None:
    runner = Runner(build_history_pipeline())
    runner.change(1, "upsert", (50, None), 0, "a")
    runner.change(1, "tombstone", (0, None), 40, "")
    runner.flush()
    assert runner.rows == [(1, "a", 50, 50)]


def test_tombstone_ends_nothing_that_came_after_it_though_its_clock_says_so() -> None:
    runner = Runner(build_history_pipeline())
    runner.change(1, "upsert", (10, None), 0, "a")
    runner.change(1, "tombstone", (0, None), 50, "")
    runner.change(1, "upsert", (20, None), 0, "b")
    runner.flush()
    assert runner.rows == [(1, "a", 10, 20), (1, "b", 20, 99)]


def test_without_a_sequence_versions_stand_at_the_records_timestamps() -> None:
    runner = Runner(build_history_pipeline(timed=False))
    for timestamp, value in ((10, "a"), (20, "b"), (15, "late")):
        runner.change(1, "upsert", (0, 0), timestamp, value)
        runner.flush()
    runner.change(1, "tombstone", (0, 0), 30, "")
    runner.flush()
    assert runner.rows == [(1, "a", 10, 15), (1, "b", 20, 30), (1, "late", 15, 20)]


def test_version_without_a_time_is_a_bad_record() -> None:
    runner = Runner(build_history_pipeline())
    runner.world.broker.produce("orders", {"id": 1}, {"id": 1, "v": "a", "at": None, "sub": 1})
    with pytest.raises(BadRecord, match="at is NULL"):
        flush(runner.world.open_session(runner.pipeline))


def test_every_change_is_staged_and_types_follow_the_time() -> None:
    table = build_history_pipeline(timed=False).tables[0]
    assert not can_keep_last_per_key(build_history_pipeline(timed=False), table)
    assert [c.type for c in list_destination_columns(table)[-3:]] == ["TIMESTAMP", "TIMESTAMP", "BOOLEAN"]
    by_number = build_table(NAME, columns=COLUMNS, history=History("a", "b", "c"), sequence_by=("sub",))
    assert list_destination_columns(by_number)[-3:] == (
        Column("a", "INT"),
        Column("b", "INT"),
        Column("c", "BOOLEAN"),
    )
    assert list_change_columns(by_number)[-1] == Column("_tidegate_sequence", "STRUCT<`sub`: INT>")


def test_changes_are_forgotten_by_the_records_own_time() -> None:
    runner, day = Runner(build_history_pipeline(timed=False)), 86_400_000
    for timestamp in (1, 2 * day, 20 * day):
        runner.world.clock.ms = max(runner.world.clock.ms, timestamp)
        runner.change(1, "upsert", (0, 0), timestamp, str(timestamp))
        runner.flush()
    assert [row["timestamp"] for row in runner.world.read_rows(f"{NAME}_changes")] == [20 * day]
    runner.change(1, "upsert", (0, 0), day, "late")
    runner.flush()
    assert [row[1:3] for row in runner.rows] == [
        ("1", 1),
        (str(2 * day), 2 * day),
        (str(20 * day), 20 * day),
        ("late", day),
    ]


def test_renamed_column_is_refused_as_what_remembers_changes_has_its_old_name() -> None:
    runner = Runner(build_history_pipeline())
    runner.change(1, "upsert", (1, 1), 0, "a")
    runner.flush()
    runner.world.destination.rename_column(NAME, "v", "w")
    runner.change(1, "upsert", (2, 1), 0, "a")
    with pytest.raises(IncompatibleSchema, match="with sequence_by or history such a column keeps its name"):
        flush(runner.world.open_session(runner.pipeline))


def test_backfill_and_replay_point_to_rebase() -> None:
    runner = Runner(build_history_pipeline())
    session = runner.world.open_session(runner.pipeline)
    with pytest.raises(GiveUp, match=r"backfill does not know tables with history.*rebase"):
        propose_backfill(session, parse_request(json.dumps({"orders": {"0": [0, 1]}}), None, None))
    with pytest.raises(GiveUp, match="replay does not know tables with history"):
        replay_dead_letters(session)


def test_table_beside_one_with_history_is_backfilled_and_replayed_by_itself() -> None:
    runner = Runner(build_pipeline(*build_history_pipeline(timed=False).tables, build_table(PLAIN, columns=COLUMNS)))
    for key in (1, 2):
        runner.change(key, "upsert", (key, 0), 0, "a")
    runner.flush()
    world, ranges = runner.world, json.dumps({"orders": {"0": [0, 2]}})
    before, session = world.read_rows(PLAIN), world.open_session(runner.pipeline)
    world.destination.add_snapshot(PLAIN, "main", (), {})  # somebody deletes all rows
    with pytest.raises(GiveUp, match=f"table={NAME}: backfill does not know tables with history"):
        propose_backfill(session, parse_request(ranges, None, None))
    apply_backfill(session, propose_backfill(session, parse_request(ranges, None, None, (PLAIN,))).backfill, print)
    assert len(before) == 2
    assert world.read_rows(PLAIN) == before
    assert replay_dead_letters(session, LetterFilter(table=PLAIN)) == []


@pytest.mark.parametrize(("table", "message"), [
    ({"upsert": False}, "keeps the versions that upserts make"),
    ({"deletes": "soft"}, "not with history"),
    ({"partial_updates": True}, "not with history"),
    ({"history_columns": {"valid_to": "at"}}, "adds the column at, and the record has one too"),
    ({"history_columns": {"valid_to": "valid_from"}}, "valid_from is given twice"),
    ({"history": "none", "history_columns": {"valid_to": "until"}}, "only for history: scd2"),
])  # fmt: skip
def test_what_history_cannot_be_combined_with_is_one_line(tmp_path, table: dict, message: str) -> None:
    source = {"topics": ["t"], "key": {"fields": ["id"]}, "value": {"schema": "id INT, at DATE"}}
    file = tmp_path / "orders.yaml"
    text = {"source": source, "tables": [{"name": "lake.shop.orders", "history": "scd2", **table}]}
    file.write_text(yaml.safe_dump(text))
    catalogs = {"lake": Catalog("lake", "iceberg"), "dwh": Catalog("dwh", "bigquery")}
    with pytest.raises(ConfigurationError, match=message) as error_info:
        load_pipeline(file, catalogs)
    assert len([p for p in error_info.value.problems if message in p]) in (1, 2)
