"""json: an object with the columns as fields; a lone key column may come bare."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.formats.registry import get_format
from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import UNKNOWN_FIELDS
from tidegate.schema.data_types import Array, Column, Primitive, has_leaf, parse_type
from tidegate.sql.spark import render_literal

from tidegate_spark.fields.json.connect import ConnectFields
from tidegate_spark.fields.json.inner_parts import render_inner_reason
from tidegate_spark.fields.json.keys import (
    IS_OBJECT_KEY,
    PLAIN_KEY_COLUMN,
    render_key_object,
    render_key_struct,
    render_plain_key,
)
from tidegate_spark.fields.json.mongodb import KEY_PROBLEM, render_key_problem, render_plain_json, unwrap_key
from tidegate_spark.fields.json.objects import (
    CORRUPT_COLUMN,
    Fields,
    ReadingRules,
    read_objects,
    read_row_object,
    render_is_not_object,
    render_object,
)
from tidegate_spark.fields.json.reasons import (
    MARK_PROBLEM,
    OVERFLOW_REASON,
    apply_own_spelling,
    render_is_marked,
    render_keys,
    render_limit_reason,
    render_missing_cases,
    render_no_column_case,
    render_respelled_case,
    render_unreadable_cases,
)
from tidegate_spark.fields.json.text import render_part
from tidegate_spark.fields.json.unknown_fields import Path, build_kind, render_unknown_fields
from tidegate_spark.fields.written_values import MOMENTS
from tidegate_spark.formats.decoded import DELETE, ROW, UPSERT, DecodedKey, DecodedValue
from tidegate_spark.formats.wire_format import render_body, render_header_cases

# one text, number or word, and nothing else: what follows it would become fields beside the key's
BARE_VALUE_PATTERN = r'^\s*("(?:[^"\\]++|\\.)*+"|[^\s",:{}\[\]]+)\s*$'

PAYLOAD = ("payload",)
MAX_COUNTED_COLUMNS = 200  # of which the values are counted in one sum: Spark reads it term by term, each in the last
KEY_MISFIT_REASON = "the key is not a JSON object that fits the key columns"
KEY_TEXT_COLUMN = "key_json"  # the key's own object


def get_reading_rules(table: StageTable, part: str = "value") -> ReadingRules:
    options = (table.key if part == "key" else table.value).options
    return ReadingRules(
        table.value.timestamp_unit,
        options.get("numbers"),
        options.get("binary"),
        list_truncated_names(table),
        counts_days=get_format(table.value.format).counts_days,
    )


def list_truncated_names(table: StageTable) -> frozenset[str]:
    """Return the columns, case-folded, in which times are cut: none of the key's, where two would become one."""
    keys = {column.name.removeprefix(table.key.prefix).casefold() for column in table.key_columns}
    names = (column.name for column in table.value_columns if table.value.truncates(column.name))
    return frozenset(name.casefold() for name in names) - keys


def list_key_fields(table: StageTable, text: str = "value_text") -> Fields:
    columns = (replace(c, name=c.name.removeprefix(table.key.prefix)) for c in table.key_columns)
    return Fields(tuple(columns), get_reading_rules(table, "key" if text == KEY_TEXT_COLUMN else "value"), text)


def list_known_fields(table: StageTable) -> Fields:
    return Fields(list_known_columns(table))


def list_known_columns(table: StageTable) -> tuple[Column, ...]:
    """Return all that a value may hold: its columns, and those of the key, which it may repeat."""
    names = {column.name for column in table.value_columns}
    return (*table.value_columns, *(column for column in list_key_fields(table).columns if column.name not in names))


def list_unknown_fields(
    table: StageTable, row: str, known_fields: Fields, paths: Sequence[Path], *, is_list: bool = False
) -> list[str]:
    """The column of the fields that no column holds: see `render_unknown_fields`; none where nobody asks for them."""
    if not reports_unknown_fields(table):
        return []
    kind = Array(build_kind(known_fields)) if is_list else build_kind(known_fields)
    is_flat = all(isinstance(parse_type(column.type), Primitive) for column in table.value_columns)
    is_counted = [*paths] == [()] and is_flat and len(table.value_columns) <= MAX_COUNTED_COLUMNS
    flat_names = [column.name for column in table.value_columns] if is_counted else []
    return [f"{render_unknown_fields('value_text', row, kind, paths, flat_names)} AS {UNKNOWN_FIELDS}"]


