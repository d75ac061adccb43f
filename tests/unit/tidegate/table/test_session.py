"""A table's session says what was read, and reads the table again only where it is asked to."""

from dataclasses import replace

from fakes import World, build_pipeline, build_table
from tidegate.flush.flush import flush
from tidegate.schema.data_types import Column
from tidegate.table.session import TableSession, open_table

ORDERS = build_table("lake.shop.Orders", topics=("orders",))
CLIENTS = build_table("lake.crm.clients", topics=("clients",))
PIPELINE = build_pipeline(ORDERS, CLIENTS)


def build_world() -> World:
    world = World()
    for topic in ("orders", "clients"):
        world.broker.create(topic)
        world.broker.produce(topic, {"id": "a"}, {"id": "a", "name": "x"})
    flush(world.open_session(PIPELINE))
    return world


def test_each_table_of_a_pipeline_has_its_own_names_and_prefix() -> None:
    session = World().open_session(PIPELINE)
    sessions = [open_table(session, table.name) for table in PIPELINE.tables]
    assert [table_session.prefix for table_session in sessions] == [
        "pipeline=shop table=lake.shop.Orders",
        "pipeline=shop table=lake.crm.clients",
    ]
    assert [table_session.intermediate for table_session in sessions] == [
        "lake.shop.Orders_shop_tmp",
        "lake.crm.clients_shop_tmp",
    ]


def test_state_stays_as_it_was_read_until_the_table_is_read_again() -> None:
    world = build_world()
    reads = []
    session = world.open_session(PIPELINE, hook=lambda call, moment: reads.append(call) if moment == "before" else None)
    table = open_table(session, "lake.shop.Orders")
    assert (table.state, reads) == (None, [])
    first = table.refresh()
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    flush(world.open_session(PIPELINE))
    assert (first.require_state().highest_batch, reads) == (1, ["tables.read_state"])
    second = first.refresh()
    assert (second.require_state().highest_batch, first.require_state().highest_batch) == (2, 1)
    assert reads == ["tables.read_state"] * 2


def test_columns_follow_the_state_that_was_read_last() -> None:
    """A session keeps what it has computed; one that was read again computes it anew."""
    world = build_world()
    undeclared = replace(ORDERS, value=replace(ORDERS.value, columns=None))
    table = TableSession(world.open_session(build_pipeline(undeclared, CLIENTS)), undeclared).refresh()
    assert [column.name for column in table.columns] == ["id", "name"]
    world.destination.evolve(
        ORDERS.name, (*table.columns, Column("Note", "STRING")), add=True, widen=False, relax=False
    )
    assert [column.name for column in table.columns] == ["id", "name"]
    assert [column.name for column in table.refresh().columns] == ["id", "name", "Note"]


def test_evolved_table_is_read_again_only_if_its_schema_changed() -> None:
    world = build_world()
    wider = replace(ORDERS, value=replace(ORDERS.value, columns=(*(ORDERS.value.columns or ()), Column("n", "BIGINT"))))
    reads = []
    session = world.open_session(
        build_pipeline(wider, CLIENTS), hook=lambda call, moment: reads.append(call) if moment == "before" else None
    )
    table = TableSession(session, wider).refresh().evolve()
    assert [column.name for column in table.require_state().columns] == ["id", "name", "n"]
    assert reads == ["tables.read_state", "tables.evolve", "tables.read_state"]
    assert table.evolve() is table
    assert reads[3:] == ["tables.evolve"]
