"""JSON Schema as columns: one type each, or told to declare them."""

import json
from typing import Any

import pytest
from tidegate.errors import ConfigurationError
from tidegate.schema.json_schema import describe_logical_types, to_columns

TYPES: dict[str, tuple[Any, str]] = {
    "whole": ({"type": "integer"}, "BIGINT"),
    "number": ({"type": "number"}, "DOUBLE"),
    "flag": ({"type": ["null", "boolean"]}, "BOOLEAN"),
    "text": ({"type": "string"}, "STRING"),
    "at": ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
    "day": ({"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]}, "DATE"),
    "state": ({"enum": ["a", "b"]}, "STRING"),
    "lines": (
        {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "ARRAY<STRUCT<`n`: BIGINT>>",
    ),
    "place": ({"$ref": "#/$defs/place"}, "STRUCT<`x`: DOUBLE, `at`: TIMESTAMP>"),
    "places": ({"oneOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/a~1b"}}]}, "ARRAY<BIGINT>"),
    "spaced": ({"$ref": "#/$defs/a~1b%20c"}, "BOOLEAN"),
    "alone": ({"allOf": [{"$ref": "#/$defs/time"}], "title": "When"}, "TIMESTAMP"),
    "word": ({"enum": ["a", None]}, "STRING"),
    "marks": ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>"),
}


DEFINITIONS = {
    "place": {"type": "object", "properties": {"x": {"type": "number"}, "at": {"$ref": "#/$defs/time"}}},
    "time": {"type": "string", "format": "date-time"},
    "a/b": {"type": "integer"},
    "a/b c": {"type": "boolean"},
    "tree": {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}},
}


def render_schema(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, "$defs": DEFINITIONS})


def test_each_property_is_a_column() -> None:
    text = render_schema(**{name: node for name, (node, _) in TYPES.items()})
    assert [(c.name, c.type) for c in to_columns(text)] == [(name, kind) for name, (_, kind) in TYPES.items()]


def test_property_that_the_latest_version_dropped_is_still_a_column() -> None:
    number, text = {"type": "integer"}, {"type": "string"}
    columns = to_columns(
        render_schema(id=number), [render_schema(id=text, gone=number), render_schema(gone=text, first=text), "true"]
    )
    assert [(c.name, c.type) for c in columns] == [("id", "BIGINT"), ("gone", "BIGINT"), ("first", "STRING")]


def build_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_field_of_an_object_that_the_latest_version_dropped_is_still_read_from_older_records() -> None:
    """They were left out of each record of the older version, or made it bad where unknown fields are refused."""
    number, text = {"type": "integer"}, {"type": "string"}
    older_line = build_object(gone=number, SKU=number)
    older = [
        render_schema(to=build_object(zip=text, city=number, at=build_object(y=number)), lines=number, open={}),
        render_schema(to=build_object(zip=number, first=text), lines={"type": "array", "items": older_line}),
        render_schema(marks={"type": "object", "additionalProperties": build_object(gone=text)}),
    ]
    newest = render_schema(
        to=build_object(city=text, at=build_object(x=number)), lines={"type": "array", "items": build_object(sku=text)},
        marks={"type": "object", "additionalProperties": build_object(n=number)}, open=number,
    )  # fmt: skip
    assert [(c.name, c.type) for c in to_columns(newest, older)] == [
        ("to", "STRUCT<`city`: STRING, `at`: STRUCT<`x`: BIGINT, `y`: BIGINT>, `zip`: STRING, `first`: STRING>"),
        ("lines", "ARRAY<STRUCT<`sku`: STRING, `gone`: BIGINT>>"),
        ("marks", "MAP<STRING, STRUCT<`n`: BIGINT, `gone`: STRING>>"),
        ("open", "BIGINT"),
    ]


def test_property_that_an_older_version_spelled_in_another_case_fills_the_column_of_the_newer_one() -> None:
    """Two columns that differ in case were refused, and nobody can write a version anew."""
    number, text = {"type": "integer"}, {"type": "string"}
    columns = to_columns(render_schema(id=number), [render_schema(ID=text, Gone=text), render_schema(GONE=number)])
    assert [(c.name, c.type) for c in columns] == [("id", "BIGINT"), ("Gone", "STRING")]
    assert [c.name for c in to_columns(render_schema(id=number, ID=number))] == ["id", "ID"]


@pytest.mark.parametrize("node", [{"$ref": "#/$defs/tree"}, {"$ref": "other.json"}])
def test_definition_inside_itself_or_elsewhere_has_to_be_declared(node: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"leaves the type of a.* open; declare the columns"):
        to_columns(render_schema(a=node))


@pytest.mark.parametrize("node", [{}, True, False, {"type": ["string", "integer"]}, {"$ref": "#/x"}, {"type": "object"},
    {"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"allOf": [{"type": "string"}, {"minLength": 1}]},
    {"enum": [1, 2]}, {"enum": ["a", True]}, {"const": 5},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}])  # fmt: skip
