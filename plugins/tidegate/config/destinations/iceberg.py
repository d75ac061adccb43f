"""Apache Iceberg as a destination: how a catalog is declared, what its tables can do, and what is built of it."""

import re
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from tidegate.adapters.catalog_routing import OpenedDestination
from tidegate.adapters.iceberg.format_version import PATH_ENDS, list_reserved_columns
from tidegate.adapters.open_clients import OpenClients
from tidegate.config.destinations.destination import CatalogModel, CatalogProbe, DestinationType
from tidegate.config.models.settings import PropertyText
from tidegate.config.models.table_entry import UNKNOWN_TYPE, DeclaredColumn, TableEntry, find_type
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.connections import Resolve
from tidegate.errors import TidegateError
from tidegate.lineage.dataset import Dataset, DatasetField, name_iceberg_table
from tidegate.model.ownership import PipelineLeftovers
from tidegate.ports.publication_session import Snapshots
from tidegate.redaction import has_secret, is_secret_name
from tidegate.schema.data_types import Map, Struct, format_type, iterate_types, list_full_names
from tidegate.schema.evolution import to_struct
from tidegate.sinks.world import SinkNotes
from tidegate.spec.pipeline import Catalog, Pipeline
from tidegate.spec.readers import READERS
from tidegate.sql.spark import STEP_REGEX, quote, split_path, unquote

MAX_ARGUMENT = 2**31 - 1
TRANSFORM_PATTERN = re.compile(r"(?P<word>[a-z]+)\((?:\s*(?P<argument>\d+)\s*,)?(?P<column>.+)\)", re.IGNORECASE)
DAYS = {"DATE"}
TIMES = {"TIMESTAMP", "TIMESTAMP_NTZ"}
WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
TEXTS = {"STRING", "BINARY"}
TYPES = {
    "year": DAYS | TIMES, "month": DAYS | TIMES, "day": DAYS | TIMES, "hour": TIMES,
    "bucket": WHOLE | TEXTS | DAYS | TIMES | {"DECIMAL"}, "truncate": WHOLE | TEXTS | {"DECIMAL"},
}  # fmt: skip
NESTED = {"STRUCT", "ARRAY", "MAP"}
WORD_PATTERN = re.compile(r"[A-Za-z_]\w*", re.ASCII)  # a name that Spark reads without backquotes


class _Partition(NamedTuple):
    """One entry of `partition_by`: a path to a column, `word` empty, or a transform of one."""

    word: str
    column: str
    argument: int

    @classmethod
    def parse(cls, text: str) -> "_Partition":
        match = TRANSFORM_PATTERN.fullmatch(text.strip())
        if match is None:
            return cls("", text.strip(), 0)
        word = match["word"].lower().removesuffix("s")
        return cls(word, match["column"].strip(), int(match["argument"] or 0))

    @property
    def path(self) -> tuple[str, ...]:
        return split_path(self.column)

    def fits(self, kind: str) -> bool:
        return kind in TYPES.get(self.word, {kind}) if self.word else kind not in NESTED


def _check_partitions(entry: TableEntry, struct: Struct) -> None:
    """Partitions that Spark cannot read, of wrong types, by one column twice, or with a number beyond an INT."""
    used_families = set[tuple[str, tuple[str, ...]]]()
    for index, text in enumerate(entry.table.create.partition_by):
        path = ("create", "partition_by", index)
        partition = _Partition.parse(text)
        if problem := _find_problem(struct, partition):
            entry.add(path, problem)
        if partition.argument > MAX_ARGUMENT:
            entry.add(path, f"out of range; must be at most {MAX_ARGUMENT}")
        family = "time" if partition.word in {"year", "month", "day", "hour"} else partition.word
        column = tuple(step.casefold() for step in partition.path)
        if (family, column) in used_families:
            entry.add(path, f"Iceberg partitions by {'.'.join(column)} in this way once; keep one")
        used_families.add((family, column))


