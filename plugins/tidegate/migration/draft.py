"""The result of an import: drafts of a pipeline file and its catalog, and the connections that hold the secrets."""

from dataclasses import dataclass, field
from typing import Any

from tidegate.migration.settings_ledger import SettingReport
from tidegate.sinks.world import ControlTopic

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class ConnectionNote:
    """An Airflow connection that the user has to create, and what it must contain, without the secrets."""

    id: str
    content: str


@dataclass(frozen=True, kw_only=True)
class PositionSource:
    """Where a sink stores its position: consumer groups in order of precedence, and an Iceberg sink's control topic.

    - `reset`: where the sink begins in a partition without a committed offset.
    - `reason`: why there is no group.
    - `from_begin`: the topics are then read from their begin.
    - `ahead`: why the group's offsets, then no position, may be ahead of the tables, and what to do first.
    """

    groups: tuple[str, ...] = ()
    control: ControlTopic | None = None
    reset: str = "earliest"
    repeats: str = ""
    reason: str = ""
    from_begin: bool = False
    ahead: str = ""


@dataclass
class Draft:
    """A draft of a pipeline file: `data` as in YAML, and `comments` by the path of their key.

    `to_check` and `to_fill_in`: sentences for the report.
    """

    name: str
    data: dict[str, Any]
    catalog_name: str
    catalog: dict[str, Any] = field(default_factory=dict)
    comments: dict[KeyPath, str] = field(default_factory=dict)
    catalog_comments: dict[KeyPath, str] = field(default_factory=dict)
    connections: list[ConnectionNote] = field(default_factory=list)
    to_check: list[str] = field(default_factory=list)
    to_fill_in: list[str] = field(default_factory=list)

    def need_connection(self, name: str, holds: str) -> None:
        """Note a required connection, once for each thing that it contains."""
        note = ConnectionNote(name, holds)
        if note not in self.connections:
            self.connections.append(note)

    def check(self, path: KeyPath, text: str) -> None:
        """The user has to check it: a comment in the file and a line in the report."""
        self.comments[path] = f"{self.comments[path]} {text}" if path in self.comments else text
        self.to_check.append(text)

    def fill_in(self, path: KeyPath, text: str) -> None:
        """The file is incomplete without it: a comment in the file and a line in the report."""
        self.comments[path] = f"FILL IN: {text}"
        self.to_fill_in.append(text)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A translated configuration: its kind, the draft, the report of each setting, and where to find the position."""

    kind: str
    connector: str
    draft: Draft
    settings: tuple[SettingReport, ...]
    position: PositionSource
