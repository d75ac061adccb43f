"""A batch that was staged under another pipeline file is not merged under this one."""

from fakes import World, build_pipeline, build_table
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.schema.column import Column

WIDER = (Column("id", "STRING"), Column("name", "STRING"), Column("colour", "STRING"))


def test_batch_staged_before_a_column_was_added_is_staged_again_with_it() -> None:
    world, before, after = World(), build_pipeline(), build_pipeline(build_table(columns=WIDER))
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x", "colour": "red"})
    stage(world.build_ports(before), plan(world.build_ports(before)))
    assert plan(world.build_ports(before)).tables[0].is_resumed
    assert not plan(world.build_ports(after)).tables[0].is_resumed
    flush(world.build_ports(after))
    assert world.read_rows("lake.shop.orders") == [{"id": "a", "name": "x", "colour": "red"}]
