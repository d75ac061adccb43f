"""Why a JSON text makes no row: it could not be read, or it lacks the fields that are looked for.

A text that could not be read is no object, is beyond a limit of Spark's parser, or does not fit its columns. An object
with none of the columns, or with another spelling of them, is no row of NULLs.
"""

import json
import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.formats.registry import EVENT_FORMATS
from tidegate.schema.data_types import Column
from tidegate.sql.spark import render_literal, render_once

from tidegate_spark.fields.json.objects import (
    CORRUPT_COLUMN,
    ELEMENTS_FIELD,
    MAX_DEPTH,
    OVERFLOW_PROBLEM,
    Fields,
    render_elements,
    render_is_not_object,
    render_object,
)
from tidegate_spark.fields.json.text import render_strict_text, render_text_of_numbers, render_unmarked_text
from tidegate_spark.fields.lossless import STRING_PATTERN, render_has_lone_surrogate

MISFIT_REASON = "the value does not fit value.schema, fields: "
# what a value looks like, by its keys, and what to write in the pipeline file then
FORMAT_HINTS = (
    (("schema", "payload"), "Kafka Connect's envelope: set value.json: {envelope: true}, or format: debezium-json"),
    *(
        (words, f"{record_format.event.noun}: set value.format: {record_format.name}")
        for record_format in EVENT_FORMATS
        if record_format.event is not None
        for words in record_format.event.marks
    ),
)


def render_keys(text: str) -> str:
    return f"json_object_keys({render_strict_text(text) if text.isidentifier() else text})"


def render_no_column_case(text: str, struct: str, fields: Fields, known_fields: Fields) -> str:
    """Return `WHEN … THEN …` for an object that has fields and none of the known columns; `text` is the object."""
    empty = fields.render_is_empty(struct) if fields.columns else "false"
    keys = render_keys(text)
    hints = []
    for words, like in FORMAT_HINTS:
        condition = " AND ".join(f"array_contains(b, {render_literal(word)})" for word in words)
        hints.append(f"WHEN {condition} THEN {render_literal(f'; it looks like {like}')}")
    begin = "'the value has none of the columns; its fields are '"
    reason = f"concat({begin}, array_join(slice(b, 1, 20), ', '), CASE {' '.join(hints)} ELSE '' END)"
    alien = f"size({keys}) > 0 AND NOT exists({keys}, k -> {known_fields.render_is_column_name('k')})"
    return f"WHEN {struct} IS NOT NULL AND {empty} AND {alien} THEN {render_once(keys, reason)}"


def render_is_respelled(text: str, struct: str, fields: Fields, *, is_named: bool = False) -> str:
    """Whether a column has no value, and the object `text` has its field under a name in another case (ID, id).

    `is_named`: only for a column whose own name stands somewhere else in the fields' text.
    """
    if not fields.columns:
        return "false"
    absent = " OR ".join(
        f"{fields.render_is_null(struct, c)} AND {_render_may_be_respelled(fields.text, c)}"
        f"{f' AND NOT {_render_is_unnamed(fields.text, c)}' if is_named else ''}"
        for c in fields.columns
    )
    return f"({absent}) AND {_render_has_respelled(text, fields)}"


def _render_is_unnamed(text: str, column: Column) -> str:
    return f"NOT contains({text}, {render_literal(json.dumps(column.name, ensure_ascii=False))})"


def _render_may_be_respelled(text: str, column: Column) -> str:
    # most such columns are null under their own name, and these objects need not be taken apart
    name = json.dumps(column.name, ensure_ascii=False)
    is_null = " OR ".join(f"contains({text}, {render_literal(f'{name}:{blank}null')})" for blank in ("", " "))
    quoted = re.escape(name)
    other_spelling = rf"(?!{quoted})(?iu:{quoted})|\\u[0-9a-fA-F]{{4}}"  # a letter of a name may be escaped
    return f"NOT (({is_null}) AND NOT {text} RLIKE {render_literal(other_spelling)})"


