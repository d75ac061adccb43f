"""A lone key in JSON's usual spelling, {"id": 5} or "a-7", read off its text; any other spelling is left to the parser.

Spark makes a reader for each text that it parses, and that costs more than the few bytes of a key.
"""

import json

from tidegate.schema.data_types import Column
from tidegate.sql.spark import quote, render_literal

PLAIN_KEY_COLUMN = "key_plain"
INTEGER_TYPES = ("INT", "BIGINT")
# ASCII in quotes, without quotes and escapes inside; to the very end: a line break behind it is no part of it
PRINTABLE_PATTERN = r'^"[ !#-\[\]-~]*"\z'


def render_plain_key(columns: tuple[Column, ...], text: str) -> str | None:
    """Return the one column's value if `text` spells it plainly, else NULL; None for keys that are never plain."""
    if len(columns) != 1:
        return None
    (column,) = columns
    inside = _render_lone_field(column.name, text)
    if column.type in INTEGER_TYPES:
        number = f"try_cast({inside} AS {column.type})"
        return f"CASE WHEN CAST({number} AS STRING) = {inside} THEN {number} END"
    if column.type == "STRING":
        return (
            f"CASE WHEN {inside} RLIKE {render_literal(PRINTABLE_PATTERN)} "
            f"THEN substring({inside}, 2, length({inside}) - 2) END"
        )
    return None


def render_key_struct(columns: tuple[Column, ...], struct: str) -> str:
    """Return a struct of the one column, from `PLAIN_KEY_COLUMN` or else from the object at `struct`."""
    name = quote(columns[0].name)
    return f"struct(coalesce({PLAIN_KEY_COLUMN}, {struct}.{name}) AS {name})"


def _render_lone_field(name: str, text: str) -> str:
    opening = f"{{{json.dumps(name)}:"
    is_lone = f"startswith({text}, {render_literal(opening)}) AND endswith({text}, '}}')"
    field = f"trim(substring({text}, {len(opening) + 1}, length({text}) - {len(opening) + 1}))"
    return f"CASE WHEN {is_lone} THEN {field} WHEN NOT startswith({text}, '{{') THEN {text} END"
