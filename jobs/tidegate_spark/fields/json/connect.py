"""JSON fields whose meaning stands in Kafka Connect's schema envelope: Debezium's and Connect's logical types, exactly.

`kinds` is a MAP from a field's name to STRUCT<name, parameters> of its schema, NULL without an envelope; a column
without an entry there is read by its declared type alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.schema.column import Column
from tidegate.schema.data_types import Array, DataType, Primitive
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.avro import day, timestamp
from tidegate_spark.fields.decimals import scaled, variable_scale
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.lossless import DAYS, as_text, lossy, typed, with_variants

DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
TIMESTAMPS = {
    CONNECT + "Timestamp": "millis",
    DEBEZIUM + "Timestamp": "millis",
    DEBEZIUM + "MicroTimestamp": "micros",
    DEBEZIUM + "NanoTimestamp": "nanos",
}
DATES = (CONNECT + "Date", DEBEZIUM + "Date")
DECIMAL, VARIABLE = CONNECT + "Decimal", "io.debezium.data.VariableScaleDecimal"
KIND = "name: STRING, parameters: MAP<STRING, STRING>"


@dataclass(frozen=True)
class ConnectFields(Fields):
    """`Fields` that read each record by its own envelope where it has one, at `kinds`."""

    kinds: str = "kinds"

    def kind(self, column: Column) -> DataType:
        """See `Fields`; a decimal's bytes are text, and its number is none."""
        return with_variants(super().kind(column))

    @property
    def row_schema(self) -> str:
        """What of a row's schema is parsed; that of a list's elements only where there are lists."""
        return f"STRUCT<fields: ARRAY<STRUCT<field: STRING, {KIND}{self._items(f': STRUCT<{KIND}>')}>>>"

    @property
    def event_schema(self) -> str:
        """What of a change event's schema is parsed."""
        return f"STRUCT<fields: ARRAY<STRUCT<field: STRING, {self.row_schema.removeprefix('STRUCT<')}>>"

    def kinds_of(self, fields: str) -> str:
        """The MAP of a schema's fields."""
        named = f"filter({fields}, f -> f.field IS NOT NULL)"
        entry = f"struct(f.field, struct(f.name, f.parameters{self._items('', 'f.')}))"
        return f"map_from_entries(transform({named}, f -> {entry}))"

    def _items(self, kind: str, of: str = "") -> str:
        lists = any(isinstance(t, Array) for _, t in self._types())
        return f", {of}items{kind}" if lists else ""

    def values(self, parsed: str) -> list[str]:
        """See `Fields`."""
        return [f"{self._value(parsed, c)} AS {quoted(c.name)}" for c in self.columns]

    def lost(self, parsed: str, column: Column, made: str | None = None) -> str | None:
        """See `Fields`."""
        expr, data_type = f"{parsed}.{quoted(column.name)}", self.kind(column)
        entry = f"{self.kinds}[{literal(column.name)}]"
        if isinstance(data_type, Array) and _cases("e", "", data_type.element):
            lost = self._lost("e", f"{entry}.items", data_type.element, self.unit(column), None)
            return f"exists({expr}, e -> coalesce({lost}, false))"
        return self._lost(expr, entry, data_type, self.unit(column), made)

    def _lost(self, expr: str, entry: str, data_type: DataType, unit: str | None, value: str | None) -> str | None:
        plain, cases = lossy(expr, data_type, unit, self.text, value), _cases(expr, entry, data_type)
        if plain and unit and not isinstance(data_type, Primitive):
            # what the numbers inside count is said by the record's schema, which is not looked at there
            return f"CASE WHEN {self.kinds} IS NULL THEN {plain} ELSE {lossy(expr, data_type, DAYS, self.text)} END"
        if not cases:
            return plain
        there = as_text(expr, data_type) if isinstance(data_type, Primitive) else expr
        known = " ".join(
            f"WHEN {when} THEN ({there} IS NOT NULL AND ({value or made}) IS NULL)" for when, made in cases
        )
        return f"CASE {known} ELSE {plain or 'false'} END"

    def _value(self, parsed: str, column: Column) -> str:
        expr, data_type = f"{parsed}.{quoted(column.name)}", self.kind(column)
        entry = f"{self.kinds}[{literal(column.name)}]"
        if isinstance(data_type, Array) and _cases("e", "", data_type.element):
            made = self._typed("e", f"{entry}.items", data_type.element, self.unit(column))
            return f"transform({expr}, e -> {made})"
        return self._typed(expr, entry, data_type, self.unit(column))

    def _typed(self, expr: str, entry: str, data_type: DataType, unit: str | None) -> str:
        plain, cases = typed(expr, data_type, unit), _cases(expr, entry, data_type)
        known = " ".join(f"WHEN {when} THEN {made}" for when, made in cases)
        return f"CASE {known} ELSE {plain} END" if cases else plain


