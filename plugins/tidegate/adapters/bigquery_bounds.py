"""Literal bounds of a merge: which keys and which partitions a batch can touch, so that BigQuery reads no others.

Bounds of the key are always true. Bounds of the partition column are those of the staged rows where it is part of the
key, or is said never to change and every row has it; else the partitions in which the keys lie are looked up first, by
key alone: a delete, a partial update and an unchanged value do not tell where their row lies.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tidegate.adapters.bigquery_layout import Partitioning
from tidegate.adapters.bigquery_types import held_by
from tidegate.bigquery_sql import constant
from tidegate.bounds import ANYWHERE, Bound, Bounds, joined
from tidegate.datatypes import DataType, Primitive, Struct
from tidegate.ports import Sql

MOST_RANGES = 50  # beyond these, partitions close together are read as one range
LONGEST_CONSTANT = 1000
_ORDERED = ("BIGINT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_STEP = timedelta(microseconds=1)
Rows = Callable[[str], list[dict[str, Any]]]


@dataclass(frozen=True)
class TableLayout:
    """How a table that is there is laid out; `held` is what it holds, `clustered` its clustering columns."""

    held: Struct
    partitioning: Partitioning | None = None
    clustered: tuple[str, ...] = ()
    needs_filter: bool = False

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "TableLayout":
        """From the table as the REST API shows it."""
        times = table.get("timePartitioning")
        found = Partitioning(times.get("field") or "_PARTITIONTIME", times.get("type", "DAY")) if times else None
        clustered = tuple(table.get("clustering", {}).get("fields", ()))
        needs_filter = bool(table.get("requirePartitionFilter") or (times or {}).get("requirePartitionFilter"))
        return cls(held_by(table.get("schema", {}).get("fields", ())), found, clustered, needs_filter)

    @property
    def partition_type(self) -> str:
        """The Spark type of the column that says where a row lies."""
        if self.partitioning is None or self.partitioning.of_ingestion:
            return "TIMESTAMP"
        kind = dict(self.held.fields)[self.held.named(self.partitioning.column) or ""]
        return kind.name if isinstance(kind, Primitive) else "TIMESTAMP"


def bounds_of(layout: TableLayout, rows: Rows, sql: Sql, positions: str, values: Mapping[str, Any]) -> Bounds:
    """What bounds a merge that is filled with `values`; `rows` runs a query. Tables without a layout cost nothing."""
    asked, partition = list(_bounded(layout, values)), layout.partitioning
    if "leaves" not in values or (partition is None and not asked):
        return ANYWHERE
    columns = () if partition is None or partition.of_ingestion else (partition.column,)
    in_key = partition is not None and (partition.column,) in [tuple(leaf) for leaf in values["leaves"]]
    is_kept = values["layout"].properties.get("partition_column") == "immutable"
    is_told = in_key or (is_kept and any(column in values["values"] for column in columns))
    shown = partition.truncated(layout.partition_type) if partition and is_told else None
    only = {**values, "values": [] if in_key or not shown else list(columns)}
    found = rows(sql.render("bounds_staged", **{**only, "bounded": asked, "partition": shown}))[0]
    keys = tuple(bound for number, leaf in enumerate(asked) for bound in _key_bound(leaf, number, found))
    if partition is None:
        return Bounds(keys)
    if is_told and (in_key or not (found["deletes"] or found["outside"])):
        return Bounds((*keys, _partitions(layout, partition, found)))
    everywhere = (_everywhere(layout, partition),) if layout.needs_filter else ()
    looked = rows(
        sql.render(
            "bounds_table",
            **{**values, "values": [], "bounds": (*keys, *everywhere), "positions": positions},
            partition=partition.truncated(layout.partition_type, "t."),
        )
    )[0]
    guard = sql.render("assert_versions", positions=positions, versions=looked["versions"])
    return Bounds((*keys, _partitions(layout, partition, looked)), (guard,))


def _bounded(layout: TableLayout, values: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """Leaves of the key by which blocks can be skipped: columns that the table is clustered by, of types in order."""
    types = dict(layout.held.fields)
    for leaf in values.get("leaves", ()):
        kind: DataType | None = types.get(leaf[0])
        is_ordered = isinstance(kind, Primitive) and (kind.name in _ORDERED or kind.decimal is not None)
        if len(leaf) == 1 and is_ordered and leaf[0] in layout.clustered:
            yield leaf


def _key_bound(leaf: tuple[str, ...], number: int, found: Mapping[str, Any]) -> Iterable[Bound]:
    low, high = constant(found[f"low_{number}"]), constant(found[f"high_{number}"])
    if low is None or high is None:
        if found[f"nulls_{number}"]:
            yield Bound(leaf, (), nulls=True)
    elif max(len(low), len(high)) <= LONGEST_CONSTANT:
        yield Bound(leaf, ((low, high),), bool(found[f"nulls_{number}"]))


def _partitions(layout: TableLayout, partition: Partitioning, found: Mapping[str, Any]) -> Bound:
    """The partitions that were found; where there are none, the one of rows without a value satisfies a filter."""
    starts = found["partitions"] or []
    step = _STEP if layout.partition_type != "DATE" else timedelta(days=1)
    ranges = joined(((start, _last(start, partition.unit, step)) for start in starts), step, MOST_RANGES)
    told = tuple((constant(first) or "", constant(last) or "") for first, last in ranges)
    column = layout.held.named(partition.column) or partition.column
    return Bound((column,), told, bool(found["outside"]) or not told)


def _everywhere(layout: TableLayout, partition: Partitioning) -> Bound:
    """True for every row, and a filter all the same."""
    first, last = date.min, date.max
    if layout.partition_type != "DATE":
        zone = UTC if layout.partition_type == "TIMESTAMP" else None
        first, last = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)
    column = layout.held.named(partition.column) or partition.column
    return Bound((column,), ((constant(first) or "", constant(last) or ""),), nulls=True)


def _last(start: Any, unit: str, step: timedelta) -> Any:
    """The last value of the partition that begins at `start`."""
    try:
        if unit in ("HOUR", "DAY"):
            return start + timedelta(**{f"{unit.lower()}s": 1}) - step
        later = start.replace(day=1) + timedelta(days=32 if unit == "MONTH" else 366)
        return (later.replace(day=1) if unit == "MONTH" else later.replace(month=1, day=1)) - step
    except OverflowError:  # the calendar ends there
        return datetime.max.replace(tzinfo=start.tzinfo) if isinstance(start, datetime) else date.max
