"""Recognises the format of sampled keys and values, one by one and then of a topic as a whole."""

import csv
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.formats.registry import EVENT_FORMATS, FORMATS, Encoding, EventLayout, RecordFormat, decode_text
from tidegate.model.counts import format_count
from tidegate.model.kafka_log import KafkaRecord
from tidegate.sampling.encoded_values import Fraction, Moment, parse_json, parse_packed
from tidegate.sampling.samples import PlacedCheck, TopicSample, list_record_addresses
from tidegate.schema.wire_format import APICURIO_HEADERS, CONFLUENT_HEADER

ENVELOPE_FIELDS = {"schema", "payload"}
DELIMITERS = (",", ";", "\t", "|")
LINE_SHARE = 0.9  # of the texts of a topic that must have the same number of columns
NUMBER_WIDTHS = (8, 4)  # bytes of Kafka's serializers of numbers
HEADER_ID = 5  # bytes of a magic byte and a schema id
REGISTERED = "behind the id of a schema"
MAX_KEY_SCHEMA_IDS = 3  # of the schemas of one topic's keys, where the keys are as long as a number
MAX_ID = 2**27  # registries count from 1; a greater number ahead of a value is the value's own


@dataclass(frozen=True)
class Look:
    """The format of one key or value. Looks are counted by `kind`; `data` is the content without an envelope.

    `schema`: Kafka Connect's, beside the payload. `wire` and `schema_id` locate a registered schema's id. `text`: the
    content if it is text.
    """

    kind: str
    encoding: Encoding
    event: RecordFormat | None = None
    data: Any = None
    schema: Any = None
    is_enveloped: bool = False
    wire: str = ""
    schema_id: int | str = 0
    text: str = ""


Looked = tuple[KafkaRecord, Look]
Groups = dict[str, list[Looked]]  # by the look's kind


@dataclass(frozen=True)
class Recognition:
    """The format of most keys or values of a topic; `looks` in the order of their records."""

    look: Look
    looks: tuple[Look, ...]
    records: tuple[KafkaRecord, ...]
    checks: tuple[PlacedCheck, ...] = ()


def recognise(sample: TopicSample, part: str) -> Recognition | None:
    """The format of most of a topic's values or keys; None without any. Other formats are reported as a check."""
    groups: Groups = {}
    for record in sample.records:
        data = record.value if part == "value" else record.key
        if data is not None:
            look = look_at(data, record.headers, part)
            if look.is_enveloped and look.data is None:  # an envelope around null is a delete
                continue
            groups.setdefault(look.kind, []).append((record, look))
    if not groups:
        return None
    _join_objects(groups)
    _join_numbers(groups, part)
    _join_texts(groups, part)
    most = max(groups, key=lambda kind: len(groups[kind]))
    chosen_group = groups[most]
    total = sum(map(len, groups.values()))
    checks = tuple(
        PlacedCheck(
            f"topic={sample.topic} {part}",
            f"{len(other_looks)} of {format_count(total, part)} look different: {kind}, not {most}; at "
            f"{list_record_addresses(record for record, _ in other_looks)}; a flush stops at a record that it cannot "
            "read",
        )
        for kind, other_looks in sorted(groups.items())
        if kind != most
    )
    return Recognition(
        chosen_group[0][1], tuple(look for _, look in chosen_group), tuple(record for record, _ in chosen_group), checks
    )


def _join_objects(groups: Groups) -> None:
    # with and without the envelope of a schema: one format
    for record_format in EVENT_FORMATS:
        plain = record_format.event.noun if record_format.event else ""
        if plain in groups and f"{plain} with its schema" in groups:
            groups[f"{plain} with its schema"] += groups.pop(plain)


def _join_numbers(groups: Groups, part: str) -> None:
    # the first bytes of a large number of eight bytes look like the id of a schema
    registered = groups.get(REGISTERED, [])
    parts = [(record, record.value if part == "value" else record.key) for record, _ in registered]
    ids = {look.schema_id for _, look in registered}
    number = f"{NUMBER_WIDTHS[0]} bytes that are no text"
    has_width = all(len(data or b"") == NUMBER_WIDTHS[0] for _, data in parts)
    if registered and has_width and (number in groups or len(ids) > MAX_KEY_SCHEMA_IDS):
        del groups[REGISTERED]
        number_looks = [(record, Look(number, Encoding.BYTES, data=data)) for record, data in parts]
        groups[number] = sorted([*groups.get(number, []), *number_looks], key=_get_place)


def _join_texts(groups: Groups, part: str) -> None:
    # if some keys are no JSON, or some values are not, all of them are text
    words = [kind for kind, entries in groups.items() if entries[0][1].encoding is Encoding.TEXT]
    if len(words) > 1 or part == "value":
        text_looks = [entry for kind in words for entry in groups.pop(kind)]
        if text_looks:
            groups["text"] = sorted(text_looks, key=_get_place)


