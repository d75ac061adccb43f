"""What the user asked for: a pipeline, its source, its tables. Read once from the pipeline file, never changed.

Every value is checked. Durations are whole seconds, `None` means "not given".
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypedDict

from tidegate.spec.runtime import Maintenance, Period, SparkTarget, Verify
from tidegate.spec.source import Source
from tidegate.spec.table import Table

DAG_KINDS = ("actions", "backfill", "replay", "maintenance", "stage", "verify")  # of a pipeline, beside its flush


@dataclass(frozen=True)
class Catalog:
    """One entry of ``catalogs.yaml``. `properties` are PyIceberg's words for an Iceberg catalog."""

    name: str
    type: str
    properties: dict[str, Any] = field(default_factory=dict)
    connection: str | None = None


class RollbackPolicy(StrEnum):
    """What a flush does with a rolled back table: stop, read the lost records again, or go on as it is."""

    FAIL = "fail"
    REWIND = "rewind"
    KEEP = "keep"


class RiskPolicy(StrEnum):
    """Whether a flush stops or goes on if the log may have changed what a table should hold."""

    FAIL = "fail"
    ACCEPT = "accept"


@dataclass(frozen=True)
class Merge:
    """When a flush runs and how large a batch may be."""

    interval_seconds: int = 60  # -1: time does not start a flush
    records_threshold: int = -1
    max_records: int = 1_000_000  # the most that a batch takes
    intermediate_suffix: str = "_tmp"
    cron: str | None = None  # in UTC; `interval_seconds` is then its longest pause
    max_bytes: int = 2 << 30

    @property
    def is_timed(self) -> bool:
        return self.cron is not None or self.interval_seconds > 0


@dataclass(frozen=True)
class Stage:
    """The clock of staging beside that of merging: `cron`, else an interval. Without either, a flush does both."""

    interval_seconds: int | None = None
    cron: str | None = None

    @property
    def has_clock(self) -> bool:
        return self.cron is not None or self.interval_seconds is not None


DEFAULT_BEAT_SECONDS = 600  # where `heartbeat.interval` is 0: offsets and positions are kept alive all the same


@dataclass(frozen=True)
class Heartbeat:
    """How often a position moves without rows; `interval_seconds` 0 disables. Ignored topics only advance offsets."""

    interval_seconds: int = 600
    ignore_topics: tuple[str, ...] = (r"__debezium-heartbeat.*",)
    produce: bool = False  # records with the position go to `topic`
    topic: str = "connect-heartbeats"
    kafka: str | dict[str, str] | None = None  # the brokers of `topic`; None: the source's
    hook: str | None = None  # a ``module:function`` that may change the offsets

    @property
    def pause_seconds(self) -> int:
        return self.interval_seconds or DEFAULT_BEAT_SECONDS


@dataclass(frozen=True)
class Notifier:
    """The import path of a notifier of Airflow's, and its arguments."""

    path: str
    kwargs: dict[str, Any] = field(default_factory=dict)


class FileDescription(TypedDict, total=False):
    """What the file tells people of a pipeline. Missing if it was never read."""

    description: str
    tags: list[str]
    fleet: str | None


UNKNOWN_FILE = FileDescription(description="", tags=[], fleet=None)


@dataclass(frozen=True)
class Pipeline:
    """One pipeline file. `template` is the entry of `tables` whose name records fill in.

    `warnings` name what stands in the file and is probably not meant.
    """

    name: str
    source: Source
    tables: tuple[Table, ...]
    description: str = ""
    tags: tuple[str, ...] = ()
    fleet: str | None = None
    merge: Merge = Merge()
    stage: Stage = Stage()
    heartbeat: Heartbeat = Heartbeat()
    maintenance: Maintenance = field(default_factory=Maintenance)
    verify: Verify = field(default_factory=Verify)
    on_rollback: RollbackPolicy = RollbackPolicy.FAIL
    on_partition_growth: RiskPolicy = RiskPolicy.FAIL
    on_incomplete_start: RiskPolicy = RiskPolicy.FAIL
    spark: SparkTarget = field(default_factory=SparkTarget)
    template: Table | None = None
    freshness_target_seconds: int | None = None
    complete: Period | None = None
    on_failure: tuple[Notifier, ...] = ()
    on_recovery: tuple[Notifier, ...] = ()
    readers: tuple[str, ...] = ()  # engines that read the tables
    warnings: tuple[str, ...] = ()

    @property
    def heartbeat_topic_of_source(self) -> str | None:
        """The topic of heartbeat records, if the source's brokers have it."""
        return self.heartbeat.topic if self.heartbeat.kafka in (None, self.source.kafka) else None

    @property
    def ignored_topics(self) -> tuple[str, ...]:
        """Patterns of topics whose offsets advance without a row: those that the file names, and its own heartbeats."""
        own_topic = self.heartbeat_topic_of_source if self.heartbeat.produce else None
        return (*self.heartbeat.ignore_topics, *([] if own_topic is None else [re.escape(own_topic)]))

    def describe_file(self) -> FileDescription:
        """Return what the file alone says: known also while neither brokers nor catalog answer."""
        return {"description": self.description, "tags": list(self.tags), "fleet": self.fleet}

    @property
    def timer_seconds(self) -> int:
        """The pause between two timed runs; a cron expression wins."""
        # without an interval the heartbeat's, so that what is committed never expires; such runs take only what should
        # have been: a call may be lost, and staging calls for no merge while a queue is full
        return self.merge.interval_seconds if self.merge.is_timed else self.heartbeat.pause_seconds

    @property
    def entries(self) -> tuple[Table, ...]:
        own_tables = tuple(table for table in self.tables if table.naming is None)
        return own_tables if self.template is None else (*own_tables, self.template)

    @property
    def row_tables(self) -> tuple[Table, ...]:
        """The tables that rows are published into; not the one of the names that records give."""
        return tuple(table for table in self.tables if not table.discovers_names)

    @property
    def catalogs(self) -> tuple[str, ...]:
        joined_tables = [d.table for table in self.entries if table.select for d in table.select.dimensions]
        return tuple(
            sorted({*(table.catalog for table in self.entries), *(name.split(".", 1)[0] for name in joined_tables)})
        )

    @property
    def has_several(self) -> bool:
        return self.template is not None or len(self.tables) > 1
