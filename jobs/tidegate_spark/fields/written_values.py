"""Values that are written as text: numbers, bytes and times, read exactly as they are written, or NULL.

Numbers may be unscaled bytes and a scale, too (Connect's Decimal, Debezium's VariableScaleDecimal). Of the zones behind
times, 2026-03-29T02:30:00 Europe/Berlin, only names that mean one zone to everybody are read: Java takes BST for
Asia/Dhaka. A time in an hour that clocks skip is no moment; one that they show twice is the earlier one, as in Java.
Every function returns SQL text.
"""

from tidegate.schema.data_types import Primitive
from tidegate.sql.spark import render_literal, render_once

BINARY_FRACTIONS = ("FLOAT", "DOUBLE")
TIMESTAMP_TYPES = ("TIMESTAMP", "TIMESTAMP_NTZ")
UNSCALED_SCHEMA = '{"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}'
MAX_UNSCALED_BYTES = 63  # bytes whose length takes one byte in Avro; a number of 38 digits has 16
MAX_SCALE = 16_383  # PostgreSQL's
# to the very end: a line break behind a number is no part of it
INTEGER_PATTERN = r"^[+-]?[0-9]+\z"
NOT_FINITE_PATTERN = r"^[+-]?(NaN|Infinity|INF)\z"
NOT_ZERO_PATTERN = "^[+-]?[0.]*[1-9]"
# from here on a whole number may have digits that the type does not hold; one of fewer digits never does
LARGEST_EXACT = {"FLOAT": "16777216", "DOUBLE": "9007199254740992"}
EXACT_DIGITS = {"FLOAT": 7, "DOUBLE": 15}
LARGEST_FINITE = "1.7976931348623157E308D"
HIGH_UNIT = 1 << 62  # a double is two whole numbers exactly: how often this is in it, and the rest
NUMBER_PATTERN = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\z"


def render_lenient_number(variant: str, leaf: Primitive) -> str:
    """Read a JSON number, or a text that is a number and nothing else; NULL for anything else.

    A whole number has digits alone, as in JSON: neither a point nor an exponent.
    """
    text = f"try_variant_get({variant}, '$', 'STRING')"
    value = f"try_cast(b AS {leaf.name})"
    if leaf.name not in BINARY_FRACTIONS:
        plain = f"schema_of_variant({variant}) IN ('BIGINT', 'STRING')"
        return render_once(text, f"CASE WHEN {plain} AND b RLIKE {render_literal(INTEGER_PATTERN)} THEN {value} END")
    finite = f"b RLIKE {render_literal(NUMBER_PATTERN)} AND abs({value}) < CAST('Infinity' AS DOUBLE)"
    word = f"schema_of_variant({variant}) = 'STRING' AND b RLIKE {render_literal(NOT_FINITE_PATTERN)}"
    return render_once(text, f"CASE WHEN {finite} OR {word} THEN {value} END")


def render_is_rounded(text: str, name: str) -> str:
    """Whether the text of a number became another one as a FLOAT or DOUBLE: zero, or a whole number next to it.

    Not if the type itself prints the whole number in these digits: other languages write their numbers so.
    """
    value = f"try_cast({text} AS {name})"
    digits = f"try_cast({text} AS DECIMAL(38,0))"
    double = f"CAST({value} AS DOUBLE)"
    unit = f"{HIGH_UNIT}D"
    # Spark's own cast to DECIMAL takes the printed digits
    high = f"CAST(try_cast({double} / {unit} AS BIGINT) AS DECIMAL(38,0)) * CAST({HIGH_UNIT} AS DECIMAL(38,0))"
    exact = f"{high} + CAST(try_cast({double} % {unit} AS BIGINT) AS DECIMAL(38,0))"
    printed = f"try_cast(CAST({value} AS STRING) AS DECIMAL(38,0))"
    is_kept = f"coalesce({exact} = {digits}, false) OR coalesce({printed} = {digits}, false)"
    is_long = f"length({text}) > {EXACT_DIGITS[name]} AND {text} RLIKE {render_literal(INTEGER_PATTERN)}"
    is_zero = f"{value} = 0 AND {text} RLIKE {render_literal(NOT_ZERO_PATTERN)}"
    return f"({is_zero} OR {is_long} AND NOT ({is_kept}))"


