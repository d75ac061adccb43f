"""A batch that its destination cannot take is refused before it is staged; a key may only become wider."""

from dataclasses import replace

import pytest
from fakes import World, a_pipeline, a_table
from tidegate.errors import IncompatibleSchema, SomeTablesFailed
from tidegate.schema.column import Column
from tidegate.spec.formats import KeyFormat, ValueFormat
from tidegate.spec.pipeline import Pipeline
from tidegate.steps.flush import flush

TABLE = "lake.shop.orders"


@pytest.fixture
def world() -> World:
    made = World()
    made.broker.create("orders")
    made.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    return made


def keyed(*columns: Column, values: tuple[Column, ...] = (Column("name", "STRING"),)) -> Pipeline:
    key = KeyFormat(fields=tuple(column.name for column in columns), columns=columns)
    return a_pipeline(replace(a_table(), key=key, value=ValueFormat(columns=(*columns, *values))))


def test_column_of_another_type_is_refused_with_the_first_offset_before_anything_is_staged(world: World) -> None:
    flush(world.ports(a_pipeline()))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": 7})
    jobs = len(world.engine.jobs)
    with pytest.raises(IncompatibleSchema) as caught:
        flush(world.ports(keyed(Column("id", "STRING"), values=(Column("name", "INT"),))))
    for part in (f"table={TABLE}", "column=name", "type=STRING", "type=INT", "partition=0 offset=1", "nothing was"):
        assert part in str(caught.value)
    assert len(world.engine.jobs) == jobs


def test_incompatible_table_of_several_does_not_hold_the_others(world: World) -> None:
    other = "lake.shop.copy"
    flush(world.ports(a_pipeline(a_table(), a_table(other))))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    changed = replace(a_table(other), value=ValueFormat(columns=(Column("id", "STRING"), Column("name", "INT"))))
    with pytest.raises(SomeTablesFailed, match="column=name: incompatible change"):
        flush(world.ports(a_pipeline(a_table(), changed)))
    assert [len(world.rows(name)) for name in (TABLE, other)] == [2, 1]


ALLOWED = [
    ((Column("id", "INT"),), (Column("id", "BIGINT"),)),
    ((Column("id", "STRING", False),), (Column("id", "STRING"),)),
    ((Column("id", "STRING"),), (Column("id", "STRING"), Column("line", "INT"))),
]


@pytest.mark.parametrize(("before", "after"), ALLOWED)
def test_key_may_gain_nullable_columns_relax_and_widen(
    world: World, before: tuple[Column, ...], after: tuple[Column, ...]
) -> None:
    flush(world.ports(keyed(*before)))
    world.broker.produce("orders", {"id": "a", "line": 1}, {"name": "y"})
    flush(world.ports(keyed(*after)))
    assert len(world.rows(TABLE)) == (2 if len(after) > 1 else 1)


REFUSED = [
    ((Column("id", "STRING"),), (Column("id", "STRING"), Column("line", "INT", False)), "new and required"),
    ((Column("id", "STRING"), Column("line", "INT")), (Column("id", "STRING"),), "column=line is no longer part"),
    ((Column("id", "STRING"),), (Column("id", "INT"),), "column=id from type=STRING to type=INT"),
    ((Column("id", "STRING"),), (Column("id", "STRING", False),), "to type=STRING NOT NULL"),
    ((Column("id", "STRING"),), (Column("key", "STRING"),), "column=id is no longer part"),
]


@pytest.mark.parametrize(("before", "after", "why"), REFUSED)
def test_any_other_change_of_the_key_is_refused_and_nothing_is_staged(
    world: World, before: tuple[Column, ...], after: tuple[Column, ...], why: str
) -> None:
    flush(world.ports(keyed(*before)))
    world.broker.produce("orders", {"id": "b"}, {"name": "y"})
    rows, jobs = world.rows(TABLE), len(world.engine.jobs)
    with pytest.raises(IncompatibleSchema, match=why):
        flush(world.ports(keyed(*after)))
    assert (world.rows(TABLE), len(world.engine.jobs)) == (rows, jobs)


def test_column_renamed_in_the_table_keeps_receiving_the_records_field(world: World) -> None:
    ports = world.ports(a_pipeline())
    flush(ports)
    world.destination.rename_column(TABLE, "name", "full_name")
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    flush(ports)
    assert world.rows(TABLE) == [{"full_name": "x", "id": "a"}, {"full_name": "y", "id": "b"}]


def test_renamed_key_column_still_finds_its_rows(world: World) -> None:
    ports = world.ports(a_pipeline())
    flush(ports)
    world.destination.rename_column(TABLE, "id", "order_id")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "y"})
    flush(ports)
    assert world.rows(TABLE) == [{"name": "y", "order_id": "a"}]


def test_table_without_a_declared_schema_takes_a_renamed_column_under_both_names(world: World) -> None:
    flush(world.ports(a_pipeline()))
    world.destination.rename_column(TABLE, "name", "full_name")
    given = replace(a_table(), value=ValueFormat(), key=KeyFormat(fields=("id",)))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "old"})
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "full_name": "new"})
    flush(world.ports(a_pipeline(given)))
    assert [row["full_name"] for row in world.rows(TABLE)] == ["new", "old", "x"]


def test_renamed_sequence_column_is_refused_with_its_old_name(world: World) -> None:
    columns = (Column("id", "STRING"), Column("name", "STRING"))
    ordered = replace(a_table(columns=columns), sequence_by=("name",))
    flush(world.ports(a_pipeline(ordered)))
    world.destination.rename_column(TABLE, "name", "version")
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    with pytest.raises(IncompatibleSchema, match="column=version: it was called name, and with sequence_by"):
        flush(world.ports(a_pipeline(ordered)))
