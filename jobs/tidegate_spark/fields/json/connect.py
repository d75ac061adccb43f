"""JSON fields whose meaning stands in Kafka Connect's schema envelope: Debezium's and Connect's logical types, exactly.

`kinds` is a MAP from a field's name to STRUCT<name, parameters> of its schema, NULL without an envelope; a column
without an entry there is read by its declared type alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.schema.column import Column
from tidegate.schema.data_types import Array, DataType, Primitive
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.avro import render_date, render_timestamp
from tidegate_spark.fields.decimals import render_decimal, render_variable_scale
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.lossless import DAYS_UNIT, render_conversion, render_is_lossy, render_text, with_variants

DEBEZIUM_PREFIX, CONNECT_PREFIX = "io.debezium.time.", "org.apache.kafka.connect.data."
TIMESTAMP_UNITS = {
    CONNECT_PREFIX + "Timestamp": "millis",
    DEBEZIUM_PREFIX + "Timestamp": "millis",
    DEBEZIUM_PREFIX + "MicroTimestamp": "micros",
    DEBEZIUM_PREFIX + "NanoTimestamp": "nanos",
}
DATE_TYPES = (CONNECT_PREFIX + "Date", DEBEZIUM_PREFIX + "Date")
DECIMAL_TYPE, VARIABLE_SCALE_TYPE = CONNECT_PREFIX + "Decimal", "io.debezium.data.VariableScaleDecimal"
LOGICAL_TYPE_DDL = "name: STRING, parameters: MAP<STRING, STRING>"


@dataclass(frozen=True)
class ConnectFields(Fields):
    """`Fields` that read each record by its own envelope where it has one, at `kinds`."""

    kinds: str = "kinds"

    def get_type(self, column: Column) -> DataType:
        """See `Fields`; a decimal's bytes are text, and its number is none."""
        return with_variants(super().get_type(column))

    @property
    def row_schema(self) -> str:
        """What of a row's schema is parsed; that of a list's elements only where there are lists."""
        return (
            f"STRUCT<fields: ARRAY<STRUCT<field: STRING, {LOGICAL_TYPE_DDL}"
            f"{self._render_items(f': STRUCT<{LOGICAL_TYPE_DDL}>')}>>>"
        )

    @property
    def event_schema(self) -> str:
        """What of a change event's schema is parsed."""
        return f"STRUCT<fields: ARRAY<STRUCT<field: STRING, {self.row_schema.removeprefix('STRUCT<')}>>"

    def render_kinds(self, fields: str) -> str:
        """The MAP of a schema's fields."""
        named = f"filter({fields}, f -> f.field IS NOT NULL)"
        entry = f"struct(f.field, struct(f.name, f.parameters{self._render_items('', 'f.')}))"
        return f"map_from_entries(transform({named}, f -> {entry}))"

    def _render_items(self, kind: str, of: str = "") -> str:
        lists = any(isinstance(t, Array) for _, t in self._list_types())
        return f", {of}items{kind}" if lists else ""

    def render_values(self, parsed: str) -> list[str]:
        """See `Fields`."""
        return [f"{self._render_value(parsed, c)} AS {quote(c.name)}" for c in self.columns]

    def render_is_lossy(self, parsed: str, column: Column, made: str | None = None) -> str | None:
        """See `Fields`."""
        expr, data_type = f"{parsed}.{quote(column.name)}", self.get_type(column)
        entry = f"{self.kinds}[{render_literal(column.name)}]"
        if isinstance(data_type, Array) and _list_cases("e", "", data_type.element):
            lost = self._render_is_lossy("e", f"{entry}.items", data_type.element, self.get_unit(column), None)
            return f"exists({expr}, e -> coalesce({lost}, false))"
        return self._render_is_lossy(expr, entry, data_type, self.get_unit(column), made)

    def _render_is_lossy(
        self, expr: str, entry: str, data_type: DataType, unit: str | None, value: str | None
    ) -> str | None:
        plain, cases = render_is_lossy(expr, data_type, unit, self.text, value), _list_cases(expr, entry, data_type)
        if plain and unit and not isinstance(data_type, Primitive):
            # what the numbers inside count is said by the record's schema, which is not looked at there
            return (
                f"CASE WHEN {self.kinds} IS NULL THEN {plain} "
                f"ELSE {render_is_lossy(expr, data_type, DAYS_UNIT, self.text)} END"
            )
        if not cases:
            return plain
        there = render_text(expr, data_type) if isinstance(data_type, Primitive) else expr
        known = " ".join(
            f"WHEN {when} THEN ({there} IS NOT NULL AND ({value or made}) IS NULL)" for when, made in cases
        )
        return f"CASE {known} ELSE {plain or 'false'} END"

    def _render_value(self, parsed: str, column: Column) -> str:
        expr, data_type = f"{parsed}.{quote(column.name)}", self.get_type(column)
        entry = f"{self.kinds}[{render_literal(column.name)}]"
        if isinstance(data_type, Array) and _list_cases("e", "", data_type.element):
            made = self._render_conversion("e", f"{entry}.items", data_type.element, self.get_unit(column))
            return f"transform({expr}, e -> {made})"
        return self._render_conversion(expr, entry, data_type, self.get_unit(column))

    def _render_conversion(self, expr: str, entry: str, data_type: DataType, unit: str | None) -> str:
        plain, cases = render_conversion(expr, data_type, unit), _list_cases(expr, entry, data_type)
        known = " ".join(f"WHEN {when} THEN {made}" for when, made in cases)
        return f"CASE {known} ELSE {plain} END" if cases else plain


