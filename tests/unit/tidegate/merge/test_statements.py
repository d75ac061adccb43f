"""What merge templates are filled with follows the table as it stands, not as the pipeline file names its columns."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_session, build_table
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.config.parsing.select_statement import parse_select
from tidegate.merge.statements import build_merge_input, render_backfill_statements, render_merge_statements
from tidegate.model.batch import Counts, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import UUID_FORM, Column, Primitive, Struct
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import DeleteMode, Table
from tidegate.table.columns import build_projection
from tidegate.table.session import TableSession

TEXT = Primitive("STRING")
STAGED = StagedBatch(
    "lake.shop.orders", 7, "0af3", 0, Ranges({"orders": {0: (0, 9)}}), Counts(span=9, read=9, staged=9)
)
STRUCT_KEY = KeyFormat(fields=("a", "b"), columns=(Column("a", "STRING"), Column("b", "STRING")), into="k")


def render(table: Table, backfill: bool = False, dialect: str = "iceberg") -> str:
    session = replace(World().open_session(build_pipeline(table)), sql=SqlFiles(dialect))
    if backfill:
        return render_backfill_statements(TableSession(session, table), STAGED, "b", "lake.shop.orders_shop_tmp_bf")[-1]
    return render_merge_statements(TableSession(session, table), STAGED, "b")[-1]


def build_keyed_table(key: KeyFormat, **key_fields: Any) -> Table:
    fields = (*key_fields.items(), ("name", TEXT))
    value = ValueFormat(columns=(Column("name", "STRING"),))
    return replace(build_table(), key=key, value=value, target_schema=Struct(fields))


def test_backfill_of_an_append_table_finds_rows_by_the_tables_own_name_of_a_renamed_key() -> None:
    struct = Struct((("number", TEXT), ("name", TEXT)), aliases=(("id", "number"),))
    table = build_table(mode="append", target_schema=struct)
    session = replace(World().open_session(build_pipeline(table)), sql=SqlFiles("iceberg"))
    ranges = Ranges({"orders": {0: (0, 9)}})
    staged = StagedBatch(table.name, 7, "0af3", 0, ranges, Counts(span=9, read=9, staged=9))
    (statement,) = render_backfill_statements(TableSession(session, table), staged, "b", "lake.shop.orders_shop_tmp_bf")
    on = statement.rsplit("\nON ", 1)[1].split("\nWHEN")[0]
    assert "t.`number` <=> s.`number`" in on
    assert "`id`" not in on


@pytest.mark.parametrize("dialect", ["iceberg", "bigquery"])
@pytest.mark.parametrize("backfill", [False, True])
def test_parts_of_a_key_in_one_column_are_written_in_the_tables_order(dialect: str, backfill: bool) -> None:
    struct = Struct((("b", TEXT), ("a", TEXT)))
    statement = render(build_keyed_table(STRUCT_KEY, k=struct), backfill, dialect)
    expected_struct = {
        "iceberg": "named_struct('b', key.`b`, 'a', key.`a`)",
        "bigquery": "STRUCT(key.`b` AS `b`, key.`a` AS `a`)",
    }
    assert statement.count(expected_struct[dialect]) == 1 + backfill
    same_statement = render(build_keyed_table(STRUCT_KEY, k=Struct((("a", TEXT), ("b", TEXT)))), backfill, dialect)
    assert same_statement.count("key AS `k`") == 1 + backfill


def test_part_of_a_key_that_was_renamed_in_the_table_is_found_by_its_own_name() -> None:
    struct = Struct((("first", TEXT), ("b", TEXT)), aliases=(("a", "first"),))
    table = build_keyed_table(STRUCT_KEY, k=struct)
    values = build_merge_input(build_session(build_pipeline(table), table), STAGED, "b")
    assert (values["leaves"], values["staged_leaves"]) == ([("k", "first"), ("k", "b")], [("k", "a"), ("k", "b")])
    statement = render(table)
    assert "t.`k`.`first` <=> s.`k`.`first` AND t.`k`.`b` <=> s.`k`.`b`" in statement
    assert "named_struct('first', key.`a`, 'b', key.`b`)" in statement


def test_uuid_of_a_key_is_compared_as_the_table_shows_it() -> None:
    key = KeyFormat(fields=("id", "part"), columns=(Column("id", "STRING"), Column("part", "STRING")))
    statement = render(build_keyed_table(key, id=Primitive("STRING", form=UUID_FORM), part=TEXT))
    assert "lower(key.`id`) AS `id`" in statement
    assert "key.`part` AS `part`" in statement


TARGET_SCHEMA = Struct(
    (("id", TEXT), ("name", TEXT), ("is_deleted", Primitive("BOOLEAN"))), aliases=(("_deleted", "is_deleted"),)
)


@pytest.mark.parametrize("options", [{}, {"sequence_by": ("name",)}, {"partial_updates": True}], ids=str)
def test_flag_of_deleted_rows_that_was_renamed_in_the_table_is_found_by_its_own_name(options: dict[str, Any]) -> None:
    table = replace(build_table(), deletes=DeleteMode.SOFT, target_schema=TARGET_SCHEMA, **options)
    statement = render(table)
    assert "t.`is_deleted` = true" in statement
    assert "`_deleted`" not in statement


@pytest.mark.parametrize("deleted_column", ["_deleted", "is_deleted", "IS_DELETED"])
@pytest.mark.parametrize("is_declared", [True, False])
def test_flag_that_was_renamed_is_no_column_of_the_value(is_declared: bool, deleted_column: str) -> None:
    """Nor is its old name where the file has the new one: a merge would set one column twice, which Spark refuses."""
    world = World()
    world.destination.create("lake.shop.orders", (Column("id", "STRING"), Column("_deleted", "BOOLEAN")))
    world.destination.rename_column("lake.shop.orders", "_deleted", "is_deleted")
    value = ValueFormat(columns=(Column("id", "STRING"),) if is_declared else None)
    table = replace(build_table(), deletes=DeleteMode.SOFT, value=value, deleted_column=deleted_column)
    state = world.open_session(build_pipeline(table)).tables.read_state(table.name, "shop")
    values = build_merge_input(build_session(build_pipeline(table), table, state), STAGED, "b")
    assert (values["values"], values["flag"]) == ([], "is_deleted")


@pytest.mark.parametrize("dialect", ["iceberg", "bigquery"])
def test_soft_delete_leaves_its_sequence_in_a_column_that_the_table_spells_otherwise(dialect: str) -> None:
    """Else the row would keep that of its last upsert, and a late record would bring it back."""
    schema = Struct((("id", TEXT), ("NAME", TEXT), ("gone", Primitive("BOOLEAN"))))
    options = {"deletes": DeleteMode.SOFT, "deleted_column": "Gone", "sequence_by": ("name",)}
    statement = render(replace(build_table(), target_schema=schema, **options), dialect=dialect)
    newest = "s.`_tidegate_newest`.`NAME`"
    assert f"t.`NAME` = {newest}" in statement
    assert newest in statement.rsplit("VALUES", 1)[1]
    assert "`name`" not in statement.rsplit("\nON ", 1)[1]


def test_column_that_select_spells_otherwise_keeps_a_value_that_did_not_change() -> None:
    columns = tuple(Column(name, "STRING") for name in ("id", "Note", "b"))
    select = parse_select("SELECT id, NOTE, CAST(upper(B) AS STRING) AS loud FROM record")
    table = build_table(columns=columns, unavailable="__held", select=select)
    session = build_session(build_pipeline(table), table)
    values = build_merge_input(session, replace(STAGED, kept=1), "b")
    assert values["given"] == {"NOTE": ("not_kept", ["Note"]), "loud": ("always", ["loud"])}
    projection = build_projection(table)
    assert projection is not None
    assert projection.unusable_columns == ("b",), "as records with placeholders name it"
