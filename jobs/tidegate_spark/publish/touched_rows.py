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
    touched, old = job.touched, job.position.origin
    if touched is None or old is None:
        return None
    new = job.position.until or job.position.to
    finder = _Finder(spark, job, persisted_frames)
    if touched.identity == RowIdentity.NONE:
        return TouchedRows(
            old=finder.select_all(_FileRows(old, touched.old)), new=finder.select_all(_FileRows(new, touched.new))
        )
    shared = tuple(sorted({*touched.old} & {*touched.new}))
    left = _FileRows(old, tuple(sorted({*touched.old} - {*shared})))
    added = _FileRows(new, tuple(sorted({*touched.new} - {*shared})))
    if touched.identity == RowIdentity.ROW_ID and left.files and added.files:
        old_rows, new_rows = finder.select_differing(VERSION, left, added)
    else:
        old_rows, new_rows = finder.select_all(left), finder.select_all(added)
    # a rollback takes deletes back
    restored, deleted = finder.select_differing(PLACE, _FileRows(old, shared, True), _FileRows(new, shared, True))
    return TouchedRows(old=f"{old_rows} UNION ALL {deleted}", new=f"{new_rows} UNION ALL {restored}")


@dataclass(frozen=True)
class _Finder:
    """Renders the rows of one job's files. What it counts in the server stays in `persisted_frames`."""

    spark: SparkSession
    job: PublishJob
    persisted_frames: list[DataFrame]

    def select_all(self, rows: _FileRows) -> str:
        source = render_table_as_of(self.spark, self.job.table, rows.snapshot, self.job.position.to)
        return f"{source} WHERE {rows.condition}"

    def select_differing(self, names: dict[str, str], *sides: _FileRows) -> tuple[str, str]:
        """Select the rows of each of two sides that the other has not, by Iceberg's columns in `names`.

        A row without them is in neither side's place: it is selected.
        """
        if not all(rows.files for rows in sides):
            return self._select_none(), self._select_none()
        differing = self._count_differing(names, sides)
        total, *totals = differing.selectExpr("count(*)", *(f"coalesce(sum(count_{n}), 0)" for n in (0, 1))).collect()[
            0
        ]
        view = f"{'_'.join(names)}_differing"
        differing.createOrReplaceTempView(view)
        hint = "/*+ BROADCAST(differing) */ " if total <= MAX_BROADCAST_ROWS else ""
        one, other = (
            self._select_in(names, rows, f"{view} AS differing", hint) if count else self._select_none()
            for rows, count in zip(sides, totals, strict=True)
        )
        return one, other

    def _count_differing(self, names: dict[str, str], sides: tuple[_FileRows, ...]) -> DataFrame:
        columns = ", ".join(f"{column} AS {name}" for name, column in names.items())
        both_sides = " UNION ALL ".join(
            f"SELECT {columns}, {number} AS side FROM {render_table_at(self.job.table, rows.snapshot)} "
            f"WHERE {rows.condition}"
            for number, rows in enumerate(sides)
        )
        counts = [f"count_if(side = {number}) AS count_{number}" for number in (0, 1)]
        is_unknown = " OR ".join(f"{name} IS NULL" for name in names)
        differing = self.spark.sql(
            f"SELECT {', '.join([*names, *counts])} FROM ({both_sides}) GROUP BY {', '.join(names)} "
            f"HAVING count_0 <> count_1 OR {is_unknown}"
        ).persist()
        self.persisted_frames.append(differing)
        return differing

    def _select_in(self, names: dict[str, str], rows: _FileRows, differing: str, hint: str) -> str:
        values = list_columns_as_of(self.spark, self.job.table, rows.snapshot, self.job.position.to)
        columns = [*values.values(), *(f"{column} AS {name}" for name, column in names.items())]
        candidates = f"SELECT {', '.join(columns)} FROM {render_table_at(self.job.table, rows.snapshot)}"
        is_same = " AND ".join(f"candidates.{name} <=> differing.{name}" for name in names)
        return (
            f"SELECT {hint}{', '.join(values)} FROM ({candidates} WHERE {rows.condition}) AS candidates "
            f"LEFT SEMI JOIN {differing} ON {is_same}"
        )

    def _select_none(self) -> str:
        return self.select_all(_FileRows(self.job.position.to, ()))
