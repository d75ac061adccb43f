"""Columns that no table holds beside each other, of a schema that the file does not tell: refused before Spark runs."""

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import ConfigurationError, IncompatibleSchema
from tidegate.flush.flush import flush
from tidegate.schema.data_types import Column

STRUCT, NAME = Column("Http", "STRUCT<status: INT>"), Column("http.Status", "INT")


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    world.broker.produce("orders", {"id": "a"}, {"id": "a"}, 1)
    return world


def test_column_beside_a_struct_with_a_field_of_its_name_is_refused_before_anything_is_staged(world: World) -> None:
    """A registry may have such a schema. Iceberg said `multiple fields for name value.http.status`, in each flush."""
    table = build_table(columns=(Column("id", "STRING"), NAME, STRUCT))
    with pytest.raises(ConfigurationError, match=r"orders would have http\.status twice.*give one of the two another"):
        flush(world.open_session(build_pipeline(table)))
    assert not world.destination.tables


def test_column_that_comes_later_beside_such_a_struct_is_refused_too(world: World) -> None:
    first = build_table(columns=(Column("id", "STRING"), STRUCT))
    flush(world.open_session(build_pipeline(first)))
    world.broker.produce("orders", {"id": "b"}, {"id": "b"}, 0)
    later = build_table(columns=(Column("id", "STRING"), NAME))
    with pytest.raises(IncompatibleSchema, match=r"column=http\.Status: the table has http\.status already"):
        flush(world.open_session(build_pipeline(later)))
    assert [row["id"] for row in world.destination.tables["lake.shop.orders"].read_rows()] == ["a"]
