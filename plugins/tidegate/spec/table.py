"""One destination table of a pipeline: its columns, its key, its mode and its routing."""

from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.schema.data_types import Struct
from tidegate.spec.projection import Select
from tidegate.spec.runtime import UseWhen
from tidegate.spec.source import Errors, KeyFormat, ValueFormat
from tidegate.spec.table_template import TableNaming
from tidegate.sql.spark import split_name_or_path


@dataclass(frozen=True)
class History:
    """A row for each version of a key: the names of the columns that say from when to when it holds."""

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"

    @property
    def columns(self) -> tuple[str, str, str]:
        return self.valid_from, self.valid_to, self.is_current


class TableMode(StrEnum):
    """What records do to a table; also the name of its merge statements."""

    UPSERT_DELETE = "upsert_delete"
    UPSERT = "upsert"
    DELETE = "delete"
    APPEND = "append"


class DeleteMode(StrEnum):
    """What a delete does: it removes the row, or sets its flag."""

    HARD = "hard"
    SOFT = "soft"


@dataclass(frozen=True)
class Create:
    """How a missing destination is created; `partition_by` holds transforms such as ``days(created_at)``."""

    enabled: bool = True
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    format_version: int = 2  # Iceberg's
    force_optional: bool = False  # no column is required, whatever the schema says
    # the time of a row if no column has one: its record's, or its arrival's
    partition_time: str = "record"  # or wall-clock


@dataclass(frozen=True)
class Route:
    """Which records go to a table: those whose `field`, as text, matches the whole `pattern` or is one of `names`.

    `field` is a column of the record, or the path to a field of a struct.
    """

    field: str
    pattern: str | None = None
    names: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """The column, and behind it the fields that lead to the one that routes."""
        return split_name_or_path(self.field)


@dataclass(frozen=True)
class Approve:
    """Which batches a person must approve: those for which any of these rules holds."""

    deletes_over: int | None = None  # deleted rows
    deletes_over_percent: float | None = None  # of the table's rows
    rows_over: int | None = None  # inserted, updated and deleted rows
    holds_schema: bool = False  # any change of the table's schema
    when: str | None = None  # a condition on the counts of the diff


@dataclass(frozen=True)
class Table:
    """One destination: an entry of `tables` in the pipeline file, with the source's settings filled in."""

    name: str
    topics: tuple[str, ...]  # the topics that feed it
    key: KeyFormat
    value: ValueFormat
    upsert: bool
    delete: bool
    when: str | None = None
    when_false: str = "ignore"  # or delete
    route: Route | None = None
    delete_when: str | None = None
    deletes: DeleteMode = DeleteMode.HARD
    partial_updates: bool = False
    sequence_groups: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a sequence column, and the columns that follow it
    update_columns: tuple[str, ...] = ()  # the only ones that an update of a row changes; none listed: all of them
    sequence_by: tuple[str, ...] = ()
    tombstone_retention_seconds: int = 7 * 86400
    create: Create = Create()
    add_columns: bool = True
    widen: bool = True
    relax: bool = True
    max_pending: int = 10
    namespaces: tuple[str, ...] = ()  # where tables may be that records name
    max_tables: int = 1000
    naming: TableNaming | None = None  # of a table whose name records fill in
    metadata: dict[str, str] = field(default_factory=dict)  # a column, and what it shows beside key and value
    topic_column: str = ""  # the metadata column of the topic, if that is a part of the key
    last_per_key: UseWhen = UseWhen.AUTO
    deleted_column: str = "_deleted"
    errors: Errors = field(default_factory=Errors)
    target_schema: Struct | None = None  # the destination's columns, once they were read
    audits: tuple[str, ...] = ()
    approve: Approve | None = None
    select: Select | None = None
    history: History | None = None
    branch: str = "main"

    @property
    def catalog(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def identifier(self) -> str:
        return self.name.split(".", 1)[1]

    @property
    def discovers_names(self) -> bool:
        """Whether it collects the names of a template's new tables from records; no rows go into it."""
        return self.naming is not None and self.naming.name is None

    @property
    def mode(self) -> TableMode:
        if self.upsert:
            return TableMode.UPSERT_DELETE if self.delete else TableMode.UPSERT
        return TableMode.DELETE if self.delete else TableMode.APPEND

    @property
    def folds_records(self) -> bool:
        """Whether all records of a key count, column by column; else its last one decides alone."""
        return self.partial_updates or bool(self.update_columns)

    @property
    def remembers_deletes(self) -> bool:
        """Whether deletes outlive their row, so that a late record cannot bring it back."""
        return bool(self.sequence_by) and self.delete and self.history is None

    @property
    def remembers(self) -> bool:
        return self.remembers_deletes or self.history is not None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The destination's key columns, prefix included; empty for tables without a key."""
        if self.key.into is not None:
            return (self.key.into,)
        topic = (self.topic_column,) if self.topic_column else ()
        return (*(self.key.prefix + name for name in self.key.fields), *topic)