def render_decimal_places(text: str) -> str:
    """Count a number's places behind its point, without zeros at the end; an exponent moves the point."""
    mantissa, power = (f"split_part(upper({text}), 'E', {part})" for part in (1, 2))
    plain = f"length(rtrim('0', split_part({text}, '.', 2)))"
    behind = f"length(split_part({mantissa}, '.', 2))"
    zeros = f"length(regexp_extract(replace({mantissa}, '.'), '0*$', 0))"
    moved = f"CASE WHEN {text} RLIKE '{NOT_ZERO_PATTERN}' THEN {behind} - {zeros} - try_cast({power} AS INT) ELSE 0 END"
    return f"CASE WHEN upper({text}) LIKE '%E%' THEN {moved} ELSE {plain} END"


def render_variable_scale(text: str, leaf: Primitive) -> str:
    """Read Debezium's VariableScaleDecimal, a JSON object of scale and unscaled bytes; NULL for any other object."""
    scale = f"try_cast(get_json_object({text}, '$.scale') AS INT)"
    number = render_decimal(f"try_to_binary(get_json_object({text}, '$.value'), 'base64')", scale, leaf)
    return f"CASE WHEN size(json_object_keys({text})) = 2 THEN {number} END"


def render_decimal(unscaled_bytes: str, scale: str, leaf: Primitive) -> str:
    """Read a big-endian two's complement number, divided by a power of ten; NULL if `leaf` cannot hold it exactly.

    Reads it as Avro: Spark's reader of that is exact, and its arithmetic is not.
    """
    length = "unhex(lpad(hex(2 * length(b)), 2, '0'))"
    whole = f"from_avro(concat({length}, b), {render_literal(UNSCALED_SCHEMA)}, map('mode', 'PERMISSIVE'))"
    digits = render_once(
        unscaled_bytes, f"CASE WHEN length(b) BETWEEN 1 AND {MAX_UNSCALED_BYTES} THEN CAST({whole} AS STRING) END"
    )
    if leaf.decimal is None:
        return render_once(f"struct({digits} AS w, {scale} AS s)", _render_plain_number("b.w", "b.s"))
    # moved as text, because a DECIMAL(38) has no room for both sides of the point
    scaled_sql = f"try_cast(concat({digits}, 'E', CAST(-({scale}) AS STRING)) AS {leaf.name})"
    return f"CASE WHEN {scale} BETWEEN -{MAX_SCALE} AND {leaf.decimal[1]} THEN {scaled_sql} END"


def _render_plain_number(whole: str, scale: str) -> str:
    digits = f"ltrim('-', {whole})"
    padded = f"lpad({digits}, greatest(length({digits}), {scale} + 1), '0')"
    sign = f"CASE WHEN {whole} LIKE '-%' THEN '-' ELSE '' END"
    whole_digits = f"substring({padded}, 1, length({padded}) - {scale})"
    large = f"CASE WHEN {whole} = '0' THEN '0' ELSE concat({whole}, repeat('0', -{scale})) END"
    return (
        f"CASE WHEN {scale} BETWEEN 1 AND {MAX_SCALE} THEN concat({sign}, {whole_digits}, '.', right({padded}, "
        f"{scale})) WHEN {scale} BETWEEN -{MAX_SCALE} AND 0 THEN {large} END"
    )


BASE64 = "base64"  # what JSON's parser and `fields.text` read by themselves
HEX_PATTERN = r"^(?:[0-9a-fA-F]{2})*+\z"
URL_SAFE_PATTERN = r"^(?:[A-Za-z0-9_-]{4})*+(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?\z"


def render_bytes(text: str, encoding: str) -> str:
    if encoding == "hex":
        return f"CASE WHEN {text} RLIKE {render_literal(HEX_PATTERN)} THEN unhex({text}) END"
    if encoding == "base64-url-safe":
        usual = f"try_to_binary(translate({text}, '-_', '+/'), 'base64')"
        return f"CASE WHEN {text} RLIKE {render_literal(URL_SAFE_PATTERN)} THEN {usual} END"
    return f"try_to_binary({text}, 'base64')"


