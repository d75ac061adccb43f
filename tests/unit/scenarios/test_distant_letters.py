"""Dead letters lie in the first table's namespace: where another table becomes the first, they are not forgotten."""

import logging
from types import SimpleNamespace

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.diagnosis.finding import Severity
from tidegate.errors import GiveUp
from tidegate.monitoring.details import find_warnings
from tidegate.monitoring.status import read_status
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.steps.flush import flush
from tidegate.steps.heartbeat import heartbeat
from tidegate.tables.distant_tables import MAX_NAMESPACES
from tidegate.wiring.diagnosis.tables import _check_position

ORDERS, SALES = (build_table(name, errors=Errors("all")) for name in ("lake.shop.orders", "lake.sales.orders"))
BEFORE, AFTER = build_pipeline(ORDERS, SALES), build_pipeline(SALES, ORDERS)
TOLD = (
    "pipeline=shop: dead letters=4 wait in table=lake.shop.tidegate_shop_dead_letters, where the first table of the "
    "file lay before, and the pipeline looks for them in table=lake.sales.tidegate_shop_dead_letters; put a table of "
    "lake.shop first in the file again, and replay or discard them"
)


ALONE = build_pipeline(SALES)
TOLD_OF_UNNAMED = (
    "pipeline=shop: dead letters=2 wait in table=lake.shop.tidegate_shop_dead_letters, where the first table of the "
    "file lay before, and the pipeline looks for them in table=lake.sales.tidegate_shop_dead_letters; move their rows "
    "there with SQL (docs/operations.md#dead-letters), or put a table of lake.shop first in the file again, and replay "
    "or discard them"
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


def list_told(world: World, pipeline: Pipeline = ALONE) -> list[str]:
    """What status, the page and the doctor say of dead letters."""
    ports = world.build_ports(pipeline)
    told = [one for one in read_status(ports)["warnings"] if "dead letters" in one]
    assert [one for one in find_warnings(ports) if "dead letters" in one] == told
    found = _check_position(SimpleNamespace(get=lambda _: ports), "shop")
    warnings = [f"{one.cause}; {one.advice}" for one in found if one.severity is Severity.WARNING]
    assert [one for one in warnings if "dead letters" in one] == told
    return told


def test_letters_of_its_tables_are_told_also_in_a_namespace_that_the_file_names_no_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    assert list_told(world) == [TOLD_OF_UNNAMED]
    world.clock.tick(3_600_000)
    assert TOLD_OF_UNNAMED in heartbeat(world.build_ports(ALONE)).warnings
    caplog.clear()
    caplog.set_level(logging.WARNING)
    assert replay_dead_letters(world.build_ports(ALONE)) == []
    assert [record.getMessage() for record in caplog.records].count(TOLD_OF_UNNAMED) == 1


def test_letters_that_were_moved_as_the_message_says_are_replayed(world: World) -> None:
    tables = world.destination.tables
    tables["lake.sales.tidegate_shop_dead_letters"] = tables.pop("lake.shop.tidegate_shop_dead_letters")
    assert list_told(world) == []
    world.engine.mended |= {0: {"id": "bad", "name": "mended"}}
    assert [(one.table, one.tried, one.replayed) for one in replay_dead_letters(world.build_ports(ALONE))] == [
        ("lake.sales.orders", 2, 2)
    ]


def test_letters_of_another_pipeline_of_that_name_are_not_taken_for_its_own(world: World) -> None:
    """A test environment beside the real one, in one catalog."""
    flush(world.build_ports(build_pipeline(build_table("lake.dev.orders", errors=Errors("all")))))
    assert world.read_rows("lake.dev.tidegate_shop_dead_letters")
    assert list_told(world) == [TOLD_OF_UNNAMED]


def test_catalog_of_many_namespaces_is_not_searched(world: World) -> None:
    for number in range(MAX_NAMESPACES - 1):
        world.destination.create(f"lake.other{number}.orders", ())
    assert list_told(world) == [TOLD_OF_UNNAMED]
    world.destination.create("lake.one_more.orders", ())
    assert list_told(world) == []


@pytest.mark.parametrize("forbidden", ["tables.list_namespaces", "dead_letters.list_waiting_letters"])
def test_namespaces_that_may_not_be_read_are_left_alone(world: World, forbidden: str) -> None:
    def refuse(call: str, when: str) -> None:
        if (call, when) == (forbidden, "before"):
            raise GiveUp("403 forbidden")

    assert not [one for one in read_status(world.build_ports(ALONE, refuse))["warnings"] if "letters" in one]
