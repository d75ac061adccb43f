"""The columns that a JSON Schema describes, where it says enough for one type each."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tidegate.errors import ConfigurationError
from tidegate.pipeline import Column
from tidegate.spark_sql import quoted

FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
SIMPLE = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}


def columns_of(text: str, older: Iterable[str] = ()) -> tuple[Column, ...]:
    """The properties of an object, and those that only `older` versions have, the newest first: records still do.

    ConfigurationError names a property that has no single type.
    """
    found: dict[str, Column] = {}
    for version in (text, *older):
        schema = json.loads(version)
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not properties and version is text:
            raise ConfigurationError("the JSON Schema has no properties; declare the columns in the pipeline file")
        for name, node in (properties or {}).items():
            if name not in found:
                found[name] = Column(name, _type(_Node(node, schema, (name,))))
    return tuple(found.values())


class _Node(NamedTuple):
    """A schema inside of another, and the way to it: of names for people, and of references that were followed."""

    node: Any
    root: Any
    path: tuple[str, ...]
    references: tuple[str, ...] = ()

    def below(self, node: Any, *path: str) -> "_Node":
        return self._replace(node=node, path=(*self.path, *path))

    def resolved(self) -> "_Node":
        """The definition that a reference inside of the schema points to; ConfigurationError where there is none."""
        if not isinstance(self.node, dict) or "$ref" not in self.node:
            return self
        reference = str(self.node["$ref"])
        if reference in self.references or not reference.startswith("#/"):
            raise self.open()
        node = self.root
        for word in reference.removeprefix("#/").split("/"):
            node = node.get(word.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return self._replace(node=node, references=(*self.references, reference)).resolved()

    def open(self) -> ConfigurationError:
        name = ".".join(self.path).replace(".[]", "[]").replace(".{}", "{}")
        return ConfigurationError(
            f"the JSON Schema leaves the type of {name} open; declare the columns in the pipeline file"
        )


def _type(given: _Node) -> str:
    place = given.resolved()
    node = place.node
    if not isinstance(node, dict):  # true and false are schemas too: of anything, and of nothing
        raise place.open()
    branches = [place.below(one).resolved() for word in ("oneOf", "anyOf") for one in node.get(word, ())]
    real = [one for one in branches if not (isinstance(one.node, dict) and one.node.get("type") == "null")]
    if branches and len(real) == 1:
        return _type(real[0])
    words = node.get("type", "string" if "enum" in node else None)
    kinds = [word for word in (words if isinstance(words, list) else [words]) if word != "null"]
    kind = kinds[0] if len(kinds) == 1 else None
    if kind in SIMPLE:
        return SIMPLE[kind]
    if kind == "string":
        return FORMATS.get(node.get("format", ""), "STRING")
    return _parts(kind, place)


def _parts(kind: str | None, place: _Node) -> str:
    node = place.node
    if kind == "array" and "items" in node and not isinstance(node["items"], list):
        return f"ARRAY<{_type(place.below(node['items'], '[]'))}>"
    if kind == "object" and node.get("properties"):
        fields = (f"{quoted(name)}: {_type(place.below(inner, name))}" for name, inner in node["properties"].items())
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"MAP<STRING, {_type(place.below(node['additionalProperties'], '{}'))}>"
    raise place.open()
