"""What a JSON text says beside what Spark's parser made of it: words for infinity, halves of characters, quotes.

Every function returns SQL text over `text`, the JSON, and `expr`, a field that was parsed from it.
"""

import json
import re

from tidegate.sql.spark import render_literal

INFINITE_PATTERN = (
    r"""[":,\[\s][+-]?(?:Infinity|INF)[",\]}\s]"""  # in so many words; else an infinite number was too large
)
HUGE_NUMBER_PATTERN = (
    r"[:,\[\s]-?(?:[0-9]{39}|[0-9.]+[eE][+]?[0-9]{2})"  # a number that a FLOAT, and so a DOUBLE, may not hold
)
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
        return f"contains({expr}, '?') AND {text} RLIKE {render_literal(LONE_SURROGATE_PATTERN)} OR {is_word}"
    # beside a number that may have been too large the text was read again: what is infinite then was written so
    return f"{render_is_infinite(expr)} AND NOT {text} RLIKE {render_literal(INFINITE_PATTERN)}"


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
