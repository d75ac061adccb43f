"""What a verification has found is read back wherever people look, and records that were left out make no row wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tidegate.cli.output import format_status
from tidegate.errors import HeldForApproval, SomeTablesFailed, Unverifiable
from tidegate.flush.flush import flush
from tidegate.jobs.stage_job import StageJob
from tidegate.monitoring.status import read_status
from tidegate.reprocess.approve import propose_reject
from tidegate.reprocess.rebase import propose_moves, rebase_position
from tidegate.reprocess.verify import Difference, verify_all, verify_table
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Approve
from tidegate_airflow.web.openmetrics import render_openmetrics
from tidegate_airflow.web.overview_cache import OverviewCache
from tidegate_airflow.web.pipeline_contexts import PipelineContext

ORDERS, COPY = "lake.shop.Orders", "lake.shop.copy"
PIPELINE = build_pipeline(build_table(ORDERS), build_table(COPY))
NOTHING_WRONG = {"missing": 0, "surplus": 0, "different": 0, "unknowable": 0}


@pytest.fixture
def world() -> World:
    """Two tables of one topic, three keys each."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, a="1", b="1", c="1")
    flush(world.open_session(PIPELINE))
    world.broker.forget = lambda: None  # type: ignore[attr-defined]
    world.broker.learn = lambda places: None  # type: ignore[attr-defined]
    return world


def produce(world: World, **names: str | None) -> None:
    for key, name in names.items():
        value = None if name is None else {"id": key, "name": name}
        world.broker.produce("orders", {"id": key}, value, ord(key) % 2)


class Page:
    """The page of one pipeline, as it is looked at once."""

    def __init__(self, world: World, pipeline: Pipeline) -> None:
        self._context = PipelineContext((), world.open_session(pipeline))

    def list_names(self) -> list[str]:
        return ["shop"]

    def find_place(self, name: str) -> tuple[object, ...]:
        return ()

    def get_context(self, name: str) -> PipelineContext:
        return self._context

    def read_row(self) -> Any:
        return {**OverviewCache(self).get_rows(patience=60)["shop"], "state": "current"}  # type: ignore[arg-type]


def read_everywhere(world: World) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
    """By table what status says, what the page says, and the metric."""
    status = {table["table"]: table["verified"] for table in read_status(world.open_session(PIPELINE))["tables"]}
    row = Page(world, PIPELINE).read_row()
    families = text_string_to_metric_families(render_openmetrics([row]))
    metric = {
        sample.labels["table"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "tidegate_verified_differences"
    }
    return status, {table["table"]: table["verified"] for table in row["tables"]}, metric


def test_result_is_read_back_by_status_the_page_and_the_metric_until_another_one_replaces_it(world: World) -> None:
    assert read_everywhere(world) == ({ORDERS: None, COPY: None}, {ORDERS: None, COPY: None}, {})
    wrong_rows = ({"id": "a", "name": "wrong"}, {"id": "b", "name": "1"}, {"id": "z", "name": "nobody's"})
    world.destination.add_snapshot(COPY, "main", wrong_rows, {})
    with pytest.raises(SomeTablesFailed, match="missing=1 different=1 surplus=1; see them") as failure:
        verify_all(world.open_session(PIPELINE))
    orders, copy = failure.value.published
    assert (orders.wrong, orders.equal, copy.equal) == (0, 3, 1)
    assert copy.differences[0] == Difference("different", '{"id": "a"}', "name", "wrong", "1")
    assert [(found.kind, found.key) for found in copy.differences[1:]] == [
        ("missing", '{"id": "c"}'),
        ("surplus", '{"id": "z"}'),
    ]
    status, page, metric = read_everywhere(world)
    expected = {
        ORDERS: {**NOTHING_WRONG, "equal": 3},
        COPY: {**NOTHING_WRONG, "equal": 1, "missing": 1, "surplus": 1, "different": 1},
    }
    assert status == page
    assert {name: {kind: found[kind] for kind in expected[name]} for name, found in status.items()} == expected
    assert status[COPY]["position"] == copy.position
    assert metric == {ORDERS: 0, COPY: 3}
    line = f"{COPY}: equal=1 missing=1 surplus=1 different=1 unknowable=0"
    assert line in format_status(read_status(world.open_session(PIPELINE)))

    right_rows = tuple(world.read_rows(ORDERS))
    world.destination.add_snapshot(COPY, "main", right_rows, {})
    assert [found.wrong for found in verify_all(world.open_session(PIPELINE))] == [0, 0]
    status, page, metric = read_everywhere(world)
    assert status == page
    assert [found["equal"] for found in status.values()] == [3, 3]
    assert metric == {ORDERS: 0, COPY: 0}


RULED = build_pipeline(build_table(ORDERS, approve=Approve(deletes_over=0)))


def reject_held_batch(world: World) -> None:
    with pytest.raises(HeldForApproval):
        flush(world.open_session(RULED))
    propose_reject(world.open_session(RULED), skip=True).perform("bob")


def move_to_the_end(world: World) -> None:
    session = world.open_session(RULED)
    (move,) = propose_moves(session, "latest")
    rebase_position(session, move, "bob")


def move_one_partition(world: World) -> None:
    session = world.open_session(RULED)
    (move,) = propose_moves(session, '{"orders": {"0": 2}}')
    rebase_position(session, move, "bob")


@pytest.mark.parametrize(
    ("leave_out", "start", "equal", "unknowable"),
    [
        (reject_held_batch, {0: 2, 1: 4}, 1, 3),
        (move_to_the_end, {0: 2, 1: 4}, 1, 3),
        (move_one_partition, {0: 2, 1: 0}, 3, 1),
    ],
)
def test_records_that_were_left_out_are_unknowable_and_never_wrong(
    world: World, leave_out: Callable[[World], None], start: dict[int, int], equal: int, unknowable: int
) -> None:
    """`b` is on partition 0, the others on 1. An update, a delete and an insert are left out."""
    produce(world, b="left out", a=None, e="left out")
    leave_out(world)
    with pytest.raises(Unverifiable, match="the position was moved by hand"):
        verify_table(world.open_session(RULED), ORDERS)
    produce(world, g="later")
    flush(world.open_session(build_pipeline(build_table(ORDERS))))
    jobs = len(world.engine.jobs)
    found = verify_table(world.open_session(RULED), ORDERS)
    (job,) = [job for job in world.engine.jobs[jobs:] if isinstance(job, StageJob)]
    assert job.ranges.start == {"orders": start}
    assert (found.wrong, found.equal, found.unknowable) == (0, equal, unknowable)
    assert found.limits == tuple(
        f"topic=orders partition={partition}: records are read as today from offset={offset} on"
        for partition, offset in start.items()
        if offset
    )
    rows = tuple({**row, "name": "wrong"} if row["id"] == "g" else row for row in world.read_rows(ORDERS))
    world.destination.add_snapshot(ORDERS, "main", rows, {})
    found = verify_table(world.open_session(RULED), ORDERS)
    assert (found.different, found.wrong, found.unknowable) == (1, 1, unknowable)