def _find_problem(struct: Struct, partition: _Partition) -> str | None:
    words = re.sub(STEP_REGEX, lambda step: "" if step[0].startswith("`") else step[0], partition.column)
    bare_step = next((word for word in words.split(".") if word and not WORD_PATTERN.fullmatch(word)), None)
    if bare_step is not None:
        return f"Spark reads {bare_step} in backquotes only; write {'.'.join(map(quote, partition.path))} instead"
    data_type = find_type(struct, partition.path)
    if data_type is None and struct.find_name(".".join(partition.path)):
        return f"Spark reads a name with dots in backquotes only; write {quote('.'.join(partition.path))} instead"
    if data_type is None or isinstance(data_type, str):
        return data_type
    kind = re.split(r"[(<]", format_type(data_type))[0]
    if kind == UNKNOWN_TYPE or partition.fits(kind):
        return None
    allowed = ", ".join(sorted(TYPES.get(partition.word, ())))
    advice = f"{partition.word} takes {allowed}" if allowed else "name a column without parts"
    return f"{'.'.join(partition.path)} is {kind}, by which Iceberg cannot partition so; {advice}"


def _check_clusters(entry: TableEntry, struct: Struct) -> None:
    """Columns without an order, and parts of lists and maps."""
    for index, name in enumerate(entry.table.create.cluster_by):
        own_type = find_type(struct, (unquote(name),))
        data_type = find_type(struct, split_path(name)) if own_type is None else own_type
        path = ("create", "cluster_by", index)
        if isinstance(data_type, str):
            entry.add(path, data_type)
        elif data_type is not None and any(isinstance(part, Map) for part in iterate_types(data_type)):
            entry.add(path, "holds a map, and rows cannot be sorted by it; choose another column")


MERGE_ON_READ = "merge-on-read"
PRODUCT_PREFIX = "tidegate."
FORMAT_PROPERTY = "format-version"
DEFAULT_FORMAT = 2
SPARK_PROPERTIES = ("external", "is_managed_location", "location", "owner", "provider")
NUMBER_ENDS = ("-bytes", "-ms", "-max", "-to-keep", ".num-retries", ".compression-level", ".target-size")
CHANGES = ("merge", "update", "delete")
PROPERTY_WORDS: dict[str, tuple[str, ...]] = {
    FORMAT_PROPERTY: ("1", "2"),
    **{f"write.{change}.mode": (MERGE_ON_READ, "copy-on-write") for change in CHANGES},
    **{f"write.{change}.isolation-level": ("serializable", "snapshot") for change in CHANGES},
    **{f"write.{change}.distribution-mode": ("none", "hash", "range") for change in CHANGES},
    "write.distribution-mode": ("none", "hash", "range"),
    "write.delete.granularity": ("file", "partition"),
    "write.format.default": ("parquet", "orc"),  # of Avro PyIceberg reads nothing
    "write.delete.format.default": ("parquet", "orc"),
    "write.parquet.compression-codec": (
        *("zstd", "gzip", "snappy", "lz4", "lz4_raw", "lzo", "brotli", "uncompressed"),
    ),
    "write.orc.compression-codec": ("zlib", "zstd", "snappy", "lz4", "lzo", "brotli", "none"),
    "write.avro.compression-codec": ("gzip", "zstd", "snappy", "uncompressed"),
    "write.manifest.compression-codec": ("gzip", "zstd", "uncompressed"),  # PyIceberg reads no others
    "write.metadata.compression-codec": ("none", "gzip"),
}
PYICEBERG_TYPES = ("sql", "rest")
ABSOLUTE_PLACE_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?/")  # a path from the root, with a scheme or without
SHARED_URI_PREFIXES = ("sqlite:////", "sqlite+pysqlite:////", "postgresql://", "postgresql+psycopg2://")


class IcebergModel(CatalogModel):
    """PyIceberg's words; Spark's are derived from them."""

    type: Literal["iceberg"]
    properties: dict[str, PropertyText] = Field(default={}, description="PyIceberg's properties.")

    def to_shared_properties(self) -> dict[str, Any]:
        return dict(self.properties)