def _get_place(entry: Looked) -> tuple[int, int]:
    return entry[0].partition, entry[0].offset


def look_at(data: bytes, headers: tuple[tuple[str, bytes | None], ...] = (), part: str = "value") -> Look:
    """One key or value by itself."""
    registered = _find_schema_id(data, dict(headers), part)
    if registered is not None:
        return registered
    text = decode_text(data)
    if text is not None:
        return _look_at_text(text)
    try:
        value = parse_packed(data)
    except ValueError:
        value = None
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value):
        return Look("a MessagePack map", Encoding.PACKED, data=value)
    width = f"{len(data)} bytes that are no text" if len(data) in NUMBER_WIDTHS else "bytes that are no text"
    return Look(width, Encoding.BYTES, data=data)


def _find_schema_id(data: bytes, headers: Mapping[str, bytes | None], part: str) -> Look | None:
    header = headers.get(CONFLUENT_HEADER.format(part=part))
    if header:
        return Look("with the id of a schema in a header", Encoding.SCHEMA, wire="confluent-header",
                    schema_id=header.hex())  # fmt: skip
    for name in APICURIO_HEADERS:
        header = headers.get(name.format(part=part))
        if header:
            return Look("with the id of a schema in a header", Encoding.SCHEMA, wire="apicurio-header",
                        schema_id=int.from_bytes(header))  # fmt: skip
    if len(data) <= HEADER_ID or data[0] != 0:
        return None
    (number,) = struct.unpack(">I", data[1:HEADER_ID])
    if 0 < number < MAX_ID:
        return Look(REGISTERED, Encoding.SCHEMA, wire="confluent", schema_id=number)
    if number == 0 and len(data) > HEADER_ID + 4:
        (number,) = struct.unpack(">Q", data[1:9])
        if 0 < number < MAX_ID:
            return Look("behind the long id of a schema", Encoding.SCHEMA, wire="apicurio", schema_id=number)
    return None


def _look_at_text(text: str) -> Look:
    try:
        value = parse_json(text)
    except ValueError:
        return Look("text" if text else "nothing (0 bytes)", Encoding.TEXT, data=text, text=text)
    if not isinstance(value, dict):
        kind = "a JSON list" if isinstance(value, list) else "a JSON text" if isinstance(value, str) else "a JSON value"
        return Look(kind, Encoding.TEXT, data=value, text=text)
    schema = value.get("schema")
    is_schema = schema is None or (isinstance(schema, dict) and "type" in schema)
    if value.keys() >= ENVELOPE_FIELDS and is_schema:
        event = _find_event_format(value["payload"])
        noun = f"{event.event.noun} with its schema" if event and event.event else "Kafka Connect's envelope"
        return Look(noun, Encoding.OBJECT, event=event, data=value["payload"], schema=schema, is_enveloped=True)
    event = _find_event_format(value)
    noun = event.event.noun if event and event.event else "a JSON object"
    return Look(noun, Encoding.OBJECT, event=event, data=value)


def _find_event_format(value: Any) -> RecordFormat | None:
    """By an object's fields; None for a plain object, and for anything else."""
    for record_format in EVENT_FORMATS if isinstance(value, dict) else ():
        if record_format.event is not None and any(value.keys() >= {*words} for words in record_format.event.marks):
            return record_format
    return None


def find_format(encoding: Encoding) -> RecordFormat:
    return next(
        record_format
        for record_format in FORMATS.values()
        if record_format.encoding is encoding and not record_format.is_change_event
    )


def find_delimiter(texts: Sequence[str]) -> tuple[str, int]:
    """The columns' delimiter and number, where nearly all texts are such lines; else empty, and 0."""
    best = ("", 0, 0.0)
    for delimiter in DELIMITERS:
        widths = Counter(len(split_line(text, delimiter) or ()) for text in texts)
        width, number = max(widths.items(), key=lambda entry: (entry[0] > 1, entry[1]))
        if width > 1 and number / len(texts) >= LINE_SHARE and number / len(texts) > best[2]:
            best = (delimiter, width, number / len(texts))
    return best[:2]


def split_line(line: str, delimiter: str) -> list[str] | None:
    """By RFC 4180; None where it is no such line."""
    body = line.removesuffix("\n").removesuffix("\r")
    try:
        rows = list(csv.reader([body], delimiter=delimiter, strict=True)) if "\n" not in body else []
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


INTEGER_PATTERN = re.compile(r"-?(?:0|[1-9]\d*)")
FRACTION_PATTERN = re.compile(r"-?(?:0|[1-9]\d*)\.\d+(?:[eE][-+]?\d+)?")
BOOLEANS = {"true": True, "false": False}
# the words of extended JSON, and what values under them stand for
_MARKED: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("$oid", "$uuid", "$symbol", "$numberDecimal"), str),
    **dict.fromkeys(("$numberInt", "$numberLong"), int),
    "$numberDouble": float,
    "$date": lambda _: Moment(0),
    "$binary": lambda _: b"",
}