def render_registered_kinds(kinds: Mapping[str, Mapping[str, Any]], part: str) -> str:
    """The MAP of `ConnectFields.kinds` for records behind a schema id, by the id; NULL for ids without such fields."""
    found = f"conv(hex(substring({part}, 2, 4)), 16, 10)"
    cases = [
        f"WHEN '{schema_id}' THEN "
        f"map({', '.join(f'{render_literal(name)}, {_render_kind_entry(one)}' for name, one in fields.items())})"
        for schema_id, fields in kinds.items()
        if fields
    ]
    return f"CASE {found} {' '.join(cases)} END"


def _render_kind_entry(kind: Mapping[str, Any]) -> str:
    items = kind.get("items")
    inner = f"named_struct({_render_kind_parts(items)})" if items else f"CAST(NULL AS STRUCT<{LOGICAL_TYPE_DDL}>)"
    return f"named_struct({_render_kind_parts(kind)}, 'items', {inner})"


def _render_kind_parts(kind: Mapping[str, Any]) -> str:
    name = render_literal(kind["name"]) if kind["name"] else "CAST(NULL AS STRING)"
    pairs = ", ".join(f"{render_literal(word)}, {render_literal(text)}" for word, text in kind["parameters"].items())
    return f"'name', {name}, 'parameters', CAST(map({pairs}) AS MAP<STRING, STRING>)"


def _list_cases(expr: str, entry: str, leaf: DataType) -> list[tuple[str, str]]:
    """(condition, value) for each logical type that a column of this type, or an element of a list, may hold."""
    number, name = f"try_cast({expr} AS BIGINT)", f"{entry}.name"
    if not isinstance(leaf, Primitive):
        return []
    if leaf.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return [
            (
                f"{name} IN ({', '.join(map(render_literal, TIMESTAMP_UNITS))})",
                _render_timestamp_in_unit(number, name, leaf),
            )
        ]
    if leaf.name == "DATE":
        return [(f"{name} IN ({', '.join(map(render_literal, DATE_TYPES))})", render_date(number))]
    if leaf.decimal is None and leaf.name != "STRING":
        return []
    # Connect's decimal.format: BASE64 is text, NUMERIC is a number
    is_bytes = f" AND schema_of_variant({expr}) = 'STRING'" if leaf.decimal else ""
    expr = render_text(expr, leaf)
    scale = f"CAST({entry}.parameters['scale'] AS INT)"
    known = [(f"{name} = '{DECIMAL_TYPE}'{is_bytes}", render_decimal(f"try_to_binary({expr}, 'base64')", scale, leaf))]
    # a decimal column knows the object by itself; a text may be any object, unless the schema says so
    return known if leaf.decimal else [*known, (f"{name} = '{VARIABLE_SCALE_TYPE}'", render_variable_scale(expr, leaf))]


def _render_timestamp_in_unit(number: str, name: str, leaf: Primitive) -> str:
    """A count since 1970 in the unit that `name` states; NULL where it is none of a year that tables can hold."""
    cases = " ".join(
        f"WHEN {render_literal(word)} THEN {render_timestamp(number, unit, leaf.name)}"
        for word, unit in TIMESTAMP_UNITS.items()
    )
    return f"CASE {name} {cases} END"
