"""MongoDB's extended JSON as plain JSON: each wrapper of one value, {"$numberLong": "5"}, becomes that value.

Both versions are read: what Debezium writes is the older one. A wrapper that is not known, or whose value is not what
it says, stays the object that it is, and does not fit a column of a simple type.
"""

from tidegate.sql.spark import render_literal

from tidegate_spark.fields.avro import render_timestamp
from tidegate_spark.fields.json.text import render_once

_TEXT_PATTERN = r'"(?:[^"\\]++|\\.)*+"'
_INTEGER_PATTERN = r'"(-?(?:0|[1-9][0-9]*+))"'
_NUMBER_PATTERN = r'"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"'
_NOT_FINITE_PATTERN = r'"(?:NaN|-?Infinity)"'


def _build_wrapper_pattern(name: str, value: str) -> str:
    return rf'\{{\s*+"\${name}"\s*+:\s*+{value}\s*+\}}'


# in this order: a date of the newer version holds a number
_WRAPPER_PATTERNS = (
    (_build_wrapper_pattern("oid", '("[0-9a-fA-F]{24}")'), "$1"),
    (_build_wrapper_pattern("numberLong", _INTEGER_PATTERN), "$1"),
    (_build_wrapper_pattern("numberInt", _INTEGER_PATTERN), "$1"),
    (_build_wrapper_pattern("numberDouble", _NUMBER_PATTERN), "$1"),
    (_build_wrapper_pattern("numberDouble", f"({_NOT_FINITE_PATTERN})"), "$1"),
    (
        _build_wrapper_pattern("numberDecimal", f"({_TEXT_PATTERN})"),
        "$1",
    ),  # a text: a column of doubles would not hold all of its digits
    (_build_wrapper_pattern("uuid", f"({_TEXT_PATTERN})"), "$1"),
    (_build_wrapper_pattern("symbol", f"({_TEXT_PATTERN})"), "$1"),
    (_build_wrapper_pattern("date", f"({_TEXT_PATTERN})"), "$1"),
    (
        _build_wrapper_pattern(
            "binary", rf'\{{\s*+"base64"\s*+:\s*+({_TEXT_PATTERN})\s*+,\s*+"subType"\s*+:\s*+{_TEXT_PATTERN}\s*+\}}'
        ),
        "$1",
    ),
    (_build_wrapper_pattern("binary", rf'({_TEXT_PATTERN})\s*+,\s*+"\$type"\s*+:\s*+{_TEXT_PATTERN}'), "$1"),
)
_DATE_PATTERN = _build_wrapper_pattern("date", "(-?[0-9]++)")


def render_plain_json(text: str) -> str:
    """SQL: the extended JSON at `text` as plain JSON. Dates that are counted become texts in UTC, as far as tables hold
    such times."""
    for pattern, value in _WRAPPER_PATTERNS:
        text = f"regexp_replace({text}, {render_literal(pattern)}, {render_literal(value)})"
    parts = f"split(b, {render_literal(_DATE_PATTERN)}, -1)"
    dates = f"regexp_extract_all(b, {render_literal(_DATE_PATTERN)}, 0)"
    at = render_timestamp(
        f"try_cast(regexp_extract(d, {render_literal(_DATE_PATTERN)}, 1) AS BIGINT)", "millis", "TIMESTAMP"
    )
    date_text = f"""coalesce(date_format({at}, '"yyyy-MM-dd\\'T\\'HH:mm:ss.SSS\\'Z\\'"'), d, '')"""
    whole = f"array_join(zip_with({parts}, {dates}, (p, d) -> concat(p, {date_text})), '')"
    return render_once(text, f"CASE WHEN contains(b, '\"$date\"') THEN {whole} ELSE b END")


def render_is_one_value(text: str) -> str:
    """A condition: the text is one JSON value, with nothing behind it."""
    elements = f"from_json(concat('{{\"e\":[', {text}, ',null]}}'), 'e ARRAY<VARIANT>').e"
    return f"coalesce(size({elements}) = 2, false)"
