"""Which snapshots of an Iceberg table one descends from, and what their summaries say."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from tidegate.adapters.iceberg.types import Path, list_field_ids

MERGE_COUNTERS = tuple(f"spark.merge-into.num-target-rows-{change}" for change in ("inserted", "updated", "deleted"))
WRITE_COUNTERS = ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes")
DELETE_TOTALS = ("total-position-deletes", "total-equality-deletes")
TOTAL_COUNTER = "total-records"  # a writer that sets it leaves out no other counter but one that is zero


class Lineage:
    """One table's snapshots by id. PyIceberg searches all of them for each parent, which is quadratic."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}

    def get_snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """None where it has expired, or without an id."""
        return None if snapshot_id is None else self._snapshots.get(snapshot_id)

    def iterate_ancestors(self, newest: Snapshot | None) -> Iterator[Snapshot]:
        """A snapshot and its ancestors, newest first, until one has expired."""
        while newest is not None:
            yield newest
            newest = self.get_snapshot(newest.parent_snapshot_id)

    def iterate_ancestors_to(self, newest: Snapshot | None, last: Snapshot | None) -> Iterator[Snapshot]:
        """Ancestors, newest first, up to and with `last`."""
        for snapshot in self.iterate_ancestors(newest):
            yield snapshot
            if last is not None and snapshot.snapshot_id == last.snapshot_id:
                return


def read_summary(snapshot: Snapshot) -> dict[str, str]:
    """As plain text."""
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


def parse_batch(snapshot: Snapshot) -> int | None:
    """The batch number in a staged snapshot's summary."""
    number = read_summary(snapshot).get("tidegate.batch", "")
    return int(number) if re.fullmatch(r"\d+", number) else None


def has_changed_row_counts(snapshot: Snapshot) -> bool:
    """Whether its counters are complete: the format requires none of a writer."""
    summary = snapshot.summary
    if summary is None:
        return False
    counters = (TOTAL_COUNTER, *MERGE_COUNTERS, *WRITE_COUNTERS)
    return summary.operation == Operation.REPLACE or any(name in summary.additional_properties for name in counters)


def count_changed_rows(snapshot: Snapshot) -> int:
    """At most how many rows changed: a merge's own count, else rows added and removed."""
    summary = snapshot.summary
    if summary is None or summary.operation == Operation.REPLACE:
        return 0
    properties = summary.additional_properties
    merge_counts = [properties[name] for name in MERGE_COUNTERS if name in properties]
    return sum(map(int, merge_counts or [properties[name] for name in WRITE_COUNTERS if name in properties]))


def find_emptied_columns(metadata: TableMetadata, line: Iterable[Snapshot]) -> frozenset[Path]:
    """Columns, and parts of them, that were dropped and added again: existing rows have another field id.

    `line`: the branch, newest first.
    """
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    current = schemas[metadata.current_schema_id]
    current_ids = current.field_ids
    # a table that lost no column: no summary is read
    if all(current_ids >= schema.field_ids for schema in schemas.values()):
        return frozenset()
    current_ids_by_path = list_field_ids(current.fields)
    of_schemas = {
        number: _compare_ids(current_ids_by_path, list_field_ids(schema.fields)) for number, schema in schemas.items()
    }
    open_paths = {path for _, other_paths in of_schemas.values() for path in other_paths}
    emptied = set[Path]()
    overwritten = set[Path]()
    written = Counter[Path]()
    rows = None
    for snapshot in line if open_paths else ():
        if rows is None:  # a writer may leave out totals
            rows = _read_counter(snapshot, TOTAL_COUNTER) - sum(_read_counter(snapshot, name) for name in DELETE_TOTALS)
        schema_paths, other_paths = of_schemas.get(
            -1 if snapshot.schema_id is None else snapshot.schema_id, (set(), set())
        )
        operation = snapshot.summary.operation if snapshot.summary else None
        emptied |= open_paths & other_paths
        overwritten |= schema_paths if operation == Operation.OVERWRITE else set()
        if operation != Operation.REPLACE:  # a compaction writes no new rows
            written.update(dict.fromkeys(schema_paths, _read_counter(snapshot, "added-records")))
        # filled once rows were overwritten with the present id, and as many written as the table has: an UPDATE of one
        # partition leaves the others empty
        open_paths -= emptied | {path for path in overwritten if written[path] >= rows}
        if not open_paths or read_summary(snapshot).get(TOTAL_COUNTER) == "0":
            break
    return frozenset(emptied)


def _read_counter(snapshot: Snapshot, name: str) -> int:
    text = read_summary(snapshot).get(name, "")
    return int(text) if text.isdecimal() else 0


def _compare_ids(current_ids_by_path: Mapping[Path, int], old_ids: Mapping[Path, int]) -> tuple[set[Path], set[Path]]:
    ids = set(old_ids.values())
    kept_paths = {path for path, number in current_ids_by_path.items() if number in ids}
    return kept_paths, {path for path in current_ids_by_path.keys() - kept_paths if path in old_ids}
