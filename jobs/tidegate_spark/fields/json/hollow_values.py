"""Values in which no scalar lies, as `{"a": [{}, null]}`: they are null where records make columns.

A record that came before its column, when nothing told an empty list from null, so has the same row as one behind it.
"""

from collections.abc import Sequence

from tidegate.sql.spark import render_literal

from tidegate_spark.fields.json.unknown_fields import TEXT_PATTERN

STRICT_TEXT_PATTERN = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
LEVELS = 2  # of nesting that one replacement takes away
REPLACEMENTS = 4
OBJECT_PATTERN = r"\A\s*+\{"
# how the innermost of them begin
SUSPECT_PATTERN = rf"\[\s*+(?:\]|null)|\{{\s*+(?:\}}|{TEXT_PATTERN}\s*+:\s*+null)"


def render_without_hollow_values(text: str, rows: Sequence[str] = ()) -> str:
    """SQL: the JSON object in `text` with null for each value in it that holds no scalar; another text as it is.

    The object itself, and those under the names `rows`, stay objects.
    """
    hollow = _build_hollow_pattern(LEVELS)
    row = rf'"(?:{"|".join(rows)})"\s*+:\s*+\{{|' if rows else ""
    walked = rf'(?:\A\s*+\{{)?+(?:[^"\[{{]++|{row}{TEXT_PATTERN}|(?!{hollow})[\[{{])*+'
    pattern = render_literal(rf"(?s)\G({walked}){hollow}")
    replaced = text
    for _ in range(REPLACEMENTS):
        replaced = f"regexp_replace({replaced}, {pattern}, '$1null')"
    is_suspect = f"{text} RLIKE {render_literal(OBJECT_PATTERN)} AND {text} RLIKE {render_literal(SUSPECT_PATTERN)}"
    return f"CASE WHEN {is_suspect} AND is_valid_utf8({text}) THEN {replaced} ELSE {text} END"


def _build_hollow_pattern(levels: int) -> str:
    """A list or an object of nothing but null and such lists and objects, with commas where JSON has them."""
    inner = f"(?:null|{_build_hollow_pattern(levels - 1)})" if levels else "null"
    elements = rf"(?:{inner}\s*+(?:,\s*+(?!\])|(?=\])))*+"
    fields = rf"(?:{STRICT_TEXT_PATTERN}\s*+:\s*+{inner}\s*+(?:,\s*+(?=\")|(?=\}})))*+"
    return rf"(?:\[\s*+{elements}\]|\{{\s*+{fields}\}})"
