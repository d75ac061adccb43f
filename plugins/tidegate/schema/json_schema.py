"""The columns that a JSON Schema describes, where it says enough for one type each."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import MAX_PRECISION, Array, Column, DataType, Map, Struct, format_type, parse_type
from tidegate.sql.spark import quote

TEXT_FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
CONNECT = "org.apache.kafka.connect.data."
DEBEZIUM = "io.debezium.time."
# what Connect's JSON Schema converter names in `title`, beside `connect.type`
LOGICAL = {
    CONNECT + "Date": "DATE",
    CONNECT + "Timestamp": "TIMESTAMP",
    DEBEZIUM + "Date": "DATE",
    DEBEZIUM + "Timestamp": "TIMESTAMP_NTZ",
    DEBEZIUM + "MicroTimestamp": "TIMESTAMP_NTZ",
    DEBEZIUM + "NanoTimestamp": "TIMESTAMP_NTZ",
}
DECIMAL = CONNECT + "Decimal"
SIMPLE_TYPES = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}


def to_columns(text: str, older: Iterable[str] = (), logical: bool = False) -> tuple[Column, ...]:
    """Return the properties of an object, and those that only `older` versions have, the newest first, at any depth.

    With `logical`, properties have the type that Connect means by them. `ConfigurationError` names a property that has
    no single type.
    """
    columns: dict[str, Column] = {}
    for version in (text, *older):
        # a field in another case fills the newer one's column
        newer_names = {name.casefold(): name for name in columns}
        schema = _parse_schema(version)
        properties = _find_properties(schema)
        if not properties and version is text:
            raise ConfigurationError("the JSON Schema has no properties; declare the columns in the pipeline file")
        for name, node in properties.items():
            place = _Node(node, schema, (name,), is_logical=logical)
            newer_name = newer_names.get(name.casefold())
            if newer_name is None:
                columns[name] = Column(name, _to_type(place))
                continue
            with suppress(ConfigurationError):  # of an older version whose type is open only the newer one counts
                newer_type = parse_type(columns[newer_name].type)
                joined_type = _restore_dropped_fields(newer_type, parse_type(_to_type(place)))
                columns[newer_name] = Column(newer_name, format_type(joined_type))
    return tuple(columns.values())


def _restore_dropped_fields(newest: DataType, older: DataType) -> DataType:
    match newest, older:
        case Struct(fields), Struct(older_fields):
            older_types = {name.casefold(): kind for name, kind in older_fields}
            own_fields = [
                (name, _restore_dropped_fields(kind, older_types.pop(name.casefold(), kind))) for name, kind in fields
            ]
            dropped_fields = [field for field in older_fields if field[0].casefold() in older_types]
            return Struct((*own_fields, *dropped_fields))
        case Array(element), Array(older_element):
            return Array(_restore_dropped_fields(element, older_element))
        case Map(key, value), Map(_, older_value):
            return Map(key, _restore_dropped_fields(value, older_value))
    return newest


def describe_logical_types(text: str) -> dict[str, dict[str, Any]]:
    """Return the properties with Connect's logical types: their name and parameters, and those of their parts."""
    schema = _parse_schema(text)
    kinds_by_name = (
        (name, _describe_kinds(_Node(node, schema, (name,)))) for name, node in _find_properties(schema).items()
    )
    return {name: kinds for name, kinds in kinds_by_name if kinds}


