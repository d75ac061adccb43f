"""The columns that a JSON Schema describes, where it says enough for one type each."""

import json
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.pipeline import Column
from tidegate.spark_sql import quoted

FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
SIMPLE = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}


def columns_of(text: str) -> tuple[Column, ...]:
    """The properties of an object. ConfigurationError names one that has no single type."""
    schema = json.loads(text)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not properties:
        raise ConfigurationError("the JSON Schema has no properties; declare the columns in the pipeline file")
    return tuple(Column(name, _type(node, name)) for name, node in properties.items())


def _type(node: Any, path: str) -> str:
    branches = [one for word in ("oneOf", "anyOf") for one in node.get(word, ())]
    real = [branch for branch in branches if branch.get("type") != "null"]
    if branches and len(real) == 1:
        return _type(real[0], path)
    words = node.get("type", "string" if "enum" in node else None)
    kinds = [word for word in (words if isinstance(words, list) else [words]) if word != "null"]
    kind = kinds[0] if len(kinds) == 1 else None
    if kind in SIMPLE:
        return SIMPLE[kind]
    if kind == "string":
        return FORMATS.get(node.get("format", ""), "STRING")
    return _parts(kind, node, path)


def _parts(kind: str | None, node: Any, path: str) -> str:
    if kind == "array" and isinstance(node.get("items"), dict):
        return f"ARRAY<{_type(node['items'], f'{path}[]')}>"
    if kind == "object" and node.get("properties"):
        fields = (f"{quoted(name)}: {_type(inner, f'{path}.{name}')}" for name, inner in node["properties"].items())
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"MAP<STRING, {_type(node['additionalProperties'], f'{path}{{}}')}>"
    raise ConfigurationError(
        f"the JSON Schema leaves the type of {path} open; declare the columns in the pipeline file"
    )
