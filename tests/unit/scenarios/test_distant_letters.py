"""Dead letters lie in the first table's namespace: where another table becomes the first, they are not forgotten."""

import logging

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.diagnosis.finding import Severity
from tidegate.errors import GiveUp
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.monitoring.details import find_warnings
from tidegate.monitoring.status import read_status
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.table.distant import MAX_NAMESPACES
from tidegate.wiring.diagnosis.pipelines import check_position

ORDERS, SALES = (build_table(name, errors=Errors("all")) for name in ("lake.shop.orders", "lake.sales.orders"))
BEFORE, AFTER = build_pipeline(ORDERS, SALES), build_pipeline(SALES, ORDERS)
MESSAGE = (
    "pipeline=shop: dead letters=4 wait in table=lake.shop.tidegate_shop_dead_letters, where the first table of the "
    "file lay before, and the pipeline looks for them in table=lake.sales.tidegate_shop_dead_letters; put a table of "
    "lake.shop first in the file again, and replay or discard them"
)


ALONE = build_pipeline(SALES)
UNNAMED_MESSAGE = (
    "pipeline=shop: dead letters=2 wait in table=lake.shop.tidegate_shop_dead_letters, where the first table of the "
    "file lay before, and the pipeline looks for them in table=lake.sales.tidegate_shop_dead_letters; move their rows "
    "there with SQL (docs/operations.md#dead-letters), or put a table of lake.shop first in the file again, and replay "
    "or discard them"
)


@pytest.fixture
def world() -> World:
    """Two tables in two namespaces, with two dead letters each, in two partitions."""
    new_world = World()
    new_world.broker.create("orders", 2)
    for partition in (0, 1):
        new_world.broker.produce("orders", {"id": f"bad-{partition}"}, BAD, partition)
        new_world.broker.produce(
            "orders", {"id": f"good-{partition}"}, {"id": f"good-{partition}", "name": "x"}, partition
        )
    flush(new_world.build_ports(BEFORE))
    return new_world


def test_status_and_heartbeat_name_both_places(world: World) -> None:
    assert MESSAGE in read_status(world.build_ports(AFTER))["warnings"]
    world.clock.tick(3_600_000)
    assert MESSAGE in heartbeat(world.build_ports(AFTER)).warnings
    assert not [warning for warning in read_status(world.build_ports(BEFORE))["warnings"] if "dead letters" in warning]


def test_replay_that_finds_none_tells_where_others_wait(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert replay_dead_letters(world.build_ports(AFTER)) == []
    assert [record.getMessage() for record in caplog.records].count(MESSAGE) == 1
    assert [result.tried for result in replay_dead_letters(world.build_ports(BEFORE))] == [2, 2]


def test_letters_that_were_replayed_are_no_reason_to_warn(world: World) -> None:
    world.engine.fixed_values |= {0: {"id": "bad", "name": "fixed"}}
    replay_dead_letters(world.build_ports(BEFORE))
    assert not [warning for warning in read_status(world.build_ports(AFTER))["warnings"] if "dead letters" in warning]


def list_letter_warnings(world: World, pipeline: Pipeline = ALONE) -> list[str]:
    """The warnings of status, the page and the doctor about dead letters."""
    ports = world.build_ports(pipeline)
    letter_warnings = [warning for warning in read_status(ports)["warnings"] if "dead letters" in warning]
    assert [warning for warning in find_warnings(ports) if "dead letters" in warning] == letter_warnings
    position = check_position(ports)
    warnings = [f"{finding.cause}; {finding.advice}" for finding in position if finding.severity is Severity.WARNING]
    assert [warning for warning in warnings if "dead letters" in warning] == letter_warnings
    return letter_warnings


def test_letters_of_its_tables_are_told_also_in_a_namespace_that_the_file_names_no_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    assert list_letter_warnings(world) == [UNNAMED_MESSAGE]
    world.clock.tick(3_600_000)
    assert UNNAMED_MESSAGE in heartbeat(world.build_ports(ALONE)).warnings
    caplog.clear()
    caplog.set_level(logging.WARNING)
    assert replay_dead_letters(world.build_ports(ALONE)) == []
    assert [record.getMessage() for record in caplog.records].count(UNNAMED_MESSAGE) == 1


def test_letters_that_were_moved_as_the_message_says_are_replayed(world: World) -> None:
    tables = world.destination.tables
    tables["lake.sales.tidegate_shop_dead_letters"] = tables.pop("lake.shop.tidegate_shop_dead_letters")
    assert list_letter_warnings(world) == []
    world.engine.fixed_values |= {0: {"id": "bad", "name": "fixed"}}
    assert [
        (replay.table, replay.tried, replay.replayed) for replay in replay_dead_letters(world.build_ports(ALONE))
    ] == [("lake.sales.orders", 2, 2)]


def test_letters_of_another_pipeline_of_that_name_are_not_taken_for_its_own(world: World) -> None:
    """A test environment beside the real one, in one catalog."""
    flush(world.build_ports(build_pipeline(build_table("lake.dev.orders", errors=Errors("all")))))
    assert world.read_rows("lake.dev.tidegate_shop_dead_letters")
    assert list_letter_warnings(world) == [UNNAMED_MESSAGE]


def test_catalog_of_many_namespaces_is_not_searched(world: World) -> None:
    for number in range(MAX_NAMESPACES - 1):
        world.destination.create(f"lake.other{number}.orders", ())
    assert list_letter_warnings(world) == [UNNAMED_MESSAGE]
    world.destination.create("lake.one_more.orders", ())
    assert list_letter_warnings(world) == []


@pytest.mark.parametrize("forbidden", ["tables.list_namespaces", "dead_letters.list_waiting_letters"])
def test_namespaces_that_may_not_be_read_are_left_alone(world: World, forbidden: str) -> None:
    def refuse(call: str, moment: str) -> None:
        if (call, moment) == (forbidden, "before"):
            raise GiveUp("403 forbidden")

    assert not [
        warning for warning in read_status(world.build_ports(ALONE, refuse))["warnings"] if "letters" in warning
    ]
