"""JSON leaves read without loss: what Spark would round, cut or wrap is read as text first and converted under guard.

Every function returns SQL text. `text_type` is how a type is parsed, `typed` makes the declared type of what was
parsed (NULL where it cannot), and `lossy` is true where that conversion would change or lose something.
"""

from dataclasses import dataclass, replace

from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.avro import timestamp
from tidegate_spark.fields.decimals import number_or_text, variable_scale
from tidegate_spark.fields.json.as_written import is_changed, stands_as_text

GUARDED = ("TINYINT", "SMALLINT", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
JUDGED = ("STRING", "FLOAT", "DOUBLE")  # parsed as they are, and looked at afterwards
DIGITS = "^[+-]?[0-9]+$"
DAY = "^[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}Z?$"
# a moment is a whole date, and a time of day with at least minutes; Spark would add today's date to a time alone
MOMENT = r"^[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}(?:[T ][0-9]{1,2}:[0-9]{1,2}(?::[0-9.]+)?\s*%s)?$"
ZONE = r"(?:Z|[A-Za-z]+[A-Za-z0-9/_+:-]*|[+-][0-9:]+)?"
NO_OFFSET = "(?:Z|UTC|[+-]00(?::?00)?)?"
BEYOND_MICROS = "[.][0-9]{6}[0-9]*[1-9]"
MICROS_LENGTH = 20  # a text with more digits than that is longer
FAR_POINT = "[eE][+-]?[0-9]{4,}"
FIRST, LAST = "0001-01-01", {"DATE": "9999-12-31"}
LAST_MOMENT = "9999-12-31 23:59:59.999999"
DAYS = "days"  # the unit where whole numbers are days in a DATE, and no times
# numbers that a double does not keep: more digits than 15 before an exponent, or more than a decimal has; or too small
LONG_NUMBER = "[0-9.]{17,}[eE]|[0-9.]{39,}|[0-9.][eE]-[0-9]{3}"


@dataclass(frozen=True)
class VariantDecimal(Primitive):
    """A decimal that is parsed as a VARIANT, which tells a number from a text; any other is parsed as text, faster."""


def with_variants(data_type: DataType) -> DataType:
    """The same type, whose decimals are parsed as VARIANT."""
    match data_type:
        case Array(element):
            return replace(data_type, element=with_variants(element))
        case Map(_, value):
            return replace(data_type, value=with_variants(value))
        case Struct(fields):
            return replace(data_type, fields=tuple((name, with_variants(inner)) for name, inner in fields))
        case Primitive(name):
            return VariantDecimal(name) if data_type.decimal else data_type


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
            guarded = "VARIANT" if _is_variant(data_type) else "STRING"
            return guarded if _is_guarded(data_type) else name


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
            if data_type.lenient:
                return number_or_text(expr, data_type)
            return _typed_leaf(as_text(expr, data_type), data_type, unit)


def _typed_leaf(text: str, leaf: Primitive, unit: str | None) -> str:
    plain = typed_text(text, leaf, unit)
    return (
        f"CASE WHEN startswith({text}, '{{') THEN {variable_scale(text, leaf)} ELSE {plain} END"
        if leaf.decimal
        else plain
    )


def lossy(
    expr: str, data_type: DataType, unit: str | None, text: str | None = None, made: str | None = None
) -> str | None:
    """A condition that is true where `typed` would lose something; None where it never can.

    `text` is the JSON that was parsed: it says what the parser has changed before. `made` is where `typed` has been
    worked out already.
    """
    if not _is_judged(data_type, text is not None):
        return None
    match data_type:
        case Array(element):
            return f"exists({expr}, e -> coalesce({lossy('e', element, unit, text)}, false))"
        case Map(_, value):
            inside = lossy("v", value, unit, text)
            found = f"exists(map_values({expr}), v -> coalesce({inside}, false))" if inside else "false"
            twice = f"size(array_distinct(map_keys({expr}))) < size({expr})"
            return f"({expr} IS NOT NULL AND ({twice} OR {found}))" if text else found
        case Struct(fields):
            inner = [lossy(f"{expr}.{quoted(name)}", t, unit, text) for name, t in fields]
            return "(" + " OR ".join(f"coalesce({part}, false)" for part in inner if part) + ")"
        case Primitive():
            return _lossy_leaf(expr, data_type, unit, text, made)


def _lossy_leaf(expr: str, leaf: Primitive, unit: str | None, text: str | None, made: str | None) -> str:
    if leaf.lenient:
        return f"({as_text(expr, leaf)} IS NOT NULL AND ({made or number_or_text(expr, leaf)}) IS NULL)"
    if leaf.name in JUDGED:
        return f"({expr} IS NOT NULL AND ({is_changed(expr, leaf.name, text or '')}))"
    found = as_text(expr, leaf)
    problem = lossy_text(found, leaf, unit, made)
    if unit and text and leaf.name in MOMENTS:
        problem += f" OR {found} RLIKE '{DIGITS}' AND {stands_as_text(found, expr, text)}"
    if isinstance(leaf, VariantDecimal) and text:
        problem += f" OR schema_of_variant({expr}) = 'DOUBLE' AND {text} RLIKE {literal(LONG_NUMBER)}"
    if leaf.decimal:
        lost = f"({made or variable_scale(found, leaf)}) IS NULL"
        problem = f"CASE WHEN startswith({found}, '{{') THEN {lost} ELSE {problem} END"
    return f"({found} IS NOT NULL AND ({problem}))"


def as_text(expr: str, leaf: Primitive) -> str:
    """A leaf, parsed as `text_type`, as text; NULL where it is null."""
    return f"try_variant_get({expr}, '$', 'STRING')" if _is_variant(leaf) else expr


def is_null(expr: str, data_type: DataType) -> str:
    """A condition: nothing was parsed, or null."""
    return f"{as_text(expr, data_type) if isinstance(data_type, Primitive) else expr} IS NULL"


def lacks_required(expr: str, data_type: DataType) -> str | None:
    """A condition: something inside of the value is NULL and must not be; None where everything may be."""
    match data_type:
        case Array(element):
            return _any_inside(expr, element, data_type.required)
        case Map(_, value):
            return _any_inside(f"map_values({expr})", value, data_type.required)
        case Struct(fields):
            parts: list[str] = []
            for name, inner in fields:
                at = f"{expr}.{quoted(name)}"
                own = f"{expr} IS NOT NULL AND {is_null(at, inner)}" if name in data_type.required else None
                parts += [part for part in (own, lacks_required(at, inner)) if part]
            return f"({' OR '.join(f'coalesce({part}, false)' for part in parts)})" if parts else None
        case _:
            return None


def _any_inside(values: str, inner: DataType, required: bool) -> str | None:
    own = is_null("e", inner) if required else None
    parts = [part for part in (own, lacks_required("e", inner)) if part]
    return f"exists({values}, e -> {' OR '.join(f'coalesce({part}, false)' for part in parts)})" if parts else None


def typed_text(text: str, leaf: Primitive, unit: str | None) -> str:
    """A text as a guarded type; NULL where it is none."""
    cast = f"try_cast({text} AS {leaf.name})"
    if leaf.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        whole = _from_number(f"try_cast({text} AS BIGINT)", unit) if unit and unit != DAYS else "NULL"
        pattern = literal(MOMENT % (ZONE if leaf.name == "TIMESTAMP" else NO_OFFSET))
        # the usual spelling by its places, without a pattern: a date, a time of day, and a zone or none
        usual = f"WHEN {_has_usual_year(text)} AND substring({text}, 14, 1) = ':' THEN {cast} "
        return (
            f"CASE {usual if leaf.name == 'TIMESTAMP' else ''}"
            f"WHEN {text} RLIKE '{DIGITS}' THEN CAST({whole} AS {leaf.name}) "
            f"WHEN {text} RLIKE {pattern} THEN {_within_years(cast, leaf.name, text)} END"
        )
    if leaf.name == "DATE":
        days = _within_years(f"date_add(DATE'1970-01-01', try_cast({text} AS INT))", "DATE") if unit else "NULL"
        day = _within_years(f"try_cast(rtrim('Z', {text}) AS DATE)", "DATE", text)
        is_day_count = f"{text} RLIKE '{DIGITS}' AND abs(try_cast({text} AS BIGINT)) < 4000000"
        # the usual spelling by its places, without a pattern
        usual = (
            f"WHEN length({text}) = 10 AND {_has_usual_year(text)} AND substring({text}, 8, 1) = '-' "
            f"AND substring({text}, 10, 1) BETWEEN '0' AND '9' THEN {cast}"
        )
        return f"CASE {usual} WHEN {is_day_count} THEN {days} WHEN {text} RLIKE '{DAY}' THEN {day} END"
    if leaf.decimal:  # Spark would lay out each place of a number such as 1e-999999999
        return f"CASE WHEN NOT lower({text}) LIKE '%e%' OR NOT {text} RLIKE '{FAR_POINT}' THEN {cast} END"
    return cast


def _within_years(value: str, kind: str, text: str | None = None) -> str:
    """`value`, NULL outside of the years 1 to 9999: files may hold such times, and readers fail on them.

    A `text` that begins with a year well inside of them is not compared: the value would be worked out three times.
    """
    last = LAST.get(kind, LAST_MOMENT)
    usual = f"WHEN {_has_usual_year(text)} THEN {value} " if text else ""
    return f"CASE {usual}WHEN {value} BETWEEN {kind}'{FIRST}' AND {kind}'{last}' THEN {value} END"


def _has_usual_year(text: str) -> str:
    return f"substring({text}, 5, 1) = '-' AND substring({text}, 1, 4) BETWEEN '1000' AND '9998'"


def _from_number(number: str, unit: str) -> str:
    """A whole number since 1970 as a time; NULL outside of the years 1 to 9999, and for parts of a microsecond."""
    return timestamp(number, unit, "TIMESTAMP")


def lossy_text(text: str, leaf: Primitive, unit: str | None, made: str | None = None) -> str:
    """A condition: `typed_text` is NULL for a text that is there, or lost something of it.

    `made` is where `typed_text` has been worked out already.
    """
    value = made or typed_text(text, leaf, unit)
    if leaf.decimal:
        precision, scale = leaf.decimal
        usual = (
            literal(rf"^-?[0-9]{{1,{precision - scale}}}(?:\.[0-9]{{0,{scale}}})?$") if precision > scale else "'^$'"
        )
        return f"NOT {text} RLIKE {usual} AND (({value}) IS NULL OR {_places(text)} > {scale})"
    if leaf.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return f"({value}) IS NULL OR length({text}) > {MICROS_LENGTH} AND {text} RLIKE '{BEYOND_MICROS}'"
    return f"({value}) IS NULL"


def _places(text: str) -> str:
    """How many places a number has behind its point, without zeros at the end."""
    digits = f"length(rtrim('0', split_part(split_part(upper({text}), 'E', 1), '.', 2)))"
    power = f"try_cast(split_part(upper({text}), 'E', 2) AS INT)"
    return f"{digits} - CASE WHEN upper({text}) LIKE '%E%' THEN {power} ELSE 0 END"


def _is_variant(leaf: Primitive) -> bool:
    return leaf.lenient or isinstance(leaf, VariantDecimal)


def _is_guarded(leaf: Primitive) -> bool:
    return leaf.name in GUARDED or leaf.lenient or leaf.decimal is not None


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


def _is_judged(data_type: DataType, has_text: bool) -> bool:
    match data_type:
        case Array(element):
            return _is_judged(element, has_text)
        case Map(_, value):
            return has_text or _is_judged(value, has_text)  # a key may stand there twice
        case Struct(fields):
            return any(_is_judged(t, has_text) for _, t in fields)
        case Primitive(name):
            return _is_guarded(data_type) or (has_text and name in JUDGED)
