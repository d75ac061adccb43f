"""Dead letters lie in the first table's namespace: where another table becomes the first, they are not forgotten."""

import logging

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.monitoring.status import read_status
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.source import Errors
from tidegate.steps.flush import flush
from tidegate.steps.heartbeat import heartbeat

ORDERS, SALES = (build_table(name, errors=Errors("all")) for name in ("lake.shop.orders", "lake.sales.orders"))
BEFORE, AFTER = build_pipeline(ORDERS, SALES), build_pipeline(SALES, ORDERS)
TOLD = (
    "pipeline=shop: dead letters=4 wait in table=lake.shop.tidegate_shop_dead_letters, where the first table of the "
    "file lay before, and the pipeline looks for them in table=lake.sales.tidegate_shop_dead_letters; put a table of "
    "lake.shop first in the file again, and replay or discard them"
)


@pytest.fixture
def world() -> World:
    """Two tables in two namespaces, with two dead letters each, in two partitions."""
    made = World()
    made.broker.create("orders", 2)
    for partition in (0, 1):
        made.broker.produce("orders", {"id": f"bad-{partition}"}, BAD, partition)
        made.broker.produce("orders", {"id": f"good-{partition}"}, {"id": f"good-{partition}", "name": "x"}, partition)
    flush(made.build_ports(BEFORE))
    return made


def test_status_and_heartbeat_name_both_places(world: World) -> None:
    assert TOLD in read_status(world.build_ports(AFTER))["warnings"]
    world.clock.tick(3_600_000)
    assert TOLD in heartbeat(world.build_ports(AFTER)).warnings
    assert not [told for told in read_status(world.build_ports(BEFORE))["warnings"] if "dead letters" in told]


def test_replay_that_finds_none_tells_where_others_wait(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert replay_dead_letters(world.build_ports(AFTER)) == []
    assert [record.getMessage() for record in caplog.records].count(TOLD) == 1
    assert [result.tried for result in replay_dead_letters(world.build_ports(BEFORE))] == [2, 2]


def test_letters_that_were_replayed_are_no_reason_to_warn(world: World) -> None:
    world.engine.mended |= {0: {"id": "bad", "name": "mended"}}
    replay_dead_letters(world.build_ports(BEFORE))
    assert not [told for told in read_status(world.build_ports(AFTER))["warnings"] if "dead letters" in told]