def let_grow(fields: Fields, table: StageTable) -> Fields:
    """The fields, of which those that records make take objects without any field that is known."""
    names = frozenset(column.name.casefold() for column in fields.columns) - set(table.fixed)
    return replace(fields, growing=names) if table.value.adds_columns else fields


def reports_unknown_fields(table: StageTable) -> bool:
    """Whether fields that no column holds are counted or refused."""
    is_read = get_format(table.value.format).reads_by_name and not table.keys_only
    return is_read and table.value.unknown_fields != "ignore"


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """A value is an upsert, no value is a delete; in an envelope a null payload is a delete."""
    options = table.value.options
    if "ids" in options:
        records = records.withColumn("value_text", F.expr(f"CAST({render_body('value')} AS STRING)"))
    if options.get("extended"):
        plain_text = {"value_text": F.expr(render_plain_json("value_text"))}
        problem = {KEY_PROBLEM: F.expr(render_key_problem(table, "value_text"))} if takes_extended_key(table) else {}
        records = records.withColumns({**plain_text, **problem})
    if reads_envelope(table):
        return _decode_enveloped(records, table)
    fields = Fields(table.value_columns, get_reading_rules(table))
    keys = list_key_fields(table)
    if options.get("kinds"):  # a JSON Schema that Kafka Connect wrote says what fields mean
        fields = ConnectFields(fields.columns, fields.rules, other_columns=keys.columns)
        keys = ConnectFields(keys.columns, keys.rules)
        records = records.selectExpr("*", f"{fields.render_registered_kinds(options['kinds'], 'value')} AS kinds")
    columns = list_known_fields(table)
    rows = _add_key_of_value(read_row_object(apply_own_spelling(records, (fields, columns)), fields), keys, table)
    misfits = fields.render_misfits(render_object("j"), ("$",))
    delete = "value_text IS NULL"  # of two columns that say so, Spark need not carry the bytes along
    changes = rows.selectExpr(
        "*",
        f"CASE WHEN {delete} THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        f"CASE WHEN {delete} THEN NULL {render_header_cases('value', options.get('ids'))} "
        f"{render_unreadable_cases('j', misfits)} "
        f"WHEN row IS NULL THEN '{OVERFLOW_REASON}' "
        f"{'' if table.value.adds_columns else render_no_column_case('value_text', 'row', fields, columns)} "
        f"{render_respelled_case('value_text', 'row', fields, is_named=True)} "
        f"ELSE {render_inner_reason('row', let_grow(fields, table), 'the value')} END AS located_reason",
        *list_unknown_fields(table, "row", columns, [()]),
    )
    key_reason = render_key_reason(keys, "kv", "value_text", has_key_problem=takes_extended_key(table))
    return build_decoded_value(changes, fields, keys, key_reason)


def build_decoded_value(changes: DataFrame, fields: Fields, keys: Fields, key_reason: str) -> DecodedValue:
    return DecodedValue(
        records=changes,
        columns=fields.render_values("row"),
        reason=fields.render_loss_reason("row", "the value", ROW),
        null_reason=fields.render_lack_reason("row", "the value"),
        key=keys.render_struct("kv"),
        key_reason=key_reason,
        key_presence="kv IS NOT NULL",
        doubts=fields.render_doubts("row", ROW),
    )


def takes_extended_key(table: StageTable) -> bool:
    """Whether keys are taken from values that may be extended JSON, of which types are told apart beforehand."""
    is_extended = bool(table.value.options.get("extended")) or get_format(table.value.format).is_enveloped
    return table.key.from_value and bool(table.key_columns) and is_extended


def render_key_reason(
    keys: Fields, struct: str, text: str, places: tuple[str, ...] = ("",), *, has_key_problem: bool
) -> str:
    """Return why the key's fields at `struct`, out of the object `text` in the value, are no key."""
    # of a value that does not fit its own columns that is said first
    misfits = keys.render_misfit_cases(text, struct, "located_reason IS NULL")
    inside = render_inner_reason(struct, keys, "the key", places, keys.render_reason(struct, "the key"))
    lacks = f"{render_missing_cases(text, struct, keys, 'the value')} {misfits}".strip()
    if has_key_problem:
        lacks = f"WHEN {KEY_PROBLEM} IS NOT NULL THEN {KEY_PROBLEM} {lacks}".strip()
    return f"CASE {lacks} ELSE {inside} END" if lacks else inside


