"""Literal bounds of a merge: the keys and partitions that a batch can change, so that BigQuery reads no others.

Bounds of the key always hold. Bounds of the partition column come from the staged rows if the column is part of the
key, or is declared to never change and each row has it. Otherwise a query by key first looks up the partitions of the
rows: a delete, a partial update and an unchanged value do not say where their row is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tidegate.adapters.bigquery.schema import Partitioning, get_partition_unit, render_timestamp_start
from tidegate.adapters.bigquery.types import read_table_struct
from tidegate.errors import GiveUp
from tidegate.model.merge_input import MergeInput
from tidegate.ports.session import Sql
from tidegate.schema.data_types import DataType, Primitive, Struct
from tidegate.sql.googlesql import quote, render_constant
from tidegate.sql.pruning import UNBOUNDED, BatchPart, Bound, Bounds, join_intervals

MAX_RANGES = 50  # beyond these, partitions close together are read as one range
MAX_CONSTANT_CHARACTERS = 1000
_ORDERED_TYPES = ("BIGINT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
# of an INT64
MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1
MAX_STATEMENT_PARTITIONS = 4000  # that one job of BigQuery, and so one statement, may change
MAX_TABLE_PARTITIONS = 10_000
PARTITIONS_PER_PART = 2000  # which leaves room for partitions that rows are moved out of
MAX_UNBOUNDED_APPEND_ROWS = 1000  # that are appended: they lie in fewer partitions, also where a record is several rows
QueryRunner = Callable[[str], list[dict[str, Any]]]


@dataclass(frozen=True)
class TableLayout:
    """An existing table; `schema` is the table's own, `clustered` its clustering columns."""

    schema: Struct
    partitioning: Partitioning | None = None
    clustered: tuple[str, ...] = ()
    needs_filter: bool = False

    @classmethod
    def from_api_repr(cls, table: Mapping[str, Any]) -> "TableLayout":
        """From the table as the REST API shows it."""
        times = table.get("timePartitioning")
        numbers = table.get("rangePartitioning")
        partitioning = Partitioning(times.get("field") or "_PARTITIONTIME", times.get("type", "DAY")) if times else None
        if numbers:
            ends = (int(numbers["range"][word]) for word in ("start", "end", "interval"))
            partitioning = Partitioning(numbers["field"], "", range(*ends))
        clustered = tuple(table.get("clustering", {}).get("fields", ()))
        needs_filter = bool(table.get("requirePartitionFilter") or (times or {}).get("requirePartitionFilter"))
        return cls(read_table_struct(table.get("schema", {}).get("fields", ())), partitioning, clustered, needs_filter)

    @property
    def partition_type(self) -> str:
        """The Spark type of the partition column."""
        if self.partitioning is None or self.partitioning.of_ingestion:
            return "TIMESTAMP"
        kind = dict(self.schema.fields)[self.schema.find_name(self.partitioning.column) or ""]
        return kind.name if isinstance(kind, Primitive) else "TIMESTAMP"


def compute_bounds(layout: TableLayout, rows: QueryRunner, sql: Sql, positions: str, values: MergeInput) -> Bounds:
    """Bounds of a merge with these `values`; `rows` runs a query. Without a layout no query runs."""
    leaves = list(_iterate_bounded_leaves(layout, values))
    partition = layout.partitioning
    if partition is None and not leaves:
        return UNBOUNDED
    if "leaves" not in values and values["staged_rows"] <= MAX_UNBOUNDED_APPEND_ROWS:
        return UNBOUNDED
    place = None if partition is None else _find_row_partition(partition, layout, values)
    inside = [partition.column] if partition and partition.column in values["values"] else []
    only = {**values, "values": inside, "bounded": leaves, "partition": place and place.partition}
    stats = rows(sql.render("bounds_staged", **only))[0]
    keys = tuple(bound for number, leaf in enumerate(leaves) for bound in _build_key_bounds(leaf, number, stats))
    if partition is None:
        return Bounds(keys)
    if "leaves" not in values:
        return Bounds(parts=_split_into_parts(layout, place, stats, None, ()))
    if place is not None and _is_partition_stable(partition, values, stats):
        bounds = (*keys, _build_partition_bound(layout, partition, stats))
        return Bounds(bounds, parts=_split_into_parts(layout, place, stats, None, keys))
    everywhere = (_build_full_bound(layout, partition),) if layout.needs_filter else ()
    bounds_row = rows(
        sql.render(
            "bounds_table",
            **{**values, "values": [], "bounds": (*keys, *everywhere), "positions": positions},
            partition=partition.render_partition_start(layout.partition_type, "t."),
        )
    )[0]
    guard = sql.render("assert_versions", positions=positions, versions=bounds_row["versions"])
    bounds = (*keys, _build_partition_bound(layout, partition, bounds_row))
    return Bounds(
        bounds, (guard,), parts=_split_into_parts(layout, place, stats, bounds_row["partitions"] or (), bounds)
    )


