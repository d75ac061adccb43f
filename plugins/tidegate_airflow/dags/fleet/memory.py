"""What a run of a fleet leaves for the next ones: Airflow's store of the state of the fleet's backlog.

One entry for all members, so that a run reads it once. Where the store cannot be read or written, every member is due,
and runs try, and tell, as if each were the first.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow.sdk import Context
from tidegate.monitoring.failure_streak import FailureStreak

from tidegate_airflow.assets import build_backlog_asset
from tidegate_airflow.dag_ids import name_fleet
from tidegate_airflow.dags.fleet.at_work import Taken, read_taken, to_data

log = logging.getLogger(__name__)
# each is written by one task: plan, plan, heartbeat; and of each task there is one at a time in all runs
PLANNED_KEY = "planned_at"
TAKEN_KEY = "taken"
MEMBERS_KEY = "members"


@dataclass
class FleetMemory:
    """By pipeline: the time of its last heartbeat (`beats`), and of the last that failed (`failed_beats`); its failures
    by kind (`streaks`).
    """

    beats: dict[str, float] = field(default_factory=dict)
    failed_beats: dict[str, float] = field(default_factory=dict)
    streaks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def get_streak(self, name: str, key: str) -> FailureStreak | None:
        """The failed runs of a member, of one kind."""
        return FailureStreak.from_dict(self.streaks.get(name, {}).get(key))

    def set_streak(self, name: str, key: str, streak: FailureStreak) -> None:
        """Keep them."""
        self.streaks.setdefault(name, {})[key] = streak.to_dict()

    def drop_streak(self, name: str, key: str) -> None:
        """The member is well again."""
        self.streaks.get(name, {}).pop(key, None)
        if not self.streaks.get(name):
            self.streaks.pop(name, None)

    def forget_others(self, names: Collection[str]) -> None:
        """Forget pipelines that are not among these: their files are gone."""
        self.beats = {name: at for name, at in self.beats.items() if name in names}
        self.failed_beats = {name: at for name, at in self.failed_beats.items() if name in names}
        self.streaks = {name: kinds for name, kinds in self.streaks.items() if name in names}


def read_planned_at(fleet: str, context: Context) -> dict[str, float]:
    """When the members that are not due in each run were last looked at by time."""
    return _read(fleet, context, PLANNED_KEY)


def write_planned_at(fleet: str, context: Context, planned_at: dict[str, float]) -> None:
    """Keep it for the next run."""
    _write(fleet, context, PLANNED_KEY, planned_at)


def read_memory(fleet: str, context: Context) -> FleetMemory:
    """What earlier runs left."""
    memory = _read(fleet, context, MEMBERS_KEY)
    return FleetMemory(**{part: dict(memory.get(part, {})) for part in ("beats", "failed_beats", "streaks")})


def write_memory(fleet: str, context: Context, memory: FleetMemory) -> None:
    """Keep it for the next runs."""
    _write(fleet, context, MEMBERS_KEY, asdict(memory))


def read_taken_members(fleet: str, context: Context) -> dict[str, Taken]:
    """Which run has taken which member on last."""
    return read_taken(_read(fleet, context, TAKEN_KEY))


def write_taken_members(fleet: str, context: Context, taken: Mapping[str, Taken]) -> None:
    """Keep it for the next runs."""
    _write(fleet, context, TAKEN_KEY, to_data(taken))


def _read(fleet: str, context: Context, key: str) -> dict[str, Any]:
    try:
        value = _open_store(fleet, context).get(key)
    except Exception as fault:  # whatever the store does, the run goes on
        log.warning(
            "the state of earlier runs cannot be read; every pipeline is due and tries again: %s", type(fault).__name__
        )
        return {}
    return value if isinstance(value, dict) else {}


def _write(fleet: str, context: Context, key: str, value: dict[str, Any]) -> None:
    try:
        _open_store(fleet, context).set(key, value)
    except Exception as fault:
        log.warning(
            "the state of this run was not stored; the next run tries and notifies again: %s", type(fault).__name__
        )


def _open_store(fleet: str, context: Context) -> Any:
    return context["asset_state_store"][build_backlog_asset(name_fleet(fleet))]
