"""avro: the schema that the columns have, and the bytes with or without the id of a registered schema."""

import json
import re
import struct
from typing import Any, NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.errors import ConfigurationError
from tidegate.schema.avro import (
    Names,
    collect_named_types,
    get_type_name,
    is_record,
    list_branches,
    parse_schema,
    resolve_name,
)
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.publish.encoders.record_part import Problem, RecordPart, put_inside, render_good
from tidegate_spark.publish.encoders.schema_registration import read_registry_settings, register_schema

SIMPLE_TYPES: dict[str, Any] = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long", "float": "float",
    "double": "double", "string": "string", "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}  # fmt: skip


NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def encode(spark: SparkSession, part: RecordPart) -> Column:
    """Confluent's form: a zero byte, the schema's id in four, then Avro; with a schema in the options Avro alone."""
    configured_schema = part.options.get("schema")
    plain = f"to_avro({part.render_struct()}, {render_literal(configured_schema or _render_schema(part))})"
    if configured_schema:
        return F.expr(render_good(list_problems(spark, part), plain))
    return F.expr(f"concat(X'{build_header(spark, part).hex()}', {plain})")


def build_header(spark: SparkSession, part: RecordPart) -> bytes:
    """Register the schema; return the zero byte and its id, or nothing if the options have the schema."""
    if part.options.get("schema"):
        return b""
    number = register_schema(read_registry_settings(spark, part), part.subjects, _render_schema(part))
    return struct.pack(">bI", 0, number)


def _render_schema(part: RecordPart) -> str:
    return json.dumps(build_record_schema(part.build_record_name(), part.typed_fields))


def list_problems(_: SparkSession, part: RecordPart) -> list[Problem]:
    """Return the rows that a given schema cannot hold. `ConfigurationError` names a column for which it has no room."""
    configured_schema = part.options.get("schema")
    return _list_misfits(part, configured_schema) if configured_schema else []


def build_record_schema(
    name: str, fields: list[tuple[str, T.DataType]], taken_names: set[str] | None = None
) -> dict[str, Any]:
    """Return a record of nullable fields with default null, so that columns may come and go (full compatibility).

    A record inside is named by its path. `ConfigurationError` for a name or a type that Avro does not have.
    """
    taken_names = set() if taken_names is None else taken_names
    while name in taken_names:
        name += "_"
    taken_names.add(name)
    for field, _ in fields:
        if not NAME_PATTERN.fullmatch(field):
            raise ConfigurationError(
                f"column={field}: Avro's names are letters, digits and underscores; rename it in sql"
            )
    avro_fields = [
        {"name": field, "type": ["null", _build_schema(kind, f"{name}_{field}", taken_names)], "default": None}
        for field, kind in fields
    ]
    return {"type": "record", "name": name, "fields": avro_fields}