@dataclass(frozen=True)
class RowPartition:
    """Where a staged row will lie: the column that tells it, and SQL for the beginning of its partition."""

    column: str
    partition: str


def _find_row_partition(partition: Partitioning, layout: TableLayout, values: MergeInput) -> RowPartition | None:
    if partition.of_ingestion:
        unit = get_partition_unit(values["layout"])
        column = "_tidegate_partition_time"
        return RowPartition(column, render_timestamp_start(quote(column), unit)) if unit else None
    columns = [*values["values"], *(column for column, _ in values["keys"])]
    if partition.column not in columns:
        return None
    return RowPartition(partition.column, partition.render_partition_start(layout.partition_type))


def _is_partition_stable(partition: Partitioning, values: MergeInput, stats: Mapping[str, Any]) -> bool:
    if (partition.column,) in [tuple(leaf) for leaf in values["leaves"]]:
        return True
    if partition.of_ingestion or values["layout"].properties.get("partition_column") != "immutable":
        return False
    return not (stats["deletes"] or stats["outside"])


def _split_into_parts(
    layout: TableLayout,
    place: RowPartition | None,
    stats: Mapping[str, Any],
    table_partitions: Iterable[Any] | None,
    bounds: tuple[Bound, ...],
) -> tuple[BatchPart, ...]:
    new = sorted(stats.get("partitions") or ())
    partition = layout.partitioning
    if partition is None or place is None or len({*new, *(table_partitions or ())}) <= MAX_STATEMENT_PARTITIONS:
        return ()
    if len(new) > MAX_TABLE_PARTITIONS:
        raise GiveUp(
            f"column={partition.column}: the rows of one batch lie in partitions={len(new)}, and a table of BigQuery "
            f"has at most {MAX_TABLE_PARTITIONS}; nothing was merged; make the table again with "
            "larger partitions, as create.partition_by: [months(c)]"
        )

    def build_part(starts: list[Any], *, outside: bool) -> BatchPart:
        part_stats = {"partitions": starts, "outside": outside}
        first = [(starts[0], _compute_last_value(starts[-1], partition, layout))] if starts else []
        staged_bound = replace(_build_bound(layout, partition, first, outside=outside), path=(place.column,))
        return BatchPart(
            staged_bound,
            (*bounds, _build_partition_bound(layout, partition, part_stats)) if table_partitions is None else bounds,
        )

    chunks = [new[at : at + PARTITIONS_PER_PART] for at in range(0, len(new), PARTITIONS_PER_PART)]
    outside_parts = [build_part([], outside=True)] if stats["outside"] else []
    return tuple([build_part(chunk, outside=False) for chunk in chunks] + outside_parts)


def _iterate_bounded_leaves(layout: TableLayout, values: MergeInput) -> Iterable[tuple[str, ...]]:
    types = dict(layout.schema.fields)
    for leaf in values.get("leaves", ()):
        kind: DataType | None = types.get(leaf[0])
        is_ordered = isinstance(kind, Primitive) and (kind.name in _ORDERED_TYPES or kind.decimal is not None)
        if len(leaf) == 1 and is_ordered and leaf[0] in layout.clustered:
            yield leaf


def _build_key_bounds(leaf: tuple[str, ...], number: int, stats: Mapping[str, Any]) -> Iterable[Bound]:
    low = render_constant(stats[f"low_{number}"])
    high = render_constant(stats[f"high_{number}"])
    if low is None or high is None:
        if stats[f"nulls_{number}"]:
            yield Bound(leaf, (), nulls=True)
    elif max(len(low), len(high)) <= MAX_CONSTANT_CHARACTERS:
        yield Bound(leaf, ((low, high),), bool(stats[f"nulls_{number}"]))


