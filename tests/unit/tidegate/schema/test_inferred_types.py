"""A column holds all values of a field, by the kinds that a batch has of it, whichever came first."""

from itertools import islice, permutations

import pytest
from tidegate.schema.data_types import Column, format_type
from tidegate.schema.inferred_types import GrownColumns, Infer, grow_columns, infer_type, overlay_columns

LEAVES = [
    ({"BIGINT"}, "BIGINT"), ({"BOOLEAN"}, "BOOLEAN"), ({"STRING"}, "STRING"), ({"WHOLE"}, "DECIMAL(38,0)"),
    ({"BIGINT", "WHOLE"}, "DECIMAL(38,0)"), ({"DECIMAL"}, "DOUBLE"), ({"BIGINT", "DOUBLE"}, "DOUBLE"),
    ({"BIGINT", "STRING"}, "STRING"), ({"BOOLEAN", "BIGINT"}, "STRING"), ({"OBJECT", "BIGINT"}, "STRING"),
    ({"OBJECT", "ARRAY"}, "STRING"), (set(), None),
]  # fmt: skip


@pytest.mark.parametrize(("kinds", "expected"), LEAVES)
def test_values_of_several_kinds_find_a_type_that_holds_all(kinds: set[str], expected: str | None) -> None:
    found = infer_type({("a",): kinds}, ("a",), Infer())
    assert (None if found is None else format_type(found)) == expected


@pytest.mark.parametrize(
    ("word", "expected"), [("double", "DOUBLE"), ("decimal", "DECIMAL(38,9)"), ("string", "STRING")]
)
def test_fractions_are_what_the_file_says(word: str, expected: str) -> None:
    for kinds in ({"DECIMAL"}, {"BIGINT", "DECIMAL"}, {"WHOLE", "DOUBLE"}):
        assert format_type(infer_type({("a",): kinds}, ("a",), Infer(decimals=word))) == expected


NESTED = {
    ("a",): {"OBJECT"}, ("a", "n"): {"BIGINT"}, ("a", "l"): {"ARRAY"}, ("a", "l", "[]"): {"OBJECT"},
    ("a", "l", "[]", "Z"): {"STRING"}, ("a", "l", "[]", "b"): {"BOOLEAN"}, ("a", "e"): {"ARRAY"},
    ("a", "m"): {"ARRAY"}, ("a", "m", "[]"): {"ARRAY"}, ("a", "m", "[]", "[]"): {"BIGINT"},
}  # fmt: skip


def test_objects_become_structs_of_what_they_hold() -> None:
    """Empty lists say nothing, and a list of lists has texts."""
    expected = "STRUCT<`l`: ARRAY<STRUCT<`Z`: STRING, `b`: BOOLEAN>>, `m`: ARRAY<STRING>, `n`: BIGINT>"
    for order in islice(permutations(NESTED.items()), 50):
        assert format_type(infer_type(dict(order), ("a",), Infer())) == expected
    assert format_type(infer_type(NESTED, ("a",), Infer(objects="string"))) == "STRING"
    assert infer_type({("a",): {"OBJECT"}}, ("a",), Infer()) is None


@pytest.mark.parametrize("names", [("b", "B"), ("b", " "), ("b", "x.y"), ("b", "a\x1b")])
def test_object_whose_names_no_struct_has_is_text(names: tuple[str, str]) -> None:
    kinds = {("a",): {"OBJECT"}, **{("a", name): {"BIGINT"} for name in names}}
    assert format_type(infer_type(kinds, ("a",), Infer())) == "STRING"


COLUMNS = (
    Column("id", "BIGINT"), Column("at", "STRUCT<city: STRING>"), Column("Name", "STRING"),
    Column("lines", "ARRAY<STRUCT<sku: STRING>>"),
)  # fmt: skip
GROWN = {
    "a new field": ({("n",): {"BIGINT"}}, [("n", "BIGINT")], 1),
    "a name with a blank": ({("n x",): {"BIGINT"}}, [("n x", "BIGINT")], 1),
    "a field inside of a struct": ({("at.zip",): {"BIGINT"}}, [("at", "STRUCT<`city`: STRING, `zip`: BIGINT>")], 1),
    "fields inside of a list": (
        {("lines.n",): {"DOUBLE"}, ("lines.q",): {"BOOLEAN"}},
        [("lines", "ARRAY<STRUCT<`sku`: STRING, `n`: DOUBLE, `q`: BOOLEAN>>")],
        2,
    ),
    "an object": (
        {("o",): {"OBJECT"}, ("o", "a"): {"BIGINT"}, ("o", "b"): {"STRING"}},
        [("o", "STRUCT<`a`: BIGINT, `b`: STRING>")],
        2,
    ),
    "two spellings of one field": ({("New",): {"BIGINT"}, ("new",): {"DECIMAL"}}, [("New", "DOUBLE")], 1),
    "another spelling of a column": ({("name",): {"BIGINT"}}, [], 0),
    "another spelling inside of a struct": ({("at.City",): {"STRING"}}, [], 0),
    "fields inside of a declared column": ({("id.x",): {"BIGINT"}, ("ID",): {"BIGINT"}}, [], 0),
    "names of no column": ({("`n.x`",): {"BIGINT"}, ("_file",): {"BIGINT"}, ("$n",): {"STRING"}}, [], 0),
    "symbols, of which BigQuery knows none": (
        {("€",): {"BIGINT"}, ("a😀",): {"BIGINT"}, ("x°",): {"BIGINT"}, ("Größe 名_-%'",): {"BIGINT"}},
        [("Größe 名_-%'", "BIGINT")],
        1,
    ),
    "an empty name": (
        {("",): {"BIGINT"}, ("``",): {"BIGINT"}, ("at.",): {"BIGINT"}, ("b",): {"BIGINT"}},
        [("b", "BIGINT")],
        1,
    ),
    "an object of nothing": ({("o",): {"OBJECT"}}, [], 0),
}


@pytest.mark.parametrize("case", GROWN)
def test_columns_grow_by_what_records_hold(case: str) -> None:
    kinds, expected, fields = GROWN[case]
    grown = grow_columns(COLUMNS, {"id"}, kinds, Infer())
    assert [(column.name, column.type) for column in grown.columns] == expected
    assert grown.fields == fields


def test_grown_columns_keep_their_places() -> None:
    grown = grow_columns(COLUMNS, set(), {("at.zip",): {"BIGINT"}, ("z",): {"STRING"}, ("b",): {"STRING"}}, Infer())
    columns = overlay_columns(COLUMNS, grown.columns)
    assert [column.name for column in columns] == ["id", "at", "Name", "lines", "b", "z"]
    again = {("at.zip",): {"BIGINT"}, ("z",): {"BIGINT"}}
    assert grow_columns(columns, set(), again, Infer()) == GrownColumns()