def _parse_schema(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigurationError(
            "the JSON Schema cannot be read as JSON; correct it, or declare the columns in the pipeline file"
        ) from None


def _find_properties(schema: Any) -> dict[str, Any]:
    try:
        node = _Node(schema, schema, ()).drop_null().node
    except ConfigurationError:
        return {}
    properties = node.get("properties") if isinstance(node, dict) else None
    return properties if isinstance(properties, dict) else {}


def _describe_kinds(schema: "_Node") -> dict[str, Any]:
    try:
        place = schema.drop_null()
    except ConfigurationError:  # it holds itself, or nobody knows what: its columns are declared, or refused
        return {}
    node = place.node if isinstance(place.node, dict) else {}
    parts: dict[str, Any] = {}
    for word, inside, step in (("items", "items", "[]"), ("values", "additionalProperties", "{}")):
        if isinstance(node.get(inside), dict):
            parts[word] = _describe_kinds(place.go_below(node[inside], step))
    properties = node.get("properties")
    inner = properties.items() if isinstance(properties, dict) else ()
    fields = {name: _describe_kinds(place.go_below(inner_node, name)) for name, inner_node in inner}
    parts["fields"] = [{"field": name, **kinds} for name, kinds in fields.items() if kinds]
    return {
        **(_find_logical_kind(node) or {}),
        **{word: part_kinds for word, part_kinds in parts.items() if part_kinds},
    }


def _find_logical_kind(node: Any) -> dict[str, Any] | None:
    # other types may have any title
    if not isinstance(node, dict) or "connect.type" not in node or node.get("title") not in (*LOGICAL, DECIMAL):
        return None
    parameters = node.get("connect.parameters") or {}
    return {"name": node["title"], "parameters": {name: str(value) for name, value in parameters.items()}}


class _Node(NamedTuple):
    """A schema inside another, and the way to it: of names for people, and of references that were followed."""

    node: Any
    root: Any
    path: tuple[str, ...]
    references: tuple[str, ...] = ()
    is_logical: bool = False

    def go_below(self, node: Any, *path: str) -> "_Node":
        return self._replace(node=node, path=(*self.path, *path))

    def resolve(self) -> "_Node":
        if not isinstance(self.node, dict) or "$ref" not in self.node:
            return self
        reference = str(self.node["$ref"])
        if reference in self.references or not reference.startswith("#/"):
            raise self.build_open_type_error()
        node = self.root
        for word in reference.removeprefix("#/").split("/"):
            name = unquote(word).replace("~1", "/").replace("~0", "~")
            node = node.get(name) if isinstance(node, dict) else None
        return self._replace(node=node, references=(*self.references, reference)).resolve()

    def drop_null(self) -> "_Node":
        """Return what the value is if not null: the other one of a choice with null, or the one that stands alone."""
        place = self.resolve()
        node = place.node if isinstance(place.node, dict) else {}
        branches = [place.go_below(branch).resolve() for word in ("oneOf", "anyOf") for branch in node.get(word, ())]
        alone = node.get("allOf", ())
        if len(alone) == 1 and not branches and not node.keys() & {"type", "properties"}:
            return place.go_below(alone[0]).drop_null()
        real = [
            branch for branch in branches if not (isinstance(branch.node, dict) and branch.node.get("type") == "null")
        ]
        return real[0].drop_null() if branches and len(real) == 1 else place

    def build_open_type_error(self) -> ConfigurationError:
        name = ".".join(self.path).replace(".[]", "[]").replace(".{}", "{}")
        return ConfigurationError(
            f"the JSON Schema leaves the type of {name} open; declare the columns in the pipeline file"
        )


def _to_type(schema_node: _Node) -> str:
    place = schema_node.drop_null()
    node = place.node
    if not isinstance(node, dict):  # true and false are schemas too: of anything, and of nothing
        raise place.build_open_type_error()
    if place.is_logical and (logical_type := _find_logical_type(place)):
        return logical_type
    choices = node.get("enum") or (0,)
    is_text = isinstance(choices, list) and all(choice is None or isinstance(choice, str) for choice in choices)
    words = node.get("type", "string" if is_text else None)
    kinds = [word for word in (words if isinstance(words, list) else [words]) if word != "null"]
    kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None
    if kind in SIMPLE_TYPES:
        return SIMPLE_TYPES[kind]
    if kind == "string":
        return TEXT_FORMATS.get(node.get("format", ""), "STRING")
    return _list_parts(kind, place)


def _find_logical_type(place: _Node) -> str | None:
    kind = _find_logical_kind(place.node)
    if kind is None:
        return "BINARY" if place.node.get("connect.type") == "bytes" and place.node.get("type") == "string" else None
    is_read = len(place.path) == 1 or place.path[1:] == ("[]",)
    if kind["name"] != DECIMAL:
        return LOGICAL[kind["name"]] if is_read else None
    if not is_read:  # its bytes are no number, and nobody would read them there
        raise place.build_open_type_error()
    try:
        precision = min(int(kind["parameters"].get("connect.decimal.precision", MAX_PRECISION)), MAX_PRECISION)
        scale = int(kind["parameters"].get("scale", 0))
    except ValueError:
        raise place.build_open_type_error() from None
    if not 0 <= scale <= precision or precision < 1:  # Connect has such; no table does
        raise place.build_open_type_error()
    return f"DECIMAL({precision},{scale})"


def _list_parts(kind: str | None, place: _Node) -> str:
    node = place.node
    if kind == "array" and "items" in node and "prefixItems" not in node and not isinstance(node["items"], list):
        return f"ARRAY<{_to_type(place.go_below(node['items'], '[]'))}>"
    if kind == "object" and node.get("properties"):
        fields = (
            f"{quote(name)}: {_to_type(place.go_below(inner, name))}" for name, inner in node["properties"].items()
        )
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"MAP<STRING, {_to_type(place.go_below(node['additionalProperties'], '{}'))}>"
    raise place.build_open_type_error()
