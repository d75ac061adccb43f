"""Extracts rows from recognised records: the newer state of an event, the columns of a line, the value of a text."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.formats.encoding import Encoding, EventLayout
from tidegate.model.kafka_log import KafkaRecord
from tidegate.sampling.encoded_values import Fraction, Moment, parse_json
from tidegate.sampling.recognition import Look, Recognition, split_line

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
    """One row, with the record and the look that it was extracted from."""

    record: KafkaRecord
    look: Look
    data: dict[str, Any]
    is_deleted: bool = False


def list_rows(recognised: Recognition, delimiter: str = "", width: int = 0) -> list[Row]:
    """The rows that the records hold; a record of an event may hold several, or none. Lines have columns c1, c2, …"""
    rows: list[Row] = []
    for record, look in zip(recognised.records, recognised.looks, strict=True):
        if delimiter:
            rows += _read_line(record, look, delimiter, width)
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
    """Read the newer state of an event; of a delete, what the event says of the deleted row."""
    is_deleted = look.data.get(layout.operation) in layout.deletes
    states = next((look.data[name] for name in layout.rows if look.data.get(name)), None)
    for document in states if isinstance(states, list) else [states]:
        row = read_mongodb_document(document) if isinstance(document, str) else document
        if isinstance(row, dict):
            yield Row(record, look, row, is_deleted)


def _read_line(record: KafkaRecord, look: Look, delimiter: str, width: int) -> Iterable[Row]:
    cells = split_line(look.text, delimiter)
    if cells is not None and len(cells) == width:
        yield Row(record, look, {f"c{number}": read_cell(cell) for number, cell in enumerate(cells, 1)})


def read_cell(text: str) -> Any:
    """Parse a column of a line, or a value that is always sent as text; an empty text is NULL."""
    if not text:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if INTEGER_PATTERN.fullmatch(text) and text != "-0":
        return int(text) if len(text) < 4000 else text
    return Fraction(text) if FRACTION_PATTERN.fullmatch(text) else text


def read_mongodb_document(text: str) -> Any:
    """A document of MongoDB's extended JSON; None for a text that is none."""
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