def _check_catalog(properties: dict[str, Any], catalog: KeyPath, findings: Problems) -> None:
    path = (*catalog, "properties")
    for name, value in properties.items():
        if is_secret_name(name) or has_secret(value):
            problem = "a secret in a file; put it into an Airflow connection and name that in `connection`"
            findings.add_broken((*path, name), problem)
    kind = properties.get("type")
    if kind not in PYICEBERG_TYPES:
        problem = f"PyIceberg's type of catalog; {suggest_closest('', PYICEBERG_TYPES)}"
        findings.add((*path, "type") if kind else path, problem)
    if "uri" not in properties:
        findings.add(path, "uri is missing; write e.g. sqlite:////absolute/catalog.db or http://host:8181")
    elif kind == "sql" and not properties["uri"].startswith(SHARED_URI_PREFIXES):
        problem = f"Spark cannot share it; absolute paths and hosts only: {', '.join(SHARED_URI_PREFIXES)}"
        findings.add((*path, "uri"), problem)
    elif kind == "rest" and not properties["uri"].startswith(("http://", "https://")):
        findings.add((*path, "uri"), "not the address of a REST catalog; write http://host:port or https://host")
    warehouse_example = "write e.g. file:///absolute/warehouse or s3://bucket/prefix"
    if kind == "sql" and "warehouse" not in properties:
        findings.add(path, f"warehouse is missing; {warehouse_example}")
    elif kind == "sql" and not ABSOLUTE_PLACE_PATTERN.match(properties["warehouse"]):
        problem = f"each process would look for it below its own folder; {warehouse_example}"
        findings.add((*path, "warehouse"), problem)


def _check_table(entry: TableEntry, catalog: Catalog | None) -> None:
    table = entry.table
    columns, _ = entry.find_columns()
    struct = to_struct(declared.column for declared in columns)
    _check_partitions(entry, struct)
    _check_clusters(entry, struct)
    _check_names(entry, columns)
    # a database's catalog puts a table's files into a folder of its name; a REST server chooses it
    has_folders = catalog is not None and catalog.properties.get("type") == "sql"
    if has_folders and any(end in table.name for end in PATH_ENDS):
        problem = "names a folder, and PyIceberg takes # and ? for the end of a path; use other characters"
        entry.add("name", problem)
    if table.create.format_version != DEFAULT_FORMAT and FORMAT_PROPERTY in table.create.properties:
        entry.add(("create", "properties", FORMAT_PROPERTY), "create.format_version says it already; leave it out")
    for reader in entry.model.readers:
        if table.create.format_version > READERS[reader].newest_format:
            problem = f"readers names {reader}, which {READERS[reader].words}; write 2, or leave out that reader"
            entry.add(("create", "format_version"), problem)
    for name, value in table.create.properties.items():
        if problem_of_property := _find_problem_of_property(name, value):
            entry.add(("create", "properties", name), problem_of_property)


def _find_problem_of_property(name: str, value: str) -> str | None:
    """Why Spark or PyIceberg would refuse it in each merge, or from the second one on."""
    words = PROPERTY_WORDS.get(name, ("true", "false") if name.endswith(".enabled") else ())
    if name in SPARK_PROPERTIES or name.startswith(PRODUCT_PREFIX):
        return f"kept by {'Tidegate' if name.startswith(PRODUCT_PREFIX) else 'Spark'} for itself; leave it out"
    if name == FORMAT_PROPERTY and value == "3":
        return "write create.format_version: 3 instead, so that readers of the table are checked"
    if words and value.lower() not in words:
        return f"not a value that Iceberg takes for it; use {' or '.join(words)}"
    if name.endswith(NUMBER_ENDS) and not re.fullmatch(r"-?\d+", value):
        return "not a whole number; write e.g. '2', or leave it out"
    return None


