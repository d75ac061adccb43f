"""What follows a pipeline's columns in a destination, what is refused, and how staged rows fit renamed columns."""

import pytest
from tidegate.errors import IncompatibleSchema
from tidegate.schema.data_types import Array, Column, Map, Primitive, Struct, parse_type
from tidegate.schema.evolution import (
    EvolutionRules,
    add_old_names,
    find_schema_changes,
    render_aligned,
    render_aligned_field,
    replace_map_types,
    to_struct,
)

INT, TEXT = Primitive("INT"), Primitive("STRING")


def build_struct(*fields: str, required: tuple[str, ...] = (), aliases: tuple[tuple[str, str], ...] = ()) -> Struct:
    columns = [Column(*field.split(" ", 1)) for field in fields]
    return Struct(to_struct(columns).fields, frozenset(required), aliases)


def list_changes(table: Struct, *columns: str, **rules: bool) -> list[str]:
    wanted = [Column(*column.removesuffix(" NOT NULL").split(" ", 1), "NOT NULL" not in column) for column in columns]
    return [str(change) for change in find_schema_changes("lake.shop.t", table, wanted, EvolutionRules(**rules))]


def test_map_is_its_entries_in_a_table_that_knows_no_maps() -> None:
    columns = (Column("m", "MAP<STRING, INT>"), Column("s", "STRUCT<a: ARRAY<STRUCT<m: MAP<STRING, DATE>>>>"))
    entries = replace_map_types(columns)
    assert entries[0].type == "ARRAY<STRUCT<`key`: STRING, `value`: INT>>"
    table = build_struct(
        "m ARRAY<STRUCT<key: STRING, value: BIGINT>>",
        "s STRUCT<a: ARRAY<STRUCT<m: ARRAY<STRUCT<key: STRING, value: DATE>>>>>",
    )
    assert find_schema_changes("dwh.shop.t", table, entries, EvolutionRules()) == ()


GROWS = [
    ("x INT", "x INT", []),
    ("x INT", "x TINYINT", []),
    ("x BIGINT", "x INT", []),
    ("x INT", "x BIGINT", ["widened x from INT to BIGINT"]),
    ("x FLOAT", "x DOUBLE", ["widened x from FLOAT to DOUBLE"]),
    ("x DECIMAL(5,2)", "x DECIMAL(9,2)", ["widened x from DECIMAL(5,2) to DECIMAL(9,2)"]),
    ("x DECIMAL(9,2)", "x DECIMAL(5,2)", []),
    ("x STRUCT<a: INT>", "x STRUCT<A: INT, b: STRING>", ["added x.b STRING"]),
    ("x STRUCT<a: INT>", "x STRUCT<a: BIGINT>", ["widened x.a from INT to BIGINT"]),
    ("x STRUCT<a: STRUCT<b: INT>>", "x STRUCT<a: STRUCT<b: INT, c: DATE>>", ["added x.a.c DATE"]),
    ("x ARRAY<STRUCT<a: INT>>", "x ARRAY<STRUCT<a: INT, b: INT>>", ["added x.element.b INT"]),
    ("x ARRAY<INT>", "x ARRAY<BIGINT>", ["widened x.element from INT to BIGINT"]),
    ("x MAP<STRING, STRUCT<a: INT>>", "x MAP<STRING, STRUCT<b: INT>>", ["added x.value.b INT"]),
    ("x MAP<STRING, FLOAT>", "x MAP<STRING, DOUBLE>", ["widened x.value from FLOAT to DOUBLE"]),
    ("X INT", "x INT", []),
]


@pytest.mark.parametrize(("before", "after", "expected"), GROWS)
def test_table_grows_by_what_loses_nothing(before: str, after: str, expected: list[str]) -> None:
    assert list_changes(build_struct(before), after) == expected


REFUSED = [
    ("x INT", "x STRING"),
    ("x BIGINT", "x DOUBLE"),
    ("x STRING", "x BINARY"),
    ("x DECIMAL(5,2)", "x DECIMAL(9,3)"),
    ("x DATE", "x TIMESTAMP"),
    ("x TIMESTAMP", "x TIMESTAMP_NTZ"),
    ("x INT", "x STRUCT<a: INT>"),
    ("x STRUCT<a: INT>", "x INT"),
    ("x ARRAY<INT>", "x MAP<STRING, INT>"),
    ("x MAP<STRING, INT>", "x MAP<INT, INT>"),
    ("x STRUCT<a: INT>", "x STRUCT<a: STRING>"),
]


@pytest.mark.parametrize(("before", "after"), REFUSED)
def test_any_other_change_is_refused_with_both_types_and_the_way_out(before: str, after: str) -> None:
    with pytest.raises(IncompatibleSchema, match=r"column=x.* incompatible change from type=.* to type=") as error_info:
        list_changes(build_struct(before), after)
    assert "nothing was written" in str(error_info.value)


