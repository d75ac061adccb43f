"""Records what became of each setting: mapped, not needed, or not mapped. No setting is left out."""

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
