"""PyIceberg's private parts: what the adapter uses of them, what it replaces, and the issue upstream that would end it.

No other module touches a private name of PyIceberg, replaces one of its methods, or derives from one of its classes.
An upgrade checks each part here: whether the name is still there, and whether its issue is closed. Issues are those of
apache/iceberg-python; "none" means that none was found.
"""

import json
import time
import uuid
import weakref
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from traceback import clear_frames
from types import new_class
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriter,
    ManifestWriterV2,
    PartitionFieldSummary,
)
from pyiceberg.schema import Schema
from pyiceberg.serializers import Compressor, FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, update_snapshot_summaries
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate, UpgradeFormatVersionUpdate
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties, TableVersion
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from tidegate.adapters.iceberg.format_version import ROW_ID_VERSION, refuse_cut_path
from tidegate.adapters.iceberg.metadata_document import apply_updates
from tidegate.errors import RetryLater

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog

MAX_FILE_SYSTEMS = 16  # of keys that a catalog hands out, older ones are let go
STORE_SETTINGS = {"adls", "client", "gcs", "hdfs", "s3"}  # what properties begin with that a client is made of
# A flush loads its table, the intermediate table and the history again and again. That of many snapshots is large.
MAX_KEPT_METADATA = 4
MAX_CLOCK_SKEW_MS = 60_000  # Iceberg's Java library opens no table whose times go back by more
VIEW_TYPE = "VIEW"
# in the words of Iceberg's Java client
TIMEOUTS = ("rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms")
# of a manifest's entries, as the format fixes them
DATA_FILE_FIELD_ID = 2
EQUALITY_IDS_FIELD_ID = 135
EQUALITY_ID_FIELD_ID = 136


# A commit of our own requirements: #269. A transaction tries a refused commit again, on whatever main is then, and
# gives nobody the updates that it has staged.


def get_updates(transaction: Transaction) -> tuple[TableUpdate, ...]:
    """A transaction's staged updates, for a commit with other requirements than its own."""
    return transaction._updates


def check_schema_update(update: UpdateSchema) -> None:
    """`ValueError` where the commit would raise it; sends nothing. Upstream: none."""
    update._apply()


# Files without a commit: #1751 for files of rows, #1053 for files of deletes.


def write_data_files(metadata: TableMetadata, rows: "pa.Table", io: FileIO) -> Iterable[DataFile]:
    """In the table's present partitions."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    return _dataframe_to_data_files(metadata, rows, io)


def read_deleted_positions(io: FileIO, file: DataFile) -> "dict[str, pa.ChunkedArray[Any]]":
    """Positions in a file of deletes, by their data file."""
    from pyiceberg.io.pyarrow import _read_deletes

    return _read_deletes(io, file)


# Snapshots with deletes: #3618. PyIceberg's own writers know of data files only.


class DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of delete files, with equality ids of 32 bits: Iceberg's Java library opens no other table.

    Upstream: #3840, closed in main.
    """

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        fields = super()._with_partition(format_version).fields
        return Schema(*(_narrow_ids(field) for field in fields))


def _narrow_ids(field: NestedField) -> NestedField:
    kind = field.field_type
    if field.field_id == DATA_FILE_FIELD_ID and isinstance(kind, StructType):
        return field.model_copy(update={"field_type": StructType(*map(_narrow_ids, kind.fields))})
    if field.field_id == EQUALITY_IDS_FIELD_ID:
        ids = ListType(EQUALITY_ID_FIELD_ID, IntegerType(), element_required=True)
        return field.model_copy(update={"field_type": ids})
    return field


