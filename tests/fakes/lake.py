"""The ports of a destination in memory: tables with snapshots, branches and properties, and compare-and-swap."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from tidegate.errors import CommitRefused, GiveUp
from tidegate.jobs.merge_job import AuditAnswers
from tidegate.jobs.record_explanation import RecordExplanation
from tidegate.jobs.stage_outcome import DiscoveredNames, StageOutcome
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import (
    KIND_PROPERTY,
    MEMORY_KINDS,
    SHAPE_PROPERTY,
    STAGING_KINDS,
    Mark,
    Ownership,
    TableKind,
    check_kind,
    check_recognised,
    compare_mark,
    refuse_other_mark,
)
from tidegate.model.position import Position
from tidegate.model.table_state import (
    DeadLetter,
    DeadLetters,
    Head,
    PastSnapshot,
    Rollback,
    SignedAttempt,
    Staging,
    TableCommit,
    TableFiles,
    TableState,
    WaitingLetter,
)
from tidegate.ports.destination import Destination
from tidegate.schema.column import Column
from tidegate.schema.data_types import Struct
from tidegate.schema.evolution import EvolutionRules, SchemaChange, find_schema_changes, to_struct
from tidegate.sql.pruning import Bounds

from fakes.bounds import compute_bounds, compute_overlap
from fakes.clock import Clock

Row = dict[str, Any]


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


class MemoryDestination:
    """The five ports of a destination over dicts, with compare-and-swap, and foreign writers for tests."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.tables: dict[str, MemoryTable] = {}
        self.control: dict[str, list[Row]] = {}
        self.branches: dict[str, str] = {}  # by table: what is written in place of main
        self._ids = count(7_000_000_000_000_000_001)  # beyond what a float can hold, as Iceberg's are
        self._uuids, self._sequence = count(1), count(1)

    # the port

    def list_namespaces(self, catalog: str) -> list[str]:
        return sorted({name.rpartition(".")[0] for name in self.tables if name.startswith(f"{catalog}.")})

    def list_tables(self, namespace: str) -> list[str]:
        return sorted(name.rpartition(".")[2] for name in self.tables if name.rpartition(".")[0] == namespace)

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        memory_table = self.tables.get(table)
        if memory_table is None:
            return None
        ancestors, tagged = memory_table.ancestors(self._written(table)), memory_table.find_tagged(pipeline)
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
            snapshot_id=memory_table.refs.get(self._written(table)),
            schema_id=memory_table.schema_id,
            position=_find_carried_position(ancestors, pipeline) if rolled_back else recorded_position,
            highest_batch=recorded_position.batch if recorded_position else 0,
            columns=memory_table.columns,
            schema=_to_struct(memory_table),
            is_rolled_back=rolled_back,
            recorded_position=recorded_position,
            snapshot_ms=tagged.ms if tagged else 0,
            marks={
                k: v
                for k, v in memory_table.properties.items()
                if k.startswith(resource_names.name_pipeline_property(pipeline, ""))
            },
            is_untraceable=rolled_back and cut_off,
            is_untagged=rolled_back and tagged is None,
            kind=memory_table.properties.get(KIND_PROPERTY, ""),
            total_records=len(memory_table.read_rows(self._written(table)))
            if self._written(table) in memory_table.refs
            else 0,
        )

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        memory_table = self._table(table)
        target = self.branches.get(table, "main")
        if "main" in memory_table.refs:
            raise CommitRefused(f"table={table} has a snapshot already")
        self.add_snapshot(table, "main", (), position.to_properties(pipeline))
        memory_table.refs[target] = memory_table.refs[resource_names.name_tag(pipeline)] = memory_table.refs["main"]
        memory_table.tags.add(resource_names.name_tag(pipeline))
        memory_table.properties |= position.to_properties(pipeline)

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        memory_table = self._table(table)
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
        rows = [row for row in snapshot.rows if row["batch_number"] == values["batch"]] if snapshot else []
        bounds = compute_bounds([row["key"] for row in rows], values)
        cut_snapshot = self._table(table).snapshots[values["at"]] if "at" in values else None
        return bounds if cut_snapshot is None else replace(bounds, overlap=compute_overlap(cut_snapshot.rows, bounds))

    def has_branches(self, table: str) -> bool:
        return True

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        return None

    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        properties = self.tables[intermediate].properties if intermediate in self.tables else {}
        outcome_text = properties.pop(resource_names.name_counted_property(attempt), None)
        if outcome_text is not None:
            properties[resource_names.name_staged_property(attempt)] = outcome_text
        return self.read_staged_outcome(intermediate, attempt)

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        memory_table = self._table(table)
        current_head = memory_table.refs.get(self._written(table))
        if (memory_table.uuid, current_head) != (state.uuid, state.snapshot_id) or branch in memory_table.refs:
            raise CommitRefused(f"table={table}: main has moved")
        memory_table.refs[branch] = state.snapshot_id

    def read_head(self, table: str, branch: str) -> Head | None:
        memory_table = self._table(table)
        snapshot = memory_table.snapshots.get(memory_table.refs.get(branch, -1))
        return Head(snapshot.id, snapshot.parent, dict(snapshot.summary)) if snapshot else None

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        self.add_snapshot(table, branch, tuple(self._table(table).read_rows(branch)), summary)

    def publish(self, table_commit: TableCommit) -> None:
        memory_table = self._table(table_commit.table)
        required_refs = (table_commit.uuid, table_commit.cut, table_commit.head, table_commit.schema_id)
        main = memory_table.refs.get(self._written(table_commit.table))
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
        memory_table = self._table(table_commit.table)
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
        if cut_snapshot not in memory_table.ancestors(self._written(table_commit.table)) or (
            deleted_rows and foreign_deleted_rows
        ):
            return None
        if keys is not None and foreign_added_rows:
            overlap = compute_overlap(foreign_added_rows, self.find_bounds(table_commit.table, keys))
            if overlap is None or overlap.files:
                return None
        current_refs = (
            memory_table.refs.get(self._written(table_commit.table)),
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

    def drop_branch(self, table: str, branch: str) -> None:
        self._table(table).refs.pop(branch, None)

    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        memory_table, tag = self._table(table), resource_names.name_tag(pipeline)
        state = self.read_state(table, pipeline)
        if state is None or not state.is_rolled_back or state.snapshot_id is None or tag not in memory_table.refs:
            return None
        current_line, tagged_line = memory_table.ancestors(self._written(table)), memory_table.ancestors(tag)
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
        memory_table = self._table(table)
        current_refs = (
            memory_table.refs.get(self._written(table)),
            memory_table.refs.get(resource_names.name_tag(pipeline)),
        )
        if current_refs != (rollback.current_snapshot_id, rollback.tagged_snapshot_id):
            raise CommitRefused(f"table={table}: main or tag has moved")
        memory_table.refs[self.branches.get(table, "main")] = rollback.tagged_snapshot_id
        memory_table.properties |= properties

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        snapshots = self._table(table).snapshots.values()
        return [s.id for s in snapshots if s.summary.get("tidegate.attempt") == attempt]

    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        if table not in self.tables:
            return frozenset()
        line = self.tables[table].ancestors(self._written(table))
        cut_sequence = line[-1].sequence if line and line[-1].parent is not None else 0
        named_snapshots = [s for s in self.tables[table].snapshots.values() if name in s.summary]
        current_values = {s.summary[name] for s in named_snapshots if s in line or s.sequence <= cut_sequence}
        return frozenset(s.summary[name] for s in named_snapshots) - current_values

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        memory_table = self._table(table)
        numbers = {
            ref: resource_names.parse_branch_batch(pipeline, ref) for ref in set(memory_table.refs) - memory_table.tags
        }
        branches_to_drop = [ref for ref, number in numbers.items() if number is not None and number <= up_to_batch]
        for ref in branches_to_drop:
            del memory_table.refs[ref]
        return len(branches_to_drop)

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        intermediate_table = self.tables.get(intermediate)
        batches_by_number: dict[int, StagedBatch] = {}
        for snapshot in (
            sorted(intermediate_table.snapshots.values(), key=lambda s: s.sequence) if intermediate_table else []
        ):
            outcome = self.read_staged_outcome(intermediate, snapshot.summary.get("tidegate.attempt", ""))
            if outcome is None or outcome.bad:
                continue
            staged_batch = outcome.to_staged_batch(table, snapshot.summary, snapshot.id)
            size = sum(len(json.dumps(row)) for row in snapshot.rows if row["batch_number"] == staged_batch.batch)
            batches_by_number[staged_batch.batch] = replace(staged_batch, bytes=size)
        return [batches_by_number[batch] for batch in sorted(batches_by_number)]

    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        text = self.read_property(intermediate, resource_names.name_staged_property(attempt))
        return None if text is None else StageOutcome.from_json(text, f"intermediate={intermediate} attempt={attempt}")

    def read_explanation(self, intermediate: str, batch: int, attempt: str) -> RecordExplanation | None:
        text = self.read_property(intermediate, resource_names.name_counted_property(attempt))
        return None if text is None else RecordExplanation.from_json(text, f"intermediate={intermediate}")

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        intermediate_table = self.tables.get(intermediate)
        if intermediate_table is None or "main" not in intermediate_table.refs:
            return None
        last_snapshot_ids = {
            s.summary["tidegate.batch"]: s.id
            for s in intermediate_table.snapshots.values()
            if "tidegate.batch" in s.summary
        }
        staged_batches = [
            s for s in self.list_staged(intermediate, table) if last_snapshot_ids[str(s.batch)] == s.snapshot_id
        ]
        current_id = intermediate_table.refs["main"]
        return Staging(current_id, tuple(replace(s, snapshot_id=current_id) for s in staged_batches))

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        prefix = resource_names.get_backfill_prefix(pipeline, table)
        ownership_mark = Ownership(TableKind.INTERMEDIATE, pipeline, table.split(".", 1)[1]).properties.items()
        property_maps = [t.properties for name, t in sorted(self.tables.items()) if name.startswith(prefix)]
        notes = [
            p.get(resource_names.BACKFILL_PROPERTY, "")
            for p in property_maps
            if KIND_PROPERTY not in p or ownership_mark <= p.items()
        ]
        return [note for note in notes if note]

    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        properties = self.tables[intermediate].properties if intermediate in self.tables else {}
        if properties.get(SHAPE_PROPERTY) != shape:
            return frozenset()
        return frozenset(
            number for name in properties if (number := resource_names.parse_applied_slice(name)) is not None
        )

    def mark_applied(self, intermediate: str, number: int) -> None:
        self._table(intermediate).properties[resource_names.name_applied_property(number)] = "true"

    def drop(self, intermediate: str) -> None:
        if intermediate in self.tables:
            self._check_removable(intermediate, ("intermediate",))
        self.tables.pop(intermediate, None)

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        memory_table = self.tables.get(table)
        if memory_table is not None:
            branches = [
                r for r in memory_table.refs if resource_names.parse_backfill_slice(pipeline, backfill, r) is not None
            ]
            memory_table.refs = {
                name: snapshot_id
                for name, snapshot_id in memory_table.refs.items()
                if name not in set(branches) - memory_table.tags
            }
            memory_table.properties.pop(resource_names.name_backfill_property(pipeline, backfill), None)

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        memory_table = self.tables.get(table)
        name_parts = (
            name.split(".") for name in (memory_table.properties if memory_table else ()) if name.endswith(".position")
        )
        tags = (resource_names.parse_tag_pipeline(tag) for tag in (memory_table.tags if memory_table else ()))
        return tuple(sorted({*(words[1] for words in name_parts), *tags}))

    def read_audit_answers(self, intermediate: str, attempt: str) -> AuditAnswers | None:
        text = self.read_property(intermediate, resource_names.name_audit_property(attempt))
        return None if text is None else AuditAnswers.from_json(text, f"intermediate={intermediate} attempt={attempt}")

    def claim(self, table: str, owner: Ownership) -> dict[str, str] | None:
        memory_table = self.tables.get(table)
        if memory_table is None:
            return None
        refuse_other_mark(table, owner, owner.properties, memory_table.properties)
        if compare_mark(owner.properties, memory_table.properties) is Mark.MISSING:
            check_recognised(
                table, owner, [c.name for c in memory_table.columns], memory_table.properties.get(SHAPE_PROPERTY)
            )
            memory_table.properties |= owner.properties
        return dict(memory_table.properties)

    def has_mark(self, table: str, own: Ownership) -> bool:
        memory_table = self.tables.get(table)
        return memory_table is not None and own.properties.items() <= memory_table.properties.items()

    def find_highest_batch(self, intermediate: str) -> int:
        intermediate_table = self.tables.get(intermediate)
        summaries = [s.summary for s in intermediate_table.snapshots.values()] if intermediate_table else []
        summaries = [
            s for s in summaries if not self._is_dead(intermediate, s) and not self._is_unfinished(intermediate, s)
        ]
        first_batch = int(intermediate_table.properties.get("tidegate.highest-batch", "0")) if intermediate_table else 0
        return max([first_batch, *(int(s.get(f"tidegate.{n}", "0")) for s in summaries for n in ("batch", "clean-up"))])

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        intermediate_table = self.tables.get(intermediate)
        if intermediate_table is None:
            return {}
        self._check_removable(intermediate, STAGING_KINDS)
        last_snapshots = {
            s.summary.get("tidegate.batch"): s
            for s in sorted(intermediate_table.snapshots.values(), key=lambda s: s.sequence)
        }
        dead_snapshots = [s for s in intermediate_table.snapshots.values() if self._is_dead(intermediate, s.summary)]
        dead_snapshots += [
            s
            for s in intermediate_table.snapshots.values()
            if self._is_unfinished(intermediate, s.summary) and last_snapshots[s.summary["tidegate.batch"]] is not s
        ]
        numbers = {int(b) for s in dead_snapshots if last_snapshots[b := s.summary["tidegate.batch"]] is s}
        spent_snapshots = [
            s for s in intermediate_table.snapshots.values() if _is_spent(s, up_to_batch) or s in dead_snapshots
        ]
        spent_ids = {s.id for s in spent_snapshots}
        live_attempts = {
            s.summary.get("tidegate.attempt", "")
            for s in intermediate_table.snapshots.values()
            if s.id not in spent_ids
        }
        namers = ("name_counted_property", "name_staged_property", "name_audit_property")
        for prefix in (getattr(resource_names, name)("") for name in namers):
            for name in [
                p
                for p in intermediate_table.properties
                if p.startswith(prefix) and p.removeprefix(prefix) not in live_attempts
            ]:
                del intermediate_table.properties[name]
        if not spent_snapshots or all(
            intermediate_table.refs.get("main") == s.id and "tidegate.clean-up" in s.summary for s in spent_snapshots
        ):
            return {"batches": 0, "snapshots": len(spent_snapshots), "files": 0}
        remaining_rows = tuple(
            r
            for r in intermediate_table.read_rows()
            if r["batch_number"] > up_to_batch and r["batch_number"] not in numbers
        )
        self.add_snapshot(intermediate, "main", remaining_rows, {"tidegate.clean-up": str(up_to_batch)})
        for snapshot in spent_snapshots:
            del intermediate_table.snapshots[snapshot.id]
        batches = {s.summary["tidegate.batch"] for s in spent_snapshots if "tidegate.batch" in s.summary}
        return {"batches": len(batches), "snapshots": len(spent_snapshots), "files": len(spent_snapshots)}

    def _is_dead(self, intermediate: str, summary: Mapping[str, str]) -> bool:
        """Whether an attempt has ended, and with something that is never merged."""
        outcome = self.read_staged_outcome(intermediate, summary.get("tidegate.attempt", ""))
        if outcome is None or "tidegate.staged" not in summary:
            return False
        return not outcome.can_be_merged(Ranges.from_dict(json.loads(summary["tidegate.staged"])["ranges"]).span)

    def _is_unfinished(self, intermediate: str, summary: Mapping[str, str]) -> bool:
        """Whether an attempt has left no counts; its job was killed, or is just about to leave them."""
        attempt = summary.get("tidegate.attempt", "")
        return "tidegate.staged" in summary and self.read_staged_outcome(intermediate, attempt) is None

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

    def append_history(self, control: str, row: Row) -> None:
        self.control.setdefault(control, []).append(dict(row))

    def read_history(self, control: str, limit: int) -> list[Row]:
        rows = sorted(self.control.get(control, []), key=lambda r: r["published_at_ms"], reverse=True)
        return rows[:limit]

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """Every snapshot of a table that added rows is one small file; compaction makes them one."""
        memory_table = self.tables.get(table)
        if memory_table is None:
            return None
        snapshots = [s for s in memory_table.ancestors() if "compacted" not in s.summary]
        tagged = {i for name, i in memory_table.refs.items() if resource_names.is_ours(name)}
        depths = [n for n, s in enumerate(memory_table.ancestors(), 1) if s.id in tagged]
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

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        raise AssertionError("nothing was left in a folder")

    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        return []

    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> StageOutcome | None:
        raise AssertionError("nothing was left in a folder")

    def read_discovered_names(self, intermediate: str, batch: int, attempt: str) -> DiscoveredNames | None:
        raise AssertionError("nothing was left in a folder")

    def read_property(self, table: str, name: str) -> str | None:
        memory_table = self.tables.get(table)
        return memory_table.properties.get(name) if memory_table else None

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        rows = self.tables[name].read_rows() if name in self.tables else []
        waiting_rows = sorted((r for r in rows if r["replayed_at"] is None), key=lambda r: -r["written_at"])
        discarded_count = sum(row["stage"] == "discarded" for row in rows)
        replayed_count = len(rows) - len(waiting_rows) - discarded_count
        return DeadLetters(
            len(waiting_rows),
            replayed_count,
            tuple(_build_letter(row) for row in waiting_rows[:limit]),
            discarded_count,
        )

    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        waiting_rows = (row for row in rows if row["table"] == table and row["replayed_at"] is None)
        return [
            WaitingLetter(
                *(r["topic"], r["partition"], r["offset"], r.get("topic_id"), r["message"]),
                datetime.fromtimestamp(r["written_at"] / 1000, UTC),
            )
            for r in waiting_rows
        ]

    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        replayed_rows = (row for row in rows if row["table"] == table and row.get("replayed_by") in set(attempts))
        return [_build_letter(row).place._replace(replayed_by=row["replayed_by"]) for row in replayed_rows]

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        attempt_rows = [row for row in rows if (row["table"], row["attempt"]) == (table, attempt)]
        return sorted(
            map(_build_letter, attempt_rows), key=lambda letter: (letter.topic, letter.partition, letter.offset)
        )

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        return ""

    def count_letters_of_others(
        self, name: str, table: str, attempt: str, ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        rows_of_others = [row for row in rows if row["table"] == table and row["attempt"] != attempt]
        return Counter((row["topic"], row["partition"]) for row in rows_of_others if is_within(row, ranges))

    def count_rows(self, table: str) -> int | None:
        return len(self.tables[table].read_rows(self._written(table))) if table in self.tables else None

    # what Spark and foreign writers do

    def create(self, table: str, columns: tuple[Column, ...]) -> MemoryTable:
        """CREATE TABLE IF NOT EXISTS."""
        if table not in self.tables:
            self.tables[table] = MemoryTable(f"00000000-0000-0000-0000-{next(self._uuids):012d}", columns)
        return self.tables[table]

    def add_snapshot(self, table: str, ref: str, rows: tuple[Row, ...], summary: Mapping[str, str]) -> Snapshot:
        memory_table = self._table(table)
        snapshot = Snapshot(
            next(self._ids), memory_table.refs.get(ref), dict(summary), rows, self.clock.tick(), next(self._sequence)
        )
        memory_table.snapshots[snapshot.id] = snapshot
        memory_table.refs[ref] = snapshot.id
        return snapshot

    def rename_column(self, table: str, old_name: str, new_name: str) -> None:
        """ALTER TABLE RENAME COLUMN of a table with a name mapping."""
        memory_table = self._table(table)
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
        return self.add_snapshot(table, "main", (*self._table(table).read_rows(), *rows), {"operation": "append"})

    def rollback(self, table: str, snapshot_id: int) -> None:
        self._table(table).refs["main"] = snapshot_id

    def replace(self, table: str) -> MemoryTable:
        """DROP TABLE and CREATE TABLE of the same name."""
        columns = self.tables.pop(table).columns
        return self.create(table, columns)

    def expire(self, table: str, snapshot_id: int) -> None:
        del self._table(table).snapshots[snapshot_id]

    def _written(self, table: str) -> str:
        """The branch that is read: the one that is written, or main as long as that is not there."""
        branch = self.branches.get(table, "main")
        return branch if branch in self.tables[table].refs else "main"

    def _check_removable(self, name: str, kinds: tuple[str, ...]) -> None:
        properties = self.tables[name].properties
        check_kind(name, properties.get(KIND_PROPERTY), properties.get(SHAPE_PROPERTY), kinds)

    def _table(self, name: str) -> MemoryTable:
        if name not in self.tables:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans anew")
        return self.tables[name]


def build_destination(lake: Any) -> Destination:
    """The ports of one double that has the methods of all five."""
    return Destination(tables=lake, commits=lake, staging=lake, dead_letters=lake, history=lake)


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


def _find_carried_position(snapshots: list[Snapshot], pipeline: str) -> Position | None:
    positions = (Position.from_properties(pipeline, snapshot.summary) for snapshot in snapshots)
    return next((position for position in positions if position is not None), None)


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


def is_within(row: Row, ranges: Iterable[Any]) -> bool:
    """Whether a record's place lies in ranges, given as they are or as a statement's values."""
    return any(
        (row["topic"], row["partition"]) == (topic, partition) and start <= row["offset"] < end
        for topic, partition, start, end in ranges
    )


def _build_past_snapshot(table: MemoryTable, snapshot: Snapshot) -> PastSnapshot:
    parent = table.snapshots.get(snapshot.parent or -1)
    parent_rows = parent.rows if parent else ()
    rows = len(subtract_rows(snapshot.rows, parent_rows)) + len(subtract_rows(parent_rows, snapshot.rows))
    row_count = None if "uncounted" in snapshot.summary else rows
    reported_rows = 0 if snapshot.summary.get("operation") == "replace" else row_count
    pipeline = snapshot.summary.get("tidegate.pipeline", "")
    batch = snapshot.summary.get(f"tidegate.{pipeline}.batch")
    return PastSnapshot(snapshot.id, snapshot.ms, reported_rows, pipeline, None if batch is None else int(batch))


def _build_letter(row: Row) -> DeadLetter:
    """A dead letter as a reader gets it: bytes and moments, in every column."""
    moments = {name: datetime.fromtimestamp(row[name] / 1000, UTC) for name in ("timestamp", "written_at")}
    texts = {name: _encode(row[name]) for name in ("key", "value")}
    return DeadLetter.from_row({"error_class": "unreadable", **row, **moments, "headers": None, **texts})


def _encode(value: Any) -> bytes | None:
    return value if value is None else (value if isinstance(value, str) else json.dumps(value)).encode()


def _is_spent(snapshot: Snapshot, up_to_batch: int) -> bool:
    batch = snapshot.summary.get("tidegate.batch")
    return "tidegate.clean-up" in snapshot.summary or (batch is not None and int(batch) <= up_to_batch)