def _render_has_respelled(text: str, fields: Fields) -> str:
    exact = ", ".join(render_literal(c.name) for c in fields.columns)
    is_respelled = f"{fields.render_is_column_name('k')} AND k NOT IN ({exact})"
    has_own_name = f"exists(b, o -> o IN ({exact}) AND lower(o) = lower(k))"
    names = render_once(render_keys(text), f"exists(b, k -> {is_respelled} AND NOT {has_own_name})")
    return f"coalesce({names}, false)"


def render_respelled_case(text: str, struct: str, fields: Fields, *, is_named: bool = False) -> str:
    reason = render_literal(
        "the value has field names that differ from column names only in upper and lower case; "
        "declare the columns as the records spell them"
    )
    return f"WHEN {struct} IS NOT NULL AND {render_is_respelled(text, struct, fields, is_named=is_named)} THEN {reason}"


def apply_own_spelling(records: DataFrame, names: tuple[Fields, Fields], condition: str | None = None) -> DataFrame:
    """Write the columns' own spelling into the text of an object whose names are compared without case.

    `names` are the fields that are read, and all that are known. Only a text without a column's name is changed.
    """
    fields, known_fields = names
    if not fields.columns:
        return records
    text = fields.text
    precondition = f"{condition} AND " if condition else ""
    is_own_spelling = f"{precondition}{render_takes_own_spelling(fields, known_fields)}"
    return records.withColumn(
        text, F.expr(f"CASE WHEN {is_own_spelling} THEN {render_own_spelling(text, known_fields)} ELSE {text} END")
    )


def render_takes_own_spelling(fields: Fields, known_fields: Fields, struct: str | None = None) -> str:
    """Whether `apply_own_spelling` writes the text anew: a column's name is missing there, and another case is present.

    With the parsed object at `struct`, only names of columns that are NULL there are looked for.
    """
    if struct is not None:
        return render_is_respelled(fields.text, struct, fields)
    unnamed = " OR ".join(_render_is_unnamed(fields.text, c) for c in fields.columns)
    return f"({unnamed}) AND {_render_has_respelled(fields.text, known_fields)}"


def render_own_spelling(text: str, fields: Fields) -> str:
    """Return the object's text with the columns' own spelling of its fields' names; a field that has it goes first.

    A text that is not one object becomes one that no parser reads: never NULL, which would be a delete. So does one
    with half of a character, which would be printed as a question mark.
    """
    cases = " ".join(f"WHEN {render_literal(c.name.lower())} THEN {render_literal(c.name)}" for c in fields.columns)
    name = f"coalesce(CASE lower(x.key) {cases} END, x.key)"
    entries = f"filter(map_entries(b), x -> {name} = x.key OR NOT map_contains_key(b, {name}))"
    object_sql = f"to_json(map_from_entries(transform({entries}, x -> struct({name} AS key, x.value AS value))))"
    whole = render_elements(render_text_of_numbers(text))  # a VARIANT makes a double of more than 38 digits
    elements = f"from_json({whole}, '{ELEMENTS_FIELD} ARRAY<MAP<STRING, VARIANT>>').{ELEMENTS_FIELD}"
    respelled = render_once(elements, render_once("CASE WHEN size(b) = 2 THEN get(b, 0) END", object_sql))
    printed = f"CASE WHEN NOT {render_has_lone_surrogate(text)} THEN {render_unmarked_text(respelled)} END"
    return f"coalesce({printed}, concat({text}, '}}'))"


def render_missing_cases(text: str, struct: str, fields: Fields, subject: str) -> str:
    """Return `WHEN … THEN …` for each field that the object `text` does not have at all; null is not missing."""
    cases = []
    for c in fields.columns:
        has_field = f"coalesce(array_contains({render_keys(text)}, {render_literal(c.name)}), false)"
        reason = render_literal(f"{subject} has no field {c.name}")
        cases.append(f"WHEN {fields.render_is_null(struct, c)} AND NOT {has_field} THEN {reason}")
    return " ".join(cases)


