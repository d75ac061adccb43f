"""merge, later: what changes between plan, merge and its retry, and what many batches leave behind."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from fakes.orders import NAME, make_orders, read_orders, send_orders
from tidegate.errors import RetryLater, TidegateError
from tidegate.flush.clean_up import CleanUpReport, clean_up
from tidegate.flush.flush import flush
from tidegate.flush.merge_queue import merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import StagedBatch
from tidegate.reprocess.rebase import propose_rebase
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline

PIPELINE = build_pipeline()


world = pytest.fixture(make_orders)


def stage_next(world: World, pipeline: Pipeline = PIPELINE) -> StagedBatch:
    session = world.open_session(pipeline)
    (batch,) = stage(session, plan(session))
    return batch


def publish(world: World, batch: StagedBatch, pipeline: Pipeline = PIPELINE, **options: Any) -> None:
    _ = merge_queue(world.open_session(pipeline, **options), [batch]).total


def test_batch_of_before_a_rebase_is_not_published_after_it(world: World) -> None:
    batch = stage_next(world)
    with pytest.raises(RetryLater):
        publish(world, batch, engine=FailsToMerge(world.engine, NAME))
    world.broker.delete("orders")
    world.broker.create("orders", 2)
    send_orders(world, *((key, "new") for key in "abcde"))
    propose_rebase(world.open_session(PIPELINE), "earliest").perform("ann")
    state = world.destination.read_state(NAME, "shop")
    with pytest.raises(TidegateError):
        publish(world, batch)
    assert world.destination.read_state(NAME, "shop") == state
    assert read_orders(world) == {}
    flush(world.open_session(PIPELINE))
    assert read_orders(world) == dict.fromkeys("abcde", "new")


def test_audit_that_was_added_before_the_retry_is_asked(world: World) -> None:
    batch = stage_next(world)
    audit = "name <> '2'"
    world.engine.conditions[audit] = lambda row: row["name"] != "2"
    changed = replace(PIPELINE, tables=(replace(PIPELINE.tables[0], audits=(audit,)),))
    with pytest.raises(TidegateError, match="name <> '2'"):
        publish(world, batch, changed)
    assert read_orders(world) == {}


def build_pipeline_without_columns() -> Pipeline:
    table = build_table()
    return build_pipeline(replace(table, value=replace(table.value, columns=None)))


def test_columns_come_from_the_destination_where_the_file_names_none(world: World) -> None:
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    flush(world.open_session(build_pipeline_without_columns()))
    assert read_orders(world) == {"a": "2", "b": "1"}


def test_compaction_becomes_due_once_in_ten_batches_however_many_runs_and_other_writers_come_between(
    world: World, clean_up_reports: list[CleanUpReport]
) -> None:
    due = []
    for number in range(25):
        send_orders(world, ("c", str(number)))
        flush(world.open_session(PIPELINE))
        world.destination.append_foreign_rows(NAME, {"id": "z", "name": str(number)})
        (idle_report,) = clean_up(world.open_session(PIPELINE))
        due += [(clean_up_reports[-1].needs_compaction, idle_report.needs_compaction)]
    assert [number for number, (is_due, _) in enumerate(due, 1) if is_due] == [10, 20]
    assert not any(is_due for _, is_due in due)


def test_writer_that_never_rests_costs_an_appending_batch_no_second_job(world: World) -> None:
    pipeline = build_pipeline(build_table(mode="append"))
    flush(world.open_session(pipeline))
    send_orders(world, ("c", "1"))
    batch, count = stage_next(world, pipeline), list[int]()
    run = world.engine.run

    def write_beside(job: Any) -> None:
        count.append(1)
        world.destination.append_foreign_rows(NAME, {"id": "z", "name": str(len(count))})
        run(job)

    world.engine.run = write_beside  # type: ignore[method-assign]
    publish(world, batch, pipeline)
    assert (len(count), read_orders(world)) == (1, {"a": "2", "b": "1", "c": "1", "z": "1"})
    table = world.destination.tables[NAME]
    summary = table.snapshots[table.refs["main"]].summary
    assert summary["tidegate.shop.timestamps"] == table.properties["tidegate.shop.timestamps"]
