"""A batch that replaces all rows of a BigQuery table: every old row goes, by statements that the service takes."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.commit import writes_into
from tidegate.adapters.bigquery.pruning import MAX_INT64, MIN_INT64, TableLayout, compute_truncate_bounds
from tidegate.adapters.bigquery.schema import Partitioning
from tidegate.merge.statements import render_merge_statements
from tidegate.model.batch import Counts
from tidegate.spec.table import Create
from tidegate.table.session import TableSession
from unit.tidegate.adapters.bigquery.test_commit import (
    Shape,
    build_analyzer,
    build_pipeline,
    build_shaped_table,
    build_staged_batch,
    open_session,
)
from unit.tidegate.adapters.bigquery.test_pruning import COLUMNS, POSITIONS, SQL, Asked, build_layout

TARGET = "`my-project`.`shop`.`orders`"
DAYS = [datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=2 * n) for n in range(5001)]
FULL_RANGE = "t.`at` BETWEEN TIMESTAMP '0001-01-01 00:00:00+00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999+00:00'"


def render_statements(layout: TableLayout, query_runner: Asked, *, rows: int = 9, **options: Any) -> tuple[str, ...]:
    """The statements of a batch with a truncate, each read by GoogleSQL's analyzer, as are the questions."""
    shape = Shape(COLUMNS, more=options)
    table = build_shaped_table(shape, "unchanged" if options.pop("kept", False) else "upsert_delete")
    pipeline = build_pipeline(table)
    tables = SimpleNamespace(
        find_bounds=lambda _, values: compute_truncate_bounds(layout, query_runner, SQL, POSITIONS, values)
    )
    commits = SimpleNamespace(has_branches=lambda _: False)
    session = replace(open_session(pipeline), tables=tables, commits=commits)
    staged = replace(build_staged_batch(table), truncated_at=4, counts=Counts(rows, rows, rows))
    statements = render_merge_statements(TableSession(session, table), staged, "b")
    analyzer = build_analyzer(pipeline, table, shape)
    for statement in (*query_runner.questions, *statements):
        analyzer.check(statement)
    assert all(writes_into(statement, TARGET) for statement in statements), "so that their rows are counted"
    return statements


def test_table_is_emptied_before_the_new_rows_are_appended() -> None:
    removal, insertion = render_statements(build_layout(unit=""), query_runner := Asked())
    assert removal.endswith("WHERE TRUE")
    assert "`offset` > 4" in insertion
    assert query_runner.questions == []


@pytest.mark.parametrize("partitions", [None, [DAYS[0], DAYS[7]]])
def test_table_that_requires_a_filter_is_emptied_with_one_that_holds_for_every_row(partitions: Any) -> None:
    """BigQuery refuses a statement without a filter, and each flush failed."""
    query_runner = Asked({"partitions": partitions})
    removal, _ = render_statements(build_layout(needs=True), query_runner)
    assert f"({FULL_RANGE} OR t.`at` IS NULL)" in removal
    assert f"({FULL_RANGE} OR t.`at` IS NULL)" in query_runner.questions[0]


@pytest.mark.parametrize("kept", [False, True])
def test_table_of_more_partitions_than_a_statement_may_change_is_emptied_in_parts(kept: bool) -> None:
    query_runner = Asked({"partitions": DAYS[::-1]})
    *removals, _ = render_statements(build_layout(), query_runner, kept=kept)
    assert [removal.partition("AND (")[2].rstrip() for removal in removals] == [
        f"t.`at` BETWEEN TIMESTAMP '0001-01-01 00:00:00+00:00' AND TIMESTAMP '{_render_end(DAYS[2000])}')",
        f"t.`at` BETWEEN TIMESTAMP '{DAYS[2000]}' AND TIMESTAMP '{_render_end(DAYS[4000])}')",
        f"t.`at` BETWEEN TIMESTAMP '{DAYS[4000]}' AND TIMESTAMP '9999-12-31 23:59:59.999999+00:00' OR t.`at` IS NULL)",
    ]


def _render_end(start: datetime) -> str:
    return str(start - timedelta(microseconds=1))


def test_new_rows_of_very_many_partitions_are_appended_in_parts() -> None:
    staged = {"partitions": DAYS, "outside": True, "deletes": 0}
    removal, *insertions = render_statements(build_layout(), Asked(staged, {"partitions": []}), rows=6000)
    assert removal.endswith("WHERE TRUE")
    assert [text.count("`_tidegate_part` BETWEEN") for text in insertions] == [1, 1, 1, 0]


@pytest.mark.parametrize("of", ["day", "id", "ingestion"])
def test_parts_leave_no_row_of_any_partition(of: str) -> None:
    layout = build_layout(None if of == "ingestion" else "day")
    starts: list[Any] = DAYS if of == "ingestion" else [day.date() for day in DAYS]
    first, last = "TIMESTAMP '0001-01-01 00:00:00+00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999+00:00'"
    if of == "day":
        first, last = f"DATE '{date.min}'", f"DATE '{date.max}'"
    if of == "id":
        layout = replace(layout, partitioning=Partitioning("id", "", range(0, 50_010, 10)))
        starts, first, last = [*range(0, 50_010, 10)], str(MIN_INT64), str(MAX_INT64)
    create = {"create": Create(partition_by=("days(_PARTITIONTIME)",))} if of == "ingestion" else {}
    removals = [text for text in render_statements(layout, Asked({"partitions": starts}), **create) if "DELETE" in text]
    assert f"BETWEEN {first} AND" in removals[0]
    assert f"AND {last} OR " in removals[-1]
    assert ["IS NULL" in text for text in removals] == [False, False, True]