def _decode_enveloped(records: DataFrame, table: StageTable) -> DecodedValue:
    keys = ConnectFields(list_key_fields(table).columns, get_reading_rules(table))
    fields = ConnectFields(table.value_columns, get_reading_rules(table), other_columns=keys.columns)
    known_fields = list_known_fields(table)
    payload = render_part("value_text", "$.payload")
    inside = f"schema: {fields.row_schema}, payload: {fields.text_struct}"
    key_inside = f"payload: {keys.text_struct}" if keys.columns else "payload: STRING"
    key_places = [(keys, ".payload")] if keys.columns else []
    events = read_objects(records, "j", inside, [(fields, ".payload")])
    rows = read_objects(events, "kvj", key_inside, key_places or [(keys, "")], render_is_key_in_value(table))
    rows = rows.selectExpr("*", f"{render_object('j')} AS e", f"{render_object('kvj')}.payload AS kv")
    rows = rows.selectExpr("*", "e.payload AS row", f"{fields.render_kinds('e.schema.fields')} AS kinds")
    delete = f"(value IS NULL OR {render_is_null_payload()})"
    changes = rows.selectExpr(
        "*",
        f"CASE WHEN {delete} THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        f"CASE WHEN {delete} THEN NULL {render_header_cases('value', table.value.options.get('ids'))} "
        f"{render_unreadable_cases('j', fields.render_misfits('row', ('$.payload',)))} "
        "WHEN row IS NULL THEN 'the value has no payload: it is not in an envelope' "
        f"{'' if table.value.adds_columns else render_no_column_case(payload, 'row', fields, known_fields)} "
        f"{render_respelled_case(payload, 'row', fields)} "
        f"ELSE {render_inner_reason('row', let_grow(fields, table), 'the value', PAYLOAD)} END AS located_reason",
        *list_unknown_fields(table, "row", known_fields, [PAYLOAD]),
    )
    key_reason = render_key_reason(keys, "kv", payload, PAYLOAD, has_key_problem=takes_extended_key(table))
    return build_decoded_value(changes, fields, keys, key_reason)


def render_is_null_payload() -> str:
    """Whether the envelope `e`, parsed into `j`, holds a payload that is null."""
    fields = render_keys("value_text")
    only = f"array_contains({fields}, 'payload') AND forall({fields}, k -> k IN ('schema', 'payload'))"
    is_read = f"e IS NOT NULL AND j.{CORRUPT_COLUMN} IS NULL AND e.payload IS NULL"
    return f"coalesce({is_read} AND contains(value_text, '\"payload\"') AND {only}, false)"


def render_is_key_in_value(table: StageTable) -> str:
    return "true" if table.key.from_value else "key IS NULL"


def _add_key_of_value(records: DataFrame, keys: Fields, table: StageTable) -> DataFrame:
    # parsed only for records whose key is taken from there
    if not keys.columns:
        return records.selectExpr("*", "CAST(NULL AS STRING) AS kv")
    return read_objects(records, "kvj", keys.inner, [(keys, "")], render_is_key_in_value(table)).selectExpr(
        "*", f"{render_object('kvj')} AS kv"
    )


@dataclass(frozen=True)
class _KeyObject:
    """What is looked for in a key's object: the fields themselves, or those of an envelope's payload."""

    fields: Fields
    enveloped: bool
    kinds: str
    inner: str

    @classmethod
    def build(cls, table: StageTable) -> "_KeyObject":
        fields = list_key_fields(table, KEY_TEXT_COLUMN)
        names = {c.name.lower() for c in fields.columns}
        enveloped = "payload" not in names
        kinds = "CAST(NULL AS STRING)"
        schema = ""
        connect_fields = ConnectFields(fields.columns, fields.rules, fields.text, kinds="key_kinds")
        if table.key.options.get("kinds") and _has_counts(fields):  # a JSON Schema that Kafka Connect wrote
            fields = connect_fields
            kinds = connect_fields.render_registered_kinds(table.key.options["kinds"], "key")
        elif enveloped and "schema" not in names and (reads_envelope(table) or _has_counts(fields)):
            fields = connect_fields
            kinds = connect_fields.render_kinds("kj.schema.fields")
            schema = f", schema: {connect_fields.row_schema}"
        payload = f", payload: {fields.text_struct}" if enveloped else ""
        return cls(fields, enveloped, kinds, fields.inner + payload + schema)


