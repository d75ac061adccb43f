"""Published tables as Airflow assets, so that other DAGs can be scheduled on them."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias, AssetWatcher, Context
from airflow.sdk.definitions.asset import AssetRef
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.time_text import to_utc_datetime

from tidegate_airflow.dag_ids import name_flush

MAIN = "main"
PICKED = "pipelines"  # a parameter of a fleet's run: only these


def build_asset_alias(pipeline: str) -> AssetAlias:
    """Return the outlet of a pipeline's merge: which tables were published is only known after it has run."""
    return AssetAlias(f"tidegate_{pipeline}")


def build_own_alias(pipeline: Pipeline) -> AssetAlias:
    """Return the outlet of tasks that change a table's rows beside the flushes, which may be those of a fleet."""
    return build_asset_alias(name_flush(pipeline.name, pipeline.fleet))


def build_backlog_asset(pipeline: str, watchers: list[AssetWatcher] | None = None) -> Asset:
    """Return the asset that starts a pipeline's flush beside its schedule.

    Its state in Airflow's store is for later runs.
    """
    return Asset(_format_backlog_name(pipeline), watchers=watchers or [])


def refer_to_backlog(pipeline: str) -> AssetRef:
    """Return the inlet of a task that reads the state of another DAG's backlog.

    By its name: of two assets of one name in a file, Airflow takes the watchers of either.
    """
    return Asset.ref(name=_format_backlog_name(pipeline))


def build_backlog_alias(pipeline: str) -> AssetAlias:
    """Return the outlet of a run's last task, so that it may call for the next run."""
    return AssetAlias(_format_backlog_name(pipeline))


def emit_backlog_event(context: Context, pipeline: str, asked: Mapping[str, Any] | None = None) -> None:
    """Let the next run begin as soon as it can; `asked` are the parameters of its form."""
    extra = {"asked": dict(asked or {})}
    context["outlet_events"][build_backlog_alias(pipeline)].add(build_backlog_asset(pipeline), extra=extra)


def call_for_merge(context: Context, pipeline: Pipeline) -> None:
    """Let the next run of what merges the pipeline begin as soon as it can; in a fleet for this pipeline alone."""
    asked = {} if pipeline.fleet is None else {PICKED: [pipeline.name]}
    emit_backlog_event(context, name_flush(pipeline.name, pipeline.fleet), asked)


def build_table_asset(name: str) -> Asset:
    """Return the asset of a table, or of what is reported of one."""
    try:
        return Asset(name)
    # if Airflow's metadata lie in MySQL, names must be ASCII: a task would fail after its publish
    except ValueError:
        return Asset(re.sub(r"[^\x00-\x7f]+", lambda letters: quote(letters[0]), name))


def build_complete_asset(table: str, period: str, branch: str = MAIN) -> Asset:
    """Return the asset whose events are the complete hours or days of a table, each with its partition key."""
    # not the table's own: a DAG that is scheduled on partitions notes every event without one as a mistake
    return build_table_asset(f"{table}/{period}" if branch == MAIN else f"{table}/{branch}/{period}")


def _format_backlog_name(pipeline: str) -> str:
    return f"tidegate_{pipeline}_backlog"


def emit_asset_event(context: Context, published_batch: Mapping[str, Any], pipeline: str) -> None:
    """Update the asset of a published table with batch, rows and valid-through time."""
    if published_batch["snapshot_id"] is None:
        return
    valid = published_batch["valid_through_ms"]
    extra = {key: published_batch[key] for key in ("batch", "snapshot_id", "inserted", "updated", "deleted")}
    extra["valid_through"] = None if valid is None else to_utc_datetime(valid).isoformat()
    context["outlet_events"][build_asset_alias(pipeline)].add(build_table_asset(published_batch["table"]), extra=extra)


def emit_change_event(context: Context, cause: str, change_report: Mapping[str, Any]) -> None:
    """Update the asset of a table whose rows a task has changed beside the flushes; `cause` says by what.

    There is no batch and no valid-through time; unknown snapshot and rows are None.
    """
    alias = next(outlet for outlet in context["outlets"] if isinstance(outlet, AssetAlias))
    numbers = {key: change_report.get(key) for key in ("snapshot_id", "inserted", "updated", "deleted")}
    extra: dict[str, Any] = {"batch": None, **numbers, "valid_through": None, "cause": cause}
    context["outlet_events"][alias].add(build_table_asset(change_report["table"]), extra=extra)
