"""Proposes the key of a table: from the record's key, or from a change event's note of its source's primary key."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.formats.registry import Encoding
from tidegate.model.counts import format_count
from tidegate.sampling.column_types import Observed, ProposedColumn, propose_columns, render_ddl_type
from tidegate.sampling.encoded_values import parse_json
from tidegate.sampling.recognition import Look, Recognition, Row, find_format
from tidegate.sampling.stated_types import read_connect_type, read_stated_columns

NAMES = ("key", "record_key", "kafka_key")  # of a column for a key that has no name of its own
PREFIX = "key_"
OBJECT_ID_PATTERN = re.compile("[0-9a-fA-F]{24}")
NUMBER_TYPES = {8: "BIGINT", 4: "INT"}  # bytes of Kafka's serializers


@dataclass(frozen=True)
class ProposedKey:
    """How the key is read; no key without `fields`. `columns`: its schema if its types differ from the value's."""

    fields: tuple[str, ...] = ()
    format: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    columns: tuple[ProposedColumn, ...] = ()
    prefix: str = ""
    from_value: bool = False
    remarks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


def propose_named_key(fields: Sequence[str], row: Mapping[str, ProposedColumn], is_in_key: bool) -> ProposedKey:
    """From the record's key if it has these fields, else from the value."""
    missing = [name for name in fields if name not in row]
    checks = (f"--key names {', '.join(missing)}, seen in no row",) if missing and not is_in_key else ()
    return ProposedKey(tuple(fields), from_value=not is_in_key, remarks=("named by --key",), checks=checks)


def propose_event_key(recognised: Recognition | None, rows: Sequence[Row]) -> ProposedKey:
    """For messages with several rows: from what a message says of its key, or from the record's key."""
    look = rows[0].look
    layout = look.event.event if look.event else None
    if layout is None:
        return ProposedKey()
    key_names = next((row.look.data.get(layout.key_names) for row in rows if row.look.data.get(layout.key_names)), None)
    names = {name for row in rows for name in row.data}
    if isinstance(key_names, list) and key_names and set(key_names) <= names:
        return ProposedKey(tuple(map(str, key_names)), remarks=(f"{layout.key_names} of the messages",))
    keys = [look.data for look in recognised.looks if isinstance(look.data, dict)] if recognised else []
    fields = [str(name).removeprefix(layout.key_prefix) for name in keys[0]] if keys else []
    key_fields = tuple(name for name in fields if name in names)
    if key_fields:
        return ProposedKey(key_fields, remarks=("fields of the record's key that the rows have",))
    return ProposedKey(
        checks=("the messages name no primary key: without key.fields each change is appended as a row",)
    )


def propose_record_key(
    recognised: Recognition, rows: Sequence[Row], columns: Mapping[str, ProposedColumn]
) -> ProposedKey:
    """From the records' keys, each an object or one bare value."""
    look = recognised.look
    if isinstance(look.data, dict) and look.encoding in {Encoding.OBJECT, Encoding.PACKED}:
        return _propose_object(recognised, columns)
    if look.encoding is Encoding.BYTES:
        return _propose_bytes(recognised, columns)
    return _propose_bare(recognised, rows, columns)


def _propose_object(recognised: Recognition, columns: Mapping[str, ProposedColumn]) -> ProposedKey:
    record_format = find_format(recognised.look.encoding)
    objects = [look.data for look in recognised.looks if isinstance(look.data, dict)]
    extended = _read_extended_key(objects, columns)
    if extended is not None:
        return extended
    observed = Observed(objects)
    pairs = zip(recognised.records, recognised.looks, strict=True)
    rows = [Row(record, look, look.data) for record, look in pairs if isinstance(look.data, dict)]
    stated = read_stated_columns(rows)
    key_columns, problems = propose_columns(observed, stated, keeps_text=record_format.encoding is Encoding.OBJECT)
    partial = [name for name in observed.fields if observed.count_missing(name)]
    checks = [*problems, *(f"{column.name}: {check}" for column in key_columns for check in column.checks)]
    if partial:
        checks.append(f"not every key has {', '.join(partial)}; a key that lacks a field is bad")
    nested = [c.name for c in key_columns if "ARRAY<" in c.type or "MAP<" in c.type]
    if nested or not key_columns:
        return ProposedKey(checks=(*checks, f"key field {', '.join(nested)} is a list or a map: rows cannot be found"))
    key = ProposedKey(tuple(c.name for c in key_columns), record_format.name, remarks=("fields of the record's key",))
    return _settle_types(replace(key, columns=tuple(key_columns), checks=tuple(checks)), columns)


def _read_extended_key(objects: Sequence[dict[str, Any]], columns: Mapping[str, ProposedColumn]) -> ProposedKey | None:
    # MongoDB's key: one field whose text is extended JSON
    texts = [document["id"] for document in objects if set(document) == {"id"} and isinstance(document["id"], str)]
    if len(texts) < len(objects) or "_id" not in columns or "id" in columns:
        return None
    format_name = find_format(Encoding.OBJECT).name
    kinds = {_find_kind(text) for text in texts}
    if len(kinds) > 1:  # read as values, 1004 and "1004" would be one row, or bad
        remark = f"MongoDB's document keys of several types ({', '.join(sorted(kinds))}), as the texts that they are"
        return ProposedKey(("id",), format_name, columns=(ProposedColumn("id", "STRING"),), remarks=(remark,))
    options = {"json": {"extended": True}}
    return ProposedKey(("_id",), format_name, options, remarks=("MongoDB's document key",))


