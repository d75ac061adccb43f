"""A fleet in which some members stage on a clock of their own: its runs merge what these have staged."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import BAD, FailsToMerge, build_table
from tidegate.errors import RetryLater
from tidegate.model.batch import PlanScope
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Heartbeat, Merge, Stage
from tidegate.spec.source import Start, StartKind
from tidegate.spec.table import Approve

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
    from tidegate_airflow import tasks
    from tidegate_airflow.operators import step
    from unit.tidegate_airflow.dags.test_fleet_run import Events, Fleet, Run, SimpleStores, Store, build_fleet, wish

CARTS, CARTS_TOO = "lake.shop.carts", "lake.shop.carts_too"


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fleet:
    """The fleet without bad records, and with a clock of staging for carts, which has two tables."""
    fleet = build_fleet(monkeypatch, tmp_path)
    fleet.world.broker.retain_from("users", 2, 1)
    change(fleet, stage=Stage(10))
    return fleet


def change(fleet: Fleet, name: str = "carts", **keys: Any) -> None:
    """Somebody edits the pipeline's file."""
    fleet.pipelines[name] = replace(fleet.pipelines[name], **keys)


def produce(fleet: Fleet, *keys: str, topic: str = "carts") -> None:
    for key in keys:
        fleet.world.broker.produce(topic, {"id": key}, {"id": key, "name": "x"}, 0)


def stage(fleet: Fleet, name: str = "carts") -> list[Any]:
    """A run of the member's own DAG of staging; what it asks the DAG of the fleet for. Nothing to stage is no error."""
    run = Run("staging", "scheduled", dag_id=f"tidegate_{name}_stage")
    stores = SimpleStores({"tidegate_fleet_shop_backlog": Store(fleet.store)})
    context: Any = {"ti": run, "outlet_events": Events(run), "asset_state_store": stores}
    try:
        planned = tasks.run_plan(name, scope=PlanScope.NEW)
    except AirflowSkipException:
        return []
    step.run_stage_ahead_step(context, name, planned, {})
    return run.uncertain_asked


def list_entries(run: Run) -> list[str]:
    return [entry["pipeline"] for entry in run.entries or []]


def read_keys(fleet: Fleet, table: str = CARTS) -> list[str]:
    return sorted(row["id"] for row in fleet.world.read_rows(table))


def test_run_merges_what_a_member_has_staged_beside_members_that_it_stages_for(fleet: Fleet) -> None:
    first = fleet.run()
    assert (list_entries(first), read_keys(fleet)) == (["orders", "users"], []), "nothing of carts is staged"
    assert "carts" in first.left["plan", -1, "look"]["idle"]
    stage(fleet)
    produce(fleet, "later")
    produce(fleet, "new", topic="orders")
    run = fleet.run()
    assert (list_entries(run), run.states["heartbeat"]) == (["carts", "orders"], "success")
    assert run.left["stage", 0, "return_value"]["left"] == 0, "what is not staged is no work of merges"
    assert read_keys(fleet) == read_keys(fleet, CARTS_TOO) == ["k0", "k1"]
    assert "new" in read_keys(fleet, "lake.shop.orders")
    assert fleet.world.broker.groups["tidegate-carts"] == {"carts": {0: 1, 1: 1}}
    assert run.left["commit_offsets", -1, "return_value"].keys() == {"carts", "orders"}
    assert sorted(run.events) == [CARTS, CARTS_TOO, "lake.shop.orders", "lake.shop.orders_too"]
    assert fleet.run().entries is None
    stage(fleet)
    fleet.run()
    assert read_keys(fleet) == ["k0", "k1", "later"]


def test_threshold_of_a_member_counts_its_staged_rows_and_not_the_log(fleet: Fleet) -> None:
    change(fleet, merge=Merge(interval_seconds=-1, records_threshold=3), heartbeat=Heartbeat(60))
    produce(fleet, "a", "b", "c")
    assert stage(fleet, "carts") == [{"pipelines": ["carts"]}]
    produce(fleet, "d")
    merged = fleet.run("asset_triggered", [{"asked": {"pipelines": ["carts"]}}])
    assert merged.left["plan", -1, "look"]["looked"] == ["carts"]
    assert "d" not in read_keys(fleet)
    assert stage(fleet) == [], "one row"
    run = fleet.run()
    assert run.left["plan", -1, "look"]["postponed"] == ["carts"]
    assert fleet.run("manual", pipelines=["carts"]).states["merge_0"] == "success"
    assert "d" in read_keys(fleet)


