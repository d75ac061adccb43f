"""What becomes of the core's errors in a task, wherever in it they come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes import World, build_pipeline
from fakes.task_instance import PushedResults
from tidegate.flush.flush import flush
from tidegate_airflow import errors, tasks
from tidegate_airflow.dags import backfill


@pytest.mark.parametrize("run", [tasks.run_heartbeat, tasks.run_measure, tasks.run_clean_up, tasks.run_tables])
def test_file_that_goes_while_its_run_is_under_way_fails_the_task_in_one_sentence(
    run: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))
    context: Any = {"ti": PushedResults()}
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(AirflowFailException) as failure:
        run("shop")
    assert str(failure.value) == (
        f"pipeline=shop: no such pipeline; there are: none in {tmp_path}/pipelines; write its file there, or set "
        "TIDEGATE_INCLUDE to the folder that has it"
    )
    assert context["ti"].pushed["error"]["error"] == "ConfigurationError"


@pytest.mark.parametrize(("most", "batches"), [("3", 3), ("2", None)])
def test_backfill_of_more_batches_than_airflow_maps_over_says_so_before_it_begins(
    most: str, batches: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, pipeline, context = World(), build_pipeline(max_records=2), {"ti": PushedResults()}
    world.broker.create("orders", 2)
    for number in range(6):
        world.broker.produce("orders", {"id": str(number)}, {"id": str(number), "name": "x"})
    for _ in range(3):
        flush(world.open_session(pipeline))
    monkeypatch.setattr(tasks, "assemble_session", lambda name: world.open_session(pipeline))
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", most)
    ends = world.broker.read_log(("orders",), "read_committed").end["orders"]
    ranges = {"orders": {str(partition): [0, end] for partition, end in ends.items()}}
    request = {"ranges": ranges, "from": None, "to": None, "tables": [], "dry_run": False}
    if batches is not None:
        assert len(backfill.plan_batches("orders", request)["batches"]) == batches
        return
    with pytest.raises(AirflowFailException, match=r"^pipeline=orders: .* 3 batches.* max_map_length=2.*; "):
        backfill.plan_batches("orders", request)
    assert backfill.plan_batches("orders", {**request, "dry_run": True})["tables"][0]["batches"] == 3
