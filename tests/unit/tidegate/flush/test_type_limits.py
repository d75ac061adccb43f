"""What a table's column holds and Spark has no type for is said of each value, at whatever depth it stands."""

from dataclasses import replace

import pytest
from fakes import build_table
from tidegate.errors import ConfigurationError
from tidegate.model.table_state import FolderLimit
from tidegate.schema.data_types import UUID_FORM, Array, Column, Map, MaxLength, Primitive, Struct
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table
from tidegate.table.compatibility import UUID_PATTERN, check_adopted_types, list_key_limits, list_value_limits

TEXT, UUID, FOUR_BYTES = Primitive("STRING"), Primitive("STRING", form=UUID_FORM), Primitive("BINARY", form=4)
SHORT, FEW_BYTES = Primitive("STRING", form=MaxLength(3)), Primitive("BINARY", form=MaxLength(2))
PARTS = "STRUCT<u: STRING, f: BINARY>"
VALUE_STRUCT = Struct((("u", UUID), ("f", FOUR_BYTES)))
IS_NONE = rf"RLIKE '{UUID_PATTERN}'".replace("\\", "\\\\")
EACH = f"e1 -> coalesce(NOT e1 {IS_NONE}, false)"


def build_typed_table(*columns: Column, key: KeyFormat | None = None, **target_columns: object) -> Table:
    target = Struct(tuple((name, kind) for name, kind in target_columns.items()))
    return replace(build_table(), key=key or KeyFormat(), value=ValueFormat(columns=columns), target_schema=target)


@pytest.mark.parametrize(
    ("column", "target_type", "limits"),
    [
        (Column("a", "STRING"), TEXT, []),
        (Column("a", "STRING"), UUID, [("a: not a UUID", f"NOT value_struct.`a` {IS_NONE}")]),
        (Column("A", "BINARY"), FOUR_BYTES, [("A: not 4 bytes", "octet_length(value_struct.`A`) <> 4")]),
        (
            Column("a", PARTS), VALUE_STRUCT,
            [("a.u: not a UUID", f"NOT value_struct.`a`.`u` {IS_NONE}"),
             ("a.f: not 4 bytes", "octet_length(value_struct.`a`.`f`) <> 4")],
        ),
        (
            Column("a", "ARRAY<MAP<STRING, STRING>>"), Array(Map(TEXT, UUID)),
            [("a: not a UUID", f"exists(value_struct.`a`, e0 -> coalesce(exists(map_values(e0), {EACH}), false))")],
        ),
        (Column("a", "STRING"), SHORT, [("a: longer than 3 characters", "char_length(value_struct.`a`) > 3")]),
        (Column("a", "BINARY"), FEW_BYTES, [("a: longer than 2 bytes", "octet_length(value_struct.`a`) > 2")]),
        (
            Column("a", "MAP<STRING, BINARY>"), Array(Struct((("Key", SHORT), ("Value", FEW_BYTES)))),
            [("a: longer than 3 characters",
              "exists(map_keys(value_struct.`a`), e0 -> coalesce(char_length(e0) > 3, false))"),
             ("a: longer than 2 bytes",
              "exists(map_values(value_struct.`a`), e0 -> coalesce(octet_length(e0) > 2, false))")],
        ),
    ],
)  # fmt: skip
def test_limits_of_a_column(column: Column, target_type: object, limits: list[tuple[str, str]]) -> None:
    table = build_typed_table(column, a=target_type)
    value_limits = [
        (reason.rpartition(", which the table's column ")[0], sql) for reason, sql in list_value_limits(table)
    ]
    assert value_limits == limits


def test_limits_of_a_key_whose_column_has_another_name_and_of_one_struct() -> None:
    key = KeyFormat(fields=("u", "f"), columns=(Column("u", "STRING"), Column("f", "BINARY")), prefix="k_")
    flat = build_typed_table(key=key, k_u=UUID, k_f=FOUR_BYTES)
    assert [sql for _, sql in list_key_limits(flat)] == [
        f"NOT key_struct.`u` {IS_NONE}", "octet_length(key_struct.`f`) <> 4"
    ]  # fmt: skip
    typed_table = build_typed_table(key=replace(key, prefix="", into="k"), k=VALUE_STRUCT)
    assert [sql for _, sql in list_key_limits(typed_table)] == [sql for _, sql in list_key_limits(flat)]
    assert list_key_limits(build_typed_table(Column("u", "STRING"), u=UUID)) == ()


@pytest.mark.parametrize("kind", ["JSON", "ARRAY<GEOGRAPHY>", "STRUCT<a: RANGE>", "DECIMAL(76,38)"])
def test_column_of_the_table_that_no_record_can_be_read_as_is_refused_before_anything_is_read(kind: str) -> None:
    declared_table, target_table = build_typed_table(), build_typed_table(Column("id", "BIGINT"), Column("doc", kind))
    declared_table = replace(declared_table, value=ValueFormat())
    with pytest.raises(ConfigurationError, match=r"column=doc: records cannot be read.*write value\.schema"):
        check_adopted_types(declared_table, target_table)
    check_adopted_types(target_table, target_table)  # the file's own, which are looked at elsewhere
    check_adopted_types(
        declared_table, build_typed_table(Column("id", "BIGINT"), Column("n", "MAP<STRING, ARRAY<DECIMAL(38,9)>>"))
    )


def test_text_that_names_a_folder_is_limited_in_key_and_value_also_of_a_new_table() -> None:
    columns = (Column("Name", "STRING"), Column("raw", "BINARY"), Column("n", "INT"), Column("s", "STRUCT<x: STRING>"))
    table = build_typed_table(*columns, key=KeyFormat(fields=("name",), columns=(Column("name", "STRING"),)))
    table = replace(table, target_schema=None)
    folder_limits = (
        FolderLimit(("NAME",), 30, 200), FolderLimit(("raw",), None, 99), FolderLimit(("n",), None, 9),
        FolderLimit(("s", "X"), None, 50),
    )  # fmt: skip
    why = "its value names the folder of a partition, and is too long for that: limit={} bytes, percent-encoded"
    cut = "octet_length(key_struct.`name`) * 4 > 200 AND length(url_encode(substring(key_struct.`name`, 1, 30))) > 200"
    assert list_key_limits(table, folder_limits) == ((f"name: {why.format(200)}", cut),)
    limits = list_value_limits(table, folder_limits)
    names = (("Name", 200), ("raw", 99), ("s.x", 50))
    assert [reason for reason, _ in limits] == [f"{name}: {why.format(limit)}" for name, limit in names]
    assert limits[1][1].endswith("length(url_encode(base64(value_struct.`raw`))) > 99")