def test_required_column_is_relaxed_where_the_record_may_lack_it() -> None:
    assert list_changes(build_struct("x INT", required=("x",)), "x INT") == ["relaxed x"]
    assert list_changes(build_struct("x INT", required=("x",)), "x INT NOT NULL") == []
    nested = Struct((("x", Struct((("a", INT), ("b", INT)), frozenset({"a", "b"}))),))
    assert list_changes(nested, "x STRUCT<a: INT>") == ["relaxed x.a", "relaxed x.b"]
    assert list_changes(Struct((("x", Array(INT, True)),)), "x ARRAY<INT>") == ["relaxed x.element"]
    assert list_changes(Struct((("x", Map(TEXT, INT, True)),)), "x MAP<STRING, INT>") == ["relaxed x.value"]


def test_required_column_that_nobody_fills_is_refused() -> None:
    with pytest.raises(IncompatibleSchema, match="column=y: required, and the pipeline does not fill it"):
        list_changes(build_struct("x INT", "y INT", required=("y",)), "x INT")


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("x INT", "y INT", "add"),
        ("x STRUCT<a: INT>", "x STRUCT<a: INT, b: INT>", "add"),
        ("x INT", "x BIGINT", "widen"),
        ("x ARRAY<INT>", "x ARRAY<BIGINT>", "widen"),
    ],
)
def test_change_that_is_not_allowed_names_the_rule(before: str, after: str, rule: str) -> None:
    with pytest.raises(IncompatibleSchema, match=f"evolve.{rule}"):
        list_changes(build_struct(before), after, **{rule: False})


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("http STRUCT<Status: INT>", "Http.status INT", "http.status"),
        ("http.status INT", "http STRUCT<status: INT>", "http.status"),
        ("x ARRAY<INT>", "x.element INT", "x.element"),
        ("x MAP<STRING, STRUCT<`a.b`: INT>>", "x MAP<STRING, STRUCT<a: STRUCT<b: INT>>>", "x.value.a.b"),
    ],
)
def test_part_of_a_name_that_the_table_has_already_is_refused_before_iceberg_sees_it(
    before: str, after: str, name: str
) -> None:
    """It says `multiple fields for name`, in each merge."""
    with pytest.raises(IncompatibleSchema, match=rf"the table has {name} already.*nothing was written; give one of"):
        list_changes(build_struct(before), after)
    assert list_changes(build_struct(before), before) == []


def test_renamed_column_is_known_by_its_old_name() -> None:
    table = build_struct("full_name STRING", "x INT", aliases=(("name", "full_name"),))
    assert list_changes(table, "name STRING", "x INT") == []
    assert list_changes(table, "NAME STRING", "full_name STRING") == []
    struct = build_struct("full_name STRING", "name INT", aliases=(("name", "full_name"),))
    assert (struct.find_name("name"), struct.find_name("full_name")) == ("name", "full_name")


def test_table_without_a_declared_schema_reads_a_renamed_column_under_every_name() -> None:
    inner = Struct((("b", INT),), aliases=(("a", "b"),))
    table = Struct((("full_name", TEXT), ("x", inner)), aliases=(("name", "full_name"),))
    assert add_old_names(table) == Struct(
        (("full_name", TEXT), ("x", parse_type("STRUCT<b: INT, a: INT>")), ("name", TEXT))
    )
    respelled = build_struct("full_name STRING", aliases=(("NAME", "full_name"), ("name", "full_name")))
    assert [name for name, _ in add_old_names(respelled).fields] == ["full_name", "NAME"], "in Spark they are one name"


ALIGNED = [
    ("INT", "INT", "e"),
    ("INT", "BIGINT", "CAST(e AS BIGINT)"),
    ("STRUCT<a: INT>", "STRUCT<A: INT>", "e"),
    (
        "STRUCT<b: INT, a: INT>",
        "STRUCT<a: INT, b: INT, c: DATE>",
        "CASE WHEN e IS NOT NULL THEN named_struct('a', e.`a`, 'b', e.`b`, 'c', CAST(NULL AS DATE)) END",
    ),
    ("ARRAY<INT>", "ARRAY<BIGINT>", "transform(e, e -> CAST(e AS BIGINT))"),
    ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", "transform_values(e, (k, v) -> CAST(v AS BIGINT))"),
]


@pytest.mark.parametrize(("staged", "table", "sql"), ALIGNED)
def test_staged_value_is_fitted_to_the_tables_type(staged: str, table: str, sql: str) -> None:
    assert render_aligned("e", parse_type(staged), parse_type(table)) == sql


def test_field_staged_under_several_of_its_names_is_the_first_that_is_there() -> None:
    table = build_struct("full_name STRING", "y INT", aliases=(("name", "full_name"),))
    staged = build_struct("name STRING", "full_name STRING")
    assert render_aligned_field("value", staged, table, "full_name") == "coalesce(value.`full_name`, value.`name`)"
    assert render_aligned_field("value", staged, table, "y") is None
