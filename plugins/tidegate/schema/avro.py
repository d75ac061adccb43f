"""An Avro schema as columns: which type arrives for which, and what a decoder is given.

A schema is the decoded JSON; `Names` holds the named types met so far, by full name.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import MAX_PRECISION, Column
from tidegate.sql.spark import quote

Names = dict[str, Any]
SIMPLE_TYPES = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "fixed": "BINARY", "string": "STRING", "enum": "STRING",
}  # fmt: skip
NAMED_TYPES = ("record", "enum", "fixed", "error")
# a number of these kinds becomes the column's type by our own arithmetic, because Spark would leave or cut it
TIME_TYPES = {"time-millis": "STRING", "time-micros": "STRING", "time-nanos": "STRING"}
ZONED_TIME = "zoned-timestamp"  # a text of Debezium's
LOGICAL_TYPES = {
    "date": "DATE", "timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP", "timestamp-nanos": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ", "local-timestamp-micros": "TIMESTAMP_NTZ",
    "local-timestamp-nanos": "TIMESTAMP_NTZ", ZONED_TIME: "TIMESTAMP", **TIME_TYPES,
}  # fmt: skip
# on any other type Avro's specification has a logical type ignored
BASE_TYPES = {**dict.fromkeys(LOGICAL_TYPES, "long"), "date": "int", "time-millis": "int", ZONED_TIME: "string"}
# what Kafka Connect and Debezium call the same things, by the schema's name
CONNECT_LOGICAL_TYPES = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.NanoTime": "time-nanos",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
    "io.debezium.time.ZonedTimestamp": ZONED_TIME,
}
# A record is decoded with these bytes behind it, as one more field; a value that is no record becomes a field too.
END_FIELD = "_tidegate_end"
END_BYTES = "b1f0c39a5e7d4862a90e6f1d3c5b7a28"
BARE_FIELD = "_tidegate_value"
LONG_PRECISION = 18  # up to here Spark makes a decimal of the lowest 64 bits of its bytes, whatever stands before them
LONG_BYTES = 8
VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"  # a record of scale and unscaled bytes


def parse_schema(text: str) -> Any:
    """Parse JSON text; a bare name such as ``string`` is a schema too."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()
    except RecursionError:
        raise ConfigurationError("an Avro schema nests too deeply to be read; write it flatter") from None


def to_columns(schema: Any) -> tuple[Column, ...]:
    """Return the columns of a record schema. `ConfigurationError` names a type that has no counterpart."""
    if not is_record(schema):
        raise ConfigurationError(f"an Avro schema of type={get_type_name(schema)} is no record; give one with fields")
    names: Names = {}
    schema = qualify_names(schema)
    _register_types(schema, names, "")
    return tuple(
        Column(field["name"], to_spark_type(field["type"], names, (get_full_name(schema),)))
        for field in schema["fields"]
    )


def to_spark_type(node: Any, names: Names, inside: tuple[str, ...] = ()) -> str:
    node = resolve_name(node, names)
    branch = list_branches(node)
    if len(branch) > 1:
        types = [to_spark_type(b, names, inside) for b in branch]
        merged_type = merge_number_types([resolve_name(b, names) for b in branch])
        return merged_type or f"STRUCT<{', '.join(f'`member{n}`: {t}' for n, t in enumerate(types))}>"
    if not branch:
        raise ConfigurationError("an Avro schema has a union of nothing, or of null alone; give it a type")
    node = resolve_name(branch[0], names)
    word = get_type_name(node)
    if word == "array":
        return f"ARRAY<{to_spark_type(node['items'], names, inside)}>"
    if word == "map":
        return f"MAP<STRING, {to_spark_type(node['values'], names, inside)}>"
    if word in ("record", "error"):
        name = get_full_name(node)
        if name in inside or not node["fields"]:
            fault = "holds itself" if name in inside else "has no fields"
            raise ConfigurationError(
                f"Avro record={name} {fault}, and no table has such a column; leave it out in value.schema"
            )
        _register_types(node, names, "")
        inner = (f"{quote(f['name'])}: {to_spark_type(f['type'], names, (*inside, name))}" for f in node["fields"])
        return f"STRUCT<{', '.join(inner)}>"
    decimal = get_decimal(node)
    if decimal:
        return f"DECIMAL({decimal[0]},{decimal[1]})"
    if word not in SIMPLE_TYPES:
        raise ConfigurationError(f"Avro type={word} is not known; correct the schema")
    if isinstance(node, dict) and word in ("enum", "fixed"):
        _register_types(node, names, "")
    return LOGICAL_TYPES.get(get_logical_type(node), SIMPLE_TYPES[word])


