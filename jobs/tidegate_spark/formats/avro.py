"""avro: records of any schema id, each decoded with its writer's schema into the reader's columns."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.avro import (
    BARE_FIELD,
    END_BYTES,
    END_FIELD,
    Names,
    collect_named_types,
    is_record,
    is_variable_scale,
)
from tidegate.schema.avro_resolution import append_end_field, simplify_types
from tidegate.schema.data_types import Column, Primitive
from tidegate.schema.wire_format import KEYLESS
from tidegate.sql.spark import quote, render_columns, render_literal

from tidegate_spark.fields import avro_lengths
from tidegate_spark.fields.avro import LENGTH_CHECK_OPTION, render_conversion, render_is_lossy
from tidegate_spark.fields.conditions import NO_REASON, render_first_reason
from tidegate_spark.fields.written_values import render_decimal
from tidegate_spark.formats.decoded import (
    TOMBSTONE_DELETES,
    DecodedKey,
    DecodedValue,
    locate_columns,
    render_cast_type,
    render_null_fields,
    render_required_cases,
)
from tidegate_spark.formats.json import list_key_fields, list_truncated_names
from tidegate_spark.formats.wire_format import (
    format_header,
    render_body,
    render_header,
    render_header_cases,
    render_refused_cases,
)

# the server's workers do not have the product's code: this module goes with the function
cloudpickle.register_pickle_by_value(avro_lengths)


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    options = table.key.options
    decoded = decode_record(records, "key", options, "ka")
    schema = json.loads(options["reader"])
    columns = list_key_fields(table).columns
    if is_record(schema):
        at = "ka"
        fields = AvroFields(get_field_schemas(schema), collect_named_types(schema))
    else:
        name = columns[0].name
        at = f"named_struct({render_literal(name)}, ka.{BARE_FIELD})"
        fields = AvroFields({name: schema}, {})
    values, conditions = render_fields(at, columns, fields)
    required_cases = render_required_cases("the key", columns, locate_columns(at, columns))
    cases = f"{_render_lossy_cases('key', conditions)} {required_cases}"
    reason = f"CASE {render_undecodable_cases('key', 'ka', options)} {cases} END"
    return DecodedKey(decoded, f"struct({render_columns(values)})", reason)


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """A value is an upsert, no value is a delete. Bytes that are no Avro of a known schema get a `located_reason`."""
    options = table.value.options
    schema = json.loads(options["reader"])
    reason = f"CASE WHEN value IS NULL THEN NULL {render_undecodable_cases('value', 'a', options)} END"
    decoded = decode_record(records, "value", options, "a")
    changes = decoded.selectExpr("*", TOMBSTONE_DELETES, f"{reason} AS located_reason")
    return decode_fields(changes, table, ("a", "a"), AvroFields(get_field_schemas(schema), collect_named_types(schema)))


class AvroFields(NamedTuple):
    """The fields of a record schema by name, its named types, and the columns, case-folded, in which times are cut."""

    by_name: dict[str, Any]
    names: Names
    truncated: frozenset[str] = frozenset()

    def truncates(self, column: Column) -> bool:
        return column.name.casefold() in self.truncated


def decode_fields(records: DataFrame, table: StageTable, places: tuple[str, str], fields: AvroFields) -> DecodedValue:
    """Read row and key out of the decoded records at `places`: NULL keys if the schema lacks a column."""
    at, key_at = places
    fields = fields._replace(truncated=list_truncated_names(table))
    values, conditions = render_fields(at, table.value_columns, fields)
    keys = list_key_fields(table).columns
    has_keys = bool(keys) and all(column.name in fields.by_name for column in keys)
    key_values, key_conditions = render_fields(key_at, keys if has_keys else (), fields)
    # the key's own schema may declare a type that does not hold the value's field
    key_conditions += [(n, f"({key_at}.{quote(n)} IS NOT NULL AND ({sql}) IS NULL)") for n, sql in key_values.items()]
    required_cases = render_required_cases("the value", table.value_columns, locate_columns(at, table.value_columns))
    # of a value that cannot be decoded that is said first
    unlocated = "WHEN located_reason IS NOT NULL THEN NULL"
    keyless = render_refused_cases("value", table.value.options.get(KEYLESS, {}))
    key_required = f"{unlocated} {keyless} {render_required_cases('the key', keys, locate_columns(key_at, keys))}"
    return DecodedValue(
        records=records,
        columns=values,
        reason=render_first_reason(_render_lossy_cases("value", conditions)),
        null_reason=render_first_reason(required_cases),
        key=f"struct({render_columns(key_values) if has_keys else render_null_fields(keys)})",
        key_reason=f"CASE {_render_lossy_cases('key', key_conditions)} {key_required} END" if has_keys else NO_REASON,
        key_presence=f"{key_at} IS NOT NULL" if has_keys else "false",
        doubts={name: f"located_reason IS NOT NULL OR coalesce({condition}, false)" for name, condition in conditions},
    )


def get_field_schemas(schema: Any) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in schema["fields"]}


def render_fields(
    at: str, columns: Sequence[Column], fields: AvroFields
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    places = ((c, f"{at}.{quote(c.name)}") for c in columns)
    return render_values(at, columns, fields), [(c.name, _render_is_column_lossy(sql, c, fields)) for c, sql in places]


def _render_is_column_lossy(sql: str, column: Column, fields: AvroFields) -> str:
    # a declared decimal may have fewer digits than the schema's
    number = _render_variable_scale(sql, column, fields)
    if number:
        return f"({sql} IS NOT NULL AND ({number}) IS NULL)"
    condition = render_is_lossy(sql, fields.by_name[column.name], fields.names, fields.truncates(column))
    if not column.type.upper().startswith("DECIMAL"):
        return condition
    too_long = f"({sql} IS NOT NULL AND try_cast({sql} AS {column.type}) IS NULL)"
    return too_long if condition == "false" else f"({condition} OR {too_long})"


def _render_variable_scale(sql: str, column: Column, fields: AvroFields) -> str | None:
    leaf = Primitive(column.type)
    if not (leaf.decimal or leaf.name == "STRING") or not is_variable_scale(fields.by_name[column.name], fields.names):
        return None
    return render_decimal(f"{sql}.`value`", f"try_cast({sql}.scale AS INT)", leaf)


def render_values(at: str, columns: Sequence[Column], fields: AvroFields) -> dict[str, str]:
    values = {}
    for c in columns:
        place = f"{at}.{quote(c.name)}"
        converted = render_conversion(place, fields.by_name[c.name], fields.names, fields.truncates(c))
        # what does not fit is a bad record, and must not end the batch before it is
        values[c.name] = (
            f"try_cast({_render_variable_scale(place, c, fields) or converted} AS {render_cast_type(c.type)})"
        )
    return values


def decode_record(records: DataFrame, part: str, options: dict[str, Any], name: str) -> DataFrame:
    """Add the decoded bytes of `part` as the struct `name`, whose field `END_FIELD` is right only for a whole record.

    `END_BYTES` follow the record's bytes as one more field: in bytes that are too short or too long it holds others.
    """
    if options.get(LENGTH_CHECK_OPTION):
        schemas = options["writers"] or {"": _get_fixed_schema(options)}
        fits = F.arrow_udf(avro_lengths.build_length_checker(dict(schemas)), "boolean")(F.col(part))
        records = records.withColumn(f"{part}_fits", fits)
    return records.selectExpr("*", f"{_render_row(part, options)} AS {name}")


def _render_row(part: str, options: dict[str, Any]) -> str:
    reader = json.dumps(simplify_types(append_end_field(json.loads(options["reader"]))))
    checked_part = f"CASE WHEN {part}_fits THEN {part} END" if options.get(LENGTH_CHECK_OPTION) else part
    if not options["writers"] and "refused" not in options:
        writer = json.dumps(simplify_types(append_end_field(json.loads(_get_fixed_schema(options)))))
        return _render_from_avro(checked_part, writer, reader)
    body = render_body(checked_part)
    cases = [
        f"WHEN {render_literal(format_header(number))} "
        f"THEN {_render_from_avro(body, json.dumps(append_end_field(json.loads(schema))), reader)}"
        for number, schema in options["writers"].items()
    ]
    nothing = _render_from_avro("CAST(NULL AS BINARY)", reader, reader)
    return f"CASE {render_header(part)} {' '.join(cases)} ELSE {nothing} END"


def _get_fixed_schema(options: dict[str, Any]) -> str:
    return str(options.get("written") or options["reader"])


def _render_from_avro(part: str, writer: str, reader: str) -> str:
    whole = f"concat({part}, X'{END_BYTES}')"
    return (
        f"from_avro({whole}, {render_literal(writer)}, "
        f"map('mode', 'PERMISSIVE', 'avroSchema', {render_literal(reader)}))"
    )


def render_undecodable_cases(part: str, decoded: str, options: dict[str, Any]) -> str:
    """Return `WHEN … THEN …` for bytes that are not Avro of a known schema."""
    is_whole = f"coalesce({decoded}.{END_FIELD} = X'{END_BYTES}', false)"
    reason = f"'the {part} cannot be decoded with its Avro schema'"
    broken = f"WHEN NOT {is_whole} THEN {reason}"
    if "refused" not in options:
        return broken
    known_cases = render_header_cases(part, options["writers"], options["refused"])
    changed = render_refused_cases(part, options.get("changed", {}))
    return f"{known_cases} {f'WHEN NOT {is_whole} THEN CASE {changed} ELSE {reason} END' if changed else broken}"


def _render_lossy_cases(part_name: str, conditions: list[tuple[str, str]]) -> str:
    return " ".join(
        f"WHEN {condition} THEN {render_literal(f'the {part_name} field {name} does not fit its column without loss')}"
        for name, condition in conditions
        if condition != "false"
    )
