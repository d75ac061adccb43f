"""Fields of a JSON object that no column holds.

Taking an object apart once more costs as much as decoding it. So a pattern reads along its text first, and only what
it does not recognise is looked at: a text of which it recognises all holds nothing but columns, null, and empty parts.
A flat row is not even read so if its text has no more colons than the row has values, as each field has a colon.
"""

import json
import re
from collections.abc import Iterable, Sequence

from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.json.text import render_part

NO_FIELDS = "CAST(array() AS ARRAY<STRUCT<path: STRING, value: VARIANT>>)"
TEXT_PATTERN = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
PLAIN_NAME_PATTERN = r'"[^"\\]*+"'
SCALAR_PATTERN = rf'{TEXT_PATTERN}|[^",:{{}}\[\]\s]++'
NOTHING_PATTERN = r"null(?=[\s,}])|\{\s*+\}|\[\s*+\]"
NOTHING_KINDS = "'VOID', 'OBJECT<>', 'ARRAY<VOID>'"
MAX_PASSED_DEPTH = 8  # of a part that is passed over; in a deeper one the object is looked at itself
Path = tuple[str, ...]


def render_unknown_fields(
    text: str, row: str, kind: Struct | Array, paths: Sequence[Path], flat_names: Sequence[str]
) -> str:
    """SQL: ARRAY<STRUCT<path, value>> of what a row holds that no column is for; NULL, or empty, where that is nothing.

    The row's object, or the list of a message's rows, lies at one of the `paths` in the JSON `text`; the first that has
    one counts. `kind` are all the fields that it may have. Only where the SQL `row` is not NULL there is a row. If it
    is the text itself, and flat, `flat_names` are its columns.
    """
    places = [render_part(text, f"$.{'.'.join(path)}") if path else text for path in paths]
    entries = _render_entries_at(f"coalesce({', '.join(places)})" if len(places) > 1 else places[0], kind)
    may_have_more = f"{row} IS NOT NULL"
    if flat_names:
        values = " + ".join(f"CAST({row}.{quote(name)} IS NOT NULL AS INT)" for name in flat_names)
        # the text up to the colon behind so many: Spark finds it faster than it counts all
        may_have_more += f" AND octet_length(substring_index({text}, ':', {values} + 1)) < octet_length({text})"
    is_known = f"{text} RLIKE {render_literal(build_pattern(kind, paths))}"
    return f"CASE WHEN {may_have_more} AND NOT {is_known} THEN {entries} END"


def build_kind(fields: Fields) -> Struct:
    """The type of an object that has these fields."""
    return Struct(tuple((column.name, fields.get_type(column)) for column in fields.columns))


def build_pattern(kind: DataType, paths: Sequence[Path]) -> str:
    """A pattern of texts in which what is at each of the paths has no other fields than `kind`, but for null."""
    return rf"(?s)\A\s*+(?:{_build_path_pattern(kind, paths)})\s*+\z"


def _build_path_pattern(kind: DataType, paths: Sequence[Path]) -> str:
    if () in paths:
        return _build_value_pattern(kind)
    inner_paths: dict[str, list[Path]] = {}
    for path in paths:
        inner_paths.setdefault(path[0], []).append(path[1:])
    parts = [rf'"{name}"\s*+:\s*+(?:{_build_path_pattern(kind, inner)}|null)' for name, inner in inner_paths.items()]
    other_name = rf'(?!"(?:{"|".join(inner_paths)})"){PLAIN_NAME_PATTERN}'
    return _build_fields_pattern([*parts, rf"{other_name}\s*+:\s*+(?:{SCALAR_PATTERN}|{_build_any_pattern()})"])


def _build_fields_pattern(fields: Iterable[str]) -> str:
    return rf"\{{(?:{'|'.join(fields)}|[,\s]++)*+\}}"


def _build_object_pattern(kind: Struct) -> str:
    groups: dict[str, list[str]] = {}
    for name, inner in kind.fields:
        groups.setdefault(_build_value_pattern(inner), []).append(json.dumps(name, ensure_ascii=False)[1:-1])
    fields = [rf'"{_build_names_pattern(names)}"\s*+:\s*+(?:{value})' for value, names in groups.items()]
    return _build_fields_pattern([*fields, rf"{TEXT_PATTERN}\s*+:\s*+(?:{NOTHING_PATTERN})"])