def merge_number_types(nodes: list[Any]) -> str:
    """Return the one type as which Spark reads a union of numbers; empty if each stays a member of its own."""
    words = {get_type_name(node) for node in nodes}
    merged_type = {frozenset({"int", "long"}): "BIGINT", frozenset({"float", "double"}): "DOUBLE"}.get(
        frozenset(words), ""
    )
    if merged_type and any(get_logical_type(node) for node in nodes):
        raise ConfigurationError(
            f"an Avro union of {' and '.join(sorted(words))} with a logical type cannot be distinguished by Spark; "
            "give the union one number"
        )
    return merged_type


def list_branches(node: Any) -> list[Any]:
    return [b for b in node if get_type_name(b) != "null"] if isinstance(node, list) else [node]


def get_type_name(node: Any) -> str:
    """Return ``record``, ``long``, … or the name of a named type."""
    if isinstance(node, list):
        return "union"
    inner = node["type"] if isinstance(node, dict) else node
    if isinstance(inner, str):
        return inner
    if not isinstance(inner, dict | list):
        raise ConfigurationError(f"an Avro schema has {json.dumps(inner)} where a type stands; correct the schema")
    return get_type_name(inner)


def is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("record", "error")


def get_logical_type(node: Any) -> str:
    """Return the key of `LOGICAL_TYPES`, by Avro's name or Kafka Connect's; empty if its base type is another one."""
    if not isinstance(node, dict):
        return ""
    meanings = (CONNECT_LOGICAL_TYPES.get(str(node.get("connect.name", ""))), node.get("logicalType"))
    word = get_type_name(node)
    return next((meaning for meaning in meanings if meaning and BASE_TYPES.get(str(meaning)) == word), "")


def get_decimal(node: Any) -> tuple[int, int] | None:
    """Return precision and scale of a decimal; None for anything else, and for one that Avro ignores."""
    if not isinstance(node, dict) or node.get("logicalType") != "decimal":
        return None
    precision = node.get("precision")
    scale = node.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    # unlimited for bytes, and for a fixed what its bytes hold
    most_digits = math.inf if get_type_name(node) == "bytes" else 0
    if get_type_name(node) == "fixed" and type(node.get("size")) is int:
        most_digits = math.log10(2) * (8 * node["size"] - 1)
    if not 0 <= scale <= precision or not 0 < precision <= most_digits:
        return None
    if scale > MAX_PRECISION:
        raise ConfigurationError(f"Avro decimal precision={precision} scale={scale} is beyond a table's DECIMAL(38)")
    # Kafka Connect's default is 64; a number with more digits than a table holds is a bad record
    return min(precision, MAX_PRECISION), scale


def get_cut_decimal(node: Any) -> tuple[int, int] | None:
    """Return precision and scale of a decimal of which Spark would read only 64 bits."""
    decimal = get_decimal(node)
    may_be_longer = decimal and (get_type_name(node) != "fixed" or int(node["size"]) > LONG_BYTES)
    return decimal if decimal and may_be_longer and decimal[0] <= LONG_PRECISION else None


