"""BigQuery as a destination: the port's verbs, each a thin call into the files beside this."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.adapters.bigquery import position_table, schema_evolution
from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.client.errors import translate_error
from tidegate.adapters.bigquery.pruning import TableLayout, compute_bounds
from tidegate.adapters.bigquery.publish_script import list_created_tables
from tidegate.adapters.bigquery.stores import backfills as bigquery_backfills
from tidegate.adapters.bigquery.stores import (
    batch_history,
    ownership,
    remembered_deletes,
    staging,
    staging_requests,
    table_marks,
)
from tidegate.adapters.bigquery.stores import dead_letters as bigquery_dead_letters
from tidegate.adapters.bigquery.type_mapping import read_table_struct, to_columns
from tidegate.adapters.port_errors import translate_errors
from tidegate.errors import CommitRefused, GiveUp
from tidegate.model import resource_names
from tidegate.model.batch import SignedAttempt, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import SHAPE_PROPERTY, Ownership
from tidegate.model.position import Position
from tidegate.ports.context import DeadLetters, Head, Publication, Staging, TableFiles, TableState
from tidegate.ports.sql import Sql
from tidegate.schema.column import Column
from tidegate.schema.evolution import EvolutionRules
from tidegate.sql.pruning import UNBOUNDED, Bounds

NO_BRANCHES_REASON = "BigQuery has no branches: a merge is written by the transaction that publishes it"


@translate_errors(translate_error)
class BigQueryDestination:
    """Implements the port `Destination` over every BigQuery catalog of ``catalogs.yaml``."""

    def __init__(self, warehouses: Mapping[str, Warehouse], sql: Sql) -> None:
        self._warehouses, self._sql = warehouses, sql

    def list_tables(self, namespace: str) -> list[str]:
        """See the port."""
        return self._get_warehouse(namespace).list_tables(namespace)

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """See the port. `snapshot_id` is the position's version; a table restored to an earlier time keeps it."""
        found = self._get_warehouse(table).find_table(table)
        if found is None:
            return None
        fields = [field.to_api_repr() for field in found.schema]
        known = to_columns(fields)
        state = TableState(
            staging.get_uuid(found), None, 0, None, 0, known, schema=read_table_struct(fields), has_maps=False
        )
        state = replace(state, kind=ownership.get_kind(found) or "")
        row = position_table.read_row(self._get_warehouse(table), table, state.uuid, pipeline)
        if row is None or not row.is_current:
            return replace(state, position_lost=table_marks.is_written_by(found, pipeline) and bool(found.num_rows))
        position = Position.from_properties(pipeline, row.properties)
        return replace(
            state,
            snapshot_id=row.version,
            position=position,
            recorded=position,
            highest_batch=position.batch if position else 0,
            snapshot_ms=row.changed_ms,
            marks={
                k: v
                for k, v in row.properties.items()
                if k.startswith(resource_names.name_pipeline_property(pipeline, ""))
            },
        )

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """See the port."""
        uuid, properties = staging.get_uuid(self._require_table(table)), position.to_properties(pipeline)
        position_table.seed_position(
            self._get_warehouse(table), self._sql, table=table, uuid=uuid, pipeline=pipeline, properties=properties
        )

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """See the port."""
        self._require_table(table)
        return schema_evolution.evolve(self._get_warehouse(table), table, columns, EvolutionRules(add, widen, relax))

    def find_bounds(self, table: str, values: Mapping[str, Any]) -> Bounds:
        """See the port."""
        found = self._get_warehouse(table).find_table(table)
        if found is None:
            return UNBOUNDED
        layout = TableLayout.from_api_repr(found.to_api_repr())
        return compute_bounds(
            layout, self._get_warehouse(table).query_rows, self._sql, resource_names.name_positions_table(table), values
        )

    def has_branches(self, table: str) -> bool:
        """See the port."""
        return False

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """See the port."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def read_head(self, table: str, branch: str) -> Head | None:
        """See the port: only the tag that names a pipeline's last publish has one."""
        pipeline = resource_names.parse_tag_pipeline(branch)
        found = self._require_table(table)
        row = (
            position_table.read_row(self._get_warehouse(table), table, staging.get_uuid(found), pipeline)
            if pipeline
            else None
        )
        if row is None or not row.is_current:
            return None
        changed = position_table.read_publish_changes(self._get_warehouse(table), row)
        return replace(row.head, summary={**row.head.summary, **changed})

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """See the port."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def publish(self, publication: Publication) -> None:
        """See the port."""
        found = self._require_table(publication.table)
        if staging.get_uuid(found) != publication.uuid:
            raise CommitRefused(f"table={publication.table}: it was replaced by another of the same name")
        warehouse, catalog = self._get_warehouse(publication.table), publication.table.split(".", 1)[0]
        table_marks.mark_table(warehouse, publication.table, found, publication.pipeline)
        position_table.publish(warehouse, self._sql, publication)
        for made in list_created_tables(publication.statements):
            table_marks.remove_expiration(warehouse, f"{catalog}.{made}")

    def reparent(self, publication: Publication, onto: int, keys: Mapping[str, Any] | None) -> Head | None:
        """See the port: nothing is written before it is published."""
        return None

    def drop_branch(self, table: str, branch: str) -> None:
        """See the port: there are no branches."""

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """See the port: nothing is written before it is published."""
        return []

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        """See the port."""
        self._require_table(table)
        return 0

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """See the port."""
        return self._get_warehouse(intermediate).folder.to_uri(staging.get_folder(intermediate, batch, attempt))

    def load_staged_files(self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]) -> None:
        """See the port."""
        staging.load_attempt(self._get_warehouse(intermediate), intermediate, batch, attempt, summary)

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """See the port."""
        staging_requests.sign_attempt(self._get_warehouse(intermediate), intermediate, signed)

    def signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """See the port."""
        return staging_requests.find_signed(self._get_warehouse(intermediate), intermediate)

    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> dict[str, Any] | None:
        """See the port."""
        return staging.read_job_outcome(
            self._get_warehouse(intermediate), staging.get_folder(intermediate, batch, attempt)
        )

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """See the port."""
        return staging.list_staged(self._get_warehouse(intermediate), intermediate, table)

    def read_staged_outcome(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """See the port."""
        return staging.read_outcome(self._get_warehouse(intermediate), intermediate, attempt)

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        """See the port: rows are told apart by their attempt, so that there is no snapshot to pin."""
        batches = tuple(self.list_staged(intermediate, table))
        return Staging(batches[-1].snapshot_id, batches) if batches else None

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        """See the port."""
        own = Ownership("intermediate", pipeline, table.split(".", 1)[1])
        return bigquery_backfills.read_backfill_notes(
            self._get_warehouse(table), resource_names.get_backfill_prefix(pipeline, table), own
        )

    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        """See the port."""
        return bigquery_backfills.list_applied_slices(self._get_warehouse(intermediate), intermediate, shape)

    def mark_applied(self, intermediate: str, number: int) -> None:
        """See the port."""
        bigquery_backfills.mark_applied(self._get_warehouse(intermediate), intermediate, number)

    def drop(self, intermediate: str) -> None:
        """See the port."""
        staging.drop_table(self._get_warehouse(intermediate), intermediate)

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        """See the port: there are no branches."""
        mark, state = resource_names.name_backfill_property(pipeline, backfill), self.read_state(table, pipeline)
        if state is None or state.snapshot_id is None or mark not in state.marks:
            return
        kept = {name: value for name, value in state.marks.items() if name != mark}
        attempt = f"forget {mark} {state.snapshot_id}"
        forgotten = Publication(table, state.uuid, 0, state.snapshot_id, "", 0, kept, None, pipeline, attempt)
        position_table.commit_publication(self._get_warehouse(table), self._sql, forgotten)

    def read_audit_answers(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """See the port: audits are part of the transaction that publishes."""
        return None

    def claim(self, table: str, own: Ownership) -> dict[str, str] | None:
        """See the port."""
        found = self._get_warehouse(table).find_table(table)
        if found is None:
            return None
        ownership.claim(self._get_warehouse(table), found, table, own)
        return {SHAPE_PROPERTY: staging.get_shape(found)} if own.kind == "intermediate" else {}

    def find_highest_batch(self, intermediate: str) -> int:
        """See the port."""
        return staging.find_highest_batch(self._get_warehouse(intermediate), intermediate)

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """See the port."""
        return staging.clean_up(self._get_warehouse(intermediate), intermediate, up_to_batch)

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """See the port."""
        found = self._get_warehouse(table).find_table(table)
        return (
            ()
            if found is None
            else position_table.list_pipelines(self._get_warehouse(table), table, staging.get_uuid(found))
        )

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """See the port: each time is billed for the whole table."""
        return remembered_deletes.forget_deletes(self._get_warehouse(deletes), deletes, before_ms, every_ms)

    def append_history(self, control: str, row: dict[str, Any]) -> None:
        """See the port."""
        batch_history.append_row(self._get_warehouse(control), control, row)

    def read_history(self, control: str, limit: int) -> list[dict[str, Any]]:
        """See the port."""
        return batch_history.read_newest(self._get_warehouse(control), control, limit)

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """See the port: BigQuery keeps its files itself, there is nothing to maintain."""
        return None

    def read_property(self, table: str, name: str) -> str | None:
        """See the port."""
        return None

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        """See the port."""
        return bigquery_dead_letters.read_newest(self._get_warehouse(name), name, limit)

    def list_waiting_letters(self, name: str, table: str) -> list[tuple[str, int, int]]:
        """See the port."""
        return bigquery_dead_letters.list_waiting(self._get_warehouse(name), name, table)

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[dict[str, Any]]:
        """See the port."""
        return bigquery_dead_letters.read_of_attempt(self._get_warehouse(name), name, table, attempt)

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """See the port: Spark has no reader of BigQuery tables."""
        return bigquery_dead_letters.copy_waiting(
            self._get_warehouse(name), name, table, f"{staging.get_folder(intermediate)}/letters"
        )

    def count_letters_of_others(self, name: str, table: str, attempt: str, ranges: Ranges) -> int:
        """See the port."""
        return bigquery_dead_letters.count_of_others(self._get_warehouse(name), name, table, attempt, ranges)

    def count_rows(self, table: str) -> int | None:
        """See the port."""
        found = self._get_warehouse(table).find_table(table)
        return None if found is None or found.num_rows is None else int(found.num_rows)

    def _get_warehouse(self, name: str) -> Warehouse:
        return self._warehouses[name.split(".", 1)[0]]

    def _require_table(self, name: str) -> Any:
        return staging.require_table(self._get_warehouse(name).find_table(name), name)
