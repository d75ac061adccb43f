"""Where a later record of a raw key may stand for the earlier ones, and where each has to be decoded and staged."""

import pytest
from fakes import World, a_pipeline, a_table
from tidegate.cli import shown
from tidegate.pipeline import Errors, Route
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage
from tidegate.superseding import last_per_raw_key


def test_last_record_of_each_raw_key_is_enough_where_it_alone_decides() -> None:
    assert last_per_raw_key(a_pipeline(), a_table())


@pytest.mark.parametrize(
    "table",
    [
        a_table(mode="append"),
        a_table(mode="delete"),
        a_table(mode="upsert"),  # a tombstone is left out there, so the record before it counts
        a_table(when="name = 'x'"),
        a_table(route=Route("name", "x")),
        a_table(delete_when="name = 'x'"),
        a_table(last_per_key="never"),
        a_table(deletes="soft"),  # what the last upsert wrote stays visible
        a_table(sequence_by=("name",)),
    ],
    ids=["append", "delete-only", "upsert-only", "when", "route", "delete_when", "never", "soft", "sequence"],
)
def test_every_record_is_staged_where_earlier_ones_count_too(table) -> None:
    assert not last_per_raw_key(a_pipeline(table), table)


@pytest.mark.parametrize("source", [{"errors": Errors("all")}, {"verify_integrity": True}])
def test_every_record_is_decoded_where_every_bad_one_has_to_be_found(source) -> None:
    assert not last_per_raw_key(a_pipeline(source=source), a_table())


@pytest.mark.parametrize(("choice", "last"), [("auto", True), ("never", False)])
def test_plan_says_which_records_it_will_stage(choice: str, last: bool) -> None:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    planned = plan(world.ports(a_pipeline(a_table(last_per_key=choice))))
    assert planned.tables[0].to_dict()["last_per_key"] is last
    assert ("reads 1 offsets, the last record of each key" in shown.planned(planned)) is last


def test_records_without_a_key_do_not_supersede_each_other() -> None:
    world = World()
    world.broker.create("orders")
    for id in ("a", "b", "a"):
        world.broker.produce("orders", None, {"id": id, "name": "x"})
    ports = world.ports(a_pipeline())
    (staged,) = stage(ports, plan(ports))
    assert (staged.counts.staged, staged.counts.superseded) == (3, 0)