def is_variable_scale(node: Any, names: Names) -> bool:
    branches = [resolve_name(branch, names) for branch in list_branches(resolve_name(node, names))]
    if len(branches) != 1 or not is_record(branches[0]):
        return False
    return VARIABLE_SCALE in (branches[0].get("connect.name"), get_full_name(branches[0]))


def get_full_name(node: Any) -> str:
    """Return the name of a named type, with its own namespace if it has one."""
    name = str(node.get("name", ""))
    space = node.get("namespace")
    return f"{space}.{name}" if space and "." not in name else name


def resolve_name(node: Any, names: Names) -> Any:
    """Return the definition that a name stands for; anything else as it is. Nested ``{"type": {...}}`` is opened."""
    while isinstance(node, dict) and isinstance(node.get("type"), dict | list):
        node = node["type"]
    if isinstance(node, str) and node in names:
        return names[node]
    if isinstance(node, dict) and node.get("type") in names:
        return names[node["type"]]
    return node


def _register_types(node: Any, names: Names, space: str) -> None:
    if isinstance(node, list):
        for branch in node:
            _register_types(branch, names, space)
    if not isinstance(node, dict):
        return
    if node.get("type") in NAMED_TYPES:
        namespace, short = _split_name(node, space)
        names[f"{namespace}.{short}" if namespace else short] = node
        names.setdefault(short, node)
        for field in node.get("fields", ()):
            _register_types(field["type"], names, namespace)
        return
    for part in ("type", "items", "values"):
        _register_types(node.get(part), names, space)


def _split_name(node: Any, space: str) -> tuple[str, str]:
    stated, _, short = str(node["name"]).rpartition(".")
    return stated or str(node.get("namespace", space)), short


def qualify_names(schema: Any) -> Any:
    """Name each type with its namespace if two types share one name; else return the schema as it is."""
    full_names: set[tuple[str, str]] = set()
    qualified = _qualify(schema, "", full_names)
    return qualified if len({short for _, short in full_names}) < len(full_names) else schema


def _qualify(node: Any, space: str, known_types: set[tuple[str, str]]) -> Any:
    if isinstance(node, str):
        return f"{space}.{node}" if (space, node) in known_types and space else node
    if is_named(node):
        space, short = _split_name(node, space)
        known_types.add((space, short))
        node = {**node, "name": short, "namespace": space}
    return change_inner_types(node, lambda inner: _qualify(inner, space, known_types))


def is_named(node: Any) -> bool:
    """Whether the node defines a type, which others can call by its name."""
    return isinstance(node, dict) and node.get("type") in NAMED_TYPES


def change_inner_types(node: Any, change: Callable[[Any], Any]) -> Any:
    """Return the schema with `change` of each type that it is made of: of branches, items, values and fields."""
    if isinstance(node, list):
        return [change(branch) for branch in node]
    if not isinstance(node, dict):
        return node
    changed_node = {k: change(v) if k in ("type", "items", "values") else v for k, v in node.items()}
    if "fields" in node:
        changed_node["fields"] = [{**field, "type": change(field["type"])} for field in node["fields"]]
    return changed_node


def collect_named_types(schema: Any) -> Names:
    names: Names = {}
    _register_types(schema, names, "")
    return names


def inline_references(node: Any, named_types: Names, defined: set[str] | None = None, space: str = "") -> Any:
    """Insert referenced types where each is first named, in full or within its own namespace.

    `named_types` are by full name; `space` is the namespace around the node.
    """
    defined = set() if defined is None else defined
    if isinstance(node, str):
        name = next((name for name in (f"{space}.{node}", node) if name in named_types), None)
        if name is None or name in defined:
            return node
        defined.add(name)
        return inline_references(named_types[name], named_types, defined)
    if is_named(node):
        defined.add(get_full_name(node))
        space, _ = _split_name(node, space)
    return change_inner_types(node, lambda inner: inline_references(inner, named_types, defined, space))
