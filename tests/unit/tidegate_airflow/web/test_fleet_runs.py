"""What of a fleet's DAG the page takes for one member's state."""

from dataclasses import replace
from typing import Any

import pytest
from tidegate.monitoring.failure_streak import FailedTask, Failure, extend_streak
from tidegate_airflow.web.airflow_runs import DagStatus, join_clocks, narrow_status

ENDED = "2026-01-01T12:00:00.000Z"
ENDED_SECONDS = 1767268800.0
RED = DagStatus(
    dag_id="tidegate_fleet_shop",
    paused=False,
    next_run=None,
    last={"run_id": "r", "state": "failed", "ended": ENDED},
    failed="heartbeat failed: pipeline=users: stage failed",
    running=True,
    refused_at=1.0,
    is_fixed=True,
)


def build_streaks(*failed: FailedTask) -> dict[str, Any]:
    failure = Failure("x", "\n".join(refusal.message for refusal in failed), failed_tasks=failed)
    return {"flush_failures": extend_streak(None, failure, "r", 1.0).to_dict()}


def test_member_without_failures_of_its_own_is_well_in_a_red_run() -> None:
    status = narrow_status(RED, {}, is_busy=False)
    assert (status.failed, status.running, status.refused_at, status.is_fixed) == (None, False, None, False)
    assert (status.dag_id, status.last) == (RED.dag_id, RED.last)


def test_member_s_own_failures_are_its_reason() -> None:
    late = {"freshness_failures": extend_streak(None, Failure("late", "behind=90s"), "r", 1.0).to_dict()}
    status = narrow_status(RED, build_streaks(FailedTask("stage", "BadRecord", "a bad record")) | late, is_busy=True)
    assert (status.failed, status.running) == ("a bad record; behind=90s", True)


@pytest.mark.parametrize(
    ("failed", "refused_at"),
    [
        ([FailedTask("plan", "PositionLost", "gone")], ENDED_SECONDS),
        ([FailedTask("plan", "RetryLater", "away")], None),
        ([FailedTask("plan", "PositionLost", "gone"), FailedTask("merge", "AuditFailed", "no")], None),
        ([], None),
    ],
)
def test_member_whose_plan_alone_refused_the_position_is_judged_by_a_later_reading(
    failed: list[FailedTask], refused_at: float | None
) -> None:
    assert narrow_status(RED, build_streaks(*failed), is_busy=False).refused_at == refused_at


def test_what_another_version_left_hides_nothing() -> None:
    assert narrow_status(RED, {"flush_failures": {"colour": "red"}}, is_busy=False).failed is None


def test_pipeline_with_two_clocks_is_red_where_only_its_staging_fails() -> None:
    merges = replace(RED, failed=None, refused_at=None, is_fixed=False)
    stage = replace(RED, dag_id="tidegate_shop_stage", failed="stage failed: a bad record")
    both = join_clocks(merges, stage)
    assert (both.dag_id, both.failed, both.is_fixed) == (merges.dag_id, "stage failed: a bad record", True)
    assert join_clocks(RED, stage) == RED, "what fails in merges says more"
    assert join_clocks(merges, replace(stage, failed=None)) == join_clocks(merges, None) == merges


@pytest.mark.parametrize(
    "text", ["plan failed: see the log of the task", "plan failed and will be tried again: brokers do not answer"]
)
def test_every_member_is_red_where_the_plan_of_all_failed(text: str) -> None:
    red = replace(RED, failed=text, is_fixed=False)
    assert narrow_status(red, {}, is_busy=False).failed == text
    own = narrow_status(red, build_streaks(FailedTask("merge", "AuditFailed", "no")), is_busy=False)
    assert own.failed == "no", "its own failure says more"
    assert narrow_status(replace(red, is_fixed=True), {}, is_busy=False).failed is None


def test_pipeline_with_two_clocks_is_paused_where_one_of_them_is() -> None:
    """The DAG of staging is new when `stage.interval` is added, and Airflow pauses it: nothing is read."""
    merges = replace(RED, failed=None)
    stage = replace(RED, dag_id="tidegate_shop_stage", failed=None)
    for flush_paused, stage_paused in ((False, False), (True, False), (False, True)):
        both = join_clocks(replace(merges, paused=flush_paused), replace(stage, paused=stage_paused))
        assert both.paused == (flush_paused or stage_paused)
