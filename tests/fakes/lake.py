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
        found = self.tables.get(table)
        if found is None:
            return None
        ancestors, tagged = found.ancestors(self._written(table)), found.find_tagged(pipeline)
        recorded = Position.from_properties(pipeline, found.properties)
        recorded = recorded or _find_carried_position([*([tagged] if tagged else []), *ancestors], pipeline)
        rolled_back = recorded is not None and (tagged is None or tagged not in ancestors)
        if recorded is not None and not rolled_back:
            recorded = _find_carried_position(ancestors[: ancestors.index(tagged)], pipeline) or recorded
        end = ancestors[-1] if ancestors else None
        cut_off = end is not None and end.parent is not None and tagged is not None and end.sequence > tagged.sequence
        return TableState(
            uuid=found.uuid,
            snapshot_id=found.refs.get(self._written(table)),
            schema_id=found.schema_id,
            position=_find_carried_position(ancestors, pipeline) if rolled_back else recorded,
            highest_batch=recorded.batch if recorded else 0,
            columns=found.columns,
            schema=_to_struct(found),
            is_rolled_back=rolled_back,
            recorded_position=recorded,
            snapshot_ms=tagged.ms if tagged else 0,
            marks={
                k: v
                for k, v in found.properties.items()
                if k.startswith(resource_names.name_pipeline_property(pipeline, ""))
            },
            is_untraceable=rolled_back and cut_off,
            is_untagged=rolled_back and tagged is None,
            kind=found.properties.get(KIND_PROPERTY, ""),
            total_records=len(found.read_rows(self._written(table))) if self._written(table) in found.refs else 0,
        )

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        found = self._table(table)
        target = self.branches.get(table, "main")
        if "main" in found.refs:
            raise CommitRefused(f"table={table} has a snapshot already")
        self.add_snapshot(table, "main", (), position.to_properties(pipeline))
        found.refs[target] = found.refs[resource_names.name_tag(pipeline)] = found.refs["main"]
        found.tags.add(resource_names.name_tag(pipeline))
        found.properties |= position.to_properties(pipeline)

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        found = self._table(table)
        made = find_schema_changes(table, _to_struct(found), columns, EvolutionRules(add, widen, relax))
        if made:
            found.columns, found.schema_id = _apply_changes(found.columns, columns, made), found.schema_id + 1
        return [str(change) for change in made]

    def find_bounds(self, table: str, values: Mapping[str, Any]) -> Bounds:
        found = self.tables.get(values["source"])
        pinned = found.snapshots.get(values["snapshot_id"]) if found else None
        rows = [row for row in pinned.rows if row["batch_number"] == values["batch"]] if pinned else []
        known = compute_bounds([row["key"] for row in rows], values)
        cut = self._table(table).snapshots[values["at"]] if "at" in values else None
        return known if cut is None else replace(known, overlap=compute_overlap(cut.rows, known))

    def has_branches(self, table: str) -> bool:
        return True

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        return None

    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        properties = self.tables[intermediate].properties if intermediate in self.tables else {}
        counted = properties.pop(resource_names.name_counted_property(attempt), None)
        if counted is not None:
            properties[resource_names.name_staged_property(attempt)] = counted
        return self.read_staged_outcome(intermediate, attempt)

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        found = self._table(table)
        standing = found.refs.get(self._written(table))
        if (found.uuid, standing) != (state.uuid, state.snapshot_id) or branch in found.refs:
            raise CommitRefused(f"table={table}: main has moved")
        found.refs[branch] = state.snapshot_id

    def read_head(self, table: str, branch: str) -> Head | None:
        found = self._table(table)
        snapshot = found.snapshots.get(found.refs.get(branch, -1))
        return Head(snapshot.id, snapshot.parent, dict(snapshot.summary)) if snapshot else None

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        self.add_snapshot(table, branch, tuple(self._table(table).read_rows(branch)), summary)

    def publish(self, table_commit: TableCommit) -> None:
        found = self._table(table_commit.table)
        required = (table_commit.uuid, table_commit.cut, table_commit.head, table_commit.schema_id)
        main = found.refs.get(self._written(table_commit.table))
        standing = (found.uuid, main, found.refs.get(table_commit.branch), found.schema_id)
        if required != standing:
            raise CommitRefused(f"table={table_commit.table}: required={required} found={standing}")
        found.refs[self.branches.get(table_commit.table, "main")] = table_commit.head
        if table_commit.tag is not None:
            found.refs[table_commit.tag] = table_commit.head
            found.tags.add(table_commit.tag)
        found.properties |= table_commit.properties
        del found.refs[table_commit.branch]

    def reparent(
        self,
        table_commit: TableCommit,
        onto: int,
        keys: Mapping[str, Any] | None,
        summary: dict[str, str] | None = None,
    ) -> Head | None:
        found = self._table(table_commit.table)
        cut, head, newest = (found.snapshots[i] for i in (table_commit.cut, table_commit.head, onto))
        came, went = subtract_rows(newest.rows, cut.rows), subtract_rows(cut.rows, newest.rows)
        deleted, added = subtract_rows(cut.rows, head.rows), subtract_rows(head.rows, cut.rows)
        if cut not in found.ancestors(self._written(table_commit.table)) or (deleted and went):
            return None
        if keys is not None and came:
            overlap = compute_overlap(came, self.find_bounds(table_commit.table, keys))
            if overlap is None or overlap.files:
                return None
        standing = (found.refs.get(self._written(table_commit.table)), found.refs.get(table_commit.branch))
        if standing != (onto, table_commit.head):
            raise CommitRefused(f"table={table_commit.table}: main has moved")
        made = self.add_snapshot(
            table_commit.table,
            table_commit.branch,
            (*subtract_rows(newest.rows, deleted), *added),
            {**head.summary, **(summary or {})},
        )
        found.snapshots[made.id] = replace(made, parent=onto)
        del found.snapshots[head.id]
        return self.read_head(table_commit.table, table_commit.branch)

    def drop_branch(self, table: str, branch: str) -> None:
        self._table(table).refs.pop(branch, None)

    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        found, tag = self._table(table), resource_names.name_tag(pipeline)
        state = self.read_state(table, pipeline)
        if state is None or not state.is_rolled_back or state.snapshot_id is None or tag not in found.refs:
            return None
        now, then = found.ancestors(self._written(table)), found.ancestors(tag)
        shared = {s.id for s in now} & {s.id for s in then}
        origins = (now[-1].parent, then[-1].parent)
        return Rollback(
            now[0].id,
            then[0].id,
            returning_snapshots=tuple(_build_past_snapshot(found, s) for s in then if s.id not in shared),
            discarded_snapshots=tuple(_build_past_snapshot(found, s) for s in now if s.id not in shared),
            is_traceable=bool(shared) or (origins[0] is not None and origins[0] == origins[1]),
            rows_now=len(now[0].rows),
            rows_then=len(then[0].rows),
        )

    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        found = self._table(table)
        standing = (found.refs.get(self._written(table)), found.refs.get(resource_names.name_tag(pipeline)))
        if standing != (rollback.current_snapshot_id, rollback.tagged_snapshot_id):
            raise CommitRefused(f"table={table}: main or tag has moved")
        found.refs[self.branches.get(table, "main")] = rollback.tagged_snapshot_id
        found.properties |= properties

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        snapshots = self._table(table).snapshots.values()
        return [s.id for s in snapshots if s.summary.get("tidegate.attempt") == attempt]

    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        if table not in self.tables:
            return frozenset()
        line = self.tables[table].ancestors(self._written(table))
        cut = line[-1].sequence if line and line[-1].parent is not None else 0
        told = [s for s in self.tables[table].snapshots.values() if name in s.summary]
        stays = {s.summary[name] for s in told if s in line or s.sequence <= cut}
        return frozenset(s.summary[name] for s in told) - stays

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        found = self._table(table)
        numbers = {ref: resource_names.parse_branch_batch(pipeline, ref) for ref in set(found.refs) - found.tags}
        stale = [ref for ref, number in numbers.items() if number is not None and number <= up_to_batch]
        for ref in stale:
            del found.refs[ref]
        return len(stale)

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        found = self.tables.get(intermediate)
        newest: dict[int, StagedBatch] = {}
        for snapshot in sorted(found.snapshots.values(), key=lambda s: s.sequence) if found else []:
            outcome = self.read_staged_outcome(intermediate, snapshot.summary.get("tidegate.attempt", ""))
            if outcome is None or outcome.bad:
                continue
            staged = outcome.to_staged_batch(table, snapshot.summary, snapshot.id)
            size = sum(len(json.dumps(row)) for row in snapshot.rows if row["batch_number"] == staged.batch)
            newest[staged.batch] = replace(staged, bytes=size)
        return [newest[batch] for batch in sorted(newest)]

    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        text = self.read_property(intermediate, resource_names.name_staged_property(attempt))
        return None if text is None else StageOutcome.from_json(text, f"intermediate={intermediate} attempt={attempt}")

    def read_explanation(self, intermediate: str, batch: int, attempt: str) -> RecordExplanation | None:
        text = self.read_property(intermediate, resource_names.name_counted_property(attempt))
        return None if text is None else RecordExplanation.from_json(text, f"intermediate={intermediate}")

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        found = self.tables.get(intermediate)
        if found is None or "main" not in found.refs:
            return None
        newest = {s.summary["tidegate.batch"]: s.id for s in found.snapshots.values() if "tidegate.batch" in s.summary}
        complete = [s for s in self.list_staged(intermediate, table) if newest[str(s.batch)] == s.snapshot_id]
        current = found.refs["main"]
        return Staging(current, tuple(replace(s, snapshot_id=current) for s in complete))

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        prefix = resource_names.get_backfill_prefix(pipeline, table)
        own = Ownership(TableKind.INTERMEDIATE, pipeline, table.split(".", 1)[1]).properties.items()
        named = [t.properties for name, t in sorted(self.tables.items()) if name.startswith(prefix)]
        found = [
            p.get(resource_names.BACKFILL_PROPERTY, "") for p in named if KIND_PROPERTY not in p or own <= p.items()
        ]
        return [note for note in found if note]

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
        found = self.tables.get(table)
        if found is not None:
            branches = [r for r in found.refs if resource_names.parse_backfill_slice(pipeline, backfill, r) is not None]
            found.refs = {name: at for name, at in found.refs.items() if name not in set(branches) - found.tags}
            found.properties.pop(resource_names.name_backfill_property(pipeline, backfill), None)

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        found = self.tables.get(table)
        ends = (name.split(".") for name in (found.properties if found else ()) if name.endswith(".position"))
        tags = (resource_names.parse_tag_pipeline(tag) for tag in (found.tags if found else ()))
        return tuple(sorted({*(parts[1] for parts in ends), *tags}))

    def read_audit_answers(self, intermediate: str, attempt: str) -> AuditAnswers | None:
        text = self.read_property(intermediate, resource_names.name_audit_property(attempt))
        return None if text is None else AuditAnswers.from_json(text, f"intermediate={intermediate} attempt={attempt}")

    def claim(self, table: str, owner: Ownership) -> dict[str, str] | None:
        found = self.tables.get(table)
        if found is None:
            return None
        refuse_other_mark(table, owner, owner.properties, found.properties)
        if compare_mark(owner.properties, found.properties) is Mark.MISSING:
            check_recognised(table, owner, [c.name for c in found.columns], found.properties.get(SHAPE_PROPERTY))
            found.properties |= owner.properties
        return dict(found.properties)

    def has_mark(self, table: str, own: Ownership) -> bool:
        found = self.tables.get(table)
        return found is not None and own.properties.items() <= found.properties.items()

    def find_highest_batch(self, intermediate: str) -> int:
        found = self.tables.get(intermediate)
        summaries = [s.summary for s in found.snapshots.values()] if found else []
        summaries = [
            s for s in summaries if not self._is_dead(intermediate, s) and not self._is_unfinished(intermediate, s)
        ]
        at_creation = int(found.properties.get("tidegate.highest-batch", "0")) if found else 0
        return max([at_creation, *(int(s.get(f"tidegate.{n}", "0")) for s in summaries for n in ("batch", "clean-up"))])

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        found = self.tables.get(intermediate)
        if found is None:
            return {}
        self._check_removable(intermediate, STAGING_KINDS)
        last = {s.summary.get("tidegate.batch"): s for s in sorted(found.snapshots.values(), key=lambda s: s.sequence)}
        dead = [s for s in found.snapshots.values() if self._is_dead(intermediate, s.summary)]
        dead += [
            s
            for s in found.snapshots.values()
            if self._is_unfinished(intermediate, s.summary) and last[s.summary["tidegate.batch"]] is not s
        ]
        numbers = {int(b) for s in dead if last[b := s.summary["tidegate.batch"]] is s}
        spent = [s for s in found.snapshots.values() if _is_spent(s, up_to_batch) or s in dead]
        gone = {s.id for s in spent}
        alive = {s.summary.get("tidegate.attempt", "") for s in found.snapshots.values() if s.id not in gone}
        named = ("name_counted_property", "name_staged_property", "name_audit_property")
        for prefix in (getattr(resource_names, name)("") for name in named):
            for name in [p for p in found.properties if p.startswith(prefix) and p.removeprefix(prefix) not in alive]:
                del found.properties[name]
        if not spent or all(found.refs.get("main") == s.id and "tidegate.clean-up" in s.summary for s in spent):
            return {"batches": 0, "snapshots": len(spent), "files": 0}
        kept = tuple(
            r for r in found.read_rows() if r["batch_number"] > up_to_batch and r["batch_number"] not in numbers
        )
        self.add_snapshot(intermediate, "main", kept, {"tidegate.clean-up": str(up_to_batch)})
        for snapshot in spent:
            del found.snapshots[snapshot.id]
        batches = {s.summary["tidegate.batch"] for s in spent if "tidegate.batch" in s.summary}
        return {"batches": len(batches), "snapshots": len(spent), "files": len(spent)}

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
        found = self.tables.get(deletes)
        rows = found.read_rows() if found is not None and found.properties.get(KIND_PROPERTY) in MEMORY_KINDS else []
        kept = tuple(row for row in rows if row["timestamp"] >= before_ms)
        if len(kept) < len(rows):
            self.add_snapshot(deletes, "main", kept, {})
        return len(rows) - len(kept)

    def append_history(self, control: str, row: Row) -> None:
        self.control.setdefault(control, []).append(dict(row))

    def read_history(self, control: str, limit: int) -> list[Row]:
        rows = sorted(self.control.get(control, []), key=lambda r: r["published_at_ms"], reverse=True)
        return rows[:limit]

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """Every snapshot of a table that added rows is one small file; compaction makes them one."""
        found = self.tables.get(table)
        if found is None:
            return None
        snapshots = [s for s in found.ancestors() if "compacted" not in s.summary]
        tagged = {i for name, i in found.refs.items() if resource_names.is_ours(name)}
        depths = [n for n, s in enumerate(found.ancestors(), 1) if s.id in tagged]
        files = 1 if len(snapshots) < len(found.ancestors()) else len(snapshots)
        counts = {"data_files": files, "small_files": files, "rows": len(found.read_rows())}
        counts["max_small_files_per_partition"] = files
        deepest = max(depths, default=0)
        oldest = min((s.ms for s in found.ancestors()[:deepest]), default=None)
        return TableFiles(
            **counts, snapshots=len(found.snapshots), snapshots_since_tag=deepest, oldest_tagged_ms=oldest
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
        found = self.tables.get(table)
        return found.properties.get(name) if found else None

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        rows = self.tables[name].read_rows() if name in self.tables else []
        waiting = sorted((r for r in rows if r["replayed_at"] is None), key=lambda r: -r["written_at"])
        discarded = sum(row["stage"] == "discarded" for row in rows)
        done = len(rows) - len(waiting) - discarded
        return DeadLetters(len(waiting), done, tuple(_build_letter(row) for row in waiting[:limit]), discarded)

    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        mine = (row for row in rows if row["table"] == table and row["replayed_at"] is None)
        return [
            WaitingLetter(
                *(r["topic"], r["partition"], r["offset"], r.get("topic_id"), r["message"]),
                datetime.fromtimestamp(r["written_at"] / 1000, UTC),
            )
            for r in mine
        ]

    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        mine = (row for row in rows if row["table"] == table and row.get("replayed_by") in set(attempts))
        return [_build_letter(row).place._replace(replayed_by=row["replayed_by"]) for row in mine]

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        mine = [row for row in rows if (row["table"], row["attempt"]) == (table, attempt)]
        return sorted(map(_build_letter, mine), key=lambda letter: (letter.topic, letter.partition, letter.offset))

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        return ""

    def count_letters_of_others(
        self, name: str, table: str, attempt: str, ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        others = [row for row in rows if row["table"] == table and row["attempt"] != attempt]
        return Counter((row["topic"], row["partition"]) for row in others if is_within(row, ranges))

    def count_rows(self, table: str) -> int | None:
        return len(self.tables[table].read_rows(self._written(table))) if table in self.tables else None

    # what Spark and foreign writers do

    def create(self, table: str, columns: tuple[Column, ...]) -> MemoryTable:
        """CREATE TABLE IF NOT EXISTS."""
        if table not in self.tables:
            self.tables[table] = MemoryTable(f"00000000-0000-0000-0000-{next(self._uuids):012d}", columns)
        return self.tables[table]

    def add_snapshot(self, table: str, ref: str, rows: tuple[Row, ...], summary: Mapping[str, str]) -> Snapshot:
        found = self._table(table)
        made = Snapshot(
            next(self._ids), found.refs.get(ref), dict(summary), rows, self.clock.tick(), next(self._sequence)
        )
        found.snapshots[made.id] = made
        found.refs[ref] = made.id
        return made

    def rename_column(self, table: str, old: str, new: str) -> None:
        """ALTER TABLE RENAME COLUMN of a table with a name mapping."""
        found = self._table(table)
        found.columns = tuple(replace(c, name=new) if c.name == old else c for c in found.columns)
        found.renamed[old], found.schema_id = new, found.schema_id + 1
        for number, snapshot in found.snapshots.items():
            rows = tuple({new if name == old else name: v for name, v in row.items()} for row in snapshot.rows)
            found.snapshots[number] = replace(snapshot, rows=rows)

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


def subtract_rows(rows: Iterable[Row], others: Iterable[Row]) -> tuple[Row, ...]:
    """The rows that are left when each of the others has taken one that equals it."""
    taken = Counter(json.dumps(row, sort_keys=True, default=str) for row in others)
    kept = []
    for row in rows:
        text = json.dumps(row, sort_keys=True, default=str)
        if taken[text]:
            taken[text] -= 1
        else:
            kept.append(row)
    return tuple(kept)


def _find_carried_position(snapshots: list[Snapshot], pipeline: str) -> Position | None:
    positions = (Position.from_properties(pipeline, snapshot.summary) for snapshot in snapshots)
    return next((position for position in positions if position is not None), None)


def _to_struct(table: MemoryTable) -> Struct:
    return replace(to_struct(table.columns), aliases=tuple(table.renamed.items()))


def _apply_changes(
    held: tuple[Column, ...], wanted: tuple[Column, ...], made: tuple[SchemaChange, ...]
) -> tuple[Column, ...]:
    """The columns after some changes; one that changes inside gets the wanted type as a whole."""
    columns, types = {c.name: c for c in held}, {c.name: c.type for c in wanted}
    for change in made:
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
    before = table.snapshots.get(snapshot.parent or -1)
    older = before.rows if before else ()
    rows = len(subtract_rows(snapshot.rows, older)) + len(subtract_rows(older, snapshot.rows))
    told = None if "uncounted" in snapshot.summary else rows
    rows_told = 0 if snapshot.summary.get("operation") == "replace" else told
    pipeline = snapshot.summary.get("tidegate.pipeline", "")
    batch = snapshot.summary.get(f"tidegate.{pipeline}.batch")
    return PastSnapshot(snapshot.id, snapshot.ms, rows_told, pipeline, None if batch is None else int(batch))


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