def _find_kind(text: str) -> str:
    """The type of a key in extended JSON, as far as a column keeps it apart: texts go with ObjectIds."""
    try:
        value = parse_json(text)
    except ValueError:
        return "no JSON"
    word = next(iter(value), "") if isinstance(value, dict) else ""
    if isinstance(value, bool) or value is None:
        return str(value).casefold()
    if isinstance(value, int | float) or word.startswith("$number"):
        return "number"
    if isinstance(value, str):
        return "ObjectId in a text" if OBJECT_ID_PATTERN.fullmatch(value) else "text"
    return "text" if word == "$oid" else word or "document"


def _settle_types(key: ProposedKey, columns: Mapping[str, ProposedColumn]) -> ProposedKey:
    folded = {name.casefold(): name for name in columns}
    # key and value need one type for a column of one name; otherwise the key's columns get a prefix
    shared_columns = [column for column in key.columns if column.name.casefold() in folded]
    for column in shared_columns:
        value_column = columns.get(column.name)
        if value_column is None or not _is_readable(column.type, value_column.type):
            reason = (
                f"{column.type} in the key, {value_column.type} in the value"
                if value_column
                else "another case in the value"
            )
            check = f"{column.name} is {reason}, so the key's columns are called {PREFIX}…"
            return replace(key, prefix=PREFIX, checks=(*key.checks, check))
    if len(shared_columns) == len(key.columns):
        return replace(key, columns=())
    value_types = {c.name: columns[c.name].type for c in shared_columns}
    return replace(key, columns=tuple(replace(c, type=value_types.get(c.name, c.type)) for c in key.columns))


def _is_readable(sampled_type: str, target: str) -> bool:
    """Whether values of the one type can be read as the other without loss."""
    texts = {"STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
    is_number = target in {"INT", "BIGINT", "DOUBLE", "FLOAT"} or target.startswith("DECIMAL")
    if sampled_type in {"INT", "BIGINT"}:
        return is_number or target in {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
    return (
        sampled_type == target
        or (sampled_type in texts and target in texts)
        or (sampled_type.startswith("DECIMAL") and is_number)
    )


def _propose_bytes(recognised: Recognition, columns: Mapping[str, ProposedColumn]) -> ProposedKey:
    name = _find_free_name(columns)
    widths = {len(look.data) for look in recognised.looks}
    word = NUMBER_TYPES.get(next(iter(widths)), "BINARY") if len(widths) == 1 else "BINARY"
    remark = f"{next(iter(widths))} bytes: taken for a number of Kafka's serializers" if word != "BINARY" else "bytes"
    column = ProposedColumn(name, word, (f"{remark}; the key has no name of its own",))
    checks = (f"{remark}; they may be something else (a DOUBLE, an id)",) if word != "BINARY" else ()
    return ProposedKey((name,), find_format(Encoding.BYTES).name, columns=(column,), checks=checks)


def _propose_bare(recognised: Recognition, rows: Sequence[Row], columns: Mapping[str, ProposedColumn]) -> ProposedKey:
    # a bare value gets the name of the column that equals it in every record, if there is one
    equal_column = _find_equal_column(recognised, rows, columns)
    data = [look.data for look in recognised.looks]
    is_json = recognised.look.kind == "a JSON text" or recognised.look.is_enveloped
    is_number = all(isinstance(item, int) and not isinstance(item, bool) for item in data)
    pairs = zip(recognised.records, recognised.looks, strict=True)
    stated = [(record.timestamp_ms, n, look) for n, (record, look) in enumerate(pairs) if look.schema]
    stated_type = render_ddl_type(read_connect_type(max(stated)[2].schema).type) if stated else ""
    if equal_column and stated_type and not _is_readable(stated_type, columns[equal_column].type):
        equal_column = None
    if equal_column:
        is_value = is_json or (is_number and _is_readable("BIGINT", columns[equal_column].type))
        noun = "a bare value" if is_value else "a text"
        remark = f"{noun} that equals {equal_column} in each of {format_count(len(rows), 'row')}"
        format_name = find_format(Encoding.OBJECT if is_value else Encoding.TEXT).name
        return ProposedKey((equal_column,), format_name, remarks=(remark,))
    name = _find_free_name(columns)
    format_name = find_format(Encoding.OBJECT if is_json else Encoding.TEXT).name
    column = ProposedColumn(name, stated_type or "STRING")
    is_untyped = is_number and not stated_type
    digits = ("all keys are digits: for numbers say format: json and schema: … BIGINT",) if is_untyped else ()
    checks = (f"a bare value without a name, and no column of the rows equals it; it is called {name}", *digits)
    return ProposedKey((name,), format_name, columns=(column,), checks=checks)


def _find_equal_column(
    recognised: Recognition, rows: Sequence[Row], columns: Mapping[str, ProposedColumn]
) -> str | None:
    def equals(look: Look, value: Any) -> bool:
        if isinstance(value, bool) or value is None:
            return False
        return bool(look.data == value) or (isinstance(value, str) and look.text == value)

    looks = {(r.partition, r.offset): look for r, look in zip(recognised.records, recognised.looks, strict=True)}
    places = [((row.record.partition, row.record.offset), row.data) for row in rows]
    pairs = [(looks[place], row) for place, row in places if place in looks]
    simple = [name for name, column in columns.items() if "<" not in column.type]
    equal = [name for name in simple if pairs and all(equals(look, row.get(name)) for look, row in pairs)]
    return next((name for name in equal if "id" in name.casefold()), next(iter(equal), None))


def _find_free_name(columns: Mapping[str, ProposedColumn]) -> str:
    used_names = {name.casefold() for name in columns}
    return next((name for name in NAMES if name not in used_names), "tidegate_key")
