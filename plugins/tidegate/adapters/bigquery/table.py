"""The tables of BigQuery: what they hold, what they can take in, and where a merge has to look."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tidegate.adapters.bigquery.catalog import BigQueryPort, Warehouse, get_uuid
from tidegate.adapters.bigquery.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.position import (
    get_kind,
    is_written_by,
    is_written_by_many,
    list_pipelines,
    read_position_row,
)
from tidegate.adapters.bigquery.pruning import TableLayout, compute_bounds, compute_truncate_bounds
from tidegate.adapters.bigquery.schema import apply_change, check_widens, find_collated_texts, get_partition_unit
from tidegate.adapters.bigquery.staging import get_shape
from tidegate.adapters.bigquery.types import read_table_struct, to_bigquery_type, to_columns, to_stored_columns
from tidegate.errors import GiveUp, RetryLater
from tidegate.model import resource_names
from tidegate.model.merge_input import MergeInput
from tidegate.model.ownership import MEMORY_KINDS, SHAPE_PROPERTY, Ownership, TableKind, check_mark
from tidegate.model.position import Position
from tidegate.model.table_state import TableState
from tidegate.ports.destination import TableStore
from tidegate.schema.data_types import Array, Column, DataType, Primitive, Struct
from tidegate.schema.evolution import ChangeKind, EvolutionRules, find_schema_changes
from tidegate.sql.googlesql import quote
from tidegate.sql.pruning import UNBOUNDED, Bounds

TABLE_TYPE = "TABLE"
FORGOTTEN_LABEL = "tidegate_forgotten"  # the time, in milliseconds, before whose records all are forgotten
TIMESTAMP_COLUMN = "_tidegate_timestamp"  # as tables that remember whole changes have it, beside the user's own columns


class BigQueryTables(BigQueryPort, TableStore):
    """BigQuery looks after its own files, so there are none to report."""

    @translate_bigquery_errors
    def list_tables(self, namespace: str) -> list[str]:
        return self._get_warehouse(namespace).list_tables(namespace)

    @translate_bigquery_errors
    def read_state(self, table: str, pipeline: str) -> TableState | None:
        # `snapshot_id` is the position's version; a table that was restored to an earlier time keeps it
        warehouse = self._get_warehouse(table)
        loaded_table = warehouse.find_table(table)
        if loaded_table is None:
            return None
        kind = loaded_table.table_type or TABLE_TYPE
        if kind != TABLE_TYPE:
            raise GiveUp(
                f"table={table} is no table that rows can be merged into: type={kind}; nothing was changed; rename it, "
                "or name a table in the file"
            )
        fields = [field.to_api_repr() for field in loaded_table.schema]
        state = TableState(
            uuid=get_uuid(loaded_table),
            snapshot_id=None,
            schema_id=0,
            position=None,
            highest_batch=0,
            columns=to_columns(fields),
            schema=read_table_struct(fields),
            has_maps=False,
            kind=get_kind(loaded_table) or "",
        )
        row = read_position_row(warehouse, table, state.uuid, pipeline)
        if row is None or not row.is_current:
            return replace(state, is_position_lost=_has_lost_position(warehouse, table, loaded_table, pipeline))
        position = Position.from_properties(pipeline, row.properties, table)
        own_prefix = resource_names.name_pipeline_property(pipeline, "")
        return replace(
            state,
            snapshot_id=row.version,
            position=position,
            recorded_position=position,
            highest_batch=position.batch if position else 0,
            snapshot_ms=row.changed_ms,
            marks={name: value for name, value in row.properties.items() if name.startswith(own_prefix)},
        )

    @translate_bigquery_errors
    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        warehouse = self._get_warehouse(table)
        loaded_table = warehouse.require_table(table)
        fields = [field.to_api_repr() for field in loaded_table.schema]
        rules = EvolutionRules(add, widen, relax)
        changes = find_schema_changes(table, read_table_struct(fields), to_stored_columns(columns), rules)
        widened = [change for change in changes if change.kind is ChangeKind.WIDEN]
        for change in widened:
            check_widens(table, change)
        schema_changes = [change for change in changes if change.kind is not ChangeKind.WIDEN]
        if schema_changes:
            for change in schema_changes:
                apply_change(fields, change)
            loaded_table.schema = fields
            warehouse.update_table(loaded_table, "schema")
        for change in widened:
            column = quote(change.path[0])
            kind = to_bigquery_type(change.type)
            quoted_table = warehouse.quote_name(table)
            warehouse.run_statement(f"ALTER TABLE {quoted_table} ALTER COLUMN {column} SET DATA TYPE {kind}")
        return [str(change) for change in changes]

    @translate_bigquery_errors
    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        warehouse = self._get_warehouse(table)
        loaded_table = warehouse.find_table(table)
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
        return compute(layout, warehouse.query_rows, self._sql, positions, values)

    @translate_bigquery_errors
    def claim(self, table: str, owner: Ownership) -> dict[str, str] | None:
        loaded_table = self._get_warehouse(table).find_table(table)
        if loaded_table is None:
            return None
        check_mark(table, owner, owner.labels, loaded_table.labels)
        return {SHAPE_PROPERTY: get_shape(loaded_table)} if owner.kind is TableKind.INTERMEDIATE else {}

    @translate_bigquery_errors
    def list_pipelines(self, table: str) -> tuple[str, ...]:
        warehouse = self._get_warehouse(table)
        loaded_table = warehouse.find_table(table)
        return () if loaded_table is None else list_pipelines(warehouse, table, get_uuid(loaded_table))

    @translate_bigquery_errors
    def count_rows(self, table: str) -> int | None:
        loaded_table = self._get_warehouse(table).find_table(table)
        return None if loaded_table is None or loaded_table.num_rows is None else int(loaded_table.num_rows)

    @translate_bigquery_errors
    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        # A DELETE is billed for the whole table, however few rows go. So the time up to which deletes went is kept as
        # a label, which costs nothing to read, and none is sent before that time has moved far enough.
        warehouse = self._get_warehouse(deletes)
        table = warehouse.find_table(deletes)
        if table is None or get_kind(table) not in MEMORY_KINDS:
            return 0
        last = (table.labels or {}).get(FORGOTTEN_LABEL)
        if last is not None and before_ms - int(last) < every_ms:
            return 0
        columns = [field.name for field in table.schema]
        column = quote(TIMESTAMP_COLUMN if TIMESTAMP_COLUMN in columns else "timestamp")
        name = warehouse.quote_name(deletes)
        job = warehouse.run_statement(f"DELETE FROM {name} WHERE {column} < TIMESTAMP_MILLIS({before_ms})")
        with suppress(RetryLater):  # without the note they are looked for again at the next clean-up
            table = warehouse.find_table(deletes)  # again: an update of one that has changed is refused
            if table is not None:
                table.labels = {**(table.labels or {}), FORGOTTEN_LABEL: str(max(before_ms, 0))}
                warehouse.update_table(table, "labels")
        return int(job.num_dml_affected_rows or 0)


def _has_lost_position(warehouse: Warehouse, table: str, loaded_table: Any, pipeline: str) -> bool:
    if not loaded_table.num_rows:
        return False
    if is_written_by(loaded_table, pipeline):
        return True
    # without a label of its own the pipeline may have written them, unless some pipeline has a position
    return is_written_by_many(loaded_table) and not list_pipelines(warehouse, table, get_uuid(loaded_table))


def _check_collations(table: str, schema: Iterable[Mapping[str, Any]], values: MergeInput) -> None:
    (_, keys), *sequences = _list_ordering_paths(values)
    consequences: dict[tuple[str, ...], str] = {}
    for paths, consequence in (
        ([(name,) for name in values.get("compared", ())], "a change of case alone would make no version"),
        ([path for _, names in sequences for path in names], "records of one key would have another order"),
        (keys, "records of two keys would be one row"),
    ):
        consequences |= {tuple(step.casefold() for step in path): consequence for path in paths}
    for path, collation in find_collated_texts(schema):
        folded_path = tuple(step.casefold() for step in path)
        if folded_path in consequences:
            raise GiveUp(
                f"table={table} column={'.'.join(path)}: BigQuery compares its text without case "
                f"(collation={collation}), and {consequences[folded_path]}; nothing was merged; make the column again "
                "without a collation"
            )


def _list_ordering_paths(values: MergeInput) -> list[tuple[str, list[Sequence[str]]]]:
    """The columns by which rows are found, and then those that order records, each with the setting that names it."""
    given_conditions = values.get("given", {}).values()
    groups = {
        name for kind, (name, *_) in (condition for condition in given_conditions if condition[0] == "by_sequence")
    }
    return [
        ("key.fields", [*values.get("leaves", ())]),
        ("sequence_by", [(name,) for name in values.get("sequence", ())]),
        ("sequence_groups", [(name,) for name in sorted(groups)]),
    ]


def _check_floats(table: str, schema: Struct, values: MergeInput) -> None:
    # NaN is not equal to itself: each batch would insert a row of that key once more; and nothing is newer than NaN
    for word, paths in _list_ordering_paths(values):
        for path in paths:
            if _has_float(schema, path):
                raise GiveUp(
                    f"table={table} column={'.'.join(path)}: its type is floating point, by which BigQuery finds no "
                    f"rows; nothing was merged; take another column for {word}, or a DECIMAL"
                )


def _check_partial_arrays(table: str, schema: Struct, values: MergeInput) -> None:
    # BigQuery stores a NULL array as an empty one: a record that lacks it would empty the row's array
    types = dict(schema.fields)
    for name, (kind, _) in values.get("given", {}).items():
        if kind == "not_null" and isinstance(types.get(schema.find_name(name) or ""), Array):
            raise GiveUp(
                f"table={table} column={name}: BigQuery stores a NULL array as an empty one, so that partial_updates "
                "cannot tell a record without it from one that empties it; nothing was merged; put the column into "
                "sequence_groups, take it out of value.schema, or make it JSON text: to_json(…) in select; if records "
                "have made the column, drop it from the table and declare it as STRING in value.schema"
            )


def _check_ingestion_unit(table: str, layout: TableLayout, values: MergeInput) -> None:
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