def test_what_leaves_the_type_open_has_to_be_declared(node: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"leaves the type of a\.b\[\] open; declare the columns"):
        to_columns(json.dumps({"properties": {"a": {"type": "object", "properties": {"b": {
            "type": "array", "items": node}}}}}))  # fmt: skip


@pytest.mark.parametrize("schema", [{"type": "object"}, {"$ref": "#"}, {"$ref": "#/$defs/none"}, True, [], {"oneOf": [
    {"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "object"}]}])  # fmt: skip
def test_schema_without_properties_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="has no properties"):
        to_columns(json.dumps(schema))


def test_object_that_is_a_definition_or_may_be_null_has_its_properties() -> None:
    at = build_meaning("integer", DATA + "Timestamp", "int64")
    row = {"type": "object", "properties": {"id": {"type": "integer"}, "at": at}}
    for schema in (
        {"$ref": "#/definitions/Row", "definitions": {"Row": row}},
        {"oneOf": [{"type": "null"}, row]},
        {"allOf": [{"$ref": "#/definitions/Row"}], "definitions": {"Row": row}},
    ):
        text = json.dumps(schema)
        assert [(c.name, c.type) for c in to_columns(text, logical=True)] == [("id", "BIGINT"), ("at", "TIMESTAMP")]
        assert set(describe_logical_types(text)) == {"at"}


@pytest.mark.parametrize("scale", ["-2", "39", "two", "13"])
def test_decimal_that_no_column_holds_has_to_be_declared(scale: str) -> None:
    parameters = {"scale": scale, "connect.decimal.precision": "12"}
    with pytest.raises(ConfigurationError, match="leaves the type of a open"):
        to_columns(render_schema(a=build_meaning("number", DATA + "Decimal", "bytes", **parameters)), logical=True)


DATA = "org.apache.kafka.connect.data."


def build_meaning(kind: str, name: str, connect: str, **parameters: str) -> dict[str, Any]:
    """A property as Connect's converter writes it."""
    return {
        "type": kind,
        "title": name,
        "connect.type": connect,
        "connect.parameters": parameters,
        "connect.version": 1,
    }


def test_logical_types_of_connect_are_columns_of_their_meaning() -> None:
    amount = build_meaning("number", DATA + "Decimal", "bytes", scale="2")
    day, at = build_meaning("integer", DATA + "Date", "int32"), build_meaning("integer", DATA + "Timestamp", "int64")
    text = render_schema(
        amount=amount,
        narrow=build_meaning("number", DATA + "Decimal", "bytes", scale="2", **{"connect.decimal.precision": "12"}),
        day={"oneOf": [{"type": "null"}, day]},
        at=at,
        micros=build_meaning("integer", "io.debezium.time.MicroTimestamp", "int64"),
        times={"type": "array", "items": at},
        bytes={"type": "string", "connect.type": "bytes"},
        titled={"type": "integer", "title": DATA + "Date"},
        inside={"type": "object", "properties": {"day": day}},
        time=build_meaning("integer", DATA + "Time", "int32"),
    )
    assert {c.name: c.type for c in to_columns(text, logical=True)} == {
        "amount": "DECIMAL(38,2)", "narrow": "DECIMAL(12,2)", "day": "DATE", "at": "TIMESTAMP",
        "micros": "TIMESTAMP_NTZ", "times": "ARRAY<TIMESTAMP>", "bytes": "BINARY", "titled": "BIGINT",
        "inside": "STRUCT<`day`: BIGINT>", "time": "BIGINT",
    }  # fmt: skip
    assert set(describe_logical_types(text)) == {"amount", "narrow", "day", "at", "micros", "times", "inside"}
    assert describe_logical_types(text)["amount"] == {"name": DATA + "Decimal", "parameters": {"scale": "2"}}
    assert describe_logical_types(text)["times"] == {"items": {"name": DATA + "Timestamp", "parameters": {}}}
    assert describe_logical_types(text)["inside"] == {
        "fields": [{"field": "day", "name": DATA + "Date", "parameters": {}}]
    }


def test_logical_types_are_found_at_every_depth_and_a_schema_that_holds_itself_ends() -> None:
    at = build_meaning("integer", DATA + "Timestamp", "int64")
    row = {"type": "object", "properties": {"at": at, "n": {"type": "integer"}, "again": {"$ref": "#/definitions/Row"}}}
    properties = {
        "rows": {"type": "array", "items": {"type": "object", "additionalProperties": {"$ref": "#/definitions/Row"}}},
        "plain": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }
    text = json.dumps({"type": "object", "properties": properties, "definitions": {"Row": row}})
    logical_type = {"name": DATA + "Timestamp", "parameters": {}}
    assert describe_logical_types(text) == {
        "rows": {"items": {"values": {"fields": [{"field": "at", **logical_type}]}}}
    }


def test_decimal_whose_bytes_nobody_would_read_has_to_be_declared() -> None:
    inside = {"type": "object", "properties": {"amount": build_meaning("number", DATA + "Decimal", "bytes", scale="2")}}
    with pytest.raises(ConfigurationError, match=r"leaves the type of a\.amount open"):
        to_columns(render_schema(a=inside), logical=True)
