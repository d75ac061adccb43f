"""Audits: a batch that breaks one is not published, stays staged, and is tried again."""

from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import AuditFailed, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import PublishOutcome, StagedBatch

NAME, INTERMEDIATE = "lake.shop.orders", "lake.shop.orders_shop_tmp"
NAME_AUDIT, COUNT_AUDIT = "name <> ''", "SELECT count(*) < 3 FROM {table}"


def build_audited_pipeline(*audits: str, mode: str = "upsert_delete"):
    return build_pipeline(build_table(NAME, mode, audits=audits))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.engine.conditions = {
        NAME_AUDIT: lambda row: bool(row["name"]),
        COUNT_AUDIT: lambda rows: len(rows) < 3,
        "true": lambda _: True,
    }
    return world


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def test_batch_that_breaks_an_audit_is_not_published_and_stays_staged(world: World) -> None:
    produce(world, "a", "x")
    flush(world.open_session(build_audited_pipeline(NAME_AUDIT)))
    for key, name in (("b", ""), ("c", ""), ("d", "y")):
        produce(world, key, name)
    with pytest.raises(AuditFailed, match=r"audit=name <> '' does not hold: rows=2; nothing was published"):
        flush(world.open_session(build_audited_pipeline(NAME_AUDIT)))
    assert world.read_rows(NAME) == [{"id": "a", "name": "x"}]
    assert [staged.batch for staged in world.destination.list_staged(INTERMEDIATE, NAME)] == [2]
    assert not [ref for ref in world.destination.tables[NAME].refs if ref.startswith("tidegate_shop_")]
    stages = len(world.engine.stages)
    flush(world.open_session(build_audited_pipeline("true")))
    assert len(world.read_rows(NAME)) == 4
    assert len(world.engine.stages) == stages  # what was staged was resumed, not read again


def test_query_looks_at_the_whole_branch_before_it_is_published(world: World) -> None:
    for batch in ("ab", "c"):
        for key in batch:
            produce(world, key, key)
        if batch == "ab":
            flush(world.open_session(build_audited_pipeline(COUNT_AUDIT)))
    with pytest.raises(AuditFailed, match=r"audit=SELECT count\(\*\) < 3 FROM \{table\} does not hold;"):
        flush(world.open_session(build_audited_pipeline(COUNT_AUDIT)))
    assert len(world.read_rows(NAME)) == 2


def test_every_broken_audit_is_named(world: World) -> None:
    for key in "abc":
        produce(world, key, "")
    with pytest.raises(AuditFailed, match=r"rows=3; audit=SELECT"):
        flush(world.open_session(build_audited_pipeline(NAME_AUDIT, COUNT_AUDIT)))


@pytest.mark.parametrize("mode", ["upsert_delete", "upsert", "delete", "append"])
def test_condition_is_asked_of_the_rows_that_the_mode_writes(world: World, mode: str) -> None:
    produce(world, "a", "")
    produce(world, "a", "x" if mode.startswith("upsert") else None)
    if mode == "append":
        with pytest.raises(AuditFailed, match="rows=1"):
            flush(world.open_session(build_audited_pipeline(NAME_AUDIT, mode=mode)))
    else:
        flush(world.open_session(build_audited_pipeline(NAME_AUDIT, mode=mode)))


def test_soft_deleted_row_is_asked_as_it_stands_on_the_branch(world: World) -> None:
    pipeline = build_pipeline(build_table(NAME, audits=(NAME_AUDIT,), deletes="soft"))
    produce(world, "a", "")
    produce(world, "a", None)
    with pytest.raises(AuditFailed, match="rows=1"):
        flush(world.open_session(pipeline))


def test_batch_without_rows_asks_nothing(world: World) -> None:
    produce(world, "a", None)
    flush(world.open_session(build_audited_pipeline(NAME_AUDIT, mode="upsert")))
    assert not world.engine.merges


def test_answers_of_another_attempt_are_not_taken_for_ours(world: World) -> None:
    produce(world, "a", "x")

    def elsewhere(call: str, moment: str) -> None:
        if (call, moment) == ("staging.read_job_answers", "before"):
            properties = world.destination.tables[INTERMEDIATE].properties
            for name in [n for n in properties if n.startswith("tidegate.audit.")]:
                properties[name] = properties[name].replace("attempt2", "other")

    with pytest.raises(RetryLater, match="the audits have no answer"):
        flush(world.open_session(build_audited_pipeline(NAME_AUDIT), elsewhere))
    assert not world.read_rows(NAME)


def test_audit_that_fails_because_this_very_batch_was_published_meanwhile_is_no_failure(world: World) -> None:
    """The other task's publish removes this one's branch: what Spark says of that is not the reason."""
    produce(world, "a", "x")
    session = world.open_session(build_audited_pipeline(NAME_AUDIT))
    (staged,) = stage(session, plan(session))
    engine = GoneBranch(world, staged)
    result = merge(world.open_session(build_audited_pipeline(NAME_AUDIT), engine=engine), staged)
    assert (result.outcome, world.read_rows(NAME)) == (PublishOutcome.ALREADY_PUBLISHED, [{"id": "a", "name": "x"}])


class GoneBranch:
    """A Spark in whose merge another task publishes the same batch, so that the branch is gone when it is asked."""

    def __init__(self, world: World, staged: StagedBatch) -> None:
        self.world, self.staged = world, staged

    def run(self, job: Any) -> None:
        self.world.engine.run(job)
        if getattr(job, "questions", None) is not None:
            merge(self.world.open_session(build_audited_pipeline(NAME_AUDIT)), self.staged)
            raise AuditFailed("it has no answer: [TABLE_OR_VIEW_NOT_FOUND]")


def test_answers_leave_with_their_batch(world: World) -> None:
    produce(world, "a", "x")
    flush(world.open_session(build_audited_pipeline(NAME_AUDIT)))
    assert not [name for name in world.destination.tables[INTERMEDIATE].properties if "audit" in name]
