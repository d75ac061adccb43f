"""Rows of the files in which two snapshots may differ, without those that are the same in both.

A row that lies in a data file of both snapshots is the same row: only its delete may be new. In format 3 a row that a
writer only moved to another file keeps its id, and the number of the snapshot that changed it last. So only the other
rows are written as records and compared.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from tidegate.jobs.publish_job import PublishJob, RowIdentity
from tidegate.sql.spark import render_literal

from tidegate_spark.publish.table_as_of import list_columns_as_of, render_table_as_of, render_table_at

MAX_BROADCAST_ROWS = 1_000_000  # of two numbers, or a file's name and a number, in the memory of each executor
PLACE = {"tidegate_file": "_file", "tidegate_position": "_pos"}
VERSION = {"tidegate_row_id": "_row_id", "tidegate_updated": "_last_updated_sequence_number"}


@dataclass(frozen=True)
class TouchedRows:
    """SQL for rows of the older snapshot and of the newer one; all other rows are in both, and equal."""

    old: str
    new: str


@dataclass(frozen=True)
class _FileRows:
    """The rows of some files as of a snapshot: the live ones, or those that it has deleted."""

    snapshot: int
    files: tuple[str, ...]
    are_deleted: bool = False

    @property
    def condition(self) -> str:
        if not self.files:
            return "false"
        is_in = f"_file IN ({', '.join(map(render_literal, self.files))})"
        return f"{is_in} AND _deleted" if self.are_deleted else is_in


def find_touched_rows(spark: SparkSession, job: PublishJob, persisted_frames: list[DataFrame]) -> TouchedRows | None:
    """Select the rows of touched files that `job.touched.identity` does not show to be the same in both snapshots.

    None if no files are named: then any row may differ. DataFrames that stay in memory are added to `persisted_frames`.
    """
    touched = job.touched
    old = job.position.origin
    if touched is None or old is None:
        return None
    new = job.position.to
    if touched.identity == RowIdentity.NONE:
        old_rows, new_rows = (
            f"{render_table_as_of(spark, job.table, rows.snapshot, job.position.to)} WHERE {rows.condition}"
            for rows in (_FileRows(old, touched.old), _FileRows(new, touched.new))
        )
        return TouchedRows(old_rows, new_rows)
    # both snapshots have one schema
    columns = list_columns_as_of(spark, job.table, new, job.position.to)
    finder = _Finder(spark, job.table, columns, persisted_frames)
    shared = tuple(sorted({*touched.old} & {*touched.new}))
    left = _FileRows(old, tuple(sorted({*touched.old} - {*shared})))
    added = _FileRows(new, tuple(sorted({*touched.new} - {*shared})))
    if touched.identity == RowIdentity.ROW_ID and left.files and added.files:
        gone, come = finder.select_differing(VERSION, left, added)
    else:
        gone, come = ([finder.select_all(rows)] if rows.files else [] for rows in (left, added))
    restored = list[str]()
    deleted = list[str]()
    if shared:  # a rollback takes deletes back
        restored, deleted = finder.select_differing(PLACE, _FileRows(old, shared, True), _FileRows(new, shared, True))
    old_rows, new_rows = (
        " UNION ALL ".join(selects) or finder.select_all(_FileRows(new, ()))
        for selects in ([*gone, *deleted], [*come, *restored])
    )
    return TouchedRows(old_rows, new_rows)


@dataclass(frozen=True)
class _Finder:
    """Renders rows of a table's files, in these columns. What it counts in the server stays in `persisted_frames`."""

    spark: SparkSession
    table: str
    columns: dict[str, str]
    persisted_frames: list[DataFrame]

    def select_all(self, rows: _FileRows) -> str:
        return f"SELECT {', '.join(self.columns.values())} FROM {self._render_source(rows)}"

    def select_differing(self, names: dict[str, str], *sides: _FileRows) -> tuple[list[str], list[str]]:
        """Select the rows of each of two sides that the other has not, by Iceberg's columns in `names`.

        One statement for each, or none without such rows. A row without a value in `names` is selected.
        """
        columns = ", ".join(f"{column} AS {name}" for name, column in names.items())
        both_sides = " UNION ALL ".join(
            f"SELECT {columns}, {number} AS side FROM {self._render_source(rows)}" for number, rows in enumerate(sides)
        )
        counts = [f"count_if(side = {number}) AS count_{number}" for number in (0, 1)]
        is_unknown = " OR ".join(f"{name} IS NULL" for name in names)
        differing = self.spark.sql(
            f"SELECT {', '.join([*names, *counts])} FROM ({both_sides}) GROUP BY {', '.join(names)} "
            f"HAVING count_0 <> count_1 OR {is_unknown}"
        ).persist()
        self.persisted_frames.append(differing)
        sums = [f"coalesce(sum(count_{number}), 0)" for number in (0, 1)]
        total, *totals = differing.selectExpr("count(*)", *sums).collect()[0]
        view = f"{'_'.join(names)}_differing"
        differing.createOrReplaceTempView(view)
        hint = "/*+ BROADCAST(differing) */ " if total <= MAX_BROADCAST_ROWS else ""
        one, other = (
            [self._select_in(names, rows, f"{view} AS differing", hint)] if count else []
            for rows, count in zip(sides, totals, strict=True)
        )
        return one, other

    def _select_in(self, names: dict[str, str], rows: _FileRows, differing: str, hint: str) -> str:
        columns = [*self.columns.values(), *(f"{column} AS {name}" for name, column in names.items())]
        candidates = f"SELECT {', '.join(columns)} FROM {self._render_source(rows)}"
        is_same = " AND ".join(f"candidates.{name} <=> differing.{name}" for name in names)
        return (
            f"SELECT {hint}{', '.join(self.columns)} FROM ({candidates}) AS candidates "
            f"LEFT SEMI JOIN {differing} ON {is_same}"
        )

    def _render_source(self, rows: _FileRows) -> str:
        return f"{render_table_at(self.table, rows.snapshot)} WHERE {rows.condition}"
