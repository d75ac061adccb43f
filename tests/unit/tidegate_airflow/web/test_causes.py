"""What of Airflow's failed tasks the page takes for the pipeline's state."""

from typing import Any

import pytest
from tidegate_airflow.web.task_errors import describe_failures, find_refused_position, group_causes, is_fixed

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


def fail(task: str, message: str, run: str, error: str = "RetryLater", dag: str = "tidegate_a") -> dict[str, Any]:
    task_place = {"dag_id": dag, "run_id": run, "task_id": task, "map_index": -1, "state": "failed", "at": NOON}
    return {**task_place, "error": error, "message": message, "runbook": "server-down"}


def show_causes(errors: list[dict[str, Any]], *failing: str) -> list[tuple[str, bool, list[str]]]:
    causes = group_causes(errors, failing, ["tidegate_a_actions"])
    return [(cause["fact"], cause["is_over"], [task["run_id"] for task in cause["tasks"]]) for cause in causes]


def test_tasks_that_failed_for_one_cause_are_one_and_those_that_only_follow_are_left_out() -> None:
    slow = "pipeline=a table=lake.shop.B batch={}: no answer for {} s; see the server"
    errors = [
        fail("heartbeat", "pipeline=a: stage failed", "r3", "SomeTablesFailed"),
        fail("stage", slow.format(9, 31), "r3"),
        fail("stage", slow.format(8, 33), "r2"),
        fail("merge", "pipeline=a table=lake.shop.B batch=7: the audit does not hold; correct it", "r1", "AuditFailed"),
        fail("heartbeat", "offsets are kept, but the group has a member", "r0"),
    ]
    assert show_causes(errors, "tidegate_a") == [
        ("no answer for 31 s", False, ["r3", "r2"]),
        ("the audit does not hold", True, ["r1"]),
        ("offsets are kept, but the group has a member", True, ["r0"]),
    ]
    assert {over for _, over, _ in show_causes(errors)} == {True}


def test_a_form_that_was_filled_in_wrong_is_no_failure_of_the_pipeline() -> None:
    mistyped = fail("act", "to=soon: not a time; write one", "r1", "ConfigurationError", "tidegate_a_actions")
    refused = fail("act", "the effect has changed since the preview; look again", "r2", "GiveUp", "tidegate_a_actions")
    wrong_file = fail("plan", "the file is wrong; correct it", "r3", "ConfigurationError")
    facts = [fact for fact, _, _ in show_causes([wrong_file, refused, mistyped])]
    assert facts == ["the file is wrong", "the effect has changed since the preview"]
    newest_first = [mistyped, {**refused, "run_id": "r0"}]
    assert show_causes(newest_first, "tidegate_a_actions") == [
        ("the effect has changed since the preview", True, ["r0"])
    ]


def test_each_bad_record_is_a_cause_of_its_own_and_tasks_without_a_reason_are_told_apart() -> None:
    bad = (
        "1 record cannot be decoded; the first: topic=a partition=0 offset={} reason=no JSON; nothing was merged; skip"
    )
    errors = [fail("stage", bad.format(at), f"r{at}") for at in (7, 7, 8)]
    errors += [fail(task, "", "r0") for task in ("stage", "merge")]
    assert [len(runs) for _, _, runs in show_causes(errors)] == [2, 1, 1, 1]