class SnapshotOfManifests(_SnapshotProducer["SnapshotOfManifests"]):
    """A snapshot above any other; a derived class gives manifests and summary.

    `write` commits nothing: it writes the list of manifests and returns the update that adds the snapshot.
    """

    def __init__(self, table: Table, parent_id: int | None, operation: Operation) -> None:
        super().__init__(operation, table.transaction(), table.io, uuid.uuid4(), branch=None)
        self._parent_snapshot_id = parent_id
        # as Spark compresses manifests; PyIceberg takes what the table says of files of rows, and may not know that
        self._compression = "deflate"
        self.io = table.io
        self.properties: dict[str, str] = table.metadata.properties
        self.operation = operation

    @abstractmethod
    def build_manifests(self) -> list[ManifestFile]:
        """All manifests of the snapshot; writes the new ones."""

    @abstractmethod
    def build_summary(self) -> Summary:
        """Called after `build_manifests`."""

    def write(self) -> TableUpdate:
        if self._transaction.table_metadata.format_version >= ROW_ID_VERSION:
            return AddSnapshotUpdate(snapshot=self._write_with_row_ids())
        (update,), _ = self._commit()
        return update

    def _write_with_row_ids(self) -> Snapshot:
        metadata = self._transaction.table_metadata
        assert isinstance(metadata, TableMetadataV3)
        manifests = self.build_manifests()
        name = f"snap-{self._snapshot_id}-0-{self.commit_uuid}.avro"
        location = self._transaction._table.location_provider().new_metadata_location(name)
        self._written_manifest_lists.append(location)
        first_row_id = metadata.next_row_id or 0
        number = metadata.next_sequence_number()
        with _RowIdListWriter(
            first_row_id,
            output_file=self.io.new_output(location),
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=self._parent_snapshot_id,
            sequence_number=number,
            compression=self._compression,
        ) as writer:
            writer.add_manifests(manifests)
        return Snapshot(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=self._parent_snapshot_id,
            sequence_number=number,
            manifest_list=location,
            summary=self.build_summary(),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=writer.next_row_id - first_row_id,
        )

    @property
    def written_paths(self) -> list[str]:
        """Of manifests, and lists of them."""
        return [*self._written_manifests, *self._written_manifest_lists]

    def open_manifest(self, content: ManifestContent, spec_id: int) -> ManifestWriter:
        """For files of one kind and one partition spec."""
        spec = self.spec(spec_id)
        if content == ManifestContent.DATA:
            return self.new_manifest_writer(spec)
        output = self.new_manifest_output()
        return DeleteManifestWriter(spec, self.schema(), output, self._snapshot_id, self._compression)

    def _validate_concurrency(self) -> None:
        """Other writers' snapshots are checked before."""

    def _deleted_entries(self) -> list[ManifestEntry]:
        return []

    def _existing_manifests(self) -> list[ManifestFile]:
        return []

    def _manifests(self) -> list[ManifestFile]:
        return self.build_manifests()

    def _summary(self, snapshot_properties: Any = None) -> Summary:
        return self.build_summary()


class SnapshotWithoutRows(SnapshotOfManifests):
    """The files of its parent, and a summary of its own.

    Without Arrow, which has no table for some schemas (a UUID in a list), and without merging manifests: nobody may be
    able to write those of an older partition spec.
    """

    def __init__(self, table: Table, parent_id: int | None, summary: Mapping[str, str]) -> None:
        super().__init__(table, parent_id, Operation.APPEND)
        self._parent = None if parent_id is None else table.metadata.snapshot_by_id(parent_id)
        self._properties = summary

    def build_manifests(self) -> list[ManifestFile]:
        manifests = [] if self._parent is None else read_manifests(self.io, self._parent)
        return [manifest for manifest in manifests if manifest.has_added_files() or manifest.has_existing_files()]

    def build_summary(self) -> Summary:
        before = None if self._parent is None else self._parent.summary
        return update_snapshot_summaries(Summary(operation=self.operation, **self._properties), before)


# Lists of manifests with row ids: #3624. PyIceberg reads and writes those of format 2.


