"""A column holds all values of a field, by the kinds that a batch has of it, whichever came first."""

from itertools import islice, permutations

import pytest
from tidegate.schema.data_types import format_type
from tidegate.schema.inferred_types import Infer, infer_type

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