def render_variant_bytes(variant: str, encoding: str) -> str:
    text = f"try_variant_get({variant}, '$', 'STRING')"
    return f"CASE WHEN schema_of_variant({variant}) = 'STRING' THEN {render_bytes(text, encoding)} END"


# what Spark promises to hold, and readers of tables know; beyond lies what PostgreSQL calls infinity
LAST_MOMENTS = {"DATE": "9999-12-31", **dict.fromkeys(TIMESTAMP_TYPES, "9999-12-31 23:59:59.999999")}
MOMENTS = tuple(LAST_MOMENTS)
# a moment is a whole date, and a time of day with at least minutes; Spark would add today's date to a time alone
TIMESTAMP_PATTERN = r"^[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}(?:[T ][0-9]{1,2}:[0-9]{1,2}(?::[0-9.]+)?\s*%s)?$"
ZONE_PATTERN = r"(?:Z|[A-Za-z]+[A-Za-z0-9/_+:-]*|[+-][0-9:]+)?"
UTC_PATTERN = "(?:Z|UTC|[+-]00(?::?00)?)?"
# a time to the minute with a zone behind it
MINUTES_PATTERN = "^([^:]*:[0-9]{1,2})(?=[ ]*[A-Za-z+-])"
# a name behind the time of day; Z and offsets alone are no names
ZONE_NAME_PATTERN = ":[0-9.]+[ ]*([A-Za-z][A-Za-z0-9/_+:-]*)$"
CERTAIN_NAME_PATTERN = "^(?:Z|(?:UTC?|GMT)(?:[+-][0-9:]+)?|[A-Za-z]+/.+)$"
UNCERTAIN_NOTE = ": its zone is no offset, UTC, GMT or region such as Europe/Berlin"
SKIPPED_NOTE = ": the clocks of its zone skip that time"


def render_year_range(kind: str) -> str:
    """Return the ends of a BETWEEN: the first and the last moment of the years 1 to 9999."""
    return f"{kind}'0001-01-01' AND {kind}'{LAST_MOMENTS[kind]}'"


def render_ends_without_name(text: str) -> str:
    """Whether the text ends as times do that name no zone: with two digits, or with one and a letter, Z."""
    return f"substring({text}, -2, 1) BETWEEN '0' AND '9'"


def render_with_seconds(text: str) -> str:
    """Add seconds if a zone stands behind the minutes: Spark reads it with those alone."""
    return f"regexp_replace({text}, '{MINUTES_PATTERN}', '$1:00')"


def render_certain_time(moment: str, text: str) -> str:
    """Return `moment`, a TIMESTAMP that was read from `text`; NULL if its zone is uncertain, or skips it."""
    name = _render_zone_name(text)
    local_time = f"CAST(from_utc_timestamp({moment}, {name}) AS TIMESTAMP_NTZ)"
    return (
        f"CASE WHEN {render_ends_without_name(text)} OR {moment} IS NULL OR {name} = '' "
        f"OR {name} RLIKE '{CERTAIN_NAME_PATTERN}' AND {local_time} = try_cast({text} AS TIMESTAMP_NTZ) "
        f"THEN {moment} END"
    )


def _render_zone_name(text: str) -> str:
    return f"regexp_extract({text}, '{ZONE_NAME_PATTERN}', 1)"


def render_misfit_reason(reason: str, text: str, kind: str) -> str:
    """Return why `text` is no value of a column's type, and for a time whether it is because of its zone."""
    if kind.strip().upper() != "TIMESTAMP":
        return render_literal(reason)
    text = render_with_seconds(text)
    moment = f"try_cast({text} AS TIMESTAMP)"
    zone_note = (
        f"CASE WHEN {moment} IS NULL OR {render_certain_time(moment, text)} IS NOT NULL THEN '' "
        f"WHEN {_render_zone_name(text)} RLIKE '{CERTAIN_NAME_PATTERN}' THEN {render_literal(SKIPPED_NOTE)} "
        f"ELSE {render_literal(UNCERTAIN_NOTE)} END"
    )
    return f"concat({render_literal(reason)}, {zone_note})"