def read_manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """A snapshot's manifests, with the first row id of each, where it has one, as their last field."""
    with AvroFile[ManifestFile](
        io.new_input(snapshot.manifest_list),
        MANIFEST_LIST_FILE_SCHEMAS[ROW_ID_VERSION],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as manifests:
        return list(manifests)


class _RowIdListWriter(ManifestListWriterV2):
    """Gives a first row id to each manifest of data that has none, as Iceberg's Java library does.

    That is also each one from before an upgrade to format 3.
    """

    def __init__(self, first_row_id: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._meta |= {"first-row-id": str(first_row_id), "format-version": str(ROW_ID_VERSION)}
        self.next_row_id = first_row_id

    def __enter__(self) -> "_RowIdListWriter":
        schema = MANIFEST_LIST_FILE_SCHEMAS[ROW_ID_VERSION]
        self._writer = AvroOutputFile(self._output_file, schema, "manifest_file", schema, self._meta)
        self._writer.__enter__()
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        prepared = super().prepare_manifest(manifest_file)
        fields = len(MANIFEST_LIST_FILE_SCHEMAS[ROW_ID_VERSION].fields)
        first_row_id = prepared[-1] if len(prepared) == fields else None
        if first_row_id is None and prepared.content == ManifestContent.DATA:
            first_row_id = self.next_row_id
            self.next_row_id += (prepared.existing_rows_count or 0) + (prepared.added_rows_count or 0)
        return ManifestFile(*prepared._data[: fields - 1], first_row_id)


# One client of an object store for all tables of a catalog. Upstream: none.


def share_file_systems(catalog: IcebergCatalog) -> None:
    """Let all tables of a catalog share object store clients, one for each log-in.

    PyIceberg opens a client, with its own connections, for each table that it loads, and only Python's collector ends
    it: a process that flushes would keep hundreds of descriptors open.
    """
    reference = weakref.ref(catalog)
    load = type(catalog)._load_file_io

    @lru_cache(MAX_FILE_SYSTEMS)
    def open_file_system(kind: Hashable, settings: frozenset[tuple[str, Any]], scheme: str, netloc: str = "") -> Any:
        return cast("Any", kind)(dict(settings))._initialize_fs(scheme, netloc or None)

    def load_file_io(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        io: Any = load(cast("IcebergCatalog", reference()), properties, location)
        if hasattr(io, "_initialize_fs"):
            given = io.properties.items()
            settings = frozenset((name, value) for name, value in given if name.partition(".")[0] in STORE_SETTINGS)
            io.fs_by_scheme = partial(open_file_system, cast("Hashable", type(io)), settings)
        return cast("FileIO", io)

    catalog._load_file_io = load_file_io  # type: ignore[method-assign]


# No deep copies of a table's metadata: #2673, and pull request #3784.


class _Shared:
    """In front of PyIceberg's class of a table's metadata: a copy that shares what does not change.

    ``update_table_metadata`` ends with a deep copy of each snapshot, each schema and the whole log. A transaction
    makes one each time its state is read, a dozen times in a commit, and a catalog in a database one more. It protects
    nothing: each update makes new lists and dictionaries, and leaves the given ones unchanged.
    """

    def model_copy(self, *, update: dict[str, Any] | None = None, deep: bool = False) -> Any:
        # `deep` is PyIceberg's word, and changes nothing
        return super().model_copy(update=update)  # type: ignore[misc]


@cache
def _build_class(addition: type, metadata_class: type) -> type:
    if issubclass(metadata_class, _Shared):
        return metadata_class
    return new_class(metadata_class.__name__, (addition, metadata_class))


def share_metadata(metadata: TableMetadata) -> TableMetadata:
    """The metadata in a class that PyIceberg does not copy deeply."""
    object.__setattr__(metadata, "__class__", _build_class(_Shared, type(metadata)))
    return metadata


def share_metadata_of_tables(catalog: IcebergCatalog) -> None:
    """Share the metadata of all tables loaded from a catalog, between all states of each."""
    reference = weakref.ref(catalog)

    def load_table(identifier: Any) -> Table:
        opened = cast("IcebergCatalog", reference())
        table = type(opened).load_table(opened, identifier)
        share_metadata(table.metadata)
        return table

    catalog.load_table = load_table  # type: ignore[method-assign]


# Catalogs in a database.


def keep_metadata(catalog: "SqlCatalog") -> None:
    """Read a metadata file once: each load names the file anew, and nobody writes it again.

    Upstream: none for a kept file; #3162 on what reading a large one costs.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    @lru_cache(MAX_KEPT_METADATA)
    def read_metadata(location: str) -> TableMetadata:
        return FromInputFile.table_metadata(catalog._load_file_io(location=location).new_input(location))

    def build_table(row: "IcebergTables") -> Table:
        location = row.metadata_location
        if not location or not row.table_namespace or not row.table_name:
            return SqlCatalog._convert_orm_to_iceberg(catalog, row)  # which says what is missing
        refuse_cut_path(".".join((catalog.name, row.table_namespace, row.table_name)), location)
        metadata = read_metadata(location)
        return Table(
            identifier=(*catalog.identifier_to_tuple(row.table_namespace), row.table_name),
            metadata=metadata,
            metadata_location=location,
            io=catalog._load_file_io(metadata.properties, location),
            catalog=catalog,
        )

    catalog._convert_orm_to_iceberg = build_table  # type: ignore[method-assign, assignment]


def keep_order_of_time(catalog: "SqlCatalog") -> None:
    """`RetryLater` before a commit whose time goes back: Spark would not open the table any more (#2938).

    PyIceberg writes the time by any clock. A REST server commits by its own clock, and checks that itself.
    """
    stage = catalog._update_and_stage_table

    def stage_in_order(current: Table | None, *arguments: Any) -> StagedTable:
        staged_table = stage(current, *arguments)
        if current is None:
            return staged_table
        times_ms = (current.metadata.last_updated_ms, *(e.timestamp_ms for e in current.metadata.snapshot_log[-1:]))
        behind_ms = max(times_ms) - staged_table.metadata.last_updated_ms
        if behind_ms > MAX_CLOCK_SKEW_MS:
            table_name = ".".join((catalog.name, *current.name()))
            raise RetryLater(
                f"table={table_name}: its last change is ahead of this machine's clock by "
                f"seconds={behind_ms // 1000}, and Spark opens no table whose times go back by more than "
                f"{MAX_CLOCK_SKEW_MS // 1000}: nothing was changed; set the clocks of this machine, of Spark and of "
                "whoever else writes the table by NTP; it will be tried again"
            )
        return staged_table

    catalog._update_and_stage_table = stage_in_order  # type: ignore[method-assign, assignment]


class _Documented(_Shared):
    """Metadata that is written as the document that it was made of."""

    def model_dump_json(self, **_: Any) -> str:
        document: str = self.__dict__["document"]
        return document


def write_documents(catalog: "SqlCatalog") -> None:
    """Let a catalog write metadata of format 3, and raise a table to it: #1551, #3551, #3623.

    PyIceberg checks the requirements, applies the updates to its model, which finds what is wrong with them, and swaps
    the pointer. What is written is the document that was read, with the same updates applied.
    """
    stage = catalog._update_and_stage_table

    def stage_document(
        current: Table | None,
        identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        known_updates = tuple(update for update in updates if not isinstance(update, UpgradeFormatVersionUpdate))
        is_upgrade = len(known_updates) < len(updates)
        if current is None or (current.metadata.format_version < ROW_ID_VERSION and not is_upgrade):
            return stage(current, identifier, requirements, updates)
        staged = stage(current, identifier, requirements, known_updates)
        is_changed = staged.metadata != current.metadata
        if not is_changed and not is_upgrade:
            return staged
        now_ms = staged.metadata.last_updated_ms if is_changed else time.time_ns() // 1_000_000
        document = apply_updates(_read_document(current), updates, current.metadata_location, now_ms)
        text = json.dumps(document)
        metadata = TableMetadataUtil.parse_raw(text)
        object.__setattr__(metadata, "__class__", _build_class(_Documented, type(metadata)))
        object.__setattr__(metadata, "document", text)
        return StagedTable(identifier, metadata, staged.metadata_location, staged.io, catalog)

    catalog._update_and_stage_table = stage_document  # type: ignore[method-assign, assignment]


def _read_document(table: Table) -> dict[str, Any]:
    file = table.io.new_input(table.metadata_location)
    with file.open() as stream, Compressor.get_compressor(file.location).stream_decompressor(stream) as text:
        document: dict[str, Any] = json.loads(text.read())
    return document


def has_view(catalog: "SqlCatalog", identifier: str) -> bool:
    """Whether a view has this name in the catalog's table of views, as Java keeps it; an older database has none.

    Upstream: #3337.
    """
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    if catalog._schema_version != "v1":
        return False
    namespace, _, name = identifier.rpartition(".")
    query = select(IcebergTables.iceberg_type).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == namespace,
        IcebergTables.table_name == name,
    )
    with Session(catalog.engine) as session:
        return session.scalar(query) == VIEW_TYPE


# REST catalogs. Their module is a tenth of a process's start, and is loaded only where one is.


def open_rest_catalog(name: str, properties: dict[str, Any]) -> "RestCatalog":
    """These properties win over PyIceberg's own configuration."""
    from pyiceberg.utils.config import Config, merge_config

    texts: dict[str, Any] = {key: str(value) for key, value in properties.items()}
    catalog_properties: dict[str, Any] = merge_config(Config().get_catalog_config(name) or {}, texts)
    opened = _load_patient_class()(name, **catalog_properties)
    # its server deletes old metadata (#1199 has clients do it); PyIceberg would warn that it is gone
    opened._delete_old_metadata = lambda *_: None  # type: ignore[method-assign]
    return opened


@cache
def _load_patient_class() -> "type[RestCatalog]":
    from pyiceberg.catalog.rest import RestCatalog

    class PatientRestCatalog(RestCatalog):
        """Gives up a request, to the catalog or for a token, by the timeouts among its properties.

        PyIceberg's own waits for ever: #2772, closed in main with `connection.timeout` for both.
        """

        def _config_headers(self, session: Any) -> None:
            # what every session of the catalog passes before its first request
            super()._config_headers(session)
            limits = (self.properties.get(name) for name in TIMEOUTS)
            connect, read = (float(limit) / 1000 if limit is not None else None for limit in limits)
            session.request = partial(session.request, timeout=(connect, read))

        def load_table(self, identifier: str | Identifier) -> Table:
            with _forget_frames():  # a table that is not there is an error, and usual
                table: Table = super().load_table(identifier)
            return table

        def commit_table(
            self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
        ) -> CommitTableResponse:
            with _forget_frames():  # a commit that another one has overtaken is an error, and usual
                answer: CommitTableResponse = super().commit_table(table, requirements, updates)
            return answer

    return PatientRestCatalog


@contextmanager
def _forget_frames() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        for exception in (error, error.__cause__, error.__context__):
            if exception is not None:
                clear_frames(exception.__traceback__)
        raise
