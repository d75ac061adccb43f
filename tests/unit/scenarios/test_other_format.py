"""What another build of Tidegate has stored is refused in one sentence, and stays as it is."""

import pytest
from fakes import BAD, FailsToMerge, World, build_pipeline, build_table
from fakes.orders import NAME, make_orders, read_orders, send_orders
from tidegate.errors import GiveUp, TidegateError
from tidegate.flush.flush import flush
from tidegate.model.ownership import FORMAT
from tidegate.schema.data_types import Column
from tidegate.spec.source import Errors

COPY = "lake.shop.Copy"
PIPELINE = build_pipeline(build_table(errors=Errors("all")), build_table(COPY, errors=Errors("all")))
LETTERS = "lake.shop.tidegate_shop_dead_letters"


def set_format(world: World, table: str, name: str, value: str | None) -> None:
    properties = world.destination.tables[table].properties
    properties.pop(name)
    if value is not None:
        properties[name] = value


@pytest.mark.parametrize("value", [None, "2"])
@pytest.mark.parametrize(
    ("table", "name"),
    [
        (NAME, "tidegate.shop.format"),
        (f"{NAME}_shop_tmp", "tidegate.format"),
        (LETTERS, "tidegate.format"),
    ],
)
def test_table_of_another_format_is_refused_and_goes_on_when_it_is_of_this_one(
    table: str, name: str, value: str | None
) -> None:
    world = make_orders()
    world.broker.produce("orders", {"id": "bad"}, BAD, 1)
    flush(world.open_session(PIPELINE))
    set_format(world, table, name, value)
    for number in range(2):
        send_orders(world, ("a", str(number)), ("b", str(number)))
        world.broker.produce("orders", {"id": "bad"}, BAD, 0)
        with pytest.raises(TidegateError) as refusal:
            flush(world.open_session(PIPELINE))
        assert f"another build of Tidegate wrote it, {name}={value or 'none'}, and this one reads {FORMAT}" in str(
            refusal.value
        )
        assert read_orders(world) == {"a": "2", "b": "1"}
    world.destination.tables[table].properties[name] = FORMAT
    flush(world.open_session(PIPELINE))
    assert read_orders(world) == {"a": "1", "b": "1"}


@pytest.mark.guard(
    "what another build has stored is not read",
    file="plugins/tidegate/model/ownership.py",
    text="    if (found := present.get(key)) != FORMAT:\n",
    off="    if (found := present.get(key)) == 'never':\n",
)
def test_batch_that_another_build_has_staged_is_not_merged() -> None:
    world, pipeline = make_orders(), build_pipeline()
    with pytest.raises(TidegateError):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, NAME)))
    set_format(world, f"{NAME}_shop_tmp", "tidegate.format", None)
    with pytest.raises(GiveUp, match=r"table=lake\.shop\.orders_shop_tmp: another build .* tidegate\.format=none"):
        flush(world.open_session(pipeline))
    assert read_orders(world) == {}


def test_table_of_somebody_else_with_properties_of_its_own_is_written() -> None:
    world = make_orders()
    table = world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    table.properties |= {"owner": "sales", "tidegate.team": "?", "tidegate.other.position": "{}"}
    flush(world.open_session(build_pipeline()))
    assert read_orders(world) == {"a": "2", "b": "1"}
