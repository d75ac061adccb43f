"""What a JSON text says beside what Spark's parser made of it: words for infinity, halves of characters, quotes.

Every function returns SQL text over `text`, the JSON, and `expr`, a field that was parsed from it.
"""

import json
import re

from tidegate.sql.spark import literal

INFINITE = r"""[":,\[\s][+-]?(?:Infinity|INF)[",\]}\s]"""  # in so many words; else an infinite number was too large
INFINITY = "[\"']?[+-]?(?:Infinity|INF)"
HUGE = r"[:,\[\s]-?(?:[0-9]{39}|[0-9.]+[eE][+]?[0-9]{2})"  # a number that a FLOAT, and so a DOUBLE, may not hold
HIGH, LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F]"
LONE_SURROGATE = rf"(?<!\\)(?:\\\\)*+(?:{HIGH}(?!{LOW})|(?<!{HIGH}){LOW})"
NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


def stands_as_text(found: str, expr: str, text: str) -> str:
    """A condition: digits at `expr` stand in quotes in the JSON `text`, so that no unit is meant for them.

    Where the field has a name, it is looked for in front of them; else the same digits in quotes anywhere will do.
    """
    quotes = f"contains({text}, concat('\"', {found}, '\"'))"
    name = _field_name(expr)
    if name is None:
        return quotes
    opened = literal(f'{name}"')
    return f"{quotes} AND {text} RLIKE concat({opened}, {found}, '\"')"


def _field_name(expr: str) -> str | None:
    """A pattern of the field's name in a JSON text, up to its value; None for what is in a list or a map itself."""
    _, point, name = expr.rpartition(".`")
    if not point:
        return None
    plain = name.removesuffix("`").replace("``", "`")
    return f"{re.escape(json.dumps(plain, ensure_ascii=False))}[ \\t\\r\\n]*:[ \\t\\r\\n]*"


def is_changed(expr: str, name: str, text: str) -> str:
    """A condition: the parser made something else of what stands in `text`."""
    if name == "STRING":
        words = ", ".join(literal(f'"{word}"') for word in NO_NUMBERS)
        return f"contains({expr}, '?') AND {text} RLIKE {literal(LONE_SURROGATE)} OR {expr} IN ({words})"
    written, named = f"{text} RLIKE {literal(INFINITE)}", _field_name(expr)
    if named:  # beside a number that may have been too large, the word has to stand behind the field's own name
        written += f" AND (NOT {text} RLIKE {literal(HUGE)} OR {text} RLIKE {literal(named + INFINITY)})"
    return f"abs({expr}) = CAST('Infinity' AS DOUBLE) AND NOT ({written})"
