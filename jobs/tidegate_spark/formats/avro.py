"""avro: records of any schema id, each decoded with its writer's schema into the reader's columns."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from tidegate.avro_decoding import plain, watched
from tidegate.avro_schema import THERE, Names, is_record, named_types
from tidegate.jobs import StageTable
from tidegate.pipeline import Column
from tidegate.spark_sql import literal, quoted

from tidegate_spark.avro_fields import converted, unfit
from tidegate_spark.formats.found import DELETE, NO_REASON, UPSERT, FoundKey, FoundValue
from tidegate_spark.formats.objects import key_fields

HEADER = 5  # the magic byte and four bytes of schema id


def read(records: DataFrame, table: StageTable) -> FoundKey:
    """A key: a record with the key's fields, or one bare value."""
    options = table.key.options
    decoded = records.selectExpr("*", f"{row('key', options)} AS ka")
    schema, columns = json.loads(options["reader"]), key_fields(table).columns
    if is_record(schema):
        values, conditions = read_fields("ka", columns, AvroFields(field_nodes(schema), named_types(schema)))
    else:
        name = quoted(columns[0].name)
        values, conditions = [f"{converted('ka', schema, {})} AS {name}"], [("", unfit("ka", schema, {}))]
    reason = f"CASE {undecodable('key', 'ka', options)} {_unfit_cases('key', conditions)} END"
    return FoundKey(decoded, f"struct({', '.join(values)})", reason)


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """A value is an upsert, no value is a delete."""
    options = table.value.options
    schema = json.loads(options["reader"])
    found = records.selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        f"{row('value', options)} AS a",
    ).selectExpr("*", f"CASE WHEN value IS NULL THEN NULL {undecodable('value', 'a', options)} END AS located_reason")
    return found_fields(found, table, ("a", "a"), AvroFields(field_nodes(schema), named_types(schema)))


class AvroFields(NamedTuple):
    """The fields of a record schema by name, and the named types that they may refer to."""

    by_name: dict[str, Any]
    names: Names


def found_fields(records: DataFrame, table: StageTable, places: tuple[str, str], fields: AvroFields) -> FoundValue:
    """What is found once row and key stand at `places`."""
    at, key_at = places
    values, conditions = read_fields(at, table.value_columns, fields)
    keys = key_fields(table).columns
    there = bool(keys) and all(column.name in fields.by_name for column in keys)
    key_values, key_conditions = read_fields(key_at, keys if there else (), fields)
    missing = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in keys)
    return FoundValue(
        records=records,
        columns=tuple(values),
        reason=f"CASE {_unfit_cases('value', conditions)} WHEN false THEN '' END",
        key=f"struct({', '.join(key_values) if there else missing})",
        key_reason=f"CASE {_unfit_cases('key', key_conditions)} WHEN false THEN '' END" if there else NO_REASON,
        key_there=f"{key_at} IS NOT NULL" if there else "false",
    )


def field_nodes(schema: Any) -> dict[str, Any]:
    """The fields of a record schema by name."""
    return {field["name"]: field["type"] for field in schema["fields"]}


def read_fields(at: str, columns: Sequence[Column], fields: AvroFields) -> tuple[list[str], list[tuple[str, str]]]:
    """Each column as SQL under its name, and for each why it may not fit."""
    values = [f"{sql} AS {quoted(name)}" for name, sql in values_of(at, columns, fields).items()]
    nodes = ((c.name, f"{at}.{quoted(c.name)}", fields.by_name[c.name]) for c in columns)
    return values, [(name, unfit(sql, node, fields.names)) for name, sql, node in nodes]


def values_of(at: str, columns: Sequence[Column], fields: AvroFields) -> dict[str, str]:
    """Each column's SQL by its name."""
    made = ((c, converted(f"{at}.{quoted(c.name)}", fields.by_name[c.name], fields.names)) for c in columns)
    return {column.name: f"CAST({sql} AS {column.type})" for column, sql in made}


def row(part: str, options: dict[str, Any]) -> str:
    """The decoded value in the bytes of `part`; a record that cannot be decoded lacks the watched field."""
    reader = json.dumps(plain(watched(json.loads(options["reader"]))))
    if not options["writers"] and "refused" not in options:
        return _from_avro(part, json.dumps(plain(json.loads(options["reader"]))), reader)
    cases = [
        f"WHEN {literal(_header(number))} THEN {_from_avro(f'substring({part}, {HEADER + 1})', writer, reader)}"
        for number, writer in options["writers"].items()
    ]
    nothing = _from_avro("CAST(NULL AS BINARY)", reader, reader)
    return f"CASE hex(substring({part}, 1, {HEADER})) {' '.join(cases)} ELSE {nothing} END"


def _from_avro(part: str, writer: str, reader: str) -> str:
    return f"from_avro({part}, {literal(writer)}, map('mode', 'PERMISSIVE', 'avroSchema', {literal(reader)}))"


def _header(number: str) -> str:
    return f"00{int(number):08X}"


def undecodable(part: str, decoded: str, options: dict[str, Any]) -> str:
    """`WHEN … THEN …` for bytes that are not Avro of a known schema."""
    there = f"{decoded}.{THERE}" if is_record(json.loads(options["reader"])) else decoded
    broken = f"WHEN {there} IS NULL THEN 'the {part} cannot be decoded with its Avro schema'"
    if "refused" not in options:
        return broken
    number = f"conv(hex(substring({part}, 2, 4)), 16, 10)"
    refused = " ".join(
        f"WHEN hex(substring({part}, 1, {HEADER})) = {literal(_header(n))} "
        f"THEN {literal(f'the {part} has schema id={n}, whose {reason}')}"
        for n, reason in options["refused"].items()
    )
    known = ", ".join(literal(_header(n)) for n in options["writers"]) or "''"
    return (
        f"WHEN length({part}) < {HEADER} OR hex(substring({part}, 1, 1)) <> '00' "
        f"THEN 'the {part} does not begin with the magic byte and a schema id' {refused} "
        f"WHEN hex(substring({part}, 1, {HEADER})) NOT IN ({known}) "
        f"THEN concat('the {part} has schema id=', {number}, ', which is no version of its subject') {broken}"
    )


def _unfit_cases(what: str, conditions: list[tuple[str, str]]) -> str:
    return " ".join(
        f"WHEN {condition} THEN {literal(f'the {what} field {name} does not fit its column without loss')}"
        for name, condition in conditions
        if condition != "false"
    )