def test_call_of_staging_starts_the_fleet_for_that_member_alone_and_rests_behind_merges_that_failed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(fleet, merge=Merge(interval_seconds=3600, records_threshold=1))
    healthy = fleet.world.engine
    [asked] = stage(fleet)
    fleet.world.engine = FailsToMerge(healthy, CARTS_TOO)  # type: ignore[assignment]
    run = fleet.run("asset_triggered", [{"asked": asked}])
    assert run.left["plan", -1, "look"]["looked"] == ["carts"]
    assert "pipeline=carts: merge failed: " in run.left["heartbeat", -1, "error"]["message"]
    assert run.asked == [], "its rows would call again and again"
    failed_at = fleet.store["members"]["streaks"]["carts"]["flush_failures"]["failed_at"]
    calls = []
    for seconds in (0, 59, 60):
        monkeypatch.setattr(step.time, "time", lambda seconds=seconds: failed_at + seconds)
        produce(fleet, f"at {seconds}")
        calls.append(len(stage(fleet)))
    assert calls == [0, 0, 1]
    fleet.world.engine = healthy
    fleet.run("manual", pipelines=["carts"])
    assert read_keys(fleet) == read_keys(fleet, CARTS_TOO) == ["at 0", "at 59", "at 60", "k0", "k1"]


def test_call_that_comes_while_a_run_merges_is_answered_behind_it(fleet: Fleet) -> None:
    """A run beside it leaves the member out; without this it would wait for its interval where no record comes."""
    change(fleet, merge=Merge(interval_seconds=3600, records_threshold=2))
    [asked] = stage(fleet)
    slow = fleet.begin("asset_triggered", [{"asked": asked}])
    produce(fleet, "k2", "k3")
    [asked] = stage(fleet)
    beside = fleet.begin("asset_triggered", [{"asked": asked}])
    assert (list_entries(beside), beside.left["plan", -1, "look"]["at_work"]) == ([], ["carts"])
    fleet.finish(slow)
    assert read_keys(fleet) == ["k0", "k1"]
    [asked] = slow.asked
    last = fleet.run("asset_triggered", [{"asked": asked}])
    assert read_keys(fleet) == read_keys(fleet, CARTS_TOO) == ["k0", "k1", "k2", "k3"]
    assert last.asked == []


def test_batch_that_waits_behind_rows_calls_for_their_merge(fleet: Fleet) -> None:
    options: dict[str, Any] = {"columns": None, "key_columns": (Column("id", "STRING"),), "unknown_fields": "add"}
    change(fleet, tables=(build_table(CARTS, topics=("carts",), **options),), merge=Merge(interval_seconds=3600))
    assert stage(fleet) == []
    fleet.world.broker.produce("carts", {"id": "k0"}, {"id": "k0", "name": "x", "Open": True}, 0)
    [asked] = stage(fleet)
    fleet.run("asset_triggered", [{"asked": asked}])
    assert stage(fleet) == []
    fleet.run("manual", pipelines=["carts"])
    assert {row["id"]: row.get("Open") for row in fleet.world.read_rows(CARTS)} == {"k0": True, "k1": None}


@pytest.mark.parametrize("gets_clock", [True, False], ids=["gets it", "loses it"])
@pytest.mark.parametrize("is_planned", [True, False], ids=["planned with the others", "plans by itself"])
def test_file_that_gets_or_loses_its_clock_between_plan_and_stage_loses_and_doubles_nothing(
    fleet: Fleet, gets_clock: bool, is_planned: bool
) -> None:
    """Its own DAG of staging may be at work on the same records by then."""
    change(fleet, stage=Stage() if gets_clock else Stage(10))
    if not gets_clock:
        stage(fleet)
        produce(fleet, "k2")
    fleet.unopened |= {} if is_planned else {"carts": RetryLater("the brokers do not answer")}
    run = fleet.begin()
    assert list_entries(run)[0] == "carts"
    fleet.unopened.clear()
    change(fleet, stage=Stage(10) if gets_clock else Stage())
    if gets_clock:
        stage(fleet)
    fleet.finish(run)
    assert (run.states["stage_0"], run.states["merge_0"], run.states["heartbeat"]) == ("success",) * 3
    is_read = not gets_clock and not is_planned  # by its own plan, of a file without a clock
    assert read_keys(fleet) == read_keys(fleet, CARTS_TOO) == ["k0", "k1", *(["k2"] if is_read else [])]
    produce(fleet, "k3")
    for _ in range(2):
        if gets_clock:
            stage(fleet)
        fleet.run()
    expected = ["k0", "k1", "k3"] if gets_clock else ["k0", "k1", "k2", "k3"]
    assert read_keys(fleet) == read_keys(fleet, CARTS_TOO) == expected


