"""What a parsed object does not show of its inner parts: names that differ only in case, and numbers that were rounded.

Parsed values raise a doubt: a NULL inside of a struct, a zero, a number too large for all of its digits. Only then the
text is taken apart once more, with numbers as they are written. Every function returns SQL text.
"""

import json
import re

from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, format_type
from tidegate.sql.spark import quote, render_literal, render_once

from tidegate_spark.fields.conditions import NO_REASON, render_any, render_any_inner
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.json.text import NUMBER_MARK, render_any_number, render_marked_text
from tidegate_spark.fields.lossless import render_is_null, render_text
from tidegate_spark.fields.written_values import BINARY_FRACTIONS, LARGEST_EXACT, LARGEST_FINITE, render_is_rounded

# only a text with such a number can hold one that is not zero and becomes it: a far exponent, or many zeros
TINY_NUMBER_PATTERN = "[0-9][.]?[eE]-0*(?:[2-9][0-9]|[1-9][0-9]{2})"
TINY_NUMBER_ZEROS = "0" * 24
# an escaped letter may be one of a name
ESCAPED_LETTER_PATTERN = r"\\u00[4-7]"
ANY_ESCAPE_PATTERN = r"\\u"


def render_inner_reason(
    struct: str, fields: Fields, subject: str, places: tuple[str, ...] = ("",), otherwise: str = NO_REASON
) -> str:
    """Return why an object has a part that `struct` does not hold as it is written; else `otherwise`.

    The object is at the first of `places` in the fields' text that has one; the empty place is the text itself.
    """
    doubt = render_inner_doubt(struct, fields)
    if not doubt:
        return otherwise
    row = Struct(tuple((c.name, fields.get_type(c)) for c in fields.columns))
    part = _render_first([_render_part(place) for place in places])
    entries = _render_entries(render_once(render_marked_text(fields.text), part))
    closed, growing = (
        Struct(tuple(field for field in row.fields if (field[0].casefold() in fields.growing) == grows))
        for grows in (False, True)
    )
    reasons = [*_list_field_reasons(closed, "", subject), *_list_field_reasons(growing, "", subject, grows=True)]
    reason = render_once(entries, _render_first(reasons))
    inner = f"CASE WHEN {doubt} THEN {reason} END"
    return inner if otherwise == NO_REASON else f"coalesce({inner}, {otherwise})"


def render_inner_doubt(struct: str, fields: Fields) -> str:
    """Return a condition on the parsed values, true for every object that may be misread; empty if there is none."""
    types = [(f"{struct}.{quote(c.name)}", fields.get_type(c)) for c in fields.columns]
    nulls, empties = (render_any(_render_has_null(at, t, word) for at, t in types) for word in (" OR ", " AND "))
    zeros = render_any(render_any_number(at, t, lambda at, leaf: f"{_render_number(at, leaf)} = 0") for at, t in types)
    large = render_any(render_any_number(at, t, _render_is_large) for at, t in types)
    doubts = []
    if nulls:
        other_case = f"{fields.text} RLIKE {render_literal(_build_other_case_pattern([t for _, t in types]))}"
        doubts.append(f"({nulls}) AND (({empties}) OR {other_case})")
    if large:
        text = fields.text
        exponent = f"(contains({text}, 'e-') OR contains({text}, 'E-')) AND {text} RLIKE '{TINY_NUMBER_PATTERN}'"
        has_tiny_number = f"({exponent} OR contains({text}, '{TINY_NUMBER_ZEROS}'))"
        doubts += [f"({zeros}) AND {has_tiny_number}", large]
    return f"({' OR '.join(doubts)})" if doubts else ""


def _render_has_null(expr: str, data_type: DataType, word: str) -> str | None:
    if isinstance(data_type, Primitive):
        return None
    inside = render_any_inner(expr, data_type, lambda at, inner: _render_has_null(at, inner, word))
    if not isinstance(data_type, Struct):
        return inside
    is_null = word.join(render_is_null(f"{expr}.{quote(name)}", inner) for name, inner in data_type.fields)
    return f"({expr} IS NOT NULL AND (coalesce(({is_null}), false){f' OR {inside}' if inside else ''}))"


def _render_is_large(expr: str, leaf: Primitive) -> str:
    return f"abs({_render_number(expr, leaf)}) BETWEEN {LARGEST_EXACT[leaf.name]} AND {LARGEST_FINITE}"


def _render_number(expr: str, leaf: Primitive) -> str:
    return f"try_cast({render_text(expr, leaf)} AS {leaf.name})" if leaf.is_lenient else expr


