"""What a format decodes of a record: SQL over the columns that it added, and why the record cannot be used.

A value format is a function `decode_value(records, table) -> DecodedValue`, a key format `decode_key(records, table) ->
DecodedKey`. `records` are the Kafka source's columns with `key_text` and `value_text` beside the bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame
from tidegate.formats.registry import get_format
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column, Primitive, format_type, parse_type
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.conditions import NO_REASON
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.lossless import render_is_text_lossy, render_lacking_part_case

DELETE = "d"
UPSERT = "u"
TRUNCATE = "t"
NO_CHANGE = "-"  # the record changes no row: it is ignored
# of formats whose values are rows: a record without a value deletes its key's row
TOMBSTONE_DELETES = f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE '{UPSERT}' END AS change"
ROW = "row_struct"  # the value's columns and the metadata, worked out before `DecodedValue.reason` is


@dataclass(frozen=True)
class DecodedKey:
    """The key in the key's bytes: `struct` of the key's columns, and `reason`, NULL if it is good."""

    records: DataFrame
    struct: str
    reason: str


@dataclass(frozen=True)
class DecodedValue:
    """The rows in the value's bytes. Everything but `records` and `has_several_rows` is SQL."""

    records: DataFrame  # with two columns more: `change` (c, r, u, d, or nothing) and `located_reason`
    columns: Mapping[str, str]  # of the value
    reason: str  # why a row does not fit the columns; the SQL may refer to them as `ROW`
    key: str  # the key's columns, for records whose key has no bytes
    key_reason: str
    key_presence: str  # the value has the key's columns
    # which column, or part of one, is NULL and must not be; not counted for a row that a condition makes a delete
    null_reason: str = NO_REASON
    metadata: Mapping[str, str] = field(default_factory=dict)  # the format's own, by its word
    row_number: str = "0L"
    columns_before: Mapping[str, str] = field(default_factory=dict)  # columns of the row that a delete shows
    has_several_rows: bool = False  # one record may hold several rows, each with its own key; `row_number` numbers them
    previous_key: str | None = None  # the struct of the row's former key, if the record changes the key; else NULL
    # for each column that an update may leave out, the condition that it is left out
    absent_columns: Mapping[str, str] = field(default_factory=dict)
    # true for a truncate that the destination applies; such a record looks like a delete of no row
    truncate_condition: str | None = None
    # for each word, the condition that its column cannot hold it
    lossy_metadata: Mapping[str, str] = field(default_factory=dict)
    is_tombstone: str = "false"  # the record has no value, in a format whose events say what was deleted
    row_count: str = "1"  # how many rows the record holds, or would hold if it were good
    concerns_all: str = "false"  # the record is for every table, whichever it names
    # for each column the condition that its value is not what the record holds; in a bad record, other columns cannot
    # be trusted
    doubts: Mapping[str, str] = field(default_factory=dict)
    # each column of a record with a `located_reason`
    columns_of_unlocated: Mapping[str, str] = field(default_factory=dict)
    # adds a struct `ordered_row`: columns of the row, or of the row before a delete, that are parsed for a sequence
    # only
    add_ordered_row: Callable[[DataFrame, Fields], DataFrame] | None = None


def locate_columns(at: str, columns: Sequence[Column]) -> dict[str, str]:
    return {c.name: f"{at}.{quote(c.name)}" for c in columns}


def render_required_cases(subject: str, columns: Sequence[Column], places: Mapping[str, str]) -> str:
    """Return `WHEN … THEN …` for each NOT NULL column, or part of one, without a value; `places` is its SQL by name."""
    cases = []
    for c in columns:
        if not c.nullable:
            reason = render_literal(f"{subject} field {c.name} is required and missing")
            cases.append(f"WHEN {places[c.name]} IS NULL THEN {reason}")
        cases.append(render_lacking_part_case(subject, c, places[c.name], parse_type(c.type)))
    return " ".join(case for case in cases if case)


def render_cast_type(kind: str) -> str:
    """Return the type to cast to: Spark casts nothing to what is NOT NULL inside, which is checked separately."""
    return format_type(parse_type(kind))


def render_null_fields(columns: Sequence[Column]) -> str:
    return ", ".join(f"CAST(NULL AS {render_cast_type(c.type)}) AS {quote(c.name)}" for c in columns)


def render_is_unkept(source: str, conversion: str, kind: str = "") -> str:
    """Whether `source` is not NULL, and its `conversion` is; of a decimal, or not the same number."""
    leaf = Primitive(kind) if kind else None
    rounded = f" OR {render_is_text_lossy(source, leaf, None)}" if leaf is not None and leaf.decimal else ""
    return f"({source} IS NOT NULL AND (({conversion}) IS NULL{rounded}))"


REFUSAL = "empty the table too, then set value.truncate: ignore, or have the table emptied by value.truncate: apply"


def render_truncate_reason(table: StageTable, operation: str = "") -> str:
    """Return why a truncate is a bad record, NULL if it is ignored or applied; `operation` is the event's word."""
    if _is_ignored(table) or table.value.applies_truncates:
        return NO_REASON
    return render_literal(f"the source table was truncated{operation}: {REFUSAL}")


def render_truncate_case(is_truncate: str, table: StageTable) -> str:
    """Return `WHEN … THEN …` for what a truncate changes; nothing if it is a bad record.

    One that is applied looks like a delete, which shows no row, until its batch is written.
    """
    if _is_ignored(table):
        return f"WHEN {is_truncate} THEN '{NO_CHANGE}'"
    return f"WHEN {is_truncate} THEN '{DELETE}'" if table.value.applies_truncates else ""


def _is_ignored(table: StageTable) -> bool:
    return bool(table.value.options.get("truncate") == "ignore")


DecodeKey = Callable[[DataFrame, StageTable], DecodedKey]
DecodeValue = Callable[[DataFrame, StageTable], DecodedValue]


def add_key_object(records: DataFrame, table: StageTable) -> DataFrame:
    """Parse the key before the value, if that saves a copy of each record; its format reads it from there."""
    is_read = bool(table.key_columns) and not table.key.from_value
    if not is_read or get_format(table.value.format).holds_several_rows:
        return records
    decoder = find_decoder(table.key.format)
    return decoder.add_key_object(records, table) if hasattr(decoder, "add_key_object") else records


def get_key_decoder(table: StageTable) -> DecodeKey:
    decode: DecodeKey = find_decoder(table.key.format).decode_key
    return decode


def get_value_decoder(table: StageTable) -> DecodeValue:
    decode: DecodeValue = find_decoder(table.value.format).decode_value
    return decode


def find_decoder(name: str) -> Any:
    return import_module(f"tidegate_spark.formats.{get_format(name).module}")
