"""A batch that was staged under another pipeline file is not merged under this one."""

from fakes import World, a_pipeline, a_table
from tidegate.schema.column import Column
from tidegate.steps.flush import flush
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage

WIDER = (Column("id", "STRING"), Column("name", "STRING"), Column("colour", "STRING"))


def test_batch_staged_before_a_column_was_added_is_staged_again_with_it() -> None:
    world, before, after = World(), a_pipeline(), a_pipeline(a_table(columns=WIDER))
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x", "colour": "red"})
    stage(world.ports(before), plan(world.ports(before)))
    assert plan(world.ports(before)).tables[0].resumed
    assert not plan(world.ports(after)).tables[0].resumed
    flush(world.ports(after))
    assert world.rows("lake.shop.orders") == [{"id": "a", "name": "x", "colour": "red"}]
