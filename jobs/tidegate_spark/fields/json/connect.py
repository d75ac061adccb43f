"""JSON fields whose meaning stands in Kafka Connect's schema envelope: Debezium's and Connect's logical types, exactly.

`kinds` is a MAP from a field's name to its schema, STRUCT<name, parameters> with that of a list's `items`, a map's
`values` and a struct's `fields`, NULL without an envelope. A field without an entry is read by its declared type.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.schema.data_types import Array, Column, DataType, Map, Primitive, Struct, has_leaf, replace_leaves
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields import lossless
from tidegate_spark.fields.avro import render_date, render_timestamp
from tidegate_spark.fields.conditions import render_any, render_any_element
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.written_values import MOMENTS, render_decimal, render_variable_scale

DEBEZIUM_PREFIX = "io.debezium.time."
CONNECT_PREFIX = "org.apache.kafka.connect.data."
TIMESTAMP_UNITS = {
    CONNECT_PREFIX + "Timestamp": "millis",
    DEBEZIUM_PREFIX + "Timestamp": "millis",
    DEBEZIUM_PREFIX + "MicroTimestamp": "micros",
    DEBEZIUM_PREFIX + "NanoTimestamp": "nanos",
}
DATE_TYPES = (CONNECT_PREFIX + "Date", DEBEZIUM_PREFIX + "Date")
# whole numbers that count something else: a time of day, a year, a duration
OTHER_COUNTS = (
    CONNECT_PREFIX + "Time",
    *(DEBEZIUM_PREFIX + kind for kind in ("Time", "MicroTime", "NanoTime", "Year", "MicroDuration", "NanoDuration")),
)
DECIMAL_TYPE = CONNECT_PREFIX + "Decimal"
VARIABLE_SCALE_TYPE = "io.debezium.data.VariableScaleDecimal"
LOGICAL_TYPE_DDL = "name: STRING, parameters: MAP<STRING, STRING>"


@dataclass(frozen=True)
class ConnectFields(Fields):
    """`Fields` that read each record by its own envelope if it has one, at `kinds`.

    `other_columns` are read by these `kinds` too.
    """

    kinds: str = "kinds"
    other_columns: tuple[Column, ...] = ()

    def get_type(self, column: Column) -> DataType:
        # a decimal's bytes are text, and its number is none
        return replace_leaves(
            super().get_type(column), lambda leaf: lossless.VariantDecimal(leaf.name) if leaf.decimal else leaf
        )

    @property
    def kind_schema(self) -> str:
        """The parsed part of a field's schema; that of its parts only if the columns have such."""
        return _format_kind_schema(
            [self.get_type(column) for column in (*self.columns, *self.other_columns)], "field: STRING"
        )

    @property
    def row_schema(self) -> str:
        return f"STRUCT<fields: ARRAY<{self.kind_schema}>>"

    @property
    def event_schema(self) -> str:
        return f"STRUCT<fields: ARRAY<STRUCT<field: STRING, {self.row_schema.removeprefix('STRUCT<')}>>"

    def render_kinds(self, fields: str) -> str:
        named_fields = f"filter({fields}, f -> f.field IS NOT NULL)"
        return f"map_from_entries(transform({named_fields}, f -> struct(f.field, f)))"

    def render_registered_kinds(self, kinds: Mapping[str, Mapping[str, Any]], part: str) -> str:
        """Return `kinds` for records behind a schema id; NULL for ids without such fields."""
        schema_id = f"conv(hex(substring({part}, 2, 4)), 16, 10)"
        schema = render_literal(f"MAP<STRING, {self.kind_schema}>")
        # as the columns are spelled: so are the records' fields by now
        own_names = {column.name.casefold(): column.name for column in (*self.columns, *self.other_columns)}
        cases = [
            f"WHEN '{schema_id}' THEN from_json({render_literal(json.dumps({**respelled, **fields}))}, {schema})"
            for schema_id, fields in kinds.items()
            if (respelled := {own_names.get(name.casefold(), name): kind for name, kind in fields.items()})
        ]
        return f"CASE {schema_id} {' '.join(cases)} END"

    def render_values(self, struct: str) -> dict[str, str]:
        places = ((c, f"{struct}.{quote(c.name)}", f"{self.kinds}[{render_literal(c.name)}]") for c in self.columns)
        return {
            c.name: _render_conversion(expr, entry, self.get_type(c), self.get_unit(c)) for c, expr, entry in places
        }

    def render_is_lossy(self, struct: str, column: Column, conversion: str | None = None) -> str | None:
        expr = f"{struct}.{quote(column.name)}"
        entry = f"{self.kinds}[{render_literal(column.name)}]"
        value = f"{conversion}.{quote(column.name)}" if conversion else None
        return self._render_is_lossy(expr, entry, self.get_type(column), self.get_unit(column), value)

    def _render_is_lossy(
        self, expr: str, entry: str, data_type: DataType, unit: str | None, value: str | None = None
    ) -> str | None:
        if not _has_cases(data_type):
            return lossless.render_is_lossy(expr, data_type, unit, self.text, value)
        match data_type:
            case Array(element):
                return render_any_element(expr, "e", self._render_is_lossy("e", f"{entry}.items", element, unit))
            case Map(_, inner):
                inside = self._render_is_lossy("v", f"{entry}.`values`", inner, unit)
                lossy_value = render_any_element(f"map_values({expr})", "v", inside)
                return f"({expr} IS NOT NULL AND ({lossless.render_has_bad_key(expr, self.text)} OR {lossy_value}))"
            case Struct(fields):
                parts = (
                    self._render_is_lossy(f"{expr}.{quote(n)}", _render_field_entry(entry, n), t, unit)
                    for n, t in fields
                )
                return f"({render_any(parts)})"
            case Primitive():
                plain = lossless.render_is_lossy(expr, data_type, unit, self.text, value)
                existing_text = lossless.render_text(expr, data_type)
                when_clauses = " ".join(
                    f"WHEN {condition} THEN ({existing_text} IS NOT NULL AND ({value or conversion}) IS NULL)"
                    for condition, conversion in _list_cases(expr, entry, data_type)
                )
                return f"CASE {when_clauses} ELSE {plain or 'false'} END"


