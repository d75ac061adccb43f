"""What an Avro decoder is told: the writer's schemas by id, the reader's, and which writers must not be read by it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.schema.avro import (
    BARE,
    END,
    END_BYTES,
    KINDS,
    TIMES,
    branches,
    decimal_of,
    is_record,
    kind,
    named_types,
    resolved,
    spark_type,
    type_name,
)
from tidegate.schema.avro_versions import with_dropped_fields, written_type

# Spark would cut these, or give them a type that no table holds: it is told of the bare number instead
OURS = {*TIMES, "timestamp-nanos", "local-timestamp-nanos", "duration"}


@dataclass(frozen=True)
class AvroDecoding:
    """`reader` and `writers` are JSON texts; `writers` is empty for a fixed schema: bytes without an id.

    `refused` says of a schema id why its records cannot be read without changing what they mean.
    """

    reader: str
    writers: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def decoding(latest: Any, writers: dict[int, Any]) -> AvroDecoding:
    """How records of these writers, the newest last, are read as `latest` with the fields that it dropped.

    ConfigurationError names a type that no table holds.
    """
    reader = with_dropped_fields(latest, reversed(writers.values()))
    spark_type(reader, {})
    refused = {str(number): reason for number, writer in writers.items() if (reason := meaning_lost(writer, reader))}
    texts = {str(n): json.dumps(plain(w)) for n, w in writers.items() if str(n) not in refused}
    return AvroDecoding(json.dumps(reader), texts, refused)


def plain(node: Any) -> Any:
    """A schema without the logical types that the product converts itself."""
    if isinstance(node, list):
        return [plain(branch) for branch in node]
    if not isinstance(node, dict):
        return node
    kept = {k: plain(v) if k in ("type", "items", "values") else v for k, v in node.items()}
    if kept.get("logicalType") in OURS:
        del kept["logicalType"]
    decimal = decimal_of(kept)
    if decimal:
        kept["precision"] = decimal[0]
    if "fields" in kept:
        kept["fields"] = [{**f, "type": plain(f["type"])} for f in kept["fields"]]
    return kept


def with_end(schema: Any) -> Any:
    """A schema with one more field behind it, so that its last byte can be found; a bare value becomes a record."""
    end = {"name": END, "type": {"type": "fixed", "name": f"{END}_bytes", "size": len(END_BYTES) // 2}}
    if is_record(schema):
        return {**schema, "fields": [*schema["fields"], end]}
    return {"type": "record", "name": f"{BARE}_record", "fields": [{"name": BARE, "type": schema}, end]}


def meaning_lost(writer: Any, reader: Any) -> str:
    """Why reading with another schema would silently change values: Avro resolves numbers, not what they count."""
    written, read = named_types(writer), named_types(reader)

    def lost(theirs: Any, ours: Any, path: str) -> str:
        ours, theirs = _only(resolved(ours, read), read), _only(resolved(theirs, written), written)
        return "" if ours is None or theirs is None else _lost(theirs, ours, path, lost)

    return lost(writer, reader, "")


def _lost(theirs: Any, ours: Any, path: str, below: Callable[[Any, Any, str], str]) -> str:
    if is_record(ours) and is_record(theirs):
        fields = {f["name"]: f["type"] for f in theirs["fields"]}
        found = ((written_type(f, fields), f["type"], f"{path}.{f['name']}") for f in ours["fields"])
        pairs = [pair for pair in found if pair[0] is not None]
    elif type_name(ours) == type_name(theirs) and type_name(ours) in ("array", "map"):
        part = "items" if type_name(ours) == "array" else "values"
        pairs = [(theirs[part], ours[part], path)]
    else:
        before, after = _meaning(theirs), _meaning(ours)
        return "" if before == after else f"field {path.removeprefix('.')} was {before} and is {after}"
    return next((reason for pair in pairs if (reason := below(*pair))), "")


def _only(node: Any, names: dict[str, Any]) -> Any:
    found = branches(node)
    return resolved(found[0], names) if len(found) == 1 else None


def _meaning(node: Any) -> str:
    decimal = decimal_of(node)
    if decimal:
        return f"a decimal of scale {decimal[1]}"
    return kind(node) if kind(node) in KINDS else "a plain value"
