"""What the user asked for: a pipeline, its source, its tables. Read once from the pipeline file, never changed.

Checked by `config/pipeline_file.py`: every value is good. Durations are whole seconds, `None` means "not given".
"""

from dataclasses import dataclass, field
from typing import Any

from tidegate.schema.data_types import Struct
from tidegate.spec.projection import Select
from tidegate.spec.runtime import Maintenance, SparkTarget
from tidegate.spec.scd2 import History
from tidegate.spec.table_template import Naming


@dataclass(frozen=True)
class Column:
    """A column as the user or a table declares it; `type` is Spark DDL, e.g. ``DECIMAL(12,2)``."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class KeyFormat:
    """How a record's key is read. `fields` are key columns before the prefix; `columns` is None without a schema.

    `options` are the format's own, never a secret. `into` names the one struct column that holds the whole key in place
    of a column for each field. `from_value` takes the fields from the value, whatever the record's key is.
    """

    format: str = "json"
    fields: tuple[str, ...] = ()
    prefix: str = ""
    columns: tuple[Column, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    into: str | None = None
    from_value: bool = False


@dataclass(frozen=True)
class ValueFormat:
    """How a record's value is read. `timestamp_unit` says what integers count in columns that hold a time: seconds,
    millis, micros or nanos, for all columns or for each by its name; None refuses them.

    `options` are the format's own, never a secret. `unavailable` is what the source writes in place of a large value
    that did not change, None for nothing.
    """

    format: str = "json"
    columns: tuple[Column, ...] | None = None
    fields_include: str = "ALL"
    timestamp_unit: str | dict[str, str] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    unavailable: str | None = None


@dataclass(frozen=True)
class Start:
    """Where a table without a position begins: `kind` is earliest, latest, group, timestamp or offsets."""

    kind: str = "earliest"
    timestamp_ms: int | None = None
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Errors:
    """What a bad record does: `tolerance` none fails at the first; all sets it aside, and sends it to any `topic`."""

    tolerance: str = "none"
    max_per_batch: int = 1000
    topic: str | None = None

    @property
    def set_aside(self) -> int | None:
        """The most bad records of one batch that are set aside, None where the first one fails the batch."""
        return self.max_per_batch if self.tolerance == "all" else None


@dataclass(frozen=True)
class Source:
    """The topics and how their records are read. `kafka` is a connection id or inline librdkafka settings."""

    kafka: str | dict[str, str]
    topics: tuple[str, ...]
    topic_pattern: str | None
    group: str
    start: Start = Start()
    isolation: str = "read_committed"
    key: KeyFormat = KeyFormat()
    value: ValueFormat = ValueFormat()
    metadata: dict[str, str] = field(default_factory=dict)
    errors: Errors = Errors()
    verify_integrity: bool = False


@dataclass(frozen=True)
class Create:
    """How a missing destination is created; `partition_by` holds transforms such as ``days(created_at)``.

    `force_optional` makes no column required, whatever the schema says.
    """

    enabled: bool = True
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    force_optional: bool = False


@dataclass(frozen=True)
class Route:
    """Which records go to a table: those whose `field`, as text, matches the whole `pattern` or is one of `names`."""

    field: str
    pattern: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """One destination. `topics` are those of the source's that feed it; `key` and `value` are resolved per table.

    `held` is what the table holds, once it was looked at.
    """

    name: str
    topics: tuple[str, ...]
    key: KeyFormat
    value: ValueFormat
    upsert: bool
    delete: bool
    when: str | None = None
    when_false: str = "ignore"  # or delete
    route: Route | None = None
    delete_when: str | None = None
    deletes: str = "hard"
    partial_updates: bool = False
    sequence_groups: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a sequence column, and the columns that follow it
    sequence_by: tuple[str, ...] = ()
    tombstone_retention_seconds: int = 7 * 86400
    create: Create = Create()
    add_columns: bool = True
    widen: bool = True
    relax: bool = True
    max_pending: int = 10
    namespaces: tuple[str, ...] = ()
    max_tables: int = 1000
    naming: Naming | None = None
    last_per_key: str = "auto"
    deleted_column: str = "_deleted"
    errors: Errors = Errors()
    held: Struct | None = None
    audits: tuple[str, ...] = ()
    select: Select | None = None
    history: History | None = None
    branch: str = "main"

    @property
    def catalog(self) -> str:
        """The part of `name` before the first dot: the key in ``catalogs.yaml``."""
        return self.name.split(".", 1)[0]

    @property
    def identifier(self) -> str:
        """`name` without its catalog: ``namespace.table``."""
        return self.name.split(".", 1)[1]

    @property
    def finds(self) -> bool:
        """Whether this is the table of names, in which a template's new tables are looked for, and no destination."""
        return self.naming is not None and self.naming.name is None

    @property
    def mode(self) -> str:
        """upsert_delete, upsert, delete or append: the name of the merge statement."""
        names = {(True, True): "upsert_delete", (True, False): "upsert", (False, True): "delete"}
        return names.get((self.upsert, self.delete), "append")

    @property
    def remembers_deletes(self) -> bool:
        """Whether deletes outlive their row, so that a late record cannot bring it back."""
        return bool(self.sequence_by) and self.delete and self.history is None

    @property
    def remembers(self) -> bool:
        """Whether there is a table beside it that remembers deletes, or changes."""
        return self.remembers_deletes or self.history is not None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The destination's key columns, prefix included; empty for tables without a key."""
        if self.key.into is not None:
            return (self.key.into,)
        return tuple(self.key.prefix + name for name in self.key.fields)


