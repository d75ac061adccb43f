"""avro with a given schema: whether it has room for the columns, and which rows it cannot hold without loss.

Spark would fail record by record, and silently cut what is finer than a millisecond.
"""

import json
from typing import Any, NamedTuple

from pyspark.sql import types as T  # noqa: N812 (as Spark's own examples call it)
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

from tidegate_spark.publish.encoders.record_part import Problem, RecordPart, put_inside

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


def list_problems(part: RecordPart, schema_text: str) -> list[Problem]:
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
        unfilled = next((f["name"] for f in record["fields"] if self._needs(f, known)), None)
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

    def _needs(self, field: Any, known: set[str]) -> bool:
        return field["name"].lower() not in known and not self._is_nullable(field["type"])

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
