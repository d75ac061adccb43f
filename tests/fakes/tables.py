"""Tables in memory, with snapshots, branches and properties, and what Spark and foreign writers do to them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.model.ownership import (
    KIND_PROPERTY,
    check_kind,
)
from tidegate.schema.data_types import Column

from fakes.clock import Clock
from fakes.numbering import Numbering

Row = dict[str, Any]


def is_of_parts(row: Row, parts: Iterable[Any]) -> bool:
    """Whether a staged row is of one of these batches, each with its attempt."""
    return [row["batch_number"], row["attempt"]] in [list(part) for part in parts]


def find_place(row: Row) -> tuple[Any, ...]:
    """Where a staged row, or a dead letter, is in the log."""
    return row["topic"], row["partition"], row["offset"]


def find_turn(statement: Mapping[str, Any], row: Row) -> tuple[Any, ...]:
    """The order of staged rows as the statement asks for it: later batches last, then by the place in the log."""
    batch = row["batch_number"] if statement.get("in_turn") else 0
    return batch, row["offset"], row["topic"], row["partition"], row["i"]


@dataclass(frozen=True)
class Snapshot:
    """A whole table at one time; `sequence` orders snapshots over all branches."""

    id: int
    parent: int | None
    summary: dict[str, str]
    rows: tuple[Row, ...]
    ms: int
    sequence: int


@dataclass
class MemoryTable:
    """A table with snapshots, references and properties, as Iceberg keeps them."""

    uuid: str
    columns: tuple[Column, ...]
    schema_id: int = 0
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    refs: dict[str, int] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)  # those of `refs` that are no branches
    ordered_by: tuple[str, ...] = ()
    format_version: int = 2

    def read_rows(self, ref: str = "main") -> list[Row]:
        return [dict(row) for row in self.snapshots[self.refs[ref]].rows] if ref in self.refs else []

    def ancestors(self, ref: str = "main") -> list[Snapshot]:
        chain, current = [], self.refs.get(ref)
        while current is not None and current in self.snapshots:
            chain.append(self.snapshots[current])
            current = self.snapshots[current].parent
        return chain

    def find_tagged(self, pipeline: str) -> Snapshot | None:
        return self.snapshots.get(self.refs.get(resource_names.name_tag(pipeline), -1))


class Lake:
    """The tables of all catalogs, and one clock."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.tables: dict[str, MemoryTable] = {}
        self.control: dict[str, list[Row]] = {}
        self.branches: dict[str, str] = {}  # by table: what is written in place of main
        self._ids = Numbering(7_000_000_000_000_000_001)  # beyond what a float can hold, as Iceberg's are
        self._uuids, self._sequence = Numbering(), Numbering()

    def create(self, table: str, columns: tuple[Column, ...]) -> MemoryTable:
        """CREATE TABLE IF NOT EXISTS."""
        if table not in self.tables:
            self.tables[table] = MemoryTable(f"00000000-0000-0000-0000-{next(self._uuids):012d}", columns)
        return self.tables[table]

    def add_snapshot(self, table: str, ref: str, rows: tuple[Row, ...], summary: Mapping[str, str]) -> Snapshot:
        memory_table = self.get_table(table)
        snapshot = Snapshot(
            next(self._ids), memory_table.refs.get(ref), dict(summary), rows, self.clock.tick(), next(self._sequence)
        )
        memory_table.snapshots[snapshot.id] = snapshot
        memory_table.refs[ref] = snapshot.id
        return snapshot

    def rename_column(self, table: str, old_name: str, new_name: str) -> None:
        """ALTER TABLE RENAME COLUMN of a table with a name mapping."""
        memory_table = self.get_table(table)
        memory_table.columns = tuple(
            replace(c, name=new_name) if c.name == old_name else c for c in memory_table.columns
        )
        memory_table.renamed[old_name], memory_table.schema_id = new_name, memory_table.schema_id + 1
        for number, snapshot in memory_table.snapshots.items():
            rows = tuple(
                {new_name if name == old_name else name: v for name, v in row.items()} for row in snapshot.rows
            )
            memory_table.snapshots[number] = replace(snapshot, rows=rows)

    def append_foreign_rows(self, table: str, *rows: Row) -> Snapshot:
        return self.add_snapshot(table, "main", (*self.get_table(table).read_rows(), *rows), {"operation": "append"})

    def rollback(self, table: str, snapshot_id: int) -> None:
        self.get_table(table).refs["main"] = snapshot_id

    def replace(self, table: str) -> MemoryTable:
        """DROP TABLE and CREATE TABLE of the same name."""
        columns = self.tables.pop(table).columns
        return self.create(table, columns)

    def expire(self, table: str, snapshot_id: int) -> None:
        del self.get_table(table).snapshots[snapshot_id]

    def choose_branch(self, table: str) -> str:
        """The branch that is read: the one that is written, or main as long as that is not there."""
        branch = self.branches.get(table, "main")
        return branch if branch in self.tables[table].refs else "main"

    def check_removable(self, name: str, kinds: tuple[str, ...]) -> None:
        properties = self.tables[name].properties
        check_kind(name, properties.get(KIND_PROPERTY), kinds)

    def get_table(self, name: str) -> MemoryTable:
        if name not in self.tables:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans again")
        return self.tables[name]


def subtract_rows(rows: Iterable[Row], subtrahend: Iterable[Row]) -> tuple[Row, ...]:
    """The rows that are left when each of the others has taken one that equals it."""
    row_counts = Counter(json.dumps(row, sort_keys=True, default=str) for row in subtrahend)
    difference = []
    for row in rows:
        text = json.dumps(row, sort_keys=True, default=str)
        if row_counts[text]:
            row_counts[text] -= 1
        else:
            difference.append(row)
    return tuple(difference)


def is_within(row: Row, ranges: Iterable[Any]) -> bool:
    """Whether a record's place lies in ranges, given as they are or as a statement's values."""
    return any(
        (row["topic"], row["partition"]) == (topic, partition) and start <= row["offset"] < end
        for topic, partition, start, end in ranges
    )
