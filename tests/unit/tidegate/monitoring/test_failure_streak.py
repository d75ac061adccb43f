"""Failed runs of a flush DAG, one after the other: what counts as the same reason, and when the work is tried again."""

import json
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from tidegate.monitoring.failure_streak import (
        FailedTask,
        Failure,
        FailureStreak,
        can_wait_by_table,
        extend_streak,
        identify_reason,
        needs_pause,
    )

BAD_RECORD_MESSAGE = "topic=orders partition=1 offset=42: score: expected INT, got 1.5; batch=7 attempt=0a1b2c3d4e5f"


def build_streak(runs: int, *, inputs: str = "as they were") -> FailureStreak:
    """A pipeline that fails once a minute, each time for the same reason."""
    streak = None
    for number in range(runs):
        streak = extend_streak(streak, Failure("x", BAD_RECORD_MESSAGE, inputs), f"r{number}", 60.0 * number)
    assert streak is not None
    return streak


@pytest.mark.parametrize(
    ("other_text", "is_same"),
    [
        (BAD_RECORD_MESSAGE.replace("batch=7", "batch=8"), True),
        (BAD_RECORD_MESSAGE.replace("0a1b2c3d4e5f", "ffff2c3d4e5f"), True),
        (BAD_RECORD_MESSAGE.replace("offset=42", "offset=43"), False),
        (BAD_RECORD_MESSAGE.replace("partition=1", "partition=0"), False),
        (BAD_RECORD_MESSAGE.replace("score", "price"), False),
    ],
)
def test_same_reason_is_told_by_its_text_and_the_place_of_its_record(other_text: str, is_same: bool) -> None:
    first, second = (
        identify_reason("", [FailedTask("stage", "BadRecord", text)]) for text in (BAD_RECORD_MESSAGE, other_text)
    )
    assert (first == second) is is_same


def test_reason_depends_on_the_tasks_that_failed_and_not_on_their_order() -> None:
    tasks = [FailedTask("merge", "AuditFailed", "a"), FailedTask("merge", "PositionLost", "b")]
    assert identify_reason("", tasks) == identify_reason("other words", tasks[::-1])
    assert identify_reason("", tasks) != identify_reason("", tasks[:1])
    assert identify_reason("lag=3", []) == identify_reason("lag=4", [])


def test_tables_whose_names_differ_in_digits_alone_fail_for_reasons_of_their_own() -> None:
    first, second, again = (
        FailedTask(
            "merge", "AuditFailed", f"pipeline=shop table=lake.shop.Orders_{table} batch={batch}: 3 rows break it"
        )
        for table, batch in ((1, 7), (2, 8), (1, 9))
    )
    assert identify_reason("", [first]) == identify_reason("", [again])
    assert identify_reason("", [first]) != identify_reason("", [second])
    assert identify_reason("", [first]) != identify_reason("", [first, second])


def test_tables_that_fail_together_fail_for_the_reasons_of_each() -> None:
    failed_task, right = (
        FailedTask("stage", "BadRecord", "a", ("left",)),
        FailedTask("stage", "AuditFailed", "b", ("right",)),
    )
    joined_task = FailedTask("stage", "BadRecord", "a\nb", ("left", "right"))
    assert identify_reason("", [joined_task]) == identify_reason("", [right, failed_task])
    assert identify_reason("", [joined_task]) != identify_reason("", [failed_task])
    unknown = [FailedTask("stage", kind, "see the log of this task") for kind in ("KeyError", "ValueError")]
    assert identify_reason("", unknown[:1]) != identify_reason("", unknown[1:])


def test_streak_survives_the_store_with_the_tables_that_it_left_undone() -> None:
    failed = (
        FailedTask("stage", "BadRecord", "a", ("left", "right")),
        FailedTask("merge", "AuditFailed", "b", ("up",)),
    )
    streak = extend_streak(None, Failure("x", BAD_RECORD_MESSAGE, "", failed), "r1", 10)
    assert json.loads(json.dumps(streak.to_dict())) == streak.to_dict(), "plain data: the store refuses tuples"
    restored_streak = FailureStreak.from_dict(json.loads(json.dumps(streak.to_dict())))
    assert restored_streak == streak
    assert (restored_streak.tables, restored_streak.unstaged_tables) == ({"left", "right", "up"}, {"left", "right"})
    assert FailureStreak.from_dict({**streak.to_dict(), "failed": 7}) is None


