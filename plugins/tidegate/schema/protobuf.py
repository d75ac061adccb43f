"""What a Protobuf message looks like as columns, and whether one version of it can be read as another.

A shape is plain data, so that it travels with a job: `{"kind": word}` for a leaf; `{"kind": "message", "fields": […]}`
with name, number and shape of each field; lists have an `element`, maps a `key` and a `value`, wrappers a `value`.
"""

from collections.abc import Collection, Sequence
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.sql.spark import quote

Shape = dict[str, Any]
LEAF_TYPES = {
    "double": "DOUBLE", "float": "FLOAT", "bool": "BOOLEAN", "string": "STRING", "bytes": "BINARY", "enum": "STRING",
    "int32": "INT", "sint32": "INT", "sfixed32": "INT", "int64": "BIGINT", "sint64": "BIGINT", "sfixed64": "BIGINT",
    "uint32": "BIGINT", "fixed32": "BIGINT", "uint64": "DECIMAL(20,0)", "fixed64": "DECIMAL(20,0)",
    "timestamp": "TIMESTAMP", "duration": "BIGINT", "json": "STRING", "empty": "BOOLEAN",
}  # fmt: skip
INTEGER_RANKS = {"INT": 0, "BIGINT": 1, "DECIMAL(20,0)": 2}


def make_truncated_shape(shape: Shape) -> Shape:
    truncated_shape: dict[str, Any] = {
        word: make_truncated_shape(shape[word]) for word in ("element", "value") if word in shape
    }
    if "fields" in shape:
        truncated_shape["fields"] = [
            {**field, "shape": make_truncated_shape(field["shape"])} for field in shape["fields"]
        ]
    return {**shape, **truncated_shape, **({"truncated": True} if shape["kind"] in ("timestamp", "duration") else {})}


def to_column_type(shape: Shape) -> str:
    """Return the Spark type that holds values of this shape.

    `ConfigurationError` names a message that no table holds.
    """
    match shape["kind"]:
        case "recursive":
            raise _build_unheld_error(shape["name"], "holds itself")
        case "message" if not shape["fields"]:
            raise _build_unheld_error(shape["name"], "has no fields")
        case "message":
            fields = (f"{quote(field['name'])}: {to_column_type(field['shape'])}" for field in shape["fields"])
            return f"STRUCT<{', '.join(fields)}>"
        case "list":
            return f"ARRAY<{to_column_type(shape['element'])}>"
        case "map":
            return f"MAP<{to_column_type(shape['key'])}, {to_column_type(shape['value'])}>"
        case "wrapper":
            return to_column_type(shape["value"])
        case leaf:
            return LEAF_TYPES[leaf]


def _build_unheld_error(message: str, fault: str) -> ConfigurationError:
    return ConfigurationError(
        f"Protobuf message={message} {fault}, and no table has such a column; leave it out in value.schema"
    )


def drop_unheld_fields(shape: Shape, kept: Collection[str]) -> Shape:
    """Drop fields that no table can hold, except those `kept`."""
    return {**shape, "fields": [f for f in shape["fields"] if f["name"] in kept or _is_held(f["shape"])]}


def _is_held(shape: Shape) -> bool:
    try:
        to_column_type(shape)
    except ConfigurationError:
        return False
    return True


def restore_dropped_fields(newest: Shape, older: Shape) -> Shape:
    """Add to `newest` each field, by its number, that only an older version has.

    A dropped field whose name is taken is left to `find_incompatibility`.
    """
    match newest["kind"], older["kind"]:
        case "message", "message":
            older_shapes = {field["number"]: field["shape"] for field in older["fields"]}
            own_fields = [
                {**f, "shape": restore_dropped_fields(f["shape"], older_shapes.get(f["number"], f["shape"]))}
                for f in newest["fields"]
            ]
            numbers = {f["number"] for f in own_fields}
            words = {f["name"].casefold() for f in own_fields}
            more = [f for f in older["fields"] if f["number"] not in numbers and f["name"].casefold() not in words]
            return {**newest, "fields": [*own_fields, *more]}
        case "list", "list":
            return {**newest, "element": restore_dropped_fields(newest["element"], older["element"])}
        case "map", "map":
            return {**newest, "value": restore_dropped_fields(newest["value"], older["value"])}
    return newest


def find_incompatibility(written_shape: Shape, read: Shape, path: str = "", kept: Collection[str] | None = None) -> str:
    """Return why values of one shape cannot be read as another without changing what they mean; else empty.

    Fields are matched by number. How a number is encoded is free: each record is decoded with its own schema. Of a
    message only the fields that are `kept` count, or all.
    """
    if written_shape["kind"] == read["kind"] == "message":
        written_fields = {field["number"]: field["shape"] for field in written_shape["fields"]}
        kept_fields = [f for f in read["fields"] if kept is None or f["name"] in kept]
        pairs = [
            (written_fields[f["number"]], f["shape"], f"{path}.{f['name']}")
            for f in kept_fields
            if f["number"] in written_fields
        ]
        numbers = {f["number"] for f in read["fields"]}
        names = {f["name"].casefold() for f in kept_fields}
        for field in written_shape["fields"]:
            if field["number"] not in numbers and field["name"].casefold() in names:
                return f"field {path}.{field['name']} had number={field['number']} and has another".replace(" .", " ")
        return next((reason for pair in pairs if (reason := find_incompatibility(*pair))), "")
    if written_shape["kind"] == read["kind"] == "list":
        return find_incompatibility(written_shape["element"], read["element"], path)
    if written_shape["kind"] == read["kind"] == "map":
        return find_incompatibility(written_shape["key"], read["key"], path) or find_incompatibility(
            written_shape["value"], read["value"], path
        )
    if _fits_type(written_shape, read):
        return ""
    return f"field {path.removeprefix('.')} was {_describe_shape(written_shape)} and is {_describe_shape(read)}"


def find_missing_field(written_shape: Shape, read: Shape, names: Sequence[str]) -> str:
    """Return the key field of `names` that the writer's message lacks; empty if it lacks none."""
    numbers = {field["number"] for field in written_shape["fields"]}
    missing = (f["name"] for f in read["fields"] if f["name"] in names and f["number"] not in numbers)
    name = next(missing, None)
    return f"message has no field {name} of key.fields" if name else ""


def _fits_type(written_shape: Shape, read: Shape) -> bool:
    meaning = {written_shape["kind"], read["kind"]}
    if "fields" in written_shape or "fields" in read or meaning & {"list", "map", "recursive"}:
        return False
    if len(meaning) > 1 and meaning & {"timestamp", "duration", "json", "empty"}:
        return False  # a number of microseconds is no plain number
    before = to_column_type(written_shape)
    after = to_column_type(read)
    wider = before in INTEGER_RANKS and after in INTEGER_RANKS and INTEGER_RANKS[before] <= INTEGER_RANKS[after]
    return before == after or wider or (before, after) == ("FLOAT", "DOUBLE")


def _describe_shape(shape: Shape) -> str:
    return f"a {shape['value']['kind']} that may be missing" if shape["kind"] == "wrapper" else f"a {shape['kind']}"