def _build_value_pattern(kind: DataType) -> str:
    """A pattern of what a column may hold; a text holds all that is inside of an object too."""
    match kind:
        case Array(element):
            return rf"\[(?:{_build_value_pattern(element)}|[,\s]++)*+\]|{SCALAR_PATTERN}"
        case Map(_, value):
            entry = rf"{TEXT_PATTERN}\s*+:\s*+(?:{_build_value_pattern(value)})"
            return f"{_build_fields_pattern([entry])}|{SCALAR_PATTERN}"
        case Struct():
            return f"{_build_object_pattern(kind)}|{SCALAR_PATTERN}"
        case Primitive():
            return f"{SCALAR_PATTERN}|{_build_any_pattern()}"


def _build_any_pattern(depth: int = MAX_PASSED_DEPTH) -> str:
    inside = f"|{_build_any_pattern(depth - 1)}" if depth else ""
    return rf'[{{\[](?:[^"{{}}\[\]]++|{TEXT_PATTERN}{inside})*+[}}\]]'


def _build_names_pattern(names: Sequence[str]) -> str:
    """The names by their first letters: Java tries one alternative after the other."""
    begins: dict[str, list[str]] = {}
    for name in names:
        begins.setdefault(name[:1], []).append(name[1:])
    parts = [
        re.escape(begin) + (_build_names_pattern(rests) if begin and len(rests) > 1 else re.escape(rests[0]))
        for begin, rests in begins.items()
    ]
    return f"(?:{'|'.join(parts)})" if len(parts) > 1 else parts[0]


def _render_entries_at(text: str, kind: Struct | Array) -> str:
    """What the object in `text`, or each object of the list there, has beside its columns.

    Of one that Spark's parser takes for no variant, as with a name twice inside, the values are texts.
    """
    fields = "MAP<STRING, {}>"
    texts = "transform_values({}, (k, v) -> CAST(v AS VARIANT))"
    if isinstance(kind, Struct):
        as_texts = texts.format(f"from_json({text}, '{fields.format('STRING')}')")
        return render_unknown_entries(f"coalesce(from_json({text}, '{fields.format('VARIANT')}'), {as_texts})", kind)
    assert isinstance(kind.element, Struct)
    as_texts = f"transform(from_json({text}, 'ARRAY<{fields.format('STRING')}>'), t -> {texts.format('t')})"
    maps = f"coalesce(from_json({text}, 'ARRAY<{fields.format('VARIANT')}>'), {as_texts})"
    return f"flatten(transform({maps}, d -> {render_unknown_entries('d', kind.element)}))"


def render_unknown_entries(fields: str, kind: Struct, path: str = "''", depth: int = 0) -> str:
    """SQL: what the MAP<STRING, VARIANT> `fields` has beside the fields of `kind`, and the structs inside of it too."""
    own = f"m{depth}"
    known = ", ".join(render_literal(name) for name, _ in kind.fields)
    is_known = f"x.key IN ({known}) OR " if known else ""
    name = "CASE WHEN x.key RLIKE '[.`]' THEN concat('`', replace(x.key, '`', '``'), '`') ELSE x.key END"
    is_nothing = f"coalesce(schema_of_variant(x.value) IN ({NOTHING_KINDS}), true)"
    unknown = f"filter(map_entries({own}), x -> NOT ({is_known}{is_nothing}))"
    entries = [f"transform({unknown}, x -> named_struct('path', concat({path}, {name}), 'value', x.value))"]
    for field, inner in kind.fields:
        value = f"try_element_at({own}, {render_literal(field)})"
        inside = _render_inside(value, inner, f"concat({path}, {render_literal(f'{field}.')})", depth)
        entries += [f"coalesce({inside}, {NO_FIELDS})"] if inside else []
    all_entries = f"concat({', '.join(entries)})" if len(entries) > 1 else entries[0]
    return f"get(transform(array({fields}), {own} -> {all_entries}), 0)"


def _render_inside(value: str, kind: DataType, path: str, depth: int) -> str | None:
    """What a variant `value` has beside its type, None for a type without structs."""
    match kind:
        case Struct():
            return render_unknown_entries(
                f"try_variant_get({value}, '$', 'MAP<STRING, VARIANT>')", kind, path, depth + 1
            )
        case Array(inner):
            elements = f"try_variant_get({value}, '$', 'ARRAY<VARIANT>')"
        case Map(_, inner):
            elements = f"map_values(try_variant_get({value}, '$', 'MAP<STRING, VARIANT>'))"
        case Primitive():
            return None
    each = f"e{depth}"
    inside = _render_inside(each, inner, path, depth + 1)
    return f"flatten(transform({elements}, {each} -> coalesce({inside}, {NO_FIELDS})))" if inside else None
