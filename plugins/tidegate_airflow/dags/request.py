"""What a run is asked for: by its form, by its schedule, or by the run before it; of a fleet, for which members."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow.sdk import Context, Param
from tidegate.errors import ConfigurationError
from tidegate.fleet.timing import build_clock, is_member_due, keeps_own_time
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.assets import PICKED
from tidegate_airflow.dags.dag_settings import build_switch
from tidegate_airflow.errors import read_form_params

PARAM_NAMES = ("max_records", "until_current", "dry_run")
NOT_ASKED = {"max_records": None, "until_current": False, "dry_run": False}  # of parameters that a form does not have


def build_form() -> dict[str, Param]:
    """Return what the trigger form asks for; Airflow refuses what does not fit before a run begins."""
    return {
        "max_records": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Max records",
            description="At most this many records in a batch, instead of merge.max_records of the pipeline file.",
        ),
        "until_current": build_switch(
            "Until current",
            "While a batch leaves records behind, go on with the next run at once. Without it, one batch.",
            default=True,
        ),
        "dry_run": build_switch(
            "Dry run", "Only show the next batch, as `planned` of the task plan; read and write nothing."
        ),
    }


def build_merge_form() -> dict[str, Param]:
    """Return the form of merges, if staging has a clock of its own: they read no record."""
    return {"dry_run": build_form()["dry_run"]}


def read_run_params(context: Context) -> dict[str, Any]:
    """Return what this run was asked for: by its form, or by runs before it that could not finish.

    Of several the smallest `max_records` counts, and one that goes on until the log's end.
    """
    params = {**NOT_ASKED, **{name: context["params"][name] for name in PARAM_NAMES if name in context["params"]}}
    all_events = dict(context.get("triggering_asset_events") or {}).values()
    asked = [{**params, **(event.extra or {}).get("asked", {})} for events in all_events for event in events]
    if asked:
        limits = [entry["max_records"] for entry in asked if entry["max_records"] is not None]
        params["max_records"] = min(limits, default=None)
        params["until_current"] = any(entry["until_current"] for entry in asked)
    if params["max_records"] is not None:
        params["max_records"] = int(params["max_records"])  # the form's schema takes 1e3 for a whole number, too
    return params


@dataclass(frozen=True)
class FleetRequest:
    """What a run of a fleet does."""

    names: tuple[str, ...]  # the members that it looks at, in the order in which they get a place in the run
    params: Mapping[str, Any]
    self_timed_members: tuple[str, ...] = ()  # members with an interval of their own, whose last run must be remembered

    @property
    def max_records(self) -> int | None:
        number: int | None = self.params["max_records"]
        return number

    def leave_out(self, names: Collection[str]) -> "FleetRequest":
        return replace(
            self,
            names=tuple(name for name in self.names if name not in names),
            self_timed_members=tuple(name for name in self.self_timed_members if name not in names),
        )


def compute_min_records(pipeline: Pipeline, context: Context) -> int:
    """Return how many records must wait in this run: as many as start a flush, if only the heartbeat was due."""
    beats_only = not pipeline.merge.is_timed and context["dag_run"].run_type == "scheduled"
    return pipeline.merge.records_threshold if beats_only else 0


def build_fleet_form(names: list[str]) -> dict[str, Param]:
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
    context: Context,
    members: Mapping[str, Pipeline],
    planned_at: Mapping[str, float],
    now: float,
    begun: Collection[str] = (),
) -> FleetRequest:
    """Return the members that are due, or whose backlog called, or that a person picked; else all.

    `begun` are those that an earlier try of this run has taken on: they are due although `planned_at` names them.
    """
    read_form_params(context, (PICKED, *PARAM_NAMES))
    params = read_run_params(context)
    kind = context["dag_run"].run_type
    if kind == "scheduled":
        clock = build_clock(members.values())
        due_names = tuple(
            name
            for name, member in members.items()
            if name in begun or is_member_due(member, clock, planned_at.get(name), now)
        )
        new = [name for name, member in members.items() if keeps_own_time(member, clock) and name not in planned_at]
        own_time = {*new, *(name for name in due_names if keeps_own_time(members[name], clock))}
        return FleetRequest(due_names, params, self_timed_members=tuple(sorted(own_time)))
    if kind == "asset_triggered":
        called_names: dict[str, None] = {}  # who waits for a place since the run before comes first
        for events in dict(context.get("triggering_asset_events") or {}).values():
            for event in events:
                extra = event.extra or {}
                called_names |= dict.fromkeys(extra.get("asked", {}).get(PICKED, []))
                called_names |= {payload["pipeline"]: None} if isinstance(payload := extra.get("payload"), dict) else {}
        return FleetRequest(tuple(name for name in called_names or members if name in members), params)
    picked_names = set(context["params"][PICKED])
    unknown = sorted(picked_names - members.keys())
    if unknown:
        raise ConfigurationError(
            f"pipelines={', '.join(unknown)}: not in this fleet, or their file is wrong; there are: "
            f"{', '.join(members) or 'none'}"
        )
    return FleetRequest(tuple(name for name in members if name in picked_names or not picked_names), params)
