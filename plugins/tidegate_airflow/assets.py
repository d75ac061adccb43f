"""Published tables as Airflow assets, so that other DAGs can be scheduled on them."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias, AssetWatcher, Context
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.time_text import to_utc_datetime

from tidegate_airflow.dag_ids import name_fleet

MAIN = "main"


def build_asset_alias(pipeline: str) -> AssetAlias:
    """What a pipeline's merge declares: which tables were published is only known when it has run."""
    return AssetAlias(f"tidegate_{pipeline}")


def build_own_alias(pipeline: Pipeline) -> AssetAlias:
    """The same for tasks that change a table's rows beside the flushes, which may be those of a fleet."""
    return build_asset_alias(pipeline.name if pipeline.fleet is None else name_fleet(pipeline.fleet))


def build_backlog_asset(pipeline: str, watchers: list[AssetWatcher] | None = None) -> Asset:
    """What starts a pipeline's flush beside its schedule. Its state in Airflow's store is what runs tell later ones."""
    return Asset(_format_backlog_name(pipeline), watchers=watchers or [])


def build_backlog_alias(pipeline: str) -> AssetAlias:
    """What the last task of a run declares, so that it may call for the next run."""
    return AssetAlias(_format_backlog_name(pipeline))


def emit_backlog_event(context: Context, pipeline: str, asked: Mapping[str, Any] | None = None) -> None:
    """Let the next run begin as soon as it can; `asked` are the words of its form."""
    extra = {"asked": dict(asked or {})}
    context["outlet_events"][build_backlog_alias(pipeline)].add(build_backlog_asset(pipeline), extra=extra)


def build_table_asset(name: str) -> Asset:
    """The asset of a table, or of what is told of one. Where Airflow's metadata lie in MySQL its names must be ASCII:
    other letters are percent-encoded there, and a task would fail behind its publish, and DAGs would not be read.
    """
    try:
        return Asset(name)
    except ValueError:
        return Asset(re.sub(r"[^\x00-\x7f]+", lambda letters: quote(letters[0]), name))


def build_complete_asset(table: str, period: str, branch: str = MAIN) -> Asset:
    """The asset whose events are the complete hours or days of a table, each with its partition key.

    Not the table's own: a DAG that is scheduled on partitions would note every event without one as a mistake. A named
    branch has its own, too: what is complete there says nothing of main.
    """
    return build_table_asset(f"{table}/{period}" if branch == MAIN else f"{table}/{branch}/{period}")


def _format_backlog_name(pipeline: str) -> str:
    return f"tidegate_{pipeline}_backlog"


def emit_asset_event(context: Context, published_batch: Mapping[str, Any], pipeline: str) -> None:
    """Update the asset of a published table, named like the table, with batch, rows and valid-through time."""
    if published_batch["snapshot_id"] is None:
        return
    valid = published_batch["valid_through_ms"]
    extra = {key: published_batch[key] for key in ("batch", "snapshot_id", "inserted", "updated", "deleted")}
    extra["valid_through"] = None if valid is None else to_utc_datetime(valid).isoformat()
    context["outlet_events"][build_asset_alias(pipeline)].add(build_table_asset(published_batch["table"]), extra=extra)


def emit_change_event(context: Context, cause: str, change_report: Mapping[str, Any]) -> None:
    """Update the asset of a table whose rows a task has changed beside the flushes; `cause` says by what.

    There is no batch, and no word of how complete the table is; what is not known of snapshot and rows is None.
    """
    alias = next(outlet for outlet in context["outlets"] if isinstance(outlet, AssetAlias))
    numbers = {key: change_report.get(key) for key in ("snapshot_id", "inserted", "updated", "deleted")}
    extra: dict[str, Any] = {"batch": None, **numbers, "valid_through": None, "cause": cause}
    context["outlet_events"][alias].add(build_table_asset(change_report["table"]), extra=extra)
