"""Which members a run of a fleet looks at, and what else it was asked for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow.sdk import Context, Param
from tidegate.errors import ConfigurationError
from tidegate.fleet.timing import build_clock, is_member_due, keeps_own_time
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.dags.flush_params import build_form, check_run_words, read_run_params

PICKED = "pipelines"


@dataclass(frozen=True)
class FleetRequest:
    """What a run of a fleet does.

    - `names`: the members that it looks at, in the order in which they get a place in the run.
    - `is_timed`: the run was started by their intervals, not by a person.

    - `params`: those of the form. `self_timed_members`: members with an interval of their own, whose last run must be
      remembered.
    """

    names: tuple[str, ...]
    params: Mapping[str, Any]
    is_timed: bool = False
    self_timed_members: tuple[str, ...] = ()

    @property
    def max_records(self) -> int | None:
        """Instead of those of the pipeline files."""
        number: int | None = self.params["max_records"]
        return number

    def leave_out(self, names: Collection[str]) -> "FleetRequest":
        """The same of the other members; those that are left out are due again."""
        return replace(
            self,
            names=tuple(name for name in self.names if name not in names),
            self_timed_members=tuple(name for name in self.self_timed_members if name not in names),
        )

    def compute_min_records(self, pipeline: Pipeline) -> int:
        """How many records must wait: as many as start a flush, where only the heartbeat is due."""
        return pipeline.merge.records_threshold if self.is_timed and not pipeline.merge.is_timed else 0


def build_fleet_form(names: list[str]) -> dict[str, Param]:
    """A flush's form, and the members to choose from; in the process of a task nobody chooses."""
    items: dict[str, Any] = {"type": "string", **({"enum": names} if names else {})}
    pipelines_param = Param(
        [],
        type="array",
        items=items,
        title="Pipelines",
        description="Only these pipelines of the fleet; all when empty.",
        examples=names,
    )
    return {PICKED: pipelines_param, **build_form()}


def read_fleet_request(
    context: Context, members: Mapping[str, Pipeline], planned_at: Mapping[str, float], now: float
) -> FleetRequest:
    """Time has started the run: the members that are due. Their backlog has: those. A person: those that were picked.

    Other DAGs and events without a pipeline mean all.
    """
    check_run_words(context, PICKED)
    params = read_run_params(context)
    kind = context["dag_run"].run_type
    if kind == "scheduled":
        clock = build_clock(members.values())
        due_names = tuple(
            name for name, member in members.items() if is_member_due(member, clock, planned_at.get(name), now)
        )
        new = [name for name, member in members.items() if keeps_own_time(member, clock) and name not in planned_at]
        own_time = {*new, *(name for name in due_names if keeps_own_time(members[name], clock))}
        return FleetRequest(due_names, params, is_timed=True, self_timed_members=tuple(sorted(own_time)))
    if kind == "asset_triggered":
        called_names = dict.fromkeys(_list_called(context))  # who waits for a place since the run before comes first
        return FleetRequest(tuple(name for name in called_names or members if name in members), params)
    picked_names = set(context["params"][PICKED])
    unknown = sorted(picked_names - members.keys())
    if unknown:
        raise ConfigurationError(
            f"pipelines={', '.join(unknown)}: not in this fleet, or their file is wrong; there are: "
            f"{', '.join(members) or 'none'}"
        )
    return FleetRequest(tuple(name for name in members if name in picked_names or not picked_names), params)


def _list_called(context: Context) -> list[str]:
    """The members whose backlog called for the run, and those that the run before it could not finish."""
    called_names: list[str] = []
    for events in dict(context.get("triggering_asset_events") or {}).values():
        for event in events:
            extra = event.extra or {}
            called_names += extra.get("asked", {}).get(PICKED, [])
            called_names += [payload["pipeline"]] if isinstance(payload := extra.get("payload"), dict) else []
    return called_names
