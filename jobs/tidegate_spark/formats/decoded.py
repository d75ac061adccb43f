"""What a format decodes of a record: SQL over the columns that it added, and why the record cannot be used.

A value format is a function `decode_value(records, table) -> DecodedValue`, a key format
`decode_key(records, table) -> DecodedKey`.
`records` are the Kafka source's columns with `key_text` and `value_text` beside the bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from tidegate.schema.column import Column
from tidegate.schema.data_types import format_type, parse_type
from tidegate.schema.wire_format import KEYLESS
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.lossless import render_lacking_part_case

DELETE, UPSERT, TRUNCATE = "d", "u", "t"
NO_CHANGE = "-"  # the record changes no row: it is ignored
ROW = "row_struct"  # the value's columns and the metadata, worked out before `DecodedValue.reason` is
NO_REASON = "CAST(NULL AS STRING)"


@dataclass(frozen=True)
class DecodedKey:
    """The key in the key's bytes: `struct` of the key's columns, and `reason`, NULL where it is good."""

    records: DataFrame
    struct: str
    reason: str


@dataclass(frozen=True)
class DecodedValue:
    """The rows in the value's bytes. Everything but the first two is SQL.

    - `records`: those that were given, with `change` (c, r, u, d, or nothing) and `located_reason` beside them.
    - `several`: one record may hold more than one row, each with its own key.
    - `columns`: each value column under its name. `number`: the number of a row within its record.
    - `reason`: why a row that was found does not fit the columns; it may look at them in `ROW`.
    - `lack_reason`: which column, or part of one, is NULL in the row and must not be. It does not count for a row that
      a condition of the pipeline file makes a delete.
    - `key`, `key_reason`: the key's columns for records whose key has no bytes. `key_there`: the value has them.
    - `moved`: the struct of the key that the row had before the record gave it another one, NULL where it did not.
    - `before`: columns of the row that a delete shows.
    - `absent`: for each column that an update may leave out, the condition that it did.
    - `truncated`: the condition that the source table was emptied, where the destination is to be emptied too. Such
      records look like deletes of no row.
    - `metadata`: the format's own metadata, by its word. `unkept`: for each word, the condition that the record shows a
      value which the column's type cannot hold.
    - `add_ordered_row`: adds a struct `ordered_row` to the records: columns of the row, or of the row before a delete,
      where they are parsed for a sequence only.
    """

    records: DataFrame
    columns: tuple[str, ...]
    reason: str
    key: str
    key_reason: str
    key_there: str
    lack_reason: str = NO_REASON
    metadata: Mapping[str, str] = field(default_factory=dict)
    number: str = "0L"
    before: Mapping[str, str] = field(default_factory=dict)
    several: bool = False
    moved: str | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    truncated: str | None = None
    unkept: Mapping[str, str] = field(default_factory=dict)
    add_ordered_row: Callable[[DataFrame, Fields], DataFrame] | None = None


def render_keyless_cases(options: Mapping[str, Any]) -> str:
    """`WHEN … THEN …` for values of schema versions that lack a field of the key."""
    return " ".join(
        f"WHEN hex(substring(value, 1, 5)) = '00{int(number):08X}' "
        f"THEN {render_literal(f'the value has schema id={number}, whose {reason}')}"
        for number, reason in options.get(KEYLESS, {}).items()
    )


def locate_columns(at: str, columns: Sequence[Column]) -> dict[str, str]:
    """Where each column's value is in SQL, by the column's name: a field of the struct `at`."""
    return {c.name: f"{at}.{quote(c.name)}" for c in columns}


def render_required_cases(subject: str, columns: Sequence[Column], places: Mapping[str, str]) -> str:
    """`WHEN … THEN …` for each column without a value that is NOT NULL, its own or a part's inside of it; `places` says
    where each one is in SQL, by the column's name."""
    cases = []
    for c in columns:
        if not c.nullable:
            reason = render_literal(f"{subject} field {c.name} is required and missing")
            cases.append(f"WHEN {places[c.name]} IS NULL THEN {reason}")
        cases.append(render_lacking_part_case(subject, c, places[c.name], parse_type(c.type)))
    return " ".join(case for case in cases if case)


def render_cast_type(column: Column) -> str:
    """The column's type to cast to: Spark casts nothing to what is NOT NULL inside; that is looked at on its own."""
    return format_type(parse_type(column.type))


def render_null_fields(columns: Sequence[Column]) -> str:
    """A struct's fields for a key that the value does not show."""
    return ", ".join(f"CAST(NULL AS {render_cast_type(c)}) AS {quote(c.name)}" for c in columns)
