"""The SQL text that reads JSON without loss; what it does to values is shown on real Spark in the integration tests."""

import pytest
from tidegate.schema.data_types import format_type, parse_type
from tidegate.sql.spark import quote, render_literal
from tidegate_spark.fields.lossless import format_parsed_type, render_conversion, render_is_lossy

PARSED_TYPES = {
    **dict.fromkeys(("DECIMAL(12,2)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"), "STRING"),
    **dict.fromkeys(("TINYINT", "SMALLINT"), "INT"),
}
EXACT = ["STRING", "INT", "BIGINT", "BOOLEAN", "DOUBLE", "FLOAT", "BINARY"]


@pytest.mark.parametrize("text", PARSED_TYPES)
def test_type_that_the_parser_would_round_or_wrap_is_read_as_another(text: str) -> None:
    assert format_parsed_type(parse_type(text)) == PARSED_TYPES[text]
    assert render_is_lossy("x", parse_type(text), None) is not None


@pytest.mark.parametrize("text", EXACT)
def test_type_that_the_parser_reads_exactly_is_left_alone(text: str) -> None:
    assert format_parsed_type(parse_type(text)) == text
    assert render_conversion("x", parse_type(text), None) == "x"
    assert render_is_lossy("x", parse_type(text), None) is None


@pytest.mark.parametrize("text", PARSED_TYPES)
def test_guard_reaches_leaves_inside_arrays_maps_and_structs(text: str) -> None:
    nested = parse_type(f"ARRAY<MAP<STRING, STRUCT<a: {text}, b: INT>>>")
    parsed_type = format_parsed_type(parse_type(text))
    assert format_parsed_type(nested) == f"ARRAY<MAP<STRING, STRUCT<`a`: {parsed_type}, `b`: INT>>>"
    assert render_conversion("x", nested, None).startswith("transform(x, e -> transform_values(e, (k, v) -> CASE")
    assert (render_is_lossy("x", nested, None) or "").startswith(
        "exists(x, e -> coalesce(exists(map_values(e), v -> coalesce(("
    )


@pytest.mark.parametrize("text", ["STRING", "DOUBLE", "FLOAT"])
def test_type_that_the_parser_changes_in_silence_is_judged_by_the_text_that_was_parsed(text: str) -> None:
    assert "value_text" in (render_is_lossy("x", parse_type(text), None, "value_text") or "")


def test_null_struct_does_not_become_a_struct_of_nulls() -> None:
    assert render_conversion("x", parse_type("STRUCT<a: DATE>"), None).startswith(
        "CASE WHEN x IS NOT NULL THEN named_struct('a', "
    )


def test_whole_numbers_become_a_time_only_under_a_stated_unit() -> None:
    assert "timestamp_millis" in render_conversion("x", parse_type("TIMESTAMP"), "millis")
    assert "THEN CAST(NULL AS TIMESTAMP)" in render_conversion("x", parse_type("TIMESTAMP"), None)


def test_map_keys_are_never_converted() -> None:
    assert format_parsed_type(parse_type("MAP<DATE, DATE>")) == "MAP<DATE, STRING>"
    assert format_type(parse_type("MAP<DATE, STRUCT<a: DATE>>")) == "MAP<DATE, STRUCT<`a`: DATE>>"


@pytest.mark.parametrize(("text", "sql"), [("it's", r"'it\'s'"), ("back\\slash", r"'back\\slash'"), ("\\'", r"'\\\''")])
def test_literal_cannot_be_broken_out_of(text: str, sql: str) -> None:
    assert render_literal(text) == sql


def test_identifier_cannot_be_broken_out_of() -> None:
    assert quote("a`b") == "`a``b`"