@pytest.mark.parametrize(
    ("failed", "can_wait"),
    [
        ([FailedTask("stage", "BadRecord", "a", ("left",))], True),
        ([FailedTask("stage", "BadRecord", "a")], False),
        ([FailedTask("stage", "BadRecord", "a", ("left",)), FailedTask("merge", "RetryLater", "b", ("up",))], False),
        ([FailedTask("plan", "PositionLost", "a", ("left",))], False),
        ([FailedTask("merge", "KeyError", "a", ("left",))], False),
        ([], False),
    ],
)
def test_several_tables_wait_where_each_that_fails_is_known_and_needs_a_person(
    failed: list[FailedTask], can_wait: bool
) -> None:
    assert can_wait_by_table(failed) is can_wait


def test_pauses_double_up_to_half_an_hour() -> None:
    pauses = [streak.retry_at - 60.0 * (streak.runs - 1) for streak in map(build_streak, range(1, 9))]
    assert pauses == [60, 60, 120, 240, 480, 960, 1800, 1800]
    assert build_streak(500).retry_at == 60 * 499 + 1800


def test_first_failure_of_a_reason_is_new_and_its_later_tries_are_not() -> None:
    first = extend_streak(None, Failure("x", BAD_RECORD_MESSAGE), "r1", 10)
    repeated_streak = extend_streak(first, Failure("x", BAD_RECORD_MESSAGE), "r1", 20)
    second = extend_streak(repeated_streak, Failure("x", BAD_RECORD_MESSAGE), "r2", 30)
    other_streak = extend_streak(second, Failure("y", "disk"), "r3", 40)
    assert [streak.is_new for streak in (first, repeated_streak, second, other_streak)] == [True, True, False, True]
    assert [streak.since for streak in (first, repeated_streak, second, other_streak)] == [10, 10, 10, 40]
    assert [streak.runs for streak in (first, repeated_streak, second, other_streak)] == [1, 1, 2, 1]


@pytest.mark.parametrize(("hours", "is_new"), [(0.5, False), (25, False), (49, True)])
def test_equal_failure_is_new_after_two_days_without_a_run(hours: float, is_new: bool) -> None:
    """The pipeline was paused, or flushed by another DAG: whoever was told then has forgotten it, or left."""
    streak = extend_streak(build_streak(9), Failure("x", BAD_RECORD_MESSAGE), "later", 60 * 8 + 3600 * hours)
    assert (streak.is_new, streak.runs) == (is_new, 1 if is_new else 10)
    assert streak.has_earlier


def test_run_waits_until_its_time_unless_something_was_changed() -> None:
    streak = build_streak(3)
    assert streak.must_wait("as they were", streak.retry_at - 1)
    assert not streak.must_wait("as they were", streak.retry_at)
    assert not streak.must_wait("changed", streak.retry_at - 1)
    assert not build_streak(3, inputs="").must_wait("", 0)


def test_run_behind_a_clock_that_was_set_back_waits_no_longer_than_the_longest_pause() -> None:
    streak = build_streak(3)
    assert streak.must_wait("as they were", streak.retry_at - 1800)
    assert not streak.must_wait("as they were", streak.retry_at - 1801)


def test_streak_is_stored_as_plain_data_and_that_of_another_version_is_none() -> None:
    streak = build_streak(4)
    assert FailureStreak.from_dict(streak.to_dict()) == streak
    assert FailureStreak.from_dict({"identity": "x", "unknown": 1}) is None
    assert FailureStreak.from_dict(None) is None


@pytest.mark.parametrize(
    ("failed", "options", "expected"),
    [
        ([FailedTask("stage", "BadRecord", "")], {}, True),
        ([FailedTask("merge", "AuditFailed", "")], {}, True),
        ([FailedTask("merge", "AuditFailed", "")], {"has_published": True}, False),
        ([FailedTask("stage", "RetryLater", "")], {}, False),
        ([FailedTask("stage", "SomeTablesDelayed", "")], {}, False),
        ([FailedTask("stage", "", "")], {}, False),
        ([FailedTask("plan", "PositionLost", "")], {}, False),
        ([FailedTask("stage", "BadRecord", ""), FailedTask("clean_up", "BadRecord", "")], {}, False),
        ([], {}, False),
    ],
)
def test_only_the_whole_work_that_a_person_must_fix_needs_a_pause(
    failed: list[FailedTask], options: dict[str, bool], expected: bool
) -> None:
    assert needs_pause(failed, **{"has_published": False, **options}) is expected
