"""What an Avro decoder is told: the writer's schemas by id, the reader's, and which writers must not be read by it."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.schema.avro import (
    BARE_FIELD,
    END_BYTES,
    END_FIELD,
    LONG_PRECISION,
    TIME_TYPES,
    change_inner_types,
    collect_named_types,
    get_cut_decimal,
    get_decimal,
    get_logical_type,
    get_type_name,
    is_record,
    list_branches,
    qualify_names,
    resolve_name,
    to_columns,
    to_spark_type,
)
from tidegate.schema.avro_versions import (
    PROMOTIONS,
    find_respelled_field,
    find_written_type,
    keep_fields,
    pair_branches,
    restore_dropped_fields,
)

# Spark would cut these, or give them a type that no table holds: it is told of the bare number instead
CONVERTED_LOGICAL_TYPES = {*TIME_TYPES, "date", "timestamp-nanos", "local-timestamp-nanos"}
# Avro reads these numbers as others that do not hold all of them: it rounds them
ROUNDED_PROMOTIONS = {"long": {"float", "double"}, "int": {"float"}}
# an int is decoded as a long, and held to its column behind that
READABLE_TYPES = {**PROMOTIONS, "long": ("int", *PROMOTIONS["long"])}


@dataclass(frozen=True)
class AvroDecoding:
    """`reader` and `writers` are JSON texts; `writers` is empty for a fixed schema: bytes without an id."""

    reader: str
    writers: dict[str, str] = field(default_factory=dict)
    # for a schema id, why its records cannot be read without changing what they mean
    refused: dict[str, str] = field(default_factory=dict)
    written: str = ""  # the fixed schema if the reader lacks fields of it, else empty
    # for a schema id, the field whose type Avro does not read as the newer one: of its records all but those with null
    changed: dict[str, str] = field(default_factory=dict)


def plan_decoding(
    latest: Any,
    writers: dict[int, Any],
    key_fields: Sequence[str] = (),
    kept: Collection[str] | None = None,
    find_row: Callable[[Any], Any] = lambda schema: schema,
) -> AvroDecoding:
    """Plan how records of these writers, the newest last, are read as `latest` with the fields that it dropped.

    A writer that lacks one of the `key_fields` is refused: all of its records would have one key. `ConfigurationError`
    for a type that no table holds. With `kept`, only these fields are read of the row, which `find_row` finds.
    """
    latest = qualify_names(latest)
    writers = {number: qualify_names(writer) for number, writer in writers.items()}
    whole = restore_dropped_fields(latest, reversed(writers.values()))
    reader = whole if kept is None else keep_fields(whole, kept, find_row)
    if is_record(reader):
        to_columns(reader)
    else:
        to_spark_type(reader, {})
    reasons = {
        str(number): find_lost_meaning(writer, reader)
        or find_respelled_field(_find_row_of(writer, find_row), _find_row_of(reader, find_row))
        or find_missing_key_field(writer, reader, key_fields)
        for number, writer in writers.items()
    }
    refused_versions = {number: reason for number, reason in reasons.items() if reason}
    texts = {str(n): json.dumps(simplify_types(w)) for n, w in writers.items() if str(n) not in refused_versions}
    written = "" if writers or reader is whole else json.dumps(whole)
    changes = {number: find_changed_type(writers[int(number)], reader) for number in texts}
    changed = {number: reason for number, reason in changes.items() if reason}
    return AvroDecoding(
        reader=json.dumps(reader), writers=texts, refused=refused_versions, written=written, changed=changed
    )


def _find_row_of(schema: Any, find_row: Callable[[Any], Any]) -> Any:
    try:
        return find_row(schema)
    except ConfigurationError:  # an older version need not be a change event
        return schema


def find_missing_key_field(writer: Any, reader: Any, names: Sequence[str]) -> str:
    """Return the key field that the writer's record lacks; empty if it lacks none, or is a bare value."""
    if not is_record(reader) or not is_record(writer):
        return ""
    written_types = {field["name"]: field["type"] for field in writer["fields"]}
    fields = {field["name"]: field for field in reader["fields"]}
    missing = (name for name in names if name in fields and find_written_type(fields[name], written_types) is None)
    name = next(missing, None)
    return f"record has no field {name} of key.fields" if name else ""


