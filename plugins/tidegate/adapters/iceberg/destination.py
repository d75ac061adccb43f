"""Apache Iceberg as a destination, through PyIceberg: the port's verbs, each a thin call into the files beside this."""

from collections.abc import Mapping
from typing import Any

from pyiceberg.table import Table

from tidegate.adapters.iceberg import branch_writers
from tidegate.adapters.iceberg import reparent as iceberg_reparent
from tidegate.adapters.iceberg.pruning import file_overlap, key_ranges, key_values
from tidegate.adapters.iceberg.stores import batch_history, ownership, remembered_deletes
from tidegate.adapters.iceberg.stores import dead_letters as iceberg_dead_letters
from tidegate.adapters.iceberg.stores import staging as iceberg_staging
from tidegate.adapters.iceberg.table import commit, file_statistics, row_count, schema_evolution
from tidegate.adapters.iceberg.table import state as iceberg_state
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.adapters.iceberg.table.errors import translate_error
from tidegate.adapters.iceberg.table.format_version import refuse_newer_format
from tidegate.adapters.port_errors import translate_errors
from tidegate.errors import CommitRefused, GiveUp
from tidegate.model import resource_names
from tidegate.model.batch import SignedAttempt, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import Ownership
from tidegate.model.position import Position
from tidegate.ports.context import DeadLetters, Head, Publication, Staging, TableFiles, TableState
from tidegate.schema.column import Column
from tidegate.schema.evolution import EvolutionRules
from tidegate.sql.pruning import Bounds

MAX_CACHED_TABLES = (
    8  # tables whose metadata is kept as it was read, for the merge that follows: it may be megabytes each
)


