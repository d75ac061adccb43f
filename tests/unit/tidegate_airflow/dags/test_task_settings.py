"""What the DAGs hand to Airflow for their tasks: a task that has its right name may still never be tried again."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
from fakes import build_pipeline, build_table
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.runtime import SparkMode

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk import DAG
    from tidegate_airflow.dags.actions import build_actions_dag, build_replay_dag
    from tidegate_airflow.dags.dag_settings import RETRY_ARGS
    from tidegate_airflow.dags.flush import build_fleet_dag, build_flush_dag

ONE = build_pipeline()
SEVERAL = build_pipeline(build_table(), build_table("pond.shop.Lines"), name="Two")
TRIED_ONCE = {"compact"}  # the next flush compacts instead
TRIED_AS_A_WHOLE = {"plan", "commit_offsets", "clean_up", "heartbeat"}  # of a fleet: once for all members


def submit(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, spark=replace(pipeline.spark, mode=SparkMode.SUBMIT, connection="spark_too"))


def require_tries(dag: DAG, task_ids: set[str]) -> None:
    """These tasks are tried again as `RETRY_ARGS` says, with pauses that grow up to their limit."""
    for task_id in task_ids:
        task = dag.get_task(task_id)
        pauses = (task.retry_delay, task.max_retry_delay, bool(task.retry_exponential_backoff))
        names = ("retry_delay", "max_retry_delay", "retry_exponential_backoff")
        assert (task_id, task.retries, pauses) == (
            task_id,
            RETRY_ARGS["retries"],
            tuple(RETRY_ARGS[name] for name in names),
        )
        assert task.owner == "tidegate"


@pytest.mark.parametrize("pipeline", [ONE, SEVERAL, submit(ONE), submit(SEVERAL)])
def test_passing_fault_is_tried_again_in_each_task_of_a_flush_but_those_that_wait_for_the_next(
    pipeline: Pipeline,
) -> None:
    dag = build_flush_dag(pipeline)
    task_ids = {task.task_id for task in dag.tasks}
    require_tries(dag, task_ids - TRIED_ONCE)
    assert [dag.get_task(task_id).retries for task_id in TRIED_ONCE] == [0]


def test_action_is_not_tried_again_as_its_words_may_mean_something_else_by_then() -> None:
    assert build_actions_dag(ONE).get_task("act").retries == 0


def test_passing_fault_is_tried_again_in_the_tasks_that_a_fleet_has_once_for_all() -> None:
    dag = build_fleet_dag("shop", [replace(ONE, fleet="shop"), replace(SEVERAL, fleet="shop")])
    require_tries(dag, TRIED_AS_A_WHOLE)
    assert dag.get_task("compact").retries == 0


@pytest.mark.parametrize(
    ("pipeline", "connection"),
    [(ONE, None), (SEVERAL, None), (submit(ONE), "spark_too"), (submit(SEVERAL), "spark_too")],
)
def test_merge_is_one_task_for_each_table_named_by_it_where_there_are_several(
    pipeline: Pipeline, connection: str | None
) -> None:
    """Without the name, a red square among fifty tables says nothing."""
    merge: Any = build_flush_dag(pipeline).get_task("merge")
    is_mapped = len(pipeline.tables) > 1
    arguments = merge.partial_kwargs if is_mapped else {**vars(merge), "conn_id": getattr(merge, "_conn_id", None)}
    assert merge.is_mapped == is_mapped
    assert merge.map_index_template == ("{{ table }}" if is_mapped else None)
    assert {name: arguments[name] for name in ("verb", "pipeline")} == {"verb": "merge", "pipeline": pipeline.name}
    assert arguments.get("conn_id") == connection
    assert (merge.pool, [outlet.name for outlet in merge.outlets]) == ("tidegate_lake", [f"tidegate_{pipeline.name}"])
    assert arguments["multiple_outputs"]


def test_action_waits_for_no_slot_that_the_flushes_of_its_catalog_hold() -> None:
    """Flushes that hang may hold all of them, and a person wants to help just those."""
    for pipeline in (ONE, submit(ONE)):
        assert build_actions_dag(pipeline).get_task("act").pool == "default_pool"
        assert build_replay_dag(pipeline).get_task("replay").pool == "tidegate_lake"
