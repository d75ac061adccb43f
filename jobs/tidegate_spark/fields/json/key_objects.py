"""The text of a key as an object of its fields: a lone one may come bare, alone or in Kafka Connect's envelope."""

import json

from tidegate.sql.spark import render_literal, render_once

from tidegate_spark.fields.json.objects import BLANK_CHARACTERS, Fields
from tidegate_spark.fields.json.text import render_text_of_numbers, render_unmarked_text


def render_key_object(fields: Fields, is_enveloped: bool) -> str:
    """Return the key as an object: a lone key column may come as a bare value, 42 or "abc" instead of {"id": 42}."""
    if len(fields.columns) != 1:
        return "key_text"
    name = render_literal(json.dumps(fields.columns[0].name))
    wrapped = f"concat('{{', {name}, ':', key_text, '}}')"
    if not is_enveloped:
        return f"CASE WHEN {render_is_object_text('key_text')} THEN key_text ELSE {wrapped} END"
    return (
        f"CASE WHEN NOT {render_is_object_text('key_text')} THEN {wrapped} "
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


def render_is_object_text(text: str) -> str:
    return f"({text} LIKE '{{%' OR ltrim({BLANK_CHARACTERS}, {text}) LIKE '{{%')"
