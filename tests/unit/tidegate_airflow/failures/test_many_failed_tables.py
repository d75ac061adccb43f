"""A run in which the merges of many tables failed: what stage left is pulled once, not again for each of them."""

from types import SimpleNamespace
from typing import Any

from tidegate_airflow.dags import flush_run

TABLES = [f"lake.shop.t{number}" for number in range(50)]


def test_last_task_pulls_the_queues_of_all_tables_once() -> None:
    """They are about a megabyte for thousands of partitions."""
    pulled = list[tuple[str, str]]()
    planned = {"tables": [{"table": name} for name in TABLES], "refused": []}
    queues = [{"table": name, "batches": []} for name in TABLES]

    def xcom_pull(task_ids: str, key: str = "return_value", map_indexes: int | None = None) -> Any:
        pulled.append((task_ids, key))
        if map_indexes is not None:
            return {"error": "AuditFailed", "message": f"table={TABLES[map_indexes]}: an audit does not hold"}
        return {("plan", "return_value"): planned, ("stage", "return_value"): queues}.get((task_ids, key))

    context: Any = {"ti": SimpleNamespace(xcom_pull=xcom_pull)}
    states = {"plan": "success", "stage": "success", **{f"merge_{n}": "failed" for n in range(len(TABLES))}}
    outcome = flush_run._read_outcome("shop", context, "tasks failed", states)
    assert pulled.count(("stage", "return_value")) == 1
    assert {task.tables for task in outcome.failed_tasks} == {(name,) for name in TABLES}, "each is of its own table"
