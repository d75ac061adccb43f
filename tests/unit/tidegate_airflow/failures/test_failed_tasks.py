"""What of Airflow's failed tasks the page takes for the pipeline's state."""

from typing import Any

import pytest
from tidegate_airflow.failures.failed_tasks import describe_failures, find_refused_position, is_fixed

NOON, LATER = "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:05.500Z"
NOON_SECONDS = 1767268800.0


def build_error(task: str, kind: str, at: str = NOON, dag: str = "tidegate_a", **options: Any) -> dict[str, Any]:
    failed_task = {"dag_id": dag, "run_id": "last", "task_id": task, "error": kind, "tasks": None, **options}
    return {**failed_task, "message": f"{task}: {kind}", "state": "failed", "at": at}


@pytest.mark.parametrize(
    ("errors", "refused_at"),
    [
        ([build_error("heartbeat", "GiveUp", LATER), build_error("plan", "PositionLost")], NOON_SECONDS),
        (
            [build_error("plan", "PositionLost", LATER), build_error("plan", "PositionLost", dag="tidegate_b")],
            NOON_SECONDS + 5.5,
        ),
        ([build_error("plan", "Waiting")], None),
        ([build_error("plan", "RetryLater")], None),
        ([build_error("merge", "SomeTablesFailed"), build_error("plan", "PositionLost")], None),
        ([build_error("heartbeat", "GiveUp")], None),
        ([build_error("plan", "PositionLost", dag="tidegate_b")], None),
    ],
)
def test_only_a_run_whose_plan_refused_the_position_is_judged_by_a_later_reading(
    errors: list[dict[str, Any]], refused_at: float | None
) -> None:
    assert find_refused_position("tidegate_a", errors) == refused_at


def test_task_that_failed_by_itself_is_named_before_the_one_that_is_red_because_of_it() -> None:
    runs = [{"dag_id": f"tidegate_{name}", "run_id": "r", "state": "failed"} for name in ("a", "b")]
    errors = [
        build_error("complete_1", "GiveUp", LATER),
        build_error("heartbeat", "GiveUp", LATER),
        build_error("plan", "PositionLost"),
    ]
    assert describe_failures(runs, errors) == {
        "tidegate_a": "plan failed: plan: PositionLost",
        "tidegate_b": "run r failed",
    }


RED = build_error("heartbeat", "SomeTablesFailed")  # as each failed run ends


@pytest.mark.parametrize(
    ("errors", "succeeded", "fixed"),
    [
        ([build_error("stage", "BadRecord"), RED], {"now": {"plan", "stage"}}, True),
        ([build_error("stage", "BadRecord"), RED], {"now": {"plan"}}, False),
        (
            [build_error("stage", "BadRecord"), build_error("commit_offsets", "RetryLater"), RED],
            {"now": {"plan", "stage"}},
            False,
        ),
        (
            [build_error("plan", "Waiting", tasks=["stage"]), RED],
            {"now": {"plan"}},
            False,
        ),  # nothing was tried in that run
        ([build_error("plan", "Waiting", tasks=["stage"]), RED], {"now": {"plan", "stage"}}, True),
        (
            [build_error("stage", "BadRecord"), build_error("merge", "RetryLater", run_id="now")],
            {"now": {"plan", "stage"}},
            False,
        ),
        ([build_error("complete", "RetryLater"), build_error("stage", "BadRecord")], {"now": {"plan", "stage"}}, True),
        ([build_error("complete", "RetryLater")], {"now": {"plan", "stage"}}, False),
        ([build_error("stage", "BadRecord"), RED], {}, False),
        ([RED], {"now": {"plan", "stage", "merge"}}, False),
        ([build_error("stage", "BadRecord", dag="tidegate_b")], {"now": {"plan", "stage"}}, False),
    ],
)
def test_failure_is_over_when_what_failed_has_succeeded_in_the_run_under_way(
    errors: list[dict[str, Any]], succeeded: dict[str, set[str]], fixed: bool
) -> None:
    assert is_fixed("tidegate_a", errors, succeeded) is fixed