OVERFLOW_REASON = f"the value does not fit value.schema: {OVERFLOW_PROBLEM}, beside one that is infinite"
MAX_DIGITS = 1_000
MAX_NAME_CHARACTERS = 50_000
MAX_TEXT_CHARACTERS = 20_000_000
BYTE_ORDER_MARK = "\ufeff"
MARK_PROBLEM = "begins with a byte-order mark, which is no part of JSON"
QUOTES = 2  # characters around a name or a text
NOT_BRACKETS_PATTERN = r"[^\[\]{}]+"
NOT_DIGITS_PATTERN = "[.eE+-]"


def render_unreadable_cases(struct: str, misfits: str) -> str:
    problem = f"{struct}.{CORRUPT_COLUMN}"
    unreadable = (
        f"CASE WHEN {render_object(struct)} IS NULL THEN CASE WHEN {render_has_lone_surrogate('value_text')} "
        f"THEN 'the value has half of a character: a lone surrogate' ELSE 'the value is not one JSON object' END "
        f"WHEN {problem} = '{OVERFLOW_PROBLEM}' THEN '{OVERFLOW_REASON}' "
        f"ELSE concat('{MISFIT_REASON}', {misfits}) END"
    )
    return (
        f"WHEN NOT is_valid_utf8(value_text) THEN 'the value is not valid UTF-8' "
        f"WHEN {render_is_not_object('value_text')} "
        f"THEN CASE WHEN {render_is_marked('value_text')} THEN 'the value {MARK_PROBLEM}' "
        f"ELSE 'the value is not a JSON object' END "
        f"WHEN {render_object(struct)} IS NULL OR {problem} IS NOT NULL "
        f"THEN coalesce({render_limit_reason('value_text', 'the value')}, {unreadable})"
    )


def render_is_marked(text: str) -> str:
    return f"{text} LIKE {render_literal(f'{BYTE_ORDER_MARK}%')}"


def render_limit_reason(text: str, subject: str) -> str:
    """Return which limit of the parser the JSON text is beyond, else NULL; only for texts that could not be parsed."""
    quoted = (
        ("text", MAX_TEXT_CHARACTERS, _render_has_longer(text, "", MAX_TEXT_CHARACTERS)),
        ("name", MAX_NAME_CHARACTERS, _render_has_longer(text, r"[ \t\r\n]*:", MAX_NAME_CHARACTERS)),
    )
    cases = (_render_case(longer, f"{subject} has a {word} of more than {limit:,} characters")
             for word, limit, longer in quoted)  # fmt: skip
    # without what stands in quotes: brackets and digits there are none
    bare = f"regexp_replace({text}, {render_literal(STRING_PATTERN)}, '')"
    is_deep = _render_case(
        f"{_render_depth('b')} > {MAX_DEPTH}", f"{subject} is nested deeper than {MAX_DEPTH:,} levels"
    )
    digits = f"regexp_replace(b, '{NOT_DIGITS_PATTERN}', '') RLIKE '[0-9]{{{MAX_DIGITS + 1}}}'"
    is_long = _render_case(digits, f"{subject} has a number of more than {MAX_DIGITS:,} digits")
    outside = render_once(bare, f"CASE {is_deep} {is_long} END")
    return f"CASE WHEN length({text}) <= {MAX_DIGITS} THEN NULL {' '.join(cases)} ELSE {outside} END"


def _render_case(condition: str, problem: str) -> str:
    return f"WHEN {condition} THEN {render_literal(f'{problem}, which the JSON parser does not read')}"


def _render_has_longer(text: str, behind: str, limit: int) -> str:
    quoted = f"regexp_extract_all({text}, {render_literal(f'({STRING_PATTERN}){behind}')}, 1)"
    return f"length({text}) > {limit} AND exists({quoted}, q -> length(q) > {limit + QUOTES})"


def _render_depth(text: str) -> str:
    brackets = f"split(regexp_replace({text}, {render_literal(NOT_BRACKETS_PATTERN)}, ''), '')"
    step = "CASE WHEN c IN ('[', '{') THEN 1 WHEN c = '' THEN 0 ELSE -1 END"
    return (
        f"aggregate({brackets}, named_struct('at', 0, 'most', 0), (s, c) -> "
        f"named_struct('at', s.at + {step}, 'most', greatest(s.most, s.at + {step})), s -> s.most)"
    )