def _has_counts(fields: Fields) -> bool:
    types = (parse_type(column.type) for column in fields.columns)
    return any(has_leaf(kind, lambda leaf: leaf.name in MOMENTS or leaf.decimal is not None) for kind in types)


def add_key_object(records: DataFrame, table: StageTable) -> DataFrame:
    """Add the key's object, parsed if it is not plain: beside the value's, so that Spark copies the record once."""
    if "ids" in table.key.options:
        records = records.withColumn("key_text", F.expr(f"CAST({render_body('key')} AS STRING)"))
    if table.key.options.get("extended"):
        records = unwrap_key(records, table)
    key = _KeyObject.build(table)
    texts = records.selectExpr("*", f"{render_key_object(key.fields, key.enveloped)} AS {KEY_TEXT_COLUMN}")
    plainly = _render_plain_key(key)
    condition = None
    if plainly is not None:
        texts = texts.selectExpr("*", f"{plainly} AS {PLAIN_KEY_COLUMN}")
        condition = f"{PLAIN_KEY_COLUMN} IS NULL"
    places = [(key.fields, path) for path in ("", *([".payload"] if key.enveloped else []))]
    texts = apply_own_spelling(texts, (key.fields, key.fields), condition)
    return read_objects(texts, "kjj", key.inner, places, condition)


def _render_plain_key(key: _KeyObject) -> str | None:
    is_read_so = not any(
        isinstance(kind, Primitive) and kind.is_lenient for kind in map(key.fields.get_type, key.fields.columns)
    )
    return render_plain_key(key.fields.columns, "key_text") if is_read_so else None


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    """Read an object, with or without Kafka Connect's envelope, or one bare value; it is parsed already."""
    key = _KeyObject.build(table)
    fields = key.fields
    kinds = key.kinds
    parsed_records = records.selectExpr("*", f"{render_object('kjj')} AS kj")
    is_plain = _render_plain_key(key) is not None
    key_sql = render_key_struct(fields.columns, "kj") if is_plain else fields.render_parsed_struct("kj")
    key_fields = f"CASE WHEN kj.payload IS NOT NULL THEN kj.payload ELSE {key_sql} END" if key.enveloped else key_sql
    key_records = parsed_records.selectExpr("*", f"{key_fields} AS kf", f"{kinds} AS key_kinds")
    bad = f"NOT is_valid_utf8(key_text) OR {render_is_not_object('key_json')} OR kj IS NULL"
    bad += f" OR kjj.{CORRUPT_COLUMN} IS NOT NULL"
    if len(fields.columns) == 1:
        bad += f" OR NOT {IS_OBJECT_KEY} AND NOT key_text RLIKE {render_literal(BARE_VALUE_PATTERN)}"
        bad += f" OR NOT {IS_OBJECT_KEY} AND {fields.render_is_empty('kf')}"
    inside = render_part("key_json", "$.payload")
    text = f"CASE WHEN kj.payload IS NOT NULL THEN {inside} ELSE key_json END" if key.enveloped else "key_json"
    places = (*PAYLOAD, "") if key.enveloped else ("",)
    inner = render_inner_reason("kf", fields, "the key", places, fields.render_reason("kf", "the key"))
    reason = (
        f"CASE {render_header_cases('key', table.key.options.get('ids'))} "
        f"{'WHEN key_problem IS NOT NULL THEN key_problem ' if table.key.options.get('extended') else ''}"
        f"{f'WHEN {PLAIN_KEY_COLUMN} IS NOT NULL THEN NULL ' if is_plain else ''}"
        f"WHEN {bad} THEN CASE WHEN {render_is_marked('key_text')} THEN 'the key {MARK_PROBLEM}' "
        f"ELSE coalesce({render_limit_reason('key_text', 'the key')}, '{KEY_MISFIT_REASON}') END "
        f"{render_missing_cases(text, 'kf', fields, 'the key')} ELSE {inner} END"
    )
    return DecodedKey(key_records, fields.render_struct("kf"), reason)


def reads_envelope(table: StageTable) -> bool:
    return get_format(table.value.format).is_enveloped or bool(table.value.options.get("envelope"))