def _build_other_case_pattern(types: list[DataType]) -> str:
    names = sorted({name for data_type in types for name in _list_inner_names(data_type)})
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(name.lower(), []).append(name)
    own_names = "|".join(_escape(names[0]) for names in spellings.values() if len(names) == 1)
    exact = f'(?!(?:{own_names})")' if own_names else ""
    escape = ESCAPED_LETTER_PATTERN if all(name.isascii() for name in names) else ANY_ESCAPE_PATTERN
    return f'"{exact}(?iu:{"|".join(map(_escape, spellings))})"|{escape}'


def _escape(name: str) -> str:
    return re.escape(json.dumps(name, ensure_ascii=False)[1:-1])


def _list_inner_names(data_type: DataType) -> list[str]:
    match data_type:
        case Array(inner) | Map(_, inner):
            return _list_inner_names(inner)
        case Struct(fields):
            return [inner_name for name, inner in fields for inner_name in (name, *_list_inner_names(inner))]
        case Primitive():
            return []


def _render_entries(text: str) -> str:
    # a name may stand twice in it
    return f"from_json({text}, 'MAP<STRING, STRING>')"


def _render_part(place: str) -> str:
    text = "b"
    # `get_json_object` would print numbers anew
    for name in place.split(".") if place else ():
        text = f"try_element_at({_render_entries(text)}, {render_literal(name)})"
    return text


def _render_first(reasons: list[str]) -> str:
    return f"coalesce({', '.join(reasons)}, {NO_REASON})" if reasons else NO_REASON


def _render_any_reason(values: str, inside: str) -> str:
    return f"get(filter(transform({values}, x -> {inside}), r -> r IS NOT NULL), 0)"


def _render_reason(data_type: DataType, path: str, subject: str, *, grows: bool = False) -> str | None:
    """Return why the value `x` is not held as it is written; None if every value is."""
    match data_type:
        case Array(element):
            inside = _render_reason(element, path, subject, grows=grows)
            return _render_any_reason("from_json(x, 'ARRAY<STRING>')", inside) if inside else None
        case Map(_, value):
            inside = _render_reason(value, path, subject, grows=grows)
            return _render_any_reason(f"map_values({_render_entries('x')})", inside) if inside else None
        case Struct():
            reasons = [
                *_list_name_reasons(data_type, path, subject, grows=grows),
                *_list_field_reasons(data_type, f"{path}.", subject, grows=grows),
            ]
            return render_once(_render_entries("x"), _render_first(reasons))
        case Primitive(name):
            if name not in BINARY_FRACTIONS:
                return None
            number = f"translate(x, '{NUMBER_MARK}', '')"
            reason = render_literal(f"{subject} field {path} is not a {name} without loss")
            return f"CASE WHEN {render_is_rounded(number, name)} THEN {reason} END"


def _list_field_reasons(struct: Struct, begin: str, subject: str, *, grows: bool = False) -> list[str]:
    reasons = []
    for name, inner in struct.fields:
        inside = _render_reason(inner, f"{begin}{name}", subject, grows=grows)
        values = f"transform(filter(map_entries(b), x -> x.key = {render_literal(name)}), x -> x.value)"
        reasons += [_render_any_reason(values, inside)] if inside else []
    return reasons


def _list_name_reasons(struct: Struct, path: str, subject: str, *, grows: bool) -> list[str]:
    names = ", ".join(render_literal(name) for name, _ in struct.fields)
    spelling = " ".join(f"WHEN {render_literal(n.lower())} THEN {render_literal(n)}" for n, _ in struct.fields)
    own_name = f"CASE lower(k) {spelling} END"
    other_keys = f"filter(map_keys(b), k -> k NOT IN ({names}) AND NOT map_contains_key(b, {own_name}))"
    begin = render_literal(f"{subject} field {path} has the field ")
    respelled = f"get(transform({other_keys}, k -> concat({begin}, k, ', and the column is ', {own_name})), 0)"
    if grows:
        return [respelled]
    kind = format_type(struct).replace("`", "")
    none = render_literal(f"{subject} field {path} has none of the fields of {kind}; its fields are ")
    names_reason = f"concat({none}, array_join(slice(map_keys(b), 1, 20), ', '))"
    is_alien = f"size(b) > 0 AND NOT exists(map_keys(b), k -> k IN ({names}))"
    return [respelled, f"CASE WHEN {is_alien} THEN {names_reason} END"]
