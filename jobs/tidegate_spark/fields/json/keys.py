"""The text of a key: an object of its fields, or a lone one bare, alone or in Kafka Connect's envelope.

A lone key in JSON's usual spelling, {"id": 5} or "a-7", is read off its text; any other spelling is left to the parser.
Spark makes a reader for each text that it parses, and that costs more than the few bytes of a key.
"""

import json

from tidegate.schema.data_types import Column
from tidegate.sql.spark import quote, render_literal, render_once

from tidegate_spark.fields.json.objects import BLANK_CHARACTERS, Fields
from tidegate_spark.fields.json.text import render_text_of_numbers, render_unmarked_text

IS_OBJECT_KEY = f"(key_text LIKE '{{%' OR ltrim({BLANK_CHARACTERS}, key_text) LIKE '{{%')"


def render_key_object(fields: Fields, is_enveloped: bool) -> str:
    """Return the key as an object: a lone key column may come as a bare value, 42 or "abc" instead of {"id": 42}."""
    if len(fields.columns) != 1:
        return "key_text"
    name = render_literal(json.dumps(fields.columns[0].name))
    wrapped = f"concat('{{', {name}, ':', key_text, '}}')"
    if not is_enveloped:
        return f"CASE WHEN {IS_OBJECT_KEY} THEN key_text ELSE {wrapped} END"
    return (
        f"CASE WHEN NOT {IS_OBJECT_KEY} THEN {wrapped} "
        f"WHEN contains(key_text, '\"payload\"') THEN coalesce({_render_bare_payload(name)}, key_text) "
        "ELSE key_text END"
    )


def _render_bare_payload(name: str) -> str:
    # numbers stand there as texts behind a mark: a VARIANT would print them anew
    schema = "to_json(b.schema)"
    payload = "to_json(b.payload)"
    fields = f"concat('[{{\"field\":', {name}, ',', substring({schema}, 2), ']')"
    laid_out = f"concat('{{\"schema\":{{\"fields\":', {fields}, '}},\"payload\":{{', {name}, ':', {payload}, '}}}}')"
    plain_payload = f"concat('{{\"payload\":{{', {name}, ':', {payload}, '}}}}')"
    bare = f"CASE WHEN {schema} LIKE '{{%' THEN {laid_out} ELSE {plain_payload} END"
    kept_payload = f"CASE WHEN coalesce({payload}, 'null') <> 'null' AND NOT {payload} LIKE '{{%' THEN {bare} END"
    struct = f"from_json({render_text_of_numbers('key_text')}, 'schema VARIANT, payload VARIANT')"
    return render_unmarked_text(render_once(struct, kept_payload))


PLAIN_KEY_COLUMN = "key_plain"
INTEGER_TYPES = ("INT", "BIGINT")
# ASCII in quotes, without quotes and escapes inside; to the very end: a line break behind it is no part of it
PRINTABLE_PATTERN = r'^"[ !#-\[\]-~]*"\z'


def render_plain_key(columns: tuple[Column, ...], text: str) -> str | None:
    """Return the one column's value if `text` spells it plainly, else NULL; None for keys that are never plain."""
    if len(columns) != 1:
        return None
    (column,) = columns
    opening = f"{{{json.dumps(column.name)}:"
    is_lone = f"startswith({text}, {render_literal(opening)}) AND endswith({text}, '}}')"
    field = f"trim(substring({text}, {len(opening) + 1}, length({text}) - {len(opening) + 1}))"
    inside = f"CASE WHEN {is_lone} THEN {field} WHEN NOT startswith({text}, '{{') THEN {text} END"
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
