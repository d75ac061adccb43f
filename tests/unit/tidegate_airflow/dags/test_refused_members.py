"""A run of a fleet whose files are wrong, all of them: it is red and says why, and does not end well over nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped
from fakes.task_instance import PushedResults
from tidegate_airflow import errors
from tidegate_airflow.dags import fleet_plan

VALID_CATALOG = (
    "lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:////nowhere/c.db', warehouse: 'file:///nowhere'}}\n"
)
PIPELINE = """
source: {{topics: [{name}], key: {{fields: [id], schema: id STRING}}, value: {{format: json, schema: id STRING}}}}
tables: [{{name: lake.shop.{name}}}]
"""


@pytest.fixture
def include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(VALID_CATALOG)
    for name in ("orders", "users"):
        (tmp_path / "pipelines" / f"{name}.yaml").write_text(PIPELINE.format(name=name) + "fleet: shop\n")
    (tmp_path / "pipelines" / "alone.yaml").write_text("colour: red\n")
    params = {"pipelines": [], "max_records": None, "until_current": True, "dry_run": False}
    task = SimpleNamespace(task_id="plan", dag=SimpleNamespace(task_ids=("plan", "heartbeat")))
    run = SimpleNamespace(run_type="scheduled", run_id="r")
    context: Any = {"ti": PushedResults(), "dag_run": run, "params": params, "task": task, "asset_state_store": {}}
    for module in (fleet_plan, errors):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    monkeypatch.setattr(fleet_plan, "find_include_folder", lambda: tmp_path)
    return tmp_path


def break_catalogs(include: Path) -> None:
    (include / "catalogs.yaml").write_text("lake: {type: iceberg\n")


def break_defaults(include: Path) -> None:
    (include / "defaults.yaml").write_text("colour: red\n")


def break_members(include: Path) -> None:
    for name in ("orders", "users"):
        file = include / "pipelines" / f"{name}.yaml"
        file.write_text(file.read_text() + "colour: red\n")


@pytest.mark.parametrize(
    ("spoil", "file_names"),
    [
        (break_catalogs, ["catalogs.yaml"]),
        (break_defaults, ["defaults.yaml"]),
        (break_members, ["orders.yaml", "users.yaml"]),
    ],
)
def test_fleet_whose_files_are_all_wrong_is_red_and_says_why(spoil: Any, file_names: list[str], include: Path) -> None:
    spoil(include)
    with pytest.raises(AirflowFailException) as problem:
        fleet_plan.plan_fleet("shop")
    lines = str(problem.value).splitlines()
    assert [next(file for file in file_names if file in line) for line in lines] == file_names


def test_fleet_that_no_file_names_any_more_has_nothing_to_do(include: Path) -> None:
    for name in ("orders", "users"):
        (include / "pipelines" / f"{name}.yaml").write_text(PIPELINE.format(name=name))
    with pytest.raises(DownstreamTasksSkipped):
        fleet_plan.plan_fleet("shop")
