"""A batch that was staged under another pipeline file is not merged under this one."""

from fakes import World, build_pipeline, build_table
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.schema.data_types import Column

WIDER = (Column("id", "STRING"), Column("name", "STRING"), Column("colour", "STRING"))


def test_batch_staged_before_a_column_was_added_is_staged_again_with_it() -> None:
    world, before, after = World(), build_pipeline(), build_pipeline(build_table(columns=WIDER))
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x", "colour": "red"})
    stage(world.open_session(before), plan(world.open_session(before)))
    assert plan(world.open_session(before)).tables[0].is_resumed
    assert not plan(world.open_session(after)).tables[0].is_resumed
    flush(world.open_session(after))
    assert world.read_rows("lake.shop.orders") == [{"id": "a", "name": "x", "colour": "red"}]
