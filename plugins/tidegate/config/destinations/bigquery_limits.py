"""Checks a pipeline's BigQuery tables against what BigQuery can hold, find and load: types, names, layout, quotas."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from tidegate.adapters.bigquery.table_layout import (
    INGESTION_TIME_COLUMN,
    MAX_CLUSTERING_COLUMNS,
    parse_partitioning,
    render_partition_clause,
    render_table_options,
)
from tidegate.adapters.bigquery.type_mapping import to_bigquery_schema, to_bigquery_type, to_stored_type
from tidegate.config.models.pipeline import MergeModel, PipelineModel, TableModel
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.select_statement import parse_select
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.errors import ConfigurationError
from tidegate.schema.column import Column
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, parse_type
from tidegate.spec.projection import Field, resolve_projection
from tidegate.spec.record_metadata import METADATA_TYPES
from tidegate.sql.spark import unquote

MAX_COLUMNS = 10_000
MAX_STRUCT_LEVELS = 15
MAX_LOADS_PER_DAY = 1_500  # load jobs into one table, failed ones included
MIN_INTERVAL_SECONDS = -(-86_400 // MAX_LOADS_PER_DAY)
MIN_THRESHOLD_RECORDS = 1_000  # below it an ordinary day of records is more than LOADS_A_DAY flushes
PARTITION_OPTIONS = ("partition_expiration_days", "require_partition_filter")
_UNCLUSTERED_TYPES = ("FLOAT64", "BYTES")


def check_limits(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    """Note what no BigQuery table can have; `table` is one of them."""
    key, key_path = (table.key, (*path, "key")) if table.key else (model.source.key, ("source", "key"))
    value, value_path = (table.value, (*path, "value")) if table.value else (model.source.value, ("source", "value"))
    declared_columns = {"key": _try_parse_columns(key.schema_), "value": _try_parse_columns(value.schema_)}
    for part, columns_path in (("key", key_path), ("value", value_path)):
        if part == "key" or table.select is None:
            _check_columns(declared_columns[part], (*columns_path, "schema"), findings)
    metadata = [Column(name, METADATA_TYPES.get(word, "STRING")) for name, word in model.source.metadata.items()]
    for column in metadata:
        _note_problem(partial(to_bigquery_schema, [column]), ("source", "metadata", column.name), findings)
    columns = {
        c.name: c
        for c in (*declared_columns["value"], *(replace(c, name=key.prefix + c.name) for c in declared_columns["key"]))
    }
    known_columns = [*columns.values(), *metadata]
    types = {c.name: c.type for c in (*known_columns, *declared_columns["key"])}
    has_all_columns = bool(value.schema_)
    if table.select is not None:
        known_columns, is_whole = _select_columns(table.select, known_columns)
        has_all_columns, value_path = has_all_columns and is_whole, (*path, "select")
        _check_columns(known_columns, value_path, findings)
    _check_partial_updates(table, declared_columns["value"] if table.select is None else known_columns, path, findings)
    known_columns += _list_history_columns(table, known_columns)
    if sum(_count_leaves(parse_type(c.type)) for c in known_columns) > MAX_COLUMNS:
        columns_path = value_path if table.select is not None else (*value_path, "schema")
        findings.add(columns_path, f"BigQuery holds {MAX_COLUMNS} columns, fields of structs included")
    is_keyed = any(word is not False for word in (table.upsert, table.delete))
    _check_ordered(key.fields if is_keyed else [], types, (*key_path, "fields"), findings)
    _check_ordered(table.sequence_by, types, (*path, "sequence_by"), findings)
    _check_layout(table, known_columns if has_all_columns else None, (*path, "create"), findings)


def _check_partial_updates(table: TableModel, columns: Iterable[Column], path: KeyPath, findings: Problems) -> None:
    """Note arrays and maps in partial updates. BigQuery stores a NULL array as an empty one, which is a value.

    Columns of a sequence group are written whenever the sequence is newer, so that nothing depends on a NULL.
    """
    if table.partial_updates is False:
        return
    groups = {} if table.partial_updates is True else table.partial_updates.sequence_groups
    grouped_columns = {name.casefold() for members in groups.values() for name in members}
    arrays = [c.name for c in columns if c.type.startswith(("ARRAY<", "MAP<"))]
    for name in (name for name in arrays if name.casefold() not in grouped_columns):
        findings.add(
            (*path, "partial_updates"),
            f"column={name}: BigQuery stores a NULL array as an empty one, so that a record without it would empty the "
            "row's; put it into sequence_groups, leave it out, or select it as JSON text",
        )


def _list_history_columns(table: TableModel, known_columns: Iterable[Column]) -> list[Column]:
    """The columns that history adds, by which tables may be partitioned too."""
    if table.history == "none":
        return []
    types = {c.name.casefold(): c.type for c in known_columns}
    axis = types.get(table.sequence_by[0].casefold(), "STRING") if table.sequence_by else "TIMESTAMP"
    history_columns = table.history_columns
    return [
        Column(history_columns.valid_from, axis),
        Column(history_columns.valid_to, axis),
        Column(history_columns.is_current, "BOOLEAN"),
    ]


def _select_columns(text: str, record: Iterable[Column]) -> tuple[list[Column], bool]:
    """The columns that `select` makes of a record, and whether they are all: those of dimension tables are not told."""
    try:
        select = parse_select(text)
    except ValueError:
        return [], False  # said where the statement is checked
    fields = [Field(c.name, c.type, c.nullable) for c in record]
    columns: list[Column] = []
    is_whole = True
    for item in select.items:
        try:
            made_here = resolve_projection(replace(select, items=(item,)), fields, "")
        except ConfigurationError:
            is_whole = False
            continue
        columns += [Column(c.name, c.type, c.nullable) for c in made_here]
    return columns, is_whole


def check_pace(merge: MergeModel, findings: Problems) -> None:
    """Note flushes that come faster than BigQuery takes load jobs."""
    if isinstance(merge.interval, int) and 0 < merge.interval < MIN_INTERVAL_SECONDS:
        problem = f"BigQuery takes {MAX_LOADS_PER_DAY} load jobs for one table a day"
        findings.add(("merge", "interval"), f"{problem}; must be at least {MIN_INTERVAL_SECONDS}s, or -1 to disable")
    if 0 < merge.records_threshold < MIN_THRESHOLD_RECORDS:
        problem = f"each flush is a load job, and BigQuery takes {MAX_LOADS_PER_DAY} for one table a day"
        findings.add(
            ("merge", "records_threshold"), f"{problem}; must be at least {MIN_THRESHOLD_RECORDS}, or -1 to disable"
        )


def _try_parse_columns(ddl: str | None) -> tuple[Column, ...]:
    try:
        return parse_columns(ddl) if ddl is not None else ()
    except ValueError:
        return ()  # said where the schema is checked


def _note_problem(check: Callable[[], Any], path: KeyPath, findings: Problems) -> Any:
    try:
        return check()
    except ConfigurationError as fault:
        findings.add(path, str(fault))
        return None


def _check_columns(columns: Iterable[Column], path: KeyPath, findings: Problems) -> None:
    for column in columns:
        _note_problem(partial(to_bigquery_schema, [column]), path, findings)
        if _count_levels(parse_type(column.type)) >= MAX_STRUCT_LEVELS:
            problem = f"BigQuery nests structs {MAX_STRUCT_LEVELS} deep, and the staged row is one of them"
            findings.add(path, f"column={column.name}: {problem}; keep a part of it as JSON text")


def _count_levels(data_type: DataType) -> int:
    """How many structs lie in each other, entries of maps among them."""
    match data_type:
        case Struct(fields):
            return 1 + max((_count_levels(inner) for _, inner in fields), default=0)
        case Array(element):
            return _count_levels(element)
        case Map(key, value):
            return 1 + max(_count_levels(key), _count_levels(value))
    return 0


def _check_ordered(names: Iterable[str], types: dict[str, str], path: KeyPath, findings: Problems) -> None:
    """Floating point has no order that BigQuery and Spark agree on, and BigQuery groups no window by it."""
    for index, name in enumerate(names):
        if name in types and _has_floats(parse_type(types[name])):
            findings.add((*path, index), "floating point, by which BigQuery finds no rows; use DECIMAL or another type")


def _has_floats(data_type: DataType) -> bool:
    if isinstance(data_type, Struct):
        return any(_has_floats(inner) for _, inner in data_type.fields)
    return isinstance(data_type, Primitive) and data_type.name in ("FLOAT", "DOUBLE")


def _count_leaves(data_type: DataType) -> int:
    match data_type:
        case Struct(fields):
            return 1 + sum(_count_leaves(inner) for _, inner in fields)
        case Array(element):
            return _count_leaves(element)
        case Primitive():
            return 1
    return 3  # a map is an array of entries


def _check_layout(table: TableModel, columns: list[Column] | None, path: KeyPath, findings: Problems) -> None:
    create = table.create
    if not create.partition_by:
        for name in (name for name in PARTITION_OPTIONS if name in create.properties):
            findings.add((*path, "properties", name), "BigQuery has it for partitioned tables alone; add partition_by")
    for index, _ in enumerate(create.partition_by):
        entry_path = (*path, "partition_by", index)
        if index:
            findings.add(entry_path, "BigQuery partitions by one column; keep one")
        elif columns is None or INGESTION_TIME_COLUMN in create.partition_by[0].upper():
            _note_problem(lambda: parse_partitioning(create.partition_by[:1]), entry_path, findings)
        else:
            _note_problem(lambda: render_partition_clause(create.partition_by[:1], columns or ()), entry_path, findings)
    _note_problem(lambda: render_table_options(create.properties), (*path, "properties"), findings)
    if table.audits and create.properties.get("require_partition_filter", "").lower() == "true":
        problem = (
            "cannot be asked of a table that requires a partition filter; drop require_partition_filter, or the audits"
        )
        findings.add((*path[:-1], "audits"), problem)
    types = {c.name.casefold(): c.type for c in columns or ()}
    for index, name in enumerate(create.cluster_by):
        entry_path = (*path, "cluster_by", index)
        if index >= MAX_CLUSTERING_COLUMNS:
            findings.add(entry_path, f"BigQuery clusters by {MAX_CLUSTERING_COLUMNS} columns at most")
        elif unquote(name).casefold() in {
            unquote(other_column).casefold() for other_column in create.cluster_by[:index]
        }:
            findings.add(entry_path, "BigQuery clusters by a column once; keep one")
        kind = types.get(unquote(name).casefold())
        if kind is not None and not _can_cluster(parse_type(kind)):
            findings.add(entry_path, f"{kind} is no type that BigQuery clusters by; choose another column")


def _can_cluster(data_type: DataType) -> bool:
    try:
        stored_type = to_stored_type(data_type)
        return isinstance(stored_type, Primitive) and to_bigquery_type(stored_type) not in _UNCLUSTERED_TYPES
    except ConfigurationError:
        return True  # said where the schema is checked
