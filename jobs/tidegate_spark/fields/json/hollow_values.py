"""Values in which no scalar lies, as `{"a": [{}, null]}`: they are null where records make columns.

A record that came before its column, when nothing told an empty list from null, so has the same row as one behind it.
"""

from collections.abc import Sequence

from tidegate.sql.spark import render_literal

from tidegate_spark.fields.json.text import render_once
from tidegate_spark.fields.json.unknown_fields import TEXT_PATTERN, Path

STRICT_TEXT_PATTERN = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
LEVELS = 2  # of nesting that one replacement takes away
REPLACEMENTS = 4
OBJECT_PATTERN = r"\A\s*+\{"
# how the innermost of them begin
SUSPECT_PATTERN = rf"\[\s*+(?:\]|null)|\{{\s*+(?:\}}|{TEXT_PATTERN}\s*+:\s*+null)"


def render_without_hollow_values(text: str, rows: Sequence[Path] = ()) -> str:
    """SQL: the JSON object in `text` with null for each value in it that holds no scalar; another text as it is.

    The object itself, and those at the paths `rows`, stay objects.
    """
    replaced = _render_replaced(text)
    if rows:
        paths = [render_literal(f"$.{'.'.join(path)}") for path in rows]
        is_row_lost = " OR ".join(
            f"get_json_object({text}, {path}) LIKE '{{%' AND get_json_object(b, {path}) IS NULL" for path in paths
        )
        # few rows hold nothing; only in these a field inside may go by the name of a row
        names = sorted({path[-1] for path in rows})
        replaced = render_once(replaced, f"CASE WHEN {is_row_lost} THEN {_render_replaced(text, names)} ELSE b END")
    is_suspect = f"{text} RLIKE {render_literal(OBJECT_PATTERN)} AND {text} RLIKE {render_literal(SUSPECT_PATTERN)}"
    return f"CASE WHEN {is_suspect} AND is_valid_utf8({text}) THEN {replaced} ELSE {text} END"


def _render_replaced(text: str, kept_names: Sequence[str] = ()) -> str:
    hollow = _build_hollow_pattern(LEVELS)
    kept = rf'"(?:{"|".join(kept_names)})"\s*+:\s*+\{{|' if kept_names else ""
    walked = rf'(?:\A\s*+\{{)?+(?:[^"\[{{]++|{kept}{TEXT_PATTERN}|(?!{hollow})[\[{{])*+'
    pattern = render_literal(rf"(?s)\G({walked}){hollow}")
    for _ in range(REPLACEMENTS):
        text = f"regexp_replace({text}, {pattern}, '$1null')"
    return text


def _build_hollow_pattern(levels: int) -> str:
    """A list or an object of nothing but null and such lists and objects, with commas where JSON has them."""
    inner = f"(?:null|{_build_hollow_pattern(levels - 1)})" if levels else "null"
    elements = rf"(?:{inner}\s*+(?:,\s*+(?!\])|(?=\])))*+"
    fields = rf"(?:{STRICT_TEXT_PATTERN}\s*+:\s*+{inner}\s*+(?:,\s*+(?=\")|(?=\}})))*+"
    return rf"(?:\[\s*+{elements}\]|\{{\s*+{fields}\}})"
