"""How a record's key meets its value: in one struct column, or compared with the fields that the value repeats."""

from dataclasses import replace

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import BadRecord, ConfigurationError
from tidegate.flush.flush import flush
from tidegate.flush.key_deduplication import can_keep_last_per_key
from tidegate.schema.data_types import Column
from tidegate.spec.table import Table
from tidegate.table.columns import (
    list_destination_columns,
    list_key_columns,
    list_key_leaves,
    list_value_columns,
    list_verified_fields,
)

NAME = "lake.shop.orders"


def build_keyed_table(name: str | None = "k", **options) -> Table:
    table = build_table(NAME, keys=("id", "line"), **options)
    return replace(table, key=replace(table.key, into=name))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def test_key_in_one_struct_stands_beside_the_values_columns() -> None:
    table = build_keyed_table()
    assert [c.name for c in list_destination_columns(table)] == ["k", "id", "line", "name"]
    assert list_key_columns(table) == (Column("k", "STRUCT<`id`: STRING, `line`: STRING>"),)
    assert list_key_leaves(table) == (("k", "id"), ("k", "line"))


def test_rows_are_found_by_the_leaves_of_the_struct(world: World) -> None:
    pipeline = build_pipeline(build_keyed_table(fields_include="EXCEPT_KEY"))
    for line, name in ((None, "a"), ("1", "b")):
        world.broker.produce("orders", {"id": "x", "line": line}, {"name": name})
    flush(world.open_session(pipeline))
    world.broker.produce("orders", {"id": "x", "line": None}, {"name": "a2"})
    world.broker.produce("orders", {"id": "x", "line": "1"}, None)
    flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == [{"k": {"id": "x", "line": None}, "name": "a2"}]


@pytest.mark.parametrize(("prefix", "into"), [("k_", None), ("", "k")])
def test_declared_column_of_the_value_stays_where_the_key_has_columns_of_other_names(
    world: World, prefix: str, into: str | None
) -> None:
    """As in Flink: EXCEPT_KEY leaves out the table's key columns, and `id` is none of them here."""
    table = build_table(NAME, prefix=prefix, fields_include="EXCEPT_KEY")
    pipeline = build_pipeline(replace(table, key=replace(table.key, columns=(Column("id", "STRING"),), into=into)))
    for id, own in (("x", "1"), ("y", "2"), ("x", "3")):
        world.broker.produce("orders", {"id": id}, {"id": own, "name": f"of {own}"})
    flush(world.open_session(pipeline))

    def row(id: str, own: str) -> dict:
        return {**({into: {"id": id}} if into else {prefix + "id": id}), "id": own, "name": f"of {own}"}

    assert sorted(world.read_rows(NAME), key=lambda r: r["id"]) == [row("y", "2"), row("x", "3")]
    # without a schema of its own the key has its type from the value's, which then says nothing of the value
    keyed_table = replace(pipeline.tables[0], key=replace(pipeline.tables[0].key, columns=None))
    assert [c.name for c in list_value_columns(keyed_table)] == ["name"]


def test_prefixed_key_columns_that_the_destination_holds_are_no_columns_of_the_value() -> None:
    table = build_table(NAME, prefix="k_", columns=tuple(Column(n, "STRING") for n in ("k_id", "id", "name")))
    table = replace(table, value=replace(table.value, fields_include="EXCEPT_KEY"))
    keyed = replace(table, key=replace(table.key, columns=(Column("id", "STRING"),)))
    assert [c.name for c in list_value_columns(keyed)] == ["id", "name"]
    assert [c.name for c in list_destination_columns(keyed)] == ["k_id", "id", "name"]


def build_verifying_pipeline(**options):
    return build_pipeline(build_table(NAME, **options), source={"verify_integrity": True})


def test_record_whose_key_and_value_differ_is_bad(world: World) -> None:
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    world.broker.produce("orders", None, {"id": "b", "name": "x"})
    world.broker.produce("orders", {"id": "c"}, None)
    flush(world.open_session(build_verifying_pipeline()))
    world.broker.produce("orders", {"id": "a"}, {"id": "b", "name": "y"})
    with pytest.raises(BadRecord, match="offset=3 reason=the key and the value differ in field id"):
        flush(world.open_session(build_verifying_pipeline()))
    assert len(world.read_rows(NAME)) == 2


def test_fields_of_two_types_cannot_be_compared() -> None:
    table = build_table(NAME, prefix="k_")
    typed_key = replace(table.key, columns=(Column("id", "BIGINT"),))
    assert list_verified_fields(table) == ("id",)
    with pytest.raises(ConfigurationError, match="cannot compare id: BIGINT in the key, STRING in the value"):
        list_verified_fields(replace(table, key=typed_key))


def test_field_that_key_and_value_spell_in_another_case_is_compared() -> None:
    """Nothing was compared, and nobody was told."""
    table = build_table(NAME, prefix="k_", keys=("ID",), columns=(Column("id", "STRING"), Column("name", "STRING")))
    table = replace(table, key=replace(table.key, columns=(Column("ID", "STRING"),)))
    assert list_verified_fields(table) == ("id",)


def test_every_record_is_compared_also_one_that_a_later_one_supersedes() -> None:
    assert not can_keep_last_per_key(build_verifying_pipeline(), build_verifying_pipeline().tables[0])
