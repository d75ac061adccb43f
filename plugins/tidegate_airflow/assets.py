"""Published tables as Airflow assets, so that other DAGs can be scheduled on them."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context
from tidegate.spec.time_text import to_utc_datetime


def build_asset_alias(pipeline: str) -> AssetAlias:
    """What a pipeline's merge declares: which tables were published is only known when it has run."""
    return AssetAlias(f"tidegate_{pipeline}")


def emit_asset_event(context: Context, published: Mapping[str, Any], pipeline: str) -> None:
    """Update the asset of a published table, named like the table, with batch, rows and valid-through time."""
    if published["snapshot_id"] is None:
        return
    valid = published["valid_through_ms"]
    extra = {key: published[key] for key in ("batch", "snapshot_id", "inserted", "updated", "deleted")}
    extra["valid_through"] = None if valid is None else to_utc_datetime(valid).isoformat()
    context["outlet_events"][build_asset_alias(pipeline)].add(Asset(published["table"]), extra=extra)
