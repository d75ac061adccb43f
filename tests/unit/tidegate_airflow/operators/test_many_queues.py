"""A batch for more tables than Airflow maps merges over: the oldest batches first, the others wait staged."""

from typing import Any

import pytest
from fakes.task_instance import PushedResults
from tidegate_airflow import tasks
from tidegate_airflow.operators import step
from tidegate_airflow.operators.step import StepOperator

MOST = 1024


def test_merges_beyond_those_that_airflow_maps_are_left_to_the_next_run_and_come_first_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"lake.shop.t{number:04}" for number in range(2 * MOST + 1)]
    batch_numbers = {name: [1] for name in names}

    def stage(name: str, planned: Any, engine: Any = None, watcher: Any = None) -> Any:
        return [
            {"table": table, "batches": [{"batch": n} for n in numbers]} for table, numbers in batch_numbers.items()
        ], []

    monkeypatch.setattr(tasks, "run_stage", stage)
    operator, merged = StepOperator(task_id="stage", verb="stage", pipeline="shop", given=None), list[str]()
    operator.given = {"tables": []}
    for batch in range(2, 5):
        queues = operator.execute({"ti": PushedResults()})
        assert len(queues) == MOST
        merged += [queue["table"] for queue in queues]
        for name in names:
            batch_numbers[name] = [
                *([] if name in {queue["table"] for queue in queues} else batch_numbers[name]),
                batch,
            ]
    assert set(merged) == set(names), "each has its turn, although all have a new batch in each run"
    assert step.limit_queues([{"table": "a"}] * MOST, MOST) == [{"table": "a"}] * MOST