@dataclass(frozen=True)
class Row:
    """One row, with its record and look."""

    record: KafkaRecord
    look: Look
    data: dict[str, Any]
    is_deleted: bool = False


def list_rows(recognised: Recognition, delimiter: str = "", width: int = 0) -> list[Row]:
    """A record of an event may hold several rows, or none. Lines have columns c1, c2, …"""
    rows: list[Row] = []
    for record, look in zip(recognised.records, recognised.looks, strict=True):
        if delimiter:
            cells = split_line(look.text, delimiter)
            if cells is not None and len(cells) == width:
                rows.append(Row(record, look, {f"c{number}": read_cell(cell) for number, cell in enumerate(cells, 1)}))
        elif look.event is not None and look.event.event is not None:
            rows += _read_event(record, look, look.event.event)
        elif look.encoding in {Encoding.OBJECT, Encoding.PACKED} and isinstance(look.data, dict):
            rows.append(Row(record, look, look.data))
        elif look.encoding is Encoding.TEXT:
            rows.append(Row(record, look, {"value": look.text}))
        elif look.encoding is Encoding.BYTES:
            rows.append(Row(record, look, {"value": look.data}))
    return rows


def _read_event(record: KafkaRecord, look: Look, layout: EventLayout) -> Iterable[Row]:
    # a delete tells the deleted row, any other event the newer state
    is_deleted = look.data.get(layout.operation) in layout.deletes
    states = next((look.data[name] for name in layout.rows if look.data.get(name)), None)
    for document in states if isinstance(states, list) else [states]:
        row = read_mongodb_document(document) if isinstance(document, str) else document
        if isinstance(row, dict):
            yield Row(record, look, row, is_deleted)


def read_cell(text: str) -> Any:
    """Parse a column of a line, or a value that is always sent as text; an empty text is NULL."""
    if not text:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if INTEGER_PATTERN.fullmatch(text) and text != "-0":
        return int(text) if len(text) < 4000 else text
    return Fraction(text) if FRACTION_PATTERN.fullmatch(text) else text


def read_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: read_cell(v) if isinstance(v, str) else v for name, v in row.items()} for row in rows]


def read_mongodb_document(text: str) -> Any:
    """MongoDB's extended JSON; None for other texts."""
    try:
        return unwrap_extended(parse_json(text))
    except (ValueError, TypeError):
        return None


def unwrap_extended(value: Any) -> Any:
    """The value that extended JSON stands for, at every depth."""
    if isinstance(value, list):
        return [unwrap_extended(item) for item in value]
    if not isinstance(value, dict):
        return value
    word = next(iter(value), "")
    if word in _MARKED:
        return _MARKED[word](value[word])
    return {name: unwrap_extended(inner) for name, inner in value.items()}


ODD_CHARACTERS_PATTERN = re.compile(r"[^\w-]+")


def split_sample(sample: TopicSample) -> dict[str, TopicSample]:
    """Records by source table; empty for one table, or where records name none or a name stands for several."""
    recognised = recognise(sample, "value")
    layout = recognised.look.event.event if recognised and recognised.look.event else None
    if recognised is None or layout is None:
        return {}
    records: dict[str, list[KafkaRecord]] = {}
    scopes: dict[str, set[tuple[str, ...]]] = {}
    for record, look in zip(recognised.records, recognised.looks, strict=True):
        name = find_in(look.data, layout.table)
        scope = tuple(str(find_in(look.data, path)) for path in layout.scopes)
        # what the source writes of itself belongs to no table
        if isinstance(name, str) and name and not (layout.own_scope and layout.own_scope in scope):
            records.setdefault(name, []).append(record)
            scopes.setdefault(name, set()).add(scope)
    samples = {name: replace(sample, records=tuple(of_table)) for name, of_table in records.items()}
    recognised_parts = {name: recognise(part, "value") for name, part in samples.items()}
    tables = {name: samples[name] for name, part in recognised_parts.items() if part is not None and list_rows(part)}
    has_one_scope = all(len(scopes[name]) == 1 for name in tables)
    has_own_names = len({*map(to_table_name, tables)}) == len(tables)
    return dict(sorted(tables.items())) if len(tables) > 1 and has_one_scope and has_own_names else {}


def to_table_name(source_table: str) -> str:
    """A destination's name for a source table, which may stand behind a schema."""
    return ODD_CHARACTERS_PATTERN.sub("_", source_table.rpartition(".")[2])


def find_in(data: Any, path: Sequence[str]) -> Any:
    """The value at the path in nested objects, or None."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data
