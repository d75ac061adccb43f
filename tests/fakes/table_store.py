"""The port `TableStore` in memory: states, schemas, marks, figures."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.model import resource_names
from tidegate.model.ownership import (
    KIND_PROPERTY,
    MEMORY_KINDS,
    Ownership,
    check_mark,
)
from tidegate.model.position import Position
from tidegate.model.table_state import (
    FolderLimit,
    TableFiles,
    TableState,
)
from tidegate.schema.data_types import Column, Struct
from tidegate.schema.evolution import EvolutionRules, SchemaChange, find_schema_changes, to_struct
from tidegate.sql.pruning import Bounds

from fakes.bounds import compute_bounds, compute_overlap
from fakes.tables import Lake, MemoryTable, Snapshot


class MemoryTableStore(Lake):
    """States, schemas and marks of tables."""

    def list_tables(self, namespace: str) -> list[str]:
        return sorted(name.rpartition(".")[2] for name in self.tables if name.rpartition(".")[0] == namespace)

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        memory_table = self.tables.get(table)
        if memory_table is None:
            return None
        ancestors, tagged = memory_table.ancestors(self.choose_branch(table)), memory_table.find_tagged(pipeline)
        recorded_position = Position.from_properties(pipeline, memory_table.properties)
        recorded_position = recorded_position or _find_carried_position(
            [*([tagged] if tagged else []), *ancestors], pipeline
        )
        rolled_back = recorded_position is not None and (tagged is None or tagged not in ancestors)
        if recorded_position is not None and not rolled_back:
            recorded_position = (
                _find_carried_position(ancestors[: ancestors.index(tagged)], pipeline) or recorded_position
            )
        end = ancestors[-1] if ancestors else None
        cut_off = end is not None and end.parent is not None and tagged is not None and end.sequence > tagged.sequence
        return TableState(
            uuid=memory_table.uuid,
            snapshot_id=memory_table.refs.get(self.choose_branch(table)),
            schema_id=memory_table.schema_id,
            position=_find_carried_position(ancestors, pipeline) if rolled_back else recorded_position,
            highest_batch=recorded_position.batch if recorded_position else 0,
            columns=memory_table.columns,
            schema=_to_struct(memory_table),
            is_rolled_back=rolled_back,
            recorded_position=recorded_position,
            snapshot_ms=tagged.ms if tagged else 0,
            snapshots_since_publish=ancestors.index(tagged) if tagged in ancestors else 0,
            marks={
                k: v
                for k, v in memory_table.properties.items()
                if k.startswith(resource_names.name_pipeline_property(pipeline, ""))
            },
            is_untraceable=rolled_back and cut_off,
            is_untagged=rolled_back and tagged is None,
            kind=memory_table.properties.get(KIND_PROPERTY, ""),
            format_version=memory_table.format_version,
            total_records=len(memory_table.read_rows(self.choose_branch(table)))
            if self.choose_branch(table) in memory_table.refs
            else 0,
        )

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        memory_table = self.get_table(table)
        schema_changes = find_schema_changes(
            table, _to_struct(memory_table), columns, EvolutionRules(add, widen, relax)
        )
        if schema_changes:
            memory_table.columns, memory_table.schema_id = (
                _apply_changes(memory_table.columns, columns, schema_changes),
                memory_table.schema_id + 1,
            )
        return [str(change) for change in schema_changes]

    def find_bounds(self, table: str, values: Mapping[str, Any]) -> Bounds:
        source_table = self.tables.get(values["source"])
        snapshot = source_table.snapshots.get(values["snapshot_id"]) if source_table else None
        rows = (
            [row for row in snapshot.rows if row["batch_number"] in [number for number, _ in values["parts"]]]
            if snapshot
            else []
        )
        bounds = compute_bounds([row["key"] for row in rows], values)
        cut_snapshot = self.get_table(table).snapshots[values["at"]] if "at" in values else None
        return bounds if cut_snapshot is None else replace(bounds, overlap=compute_overlap(cut_snapshot.rows, bounds))

    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        return ()

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        memory_table = self.tables.get(table)
        name_parts = (
            name.split(".") for name in (memory_table.properties if memory_table else ()) if name.endswith(".position")
        )
        tags = (resource_names.parse_tag_pipeline(tag) for tag in (memory_table.tags if memory_table else ()))
        return tuple(sorted({*(words[1] for words in name_parts), *tags}))

    def claim(self, table: str, owner: Ownership) -> dict[str, str] | None:
        memory_table = self.tables.get(table)
        if memory_table is None:
            return None
        check_mark(table, owner, owner.properties, memory_table.properties)
        return dict(memory_table.properties)

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        deletes_table = self.tables.get(deletes)
        rows = (
            deletes_table.read_rows()
            if deletes_table is not None and deletes_table.properties.get(KIND_PROPERTY) in MEMORY_KINDS
            else []
        )
        recent_rows = tuple(row for row in rows if row["timestamp"] >= before_ms)
        if len(recent_rows) < len(rows):
            self.add_snapshot(deletes, "main", recent_rows, {})
        return len(rows) - len(recent_rows)

    def has_files(self, table: str) -> bool:
        return table in self.tables

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """Every snapshot of a table that added rows is one small file; compaction makes them one."""
        memory_table = self.tables.get(table)
        if memory_table is None:
            return None
        snapshots = [s for s in memory_table.ancestors() if "compacted" not in s.summary]
        tagged = {memory_table.refs[name]: name for name in memory_table.tags if resource_names.is_ours(name)}
        depths = [n for n, s in enumerate(memory_table.ancestors(), 1) if s.id in tagged]
        depths += [_count_to_position(memory_table, tag) for tag in tagged.values()]
        files = 1 if len(snapshots) < len(memory_table.ancestors()) else len(snapshots)
        counts = {
            "data_files": files,
            "small_files": files,
            "max_small_files_per_partition": files,
            "rows": len(memory_table.read_rows()),
        }
        max_depth = max(depths, default=0)
        oldest_ms = min((s.ms for s in memory_table.ancestors()[:max_depth]), default=None)
        return TableFiles(
            **counts, snapshots=len(memory_table.snapshots), snapshots_since_tag=max_depth, oldest_tagged_ms=oldest_ms
        )

    def read_property(self, table: str, name: str) -> str | None:
        memory_table = self.tables.get(table)
        return memory_table.properties.get(name) if memory_table else None

    def count_rows(self, table: str) -> int | None:
        return len(self.tables[table].read_rows(self.choose_branch(table))) if table in self.tables else None


def _find_carried_position(snapshots: list[Snapshot], pipeline: str) -> Position | None:
    positions = (Position.from_properties(pipeline, snapshot.summary) for snapshot in snapshots)
    return next((position for position in positions if position is not None), None)


def _count_to_position(table: MemoryTable, tag: str) -> int:
    """How many snapshots of main lead to the position that it carries, if it was rolled back to before the tag."""
    line, tag_line = table.ancestors(), table.ancestors(tag)
    shared = [snapshot in tag_line for snapshot in line]
    if shared[:1] == [True] or True not in shared:
        return 0
    prefix = resource_names.name_pipeline_property(resource_names.parse_tag_pipeline(tag), "position")
    below = range(shared.index(True), len(line))
    return 1 + next((n for n in below if prefix in line[n].summary), below[0])


def _to_struct(table: MemoryTable) -> Struct:
    return replace(to_struct(table.columns), aliases=tuple(table.renamed.items()))


def _apply_changes(
    current_columns: tuple[Column, ...], requested_columns: tuple[Column, ...], schema_changes: tuple[SchemaChange, ...]
) -> tuple[Column, ...]:
    """The columns after some changes; one that changes inside gets the wanted type as a whole."""
    columns, types = {c.name: c for c in current_columns}, {c.name: c.type for c in requested_columns}
    for change in schema_changes:
        name, nested = change.path[0], len(change.path) > 1
        if nested:
            columns[name] = replace(columns[name], type=types[name])
        elif change.kind == "relax":
            columns[name] = replace(columns[name], nullable=True)
        else:
            columns[name] = Column(name, change.type)
    return tuple(columns.values())
