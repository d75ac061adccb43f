"""The port `TableStore` over BigQuery."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.adapters.bigquery import position_table, schema_evolution
from tidegate.adapters.bigquery.client.client import get_uuid
from tidegate.adapters.bigquery.client.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.ports.port import BigQueryPort
from tidegate.adapters.bigquery.pruning import TableLayout, compute_bounds
from tidegate.adapters.bigquery.stores import (
    ownership,
    remembered_deletes,
    staging,
    table_marks,
)
from tidegate.adapters.bigquery.stores.collations import find_collated_texts
from tidegate.adapters.bigquery.table_layout import get_partition_unit
from tidegate.adapters.bigquery.truncates import compute_truncate_bounds
from tidegate.adapters.bigquery.type_mapping import read_table_struct, to_columns
from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.model.merge_input import MergeInput
from tidegate.model.ownership import SHAPE_PROPERTY, Ownership, TableKind
from tidegate.model.position import Position
from tidegate.ports.context import FolderLimit, TableFiles, TableState
from tidegate.schema.column import Column
from tidegate.schema.data_types import Array, DataType, Primitive, Struct
from tidegate.schema.evolution import EvolutionRules
from tidegate.sql.pruning import UNBOUNDED, Bounds

TABLE_TYPE = "TABLE"


class BigQueryTables(BigQueryPort):
    """Implements the port `TableStore`."""

    @translate_bigquery_errors
    def list_tables(self, namespace: str) -> list[str]:
        """See the port."""
        return self._get_warehouse(namespace).list_tables(namespace)

    @translate_bigquery_errors
    def list_namespaces(self, catalog: str) -> list[str]:
        """See the port."""
        return [f"{catalog}.{dataset}" for dataset in self._get_warehouse(catalog).list_datasets()]

    @translate_bigquery_errors
    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """See the port. `snapshot_id` is the position's version; a table restored to an earlier time keeps it."""
        loaded_table = self._get_warehouse(table).find_table(table)
        if loaded_table is None:
            return None
        _refuse_view(table, loaded_table)
        fields = [field.to_api_repr() for field in loaded_table.schema]
        columns = to_columns(fields)
        state = TableState(
            uuid=get_uuid(loaded_table),
            snapshot_id=None,
            schema_id=0,
            position=None,
            highest_batch=0,
            columns=columns,
            schema=read_table_struct(fields),
            has_maps=False,
        )
        state = replace(state, kind=ownership.get_kind(loaded_table) or "")
        row = position_table.read_position_row(self._get_warehouse(table), table, state.uuid, pipeline)
        if row is None or not row.is_current:
            return replace(state, is_position_lost=self._has_lost_position(table, loaded_table, pipeline))
        position = Position.from_properties(pipeline, row.properties)
        return replace(
            state,
            snapshot_id=row.version,
            position=position,
            recorded_position=position,
            highest_batch=position.batch if position else 0,
            snapshot_ms=row.changed_ms,
            marks={
                k: v
                for k, v in row.properties.items()
                if k.startswith(resource_names.name_pipeline_property(pipeline, ""))
            },
        )

    def _has_lost_position(self, table: str, loaded_table: Any, pipeline: str) -> bool:
        """Whether the pipeline, which has no position, has written rows that are there. Of one without a label of its
        own that is taken for true where no pipeline has a position any more.
        """
        if not loaded_table.num_rows:
            return False
        if table_marks.is_written_by(loaded_table, pipeline):
            return True
        return table_marks.is_written_by_many(loaded_table) and not self.list_pipelines(table)

    @translate_bigquery_errors
    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """See the port."""
        self._get_warehouse(table).require_table(table)
        return schema_evolution.evolve(self._get_warehouse(table), table, columns, EvolutionRules(add, widen, relax))

    @translate_bigquery_errors
    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        """See the port."""
        loaded_table = self._get_warehouse(table).find_table(table)
        if loaded_table is None:
            return UNBOUNDED
        table_resource = loaded_table.to_api_repr()
        _check_collations(table, table_resource.get("schema", {}).get("fields", ()), values)
        layout = TableLayout.from_api_repr(table_resource)
        _check_floats(table, layout.schema, values)
        _check_partial_arrays(table, layout.schema, values)
        _check_ingestion_unit(table, layout, values)
        compute = compute_truncate_bounds if "truncated_at" in values else compute_bounds
        positions = resource_names.name_positions_table(table)
        return compute(layout, self._get_warehouse(table).query_rows, self._sql, positions, values)

    @translate_bigquery_errors
    def claim(self, table: str, owner: Ownership) -> dict[str, str] | None:
        """See the port."""
        loaded_table = self._get_warehouse(table).find_table(table)
        if loaded_table is None:
            return None
        ownership.claim(self._get_warehouse(table), loaded_table, table, owner)
        return {SHAPE_PROPERTY: staging.get_shape(loaded_table)} if owner.kind is TableKind.INTERMEDIATE else {}

    @translate_bigquery_errors
    def has_mark(self, table: str, own: Ownership) -> bool:
        """See the port."""
        loaded_table = self._get_warehouse(table).find_table(table)
        return loaded_table is not None and own.labels.items() <= (loaded_table.labels or {}).items()

    @translate_bigquery_errors
    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """See the port."""
        loaded_table = self._get_warehouse(table).find_table(table)
        return (
            ()
            if loaded_table is None
            else position_table.list_pipelines(self._get_warehouse(table), table, get_uuid(loaded_table))
        )

    @translate_bigquery_errors
    def has_files(self, table: str) -> bool:
        """See the port: BigQuery maintains its files itself."""
        return False

    @translate_bigquery_errors
    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        """None: BigQuery names its files itself."""
        return ()

    @translate_bigquery_errors
    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """See the port: BigQuery maintains its files itself."""
        return None

    @translate_bigquery_errors
    def read_property(self, table: str, name: str) -> str | None:
        """See the port."""
        return None

    @translate_bigquery_errors
    def count_rows(self, table: str) -> int | None:
        """See the port."""
        loaded_table = self._get_warehouse(table).find_table(table)
        return None if loaded_table is None or loaded_table.num_rows is None else int(loaded_table.num_rows)

    @translate_bigquery_errors
    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """See the port: each time is billed for the whole table."""
        return remembered_deletes.forget_deletes(self._get_warehouse(deletes), deletes, before_ms, every_ms)