def _build_schema(kind: T.DataType, name: str, taken_names: set[str]) -> Any:
    if isinstance(kind, T.StructType):
        return build_record_schema(name, [(field.name, field.dataType) for field in kind], taken_names)
    if isinstance(kind, T.ArrayType):
        return {"type": "array", "items": ["null", _build_schema(kind.elementType, name, taken_names)]}
    if isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType):
            raise ConfigurationError(f"column={name}: Avro's maps have text for keys; turn it into text, or use json")
        return {"type": "map", "values": ["null", _build_schema(kind.valueType, name, taken_names)]}
    if isinstance(kind, T.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.simpleString() not in SIMPLE_TYPES:
        raise ConfigurationError(f"column={name} type={kind.simpleString()}: Avro has no such type; cast it in sql")
    return SIMPLE_TYPES[kind.simpleString()]


AVRO_TYPES = {
    "boolean": ("boolean",), "tinyint": ("int",), "smallint": ("int",), "int": ("int",), "bigint": ("long",),
    "float": ("float",), "double": ("double",), "string": ("string", "enum"), "binary": ("bytes", "fixed"),
    "date": ("int",), "timestamp": ("long",), "timestamp_ntz": ("long",),
}  # fmt: skip
# a number without a meaning is one of milliseconds to Spark
MILLIS = {"timestamp": ("", "timestamp-millis"), "timestamp_ntz": ("", "local-timestamp-millis")}
MICROS = {"timestamp": "timestamp-micros", "timestamp_ntz": "local-timestamp-micros"}
MAX_SHOWN_CHARACTERS = 200


class _Place(NamedTuple):
    """Where a value is: in SQL, and for people."""

    sql: str
    path: str
    depth: int = 0


def _list_misfits(part: RecordPart, schema_text: str) -> list[Problem]:
    """Return the rows that the schema cannot hold. `ConfigurationError` names a column for which it has no room."""
    schema = parse_schema(schema_text)
    if not is_record(schema):
        raise ConfigurationError(f"{part.part}.avro.schema is no record; give one with a field for each column")
    kind = T.StructType([T.StructField(column.name_in_record, column.type) for column in part.columns])
    places = {column.name_in_record: quote(column.name) for column in part.columns}
    fit = _SchemaFit(f"{part.part}.avro.schema", collect_named_types(schema))
    return fit.list_field_problems(kind, schema, {name: _Place(sql, name) for name, sql in places.items()}, "")


class _SchemaFit:
    """The walk over columns and schema; `what` is the schema's name in messages."""

    def __init__(self, part_name: str, names: Names) -> None:
        self._part_name = part_name
        self._names = names

    def list_field_problems(
        self, kind: T.StructType, record: Any, places: dict[str, _Place], path: str
    ) -> list[Problem]:
        nodes = {field["name"].lower(): field["type"] for field in record["fields"]}
        known = {field.name.lower() for field in kind}
        unknown = (f for f in record["fields"] if f["name"].lower() not in known)
        unfilled = next((f["name"] for f in unknown if not self._is_nullable(f["type"])), None)
        if unfilled is not None:
            raise ConfigurationError(
                f"{self._part_name}: no column fills its field {path}{unfilled}, which may not be null; make it a "
                "union with null, or add the column in sql"
            )
        problems = []
        for field in kind:
            if field.name.lower() not in nodes:
                raise ConfigurationError(
                    f"{self._part_name} has no field {path}{field.name}; add it, or leave the column out in sql"
                )
            problems += self._list_problems(field.dataType, nodes[field.name.lower()], places[field.name])
        return problems

    def _is_nullable(self, node: Any) -> bool:
        node = resolve_name(node, self._names)
        return isinstance(node, list) and len(list_branches(node)) < len(node)

    def _list_problems(self, kind: T.DataType, schema: Any, at: _Place) -> list[Problem]:
        branches = [resolve_name(branch, self._names) for branch in list_branches(resolve_name(schema, self._names))]
        reason = f"has NULL in {at.path}, where {self._part_name} has no null"
        missing = [] if self._is_nullable(schema) else [Problem(f"{at.sql} IS NULL", reason)]
        if isinstance(kind, T.StructType) and len(branches) > 1:  # Spark writes a struct of the members
            return missing
        if len(branches) != 1:
            raise self._refuse(kind, schema, at)
        return [*missing, *self._list_inner_problems(kind, branches[0], at)]

    def _list_inner_problems(self, kind: T.DataType, node: Any, at: _Place) -> list[Problem]:
        word = get_type_name(node)
        element = f"_tidegate_{at.depth}"
        inside = _Place(element, f"{at.path}[]", at.depth + 1)
        if isinstance(kind, T.StructType) and is_record(node):
            places = {f.name: at._replace(sql=f"{at.sql}.{quote(f.name)}", path=f"{at.path}.{f.name}") for f in kind}
            problems = self.list_field_problems(kind, node, places, f"{at.path}.")
            return [Problem(f"{at.sql} IS NOT NULL AND {problem.condition}", problem.reason) for problem in problems]
        if isinstance(kind, T.ArrayType) and word == "array":
            return put_inside(at.sql, element, self._list_problems(kind.elementType, node["items"], inside))
        if isinstance(kind, T.MapType) and word == "map" and isinstance(kind.keyType, T.StringType):
            values = f"map_values({at.sql})"
            return put_inside(values, element, self._list_problems(kind.valueType, node["values"], inside))
        if not _has_room(kind, node, word):
            raise self._refuse(kind, node, at)
        return self._list_leaf_problems(kind.simpleString(), node, at)

    def _list_leaf_problems(self, kind: str, node: Any, at: _Place) -> list[Problem]:
        word = get_type_name(node)
        if kind in MILLIS and _get_meaning(node) in MILLIS[kind]:
            is_finer = f"pmod(unix_micros(CAST({at.sql} AS TIMESTAMP)), 1000) <> 0"
            way_out = f"use {MICROS[kind]} there, or cut them in sql: date_trunc('MILLISECOND', {at.path})"
            return [
                Problem(is_finer, f"has parts of a millisecond in {at.path}, which {self._part_name} cuts; {way_out}")
            ]
        if word == "enum":
            symbols = ", ".join(map(render_literal, node["symbols"]))
            reason = f"has in {at.path} what is no symbol of the enum in {self._part_name}"
            return [Problem(f"{at.sql} NOT IN ({symbols})", reason)]
        if word == "fixed" and kind == "binary":
            size = int(node["size"])
            return [
                Problem(f"length({at.sql}) <> {size}", f"has not {size} bytes in {at.path}, as {self._part_name} says")
            ]
        return []

    def _refuse(self, kind: T.DataType, node: Any, at: _Place) -> ConfigurationError:
        return ConfigurationError(
            f"{self._part_name}: column={at.path} is {kind.simpleString()}, and its field is "
            f"{json.dumps(node)[:MAX_SHOWN_CHARACTERS]}, which Spark does not write it as; correct the schema, or "
            "cast the column in sql"
        )


def _has_room(kind: T.DataType, node: Any, word: str) -> bool:
    name = kind.simpleString()
    if isinstance(kind, T.DecimalType):
        stated = (node.get("precision"), node.get("scale", 0)) if isinstance(node, dict) else ()
        is_decimal = word in ("bytes", "fixed") and _get_meaning(node) == "decimal"
        return is_decimal and stated == (kind.precision, kind.scale)
    if name in MILLIS and _get_meaning(node) not in (*MILLIS[name], MICROS[name]):
        return False
    return word in AVRO_TYPES.get(name, ())


def _get_meaning(node: Any) -> str:
    return str(node.get("logicalType", "")) if isinstance(node, dict) else ""
