"""The statements that empty a BigQuery table, for a batch that replaces all of its rows."""

from dataclasses import replace
from typing import Any

from tidegate.adapters.bigquery.pruning import (
    MAX_STATEMENT_PARTITIONS,
    PARTITIONS_PER_PART,
    QueryRunner,
    TableLayout,
    build_full_bound,
    compute_bounds,
    get_step,
)
from tidegate.model.merge_input import MergeInput
from tidegate.ports.sql import Sql
from tidegate.sql.googlesql import render_constant
from tidegate.sql.pruning import Bound, Bounds

KEY_PATHS = ("leaves", "staged_leaves")


def compute_truncate_bounds(
    layout: TableLayout, rows: QueryRunner, sql: Sql, positions: str, values: MergeInput
) -> Bounds:
    """The statements that remove all rows, and the parts in which the new ones are appended; `rows` runs a query."""
    appended: Any = {name: value for name, value in values.items() if name not in KEY_PATHS}
    bounds = compute_bounds(layout, rows, sql, positions, appended)
    target = values["target"]
    ranges = _list_ranges(layout, rows, sql, values["target"])
    removals = tuple(sql.render("remove_rows", target=target, bounds=(bound,)) for bound in ranges)
    return replace(bounds, removals=removals or (sql.render("remove_rows", target=target, bounds=()),))


def _list_ranges(layout: TableLayout, rows: QueryRunner, sql: Sql, target: str) -> list[Bound]:
    """Ranges of the partition column that hold all rows, few enough partitions in each for one statement.

    None for a table that can be emptied by one statement without a filter.
    """
    partition = layout.partitioning
    if partition is None:
        return []
    full_bound = build_full_bound(layout, partition)
    filtered = (full_bound,) if layout.needs_filter else ()
    start = partition.render_partition_start(layout.partition_type, "t.")
    (facts,) = rows(sql.render("partitions_table", target=target, partition=start, bounds=filtered))
    starts = sorted(facts["partitions"] or ())
    if len(starts) <= MAX_STATEMENT_PARTITIONS:
        return list(filtered)
    ((first, last),) = full_bound.ranges
    later_starts = starts[PARTITIONS_PER_PART::PARTITIONS_PER_PART]
    lows = [first, *(render_constant(value) or "" for value in later_starts)]
    highs = [*(render_constant(value - get_step(layout)) or "" for value in later_starts), last]
    ranges = list(zip(lows, highs, strict=True))
    return [Bound(full_bound.path, (span,), nulls=span == ranges[-1]) for span in ranges]