def _refuse_view(table: str, loaded_table: Any) -> None:
    """`GiveUp` for what has a table's name and takes no rows: a view of either kind, a snapshot, an external table."""
    kind = loaded_table.table_type or TABLE_TYPE
    if kind != TABLE_TYPE:
        raise GiveUp(
            f"table={table} is no table that rows can be merged into: type={kind}; nothing was changed; rename it, or "
            "name a table in the file"
        )


def _check_collations(table: str, schema: Iterable[Mapping[str, Any]], values: MergeInput) -> None:
    leaves = {tuple(step.casefold() for step in leaf) for leaf in values.get("leaves", ())}
    for path, collation in find_collated_texts(schema):
        if tuple(step.casefold() for step in path) in leaves:
            raise GiveUp(
                f"table={table} column={'.'.join(path)}: BigQuery compares its text without case "
                f"(collation={collation}), and records of two keys would be one row; nothing was merged; make the "
                "column anew without a collation"
            )


def _check_floats(table: str, schema: Struct, values: MergeInput) -> None:
    """`GiveUp` for floating point, whose type no file declares, as one of a schema registry, in a key or a sequence.

    NaN is not equal to itself: a row of that key would be inserted once more by each batch. Nor is anything newer than
    NaN: a row of that sequence would stay as it is.
    """
    given_conditions = values.get("given", {}).values()
    groups = {
        name for kind, (name, *_) in (condition for condition in given_conditions if condition[0] == "by_sequence")
    }
    parts: list[tuple[str, Iterable[Sequence[str]]]] = [
        ("key.fields", values.get("leaves", ())),
        ("sequence_by", ((name,) for name in values.get("sequence", ()))),
        ("sequence_groups", ((name,) for name in sorted(groups))),
    ]
    for word, paths in parts:
        for path in paths:
            if _has_float(schema, path):
                raise GiveUp(
                    f"table={table} column={'.'.join(path)}: its type is floating point, by which BigQuery finds no "
                    f"rows; nothing was merged; take another column for {word}, or a DECIMAL"
                )


def _check_partial_arrays(table: str, schema: Struct, values: MergeInput) -> None:
    """`GiveUp` for an array in partial updates, whose type no file declares.

    BigQuery stores a NULL array as an empty one. So a record that lacks it would empty the row's array.
    """
    types = dict(schema.fields)
    for name, (kind, _) in values.get("given", {}).items():
        if kind == "not_null" and isinstance(types.get(schema.find_name(name) or ""), Array):
            raise GiveUp(
                f"table={table} column={name}: BigQuery stores a NULL array as an empty one, so that partial_updates "
                "cannot tell a record without it from one that empties it; nothing was merged; put it into "
                "sequence_groups, leave it out, or select it as JSON text"
            )


def _check_ingestion_unit(table: str, layout: TableLayout, values: MergeInput) -> None:
    """`GiveUp` where rows would be put into partitions by ingestion that the table does not have."""
    unit = get_partition_unit(values.get("layout"))
    partitioning = layout.partitioning
    own_unit = partitioning.unit if partitioning is not None and partitioning.of_ingestion else None
    if unit not in (None, own_unit):
        own_layout = f"{partitioning.unit or 'RANGE'} of {partitioning.column}" if partitioning else "none"
        raise GiveUp(
            f"table={table}: the file partitions it by {unit} of _PARTITIONTIME, and its partitions are {own_layout}; "
            "nothing was merged; correct create.partition_by, or set merge.partition_time: wall-clock"
        )


def _has_float(schema: DataType, path: Sequence[str]) -> bool:
    for step in path:
        field_name = schema.find_name(step) if isinstance(schema, Struct) else None
        if field_name is None or not isinstance(schema, Struct):
            return False
        schema = dict(schema.fields)[field_name]
    return isinstance(schema, Primitive) and schema.name == "DOUBLE"
