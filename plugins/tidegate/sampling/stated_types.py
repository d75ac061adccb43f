"""Column types that the source states: in Kafka Connect's schema beside a payload, or as MySQL's types."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tidegate.sampling.column_types import Guess
from tidegate.sampling.recognition import Row
from tidegate.schema.data_types import MAX_PRECISION, Array, DataType, Map, Primitive, Struct
from tidegate.schema.json_schema import CONNECT, DEBEZIUM, DECIMAL

_SIMPLE = {
    "int8": "INT", "int16": "INT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "float32": "FLOAT",
    "float64": "DOUBLE", "double": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING", "bytes": "BINARY",
}  # fmt: skip
_LOGICAL = {
    f"{CONNECT}Date": "DATE", f"{DEBEZIUM}Date": "DATE", f"{DEBEZIUM}IsoDate": "DATE",
    f"{CONNECT}Timestamp": "TIMESTAMP_NTZ", f"{DEBEZIUM}Timestamp": "TIMESTAMP_NTZ",
    f"{DEBEZIUM}MicroTimestamp": "TIMESTAMP_NTZ", f"{DEBEZIUM}NanoTimestamp": "TIMESTAMP_NTZ",
    f"{DEBEZIUM}IsoTimestamp": "TIMESTAMP_NTZ", f"{DEBEZIUM}ZonedTimestamp": "TIMESTAMP",
}  # fmt: skip
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_REMARKS = {
    f"{DEBEZIUM}NanoTimestamp": "nanoseconds; parts of a microsecond are bad without value.nanoseconds: truncate",
    f"{DEBEZIUM}Time": "milliseconds since midnight",
    f"{DEBEZIUM}MicroTime": "microseconds since midnight",
    f"{DEBEZIUM}NanoTime": "nanoseconds since midnight",
    _VARIABLE: "numbers of any scale, as text; a DECIMAL(p,s) that is large enough reads them too",
}
_MYSQL = {
    "tinyint": "INT", "smallint": "INT", "mediumint": "INT", "int": "INT", "integer": "INT", "year": "INT",
    "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "real": "DOUBLE", "date": "DATE",
    "datetime": "TIMESTAMP_NTZ", "timestamp": "TIMESTAMP_NTZ", "blob": "BINARY", "tinyblob": "BINARY",
    "mediumblob": "BINARY", "longblob": "BINARY", "binary": "BINARY", "varbinary": "BINARY",
}  # fmt: skip
_UNSIGNED = {"int": "BIGINT", "integer": "BIGINT", "bigint": "DECIMAL(20,0)"}
_MYSQL_PATTERN = re.compile(r"\s*(\w+)(?:\((\d+)(?:\s*,\s*(\d+))?\))?\s*(unsigned)?", re.IGNORECASE)


def read_stated_columns(rows: Sequence[Row]) -> dict[str, Guess]:
    """From the envelope's schema, or a field of the message; the newest first."""
    stated: dict[str, Guess] = {}
    for row in sorted(rows, key=lambda row: row.record.timestamp_ms, reverse=True):
        layout = row.look.event.event if row.look.event else None
        if row.look.schema:
            guesses = _read_connect_columns(row.look.schema, *(layout.rows[:1] if layout else ()))
        else:
            words = row.look.data.get(layout.column_types) if layout and layout.column_types else None
            guesses = {str(n): read_mysql_type(str(t)) for n, t in words.items()} if isinstance(words, dict) else {}
        for name, guess in guesses.items():
            known = stated.setdefault(name, guess)
            if known.type != guess.type and not known.checks:
                stated[name] = replace(known, checks=("older records state another type; those may be bad",))
    return stated


def _read_connect_columns(schema: Any, *path: str) -> dict[str, Guess]:
    """The columns of Kafka Connect's struct, or of the struct at `path` in it; empty without one."""
    for name in path:
        fields = schema.get("fields") if isinstance(schema, dict) else None
        schema = next((field for field in fields or () if isinstance(field, dict) and field.get("field") == name), None)
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        return {}
    return {str(field["field"]): read_connect_type(field) for field in schema["fields"] if isinstance(field, dict)}


def read_connect_type(node: dict[str, Any]) -> Guess:
    """Of one field, or of a bare value."""
    name = str(node.get("name") or "")
    remarks = (f"{name.rpartition('.')[2]} in the schema beside it", *((_REMARKS[name],) if name in _REMARKS else ()))
    checks = (_REMARKS[name],) if name in (_VARIABLE, f"{DEBEZIUM}NanoTimestamp") else ()
    return Guess(_to_type(node), remarks if name and not checks else ("from the schema beside it",), checks)


def _to_type(node: dict[str, Any]) -> DataType:
    name = str(node.get("name") or "")
    word = node.get("type")
    if name == DECIMAL:
        return _to_decimal(node.get("parameters") or {})
    if name in _LOGICAL or name == _VARIABLE:
        return Primitive(_LOGICAL.get(name, "STRING"))
    parts = {word: node.get(word) for word in ("items", "values", "fields")}
    if word == "array" and isinstance(parts["items"], dict):
        return Array(_to_type(parts["items"]))
    keys = node.get("keys") or {}
    if word == "map" and isinstance(parts["values"], dict) and keys.get("type", "string") == "string":
        return Map(Primitive("STRING"), _to_type(parts["values"]))  # else it is a list of keys and values
    if word == "struct" and parts["fields"]:
        return Struct(tuple((str(field["field"]), _to_type(field)) for field in parts["fields"]))
    return Primitive(_SIMPLE.get(str(word), "STRING"))


def _to_decimal(parameters: dict[str, Any]) -> DataType:
    try:
        scale = int(parameters.get("scale", 0))
        precision = min(MAX_PRECISION, int(parameters.get("connect.decimal.precision", MAX_PRECISION)))
    except (TypeError, ValueError):
        return Primitive("STRING")
    return Primitive(f"DECIMAL({precision},{scale})" if 0 <= scale <= precision else "STRING")


def read_mysql_type(text: str) -> Guess:
    """STRING for texts, and for types without a counterpart."""
    match = _MYSQL_PATTERN.match(text)
    word = match[1].lower() if match else ""
    remark = (f"{text} in the source",)
    if match and word in ("decimal", "numeric"):
        precision = int(match[2] or 10)
        scale = int(match[3] or 0)
        fits = precision <= MAX_PRECISION
        return Guess(Primitive(f"DECIMAL({precision},{scale})" if fits else "STRING"), remark)
    if match and match[4] and word in _UNSIGNED:
        return Guess(Primitive(_UNSIGNED[word]), remark)
    return Guess(Primitive(_MYSQL.get(word, "STRING")), remark)
