"""BigQuery as a destination: how a project is declared, what its tables can hold, and what is built of it."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
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
from tidegate.config.destinations.destination import CatalogModel, CatalogProbe, DestinationType
from tidegate.config.models.pipeline import PipelineModel
from tidegate.config.models.table_entry import UNKNOWN_TYPE, DeclaredColumn, TableEntry
from tidegate.config.parsing.problems import Problems
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
FLOATS_PROBLEM = "floating point, by which BigQuery finds no rows; use DECIMAL or another type"
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
        properties = self.model_dump(exclude={"type", "connection"})
        return {name: value for name, value in properties.items() if value is not None}


def _check_pipeline(model: PipelineModel, catalogs: Sequence[Catalog], findings: Problems) -> None:
    # a server that a catalog names by its endpoint has no quotas of jobs, and no location
    served_catalogs = [catalog for catalog in catalogs if "endpoint" not in catalog.properties]
    if served_catalogs:
        # staging is one load job for each table
        key = "merge" if model.stage.interval is None else "stage"
        interval = model.merge.interval if model.stage.interval is None else model.stage.interval
        if isinstance(interval, int) and 0 < interval < MIN_INTERVAL_SECONDS:
            problem = f"BigQuery takes {MAX_LOADS_PER_DAY} load jobs for one table a day"
            way_out = ", or -1 to disable" if key == "merge" else ""
            findings.add((key, "interval"), f"{problem}; must be at least {MIN_INTERVAL_SECONDS}s{way_out}")
        if model.stage.interval is None and 0 < model.merge.records_threshold < MIN_THRESHOLD_RECORDS:
            problem = f"each flush is a load job, and BigQuery takes {MAX_LOADS_PER_DAY} for one table a day"
            remedy = f"must be at least {MIN_THRESHOLD_RECORDS}, or -1 to disable"
            findings.add(("merge", "records_threshold"), f"{problem}; {remedy}")
    locations = {str(catalog.properties.get("location", DEFAULT_LOCATION)).upper() for catalog in served_catalogs}
    if len(locations) > 1 and model.source.errors.tolerance != "none":
        findings.add(
            ("source", "errors", "tolerance"),
            f"all needs every table in one location, and these catalogs lie in {', '.join(sorted(locations))}: one job "
            "publishes a batch and writes its dead letters; write none, or make a pipeline for each",
        )


def _check_table(entry: TableEntry, catalog: Catalog | None) -> None:
    table = entry.table
    if catalog is not None and not catalog.properties.get("staging"):
        problem = f"catalog={catalog.name} has no staging in catalogs.yaml"
        entry.add("name", f"{problem}; give gs://bucket/prefix, or file:///folder")
    for index, name in enumerate(table.namespaces):
        if not DATASET_PATTERN.fullmatch(name):
            entry.add(("namespaces", index), "not a dataset's name: letters, digits and underscores")
    _check_name(entry)
    if table.max_pending > MAX_PENDING:
        entry.add("max_pending", f"BigQuery has partitions for {MAX_PENDING} staged batches; lower it")
    # a row of history is made of several records: no record's time can place it
    by_ingestion = any(INGESTION_TIME_COLUMN in text.upper() for text in table.create.partition_by)
    if table.history != "none" and by_ingestion and entry.model.merge.partition_time == "record":
        problem = "a row of history has no record's time to lie at"
        remedy = "name a column, e.g. valid_from, or set merge.partition_time: wall-clock"
        entry.add(("create", "partition_by", 0), f"{problem}; {remedy}")
    _check_limits(entry)


def _check_name(entry: TableEntry) -> None:
    namespace, table_name = split_template(entry.table.name.partition(".")[2])
    literal_text = FIELD_PATTERN.sub("", namespace)
    if "." in literal_text:
        entry.add("name", "BigQuery has one level of datasets; write <catalog>.<dataset>.<table>")
    elif literal_text and not DATASET_PATTERN.fullmatch(literal_text):
        problem = f"dataset={namespace}: BigQuery's datasets have letters, digits and underscores"
        entry.add("name", f"{problem}; name another one")
    kinds = {char: unicodedata.category(char) for char in FIELD_PATTERN.sub("", table_name)}
    forbidden = sorted(char for char, kind in kinds.items() if kind[0] not in "LMN" and kind not in _NAME_CATEGORIES)
    if forbidden:
        problem = f"characters={' '.join(forbidden)}: a BigQuery table's name has letters, digits, _, - and blanks"
        entry.add("name", f"{problem}; name another one")


def _check_limits(entry: TableEntry) -> None:
    table = entry.table
    columns_path = (*entry.path, "select") if table.select is not None else (*entry.value_path, "schema")
    key_columns = [DeclaredColumn((*entry.key_path, "schema"), column) for column in entry.key_columns or ()]
    declared_columns, is_whole = entry.find_columns()
    for path, declared_column in [*key_columns, *declared_columns]:
        is_unknown = declared_column.type == UNKNOWN_TYPE
        column = replace(declared_column, type="STRING") if is_unknown else declared_column
        entry.findings.run_check(path, to_bigquery_schema, [column])
        if _count_levels(parse_type(column.type)) >= MAX_STRUCT_LEVELS:
            problem = f"BigQuery nests structs {MAX_STRUCT_LEVELS} deep, and the staged row is one of them"
            entry.findings.add(path, f"column={column.name}: {problem}; keep a part of it as JSON text")
    columns = [declared.column for declared in declared_columns]
    _check_partial_updates(entry, [declared.column for declared in declared_columns if declared.path == columns_path])
    if sum(_count_leaves(parse_type(column.type)) for column in columns) > MAX_COLUMNS:
        entry.findings.add(columns_path, f"BigQuery holds {MAX_COLUMNS} columns, fields of structs included")
    record_columns, _ = entry.find_record_columns()
    types = {declared.column.name.casefold(): declared.column.type for declared in (*key_columns, *record_columns)}
    types |= {column.name.casefold(): column.type for column in columns}
    is_keyed = any(word is not False for word in (table.upsert, table.delete))
    for index, name in enumerate(entry.key.fields if is_keyed else []):
        if _has_floats(parse_type(types.get(name.casefold(), UNKNOWN_TYPE))):
            entry.findings.add((*entry.key_path, "fields", index), FLOATS_PROBLEM)
    for index, name in enumerate(table.sequence_by):
        kind = types.get(name.casefold(), UNKNOWN_TYPE)
        # BigQuery and Spark order floating point in different ways
        if _has_floats(parse_type(kind)):
            entry.add(("sequence_by", index), FLOATS_PROBLEM)
        elif not isinstance(parse_type(kind), Primitive):
            problem = f"{kind}, by which BigQuery orders no rows; order by a column without parts"
            entry.add(("sequence_by", index), problem)
    _check_layout(entry, columns if is_whole else None)


def _check_partial_updates(entry: TableEntry, columns: Iterable[Column]) -> None:
    if entry.table.partial_updates is False:
        return
    # columns of a sequence group are written whenever the sequence is newer: nothing depends on a NULL
    grouped_columns = {name.casefold() for _, members in entry.table.groups for name in members}
    arrays = [c.name for c in columns if c.type.startswith(("ARRAY<", "MAP<"))]
    for name in (name for name in arrays if name.casefold() not in grouped_columns):
        entry.add(
            "partial_updates",
            f"column={name}: BigQuery stores a NULL array as an empty one, so that a record without it would empty the "
            "row's; put it into sequence_groups, leave it out, or select it as JSON text",
        )


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


def _check_layout(entry: TableEntry, columns: list[Column] | None) -> None:
    create = entry.table.create
    findings = entry.findings
    if create.format_version != type(create)().format_version:
        entry.add(("create", "format_version"), "Iceberg's alone; leave it out")
    if not create.partition_by:
        for name in (name for name in PARTITION_OPTIONS if name in create.properties):
            problem = "BigQuery has it for partitioned tables alone; add partition_by"
            entry.add(("create", "properties", name), problem)
    for index, _ in enumerate(create.partition_by):
        path = (*entry.path, "create", "partition_by", index)
        if index:
            findings.add(path, "BigQuery partitions by one column; keep one")
        elif columns is None or INGESTION_TIME_COLUMN in create.partition_by[0].upper():
            findings.run_check(path, parse_partitioning, create.partition_by[:1])
        else:
            findings.run_check(path, render_partition_clause, create.partition_by[:1], columns)
    findings.run_check((*entry.path, "create", "properties"), render_table_options, create.properties)
    if entry.table.audits and create.properties.get("require_partition_filter", "").lower() == "true":
        problem = "cannot be asked of a table that requires a partition filter"
        entry.add("audits", f"{problem}; drop require_partition_filter, or the audits")
    types = {c.name.casefold(): c.type for c in columns or ()}
    names = [unquote(name).casefold() for name in create.cluster_by]
    for index, name in enumerate(names):
        if index >= MAX_CLUSTERING_COLUMNS:
            problem = f"BigQuery clusters by {MAX_CLUSTERING_COLUMNS} columns at most"
            entry.add(("create", "cluster_by", index), problem)
        elif name in names[:index]:
            entry.add(("create", "cluster_by", index), "BigQuery clusters by a column once; keep one")
        kind = types.get(name)
        if kind is not None and not _can_cluster(parse_type(kind)):
            problem = f"{kind} is no type that BigQuery clusters by; choose another column"
            entry.add(("create", "cluster_by", index), problem)


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
    min_interval_seconds=MIN_INTERVAL_SECONDS,
    min_records_threshold=MIN_THRESHOLD_RECORDS,
    partition_columns=(INGESTION_TIME_COLUMN,),
)
