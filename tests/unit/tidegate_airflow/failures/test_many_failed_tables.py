"""A run in which the merges of many tables failed: what stage left is pulled once, not again for each of them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import build_pipeline, build_table
from tidegate_airflow import tasks
from tidegate_airflow.failures import back_off

TABLES = [f"lake.shop.t{number}" for number in range(50)]


def test_last_task_pulls_the_queues_of_all_tables_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are about a megabyte for thousands of partitions."""
    pulled, results = list[tuple[str, str]](), dict[str, Any]()
    planned = {"tables": [{"table": name} for name in TABLES], "refused": []}
    queues = [{"table": name, "batches": []} for name in TABLES]

    def xcom_pull(task_ids: str, key: str = "return_value", map_indexes: int | None = None) -> Any:
        pulled.append((task_ids, key))
        if map_indexes is not None:
            return {"error": "AuditFailed", "message": f"table={TABLES[map_indexes]}: an audit does not hold"}
        return {("plan", "return_value"): planned, ("stage", "return_value"): queues}.get((task_ids, key))

    pipeline = replace(build_pipeline(*(build_table(name) for name in TABLES)), on_failure=())
    monkeypatch.setattr(tasks, "read_pipeline", lambda name: pipeline)
    store = SimpleNamespace(get=results.get, set=results.__setitem__, delete=results.pop)
    context: Any = {
        "ti": SimpleNamespace(xcom_pull=xcom_pull, xcom_push=lambda key, value: None),
        "dag_run": SimpleNamespace(run_id="r1"),
    }
    monkeypatch.setattr(back_off, "_open_store", lambda name, context: store)
    states = {"plan": "success", "stage": "success", **{f"merge_{n}": "failed" for n in range(len(TABLES))}}
    back_off.remember_failure("shop", context, "tasks failed", states)
    assert pulled.count(("stage", "return_value")) == 1
    failed = {tuple(entry["tables"]) for entry in results[back_off.FLUSH_KEY]["failed"]}
    assert failed == {(name,) for name in TABLES}, "each failure is that of its own table"
