"""What an import makes: the draft of a pipeline file, of its catalog, and the connections that hold the secrets."""

from dataclasses import dataclass, field
from typing import Any

from tidegate.migration.settings_ledger import SettingReport
from tidegate.sinks.world import ControlTopic

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class ConnectionNote:
    """An Airflow connection that the user must create, and what it has to hold. Never a secret itself."""

    id: str
    content: str


@dataclass(frozen=True, kw_only=True)
class PositionSource:
    """Where a sink's position stands: consumer groups in the order in which they count, and an Iceberg sink's topic.

    `reset` is where the sink begins in a partition without a committed offset. `reason` says why there is no group;
    `from_begin` that the topics are to be read from their begin then.
    """

    groups: tuple[str, ...] = ()
    control: ControlTopic | None = None
    reset: str = "earliest"
    repeats: str = ""
    reason: str = ""
    from_begin: bool = False


@dataclass
class Draft:
    """A pipeline file in the making: `data` as YAML has it, and `comments` by the path of the key below them.

    `to_check` and `to_fill_in` are sentences for the report: what the user has to look at, and what is missing.
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
        """Note a connection once for each thing that it holds."""
        note = ConnectionNote(name, holds)
        if note not in self.connections:
            self.connections.append(note)

    def check(self, path: KeyPath, text: str) -> None:
        """A comment in the file, and a line in the report: the user has to look at it."""
        self.comments[path] = f"{self.comments[path]} {text}" if path in self.comments else text
        self.to_check.append(text)

    def fill_in(self, path: KeyPath, text: str) -> None:
        """A comment in the file, and a line in the report: the file is not complete without it."""
        self.comments[path] = f"FILL IN: {text}"
        self.to_fill_in.append(text)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """One configuration, translated: what it was, the draft, each setting, and where to look for the position."""

    kind: str
    connector: str
    draft: Draft
    settings: tuple[SettingReport, ...]
    position: PositionSource
