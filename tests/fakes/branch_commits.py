"""The port `BranchCommits` in memory: branches, and compare-and-swap on main."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidegate.errors import CommitRefused
from tidegate.model import resource_names
from tidegate.model.position import Position
from tidegate.model.table_state import (
    CarriedPosition,
    Head,
    PastSnapshot,
    Rollback,
    SnapshotLine,
    TableCommit,
    TableState,
)

from fakes.bounds import compute_overlap
from fakes.table_store import MemoryTableStore
from fakes.tables import MemoryTable, Snapshot, subtract_rows


class MemoryBranchCommits(MemoryTableStore):
    """Commits to branches and to main."""

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        memory_table = self.get_table(table)
        target = self.branches.get(table, "main")
        if "main" in memory_table.refs:
            raise CommitRefused(f"table={table} has a snapshot already")
        self.add_snapshot(table, "main", (), position.to_properties(pipeline))
        memory_table.refs[target] = memory_table.refs[resource_names.name_tag(pipeline)] = memory_table.refs["main"]
        memory_table.tags.add(resource_names.name_tag(pipeline))
        memory_table.properties |= position.to_properties(pipeline)

    def has_branches(self, table: str) -> bool:
        return True

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        memory_table = self.get_table(table)
        current_head = memory_table.refs.get(self.choose_branch(table))
        if (memory_table.uuid, current_head) != (state.uuid, state.snapshot_id) or branch in memory_table.refs:
            raise CommitRefused(f"table={table}: main has moved")
        memory_table.refs[branch] = state.snapshot_id

    def read_head(self, table: str, branch: str) -> Head | None:
        memory_table = self.get_table(table)
        snapshot = memory_table.snapshots.get(memory_table.refs.get(branch, -1))
        return Head(snapshot.id, snapshot.parent, dict(snapshot.summary)) if snapshot else None

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        self.add_snapshot(table, branch, tuple(self.get_table(table).read_rows(branch)), summary)

    def publish(self, table_commit: TableCommit) -> None:
        memory_table = self.get_table(table_commit.table)
        required_refs = (table_commit.uuid, table_commit.cut, table_commit.head, table_commit.schema_id)
        main = memory_table.refs.get(self.choose_branch(table_commit.table))
        current_refs = (memory_table.uuid, main, memory_table.refs.get(table_commit.branch), memory_table.schema_id)
        if required_refs != current_refs:
            raise CommitRefused(f"table={table_commit.table}: required={required_refs} found={current_refs}")
        memory_table.refs[self.branches.get(table_commit.table, "main")] = table_commit.head
        if table_commit.tag is not None:
            memory_table.refs[table_commit.tag] = table_commit.head
            memory_table.tags.add(table_commit.tag)
        memory_table.properties |= table_commit.properties
        del memory_table.refs[table_commit.branch]

    def reparent(
        self,
        table_commit: TableCommit,
        onto: int,
        keys: Mapping[str, Any] | None,
        summary: dict[str, str] | None = None,
    ) -> Head | None:
        memory_table = self.get_table(table_commit.table)
        cut_snapshot, head_snapshot, new_parent = (
            memory_table.snapshots[i] for i in (table_commit.cut, table_commit.head, onto)
        )
        foreign_added_rows, foreign_deleted_rows = (
            subtract_rows(new_parent.rows, cut_snapshot.rows),
            subtract_rows(cut_snapshot.rows, new_parent.rows),
        )
        deleted_rows, added_rows = (
            subtract_rows(cut_snapshot.rows, head_snapshot.rows),
            subtract_rows(head_snapshot.rows, cut_snapshot.rows),
        )
        if cut_snapshot not in memory_table.ancestors(self.choose_branch(table_commit.table)) or (
            deleted_rows and foreign_deleted_rows
        ):
            return None
        if keys is not None and foreign_added_rows:
            overlap = compute_overlap(foreign_added_rows, self.find_bounds(table_commit.table, keys))
            if overlap is None or overlap.files:
                return None
        current_refs = (
            memory_table.refs.get(self.choose_branch(table_commit.table)),
            memory_table.refs.get(table_commit.branch),
        )
        if current_refs != (onto, table_commit.head):
            raise CommitRefused(f"table={table_commit.table}: main has moved")
        snapshot = self.add_snapshot(
            table_commit.table,
            table_commit.branch,
            (*subtract_rows(new_parent.rows, deleted_rows), *added_rows),
            {**head_snapshot.summary, **(summary or {})},
        )
        memory_table.snapshots[snapshot.id] = replace(snapshot, parent=onto)
        del memory_table.snapshots[head_snapshot.id]
        return self.read_head(table_commit.table, table_commit.branch)

    def note(self, table: str, state: TableState, properties: dict[str, str]) -> None:
        memory_table = self.get_table(table)
        current_refs = (memory_table.uuid, memory_table.refs.get(self.choose_branch(table)))
        if current_refs != (state.uuid, state.snapshot_id):
            raise CommitRefused(f"table={table}: main has moved")
        if any(memory_table.properties.get(name) != state.marks.get(name) for name in properties):
            raise CommitRefused(f"table={table}: a property has changed")
        memory_table.properties |= properties

    def fast_forward(self, table: str, branch: str, attempt: str) -> None:
        memory_table = self.get_table(table)
        main = memory_table.refs.get("main")
        if branch not in memory_table.refs:
            if not any(s.summary.get("tidegate.attempt") == attempt for s in memory_table.ancestors()):
                raise CommitRefused(f"table={table}: branch={branch} is gone")
            return
        if main is not None and main not in [s.id for s in memory_table.ancestors(branch)]:
            raise CommitRefused(f"table={table}: main has moved")
        memory_table.refs["main"] = memory_table.refs.pop(branch)

    def drop_branch(self, table: str, branch: str) -> None:
        self.get_table(table).refs.pop(branch, None)

    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        memory_table, tag = self.get_table(table), resource_names.name_tag(pipeline)
        state = self.read_state(table, pipeline)
        if state is None or not state.is_rolled_back or state.snapshot_id is None or tag not in memory_table.refs:
            return None
        current_line, tagged_line = memory_table.ancestors(self.choose_branch(table)), memory_table.ancestors(tag)
        shared_ids = {s.id for s in current_line} & {s.id for s in tagged_line}
        origins = (current_line[-1].parent, tagged_line[-1].parent)
        return Rollback(
            current_line[0].id,
            tagged_line[0].id,
            returning_snapshots=tuple(
                _build_past_snapshot(memory_table, s) for s in tagged_line if s.id not in shared_ids
            ),
            discarded_snapshots=tuple(
                _build_past_snapshot(memory_table, s) for s in current_line if s.id not in shared_ids
            ),
            is_traceable=bool(shared_ids) or (origins[0] is not None and origins[0] == origins[1]),
            rows_now=len(current_line[0].rows),
            rows_then=len(tagged_line[0].rows),
        )

    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        memory_table = self.get_table(table)
        current_refs = (
            memory_table.refs.get(self.choose_branch(table)),
            memory_table.refs.get(resource_names.name_tag(pipeline)),
        )
        if current_refs != (rollback.current_snapshot_id, rollback.tagged_snapshot_id):
            raise CommitRefused(f"table={table}: main or tag has moved")
        memory_table.refs[self.branches.get(table, "main")] = rollback.tagged_snapshot_id
        memory_table.properties |= properties

    def upgrade_format(self, table: str, uuid: str, properties: dict[str, str]) -> None:
        memory_table = self.get_table(table)
        if memory_table.uuid != uuid:
            raise CommitRefused(f"table={table}: another table of that name")
        memory_table.format_version = 3
        memory_table.properties |= properties

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        snapshots = self.get_table(table).snapshots.values()
        return [s.id for s in snapshots if s.summary.get("tidegate.attempt") == attempt]

    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        if table not in self.tables:
            return frozenset()
        line = self.tables[table].ancestors(self.choose_branch(table))
        cut_sequence = line[-1].sequence if line and line[-1].parent is not None else 0
        named_snapshots = [s for s in self.tables[table].snapshots.values() if name in s.summary]
        current_values = {s.summary[name] for s in named_snapshots if s in line or s.sequence <= cut_sequence}
        return frozenset(s.summary[name] for s in named_snapshots) - current_values

    def read_snapshot_line(self, table: str, pipeline: str) -> SnapshotLine:
        if table not in self.tables:
            return SnapshotLine()
        line = self.tables[table].ancestors(self.choose_branch(table))
        positions = []
        for snapshot in reversed(line):
            if position := Position.from_properties(pipeline, snapshot.summary):
                carried = CarriedPosition(
                    snapshot_id=snapshot.id,
                    at_ms=snapshot.ms,
                    batch=position.batch,
                    staged_attempt=position.staged_attempt,
                    offsets=position.offsets,
                    is_batch="tidegate.written-as" in snapshot.summary,
                )
                positions.append(carried)
        staying = frozenset(s.id for s in line)
        return SnapshotLine(tuple(positions), frozenset(self.tables[table].snapshots) - staying, staying)

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        memory_table = self.tables.get(table)
        if memory_table is None:
            return 0
        branches = set(memory_table.refs) - memory_table.tags
        numbers = {ref: resource_names.parse_branch_batch(pipeline, ref) for ref in branches}
        backfills = {ref: resource_names.parse_branch_backfill(pipeline, ref) for ref in branches}
        branches_to_drop = [ref for ref, number in numbers.items() if number is not None and number <= up_to_batch]
        branches_to_drop += [ref for ref, backfill in backfills.items() if backfill is not None and is_gone(backfill)]
        for ref in branches_to_drop:
            del memory_table.refs[ref]
        return len(branches_to_drop)


def _build_past_snapshot(table: MemoryTable, snapshot: Snapshot) -> PastSnapshot:
    parent = table.snapshots.get(snapshot.parent or -1)
    parent_rows = parent.rows if parent else ()
    rows = len(subtract_rows(snapshot.rows, parent_rows)) + len(subtract_rows(parent_rows, snapshot.rows))
    row_count = None if "uncounted" in snapshot.summary else rows
    reported_rows = 0 if snapshot.summary.get("operation") == "replace" else row_count
    pipeline = snapshot.summary.get("tidegate.pipeline", "")
    batch = snapshot.summary.get(f"tidegate.{pipeline}.batch")
    return PastSnapshot(snapshot.id, snapshot.ms, reported_rows, pipeline, None if batch is None else int(batch))
