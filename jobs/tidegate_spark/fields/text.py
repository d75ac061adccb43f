"""Plain text as a declared type, for formats that know no types: converted without loss, or refused.

Every function returns SQL text over `text`, a STRING expression; NULL stays NULL.
"""

from dataclasses import replace

from tidegate.schema.data_types import Primitive, parse_type
from tidegate.sql.spark import render_literal

from tidegate_spark.fields.lossless import render_is_text_lossy, render_text_conversion
from tidegate_spark.fields.written_values import (
    BASE64,
    BINARY_FRACTIONS,
    INTEGER_PATTERN,
    MOMENTS,
    NUMBER_PATTERN,
    render_bytes,
    render_is_rounded,
)

NOT_FINITE_PATTERN = r"^[+-]?(NaN|Infinity|inf)\z"


def render_conversion(text: str, kind: str, encoding: str | None = None) -> str:
    """Convert `text` to `kind`; NULL if it does not fit. `encoding` is that of bytes, base64 by default."""
    leaf = _parse_leaf(kind)
    cast = f"try_cast({text} AS {leaf.name})"
    match leaf.name:
        case "STRING":
            return text
        case "BOOLEAN":
            return f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"
        case "BINARY":
            return render_bytes(text, encoding or BASE64)
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return f"CASE WHEN {text} RLIKE {render_literal(INTEGER_PATTERN)} THEN {cast} END"
        case "FLOAT" | "DOUBLE":
            patterns = map(render_literal, (NUMBER_PATTERN, NOT_FINITE_PATTERN))
            return f"CASE WHEN {' OR '.join(f'{text} RLIKE {pattern}' for pattern in patterns)} THEN {cast} END"
    return render_text_conversion(text, leaf, None)


def _parse_leaf(kind: str) -> Primitive:
    leaf = parse_type(kind)
    assert isinstance(leaf, Primitive)  # the formats refuse others
    return leaf


def render_is_lossy(text: str, kind: str, encoding: str | None = None, truncates: bool = False) -> str:
    """Whether there is a text, and it is not a `kind` without loss. If it `truncates`, times may be finer."""
    leaf = _parse_leaf(kind)
    if leaf.name == "STRING":
        return "false"
    value = render_conversion(text, kind, encoding)
    problem = f"{value} IS NULL"
    if leaf.name in BINARY_FRACTIONS:
        is_beyond = f"CAST({value} AS STRING) IN ('Infinity', '-Infinity') AND {text} RLIKE '[0-9]'"
        problem += f" OR {is_beyond} OR {render_is_rounded(text, leaf.name)}"
    elif leaf.decimal or leaf.name in MOMENTS:
        problem = render_is_text_lossy(text, replace(leaf, is_truncated=truncates), None)
    return f"({text} IS NOT NULL AND ({problem}))"
