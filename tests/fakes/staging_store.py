"""The port `StagingStore` in memory: attempts at batches, their counts, and their clean-up."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.jobs.statements_job import JobAnswers
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import (
    FORMAT_PROPERTY,
    STAGING_KINDS,
    refuse_other_format,
)
from tidegate.model.table_state import (
    SignedAttempt,
    Staging,
)
from tidegate.ports.destination import JobResult

from fakes.table_store import MemoryTableStore
from fakes.tables import MemoryTable, Snapshot


class MemoryStagingStore(MemoryTableStore):
    """Intermediate tables."""

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

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        intermediate_table = self.tables.get(intermediate)
        batches_by_number: dict[int, StagedBatch] = {}
        for snapshot in (
            sorted(intermediate_table.snapshots.values(), key=lambda s: s.sequence) if intermediate_table else []
        ):
            outcome = self.read_staged_outcome(intermediate, snapshot.summary.get("tidegate.attempt", ""))
            if outcome is None or outcome.bad:
                continue
            refuse_other_format(f"table={intermediate}", FORMAT_PROPERTY, self.tables[intermediate].properties)
            staged_batch = outcome.to_staged_batch(table, snapshot.summary, snapshot.id)
            size = sum(len(json.dumps(row)) for row in snapshot.rows if row["batch_number"] == staged_batch.batch)
            batches_by_number[staged_batch.batch] = replace(staged_batch, bytes=size)
        return [batches_by_number[batch] for batch in sorted(batches_by_number)]

    def holds_rows(self, intermediate: str, batches: Sequence[StagedBatch]) -> bool:
        snapshots = self.tables[intermediate].snapshots
        if any(batch.snapshot_id not in snapshots for batch in batches):  # published and removed by another run
            return False
        pinned_rows = snapshots[batches[-1].snapshot_id].rows
        return all(
            [row for row in pinned_rows if row["batch_number"] == batch.batch]
            == [row for row in snapshots[batch.snapshot_id].rows if row["batch_number"] == batch.batch]
            for batch in batches
            if batch.counts.to_write
        )

    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        text = self.read_property(intermediate, resource_names.name_staged_property(attempt))
        return None if text is None else StageOutcome.from_json(text, f"intermediate={intermediate} attempt={attempt}")

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

    def drop(self, intermediate: str) -> None:
        if intermediate in self.tables:
            self.check_removable(intermediate, ("intermediate",))
        self.tables.pop(intermediate, None)

    def drop_unused(self, intermediate: str, before_ms: int) -> bool:
        table = self.tables.get(intermediate)
        changed_ms = max((snapshot.ms for snapshot in table.snapshots.values()), default=0) if table else 0
        is_unused = table is not None and changed_ms < before_ms
        if is_unused:
            self.drop(intermediate)
        return is_unused

    def read_job_answers(self, intermediate: str, attempt: str) -> JobAnswers | None:
        text = self.read_property(intermediate, resource_names.name_audit_property(attempt))
        return None if text is None else JobAnswers.from_json(text, f"intermediate={intermediate} attempt={attempt}")

    def find_highest_batch(self, intermediate: str) -> int:
        intermediate_table = self.tables.get(intermediate)
        summaries = [s.summary for s in intermediate_table.snapshots.values()] if intermediate_table else []
        summaries = [
            s for s in summaries if not self._is_dead(intermediate, s) and not self._is_unfinished(intermediate, s)
        ]
        first_batch = int(intermediate_table.properties.get("tidegate.highest-batch", "0")) if intermediate_table else 0
        return max([first_batch, *(int(s.get(f"tidegate.{n}", "0")) for s in summaries for n in ("batch", "clean-up"))])

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        staged_table = self.tables.get(intermediate)
        if staged_table is None:
            return {}
        self.check_removable(intermediate, STAGING_KINDS)
        snapshots = sorted(staged_table.snapshots.values(), key=lambda s: s.sequence)
        last_snapshots = {s.summary.get("tidegate.batch"): s for s in snapshots}
        dead_snapshots = [s for s in snapshots if self._is_dead(intermediate, s.summary)]
        dead_snapshots += [
            s
            for s in snapshots
            if self._is_unfinished(intermediate, s.summary) and last_snapshots[s.summary["tidegate.batch"]] is not s
        ]
        spent_snapshots = [s for s in snapshots if _is_spent(s, up_to_batch) or s in dead_snapshots]
        _forget_attempts(staged_table, [s for s in snapshots if s not in spent_snapshots])
        head = staged_table.refs.get("main")
        if all(head == s.id and "tidegate.clean-up" in s.summary for s in spent_snapshots):
            return {"batches": 0, "snapshots": len(spent_snapshots), "files": 0}
        dead_batches = {int(b) for s in dead_snapshots if last_snapshots[b := s.summary["tidegate.batch"]] is s}
        remaining_rows = tuple(
            row
            for row in staged_table.read_rows()
            if row["batch_number"] > up_to_batch and row["batch_number"] not in dead_batches
        )
        self.add_snapshot(intermediate, "main", remaining_rows, {"tidegate.clean-up": str(up_to_batch)})
        for snapshot in spent_snapshots:
            del staged_table.snapshots[snapshot.id]
        numbers = {int(s.summary["tidegate.batch"]) for s in spent_snapshots if "tidegate.batch" in s.summary}
        batches = {number for number in numbers if number <= up_to_batch}
        counts = {"batches": len(batches), "snapshots": len(spent_snapshots), "files": len(spent_snapshots)}
        earlier = max((int(s.summary.get("tidegate.clean-up", 0)) for s in snapshots), default=0)
        return (
            counts
            if not batches or earlier + len(batches) >= up_to_batch
            else {**counts, "passed": up_to_batch - earlier}
        )

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

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        raise AssertionError("nothing was left in a folder")

    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        return []

    def read_job_result(
        self, intermediate: str, batch: int, attempt: str, parse: Callable[[str, str], JobResult]
    ) -> JobResult | None:
        text = self.read_property(intermediate, resource_names.name_counted_property(attempt))
        return None if text is None else parse(text, f"intermediate={intermediate}")


def _forget_attempts(staged_table: MemoryTable, live_snapshots: list[Snapshot]) -> None:
    """Delete the properties of the attempts that none of these snapshots is of."""
    live_attempts = {s.summary.get("tidegate.attempt", "") for s in live_snapshots}
    namers = (
        resource_names.name_counted_property,
        resource_names.name_staged_property,
        resource_names.name_audit_property,
    )
    for prefix in (name_property("") for name_property in namers):
        for name in [p for p in staged_table.properties if p.startswith(prefix)]:
            if name.removeprefix(prefix) not in live_attempts:
                del staged_table.properties[name]


def _is_spent(snapshot: Snapshot, up_to_batch: int) -> bool:
    batch = snapshot.summary.get("tidegate.batch")
    return "tidegate.clean-up" in snapshot.summary or (batch is not None and int(batch) <= up_to_batch)
