"""Plans and batches go through JSON between tasks without losing an offset, an id or a partition number."""

import json
from dataclasses import replace

import pytest
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.jobs.statements_job import JobQuestions, StatementsJob
from tidegate.model.batch import Counts, Plan, PlannedBatch, PublishedBatch, Refusal, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route

RANGES = Ranges({"t": {0: (0, 2**53 + 1), 10: (5, 5), 2: (1, 4)}})
SNAPSHOT = 9_007_199_254_740_993  # 2^53 + 1: the first whole number that a browser's JSON cannot hold


def pass_through_json(data: dict) -> dict:
    return json.loads(json.dumps(data))


@pytest.mark.parametrize("attempt", [None, "a1"])
def test_plan_survives_json(attempt: str | None) -> None:
    refusals = (Refusal("lake.a.c", "PositionLost", "table=lake.a.c was rolled back"),)
    plan = Plan((PlannedBatch("lake.a.b", 3, RANGES, attempt),), "cluster", {"t": "id"}, refusals=refusals)
    assert Plan.from_dict(pass_through_json(plan.to_dict())) == plan
    assert plan.tables[0].is_resumed is (attempt is not None)


def test_shortened_plan_is_no_longer_for_a_thousand_batches_than_for_two() -> None:
    queue = [PlannedBatch("lake.a.b", number, RANGES, f"a{number}") for number in range(1000, 2000)]
    new = [PlannedBatch(table, 2000, RANGES) for table in ("lake.a.b", "lake.a.c")]
    whole, short = (Plan((*batches, *new), "cluster", {"t": "id"}) for batches in (queue, [queue[0], queue[-1]]))
    assert whole.shorten() == short.shorten() == short
    assert replace(whole, tables=(queue[0], *new)).shorten().tables == (queue[0], *new)


@pytest.mark.parametrize("uuid", [None, "u-1"])
def test_staged_batch_survives_json(uuid: str | None) -> None:
    counts = Counts(10, 9, 7, 1, 1)
    staged = StagedBatch("lake.a.b", 3, "a1", SNAPSHOT, RANGES, counts, {"t": {10: 99}}, "c", {"t": "i"}, uuid)
    assert StagedBatch.from_dict(pass_through_json(staged.to_dict())) == staged


def build_published_batch(snapshot: int | None) -> PublishedBatch:
    return PublishedBatch(
        table="lake.a.b", batch=3, ranges=RANGES, staged=1, inserted=2, updated=3, deleted=4, seconds=0.5,
        snapshot_id=snapshot, valid_through_ms=None,
    )  # fmt: skip


@pytest.mark.parametrize("snapshot", [None, SNAPSHOT])
def test_published_batch_survives_json(snapshot: int | None) -> None:
    published = build_published_batch(snapshot)
    assert PublishedBatch.from_dict(pass_through_json(published.to_dict())) == published


def test_snapshot_ids_are_text_as_a_browser_would_round_them() -> None:
    staged = StagedBatch("lake.a.b", 3, "a1", SNAPSHOT, RANGES, Counts())
    assert staged.to_dict()["snapshot_id"] == str(SNAPSHOT)
    assert build_published_batch(SNAPSHOT).to_dict()["snapshot_id"] == str(SNAPSHOT)


def test_counts_that_add_up_need_no_explanation() -> None:
    counts = Counts(span=12, read=10, staged=7, ignored=2, filtered=1)
    assert (counts.explain_imbalance(), counts.gaps) == (None, 2)


@pytest.mark.parametrize(
    "counts",
    [
        Counts(span=10, read=10, staged=9),  # a record vanished
        Counts(span=10, read=10, staged=11),  # a record was doubled
        Counts(span=10, read=11, staged=11),  # more records than offsets
        Counts(span=10, read=10, staged=9, filtered=1, ignored=1),
    ],
)
def test_records_that_do_not_add_up_are_named(counts: Counts) -> None:
    assert f"span=10 read={counts.read} staged={counts.staged}" in (counts.explain_imbalance() or "")


def test_stage_job_survives_the_command_line() -> None:
    table = StageTable(
        intermediate="lake.a.b_p_tmp",
        attempt="a1",
        key=KeyFormat("json", ("id", "ä`b"), "k_"),
        key_columns=(Column("k_id", "BIGINT"), Column("k_ä`b", "STRING", False)),
        value=ValueFormat("debezium-json", None, "EXCEPT_KEY", "millis"),
        value_columns=(Column("it's", "DECIMAL(10,2)"),),
        metadata={"ts": "timestamp"},
        ignore_deletes=True,
        when="a = 'x\"y'",
        route=Route("t`y", None, ("a.b", "b")),
        delete_when=None,
        summary={"tidegate.batch": "3"},
        property="tidegate.staged.a1",
        create=("CREATE NAMESPACE `a`", "CREATE TABLE `b`"),
        verified=("id",),
    )
    job = StageJob("p", 3, RANGES, "read_committed", (table,))
    assert StageJob.from_json(job.to_json()) == job


def test_statements_job_survives_the_command_line() -> None:
    questions = JobQuestions(("SELECT 1", "SELECT 2"), "lake.shop.orders_p_tmp", "tidegate.audit.a1", "a2")
    job = StatementsJob("p", 3, ("MERGE\nINTO `ä`", "SELECT 'it''s'"), {"spark.x": "{}"}, questions)
    assert StatementsJob.from_json(job.to_json()) == job