def simplify_types(node: Any) -> Any:
    """Return a schema as Spark reads it: without logical types that the product converts itself, each int a long."""
    # both have equal bytes, and Avro would cut a number of more than 32 bits where it reads an int
    if isinstance(node, list):
        holds_both = {"int", "long"} <= {get_type_name(branch) for branch in node}
        return [b if holds_both and get_type_name(b) == "int" else simplify_types(b) for b in node]
    if not isinstance(node, dict):
        return "long" if node == "int" else node
    schema = change_inner_types(node, simplify_types)
    decimal = get_decimal(node)
    meaning = "decimal" if decimal else get_logical_type(node)
    if meaning != schema.get("logicalType") or meaning in CONVERTED_LOGICAL_TYPES:
        schema.pop("logicalType", None)
    if decimal:
        # Spark would cut a decimal of more than 64 bits whose precision is that of a long
        schema["precision"] = LONG_PRECISION + 1 if get_cut_decimal(node) else decimal[0]
    return schema


def append_end_field(schema: Any) -> Any:
    """Append a field, so that the last byte can be found; a bare value becomes a record."""
    end = {"name": END_FIELD, "type": {"type": "fixed", "name": f"{END_FIELD}_bytes", "size": len(END_BYTES) // 2}}
    if is_record(schema):
        return {**schema, "fields": [*schema["fields"], end]}
    return {"type": "record", "name": f"{BARE_FIELD}_record", "fields": [{"name": BARE_FIELD, "type": schema}, end]}


def find_lost_meaning(writer: Any, reader: Any) -> str:
    """Return why reading with another schema would silently change values: Avro resolves numbers, not their units."""
    return _find_in_leaves(writer, reader, _find_lost_meaning_in_leaf)


def find_changed_type(writer: Any, reader: Any) -> str:
    """Return which field has a type that Avro does not read as the reader's."""
    return _find_in_leaves(writer, reader, _find_changed_type_in_leaf)


def _find_in_leaves(writer: Any, reader: Any, find_in_leaf: Callable[[Any, Any, str], str]) -> str:
    written = collect_named_types(writer)
    read = collect_named_types(reader)

    def compare(old_type: Any, new_type: Any, path: str) -> str:
        pairs = pair_branches(_resolve_branches(old_type, written), _resolve_branches(new_type, read))
        return next((reason for old, new in pairs if (reason := compare_branch(old, new, path))), "")

    def compare_branch(old: Any, new: Any, path: str) -> str:
        parts = _list_common_parts(old, new, path)
        if parts is None:
            return find_in_leaf(old, new, path)
        return next((reason for part in parts if (reason := compare(*part))), "")

    return compare(writer, reader, "")


def _list_common_parts(writer: Any, reader: Any, path: str) -> list[tuple[Any, Any, str]] | None:
    kind = get_type_name(reader)
    if is_record(reader) and is_record(writer):
        fields = {f["name"]: f["type"] for f in writer["fields"]}
        parts = ((find_written_type(f, fields), f["type"], f"{path}.{f['name']}") for f in reader["fields"])
        return [part for part in parts if part[0] is not None]
    if kind == get_type_name(writer) and kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return [(writer[inner], reader[inner], path)]
    return None


def _find_lost_meaning_in_leaf(writer: Any, reader: Any, path: str) -> str:
    before = _get_meaning(writer)
    after = _get_meaning(reader)
    if before == after and get_type_name(reader) in ROUNDED_PROMOTIONS.get(get_type_name(writer), {}):
        return _describe_change(get_type_name(writer), get_type_name(reader), path)
    return "" if before == after else f"field {path.removeprefix('.')} was {before} and is {after}"


def _find_changed_type_in_leaf(writer: Any, reader: Any, path: str) -> str:
    before = get_type_name(writer)
    after = get_type_name(reader)
    return "" if after in (before, *READABLE_TYPES.get(before, ())) else _describe_change(before, after, path)


def _describe_change(before: str, after: str, path: str) -> str:
    words = [f"{'an' if word[0] in 'aeiou' else 'a'} {word}" for word in (before, after)]
    return f"field {path.removeprefix('.')} was {words[0]} and is {words[1]}"


def _resolve_branches(node: Any, names: dict[str, Any]) -> list[Any]:
    return [resolve_name(branch, names) for branch in list_branches(resolve_name(node, names))]


def _get_meaning(node: Any) -> str:
    decimal = get_decimal(node)
    if decimal:
        return f"a decimal of scale {decimal[1]}"
    return get_logical_type(node) or "a plain value"
