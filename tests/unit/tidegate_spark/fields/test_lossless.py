"""The SQL text that reads JSON without loss; what it does to values is shown on real Spark in the integration tests."""

import pytest
from tidegate.schema.data_types import parse
from tidegate.sql.spark import literal, quoted
from tidegate_spark.fields.lossless import ddl, lossy, text_type, typed

GUARDED = ["DECIMAL(12,2)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TINYINT", "SMALLINT"]
EXACT = ["STRING", "INT", "BIGINT", "BOOLEAN", "DOUBLE", "FLOAT", "BINARY"]


@pytest.mark.parametrize("text", GUARDED)
def test_type_that_the_parser_would_round_is_read_as_text(text: str) -> None:
    assert text_type(parse(text)) == "STRING"
    assert lossy("x", parse(text), None) is not None


@pytest.mark.parametrize("text", EXACT)
def test_type_that_the_parser_reads_exactly_is_left_alone(text: str) -> None:
    assert text_type(parse(text)) == text
    assert typed("x", parse(text), None) == "x"
    assert lossy("x", parse(text), None) is None


@pytest.mark.parametrize("text", GUARDED)
def test_guard_reaches_leaves_inside_arrays_maps_and_structs(text: str) -> None:
    nested = parse(f"ARRAY<MAP<STRING, STRUCT<a: {text}, b: INT>>>")
    parsed = text_type(parse(text))
    assert text_type(nested) == f"ARRAY<MAP<STRING, STRUCT<`a`: {parsed}, `b`: INT>>>"
    assert typed("x", nested, None).startswith("transform(x, e -> transform_values(e, (k, v) -> CASE")
    assert (lossy("x", nested, None) or "").startswith("exists(x, e -> coalesce(exists(map_values(e), v -> coalesce((")


@pytest.mark.parametrize("text", ["STRING", "DOUBLE", "FLOAT"])
def test_type_that_the_parser_changes_in_silence_is_judged_by_the_text_that_was_parsed(text: str) -> None:
    assert "value_text" in (lossy("x", parse(text), None, "value_text") or "")


def test_null_struct_does_not_become_a_struct_of_nulls() -> None:
    assert typed("x", parse("STRUCT<a: DATE>"), None).startswith("CASE WHEN x IS NOT NULL THEN named_struct('a', ")


def test_whole_numbers_become_a_time_only_under_a_stated_unit() -> None:
    assert "timestamp_millis" in typed("x", parse("TIMESTAMP"), "millis")
    assert "THEN CAST(NULL AS TIMESTAMP)" in typed("x", parse("TIMESTAMP"), None)


def test_map_keys_are_never_converted() -> None:
    assert text_type(parse("MAP<DATE, DATE>")) == "MAP<DATE, STRING>"
    assert ddl(parse("MAP<DATE, STRUCT<a: DATE>>")) == "MAP<DATE, STRUCT<`a`: DATE>>"


@pytest.mark.parametrize(
    ("given", "sql"), [("it's", r"'it\'s'"), ("back\\slash", r"'back\\slash'"), ("\\'", r"'\\\''")]
)
def test_literal_cannot_be_broken_out_of(given: str, sql: str) -> None:
    assert literal(given) == sql


def test_identifier_cannot_be_broken_out_of() -> None:
    assert quoted("a`b") == "`a``b`"
