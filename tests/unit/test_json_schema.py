"""JSON Schema as columns: one type each, or told to declare them."""

import json
from typing import Any

import pytest
from tidegate.errors import ConfigurationError
from tidegate.json_schema import columns_of

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
    "marks": ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>"),
}


def test_each_property_is_a_column() -> None:
    text = json.dumps({"type": "object", "properties": {name: node for name, (node, _) in TYPES.items()}})
    assert [(c.name, c.type) for c in columns_of(text)] == [(name, kind) for name, (_, kind) in TYPES.items()]


@pytest.mark.parametrize("node", [{}, {"type": ["string", "integer"]}, {"$ref": "#/x"}, {"type": "object"}, {"oneOf": [
    {"type": "string"}, {"type": "integer"}]}])  # fmt: skip
def test_what_leaves_the_type_open_has_to_be_declared(node: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"leaves the type of a\.b\[\] open; declare the columns"):
        columns_of(json.dumps({"properties": {"a": {"type": "object", "properties": {"b": {
            "type": "array", "items": node}}}}}))  # fmt: skip


def test_schema_without_properties_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no properties"):
        columns_of('{"type": "object"}')