def _build_partition_bound(layout: TableLayout, partition: Partitioning, stats: Mapping[str, Any]) -> Bound:
    spans = [(start, _compute_last_value(start, partition, layout)) for start in stats["partitions"] or []]
    # without partitions, the one of rows without a value satisfies a required filter
    return _build_bound(
        layout, partition, join_intervals(spans, _get_step(layout), MAX_RANGES), outside=stats["outside"] or not spans
    )


def _build_bound(layout: TableLayout, partition: Partitioning, spans: Iterable[Any], *, outside: bool) -> Bound:
    outer_spans = []
    if outside and partition.numbers is not None:
        outer_spans = [(MIN_INT64, partition.numbers.start - 1), (partition.numbers.stop, MAX_INT64)]
    ranges = tuple(
        (render_constant(first) or "", render_constant(last) or "") for first, last in [*spans, *outer_spans]
    )
    return Bound((layout.schema.get_own_name(partition.column),), ranges, bool(outside))


def _build_full_bound(layout: TableLayout, partition: Partitioning) -> Bound:
    first: Any = date.min
    last: Any = date.max
    if partition.numbers is not None:
        first = MIN_INT64
        last = MAX_INT64
    elif layout.partition_type != "DATE":
        zone = UTC if layout.partition_type == "TIMESTAMP" else None
        first = datetime.min.replace(tzinfo=zone)
        last = datetime.max.replace(tzinfo=zone)
    column = layout.schema.get_own_name(partition.column)
    return Bound((column,), ((render_constant(first) or "", render_constant(last) or ""),), nulls=True)


def _get_step(layout: TableLayout) -> Any:
    if layout.partition_type == "BIGINT":
        return 1
    return timedelta(days=1) if layout.partition_type == "DATE" else timedelta(microseconds=1)


def _compute_last_value(start: Any, partition: Partitioning, layout: TableLayout) -> Any:
    unit = partition.unit
    step = _get_step(layout)
    if partition.numbers is not None:
        return min(start + partition.numbers.step, partition.numbers.stop) - 1
    try:
        if unit in ("HOUR", "DAY"):
            return start + timedelta(**{f"{unit.lower()}s": 1}) - step
        later = start.replace(day=1) + timedelta(days=32 if unit == "MONTH" else 366)
        return (later.replace(day=1) if unit == "MONTH" else later.replace(month=1, day=1)) - step
    except OverflowError:  # the calendar ends there
        return datetime.max.replace(tzinfo=start.tzinfo) if isinstance(start, datetime) else date.max


def compute_truncate_bounds(
    layout: TableLayout, rows: QueryRunner, sql: Sql, positions: str, values: MergeInput
) -> Bounds:
    """The statements that remove all rows, and the parts in which new ones are appended; `rows` runs a query."""
    appended: Any = {name: value for name, value in values.items() if name not in ("leaves", "staged_leaves")}
    bounds = compute_bounds(layout, rows, sql, positions, appended)
    target = values["target"]
    ranges = _list_ranges(layout, rows, sql, target)
    removals = tuple(sql.render("remove_rows", target=target, bounds=(bound,)) for bound in ranges)
    return replace(bounds, removals=removals or (sql.render("remove_rows", target=target, bounds=()),))


def _list_ranges(layout: TableLayout, rows: QueryRunner, sql: Sql, target: str) -> list[Bound]:
    partition = layout.partitioning
    if partition is None:
        return []
    full_bound = _build_full_bound(layout, partition)
    filtered = (full_bound,) if layout.needs_filter else ()
    start = partition.render_partition_start(layout.partition_type, "t.")
    (facts,) = rows(sql.render("partitions_table", target=target, partition=start, bounds=filtered))
    starts = sorted(facts["partitions"] or ())
    if len(starts) <= MAX_STATEMENT_PARTITIONS:
        return list(filtered)
    ((first, last),) = full_bound.ranges
    later_starts = starts[PARTITIONS_PER_PART::PARTITIONS_PER_PART]
    lows = [first, *(render_constant(value) or "" for value in later_starts)]
    highs = [*(render_constant(value - _get_step(layout)) or "" for value in later_starts), last]
    ranges = list(zip(lows, highs, strict=True))
    return [Bound(full_bound.path, (span,), nulls=span == ranges[-1]) for span in ranges]
