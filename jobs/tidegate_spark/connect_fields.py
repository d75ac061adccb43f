"""JSON fields whose meaning stands in Kafka Connect's schema envelope: Debezium's and Connect's logical types, exactly.

`kinds` is a MAP from a field's name to STRUCT<name, parameters> of its schema, NULL without an envelope; a column
without an entry there is read by its declared type alone.
"""

from dataclasses import dataclass

from tidegate.datatypes import Primitive, parse
from tidegate.pipeline import Column
from tidegate.spark_sql import literal, quoted

from tidegate_spark.avro_fields import time_text, timestamp
from tidegate_spark.json_fields import Fields
from tidegate_spark.strict import lossy, typed

DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
TIMESTAMPS = {
    CONNECT + "Timestamp": "millis",
    DEBEZIUM + "Timestamp": "millis",
    DEBEZIUM + "MicroTimestamp": "micros",
    DEBEZIUM + "NanoTimestamp": "nanos",
}
TIMES = {
    CONNECT + "Time": "millis",
    DEBEZIUM + "Time": "millis",
    DEBEZIUM + "MicroTime": "micros",
    DEBEZIUM + "NanoTime": "nanos",
}
DATES = (CONNECT + "Date", DEBEZIUM + "Date")
DECIMAL = CONNECT + "Decimal"
FIELD = "STRUCT<field: STRING, name: STRING, parameters: MAP<STRING, STRING>>"
# what of the envelope's schema is parsed: of an event's, and of a row's
EVENT_SCHEMA = f"STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: ARRAY<{FIELD}>>>>"
ROW_SCHEMA = f"STRUCT<fields: ARRAY<{FIELD}>>"
CHUNK = 14  # hexadecimal digits that a DECIMAL(38) takes at once


def kinds_of(fields: str) -> str:
    """The MAP of a schema's fields."""
    named = f"filter({fields}, f -> f.field IS NOT NULL)"
    return f"map_from_entries(transform({named}, f -> struct(f.field, struct(f.name, f.parameters))))"


@dataclass(frozen=True)
class ConnectFields(Fields):
    """`Fields` that read each record by its own envelope where it has one, at `kinds`."""

    kinds: str = "kinds"

    def values(self, parsed: str) -> list[str]:
        """See `Fields`."""
        return [f"{self._value(parsed, c)} AS {quoted(c.name)}" for c in self.columns]

    def lost(self, parsed: str, column: Column) -> str | None:
        """See `Fields`."""
        expr, data_type = f"{parsed}.{quoted(column.name)}", parse(column.type)
        plain, cases = lossy(expr, data_type, self.unit), self._cases(expr, column)
        if not cases:
            return plain
        known = " ".join(f"WHEN {when} THEN ({expr} IS NOT NULL AND ({made}) IS NULL)" for when, made in cases)
        return f"CASE {known} ELSE {plain or 'false'} END"

    def _value(self, parsed: str, column: Column) -> str:
        expr, data_type = f"{parsed}.{quoted(column.name)}", parse(column.type)
        plain, cases = typed(expr, data_type, self.unit), self._cases(expr, column)
        known = " ".join(f"WHEN {when} THEN {made}" for when, made in cases)
        return f"CASE {known} ELSE {plain} END" if cases else plain

    def _cases(self, expr: str, column: Column) -> list[tuple[str, str]]:
        """(condition, value) for each logical type that a column of this type may hold."""
        leaf = parse(column.type)
        entry = f"{self.kinds}[{literal(column.name)}]"
        number, name = f"try_cast({expr} AS BIGINT)", f"{entry}.name"
        if not isinstance(leaf, Primitive):
            return []
        if leaf.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
            return [(f"{name} = '{k}'", timestamp(number, unit, leaf.name)) for k, unit in TIMESTAMPS.items()]
        if leaf.name == "DATE":
            days = f"date_from_unix_date(try_cast({expr} AS INT))"
            return [(f"{name} IN ({', '.join(map(literal, DATES))})", days)]
        if leaf.name == "STRING":
            return [(f"{name} = '{k}'", time_text(number, unit)) for k, unit in TIMES.items()]
        if leaf.decimal is None:
            return []
        scale = f"CAST({entry}.parameters['scale'] AS INT)"
        return [
            (f"{name} = '{DECIMAL}'", scaled(expr, scale, leaf)),
            (f"ltrim({expr}) LIKE '{{%'", _variable_scale(expr, leaf)),
        ]


def _variable_scale(expr: str, leaf: Primitive) -> str:
    """Debezium's VariableScaleDecimal: an object of scale and unscaled bytes."""
    scale = f"try_cast(get_json_object({expr}, '$.scale') AS INT)"
    return scaled(f"get_json_object({expr}, '$.value')", scale, leaf)


def scaled(base64: str, scale: str, leaf: Primitive) -> str:
    """A big-endian two's complement number in base64, divided by a power of ten; NULL where `leaf` cannot hold it."""
    precision, places = leaf.decimal or (38, 0)
    digits = f"hex(try_to_binary({base64}, 'base64'))"
    whole = f"CAST({_unscaled(digits)} AS STRING)"
    # moved as text, because a DECIMAL(38) has no room for both sides of the point
    text = f"concat({whole}, 'E', CAST(-({scale}) AS STRING))"
    widest = f"try_cast({text} AS DECIMAL(38,{38 - (precision - places)}))"
    value = f"try_cast({text} AS {leaf.name})"
    return f"CASE WHEN {widest} = {value} THEN {value} END"


def _unscaled(digits: str) -> str:
    """Hexadecimal digits of a two's complement number as a DECIMAL(38,0); NULL where it has more than 38 digits."""
    negative = f"substring({digits}, 1, 1) >= '8'"
    inverted = f"translate({digits}, '0123456789ABCDEF', 'FEDCBA9876543210')"
    magnitude = f"lpad(CASE WHEN {negative} THEN {inverted} ELSE {digits} END, {3 * CHUNK}, '0')"
    parts = [f"CAST(conv(substring({magnitude}, {1 + n * CHUNK}, {CHUNK}), 16, 10) AS DECIMAL(38,0))" for n in range(3)]
    base = "CAST(72057594037927936 AS DECIMAL(17,0))"
    high = f"try_add(CAST(try_multiply({parts[0]}, {base}) AS DECIMAL(38,0)), {parts[1]})"
    number = f"try_add(CAST(try_multiply(CAST({high} AS DECIMAL(38,0)), {base}) AS DECIMAL(38,0)), {parts[2]})"
    fits = f"length({digits}) BETWEEN 2 AND {3 * CHUNK}"
    whole = f"CASE WHEN {fits} THEN try_cast({number} AS DECIMAL(38,0)) END"
    return f"CASE WHEN {negative} THEN try_subtract(-({whole}), 1BD) ELSE {whole} END"
