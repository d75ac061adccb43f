"""Debezium's events of MongoDB: rows and keys are texts of extended JSON, and are read as what they hold."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import DataType, Primitive, Struct, format_type, parse_type
from tidegate.sql.spark import render_literal, render_once

from tidegate_spark.fields.avro import render_timestamp
from tidegate_spark.fields.conditions import NO_REASON
from tidegate_spark.fields.json.objects import render_is_not_object
from tidegate_spark.fields.json.text import render_part, render_strict_text
from tidegate_spark.fields.written_values import MOMENTS

_TEXT_PATTERN = r'"(?:[^"\\]++|\\.)*+"'
_INTEGER_PATTERN = r'"(-?(?:0|[1-9][0-9]*+))"'
_NUMBER_PATTERN = r'"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"'
_NOT_FINITE_PATTERN = r'"(?:NaN|-?Infinity)"'


def _build_wrapper_pattern(name: str, value: str) -> str:
    return rf'\{{\s*+"\${name}"\s*+:\s*+{value}\s*+\}}'


# in this order: a date of the newer version holds a number
_WRAPPER_PATTERNS = (
    _build_wrapper_pattern("oid", '("[0-9a-fA-F]{24}")'),
    _build_wrapper_pattern("numberLong", _INTEGER_PATTERN),
    _build_wrapper_pattern("numberInt", _INTEGER_PATTERN),
    _build_wrapper_pattern("numberDouble", _NUMBER_PATTERN),
    _build_wrapper_pattern("numberDouble", f"({_NOT_FINITE_PATTERN})"),
    # a text: a column of doubles would not hold all of its digits
    _build_wrapper_pattern("numberDecimal", f"({_TEXT_PATTERN})"),
    _build_wrapper_pattern("uuid", f"({_TEXT_PATTERN})"),
    _build_wrapper_pattern("symbol", f"({_TEXT_PATTERN})"),
    _build_wrapper_pattern("date", f"({_TEXT_PATTERN})"),
    _build_wrapper_pattern(
        "binary", rf'\{{\s*+"base64"\s*+:\s*+({_TEXT_PATTERN})\s*+,\s*+"subType"\s*+:\s*+{_TEXT_PATTERN}\s*+\}}'
    ),
    _build_wrapper_pattern("binary", rf'({_TEXT_PATTERN})\s*+,\s*+"\$type"\s*+:\s*+{_TEXT_PATTERN}'),
)
_DATE_PATTERN = _build_wrapper_pattern("date", "(-?[0-9]++)")


def render_plain_json(text: str) -> str:
    """Render the extended JSON at `text` as plain JSON.

    Counted dates become texts in UTC, within the years of tables.
    """
    for pattern in _WRAPPER_PATTERNS:
        text = f"regexp_replace({text}, {render_literal(pattern)}, '$1')"
    parts = f"split(b, {render_literal(_DATE_PATTERN)}, -1)"
    dates = f"regexp_extract_all(b, {render_literal(_DATE_PATTERN)}, 0)"
    at = render_timestamp(
        f"try_cast(regexp_extract(d, {render_literal(_DATE_PATTERN)}, 1) AS BIGINT)", "millis", "TIMESTAMP"
    )
    date_text = f"""coalesce(date_format({at}, '"yyyy-MM-dd\\'T\\'HH:mm:ss.SSS\\'Z\\'"'), d, '')"""
    whole = f"array_join(zip_with({parts}, {dates}, (p, d) -> concat(p, {date_text})), '')"
    return render_once(text, f"CASE WHEN contains(b, '\"$date\"') THEN {whole} ELSE b END")


IS_ONE_VALUE = """coalesce(size(from_json(concat('{"e":[', b, ',null]}'), 'e ARRAY<VARIANT>').e) = 2, false)"""
ROW_FIELDS = ("before", "after")
KEY_PROBLEM = "value_key_problem"  # of a key that is taken from the value
TEXT_ROW_PATTERN = r'"(?:before|after)"\s*+:\s*+"'
KEY_FIELD = "id"  # of the one field that a key has
# what a value is, where no word of extended JSON wraps it
TEXT = "a text"
NUMBER = "a number"
TRUTH = "a boolean"
DOCUMENT = "a document"
NUMBER_WORDS = ("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal")
OTHER_TYPES_TEXT_PATTERN = r"\A(?:[0-9a-fA-F]{24}\z|\{)"  # a text that an ObjectId or a document has, too
WRAPPER_PATTERN = r'"\$(?!number(?:Int|Long|Double)":)\w+":'  # what plain JSON would make a text, or drop
GENERIC_BYTES = "00"
UUID_BYTES = "04"
EVENT_DDL = "op STRING, ts_ms BIGINT, source MAP<STRING, STRING>, before VARIANT, after VARIANT"


def unwrap_documents(records: DataFrame, table: StageTable) -> DataFrame:
    """Put the rows that are texts into `value_text` as objects; other events stay as they are.

    An event with a text that is no object stays too, and does not fit any columns.
    """
    body = f"coalesce({render_part('value_text', '$.payload')}, value_text)"
    schema = f"""'"schema":', coalesce({render_part("value_text", "$.schema")}, 'null'), ',', """
    schema_field = schema if "value.schema" in table.metadata.values() else ""
    rows = ", ".join(f"""'"{row}":', {_render_document(f"b.{row}")}, ','""" for row in ROW_FIELDS)
    metadata_json = (
        "to_json(struct(b.op AS op, b.ts_ms AS ts_ms, b.source AS source), map('ignoreNullFields', 'false'))"
    )
    event_json = f"concat('{{', {schema_field}{rows}, substring({metadata_json}, 2))"
    has_text = " OR ".join(_render_is_text(f"b.{row}") for row in ROW_FIELDS)
    event = render_once(
        f"from_json({body}, {render_literal(EVENT_DDL)})", f"CASE WHEN {has_text} THEN {event_json} END"
    )
    is_document = f"value_text RLIKE {render_literal(TEXT_ROW_PATTERN)}"
    columns = {"value_text": f"CASE WHEN {is_document} THEN coalesce({event}, value_text) ELSE value_text END"}
    if table.key.from_value and table.key_columns:
        paths = [f"$.{place}{row}" for row in ("after", "before") for place in ("payload.", "")]
        text = f"coalesce({', '.join(render_part('value_text', path) for path in paths)})"
        problem = render_once(text, render_key_problem(table, "b"))
        columns[KEY_PROBLEM] = f"CASE WHEN {is_document} THEN {problem} END"
    return records.withColumns({name: F.expr(sql) for name, sql in columns.items()})


def render_has_text_row() -> str:
    """Whether a row of the event is a text; only for events that fit no columns."""
    paths = [f"$.{path}{row}" for path in ("", "payload.") for row in ROW_FIELDS]
    rows = (f"try_variant_get(try_parse_json(value_text), '{path}', 'VARIANT')" for path in paths)
    return f"({' OR '.join(map(_render_is_text, rows))})"


def unwrap_key(records: DataFrame, table: StageTable) -> DataFrame:
    """Put the key as plain JSON into `key_text`, and into `key_problem` why it is not kept apart from other keys."""
    document = records.withColumn("key_text", F.expr(_render_document_key(table)))
    columns = {"key_text": render_plain_json("key_text"), "key_problem": render_key_problem(table, "key_text")}
    return document.withColumns({name: F.expr(sql) for name, sql in columns.items()})


def _render_document_key(table: StageTable) -> str:
    # the field may be called `_id`
    fields = table.key.fields
    name = render_literal(f'{{"{"_id" if fields == ("_id",) else KEY_FIELD}":')
    body = "coalesce(get_json_object(key_text, '$.payload'), key_text)"
    inside = f"CASE WHEN {_render_is_text('b.id')} THEN try_variant_get(b.id, '$', 'STRING') END"
    text = render_once(f"from_json({body}, 'id VARIANT')", inside)
    key_json = f"CASE WHEN {IS_ONE_VALUE} THEN concat({name}, b, '}}') ELSE '{{' END"
    return render_once(text, f"CASE WHEN b IS NULL THEN key_text ELSE {key_json} END")


def render_key_problem(table: StageTable, text: str) -> str:
    """Return why a field of the key is not kept apart from one of another type, NULL if it is.

    MongoDB has `1004` beside `"1004"`, and an ObjectId beside its text: as one column they would be one row.
    """
    columns = ((c.name.removeprefix(table.key.prefix), parse_type(c.type)) for c in table.key_columns)
    return f"coalesce({', '.join(_render_field_problem(text, *column) for column in columns)}, {NO_REASON})"


def _render_field_problem(text: str, name: str, kind: DataType) -> str:
    whole = f"try_parse_json({render_strict_text(text)})"
    field = f"get(filter(map_entries(b), x -> lower(x.key) = {render_literal(name.lower())}), 0).`value`"
    places = [
        render_once(f"try_variant_get({whole}, '{path}', 'MAP<STRING, VARIANT>')", field) for path in ("$", "$.payload")
    ]
    bare = f"CASE WHEN {_render_word(whole)} <> '{DOCUMENT}' THEN {whole} END"
    begin = render_literal(f"the key field {name} holds ")
    column = format_type(kind).replace("`", "")
    end = render_literal(
        f", which a column {column} does not keep apart from keys of other types; give it the type of all keys (STRING "
        "for ObjectIds and texts), or leave out key.json.extended: the unchanged text keeps the type"
    )
    problem = f"CASE WHEN NOT ({_render_keeps_apart('b', kind)}) THEN concat({begin}, {_render_word('b')}, {end}) END"
    return render_once(f"coalesce({', '.join(places)}, {bare})", f"CASE WHEN b IS NOT NULL THEN {problem} END")


def _render_word(variant: str) -> str:
    type_name = f"schema_of_variant({variant})"
    keys = f"json_object_keys(to_json({variant}))"
    wrapper = f"CASE WHEN get({keys}, 0) LIKE '$%' THEN get({keys}, 0) END"
    return (
        f"CASE WHEN {type_name} LIKE 'OBJECT%' THEN coalesce({wrapper}, '{DOCUMENT}') "
        f"WHEN {type_name} LIKE 'ARRAY%' THEN 'a list' WHEN {type_name} = 'STRING' THEN '{TEXT}' "
        f"WHEN {type_name} = 'BOOLEAN' THEN '{TRUTH}' WHEN {type_name} = 'VOID' THEN 'null' ELSE '{NUMBER}' END"
    )


def _render_keeps_apart(variant: str, kind: DataType) -> str:
    own_type = "false"
    if isinstance(kind, Struct):
        names = ", ".join(render_literal(name) for name in sorted(name for name, _ in kind.fields))
        fields = f"try_variant_get({variant}, '$', 'MAP<STRING, VARIANT>')"
        inside = (
            _render_keeps_apart(f"try_element_at({fields}, {render_literal(name)})", inner)
            for name, inner in kind.fields
        )
        own_type = " AND ".join([f"json_object_keys(to_json({variant})) = array({names})", *inside])
    elif isinstance(kind, Primitive):
        own_type = _render_is_own_type(variant, kind)
    return f"(coalesce({own_type}, false) OR {_render_word(variant)} = 'null')"


def _render_is_own_type(variant: str, kind: Primitive) -> str:
    word = _render_word(variant)
    text = f"try_variant_get({variant}, '$', 'STRING')"
    if kind.name == "STRING":
        plain = f"{word} = '{TEXT}' AND NOT {text} RLIKE {render_literal(OTHER_TYPES_TEXT_PATTERN)}"
        document = f"{word} = '{DOCUMENT}' AND NOT to_json({variant}) RLIKE {render_literal(WRAPPER_PATTERN)}"
        return f"({plain} OR {document} OR {word} = '$oid')"
    if kind.name == "BINARY":  # the same bytes may be a UUID
        return f"{word} = '$binary' AND {_render_is_plain_binary(variant)}"
    # numbers are equal in MongoDB however they are written
    words = (TRUTH,) if kind.name == "BOOLEAN" else ("$date",) if kind.name in MOMENTS else (NUMBER, *NUMBER_WORDS)
    return f"{word} IN ({', '.join(map(render_literal, words))})"


def _render_is_plain_binary(variant: str) -> str:
    subtype = _render_first_text(variant, "$['$type']", "$['$binary'].subType")
    data = _render_first_text(variant, "$['$binary'].base64", "$['$binary']")
    is_uuid = f"length({data}) = 24 AND {data} LIKE '%=='"
    return f"{subtype} = CASE WHEN {is_uuid} THEN '{UUID_BYTES}' ELSE '{GENERIC_BYTES}' END"


def _render_first_text(variant: str, *paths: str) -> str:
    texts = (f"try_variant_get({variant}, {render_literal(path)}, 'STRING')" for path in paths)
    return f"coalesce({', '.join(texts)})"


def _render_is_text(variant: str) -> str:
    return f"coalesce(schema_of_variant({variant}) = 'STRING', false)"


def _render_document(variant: str) -> str:
    text = f"try_variant_get({variant}, '$', 'STRING')"
    whole = render_once(
        text,
        f"CASE WHEN NOT ({render_is_not_object('b')}) AND {IS_ONE_VALUE} THEN {render_plain_json('b')} END",
    )
    return f"CASE WHEN {_render_is_text(variant)} THEN {whole} ELSE coalesce(to_json({variant}), 'null') END"
