"""JSON leaves read without loss: what Spark would round, cut or wrap is read as text first and converted under guard.

Every function returns SQL text. `text_type` is how a type is parsed, `typed` makes the declared type of what was
parsed (NULL where it cannot), and `lossy` is true where that conversion would change or lose something.
"""

from tidegate.datatypes import Array, DataType, Map, Primitive, Struct
from tidegate.spark_sql import literal, quoted

GUARDED = ("TINYINT", "SMALLINT", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
DIGITS = "^[+-]?[0-9]+$"
DAY = "^[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}$"
BEYOND_MICROS = "[.][0-9]{6}[0-9]*[1-9]"
LARGEST, FACTORS = 2**63 - 1, {"seconds": 1_000_000, "millis": 1_000, "micros": 1}  # microseconds in 64 bits


def text_type(data_type: DataType) -> str:
    """The DDL that a JSON parser is given: guarded leaves are STRING."""
    match data_type:
        case Array(element):
            return f"ARRAY<{text_type(element)}>"
        case Map(key, value):
            return f"MAP<{ddl(key)}, {text_type(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{quoted(name)}: {text_type(t)}' for name, t in fields)}>"
        case Primitive(name):
            return "STRING" if _is_guarded(data_type) else name


def ddl(data_type: DataType) -> str:
    """The declared type itself."""
    match data_type:
        case Array(element):
            return f"ARRAY<{ddl(element)}>"
        case Map(key, value):
            return f"MAP<{ddl(key)}, {ddl(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{quoted(name)}: {ddl(t)}' for name, t in fields)}>"
        case Primitive(name):
            return name


def typed(expr: str, data_type: DataType, unit: str | None) -> str:
    """`expr`, parsed as `text_type`, as the declared type."""
    if not _has_guarded(data_type):
        return expr
    match data_type:
        case Array(element):
            return f"transform({expr}, e -> {typed('e', element, unit)})"
        case Map(_, value):
            return f"transform_values({expr}, (k, v) -> {typed('v', value, unit)})"
        case Struct(fields):
            inner = ", ".join(f"{literal(n)}, {typed(f'{expr}.{quoted(n)}', t, unit)}" for n, t in fields)
            return f"CASE WHEN {expr} IS NOT NULL THEN named_struct({inner}) END"
        case Primitive():
            return _typed_leaf(expr, data_type, unit)


def lossy(expr: str, data_type: DataType, unit: str | None) -> str | None:
    """A condition that is true where `typed` would lose something; None where it never can."""
    if not _has_guarded(data_type):
        return None
    match data_type:
        case Array(element):
            return f"exists({expr}, e -> {lossy('e', element, unit)})"
        case Map(_, value):
            return f"exists(map_values({expr}), v -> {lossy('v', value, unit)})"
        case Struct(fields):
            parts = [lossy(f"{expr}.{quoted(name)}", t, unit) for name, t in fields]
            return "(" + " OR ".join(f"coalesce({part}, false)" for part in parts if part) + ")"
        case Primitive():
            return f"({expr} IS NOT NULL AND ({_lossy_leaf(expr, data_type, unit)}))"


def _typed_leaf(expr: str, leaf: Primitive, unit: str | None) -> str:
    cast = f"try_cast({expr} AS {leaf.name})"
    if leaf.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        whole = _from_number(f"try_cast({expr} AS BIGINT)", unit) if unit else "NULL"
        return f"CASE WHEN {expr} RLIKE '{DIGITS}' THEN CAST({whole} AS {leaf.name}) ELSE {cast} END"
    if leaf.name == "DATE":
        days = f"date_add(DATE'1970-01-01', try_cast({expr} AS INT))" if unit else "NULL"
        return f"CASE WHEN {expr} RLIKE '{DIGITS}' THEN {days} WHEN {expr} RLIKE '{DAY}' THEN {cast} END"
    return cast


def _from_number(number: str, unit: str) -> str:
    """A whole number since 1970 as a time; NULL where it would overflow, which Spark would fail the whole job for."""
    limit = LARGEST // FACTORS[unit]
    return f"CASE WHEN {number} BETWEEN -{limit} AND {limit} THEN timestamp_{unit}({number}) END"


def _lossy_leaf(expr: str, leaf: Primitive, unit: str | None) -> str:
    value = _typed_leaf(expr, leaf, unit)
    if leaf.decimal:
        precision, scale = leaf.decimal
        widest = f"try_cast({expr} AS DECIMAL(38,{38 - (precision - scale)}))"
        return f"NOT coalesce({widest} = {value}, false)"
    if leaf.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return f"({value}) IS NULL OR {expr} RLIKE '{BEYOND_MICROS}'"
    return f"({value}) IS NULL"


def _is_guarded(leaf: Primitive) -> bool:
    return leaf.name in GUARDED or leaf.decimal is not None


def _has_guarded(data_type: DataType) -> bool:
    match data_type:
        case Array(element):
            return _has_guarded(element)
        case Map(_, value):
            return _has_guarded(value)
        case Struct(fields):
            return any(_has_guarded(t) for _, t in fields)
        case Primitive():
            return _is_guarded(data_type)
