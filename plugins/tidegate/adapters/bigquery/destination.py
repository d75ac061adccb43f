"""BigQuery as a destination: the port's verbs, each a thin call into the files beside this."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.adapters.bigquery import position_table, schema_evolution
from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.client.errors import judge
from tidegate.adapters.bigquery.pruning import TableLayout, bounds_of
from tidegate.adapters.bigquery.publish_script import tables_made
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
from tidegate.adapters.bigquery.type_mapping import columns_of, held_by
from tidegate.adapters.port_errors import translate_errors
from tidegate.errors import CommitRefused, GiveUp
from tidegate.model import resource_names
from tidegate.model.batch import SignedAttempt, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import SHAPE, Ownership
from tidegate.model.position import Position
from tidegate.ports.context import DeadLetters, Head, Publication, Staging, TableFiles, TableState
from tidegate.ports.sql import Sql
from tidegate.schema.column import Column
from tidegate.schema.evolution import Rules
from tidegate.sql.pruning import ANYWHERE, Bounds

NO_BRANCHES = "BigQuery has no branches: a merge is written by the transaction that publishes it"


@translate_errors(judge)
class BigQueryDestination:
    """Implements the port `Destination` over every BigQuery catalog of ``catalogs.yaml``."""

    def __init__(self, warehouses: Mapping[str, Warehouse], sql: Sql) -> None:
        self._warehouses, self._sql = warehouses, sql

    def tables_in(self, namespace: str) -> list[str]:
        """See the port."""
        return self._of(namespace).tables_in(namespace)

    def state(self, table: str, pipeline: str) -> TableState | None:
        """See the port. `snapshot_id` is the position's version; a table restored to an earlier time keeps it."""
        found = self._of(table).table(table)
        if found is None:
            return None
        fields = [field.to_api_repr() for field in found.schema]
        known = columns_of(fields)
        state = TableState(staging.uuid_of(found), None, 0, None, 0, known, schema=held_by(fields), has_maps=False)
        state = replace(state, kind=ownership.kind_of(found) or "")
        row = position_table.read(self._of(table), table, state.uuid, pipeline)
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
            marks={k: v for k, v in row.properties.items() if k.startswith(resource_names.mark(pipeline, ""))},
        )

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """See the port."""
        uuid, properties = staging.uuid_of(self._table(table)), position.to_properties(pipeline)
        position_table.seed(
            self._of(table), self._sql, table=table, uuid=uuid, pipeline=pipeline, properties=properties
        )

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """See the port."""
        self._table(table)
        return schema_evolution.evolve(self._of(table), table, columns, Rules(add, widen, relax))

    def bounds(self, table: str, values: Mapping[str, Any]) -> Bounds:
        """See the port."""
        found = self._of(table).table(table)
        if found is None:
            return ANYWHERE
        layout = TableLayout.of(found.to_api_repr())
        return bounds_of(layout, self._of(table).rows, self._sql, resource_names.positions_table(table), values)

    def has_branches(self, table: str) -> bool:
        """See the port."""
        return False

    def cut(self, table: str, state: TableState, branch: str) -> None:
        """See the port."""
        raise GiveUp(f"table={table}: {NO_BRANCHES}")

    def head(self, table: str, branch: str) -> Head | None:
        """See the port: only the tag that names a pipeline's last publish has one."""
        pipeline = resource_names.tagged(branch)
        found = self._table(table)
        row = position_table.read(self._of(table), table, staging.uuid_of(found), pipeline) if pipeline else None
        if row is None or not row.is_current:
            return None
        changed = position_table.changed_by(self._of(table), row)
        return replace(row.head, summary={**row.head.summary, **changed})

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """See the port."""
        raise GiveUp(f"table={table}: {NO_BRANCHES}")

    def publish(self, publication: Publication) -> None:
        """See the port."""
        found = self._table(publication.table)
        if staging.uuid_of(found) != publication.uuid:
            raise CommitRefused(f"table={publication.table}: it was replaced by another of the same name")
        warehouse, catalog = self._of(publication.table), publication.table.split(".", 1)[0]
        table_marks.mark(warehouse, publication.table, found, publication.pipeline)
        position_table.publish(warehouse, self._sql, publication)
        for made in tables_made(publication.statements):
            table_marks.stay(warehouse, f"{catalog}.{made}")

    def reparent(self, publication: Publication, onto: int, keys: Mapping[str, Any] | None) -> Head | None:
        """See the port: nothing is written before it is published."""
        return None

    def drop_branch(self, table: str, branch: str) -> None:
        """See the port: there are no branches."""

    def snapshots_of(self, table: str, attempt: str) -> list[int]:
        """See the port: nothing is written before it is published."""
        return []

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        """See the port."""
        self._table(table)
        return 0

    def landing(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """See the port."""
        return self._of(intermediate).folder.uri(staging.folder_of(intermediate, batch, attempt))

    def land(self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]) -> None:
        """See the port."""
        staging.land(self._of(intermediate), intermediate, batch, attempt, summary)

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """See the port."""
        staging_requests.sign(self._of(intermediate), intermediate, signed)

    def signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """See the port."""
        return staging_requests.find_signed(self._of(intermediate), intermediate)

    def left(self, intermediate: str, batch: int, attempt: str) -> dict[str, Any] | None:
        """See the port."""
        return staging.left(self._of(intermediate), staging.folder_of(intermediate, batch, attempt))

    def staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """See the port."""
        return staging.staged_in(self._of(intermediate), intermediate, table)

    def staged_outcome(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """See the port."""
        return staging.outcome_of(self._of(intermediate), intermediate, attempt)

    def staging(self, intermediate: str, table: str) -> Staging | None:
        """See the port: rows are told apart by their attempt, so that there is no snapshot to pin."""
        batches = tuple(self.staged(intermediate, table))
        return Staging(batches[-1].snapshot_id, batches) if batches else None

    def backfills(self, table: str, pipeline: str) -> list[str]:
        """See the port."""
        own = Ownership("intermediate", pipeline, table.split(".", 1)[1])
        return bigquery_backfills.notes(self._of(table), resource_names.backfill_tables(pipeline, table), own)

    def applied(self, intermediate: str, shape: str) -> frozenset[int]:
        """See the port."""
        return bigquery_backfills.applied(self._of(intermediate), intermediate, shape)

    def mark_applied(self, intermediate: str, number: int) -> None:
        """See the port."""
        bigquery_backfills.mark_applied(self._of(intermediate), intermediate, number)

    def drop(self, intermediate: str) -> None:
        """See the port."""
        staging.drop(self._of(intermediate), intermediate)

    def forget(self, table: str, pipeline: str, backfill: str) -> None:
        """See the port: there are no branches."""
        mark, state = resource_names.backfill_mark(pipeline, backfill), self.state(table, pipeline)
        if state is None or state.snapshot_id is None or mark not in state.marks:
            return
        kept = {name: value for name, value in state.marks.items() if name != mark}
        attempt = f"forget {mark} {state.snapshot_id}"
        forgotten = Publication(table, state.uuid, 0, state.snapshot_id, "", 0, kept, None, pipeline, attempt)
        position_table.rewrite(self._of(table), self._sql, forgotten)

    def audit_answers(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """See the port: audits are part of the transaction that publishes."""
        return None

    def claim(self, table: str, own: Ownership) -> dict[str, str] | None:
        """See the port."""
        found = self._of(table).table(table)
        if found is None:
            return None
        ownership.claim(self._of(table), found, table, own)
        return {SHAPE: staging.shape_of(found)} if own.kind == "intermediate" else {}

    def highest_staged(self, intermediate: str) -> int:
        """See the port."""
        return staging.highest_batch(self._of(intermediate), intermediate)

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """See the port."""
        return staging.clean(self._of(intermediate), intermediate, up_to_batch)

    def pipelines(self, table: str) -> tuple[str, ...]:
        """See the port."""
        found = self._of(table).table(table)
        return () if found is None else position_table.pipelines(self._of(table), table, staging.uuid_of(found))

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """See the port: each time is billed for the whole table."""
        return remembered_deletes.forget(self._of(deletes), deletes, before_ms, every_ms)

    def record(self, control: str, row: dict[str, Any]) -> None:
        """See the port."""
        batch_history.append(self._of(control), control, row)

    def history(self, control: str, limit: int) -> list[dict[str, Any]]:
        """See the port."""
        return batch_history.newest(self._of(control), control, limit)

    def files(self, table: str) -> TableFiles | None:
        """See the port: BigQuery keeps its files itself, there is nothing to maintain."""
        return None

    def property(self, table: str, name: str) -> str | None:
        """See the port."""
        return None

    def dead_letters(self, name: str, limit: int) -> DeadLetters:
        """See the port."""
        return bigquery_dead_letters.newest(self._of(name), name, limit)

    def waiting_dead_letters(self, name: str, table: str) -> list[tuple[str, int, int]]:
        """See the port."""
        return bigquery_dead_letters.waiting(self._of(name), name, table)

    def dead_letters_of(self, name: str, table: str, attempt: str) -> list[dict[str, Any]]:
        """See the port."""
        return bigquery_dead_letters.of_attempt(self._of(name), name, table, attempt)

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """See the port: Spark has no reader of BigQuery tables."""
        return bigquery_dead_letters.copied(self._of(name), name, table, f"{staging.folder_of(intermediate)}/letters")

    def dead_letters_of_others(self, name: str, table: str, attempt: str, ranges: Ranges) -> int:
        """See the port."""
        return bigquery_dead_letters.of_others(self._of(name), name, table, attempt, ranges)

    def count_rows(self, table: str) -> int | None:
        """See the port."""
        found = self._of(table).table(table)
        return None if found is None or found.num_rows is None else int(found.num_rows)

    def _of(self, name: str) -> Warehouse:
        return self._warehouses[name.split(".", 1)[0]]

    def _table(self, name: str) -> Any:
        return staging.needed(self._of(name).table(name), name)
