"""BigQuery as a destination: how a project is declared, what its tables can hold, and what is built of it."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import Field

from tidegate.adapters.bigquery.schema import (
    INGESTION_TIME_COLUMN,
    MAX_CLUSTERING_COLUMNS,
    parse_partitioning,
    render_partition_clause,
    render_table_options,
)
from tidegate.adapters.bigquery.types import to_bigquery_schema, to_bigquery_type, to_stored_type
from tidegate.adapters.catalog_routing import OpenedDestination
from tidegate.adapters.open_clients import OpenClients
from tidegate.config.destinations.declared_columns import (
    UNKNOWN_TYPE,
    DeclaredColumn,
    find_record_columns,
    find_table_columns,
    try_parse_columns,
)
from tidegate.config.destinations.destination import CatalogModel, CatalogProbe, DestinationType
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.lineage.dataset import Dataset, DatasetField, DatasetName
from tidegate.model.ownership import PipelineLeftovers
from tidegate.schema.data_types import Array, Column, DataType, Map, Primitive, Struct, parse_type
from tidegate.spec.pipeline import Catalog, Pipeline
from tidegate.spec.table_template import FIELD_PATTERN, split_template
from tidegate.sql.spark import unquote

DEFAULT_LOCATION = "US"
DATASET_PATTERN = re.compile(r"\w+", re.ASCII)
MAX_COLUMNS = 10_000
MAX_STRUCT_LEVELS = 15
MAX_LOADS_PER_DAY = 1_500  # load jobs into one table, failed ones included
MIN_INTERVAL_SECONDS = -(-86_400 // MAX_LOADS_PER_DAY)
MIN_THRESHOLD_RECORDS = 1_000  # below it an ordinary day of records is more than LOADS_A_DAY flushes
MAX_PENDING = 1000  # each staged batch has a partition of its own, of 10,000
PARTITION_OPTIONS = ("partition_expiration_days", "require_partition_filter")
_UNCLUSTERED_TYPES = ("FLOAT64", "BYTES")
_NAME_CATEGORIES = ("Pc", "Pd", "Zs")  # of Unicode, beside letters, marks and numbers


class BigQueryModel(CatalogModel):
    """A Google Cloud project and where load jobs find their files."""

    type: Literal["bigquery"]
    project: str
    location: str | None = None
    staging: str | None = None
    endpoint: str | None = None
    max_bytes_billed: int | None = Field(default=None, ge=1, description="The most that one publish may scan.")

    def to_shared_properties(self) -> dict[str, Any]:
        """What was given, under our names."""
        properties = self.model_dump(exclude={"type", "connection"})
        return {name: value for name, value in properties.items() if value is not None}


def _check_pipeline(model: PipelineModel, catalogs: Sequence[Catalog], findings: Problems) -> None:
    # a server that a catalog names by its endpoint has no quotas of jobs, and no location
    served_catalogs = [catalog for catalog in catalogs if "endpoint" not in catalog.properties]
    if served_catalogs:
        _check_pace(model, findings)
    locations = {str(catalog.properties.get("location", DEFAULT_LOCATION)).upper() for catalog in served_catalogs}
    if len(locations) > 1 and model.source.errors.tolerance != "none":
        findings.add(
            ("source", "errors", "tolerance"),
            f"all needs every table in one location, and these catalogs lie in {', '.join(sorted(locations))}: one job "
            "publishes a batch and writes its dead letters; write none, or make a pipeline for each",
        )


def _check_table(
    model: PipelineModel, table: TableModel, catalog: Catalog | None, path: KeyPath, findings: Problems
) -> None:
    if catalog is not None and not catalog.properties.get("staging"):
        findings.add(
            (*path, "name"),
            f"catalog={catalog.name} has no staging in catalogs.yaml; give gs://bucket/prefix, or file:///folder",
        )
    namespace, _ = split_template(table.name.partition(".")[2])
    for index, name in enumerate(table.namespaces):
        if not DATASET_PATTERN.fullmatch(name):
            findings.add((*path, "namespaces", index), "not a dataset's name: letters, digits and underscores")
    literal_text = FIELD_PATTERN.sub("", namespace)
    if "." in literal_text:
        findings.add((*path, "name"), "BigQuery has one level of datasets; write <catalog>.<dataset>.<table>")
    elif literal_text and not DATASET_PATTERN.fullmatch(literal_text):
        problem = f"dataset={namespace}: BigQuery's datasets have letters, digits and underscores"
        findings.add((*path, "name"), f"{problem}; name another one")
    if table.max_pending > MAX_PENDING:
        findings.add((*path, "max_pending"), f"BigQuery has partitions for {MAX_PENDING} staged batches; lower it")
    _check_history(model, table, path, findings)
    _check_limits(model, table, path, findings)


def _check_history(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    # a row of history is made of several records: no record's time can place it
    by_ingestion = any(INGESTION_TIME_COLUMN in text.upper() for text in table.create.partition_by)
    if table.history != "none" and by_ingestion and model.merge.partition_time == "record":
        problem = (
            "a row of history has no record's time to lie at; name a column, e.g. valid_from, or set "
            "merge.partition_time: wall-clock"
        )
        findings.add((*path, "create", "partition_by", 0), problem)


def _check_limits(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    key, key_path = (table.key, (*path, "key")) if table.key else (model.source.key, ("source", "key"))
    value_path = (*path, "value") if table.value else ("source", "value")
    columns_path = (*path, "select") if table.select is not None else (*value_path, "schema")
    _check_table_name(table.name, (*path, "name"), findings)
    key_columns = [DeclaredColumn((*key_path, "schema"), column) for column in try_parse_columns(key.schema_)]
    declared_columns, is_whole = find_table_columns(model, table, path)
    _check_columns([*key_columns, *declared_columns], findings)
    columns = [declared.column for declared in declared_columns]
    own_columns = [declared.column for declared in declared_columns if declared.path == columns_path]
    _check_partial_updates(table, own_columns, path, findings)
    if sum(_count_leaves(parse_type(column.type)) for column in columns) > MAX_COLUMNS:
        findings.add(columns_path, f"BigQuery holds {MAX_COLUMNS} columns, fields of structs included")
    record_columns, _ = find_record_columns(model, table, path)
    types = {declared.column.name.casefold(): declared.column.type for declared in (*key_columns, *record_columns)}
    types |= {column.name.casefold(): column.type for column in columns}
    is_keyed = any(word is not False for word in (table.upsert, table.delete))
    for index, name in enumerate(key.fields if is_keyed else []):
        if _has_floats(parse_type(types.get(name.casefold(), UNKNOWN_TYPE))):
            problem = "floating point, by which BigQuery finds no rows; use DECIMAL or another type"
            findings.add((*key_path, "fields", index), problem)
    for index, name in enumerate(table.sequence_by):
        _check_sequence(types.get(name.casefold(), UNKNOWN_TYPE), (*path, "sequence_by", index), findings)
    _check_layout(table, columns if is_whole else None, (*path, "create"), findings)


def _check_table_name(name: str, path: KeyPath, findings: Problems) -> None:
    table = split_template(name.partition(".")[2])[1]
    kinds = {char: unicodedata.category(char) for char in FIELD_PATTERN.sub("", table)}
    forbidden = sorted(char for char, kind in kinds.items() if kind[0] not in "LMN" and kind not in _NAME_CATEGORIES)
    if forbidden:
        problem = f"characters={' '.join(forbidden)}: a BigQuery table's name has letters, digits, _, - and blanks"
        findings.add(path, f"{problem}; name another one")


def _check_sequence(kind: str, path: KeyPath, findings: Problems) -> None:
    data_type = parse_type(kind)
    # BigQuery and Spark order floating point in different ways
    if _has_floats(data_type):
        findings.add(path, "floating point, by which BigQuery finds no rows; use DECIMAL or another type")
    elif not isinstance(data_type, Primitive):
        findings.add(path, f"{kind}, by which BigQuery orders no rows; order by a column without parts")


def _check_partial_updates(table: TableModel, columns: Iterable[Column], path: KeyPath, findings: Problems) -> None:
    if table.partial_updates is False:
        return
    # columns of a sequence group are written whenever the sequence is newer: nothing depends on a NULL
    groups = {} if table.partial_updates is True else table.partial_updates.sequence_groups
    grouped_columns = {name.casefold() for members in groups.values() for name in members}
    arrays = [c.name for c in columns if c.type.startswith(("ARRAY<", "MAP<"))]
    for name in (name for name in arrays if name.casefold() not in grouped_columns):
        findings.add(
            (*path, "partial_updates"),
            f"column={name}: BigQuery stores a NULL array as an empty one, so that a record without it would empty the "
            "row's; put it into sequence_groups, leave it out, or select it as JSON text",
        )


def _check_pace(model: PipelineModel, findings: Problems) -> None:
    # staging is one load job for each table
    key = "merge" if model.stage.interval is None else "stage"
    interval = model.merge.interval if model.stage.interval is None else model.stage.interval
    if isinstance(interval, int) and 0 < interval < MIN_INTERVAL_SECONDS:
        problem = f"BigQuery takes {MAX_LOADS_PER_DAY} load jobs for one table a day"
        way_out = ", or -1 to disable" if key == "merge" else ""
        findings.add((key, "interval"), f"{problem}; must be at least {MIN_INTERVAL_SECONDS}s{way_out}")
    if model.stage.interval is None and 0 < model.merge.records_threshold < MIN_THRESHOLD_RECORDS:
        problem = f"each flush is a load job, and BigQuery takes {MAX_LOADS_PER_DAY} for one table a day"
        findings.add(
            ("merge", "records_threshold"), f"{problem}; must be at least {MIN_THRESHOLD_RECORDS}, or -1 to disable"
        )


def _note_problem(check: Callable[[], Any], path: KeyPath, findings: Problems) -> Any:
    try:
        return check()
    except ConfigurationError as fault:
        findings.add(path, str(fault))
        return None


def _check_columns(columns: Iterable[DeclaredColumn], findings: Problems) -> None:
    for path, declared_column in columns:
        is_unknown = declared_column.type == UNKNOWN_TYPE
        column = replace(declared_column, type="STRING") if is_unknown else declared_column
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


def _open(catalogs: Sequence[Catalog], pipeline: Pipeline, resolve: Resolve, clients: OpenClients) -> OpenedDestination:
    from tidegate.adapters.bigquery.catalog import Warehouse
    from tidegate.adapters.bigquery.destination import open_bigquery

    # pipelines share a warehouse while its settings, secrets included, are equal
    warehouses = dict[str, Warehouse]()
    for catalog in catalogs:
        settings = (catalog, resolve(catalog.connection) if catalog.connection else None)
        open_warehouse = partial(Warehouse, catalog, resolve, clients.watcher, pipeline.name)
        warehouses[catalog.name] = clients.get_client(catalog.name, settings, open_warehouse)
    return open_bigquery(warehouses)


def _probe(catalog: Catalog, resolve: Resolve) -> CatalogProbe:
    from tidegate.adapters.bigquery.catalog import Warehouse
    from tidegate.adapters.bigquery.probe import WarehouseProbe

    return WarehouseProbe(Warehouse(catalog, resolve))


def _find_leftovers(
    catalog: Catalog, resolve: Resolve, pipelines: Collection[str]
) -> tuple[list[PipelineLeftovers], list[TidegateError]]:
    from tidegate.adapters.bigquery.catalog import Warehouse
    from tidegate.adapters.bigquery.leftovers import find_leftovers

    try:
        return find_leftovers(Warehouse(catalog, resolve), catalog.name, pipelines)
    except TidegateError as error:
        return [], [error]


def _describe_dataset(catalog: Catalog, resolve: Resolve, table: str) -> Dataset | None:
    from tidegate.adapters.bigquery.catalog import Warehouse
    from tidegate.adapters.bigquery.destination import open_bigquery

    destination = open_bigquery({catalog.name: Warehouse(catalog, resolve)})
    state = destination.session.tables.read_state(table, "")
    if state is None:
        return None
    name = DatasetName("bigquery", f"{catalog.properties['project']}.{table.partition('.')[2]}")
    return Dataset(name, tuple(DatasetField(c.name, c.type) for c in state.columns))


BIGQUERY = DestinationType(
    name="bigquery",
    title="BigQuery",
    model=BigQueryModel,
    check_table=_check_table,
    check_pipeline=_check_pipeline,
    open=_open,
    find_leftovers=_find_leftovers,
    probe=_probe,
    describe_dataset=_describe_dataset,
    max_name_bytes=1024,
    partition_columns=(INGESTION_TIME_COLUMN,),
)