def registered_kinds(kinds: Mapping[str, Mapping[str, Any]], part: str) -> str:
    """The MAP of `ConnectFields.kinds` for records behind a schema id, by the id; NULL for ids without such fields."""
    found = f"conv(hex(substring({part}, 2, 4)), 16, 10)"
    cases = [
        f"WHEN '{schema_id}' THEN map({', '.join(f'{literal(name)}, {_entry(one)}' for name, one in fields.items())})"
        for schema_id, fields in kinds.items()
        if fields
    ]
    return f"CASE {found} {' '.join(cases)} END"


def _entry(kind: Mapping[str, Any]) -> str:
    items = kind.get("items")
    inner = f"named_struct({_parts(items)})" if items else f"CAST(NULL AS STRUCT<{KIND}>)"
    return f"named_struct({_parts(kind)}, 'items', {inner})"


def _parts(kind: Mapping[str, Any]) -> str:
    name = literal(kind["name"]) if kind["name"] else "CAST(NULL AS STRING)"
    pairs = ", ".join(f"{literal(word)}, {literal(text)}" for word, text in kind["parameters"].items())
    return f"'name', {name}, 'parameters', CAST(map({pairs}) AS MAP<STRING, STRING>)"


def _cases(expr: str, entry: str, leaf: DataType) -> list[tuple[str, str]]:
    """(condition, value) for each logical type that a column of this type, or an element of a list, may hold."""
    number, name = f"try_cast({expr} AS BIGINT)", f"{entry}.name"
    if not isinstance(leaf, Primitive):
        return []
    if leaf.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return [(f"{name} IN ({', '.join(map(literal, TIMESTAMPS))})", _moment(number, name, leaf))]
    if leaf.name == "DATE":
        return [(f"{name} IN ({', '.join(map(literal, DATES))})", day(number))]
    if leaf.decimal is None and leaf.name != "STRING":
        return []
    # Connect's decimal.format: BASE64 is text, NUMERIC is a number
    is_bytes = f" AND schema_of_variant({expr}) = 'STRING'" if leaf.decimal else ""
    expr = as_text(expr, leaf)
    scale = f"CAST({entry}.parameters['scale'] AS INT)"
    known = [(f"{name} = '{DECIMAL}'{is_bytes}", scaled(f"try_to_binary({expr}, 'base64')", scale, leaf))]
    # a decimal column knows the object by itself; a text may be any object, unless the schema says so
    return known if leaf.decimal else [*known, (f"{name} = '{VARIABLE}'", variable_scale(expr, leaf))]


def _moment(number: str, name: str, leaf: Primitive) -> str:
    """A count since 1970 in the unit that `name` states; NULL where it is none of a year that tables can hold."""
    cases = " ".join(
        f"WHEN {literal(word)} THEN {timestamp(number, unit, leaf.name)}" for word, unit in TIMESTAMPS.items()
    )
    return f"CASE {name} {cases} END"
