"""The task `complete` on a real Airflow and its database: one event for each hour, which starts a DAG of partitions."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import build_pipeline, build_table
from tidegate.spec.runtime import Period
from tidegate_airflow.dags.flush import build_flush_dag
from tidegate_airflow.dags.flush_run import find_last_reported_period

ROOT = Path(__file__).parents[4]
DAGS = """
from dataclasses import replace
from airflow.sdk import DAG, PartitionedAssetTimetable, task
from fakes import build_pipeline, build_table
from tidegate.spec.runtime import Period
from tidegate_airflow.assets import build_complete_asset
from tidegate_airflow.dags.flush import build_complete_tasks
from tidegate_airflow.dags.request import build_form

TABLES = [build_table("lake.shop.orders"), build_table("lake.shop.customers")]
with DAG("producing", schedule=None, params=build_form()):
    @task
    def clean_up():
        raise ValueError("another table is refused, or its files cannot be removed")
    build_complete_tasks(replace(build_pipeline(*TABLES), complete=Period.HOUR), clean_up(), {})

with DAG("consuming", schedule=PartitionedAssetTimetable(assets=build_complete_asset("lake.shop.orders", "hour"))):
    @task
    def consume(): ...
    consume()
"""
RUNS = """
import json, sys
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.asset import AssetEvent, AssetPartitionDagRun
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from sqlalchemy import select
from tidegate.errors import NothingToDo
from tidegate_airflow import tasks

with create_session() as session:
    session.merge(DagBundleModel(name="testing"))
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
sync_bag_to_db(bag, "testing", None)
states = []
for looks in json.loads(sys.argv[2]):
    tasks.run_complete = lambda name, table, looks=looks: looks[table]
    run = bag.dags["producing"].test(run_conf={"dry_run": looks.get("dry_run", False)})
    states.append({one.task_id: str(one.state) for one in run.get_task_instances()})
with create_session() as session:
    events = session.scalars(select(AssetEvent).order_by(AssetEvent.id)).all()
    told = [[one.asset.name, one.partition_key, one.extra] for one in events]
    started = [one.partition_key for one in session.scalars(select(AssetPartitionDagRun))]
print("SEEN", json.dumps({"states": states, "told": told, "started": sorted(started)}))
"""


def compute_time(hour: float) -> int:
    return int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000) + int(hour * 3_600_000)


# when each table has begun, and up to when all is in it, as five runs find it; the third finds nothing new, and the
# fourth is a dry run
LOOKS = [
    {
        "lake.shop.orders": (compute_time(1.5), compute_time(3)),
        "lake.shop.customers": (compute_time(9), compute_time(9.5)),
    },
    {
        "lake.shop.orders": (compute_time(2.5), compute_time(4)),
        "lake.shop.customers": (compute_time(9.5), compute_time(9.6)),
    },
    {
        "lake.shop.orders": (compute_time(3.5), compute_time(4.9)),
        "lake.shop.customers": (compute_time(10), compute_time(10.9)),
    },
    {
        "lake.shop.orders": (compute_time(3.5), compute_time(6)),
        "lake.shop.customers": (compute_time(10), compute_time(11)),
        "dry_run": True,
    },
    {
        "lake.shop.orders": (compute_time(3.5), compute_time(6)),
        "lake.shop.customers": (compute_time(10), compute_time(11)),
    },
]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "dags").mkdir()
    (folder / "dags" / "hours.py").write_text(DAGS)
    own = {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("plugins", "jobs", "tests")),
    }
    words = [sys.executable, "-c", RUNS, str(folder / "dags"), json.dumps(LOOKS)]
    process = subprocess.run(words, env={**os.environ, **own}, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    [line] = [line for line in process.stdout.splitlines() if line.startswith("SEEN ")]
    report: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return report


def test_each_hour_is_one_event_and_a_run_without_one_makes_none(events: dict[str, Any]) -> None:
    event_keys = [(name, key) for name, key, _ in events["told"]]
    assert sorted(event_keys) == [
        ("lake.shop.customers/hour", "2026-01-01T10"),
        ("lake.shop.orders/hour", "2026-01-01T02"),
        ("lake.shop.orders/hour", "2026-01-01T03"),
        ("lake.shop.orders/hour", "2026-01-01T04"),
        ("lake.shop.orders/hour", "2026-01-01T05"),
    ]
    assert [states["complete_0"] for states in events["states"]] == ["success", "success", *["skipped"] * 2, "success"]
    assert [states["complete_1"] for states in events["states"]] == [*["skipped"] * 4, "success"]
    assert {states["clean_up"] for states in events["states"]} == {"failed"}


def test_event_says_what_it_is_of(events: dict[str, Any]) -> None:
    extras = [extra for name, key, extra in events["told"] if key == "2026-01-01T05"]
    assert extras == [{"pipeline": "shop", "table": "lake.shop.orders", "valid_through_ms": compute_time(6)}]


def test_dag_that_is_scheduled_on_partitions_starts_once_for_each_hour(events: dict[str, Any]) -> None:
    assert events["started"] == ["2026-01-01T02", "2026-01-01T03", "2026-01-01T04", "2026-01-01T05"]


class Events(list[Any]):
    """What the accessor of an asset's events gives."""

    def ascending(self, ascending: bool) -> "Events":
        assert not ascending
        return self

    def limit(self, number: int) -> "Events":
        return Events(self[:number])


@pytest.mark.parametrize("strange", [None, "", "by hand", "2026-01-02", "2026-01-01T9", "zzz"])
def test_event_that_somebody_added_by_hand_says_nothing_of_what_was_told(strange: str | None) -> None:
    keys = [strange, "2026-01-01T07", "2026-01-01T08"]
    context: Any = {"inlet_events": {"asset": Events(SimpleNamespace(partition_key=key) for key in keys)}}
    assert find_last_reported_period(context, "asset", Period.HOUR) == "2026-01-01T08"


def test_runs_at_once_tell_one_after_the_other() -> None:
    """A backfill of Airflow's runs beside the scheduled runs, whatever `max_active_runs` says."""
    dag = build_flush_dag(replace(build_pipeline(build_table("lake.shop.orders")), complete=Period.DAY))
    assert dag.get_task("complete").max_active_tis_per_dag == 1


def test_table_that_is_refused_colours_the_run_and_keeps_no_hours_of_others_back() -> None:
    """The heartbeat is red then: behind it no hour would be told, and before it hours would hide its colour."""
    tables = [build_table("lake.shop.orders"), build_table("lake.shop.customers")]
    dag = build_flush_dag(replace(build_pipeline(*tables), complete=Period.HOUR))
    for name in ("complete_0", "complete_1"):
        assert (dag.get_task(name).upstream_task_ids, dag.get_task(name).trigger_rule) == ({"clean_up"}, "all_done")
    assert dag.get_task("heartbeat").downstream_task_ids == set()


def test_named_branch_has_an_asset_of_its_own() -> None:
    """Else hours that are complete on one branch would be taken for told on the other."""
    tables = [build_table("lake.shop.orders"), build_table("lake.shop.customers", branch="staging")]
    dag = build_flush_dag(replace(build_pipeline(*tables), complete=Period.HOUR))
    tasks = [dag.get_task(name) for name in ("complete_0", "complete_1")]
    assert [task.outlets[0].name for task in tasks] == ["lake.shop.orders/hour", "lake.shop.customers/staging/hour"]
    assert [task.inlets for task in tasks] == [task.outlets for task in tasks]
