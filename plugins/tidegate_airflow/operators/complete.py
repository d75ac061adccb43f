"""The task `complete` of one table: an event of Airflow's for each hour or day that has all its records."""

from typing import Any

from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowSkipException
from tidegate.flush.complete import MAX_PERIODS, is_key, list_complete_periods
from tidegate.spec.runtime import Period

from tidegate_airflow import tasks
from tidegate_airflow.assets import build_complete_asset

BEGUN_KEY = "begun_ms"


def report_complete_periods(name: str, table: str, period: str, branch: str) -> list[str]:
    """Add the keys of complete periods that were not reported to the task's event; skipped where there is none.

    The asset's events are the reported hours: Airflow stores them together with the task's success, so a task that dies
    has reported nothing, and a repeated one finds what was reported. AirflowSkipException makes no event.
    """
    context = get_current_context()
    asset = build_complete_asset(table, period, branch)
    begun_ms, through_ms = tasks.run_complete(name, table)
    last = find_last_reported_period(context, asset, Period(period))
    keys = list_complete_periods(Period(period), last, _remember_begin(context, asset, begun_ms), through_ms)
    if not keys:
        raise AirflowSkipException(f"pipeline={name} table={table}: no {period} has become complete")
    context["outlet_events"][asset].extra = {"pipeline": name, "table": table, "valid_through_ms": through_ms}
    context["outlet_events"][asset].add_partitions(keys)
    return keys


def find_last_reported_period(context: Context, asset: Any, period: Period) -> str | None:
    """The newest key of the last run that reported any; the events of one run have no order.

    Somebody may add an event by hand, with a key of another form or with none: it does not count as a report.
    """
    events = context["inlet_events"][asset].ascending(False).limit(MAX_PERIODS)
    return max((event.partition_key for event in events if is_key(period, event.partition_key)), default=None)


def _remember_begin(context: Context, asset: Any, begun_ms: int) -> int:
    """When the table has begun, as the first run saw it; it counts until a first event is there."""
    store = context["asset_state_store"][asset]
    known = store.get(BEGUN_KEY)
    if known is None:
        store.set(BEGUN_KEY, begun_ms)
        return begun_ms
    return int(known)
