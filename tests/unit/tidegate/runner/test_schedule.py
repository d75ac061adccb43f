"""When work is due."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from fakes import build_pipeline
from fakes.publications import build_publication
from tidegate.runner.schedule import (
    Schedule,
    build_flush_schedule,
    build_heartbeat_schedule,
    build_maintenance_schedule,
    build_publication_schedule,
    build_verify_schedule,
)
from tidegate.spec.pipeline import Heartbeat, Merge, Stage
from tidegate.spec.runtime import Verify

NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("schedule", "last", "now", "due"),
    [
        (Schedule(60), None, NOON, NOON),
        (Schedule(60), NOON, NOON + 1, NOON + 60),
        (Schedule(60), NOON, NOON + 300, NOON + 60),
        (Schedule(60), NOON + 3600, NOON, NOON),  # the clock was set back by an hour
        (Schedule(cron="30 * * * *"), None, NOON, NOON + 1800),
        (Schedule(cron="30 * * * *"), NOON + 1800, NOON + 1801, NOON + 5400),
        (Schedule(60, cron="30 * * * *"), None, NOON, NOON + 1800),
        (Schedule(), None, NOON, None),
        (Schedule(), NOON, NOON + 1e6, None),
        (Schedule(runs_at_start=True), None, NOON, NOON),
        (Schedule(runs_at_start=True), NOON, NOON + 1e6, None),
    ],
)
def test_next_start_follows_from_the_last_one(
    schedule: Schedule, last: float | None, now: float, due: float | None
) -> None:
    assert schedule.find_due(last, now) == due


@pytest.mark.parametrize(
    ("merge", "beat", "schedule"),
    [
        (Merge(interval_seconds=30), 600, Schedule(30)),
        (Merge(cron="5 4 * * *", interval_seconds=86_400), 600, Schedule(None, "5 4 * * *")),
        (Merge(interval_seconds=-1, records_threshold=500), 600, Schedule(600, at_least=500)),
        (Merge(interval_seconds=-1, records_threshold=500), 0, Schedule(600, at_least=500)),
    ],
)
def test_pipeline_without_an_interval_keeps_that_of_its_heartbeat(merge: Merge, beat: int, schedule: Schedule) -> None:
    pipeline = replace(build_pipeline(), merge=merge, heartbeat=Heartbeat(interval_seconds=beat))
    assert build_flush_schedule(pipeline) == schedule


@pytest.mark.parametrize("stage", [Stage(), Stage(10), Stage(cron="* * * * *")], ids=str)
@pytest.mark.parametrize(
    ("merge", "beat", "schedule"),
    [
        (Merge(interval_seconds=30), 600, Schedule()),
        (Merge(interval_seconds=600), 600, Schedule()),
        (Merge(interval_seconds=86_400), 600, Schedule(600)),
        (Merge(interval_seconds=86_400), 0, Schedule(600)),
        (Merge(cron="5 4 * * *", interval_seconds=86_400), 60, Schedule(60)),
        (Merge(interval_seconds=-1, records_threshold=500), 600, Schedule()),
        (Merge(interval_seconds=-1, records_threshold=500), 0, Schedule()),
    ],
)
def test_pipeline_that_flushes_less_often_than_its_heartbeat_beats_by_itself(
    merge: Merge, beat: int, schedule: Schedule, stage: Stage
) -> None:
    """However often it stages."""
    pipeline = replace(build_pipeline(), merge=merge, stage=stage, heartbeat=Heartbeat(interval_seconds=beat))
    assert build_heartbeat_schedule(pipeline) == schedule


def test_first_maintenance_of_a_herd_is_spread_and_the_same_after_each_start() -> None:
    pipelines = [replace(build_pipeline(), name=f"Shop_{number}") for number in range(200)]
    dues = [build_maintenance_schedule(pipeline).find_due(None, NOON + 1, began=NOON) for pipeline in pipelines]
    delays = sorted(due - NOON for due in dues if due is not None)
    assert 8640 <= delays[0] < delays[-1] < 2 * 8640
    assert max(after - before for before, after in pairwise(delays)) < 8640 / 10, "no rush"
    assert sum(delay < 1.5 * 8640 for delay in delays) in range(70, 131)
    assert dues == [build_maintenance_schedule(pipeline).find_due(None, NOON + 1, began=NOON) for pipeline in pipelines]


def test_maintenance_keeps_its_interval_after_the_first_one() -> None:
    schedule = build_maintenance_schedule(build_pipeline())
    assert schedule.find_due(NOON + 8640, NOON + 9000, began=NOON) == NOON + 8640 + 86_400


def test_maintenance_and_verification_without_an_interval_are_never_due() -> None:
    pipeline = build_pipeline()
    never = replace(pipeline, maintenance=replace(pipeline.maintenance, interval_seconds=-1))
    assert build_maintenance_schedule(never) == Schedule()
    assert build_verify_schedule(pipeline) == Schedule(), "nobody has asked for it"
    hourly = replace(pipeline, verify=Verify(3600))
    first = build_verify_schedule(hourly).find_due(None, NOON + 1, began=NOON)
    assert first is not None
    assert 360 <= first - NOON <= 720
    assert build_verify_schedule(hourly).find_due(first, NOON + 5000, began=NOON) == first + 3600


@pytest.mark.parametrize(
    ("words", "schedule"),
    [
        ({}, Schedule(runs_at_start=True)),
        ({"interval_seconds": 60}, Schedule(60)),
        ({"on_table_change": False}, Schedule()),
        ({"on_table_change": False, "interval_seconds": 60}, Schedule(60)),
    ],
)
def test_publication_that_follows_its_tables_looks_for_changes_when_the_process_starts(
    words: dict[str, Any], schedule: Schedule
) -> None:
    assert build_publication_schedule(build_publication(**words)) == schedule