def _format_kind_schema(types: Sequence[DataType], head: str = "") -> str:
    parts = [*([head] if head else []), LOGICAL_TYPE_DDL]
    elements = [t.element for t in types if isinstance(t, Array) and _has_cases(t)]
    values = [t.value for t in types if isinstance(t, Map) and _has_cases(t)]
    fields = [inner for t in types if isinstance(t, Struct) and _has_cases(t) for _, inner in t.fields]
    parts += [f"items: {_format_kind_schema(elements)}"] if elements else []
    parts += [f"`values`: {_format_kind_schema(values)}"] if values else []
    parts += [f"fields: ARRAY<{_format_kind_schema(fields, 'field: STRING')}>"] if fields else []
    return f"STRUCT<{', '.join(parts)}>"


def _has_cases(data_type: DataType) -> bool:
    return has_leaf(data_type, lambda leaf: bool(_list_cases("", "", leaf)))


def _render_field_entry(entry: str, name: str) -> str:
    return f"get(filter({entry}.fields, f -> f.field = {render_literal(name)}), 0)"


def _render_conversion(expr: str, entry: str, data_type: DataType, unit: str | None) -> str:
    if not _has_cases(data_type):
        return lossless.render_conversion(expr, data_type, unit)
    match data_type:
        case Array(element):
            return f"transform({expr}, e -> {_render_conversion('e', f'{entry}.items', element, unit)})"
        case Map(_, value):
            inside = _render_conversion("v", f"{entry}.`values`", value, unit)
            return f"transform_values({expr}, (k, v) -> {inside})"
        case Struct(fields):
            parts = (
                (n, _render_conversion(f"{expr}.{quote(n)}", _render_field_entry(entry, n), t, unit)) for n, t in fields
            )
            inner = ", ".join(f"{render_literal(name)}, {conversion}" for name, conversion in parts)
            return f"CASE WHEN {expr} IS NOT NULL THEN named_struct({inner}) END"
        case Primitive():
            known = " ".join(
                f"WHEN {condition} THEN {conversion}" for condition, conversion in _list_cases(expr, entry, data_type)
            )
            return f"CASE {known} ELSE {lossless.render_conversion(expr, data_type, unit)} END"


def _list_cases(expr: str, entry: str, leaf: Primitive) -> list[tuple[str, str]]:
    number = f"try_cast({expr} AS BIGINT)"
    name = f"{entry}.name"
    if leaf.name in MOMENTS:
        is_date = leaf.name == "DATE"
        own_types, other_types = (DATE_TYPES, TIMESTAMP_UNITS) if is_date else (TIMESTAMP_UNITS, DATE_TYPES)
        moment = render_date(number) if is_date else _render_timestamp_in_unit(number, name, leaf)
        # of other types the record says that its number counts something else than the pipeline file's unit
        is_other = _render_is_one_of(name, (*other_types, *OTHER_COUNTS))
        return [(_render_is_one_of(name, own_types), moment), (is_other, f"CAST(NULL AS {leaf.name})")]
    if leaf.decimal is None and leaf.name != "STRING":
        return []
    # Connect's decimal.format: BASE64 is text, NUMERIC is a number
    is_bytes = f" AND schema_of_variant({expr}) = 'STRING'" if leaf.decimal else ""
    expr = lossless.render_text(expr, leaf)
    scale = f"try_cast({entry}.parameters['scale'] AS INT)"
    cases = [(f"{name} = '{DECIMAL_TYPE}'{is_bytes}", render_decimal(f"try_to_binary({expr}, 'base64')", scale, leaf))]
    # a decimal column knows the object by itself; a text may be any object, unless the schema says so
    return cases if leaf.decimal else [*cases, (f"{name} = '{VARIABLE_SCALE_TYPE}'", render_variable_scale(expr, leaf))]


def _render_is_one_of(name: str, known: Iterable[str]) -> str:
    return f"{name} IN ({', '.join(map(render_literal, known))})"


def _render_timestamp_in_unit(number: str, name: str, leaf: Primitive) -> str:
    cases = " ".join(
        f"WHEN {render_literal(word)} THEN {render_timestamp(number, unit, leaf.name, leaf.is_truncated)}"
        for word, unit in TIMESTAMP_UNITS.items()
    )
    return f"CASE {name} {cases} END"
