"""Values of a JSON object in which no scalar lies, as `{"a": [{}, null]}`: they are null where records make columns.

A record that came before its column, when nothing told an empty list from null, so has the same row as one behind it.
"""

from collections.abc import Sequence

from tidegate.sql.spark import render_literal, render_once

from tidegate_spark.fields.json.text import render_part
from tidegate_spark.fields.json.unknown_fields import TEXT_PATTERN, Path

STRICT_TEXT_PATTERN = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
LEVELS = 2  # of nesting that one replacement takes away
REPLACEMENTS = 4
OBJECT_PATTERN = r"\A\s*+\{"
# how the innermost of them begin
SUSPECT_PATTERN = rf"\[\s*+(?:\]|null)|\{{\s*+(?:\}}|{TEXT_PATTERN}\s*+:\s*+null)"


def render_without_hollow_values(text: str, rows: Sequence[Path]) -> str:
    """SQL: the JSON object in `text` with null for each value in it that holds no scalar; another text as it is.

    The object itself, and those at the paths `rows`, stay objects.
    """
    replaced = _render_replaced(text)
    if rows:
        paths = [(f"$.{'.'.join(path)}", render_literal(path[-1])) for path in rows]
        lost_names = ", ".join(
            f"IF({render_part(text, path)} LIKE '{{%' AND {render_part('b', path)} IS NULL, {name}, NULL)"
            for path, name in paths
        )
        # only where such a row holds nothing itself, fields inside of the others that go by its name stay too
        kept_names = f"array_join(array({lost_names}), '|')"
        kept = f"CASE WHEN n = '' THEN b ELSE {_render_replaced(text, 'n')} END"
        replaced = render_once(replaced, f"get(transform(array({kept_names}), n -> {kept}), 0)")
    is_suspect = f"{text} RLIKE {render_literal(OBJECT_PATTERN)} AND {text} RLIKE {render_literal(SUSPECT_PATTERN)}"
    return f"CASE WHEN {is_suspect} AND is_valid_utf8({text}) THEN {replaced} ELSE {text} END"


def _render_replaced(text: str, kept_names: str = "") -> str:
    """`kept_names`: SQL of the names, with bars between, whose objects stay."""
    hollow = _build_hollow_pattern(LEVELS)
    begin = r'(?s)\G((?:\A\s*+\{)?+(?:[^"\[{]++|'
    end = rf"{TEXT_PATTERN}|(?!{hollow})[\[{{])*+){hollow}"
    pattern = render_literal(begin + end)
    if kept_names:
        parts = (render_literal(f'{begin}"(?:'), kept_names, render_literal(rf')"\s*+:\s*+\{{|{end}'))
        pattern = f"concat({', '.join(parts)})"
    for _ in range(REPLACEMENTS):
        text = f"regexp_replace({text}, {pattern}, '$1null')"
    return text


def _build_hollow_pattern(levels: int) -> str:
    """A list or an object of nothing but null and such lists and objects, with commas where JSON has them."""
    inner = f"(?:null|{_build_hollow_pattern(levels - 1)})" if levels else "null"
    elements = rf"(?:{inner}\s*+(?:,\s*+(?!\])|(?=\])))*+"
    fields = rf"(?:{STRICT_TEXT_PATTERN}\s*+:\s*+{inner}\s*+(?:,\s*+(?=\")|(?=\}})))*+"
    return rf"(?:\[\s*+{elements}\]|\{{\s*+{fields}\}})"