def test_member_that_plans_by_itself_merges_what_is_staged_also_in_a_second_try(fleet: Fleet) -> None:
    stage(fleet)
    fleet.unopened["carts"] = RetryLater("the brokers do not answer")
    run = fleet.begin()
    fleet.flush(run, "carts")
    assert run.states["stage_0"] == "failed"
    fleet.unopened.clear()
    produce(fleet, "later")
    run.try_number = 2
    fleet.flush_again(run, "carts")
    assert (run.states["stage_0"], run.states["heartbeat"]) == ("success", "success")
    assert read_keys(fleet) == ["k0", "k1"]


def test_staging_that_fails_makes_no_run_of_the_fleet_red_and_holds_up_no_merge(fleet: Fleet) -> None:
    stage(fleet)
    fleet.world.broker.produce("carts", {"id": "bad"}, BAD, 0)
    with pytest.raises(AirflowFailException, match="1 record cannot be decoded"):
        stage(fleet)
    assert fleet.run().states["heartbeat"] == "success"
    assert read_keys(fleet) == ["k0", "k1"]
    assert "members" not in fleet.store or "carts" not in fleet.store["members"]["streaks"]


def test_failure_of_staging_ends_for_the_fleet_when_its_member_gets_a_clock(fleet: Fleet) -> None:
    """From then on the member's own DAG tells of it."""
    change(fleet, stage=Stage())
    fleet.world.broker.produce("carts", {"id": "bad"}, BAD, 0)
    assert fleet.run().states["heartbeat"] == "failed"
    change(fleet, stage=Stage(10))
    fleet.run()
    assert fleet.store["members"]["streaks"] == {}


@pytest.mark.parametrize("is_staged_first", [True, False])
def test_start_at_latest_is_where_the_first_of_both_dags_looked(fleet: Fleet, is_staged_first: bool) -> None:
    source = replace(fleet.pipelines["wishes"].source, start=Start(StartKind.LATEST))
    change(fleet, "wishes", source=source, stage=Stage(10))
    wish(fleet, "old")
    if is_staged_first:
        stage(fleet, "wishes")
    else:
        fleet.run()
    wish(fleet, "new")
    for _ in range(2):
        fleet.run()
        stage(fleet, "wishes")
    fleet.run()
    assert read_keys(fleet, "lake.shop.wishes") == ["new"]


def test_batch_that_waits_for_an_approval_calls_no_merge_and_the_other_table_goes_on(fleet: Fleet) -> None:
    stage(fleet)
    fleet.run()
    tables = fleet.pipelines["carts"].tables
    guarded = replace(tables[0], approve=Approve(deletes_over=1), max_pending=1000)
    change(fleet, tables=(guarded, tables[1]), merge=Merge(interval_seconds=60, records_threshold=2))
    for key in ("k0", "k1"):
        fleet.world.broker.produce("carts", {"id": key}, None, 0)
    [asked] = stage(fleet)
    run = fleet.run("asset_triggered", [{"asked": asked}])
    assert (run.states["merge_0"], run.states["heartbeat"]) == ("success", "success"), "the other table"
    assert (read_keys(fleet), read_keys(fleet, CARTS_TOO)) == (["k0", "k1"], [])
    produce(fleet, "k3")
    assert stage(fleet) == []
    assert fleet.run().states["heartbeat"] == "success"
    assert (read_keys(fleet), read_keys(fleet, CARTS_TOO)) == (["k0", "k1"], ["k3"])


def test_dry_run_shows_the_staged_batches_of_a_member_with_a_clock(fleet: Fleet) -> None:
    stage(fleet)
    produce(fleet, "later")
    planned = fleet.begin("manual", dry_run=True).left["plan", -1, "planned"]
    assert [(batch["table"], batch["offsets"]) for batch in planned["carts"]["tables"]] == [(CARTS, 2), (CARTS_TOO, 2)]
