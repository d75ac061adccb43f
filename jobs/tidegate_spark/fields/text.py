"""Plain text as a declared type, for formats that know no types: converted without loss, or told that it cannot be.

Every function returns SQL text over `text`, a STRING expression; NULL stays NULL.
"""

from tidegate.schema.data_types import Primitive, parse

from tidegate_spark.fields.lossless import lossy_text, typed_text

WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
INTEGER, NUMBER = "^[+-]?[0-9]+$", "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
NOT_FINITE = "^[+-]?(NaN|Infinity|inf)$"


def converted(text: str, kind: str) -> str:
    """`text` as `kind`; NULL where it does not fit."""
    leaf = parse(kind)
    if leaf == Primitive("STRING"):
        return text
    if leaf == Primitive("BOOLEAN"):
        return f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"
    if leaf == Primitive("BINARY"):
        return f"try_to_binary({text}, 'base64')"
    if isinstance(leaf, Primitive) and leaf.name in WHOLE:
        return f"CASE WHEN {text} RLIKE '{INTEGER}' THEN try_cast({text} AS {leaf.name}) END"
    if isinstance(leaf, Primitive) and leaf.name in ("FLOAT", "DOUBLE"):
        return (
            f"CASE WHEN {text} RLIKE '{NUMBER}' OR {text} RLIKE '{NOT_FINITE}' THEN try_cast({text} AS {leaf.name}) END"
        )
    assert isinstance(leaf, Primitive)  # the formats refuse others
    return typed_text(text, leaf, None)


def unfit(text: str, kind: str) -> str:
    """A condition: there is a text, and it is not a `kind` without loss."""
    leaf = parse(kind)
    if leaf == Primitive("STRING"):
        return "false"
    problem = f"{converted(text, kind)} IS NULL"
    if isinstance(leaf, Primitive) and leaf.name in ("FLOAT", "DOUBLE"):
        beyond = f"CAST({converted(text, kind)} AS STRING) IN ('Infinity', '-Infinity') AND {text} RLIKE '[0-9]'"
        return f"({text} IS NOT NULL AND ({problem} OR {beyond}))"
    if isinstance(leaf, Primitive) and (leaf.decimal or leaf.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")):
        problem = lossy_text(text, leaf, None)
    return f"({text} IS NOT NULL AND ({problem}))"
