"""Spark's type texts taken apart: nested, quoted, with every spelling that a user may choose."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from tidegate.adapters.iceberg.types import to_columns, to_iceberg_type
from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import Array, Map, Primitive, Struct, format_type, parse_type


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("bigint", "BIGINT"),
        (" INT ", "INT"),
        ("integer", "INT"),
        ("LONG", "BIGINT"),
        ("timestamp_ltz", "TIMESTAMP"),
        ("DECIMAL", "DECIMAL(10,0)"),
        ("decimal( 12 , 2 )", "DECIMAL(12,2)"),
        ("DECIMAL(7)", "DECIMAL(7)"),
        ("numeric(5,1)", "DECIMAL(5,1)"),
    ],
)
def test_every_spelling_of_a_type_means_the_same(text: str, name: str) -> None:
    assert parse_type(text) == Primitive(name)


@pytest.mark.parametrize(
    ("text", "decimal"), [("DECIMAL(12,2)", (12, 2)), ("DECIMAL(7)", (7, 0)), ("DECIMAL", (10, 0)), ("INT", None)]
)
def test_bare_decimal_has_sparks_precision(text: str, decimal: tuple[int, int] | None) -> None:
    found = parse_type(text)
    assert isinstance(found, Primitive)
    assert found.decimal == decimal


def test_comma_inside_a_decimal_does_not_end_a_struct_field() -> None:
    assert parse_type("STRUCT<a: DECIMAL(12,2), b: MAP<STRING, INT>>") == Struct(
        (("a", Primitive("DECIMAL(12,2)")), ("b", Map(Primitive("STRING"), Primitive("INT"))))
    )


def test_field_names_may_hold_what_separates_fields() -> None:
    assert parse_type("STRUCT<`a, b: <c>`: INT, `d``e` STRING>") == Struct(
        (("a, b: <c>", Primitive("INT")), ("d`e", Primitive("STRING")))
    )


@pytest.mark.parametrize("name", ["`", "``", "`0", "0`", "`a`", "a`, `b", ".`a", "a.`b`"])
def test_name_with_backquotes_anywhere_is_read_as_it_is_written(name: str) -> None:
    struct = Struct(((name, Array(Primitive("STRING"))), ("b", Struct(((name, Primitive("INT")),)))))
    assert parse_type(format_type(struct)) == struct


def test_nesting_is_kept() -> None:
    inner = Struct((("x", Array(Primitive("INT"))),))
    assert parse_type("ARRAY<MAP<STRING, STRUCT<x: ARRAY<INT>>>>") == Array(Map(Primitive("STRING"), inner))


@pytest.mark.parametrize("text", ["ARRAY<INT", "MAP<INT>", "ARRAY<INT, INT>", "LIST<INT>"])
def test_type_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_type(text)


def read_iceberg_type(text: str) -> str:
    (column,) = to_columns(Schema(NestedField(1, "c", to_iceberg_type(text))))
    return column.type


@pytest.mark.parametrize(
    "text",
    [
        "BOOLEAN",
        "BIGINT",
        "DECIMAL(38,10)",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
        "DATE",
        "BINARY",
        "ARRAY<STRING>",
        "MAP<STRING, BIGINT>",
        "STRUCT<`a b`: INT, `c`: ARRAY<STRUCT<`d``e`: DOUBLE>>>",
    ],
)
def test_type_read_back_from_a_table_is_the_one_that_was_asked_for(text: str) -> None:
    assert read_iceberg_type(text) == text


@pytest.mark.parametrize("text", ["TINYINT", "SMALLINT"])
def test_small_integers_widen_as_iceberg_has_none(text: str) -> None:
    assert read_iceberg_type(text) == "INT"


def test_type_without_a_counterpart_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="INTERVAL"):
        to_iceberg_type("INTERVAL")
