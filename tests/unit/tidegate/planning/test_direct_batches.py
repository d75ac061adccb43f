"""Which batches are merged without being staged: those whose rows are right without a look at staged ones."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.model.batch import Plan
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import TableState
from tidegate.planning.direct_batches import (
    BATCHES_STAGED,
    MAX_ROWS_PER_OFFSET,
    SMALL_TABLE_ROWS,
    build_staged_instead,
    can_merge_directly,
    find_staged_instead,
    is_behind_refused,
    is_direct_worth_it,
)
from tidegate.spec.runtime import SparkMode, SparkTarget, UseWhen
from tidegate.spec.table import DeleteMode
from tidegate.steps.plan import plan

RANGES = Ranges.from_dict({"orders": {"0": [0, 6], "1": [10, 14]}})  # ten offsets
STAGED_TABLES: dict[str, dict[str, Any]] = {
    "deletes only": {"mode": "delete"},
    "soft deletes": {"deletes": DeleteMode.SOFT, "deleted_column": "_deleted"},
    "an order beyond the offset": {"sequence_by": ("name",)},
    "partial updates": {"partial_updates": True},
    "audits": {"audits": ("id IS NOT NULL",)},
}


@pytest.mark.parametrize("mode", ["upsert_delete", "upsert", "append"])
def test_plain_tables_can(mode: str) -> None:
    table = build_table(mode=mode)
    assert can_merge_directly(build_pipeline(table, direct=True), table)
    assert not can_merge_directly(build_pipeline(table), table)


@pytest.mark.parametrize("options", STAGED_TABLES.values(), ids=STAGED_TABLES)
def test_tables_whose_rows_or_staged_rows_decide_cannot(options: dict[str, Any]) -> None:
    table = build_table(**options)
    assert not can_merge_directly(build_pipeline(table, direct=True), table)


def test_tables_that_share_a_read_and_submitted_jobs_cannot() -> None:
    table, second_table = build_table(), build_table("lake.shop.copy")
    assert not can_merge_directly(build_pipeline(table, second_table, direct=True), table)
    submitted = replace(build_pipeline(table, direct=True), spark=SparkTarget(mode=SparkMode.SUBMIT))
    assert not can_merge_directly(submitted, table)


def build_state(total: int | None, rewrites_files: bool = False, **marks: str) -> TableState:
    return TableState("u", 1, 0, None, 0, (), marks=marks, total_records=total, rewrites_files=rewrites_files)


@pytest.mark.parametrize(
    ("span", "total", "expected"),
    [
        (10, 0, True),
        (10, SMALL_TABLE_ROWS, True),
        (10, SMALL_TABLE_ROWS + 1, False),
        (SMALL_TABLE_ROWS, SMALL_TABLE_ROWS * MAX_ROWS_PER_OFFSET, True),
        (SMALL_TABLE_ROWS, SMALL_TABLE_ROWS * MAX_ROWS_PER_OFFSET + 1, False),
        (10, None, False),
    ],
)
def test_table_that_is_large_beside_the_batch_is_merged_from_staged_rows(span: int, total, expected: bool) -> None:
    ranges = Ranges({"t": {0: (5, 5 + span // 2), 1: (0, span - span // 2)}})
    assert is_direct_worth_it(build_table(), build_state(total), ranges) is expected


@pytest.mark.parametrize("total", [SMALL_TABLE_ROWS * MAX_ROWS_PER_OFFSET, None])
def test_rows_that_are_only_appended_read_none_of_the_table(total: int | None) -> None:
    assert is_direct_worth_it(build_table(mode="append"), build_state(total), RANGES)


@pytest.mark.parametrize(("mode", "expected"), [("append", True), ("upsert", False)])
def test_merge_without_bounds_into_a_table_whose_files_are_rewritten_would_rewrite_all(mode: str, expected) -> None:
    assert is_direct_worth_it(build_table(mode=mode), build_state(5, rewrites_files=True), RANGES) is expected


def test_first_batch_of_a_table_that_is_not_there_is_worth_it() -> None:
    assert is_direct_worth_it(build_table(), None, RANGES)


@pytest.mark.parametrize(
    ("batch", "last", "expected"),
    [
        (7, "7", True),
        (7 + BATCHES_STAGED, "7", True),
        (8 + BATCHES_STAGED, "7", False),
        (6, "7", False),
        (1, None, False),
    ],
)
def test_behind_a_batch_that_had_to_be_staged_some_are_not_tried(batch: int, last, expected: bool) -> None:
    assert is_behind_refused(batch, last) is expected


def test_batch_that_was_staged_after_all_is_known_by_its_attempt() -> None:
    assert find_staged_instead("shop", build_state(0, **build_staged_instead("shop", 7, "a1"))) == (7, "a1")


def test_mark_of_another_pipeline_says_nothing() -> None:
    assert find_staged_instead("shop", build_state(0, **build_staged_instead("other", 7, "a1"))) is None
    assert find_staged_instead("shop", None) is None


def test_plan_says_which_batch_is_direct_and_is_read_back_as_it_was() -> None:
    world = World()
    world.broker.create("orders", 2)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 1)
    planned = plan(world.build_ports(build_pipeline(direct=True)))
    assert [table.direct for table in planned.tables] == [True]
    assert planned.to_dict()["tables"][0]["direct"] is True
    assert Plan.from_dict(planned.to_dict()) == planned
    usual = plan(world.build_ports(build_pipeline()))
    assert "direct" not in usual.to_dict()["tables"][0]
    assert Plan.from_dict(usual.to_dict()) == usual
    assert build_pipeline(direct=True).merge.direct is UseWhen.AUTO
