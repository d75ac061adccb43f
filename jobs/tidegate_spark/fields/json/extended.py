"""MongoDB's extended JSON as plain JSON: each wrapper of one value, {"$numberLong": "5"}, becomes that value.

Both versions are read: what Debezium writes is the older one. A wrapper that is not known, or whose value is not what
it says, stays the object that it is, and does not fit a column of a simple type.
"""

from tidegate.sql.spark import literal

from tidegate_spark.fields.avro import timestamp
from tidegate_spark.fields.json.text import bound

_TEXT = r'"(?:[^"\\]++|\\.)*+"'
_WHOLE = r'"(-?(?:0|[1-9][0-9]*+))"'
_NUMBER = r'"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"'
_NO_NUMBER = r'"(?:NaN|-?Infinity)"'


def _wrapper(name: str, value: str) -> str:
    return rf'\{{\s*+"\${name}"\s*+:\s*+{value}\s*+\}}'


# in this order: a date of the newer version holds a number
_UNWRAPPED = (
    (_wrapper("oid", '("[0-9a-fA-F]{24}")'), "$1"),
    (_wrapper("numberLong", _WHOLE), "$1"),
    (_wrapper("numberInt", _WHOLE), "$1"),
    (_wrapper("numberDouble", _NUMBER), "$1"),
    (_wrapper("numberDouble", f"({_NO_NUMBER})"), "$1"),
    (_wrapper("numberDecimal", f"({_TEXT})"), "$1"),  # a text: a column of doubles would not hold all of its digits
    (_wrapper("uuid", f"({_TEXT})"), "$1"),
    (_wrapper("symbol", f"({_TEXT})"), "$1"),
    (_wrapper("date", f"({_TEXT})"), "$1"),
    (_wrapper("binary", rf'\{{\s*+"base64"\s*+:\s*+({_TEXT})\s*+,\s*+"subType"\s*+:\s*+{_TEXT}\s*+\}}'), "$1"),
    (_wrapper("binary", rf'({_TEXT})\s*+,\s*+"\$type"\s*+:\s*+{_TEXT}'), "$1"),
)
_DATE = _wrapper("date", "(-?[0-9]++)")


def plain(text: str) -> str:
    """SQL: the extended JSON at `text` as plain JSON. Dates that are counted become texts in UTC, as far as tables hold
    such times."""
    for pattern, value in _UNWRAPPED:
        text = f"regexp_replace({text}, {literal(pattern)}, {literal(value)})"
    parts, dates = f"split(b, {literal(_DATE)}, -1)", f"regexp_extract_all(b, {literal(_DATE)}, 0)"
    at = timestamp(f"try_cast(regexp_extract(d, {literal(_DATE)}, 1) AS BIGINT)", "millis", "TIMESTAMP")
    made = f"""coalesce(date_format({at}, '"yyyy-MM-dd\\'T\\'HH:mm:ss.SSS\\'Z\\'"'), d, '')"""
    whole = f"array_join(zip_with({parts}, {dates}, (p, d) -> concat(p, {made})), '')"
    return bound(text, f"CASE WHEN contains(b, '\"$date\"') THEN {whole} ELSE b END")


def is_one_value(text: str) -> str:
    """A condition: the text is one JSON value, with nothing behind it."""
    elements = f"from_json(concat('{{\"e\":[', {text}, ',null]}}'), 'e ARRAY<VARIANT>').e"
    return f"coalesce(size({elements}) = 2, false)"
