"""What the user asked for on the way back: a publication, its table, its topic. Every value is checked."""

import hashlib
import json
from dataclasses import asdict, dataclass, field

from tidegate.spec.runtime import SparkTarget

PLACEHOLDER = "{table}"  # stands in the SQL for the table at one snapshot
EVERYTHING = f"SELECT * FROM {PLACEHOLDER}"
AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True)
class KeyOut:
    """How a record's key is written: `fields` are columns of the result, `prefix` is removed from their names."""

    fields: tuple[str, ...]
    format: str = "json"
    prefix: str = ""
    options: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ValueOut:
    """How a record's value is written: all columns that are no metadata, or those that are no key either."""

    format: str = "json"
    fields_include: str = "ALL"
    options: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class MetadataOut:
    """Columns that become a record's headers, timestamp and topic, and are no part of its value."""

    headers: str | None = None
    timestamp: str | None = None
    topic: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in (self.headers, self.timestamp, self.topic) if name is not None)


@dataclass(frozen=True)
class CreateTopics:
    """How a missing topic is created; -1 leaves a number to the brokers."""

    enabled: bool = True
    partitions: int = -1
    replication_factor: int = -1
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Begin:
    """Where a publication without progress begins: `kind` is full, snapshot or timestamp."""

    kind: str = "full"
    snapshot_id: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Grouped:
    """How aggregating SQL finds groups: `keys_sql` gives the keys of the groups that some rows are in."""

    keys_sql: str
    # the key columns that follow from each row alone. A session window does not: a row may join two
    matched_keys: tuple[str, ...]


@dataclass(frozen=True)
class Publication:
    """One publication file."""

    name: str
    table: str
    topics: tuple[str, ...]  # all topics that a record may go to; one, unless `metadata.topic` is set
    key: KeyOut
    value: ValueOut = ValueOut()
    metadata: MetadataOut = MetadataOut()
    sql: str = EVERYTHING
    joined_tables: tuple[str, ...] = ()  # the other tables of the SQL
    grouped: Grouped | None = None
    description: str = ""
    kafka: str | dict[str, str] = "kafka_default"
    start: Begin = Begin()
    delivery: str = AT_LEAST_ONCE
    on_expired: str = "fail"
    on_delete: str = "fail"  # of a publication of inserted rows
    # the number of parts of the keys. Each part has its own progress and, with exactly-once, its own transactional
    # producer
    parallelism: int = 4
    transaction_records: int = 100_000
    state_topic: str = ""
    create: CreateTopics = CreateTopics()
    allow_uncompacted: bool = False
    interval_seconds: int = -1  # below 1 the tables' assets, or a person, start a run
    on_table_change: bool = True
    heartbeat_topic: str | None = None
    spark: SparkTarget = field(default_factory=SparkTarget)

    @property
    def catalog(self) -> str:
        return self.table.split(".", 1)[0]

    @property
    def is_append(self) -> bool:
        """Whether it produces inserted rows alone, each once and without a key."""
        return not self.key.fields

    @property
    def digest(self) -> str:
        """Changes with everything that decides what a row looks like in the topic."""
        digest_parts: list[object] = [
            self.table,
            self.topics,
            asdict(self.key),
            asdict(self.value),
            asdict(self.metadata),
            self.sql,
        ]
        return hashlib.sha256(json.dumps(digest_parts, sort_keys=True).encode()).hexdigest()[:16]