@translate_errors(translate_error)
class IcebergDestination:
    """Implements the port `Destination` over every Iceberg catalog of ``catalogs.yaml``.

    `branches` names for a table the branch that is written in place of main. While it is not there, main is read.
    """

    def __init__(self, catalogs: Catalogs, branches: Mapping[str, str] | None = None) -> None:
        self.catalogs, self._branches = catalogs, branches or {}
        self._states: dict[str, Table] = {}

    def list_tables(self, namespace: str) -> list[str]:
        """See the port."""
        return self.catalogs.names_in(namespace)

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """See the port."""
        found = self.catalogs.table(table)
        if found is None:
            return None
        refuse_newer_format(table, found.metadata.format_version)
        self._states.pop(table, None)
        self._states[table] = found
        for oldest in list(self._states)[:-MAX_CACHED_TABLES]:
            self._states.pop(oldest, None)
        return iceberg_state.build_state(found, pipeline, self._branch(table))

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """See the port."""
        commit.seed(self._table(table), pipeline, position.to_properties(pipeline), self._branch(table))

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """See the port."""
        return schema_evolution.evolve(self._table(table), table, columns, EvolutionRules(add, widen, relax))

    def find_bounds(self, table: str, values: Mapping[str, Any]) -> Bounds:
        """See the port."""
        staged = self.catalogs.table(values["source"])
        found = () if staged is None else key_ranges.find_key_ranges(staged, values)
        at = values.get("at")
        overlap = file_overlap.find_overlap(self._at(table, at), at, found) if found and at is not None else None
        if staged is not None and key_values.are_keys_worth_naming(values.get("rows", 0), overlap):
            return Bounds(key_values.name_keys(staged, values, found), overlap=overlap)
        return Bounds(tuple(known.bound for known in found), overlap=overlap)

    def has_branches(self, table: str) -> bool:
        """See the port."""
        return True

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """See the port."""
        if state.snapshot_id is None:
            raise CommitRefused(f"table={table} has no snapshot to cut from")
        commit.start_branch(self._table(table), (state.uuid, state.snapshot_id), branch, self._branch(table))

    def read_head(self, table: str, branch: str) -> Head | None:
        """See the port."""
        return iceberg_state.read_ref_head(self._table(table), branch)

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """See the port."""
        commit.append_empty(self._table(table), branch, summary)

    def publish(self, publication: Publication) -> None:
        """See the port."""
        commit.publish(self._table(publication.table), publication, self._branch(publication.table))

    def reparent(self, publication: Publication, onto: int, keys: Mapping[str, Any] | None) -> Head | None:
        """See the port."""
        table, staged = self._table(publication.table), self.catalogs.table(keys["source"]) if keys else None
        ranges = key_ranges.find_key_ranges(staged, keys) if keys and staged is not None else ()
        added = iceberg_reparent.find_added_files(table, publication, onto, None if keys is None else ranges)
        if added is None:
            return None
        iceberg_reparent.reparent(table, publication, onto, added, self._branch(publication.table))
        return self.read_head(publication.table, publication.branch)

    def drop_branch(self, table: str, branch: str) -> None:
        """See the port."""
        found = self._table(table)
        if branch in found.metadata.refs:
            commit.drop_references(found, [branch])

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """See the port."""
        return iceberg_state.find_attempt_snapshots(self._table(table), attempt)

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        """See the port."""
        found = self._table(table)
        stale = iceberg_state.list_attempt_branches(found, pipeline, up_to_batch)
        if stale:
            commit.drop_references(found, stale)
        return len(stale)

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """See the port: Spark writes Iceberg's tables itself."""
        return None

    def load_staged_files(self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]) -> None:
        """See the port."""

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """See the port: Spark leaves no files."""

    def signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """See the port: Spark leaves no files."""
        return []

    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> dict[str, Any] | None:
        """See the port: no job leaves files for Iceberg."""
        return None

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """See the port."""
        found = self.catalogs.table(intermediate)
        return [] if found is None else iceberg_staging.list_staged(found, table)

    def read_staged_outcome(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """See the port."""
        found = self.catalogs.table(intermediate)
        return None if found is None else iceberg_staging.read_outcome(found, attempt)

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        """See the port."""
        found = self.catalogs.table(intermediate)
        return None if found is None else iceberg_staging.read_newest(found, table)

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        """See the port."""
        catalog, identifier = table.split(".", 1)
        prefix = resource_names.get_backfill_prefix(pipeline, identifier)
        own = Ownership("intermediate", pipeline, identifier)
        return iceberg_staging.read_backfill_notes(self.catalogs.catalog(catalog), prefix, own)

    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        """See the port."""
        found = self.catalogs.table(intermediate)
        return frozenset() if found is None else iceberg_staging.list_applied_slices(found, shape)

    def mark_applied(self, intermediate: str, number: int) -> None:
        """See the port."""
        iceberg_staging.mark_applied(self._table(intermediate), number)

    def drop(self, intermediate: str) -> None:
        """See the port."""
        catalog, identifier = intermediate.split(".", 1)
        iceberg_staging.drop_table(self.catalogs.catalog(catalog), identifier)

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        """See the port."""
        found = self.catalogs.table(table)
        if found is not None:
            branches = iceberg_state.list_backfill_branches(found, pipeline, backfill)
            commit.drop_backfill(found, branches, resource_names.name_backfill_property(pipeline, backfill))

    def read_audit_answers(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """See the port."""
        found = self.catalogs.table(intermediate)
        return None if found is None else iceberg_staging.read_audit_answers(found, attempt)

    def claim(self, table: str, own: Ownership) -> dict[str, str] | None:
        """See the port."""
        found = self.catalogs.table(table)
        return None if found is None else ownership.claim(found, table, own)

    def find_highest_batch(self, intermediate: str) -> int:
        """See the port."""
        found = self.catalogs.table(intermediate)
        return 0 if found is None else iceberg_staging.find_highest_batch(found)

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """See the port."""
        found = self.catalogs.table(intermediate)
        return {} if found is None else iceberg_staging.clean_up(found, up_to_batch)

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """See the port."""
        found = self.catalogs.table(table)
        return () if found is None else branch_writers.list_branch_pipelines(found, self._branch(table))

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """See the port: it goes file by file, so that it need not wait."""
        found = self.catalogs.table(deletes)
        return 0 if found is None else remembered_deletes.forget_deletes(found, before_ms)

    def append_history(self, control: str, row: dict[str, Any]) -> None:
        """See the port."""
        catalog, identifier = control.split(".", 1)
        batch_history.append_row(self.catalogs.catalog(catalog), identifier, row)

    def read_history(self, control: str, limit: int) -> list[dict[str, Any]]:
        """See the port."""
        found = self.catalogs.table(control)
        return [] if found is None else batch_history.read_newest(found, limit)

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """See the port."""
        found = self.catalogs.table(table)
        return None if found is None else file_statistics.measure_files(found, exact)

    def read_property(self, table: str, name: str) -> str | None:
        """See the port."""
        found = self.catalogs.table(table)
        return None if found is None else found.metadata.properties.get(name)

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        """See the port."""
        found = self.catalogs.table(name)
        return DeadLetters() if found is None else iceberg_dead_letters.read_newest(found, limit)

    def list_waiting_letters(self, name: str, table: str) -> list[tuple[str, int, int]]:
        """See the port."""
        found = self.catalogs.table(name)
        return [] if found is None else iceberg_dead_letters.list_waiting(found, table)

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[dict[str, Any]]:
        """See the port."""
        found = self.catalogs.table(name)
        return [] if found is None else iceberg_dead_letters.read_of_attempt(found, table, attempt)

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """See the port."""
        return ""

    def count_letters_of_others(self, name: str, table: str, attempt: str, ranges: Ranges) -> int:
        """See the port."""
        found = self.catalogs.table(name)
        return 0 if found is None else iceberg_dead_letters.count_of_others(found, table, attempt, ranges)

    def count_rows(self, table: str) -> int | None:
        """See the port."""
        found = self.catalogs.table(table)
        return None if found is None else row_count.count_rows(found, self._branch(table))

    def _at(self, name: str, snapshot_id: int) -> Table:
        """The table as its state was read, if that has the snapshot: a snapshot is never another."""
        read = self._states.get(name)
        return read if read is not None and read.metadata.snapshot_by_id(snapshot_id) else self._table(name)

    def _branch(self, table: str) -> str:
        return self._branches.get(table, commit.MAIN)

    def _table(self, name: str) -> Table:
        found = self.catalogs.table(name)
        if found is None:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans anew")
        return found
