"""Fields that no column holds are told in one line, with what to write in the pipeline file."""

import pytest
from tidegate.config.parsing.ddl import parse_columns
from tidegate.model.unknown_fields import MAX_SHOWN_FIELDS, UnknownField, UnknownFields


def test_line_declares_columns_by_their_names_and_tells_the_rest_as_numbers() -> None:
    fields = (
        UnknownField("zip", 7, "STRING"), UnknownField("n.x", 3, "BIGINT"), UnknownField("`a.b`", 2, "DOUBLE"),
        UnknownField("order no", 2, "BOOLEAN"), UnknownField("q", 1, "BIGINT"), UnknownField("r", 1, "BIGINT"),
    )  # fmt: skip
    assert len(fields) == MAX_SHOWN_FIELDS + 1
    assert UnknownFields(9, fields, 12).describe() == (
        "no column holds the fields zip (7), n.x (3), `a.b` (2), order no (2), q (1), 1 other fields, fields that are "
        "not named (12) of records=9; add zip STRING, `a.b` DOUBLE, `order no` BOOLEAN, q BIGINT to value.schema, or "
        "set value.unknown_fields: ignore"
    )


@pytest.mark.parametrize("name", ["case", "any", "like", "unique", "current_date", "Select", "zip", "größe", "a b"])
def test_line_can_be_pasted_for_a_field_that_is_called_like_a_word_of_the_grammar(name: str) -> None:
    (column,) = parse_columns(UnknownField(name, 1, "STRING").ddl)
    assert (column.name, column.type) == (name, "STRING")


def test_fields_inside_of_columns_are_declared_there() -> None:
    text = UnknownFields(2, (UnknownField("at.zip", 2, "BIGINT"),)).describe()
    assert text == (
        "no column holds the fields at.zip (2) of records=2; declare them inside of their columns in value.schema, or "
        "set value.unknown_fields: ignore"
    )


def test_name_that_a_record_made_up_writes_no_line_of_its_own() -> None:
    text = UnknownFields(1, (UnknownField("a\nlake.shop.orders: well\x1b[2J", 1, "STRING"),)).describe()
    assert text.isprintable()


def test_what_is_kept_is_read_again() -> None:
    unknown = UnknownFields(9, (UnknownField("zip", 7, "STRING"), UnknownField("n.x", 3, "BIGINT")), 12)
    assert UnknownFields.from_dict(unknown.to_dict()) == unknown
