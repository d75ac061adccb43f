"""JSON leaves read without loss: what Spark would round, cut or wrap is read as text first and converted under guard.

Every function returns SQL text. `format_parsed_type` is how a type is parsed, `render_conversion` makes the declared
type of what was parsed (NULL if it cannot), and `render_is_lossy` is true if that would change or lose something. The
JSON `text` shows what the parser has changed: words for infinity, halves of characters, quotes.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.schema.data_types import (
    Array,
    Column,
    DataType,
    Map,
    Primitive,
    Struct,
    format_type,
    has_leaf,
)
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.avro import render_timestamp
from tidegate_spark.fields.conditions import render_any, render_any_inner
from tidegate_spark.fields.written_values import (
    BINARY_FRACTIONS,
    MOMENTS,
    NUMBER_PATTERN,
    TIMESTAMP_PATTERN,
    TIMESTAMP_TYPES,
    UTC_PATTERN,
    ZONE_PATTERN,
    render_certain_time,
    render_decimal_places,
    render_ends_without_name,
    render_lenient_number,
    render_variable_scale,
    render_variant_bytes,
    render_with_seconds,
    render_year_range,
)

# in so many words; else an infinite number was too large
INFINITE_PATTERN = r"""[":,\[\s][+-]?(?:Infinity|INF)[",\]}\s]"""
# a number that a FLOAT, and so a DOUBLE, may not hold
HUGE_NUMBER_PATTERN = r"[:,\[\s]-?(?:[0-9]{39}|[0-9.]+[eE][+]?[0-9]{2})"
HIGH_SURROGATE = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
LOW_SURROGATE = r"\\u[dD][c-fC-F]"
LONE_SURROGATE_PATTERN = (
    rf"(?<!\\)(?:\\\\)*+(?:{HIGH_SURROGATE}(?!{LOW_SURROGATE})|(?<!{HIGH_SURROGATE}){LOW_SURROGATE})"
)
STRING_PATTERN = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"' + r"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"
BARE_WORD_PATTERN = r"[+-]?(?:NaN|Infinity|INF)\b"
FIELD_NAME = re.compile(r"\.`((?:[^`]|``)*)`$")  # the last name in an expression; a name may hold what stands between
NON_FINITE_WORDS = ("NaN", *(f"{sign}{word}" for sign in ("", "-", "+") for word in ("Infinity", "INF")))


def render_is_quoted(digits: str, expr: str, text: str) -> str:
    """Whether digits at `expr` stand in quotes in the JSON `text`, so that no unit is meant for them."""
    quotes = f"contains({text}, concat('\"', {digits}, '\"'))"
    name = _render_field_pattern(expr)
    if name is None:
        return quotes
    name_pattern = render_literal(f'{name}"')
    return f"{quotes} AND {text} RLIKE concat({name_pattern}, {digits}, '\"')"


def _render_field_pattern(expr: str) -> str | None:
    name = FIELD_NAME.search(expr)
    if name is None:
        return None
    plain = name[1].replace("``", "`")
    return f"{re.escape(json.dumps(plain, ensure_ascii=False))}[ \\t\\r\\n]*:[ \\t\\r\\n]*"


def render_is_changed(expr: str, name: str, text: str) -> str:
    if name == "STRING":
        words = ", ".join(render_literal(f'"{word}"') for word in NON_FINITE_WORDS)
        is_word = f"{expr} IN ({words}) AND {_render_has_bare_word(expr, text)}"
        return f"contains({expr}, '?') AND {render_has_lone_surrogate(text)} OR {is_word}"
    # beside a number that may have been too large the text was read again: what is infinite then was written so
    return f"{render_is_infinite(expr)} AND NOT {text} RLIKE {render_literal(INFINITE_PATTERN)}"


def render_has_lone_surrogate(text: str) -> str:
    """Whether the JSON `text` has half of a character, which would be printed as a question mark."""
    return f"{text} RLIKE {render_literal(LONE_SURROGATE_PATTERN)}"


def _render_has_bare_word(expr: str, text: str) -> str:
    # the parser puts such a word into quotes
    name = _render_field_pattern(expr)
    if name is not None:
        return f"{text} RLIKE {render_literal(name + BARE_WORD_PATTERN)}"
    bare = f"regexp_replace({text}, {render_literal(STRING_PATTERN)}, '\"\"')"
    return f"{bare} RLIKE {render_literal(BARE_WORD_PATTERN)}"


def render_is_infinite(expr: str) -> str:
    return f"abs({expr}) = CAST('Infinity' AS DOUBLE)"


def render_may_overflow(text: str) -> str:
    """Whether `text` has a word for infinity, or a number that a FLOAT or a DOUBLE may not hold."""
    has_word = f"(contains({text}, 'Infinity') OR contains({text}, 'INF'))"
    patterns = (f"{text} RLIKE {render_literal(pattern)}" for pattern in (INFINITE_PATTERN, HUGE_NUMBER_PATTERN))
    return f"{has_word} AND {' AND '.join(patterns)}"


SMALL_INTEGERS = ("TINYINT", "SMALLINT")
GUARDED_TYPES = (*SMALL_INTEGERS, *MOMENTS)
CHECKED_TYPES = ("STRING", *BINARY_FRACTIONS)  # parsed as they are, and looked at afterwards
INTEGER_PATTERN = "^[+-]?[0-9]+$"
DATE_PATTERN = "^[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}Z?$"
NANOS_PATTERN = "[.][0-9]{6}[0-9]*[1-9]"
SECONDS_TEXT_LENGTH = 20  # a text with more digits than that is longer
FAR_POINT = "[eE][+-]?[0-9]{4,}"
# numbers that a double does not keep: more digits than 15 before an exponent, or more than a decimal has; or too small
LONG_NUMBER_PATTERN = "[0-9.]{17,}[eE]|[0-9.]{39,}|[0-9.][eE]-[0-9]{3}"


@dataclass(frozen=True)
class VariantDecimal(Primitive):
    """A decimal that is parsed as a VARIANT, which tells a number from a text; any other is parsed as text, faster."""


def format_parsed_type(data_type: DataType) -> str:
    """Return the DDL that a JSON parser is given: guarded leaves are STRING, or a larger integer."""
    match data_type:
        case Array(element):
            return f"ARRAY<{format_parsed_type(element)}>"
        case Map(key, value):
            return f"MAP<{format_type(key)}, {format_parsed_type(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{quote(name)}: {format_parsed_type(t)}' for name, t in fields)}>"
        case Primitive(name):
            guarded_type = "VARIANT" if _is_variant(data_type) else "INT" if name in SMALL_INTEGERS else "STRING"
            return guarded_type if _is_guarded(data_type) else name


def render_conversion(expr: str, data_type: DataType, unit: str | None) -> str:
    if not has_leaf(data_type, _is_guarded):
        return expr
    if isinstance(data_type, Primitive):
        return _render_leaf_conversion(expr, data_type, unit)
    return render_inner_values(expr, data_type, lambda inner, its_type: render_conversion(inner, its_type, unit))


def render_inner_values(expr: str, data_type: Array | Map | Struct, render: Callable[[str, DataType], str]) -> str:
    """Apply `render` to each value in an array, map or struct; keys of maps stay, and NULL stays NULL."""
    match data_type:
        case Array(element):
            return f"transform({expr}, e -> {render('e', element)})"
        case Map(_, value):
            return f"transform_values({expr}, (k, v) -> {render('v', value)})"
        case Struct(fields):
            inner = ", ".join(f"{render_literal(n)}, {render(f'{expr}.{quote(n)}', t)}" for n, t in fields)
            return f"CASE WHEN {expr} IS NOT NULL THEN named_struct({inner}) END"


def _render_leaf_conversion(expr: str, leaf: Primitive, unit: str | None) -> str:
    if leaf.encoding:
        return render_variant_bytes(expr, leaf.encoding)
    if leaf.is_lenient:
        return render_lenient_number(expr, leaf)
    text = render_text(expr, leaf)
    plain = render_text_conversion(text, leaf, unit)
    if not leaf.decimal:
        return plain
    return f"CASE WHEN startswith({text}, '{{') THEN {render_variable_scale(text, leaf)} ELSE {plain} END"


def render_is_lossy(
    expr: str, data_type: DataType, unit: str | None, text: str | None = None, conversion: str | None = None
) -> str | None:
    """Whether `render_conversion` would lose something; None if it never can.

    `text` is the JSON that was parsed: it shows what the parser has changed. `conversion`: the result of
    `render_conversion`, if it was computed.
    """
    if not _is_checked(data_type, text is not None):
        return None
    if isinstance(data_type, Primitive):
        return _render_is_leaf_lossy(expr, data_type, unit, text, conversion)
    inside = render_any_inner(expr, data_type, lambda at, inner: render_is_lossy(at, inner, unit, text))
    if isinstance(data_type, Map) and text:
        return f"({expr} IS NOT NULL AND ({render_has_bad_key(expr, text)} OR {inside or 'false'}))"
    return f"({inside})" if isinstance(data_type, Struct) else inside


def render_has_bad_key(expr: str, text: str) -> str:
    """Whether a key stands twice in the map that was parsed from `text`, or the parser changed one."""
    changed_key = render_is_changed("k", "STRING", text)
    return f"{render_has_key_twice(expr)} OR exists(map_keys({expr}), k -> contains(k, '?') AND ({changed_key}))"


def render_has_key_twice(expr: str) -> str:
    return f"size(array_distinct(map_keys({expr}))) < size({expr})"


def _render_is_leaf_lossy(expr: str, leaf: Primitive, unit: str | None, text: str | None, value: str | None) -> str:
    if leaf.is_lenient or leaf.encoding:
        value = value or render_conversion(expr, leaf, unit)
        return f"({render_text(expr, leaf)} IS NOT NULL AND ({value}) IS NULL)"
    if leaf.name in CHECKED_TYPES:
        return f"({expr} IS NOT NULL AND ({render_is_changed(expr, leaf.name, text or '')}))"
    leaf_text = render_text(expr, leaf)
    problem = render_is_text_lossy(leaf_text, leaf, unit, value)
    if text and (leaf.counts_days or (unit and leaf.name in MOMENTS)):
        problem += f" OR {leaf_text} RLIKE '{INTEGER_PATTERN}' AND {render_is_quoted(leaf_text, expr, text)}"
    if isinstance(leaf, VariantDecimal) and text:
        problem += f" OR schema_of_variant({expr}) = 'DOUBLE' AND {text} RLIKE {render_literal(LONG_NUMBER_PATTERN)}"
    if leaf.decimal:
        is_lost = f"({value or render_variable_scale(leaf_text, leaf)}) IS NULL"
        problem = f"CASE WHEN startswith({leaf_text}, '{{') THEN {is_lost} ELSE {problem} END"
    return f"({leaf_text} IS NOT NULL AND ({problem}))"


def render_text(expr: str, leaf: Primitive) -> str:
    return f"try_variant_get({expr}, '$', 'STRING')" if _is_variant(leaf) else expr


def render_is_null(expr: str, data_type: DataType) -> str:
    return f"{render_text(expr, data_type) if isinstance(data_type, Primitive) else expr} IS NULL"


def render_lacks_required(expr: str, data_type: DataType) -> str | None:
    """Whether something inside of the value is NULL and must not be; None if everything may be."""
    match data_type:
        case Array(element):
            return _render_any_lacks(expr, element, data_type.required)
        case Map(_, value):
            return _render_any_lacks(f"map_values({expr})", value, data_type.required)
        case Struct(fields):
            parts: list[str] = []
            for name, inner in fields:
                at = f"{expr}.{quote(name)}"
                is_null = f"{expr} IS NOT NULL AND {render_is_null(at, inner)}" if name in data_type.required else None
                parts += [part for part in (is_null, render_lacks_required(at, inner)) if part]
            return f"({render_any(parts)})" if parts else None
        case _:
            return None


def render_lacking_part_case(subject: str, column: Column, expr: str, data_type: DataType) -> str:
    """Return `WHEN … THEN …` for a value with NULL in a part that is NOT NULL; empty if it has no such part."""
    condition = render_lacks_required(expr, data_type)
    reason = render_literal(f"{subject} field {column.name} lacks a part that is NOT NULL in {column.type}")
    return f"WHEN {condition} THEN {reason}" if condition else ""


def _render_any_lacks(values: str, inner: DataType, is_required: bool) -> str | None:
    is_null = render_is_null("e", inner) if is_required else None
    parts = [part for part in (is_null, render_lacks_required("e", inner)) if part]
    return f"exists({values}, e -> {render_any(parts)})" if parts else None


def render_text_conversion(text: str, leaf: Primitive, unit: str | None) -> str:
    cast = f"try_cast({text} AS {leaf.name})"
    if leaf.name in TIMESTAMP_TYPES:
        number = f"try_cast({text} AS BIGINT)"
        whole = render_timestamp(number, unit, "TIMESTAMP", leaf.is_truncated) if unit else "NULL"
        pattern = render_literal(TIMESTAMP_PATTERN % (ZONE_PATTERN if leaf.name == "TIMESTAMP" else UTC_PATTERN))
        # the usual spelling by its places, without a pattern: a date, a time of day with seconds, and a zone or none
        places = " AND ".join(f"substring({text}, {place}, 1) = ':'" for place in (14, 17))
        usual = f"WHEN {_render_has_usual_year(text)} AND {places} AND {render_ends_without_name(text)} THEN {cast} "
        full = render_with_seconds(text)
        cast = f"try_cast({full} AS {leaf.name})"
        time_sql = render_certain_time(cast, full) if leaf.name == "TIMESTAMP" else cast
        return (
            f"CASE {usual if leaf.name == 'TIMESTAMP' else ''}"
            f"WHEN {text} RLIKE '{INTEGER_PATTERN}' THEN CAST({whole} AS {leaf.name}) "
            f"WHEN {text} RLIKE {pattern} THEN {_render_within_years(time_sql, leaf.name, text)} END"
        )
    if leaf.name == "DATE":
        number = f"date_add(DATE'1970-01-01', try_cast({text} AS INT))"
        days = _render_within_years(number, "DATE") if leaf.counts_days else "NULL"
        day = _render_within_years(f"try_cast(rtrim('Z', {text}) AS DATE)", "DATE", text)
        is_day_count = f"{text} RLIKE '{INTEGER_PATTERN}' AND abs(try_cast({text} AS BIGINT)) < 4000000"
        # the usual spelling by its places, without a pattern
        usual = (
            f"WHEN length({text}) = 10 AND {_render_has_usual_year(text)} AND substring({text}, 8, 1) = '-' "
            f"AND substring({text}, 10, 1) BETWEEN '0' AND '9' THEN {cast}"
        )
        return f"CASE {usual} WHEN {is_day_count} THEN {days} WHEN {text} RLIKE '{DATE_PATTERN}' THEN {day} END"
    if leaf.decimal:  # Spark would lay out each place of a number such as 1e-999999999
        return f"CASE WHEN NOT lower({text}) LIKE '%e%' OR NOT {text} RLIKE '{FAR_POINT}' THEN {cast} END"
    return cast


def _render_within_years(value: str, kind: str, text: str | None = None) -> str:
    # readers of files fail on such times; a text that begins with a year well inside is not compared
    usual = f"WHEN {_render_has_usual_year(text)} THEN {value} " if text else ""
    return f"CASE {usual}WHEN {value} BETWEEN {render_year_range(kind)} THEN {value} END"


def _render_has_usual_year(text: str) -> str:
    return f"substring({text}, 5, 1) = '-' AND substring({text}, 1, 4) BETWEEN '1000' AND '9998'"


def render_is_text_lossy(text: str, leaf: Primitive, unit: str | None, conversion: str | None = None) -> str:
    """Whether `render_text_conversion` is NULL for a text that is there, or lost something of it.

    `conversion`: the result of `render_text_conversion`, if it was computed.
    """
    value = conversion or render_text_conversion(text, leaf, unit)
    if leaf.decimal:
        precision, scale = leaf.decimal
        is_number = f"{text} RLIKE {render_literal(NUMBER_PATTERN)}"  # Spark reads one with blanks around it, too
        problem = f"NOT {is_number} OR ({value}) IS NULL OR {render_decimal_places(text)} > {scale}"
        usual = render_literal(rf"^-?[0-9]{{1,{precision - scale}}}(?:\.[0-9]{{0,{scale}}})?\z")
        return f"NOT {text} RLIKE {usual} AND ({problem})" if precision > scale else f"({problem})"
    if leaf.name in TIMESTAMP_TYPES:
        finer = f" OR length({text}) > {SECONDS_TEXT_LENGTH} AND {text} RLIKE '{NANOS_PATTERN}'"
        return f"({value}) IS NULL{'' if leaf.is_truncated else finer}"
    return f"({value}) IS NULL"


def _is_variant(leaf: Primitive) -> bool:
    return leaf.is_lenient or leaf.encoding is not None or isinstance(leaf, VariantDecimal)


def _is_guarded(leaf: Primitive) -> bool:
    return leaf.name in GUARDED_TYPES or _is_variant(leaf) or leaf.decimal is not None


def _is_checked(data_type: DataType, has_text: bool) -> bool:
    match data_type:
        case Array(element):
            return _is_checked(element, has_text)
        case Map(_, value):
            return has_text or _is_checked(value, has_text)  # a key may stand there twice
        case Struct(fields):
            return any(_is_checked(t, has_text) for _, t in fields)
        case Primitive(name):
            return _is_guarded(data_type) or (has_text and name in CHECKED_TYPES)
