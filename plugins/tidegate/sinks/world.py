"""What an import asks of the systems around a sink, where they can be reached: topics, groups, tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Offsets
from tidegate.schema.data_types import Column


@dataclass(frozen=True)
class ControlTopic:
    """The topic on which an Iceberg sink announces data files: `name`, and the `group` that its events carry."""

    name: str
    group: str
    property: str  # the snapshot property with the topic's offsets
    coordinator: str  # the group that commits the topic's offsets


@dataclass(frozen=True)
class TableShape:
    """An existing table: its columns with their Spark types, and the fields that identify a row."""

    columns: tuple[Column, ...]
    identifiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupState:
    """A consumer group: how many members it has now, and what it has committed."""

    members: int
    offsets: Offsets


@dataclass(frozen=True)
class CommitNote:
    """The note of an Iceberg sink on the newest snapshot: offsets of the control topic, and valid-through."""

    control_offsets: dict[int, int]
    valid_through: str = ""


@dataclass(frozen=True)
class AnnouncedFiles:
    """Data files that a sink has announced on its control topic: where, for which table, and how many."""

    partition: int
    offset: int
    group: str
    table: str
    files: int


class SinkNotes(Protocol):
    """What sinks have left in the tables of one catalog."""

    def describe(self, name: str) -> TableShape | None:
        """The table ``catalog.namespace.table``; None where it does not exist."""
        ...

    def read_note(self, name: str, control: ControlTopic, branch: str) -> CommitNote | None:
        """The note of the newest snapshot of the branch that has one."""
        ...

    def list_noted(self, catalog: str, control: ControlTopic) -> tuple[str, ...]:
        """All tables of the catalog with a note of that sink, as ``namespace.table``."""
        ...


class World(Protocol):
    """The systems around a sink. None means: not reachable, or not asked. Nothing here changes anything."""

    def list_topics(self, pattern: str) -> tuple[str, ...] | None:
        """Topics whose whole name matches."""
        ...

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log | None:
        """Begin and end of the topics, as far as a consumer of that isolation level reads them."""
        ...

    def read_group(self, group: str, topics: tuple[str, ...]) -> GroupState | None:
        """A consumer group as it stands."""
        ...

    def describe_table(self, name: str) -> TableShape | None:
        """The table ``catalog.namespace.table``; None also where it does not exist."""
        ...

    def read_commit_note(self, table: str, control: ControlTopic, branch: str) -> CommitNote | None:
        """The newest note of that sink in the table's branch; None where there is none."""
        ...

    def list_noted_tables(self, catalog: str, control: ControlTopic) -> tuple[str, ...] | None:
        """Tables of the catalog that the sink has committed to, as ``namespace.table``."""
        ...

    def read_announcements(self, topic: str, start: dict[int, int]) -> Iterable[AnnouncedFiles]:
        """Files announced on a control topic from `start`, or from its begin, to its end."""
        ...


class UnreachableWorld:
    """Nothing can be asked."""

    def list_topics(self, pattern: str) -> tuple[str, ...] | None:
        return None

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log | None:
        return None

    def read_group(self, group: str, topics: tuple[str, ...]) -> GroupState | None:
        return None

    def describe_table(self, name: str) -> TableShape | None:
        return None

    def read_commit_note(self, table: str, control: ControlTopic, branch: str) -> CommitNote | None:
        return None

    def list_noted_tables(self, catalog: str, control: ControlTopic) -> tuple[str, ...] | None:
        return None

    def read_announcements(self, topic: str, start: dict[int, int]) -> Iterable[AnnouncedFiles]:
        return ()
