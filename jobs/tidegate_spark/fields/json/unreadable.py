"""Why a JSON text could not be read: it is no object, is beyond a limit of Spark's parser, or does not fit its columns.

Every function returns SQL.
"""

from tidegate.sql.spark import render_literal, render_once

from tidegate_spark.fields.json.as_written import STRING_PATTERN
from tidegate_spark.fields.json.objects import (
    CORRUPT_COLUMN,
    MAX_DEPTH,
    OVERFLOW_PROBLEM,
    render_is_not_object,
    render_object,
)

OVERFLOW_REASON = f"the value does not fit value.schema: {OVERFLOW_PROBLEM}, beside one that is infinite"
MAX_DIGITS = 1_000
MAX_NAME_CHARACTERS = 50_000
MAX_TEXT_CHARACTERS = 20_000_000
BYTE_ORDER_MARK = "\ufeff"
MARK_PROBLEM = "begins with a byte-order mark, which is no part of JSON"
QUOTES = 2  # characters around a name or a text
NOT_BRACKETS_PATTERN = r"[^\[\]{}]+"
NOT_DIGITS_PATTERN = "[.eE+-]"


def render_unreadable_cases(struct: str, misfits: str) -> str:
    problem = f"{struct}.{CORRUPT_COLUMN}"
    unreadable = (
        f"CASE WHEN {render_object(struct)} IS NULL THEN 'the value is not one JSON object' "
        f"WHEN {problem} = '{OVERFLOW_PROBLEM}' THEN '{OVERFLOW_REASON}' "
        f"ELSE concat('the value does not fit value.schema, fields: ', {misfits}) END"
    )
    return (
        f"WHEN NOT is_valid_utf8(value_text) THEN 'the value is not valid UTF-8' "
        f"WHEN {render_is_not_object('value_text')} "
        f"THEN CASE WHEN {render_is_marked('value_text')} THEN 'the value {MARK_PROBLEM}' "
        f"ELSE 'the value is not a JSON object' END "
        f"WHEN {render_object(struct)} IS NULL OR {problem} IS NOT NULL "
        f"THEN coalesce({render_limit_reason('value_text', 'the value')}, {unreadable})"
    )


def render_is_marked(text: str) -> str:
    return f"{text} LIKE {render_literal(f'{BYTE_ORDER_MARK}%')}"


def render_limit_reason(text: str, subject: str) -> str:
    """Return which limit of the parser the JSON text is beyond, else NULL; only for texts that could not be parsed."""
    quoted = (
        ("text", MAX_TEXT_CHARACTERS, _render_has_longer(text, "", MAX_TEXT_CHARACTERS)),
        ("name", MAX_NAME_CHARACTERS, _render_has_longer(text, r"[ \t\r\n]*:", MAX_NAME_CHARACTERS)),
    )
    cases = (_render_case(longer, f"{subject} has a {word} of more than {limit:,} characters")
             for word, limit, longer in quoted)  # fmt: skip
    # without what stands in quotes: brackets and digits there are none
    bare = f"regexp_replace({text}, {render_literal(STRING_PATTERN)}, '')"
    is_deep = _render_case(
        f"{_render_depth('b')} > {MAX_DEPTH}", f"{subject} is nested deeper than {MAX_DEPTH:,} levels"
    )
    digits = f"regexp_replace(b, '{NOT_DIGITS_PATTERN}', '') RLIKE '[0-9]{{{MAX_DIGITS + 1}}}'"
    is_long = _render_case(digits, f"{subject} has a number of more than {MAX_DIGITS:,} digits")
    outside = render_once(bare, f"CASE {is_deep} {is_long} END")
    return f"CASE WHEN length({text}) <= {MAX_DIGITS} THEN NULL {' '.join(cases)} ELSE {outside} END"


def _render_case(condition: str, problem: str) -> str:
    return f"WHEN {condition} THEN {render_literal(f'{problem}, which the JSON parser does not read')}"


def _render_has_longer(text: str, behind: str, limit: int) -> str:
    quoted = f"regexp_extract_all({text}, {render_literal(f'({STRING_PATTERN}){behind}')}, 1)"
    return f"length({text}) > {limit} AND exists({quoted}, q -> length(q) > {limit + QUOTES})"


def _render_depth(text: str) -> str:
    brackets = f"split(regexp_replace({text}, {render_literal(NOT_BRACKETS_PATTERN)}, ''), '')"
    step = "CASE WHEN c IN ('[', '{') THEN 1 WHEN c = '' THEN 0 ELSE -1 END"
    return (
        f"aggregate({brackets}, named_struct('at', 0, 'most', 0), (s, c) -> "
        f"named_struct('at', s.at + {step}, 'most', greatest(s.most, s.at + {step})), s -> s.most)"
    )