@dataclass(frozen=True)
class Merge:
    """When a flush runs and how large a batch may be. `interval_seconds` and `records_threshold`: -1 disables.

    `cron`, in UTC, wins; the interval is its longest pause. While more than `max_records` wait, the other cap holds.
    By what earlier batches took, one takes less: `batch_seconds` and `max_bytes` of staged files, 0 for no such limit.
    """

    interval_seconds: int = 60
    records_threshold: int = -1
    max_records: int = 1_000_000
    intermediate_suffix: str = "_tmp"
    cron: str | None = None
    catch_up_records: int | None = None
    partition_time: str = "record"  # or wall-clock
    batch_seconds: int = 600
    max_bytes: int = 2 << 30

    @property
    def is_timed(self) -> bool:
        """Whether time alone makes a flush."""
        return self.cron is not None or self.interval_seconds > 0

    def cap(self, backlog: int) -> int:
        """The most records that a batch takes of what waits."""
        return self.max_records if backlog <= self.max_records else self.catch_up_records or self.max_records


@dataclass(frozen=True)
class Heartbeat:
    """How often a position moves without rows; `interval_seconds` 0 disables. Ignored topics only advance offsets.

    `produce`: records that tell the position go to `topic`. `hook` is a ``module:function`` with a say in the offsets.
    """

    interval_seconds: int = 600
    ignore_topics: tuple[str, ...] = (r"__debezium-heartbeat.*",)
    produce: bool = False
    topic: str = "connect-heartbeats"
    hook: str | None = None


@dataclass(frozen=True)
class Notifier:
    """Whom a failed run is told to: the import path of a notifier of Airflow's, and its arguments."""

    path: str
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalog:
    """One entry of ``catalogs.yaml``. `properties` are PyIceberg's words for an Iceberg catalog."""

    name: str
    type: str
    properties: dict[str, Any] = field(default_factory=dict)
    connection: str | None = None


@dataclass(frozen=True)
class Pipeline:
    """One pipeline file. `template` is the entry of `tables` whose name records fill in; there is at most one.

    `warnings` say what stands in the file and is probably not meant.
    """

    name: str
    source: Source
    tables: tuple[Table, ...]
    description: str = ""
    merge: Merge = Merge()
    heartbeat: Heartbeat = Heartbeat()
    maintenance: Maintenance = field(default_factory=Maintenance)
    on_rollback: str = "fail"
    on_partition_growth: str = "fail"
    on_incomplete_start: str = "fail"
    spark: SparkTarget = field(default_factory=SparkTarget)
    template: Table | None = None
    freshness_target_seconds: int | None = None
    on_failure: tuple[Notifier, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[Table, ...]:
        """The destinations as the file names them, the template last."""
        own = tuple(table for table in self.tables if table.naming is None)
        return own if self.template is None else (*own, self.template)

    @property
    def catalogs(self) -> tuple[str, ...]:
        """The catalogs that are written to, and those of the dimension tables that are joined."""
        joined = [d.table for table in self.entries if table.select for d in table.select.dimensions]
        return tuple(sorted({*(table.catalog for table in self.entries), *(name.split(".", 1)[0] for name in joined)}))

    @property
    def has_several(self) -> bool:
        """Whether one table's failure may leave others to go on."""
        return self.template is not None or len(self.tables) > 1
