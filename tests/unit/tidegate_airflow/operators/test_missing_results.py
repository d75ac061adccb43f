"""Tasks behind one that a person has marked as success in Airflow's UI: it has left no result."""

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from fakes.task_instance import PushedResults
from tidegate.lineage.dataset import TaskLineage
from tidegate_airflow import errors, tasks
from tidegate_airflow.dags import backfill, flush_run
from tidegate_airflow.operators.step import MEMBER_STEPS, StepOperator


def run_step(verb: str) -> Callable[[Any], Any]:
    return lambda context: StepOperator(task_id=verb, verb=verb, pipeline="shop", given=None).execute(context)


def run_member(verb: str) -> Callable[[Any], Any]:
    return lambda context: MEMBER_STEPS[verb](context, "fleet_shop", None, {})


@pytest.mark.parametrize(
    ("run", "before"),
    [
        (run_step("stage"), "plan"),
        (run_step("merge"), "stage"),
        (run_member("stage"), "plan"),
        (run_member("merge"), "stage"),
        (run_member("compact"), "clean_up"),
        (lambda _: tasks.run_compact("shop", None), "clean_up"),
        (lambda _: flush_run.check_freshness(None, "shop", 60), "heartbeat"),
        (lambda _: backfill.drop_backfill_tables("shop", None), "plan"),
    ],
)
def test_task_behind_one_that_was_marked_as_success_says_so_and_is_not_tried_again(
    run: Callable[[Any], Any], before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context: Any = {"ti": PushedResults()}
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(AirflowFailException, match=f"task={before} .*clear task={before}"):
        run(context)
    assert context["ti"].pushed["error"]["error"] == "GiveUp"
    assert f"task={before}" in context["ti"].pushed["error"]["message"]


def test_merge_behind_a_stage_that_staged_nothing_is_skipped() -> None:
    """Of a stage that was cleared after its batch had been staged, and others behind it: the next run merges them."""
    operator = StepOperator(task_id="merge", verb="merge", pipeline="shop", given=[])
    context: Any = {"ti": PushedResults(), "task": operator}
    with pytest.raises(AirflowSkipException, match="pipeline=shop: nothing was staged in this run"):
        operator.execute(context)
    assert operator.trace_lineage() == TaskLineage()


@pytest.mark.parametrize("given", [{"tables": [], "left": 0}, ("tables", []), ("left", 0)])
def test_merge_of_a_run_whose_file_got_a_clock_of_staging_meanwhile_leaves_its_work_to_the_next_run(given: Any) -> None:
    """It is given the plan, of several tables an entry of it, in place of a queue."""
    operator = StepOperator(task_id="merge", verb="merge", pipeline="shop", given=given)
    context: Any = {"ti": PushedResults(), "task": operator}
    with pytest.raises(AirflowSkipException, match="pipeline=shop: nothing was staged in this run; what waits is merg"):
        operator.execute(context)
    assert operator.trace_lineage() == TaskLineage()


def test_stage_of_a_run_whose_file_lost_its_clock_of_staging_meanwhile_leaves_its_work_to_the_next_run() -> None:
    operator = StepOperator(task_id="stage", verb="stage", pipeline="shop", given=[{"table": "t", "batches": []}])
    with pytest.raises(AirflowSkipException, match="pipeline=shop: this run planned merges alone"):
        operator.execute({"ti": PushedResults(), "task": operator})  # type: ignore[typeddict-item]


def test_freshness_of_a_run_whose_heartbeat_measured_nothing_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow adds the task to an older run of which a task is cleared, once the file has a `freshness_target`."""
    monkeypatch.setattr(flush_run, "get_current_context", dict)
    with pytest.raises(AirflowSkipException, match="before the file had a freshness_target"):
        flush_run.check_freshness({"measures": {}, "measured_at": 1.0}, "shop", 60)
