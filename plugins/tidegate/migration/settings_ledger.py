"""Records what became of each setting and each option of a transform: mapped, not needed, or not mapped."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import ConfigurationError


class SettingOutcome(StrEnum):
    """What became of a setting."""

    MAPPED = "mapped"
    NOT_NEEDED = "not needed"
    NOT_MAPPED = "not mapped"


@dataclass(frozen=True)
class SettingReport:
    """The key of Tidegate for a setting, or why there is none. Without its value, which may be secret."""

    name: str
    outcome: SettingOutcome
    target: str = ""
    reason: str = ""


class SettingsLedger:
    """The settings of one connector, and what became of each. Reading a setting notes nothing.

    If a setting is noted more than once, the outcome that requires most of the user counts, and the texts are joined.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._notes: dict[str, list[SettingReport]] = {}

    def get(self, name: str, default: str = "") -> str:
        """Without blanks around the text; `default` if it is not given."""
        return self._settings.get(name, default).strip()

    def is_true(self, name: str, *, default: bool = False) -> bool:
        return self.get(name, str(default)).casefold() == "true"

    def list_items(self, name: str) -> list[str]:
        """The parts of a list with commas."""
        return [part.strip() for part in self.get(name).split(",") if part.strip()]

    def read_number(self, name: str, default: str) -> int:
        """`ConfigurationError` for anything but a whole number."""
        text = self.get(name) or default
        try:
            return int(text)
        except ValueError:
            raise ConfigurationError(f"{name}={text}: not a whole number; correct the configuration") from None

    def has(self, name: str) -> bool:
        return name in self._settings

    def list_names(self, prefix: str) -> list[str]:
        """Given settings with this prefix, in order."""
        return sorted(name for name in self._settings if name.startswith(prefix))

    def map(self, name: str, target: str, reason: str = "") -> None:
        """Note that `target` has the setting's meaning; nothing if it is not given."""
        self._note(SettingReport(name, SettingOutcome.MAPPED, target, reason))

    def drop(self, name: str, reason: str) -> None:
        """Note that nothing has to be set, and why."""
        self._note(SettingReport(name, SettingOutcome.NOT_NEEDED, reason=reason))

    def drop_all(self, reasons: Mapping[str, str], prefix: str = "") -> None:
        """Note each of these settings below `prefix` as not needed, for its reason."""
        for name, reason in reasons.items():
            self.drop(f"{prefix}{name}", reason)

    def drop_below(self, prefix: str, reason: str) -> None:
        """Note all settings with this prefix as not needed."""
        for name in self.list_names(prefix):
            self.drop(name, reason)

    def refuse(self, name: str, reason: str) -> None:
        """Note that no key of Tidegate has the setting's meaning: why, and what to do."""
        self._note(SettingReport(name, SettingOutcome.NOT_MAPPED, reason=reason))

    def refuse_rest(self, reason: str) -> None:
        """Note all remaining settings as not mapped."""
        for name in self._settings:
            if name not in self._notes:
                self.refuse(name, reason)

    def list_reports(self) -> tuple[SettingReport, ...]:
        """One for each setting, by name; one that nobody noted is not mapped."""
        self.refuse_rest("Tidegate does not know this setting; look up what it does, and whether the table needs it")
        return tuple(_join_reports(self._notes[name]) for name in sorted(self._settings))

    def _note(self, report: SettingReport) -> None:
        notes = self._notes.setdefault(report.name, [])
        if report.name in self._settings and report not in notes:
            notes.append(report)


def _join_reports(notes: list[SettingReport]) -> SettingReport:
    outcomes = {note.outcome for note in notes}
    worst = next(
        o for o in (SettingOutcome.NOT_MAPPED, SettingOutcome.MAPPED, SettingOutcome.NOT_NEEDED) if o in outcomes
    )
    relevant_notes = [note for note in notes if note.outcome in (worst, SettingOutcome.MAPPED)]
    targets = dict.fromkeys(note.target for note in relevant_notes if note.target)
    reasons = dict.fromkeys(note.reason for note in relevant_notes if note.reason)
    return SettingReport(notes[0].name, worst, ", ".join(targets), "; ".join(reasons))


class Transform:
    """The settings below ``<root><alias>.``.

    `is_refused`: an option is missing from the pipeline file; `is_refused_whole`: all of the transform's effect is.
    """

    def __init__(self, ledger: SettingsLedger, alias: str, root: str = "transforms.") -> None:
        self.alias = alias
        self.is_refused = False
        self.is_refused_whole = False
        self._ledger = ledger
        self._prefix = f"{root}{alias}."
        self._noted = set[str]()

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
        all_with_value = self.get_predicate("type").endswith(".RecordIsTombstone") and self.is_true("negate")
        return bool(self.get("predicate")) and not all_with_value

    @property
    def options(self) -> list[str]:
        """The given ones."""
        return [name.removeprefix(self._prefix) for name in self._ledger.list_names(self._prefix)]

    def get(self, option: str, default: str = "") -> str:
        return self._ledger.get(f"{self._prefix}{option}", default)

    def get_predicate(self, option: str) -> str:
        """An option of the predicate that chooses its records."""
        return self._ledger.get(f"predicates.{self.get('predicate')}.{option}")

    def is_true(self, option: str, *, default: bool = False) -> bool:
        return self._ledger.is_true(f"{self._prefix}{option}", default=default)

    def list_items(self, option: str) -> list[str]:
        return self._ledger.list_items(f"{self._prefix}{option}")

    def map(self, option: str, target: str, reason: str = "") -> None:
        """Note that `target` has the option's meaning."""
        self._noted.add(option)
        self._ledger.map(f"{self._prefix}{option}", target, reason)

    def drop(self, option: str, reason: str) -> None:
        """Note that the option is not needed."""
        self._noted.add(option)
        self._ledger.drop(f"{self._prefix}{option}", reason)

    def refuse(self, option: str, reason: str) -> None:
        """Note that the option is not mapped."""
        self._noted.add(option)
        if option in self.options:
            self.is_refused = True
            self._ledger.refuse(f"{self._prefix}{option}", reason)

    def map_all(self, target: str, reason: str = "") -> None:
        """Note all open options as mapped."""
        for option in self._list_open():
            self.map(option, target, reason)

    def drop_all(self, reason: str) -> None:
        """Note all open options as not needed."""
        for option in self._list_open():
            self.drop(option, reason)

    def refuse_all(self, reason: str) -> None:
        """Note every option as not mapped: the transform's effect is missing."""
        self.is_refused = self.is_refused_whole = True
        for option in self.options:
            self.refuse(option, reason)

    def refuse_rest(self, reason: str) -> None:
        """Note open options as not mapped."""
        for option in self._list_open():
            self.refuse(option, reason)

    def _list_open(self) -> list[str]:
        return [option for option in self.options if option not in self._noted]