def _check_names(entry: TableEntry, columns: list[DeclaredColumn]) -> None:
    properties = entry.table.create.properties
    mode = properties.get("write.merge.mode", MERGE_ON_READ)
    rewrites_files = properties.get(FORMAT_PROPERTY) == "1" or mode != MERGE_ON_READ
    is_merged = entry.upserts or entry.deletes
    version = entry.table.create.format_version
    reserved_names = list_reserved_columns(version, rewrites_files=rewrites_files) if is_merged else ()
    owners = dict[str, str]()
    for named_by, column in columns:
        if column.name.casefold() in reserved_names:
            entry.findings.add(named_by, f"Iceberg reserves {column.name} in Spark; give the column another name")
        owner = column.name.lower()
        full_names = list(list_full_names(to_struct([column])))
        taken_names = (n for n in full_names if full_names.count(n) > 1 or owners.get(n, owner) != owner)
        if taken_name := next(taken_names, None):
            problem = f"{taken_name} would be both a column and a part of one, and no table of Iceberg's holds both"
            entry.findings.add(named_by, f"{problem}; give one of the two another name, e.g. in select")
        owners = dict.fromkeys(full_names, owner) | owners


def _open(catalogs: Sequence[Catalog], pipeline: Pipeline, resolve: Resolve, clients: OpenClients) -> OpenedDestination:
    from tidegate.adapters.iceberg.destination import build_iceberg_destination, open_catalogs

    branches = {table.name: table.branch for table in pipeline.tables}
    return OpenedDestination(build_iceberg_destination(open_catalogs(catalogs, resolve, clients), branches))


def _build_spark_conf(catalog: Catalog, resolve: Resolve) -> dict[str, str]:
    from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf, resolve_catalog_properties

    return build_spark_catalog_conf(catalog, resolve_catalog_properties(catalog, resolve))


def _find_leftovers(
    catalog: Catalog, resolve: Resolve, pipelines: Collection[str]
) -> tuple[list[PipelineLeftovers], list[TidegateError]]:
    from tidegate.adapters.iceberg.destination import open_catalogs
    from tidegate.adapters.iceberg.leftovers import find_leftovers

    return find_leftovers(open_catalogs([catalog], resolve), catalog.name, pipelines)


def _open_snapshots(catalog: Catalog, resolve: Resolve) -> Snapshots:
    from tidegate.adapters.iceberg.destination import open_catalogs
    from tidegate.adapters.iceberg.snapshots import IcebergSnapshots

    return IcebergSnapshots(open_catalogs([catalog], resolve))


def _open_sink_notes(catalog: Catalog, resolve: Resolve) -> SinkNotes:
    from tidegate.adapters.iceberg.destination import open_catalogs
    from tidegate.adapters.iceberg.leftovers import ConnectorNotes

    return ConnectorNotes(open_catalogs([catalog], resolve))


def _probe(catalog: Catalog, resolve: Resolve) -> CatalogProbe:
    from tidegate.adapters.iceberg.destination import open_catalogs
    from tidegate.adapters.iceberg.probe import IcebergProbe

    return IcebergProbe(open_catalogs([catalog], resolve), catalog.name)


def _describe_dataset(catalog: Catalog, resolve: Resolve, table: str) -> Dataset | None:
    from tidegate.adapters.iceberg.destination import build_iceberg_destination, open_catalogs

    catalogs = open_catalogs([catalog], resolve)
    loaded_table = catalogs.table(table)
    state = build_iceberg_destination(catalogs).tables.read_state(table, "")
    if loaded_table is None or state is None:
        return None
    name = name_iceberg_table(loaded_table.location(), catalog.properties.get("uri", ""), table.partition(".")[2])
    return Dataset(name, tuple(DatasetField(c.name, c.type) for c in state.columns))


ICEBERG = DestinationType(
    name="iceberg",
    title="Iceberg",
    model=IcebergModel,
    check_catalog=_check_catalog,
    check_table=_check_table,
    open=_open,
    build_spark_conf=_build_spark_conf,
    find_leftovers=_find_leftovers,
    probe=_probe,
    describe_dataset=_describe_dataset,
    open_snapshots=_open_snapshots,
    open_sink_notes=_open_sink_notes,
    has_named_branches=True,
    is_joinable=True,
    keeps_letters_of_others=True,
)
