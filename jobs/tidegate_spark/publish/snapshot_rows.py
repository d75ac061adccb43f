"""A table's rows as of a snapshot: all of them, or those of files in which two snapshots may differ.

A row that lies in a data file of both snapshots is the same row: only its delete may be new. In format 3 a row that a
writer only moved to another file keeps its id, and the number of the snapshot that changed it last. So only the other
rows are written as records and compared.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from tidegate.jobs.publish_job import PublishJob, RowIdentity
from tidegate.sql.spark import quote, quote_name, render_literal

WIDENED_TYPES = {("int", "bigint"), ("float", "double")}  # what Iceberg lets a column's type become
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


def render_table_as_of(spark: SparkSession, table: str, snapshot: int, newest: int) -> str:
    """Select the table's rows as of `snapshot`, in the columns and types that it has as of `newest`."""
    columns = list_columns_as_of(spark, table, snapshot, newest).values()
    return f"SELECT {', '.join(columns)} FROM {render_table_at(table, snapshot)}"


def list_columns_as_of(spark: SparkSession, table: str, snapshot: int, newest: int) -> dict[str, str]:
    """Return SQL over the table as of `snapshot` for each column that it has as of `newest`, by its quoted name.

    A field whose type cannot have become the newer one was another field: it is NULL too.
    """
    target_schema = spark.sql(f"SELECT * FROM {render_table_at(table, newest)}").schema
    snapshot_types = {
        f.name.lower(): f.dataType for f in spark.sql(f"SELECT * FROM {render_table_at(table, snapshot)}").schema
    }
    columns = {}
    for field in target_schema:
        source = snapshot_types.get(field.name.lower())
        column = quote(field.name)
        column_sql = _render_null(field.dataType) if source is None else render_widening(column, source, field.dataType)
        columns[column] = column if column_sql == column else f"{column_sql} AS {column}"
    return columns


def render_widening(value: str, source: T.DataType, target: T.DataType, depth: int = 0) -> str:
    if render_spark_type(source) == render_spark_type(target):
        return value
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        fields = {field.name.lower(): field for field in source.fields}
        parts = []
        for field in target.fields:
            part = _render_null(field.dataType)
            if (source_field := fields.get(field.name.lower())) is not None:
                inner = f"{value}.{quote(source_field.name)}"
                part = render_widening(inner, source_field.dataType, field.dataType, depth)
            parts.append(f"{render_literal(field.name)}, {part}")
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    element = f"_tidegate_{depth}"
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        widened = render_widening(element, source.elementType, target.elementType, depth + 1)
        return f"transform({value}, {element} -> {widened})"
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        keys = render_widening(element, source.keyType, target.keyType, depth + 1)
        values = render_widening(element, source.valueType, target.valueType, depth + 1)
        arrays = (
            f"transform(map_keys({value}), {element} -> {keys}), transform(map_values({value}), {element} -> {values})"
        )
        return f"map_from_arrays({arrays})"
    return f"CAST({value} AS {render_spark_type(target)})" if _is_wider(source, target) else _render_null(target)


def render_spark_type(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return (
            f"STRUCT<{', '.join(f'{quote(field.name)}: {render_spark_type(field.dataType)}' for field in kind.fields)}>"
        )
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{render_spark_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{render_spark_type(kind.keyType)}, {render_spark_type(kind.valueType)}>"
    return str(kind.simpleString())


def _is_wider(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(source, T.DecimalType) and isinstance(target, T.DecimalType):
        return bool(source.scale == target.scale and source.precision <= target.precision)
    return (render_spark_type(source), render_spark_type(target)) in WIDENED_TYPES


def _render_null(kind: T.DataType) -> str:
    return f"CAST(NULL AS {render_spark_type(kind)})"


def render_table_at(table: str, snapshot: int) -> str:
    return f"{quote_name(table)} VERSION AS OF {snapshot}"
