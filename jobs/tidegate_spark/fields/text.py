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

INTEGER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NOT_FINITE_PATTERN = r"^[+-]?(NaN|Infinity|inf)\z"


def render_conversion(text: str, kind: str, encoding: str | None = None) -> str:
    """Convert `text` to `kind`; NULL if it does not fit. `encoding` is that of bytes, base64 by default."""
    leaf = parse_type(kind)
    if leaf == Primitive("STRING"):
        return text
    if leaf == Primitive("BOOLEAN"):
        return f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"
    if leaf == Primitive("BINARY"):
        return render_bytes(text, encoding or BASE64)
    if isinstance(leaf, Primitive) and leaf.name in INTEGER_TYPES:
        return f"CASE WHEN {text} RLIKE {render_literal(INTEGER_PATTERN)} THEN try_cast({text} AS {leaf.name}) END"
    if isinstance(leaf, Primitive) and leaf.name in BINARY_FRACTIONS:
        return (
            f"CASE WHEN {text} RLIKE {render_literal(NUMBER_PATTERN)} "
            f"OR {text} RLIKE {render_literal(NOT_FINITE_PATTERN)} "
            f"THEN try_cast({text} AS {leaf.name}) END"
        )
    assert isinstance(leaf, Primitive)  # the formats refuse others
    return render_text_conversion(text, leaf, None)


def render_is_lossy(text: str, kind: str, encoding: str | None = None, truncates: bool = False) -> str:
    """Whether there is a text, and it is not a `kind` without loss. If it `truncates`, times may be finer."""
    leaf = parse_type(kind)
    if leaf == Primitive("STRING"):
        return "false"
    problem = f"{render_conversion(text, kind, encoding)} IS NULL"
    if isinstance(leaf, Primitive) and leaf.name in BINARY_FRACTIONS:
        is_beyond = (
            f"CAST({render_conversion(text, kind)} AS STRING) IN ('Infinity', '-Infinity') AND {text} RLIKE '[0-9]'"
        )
        return f"({text} IS NOT NULL AND ({problem} OR {is_beyond} OR {render_is_rounded(text, leaf.name)}))"
    if isinstance(leaf, Primitive) and (leaf.decimal or leaf.name in MOMENTS):
        problem = render_is_text_lossy(text, replace(leaf, is_truncated=truncates), None)
    return f"({text} IS NOT NULL AND ({problem}))"
