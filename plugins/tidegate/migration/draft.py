"""What an import makes: a report of what became of each setting, and drafts of a pipeline file and its catalog."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.sinks.world import ControlTopic


class SettingOutcome(StrEnum):
    """What became of a setting."""

    MAPPED = "mapped"
    TO_CHECK = "to check"
    NOT_MAPPED = "not mapped"
    NOT_NEEDED = "not needed"


WORST_FIRST = (
    SettingOutcome.NOT_MAPPED, SettingOutcome.TO_CHECK, SettingOutcome.MAPPED, SettingOutcome.NOT_NEEDED,
)  # fmt: skip


@dataclass(frozen=True)
class SettingReport:
    """The key of Tidegate for a setting, or why there is none. Without its value, which may be secret."""

    name: str
    outcome: SettingOutcome
    target: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        return ": ".join(filter(None, (self.name, self.target, self.reason)))


class SettingsLedger:
    """The settings of one connector, or those below a prefix, and what became of each. Reading a setting notes nothing.

    Names are those behind the prefix. If a setting is noted more than once, the outcome that requires most of the user
    counts, and the texts are joined.
    """

    def __init__(
        self, settings: Mapping[str, str], prefix: str = "", notes: dict[str, list[SettingReport]] | None = None
    ) -> None:
        self._settings = settings
        self._prefix = prefix
        self._notes = {} if notes is None else notes

    def below(self, prefix: str) -> "SettingsLedger":
        """The settings with this prefix, by the rest of their names."""
        return SettingsLedger(self._settings, self._prefix + prefix, self._notes)

    def get(self, name: str, default: str = "") -> str:
        """Without blanks around the text; `default` if it is not given."""
        return self._settings.get(self._prefix + name, default).strip()

    def is_true(self, name: str, *, default: bool = False) -> bool:
        return self.get(name, str(default)).casefold() == "true"

    def list_items(self, name: str) -> list[str]:
        return [part.strip() for part in self.get(name).split(",") if part.strip()]

    def read_number(self, name: str, default: str) -> int:
        """`ConfigurationError` for anything but a whole number."""
        text = self.get(name) or default
        try:
            return int(text)
        except ValueError:
            problem = f"{self._prefix}{name}={text}: not a whole number; correct the configuration"
            raise ConfigurationError(problem) from None

    def has(self, name: str) -> bool:
        return self._prefix + name in self._settings

    def list_names(self, prefix: str = "") -> list[str]:
        begin = self._prefix + prefix
        return sorted(name.removeprefix(self._prefix) for name in self._settings if name.startswith(begin))

    def map(self, name: str, target: str, reason: str = "") -> None:
        """Note that `target` has the setting's meaning; nothing if it is not given."""
        self._note(name, SettingOutcome.MAPPED, target, reason)

    def map_each(self, names: Iterable[str], target: str, reason: str = "") -> None:
        for name in names:
            self.map(name, target, reason)

    def map_rest(self, target: str, reason: str = "") -> None:
        self.map_each(self._list_open(), target, reason)

    def check(self, name: str, target: str, difference: str) -> None:
        """Note that `target` comes closest to the setting, and what it does in another way."""
        self._note(name, SettingOutcome.TO_CHECK, target, difference)

    def drop(self, name: str, reason: str) -> None:
        """Note that nothing has to be set, and why."""
        self._note(name, SettingOutcome.NOT_NEEDED, reason=reason)

    def drop_each(self, reasons: Mapping[str, str]) -> None:
        for name, reason in reasons.items():
            self.drop(name, reason)

    def drop_below(self, prefix: str, reason: str) -> None:
        self.drop_each(dict.fromkeys(self.list_names(prefix), reason))

    def drop_rest(self, reason: str) -> None:
        self.drop_each(dict.fromkeys(self._list_open(), reason))

    def refuse(self, name: str, reason: str) -> None:
        """Note that no key of Tidegate has the setting's meaning: why, and what to do."""
        self._note(name, SettingOutcome.NOT_MAPPED, reason=reason)

    def refuse_rest(self, reason: str) -> None:
        for name in self._list_open():
            self.refuse(name, reason)

    def list_reports(self) -> tuple[SettingReport, ...]:
        """One for each setting, by name; one that nobody noted is not mapped."""
        self.refuse_rest("Tidegate does not know this setting; look up what it does, and whether the table needs it")
        return tuple(_join_reports(self._notes[name]) for name in sorted(self._settings))

    def _list_open(self) -> list[str]:
        return [name for name in self.list_names() if self._prefix + name not in self._notes]

    def _note(self, name: str, outcome: SettingOutcome, target: str = "", reason: str = "") -> None:
        if self.has(name):
            report = SettingReport(self._prefix + name, outcome, target, reason)
            notes = self._notes.setdefault(report.name, [])
            notes += [report] if report not in notes else []


def _join_reports(notes: list[SettingReport]) -> SettingReport:
    outcomes = {note.outcome for note in notes}
    worst = next(outcome for outcome in WORST_FIRST if outcome in outcomes)
    relevant_notes = [note for note in notes if note.outcome in (worst, SettingOutcome.MAPPED)]
    targets = dict.fromkeys(note.target for note in relevant_notes if note.target)
    reasons = dict.fromkeys(note.reason for note in relevant_notes if note.reason)
    return SettingReport(notes[0].name, worst, ", ".join(targets), "; ".join(reasons))


class Transform(SettingsLedger):
    """The settings below ``<root><alias>.``.

    `is_refused`: an option is missing from the pipeline file; `is_refused_whole`: all of the transform's effect is.
    """

    def __init__(self, ledger: SettingsLedger, alias: str, root: str = "transforms.") -> None:
        super().__init__(ledger._settings, f"{root}{alias}.", ledger._notes)
        self.alias = alias
        self.is_refused = False
        self.is_refused_whole = False
        self._predicates = ledger.below("predicates.")

    @property
    def short_class(self) -> str:
        """The class without its package, and without ``$Key`` or ``$Value``."""
        return self.get("type").rpartition(".")[2].partition("$")[0]

    @property
    def is_of_key(self) -> bool:
        return self.get("type").endswith("$Key")

    @property
    def is_conditional(self) -> bool:
        """Whether a predicate chooses its records; all but tombstones have a value that can be changed."""
        all_with_value = self.get_predicate_type().endswith(".RecordIsTombstone") and self.is_true("negate")
        return bool(self.get("predicate")) and not all_with_value

    def get_predicate_type(self) -> str:
        return self._predicates.get(f"{self.get('predicate')}.type")

    def refuse(self, name: str, reason: str) -> None:
        self.is_refused = self.is_refused or self.has(name)
        super().refuse(name, reason)

    def refuse_all(self, reason: str) -> None:
        """Note every option as not mapped: the transform's effect is missing."""
        self.is_refused = True
        self.is_refused_whole = True
        for option in self.list_names():
            self.refuse(option, reason)


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
