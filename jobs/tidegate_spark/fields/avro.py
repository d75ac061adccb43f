"""Avro values as Spark decodes them, brought to their column's type: times, nanoseconds, Debezium's own kinds.

Every function returns SQL text over `expr`, which holds a value of the Avro schema `node`.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tidegate.formats.registry import SchemaKind, get_format
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.schema import avro
from tidegate.schema.avro import Names
from tidegate.schema.avro_limits import AVRO_LIMITS, JAVA_OPTIONS, has_limits
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.conditions import render_any, render_any_element
from tidegate_spark.fields.written_values import (
    TIMESTAMP_PATTERN,
    ZONE_PATTERN,
    render_certain_time,
    render_with_seconds,
    render_year_range,
)

log = logging.getLogger(__name__)
LENGTH_CHECK_OPTION = "check_lengths"


def guard_lengths(spark: Any, job: StageJob) -> StageJob:
    """Check lengths in Avro records before they are decoded, if the server's JVMs lack Avro's limits."""
    if not any(_is_avro(part) for table in job.all_tables for part in (table.key, table.value)):
        return job
    is_local = str(spark.conf.get("spark.master", "")).startswith("local")
    if has_limits(str(spark.conf.get(JAVA_OPTIONS[0 if is_local else 1], "") or "")):
        return job
    log.warning(
        "Avro records are checked on Python workers, which costs several times the CPU: set %s in %s of this server",
        " ".join(f"-D{name}={value}" for name, value in AVRO_LIMITS.items()), " and ".join(JAVA_OPTIONS),
    )  # fmt: skip
    tables = tuple(add_length_check(table) for table in job.tables)
    return replace(job, tables=tables, finder=add_length_check(job.finder) if job.finder else None)


def add_length_check(table: StageTable) -> StageTable:
    parts = {name: part for name, part in (("key", table.key), ("value", table.value)) if _is_avro(part)}
    checked: dict[str, Any] = {
        name: replace(part, options={**part.options, LENGTH_CHECK_OPTION: True}) for name, part in parts.items()
    }
    return replace(table, **checked)


def _is_avro(part: KeyFormat | ValueFormat) -> bool:
    return get_format(part.format).schema is SchemaKind.AVRO


NATIVE_LOGICAL_TYPES = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
UNITS_PER_SECOND = {"seconds": 1, "millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
# of the years 1 and 9999
FIRST_DAY = -719_162
LAST_DAY = 2_932_896


def render_conversion(expr: str, node: Any, names: Names, truncates: bool = False) -> str:
    """The value as its column's type; NULL if `render_is_lossy`."""
    return _walk_schema(expr, node, names, partial(_render_leaf, truncates=truncates), _combine_values) or expr


def render_is_lossy(expr: str, node: Any, names: Names, truncates: bool = False) -> str:
    """Whether something in the value would be lost or changed; never NULL. If it `truncates`, times may be."""
    leaf = partial(_render_is_leaf_lossy, truncates=truncates)
    condition = _walk_schema(expr, node, names, leaf, _combine_conditions)
    return f"coalesce({condition}, false)" if condition else "false"


def _walk_schema(
    expr: str, node: Any, names: Names, leaf: Callable[[str, Any], str | None], combine: Callable[..., str | None]
) -> str | None:
    branches = [avro.resolve_name(branch, names) for branch in avro.list_branches(avro.resolve_name(node, names))]
    if len(branches) > 1:
        if avro.merge_number_types(branches):
            return None
        members = ((f"member{n}", member) for n, member in enumerate(branches))
        parts = [(name, _walk_schema(f"{expr}.{name}", member, names, leaf, combine)) for name, member in members]
        return combine("record", expr, parts)
    node = branches[0]
    word = avro.get_type_name(node)
    if word == "array":
        return combine("array", expr, [("e", _walk_schema("e", node["items"], names, leaf, combine))])
    if word == "map":
        return combine("map", expr, [("v", _walk_schema("v", node["values"], names, leaf, combine))])
    if word in ("record", "error"):
        parts = [
            (f["name"], _walk_schema(f"{expr}.{quote(f['name'])}", f["type"], names, leaf, combine))
            for f in node["fields"]
        ]
        return combine("record", expr, parts)
    return leaf(expr, node)


def _combine_values(word: str, expr: str, parts: list[tuple[str, str | None]]) -> str | None:
    if all(sql is None for _, sql in parts):
        return None
    if word == "array":
        return f"transform({expr}, e -> {parts[0][1]})"
    if word == "map":
        return f"transform_values({expr}, (k, v) -> {parts[0][1]})"
    inner = ", ".join(f"{render_literal(name)}, {sql or f'{expr}.{quote(name)}'}" for name, sql in parts)
    return f"CASE WHEN {expr} IS NOT NULL THEN named_struct({inner}) END"


def _combine_conditions(word: str, expr: str, parts: list[tuple[str, str | None]]) -> str | None:
    if word == "map":
        inside = render_any_element(f"map_values({expr})", "v", parts[0][1])
        return f"(exists(map_keys({expr}), k -> NOT is_valid_utf8(k)){f' OR {inside}' if inside else ''})"
    if word == "array":
        return render_any_element(expr, "e", parts[0][1])
    inside = render_any(sql for _, sql in parts)
    return f"({inside})" if inside else None


def _render_leaf(expr: str, node: Any, truncates: bool) -> str | None:
    meaning = avro.get_logical_type(node)
    if meaning in NATIVE_LOGICAL_TYPES and _is_native(node):
        return None
    if not meaning:
        decimal = avro.get_cut_decimal(node)
        narrow_type = f"DECIMAL({decimal[0]},{decimal[1]})" if decimal else "INT"
        return f"try_cast({expr} AS {narrow_type})" if decimal or avro.get_type_name(node) == "int" else None
    if meaning == avro.ZONED_TIME:
        full_text = render_with_seconds(expr)
        cast_sql = f"try_cast({full_text} AS TIMESTAMP)"
        within = f"{cast_sql} BETWEEN {render_year_range('TIMESTAMP')}"
        is_time = f"{expr} RLIKE {render_literal(TIMESTAMP_PATTERN % ZONE_PATTERN)}"
        return f"CASE WHEN {is_time} AND {within} THEN {render_certain_time(cast_sql, full_text)} END"
    if meaning == "date":
        return render_date(expr)
    if meaning.startswith("time-"):
        return render_time(expr, meaning.removeprefix("time-"))
    return render_timestamp(expr, meaning.rsplit("-", 1)[1], avro.LOGICAL_TYPES[meaning], truncates)


def _render_is_leaf_lossy(expr: str, node: Any, truncates: bool) -> str | None:
    meaning = avro.get_logical_type(node)
    word = avro.get_type_name(node)
    if word in ("string", "enum") and not meaning:
        return f"NOT is_valid_utf8({expr})" if word == "string" else None
    if meaning in NATIVE_LOGICAL_TYPES and _is_native(node):
        kind = avro.LOGICAL_TYPES[meaning]
        return f"({expr} IS NOT NULL AND NOT {expr} BETWEEN {render_year_range(kind)})"
    cast_sql = _render_leaf(expr, node, truncates)
    if cast_sql is None:
        return None
    is_cut = word == "string" and not truncates
    cut_digits = f"{expr} RLIKE '[.][0-9]{{6}}[0-9]*[1-9]'" if is_cut else "false"
    return f"({expr} IS NOT NULL AND ({cast_sql} IS NULL OR {cut_digits}))"


def _is_native(node: Any) -> bool:
    return isinstance(node, dict) and node.get("logicalType") == avro.get_logical_type(node)


def render_date(number: str) -> str:
    """Convert days since 1970 to a date; NULL outside of the years 1 to 9999."""
    return f"CASE WHEN {number} BETWEEN {FIRST_DAY} AND {LAST_DAY} THEN date_from_unix_date(CAST({number} AS INT)) END"


def render_timestamp(number: str, unit: str, kind_of_column: str, truncates: bool = False) -> str:
    """Convert a count since 1970; NULL outside of the years 1 to 9999, or if finer than microseconds."""
    first = FIRST_DAY * 86_400 * UNITS_PER_SECOND[unit]
    last = (LAST_DAY + 1) * 86_400 * UNITS_PER_SECOND[unit] - 1
    if unit == "nanos":
        within = f"timestamp_micros({number} div 1000 - CASE WHEN {number} % 1000 < 0 THEN 1 ELSE 0 END)"
        exact = f"CASE WHEN {number} % 1000 = 0 THEN timestamp_micros({number} div 1000) END"
        micros = within if truncates else exact
    else:
        micros = f"CASE WHEN {number} BETWEEN {first} AND {last} THEN timestamp_{unit}({number}) END"
    return f"CAST({micros} AS {kind_of_column})"


def render_time(number: str, unit: str) -> str:
    """Convert a count since midnight to ``HH:MM:SS`` and as many digits as its unit has; NULL outside of one day."""
    per_second = UNITS_PER_SECOND[unit]
    digits = {"millis": 3, "micros": 6, "nanos": 9}[unit]
    seconds = f"CAST({number} AS BIGINT) div {per_second}"
    remainder = f"CAST({number} AS BIGINT) % {per_second}"
    text = (
        f"concat(lpad(CAST({seconds} div 3600 AS STRING), 2, '0'), ':', "
        f"lpad(CAST({seconds} div 60 % 60 AS STRING), 2, '0'), ':', "
        f"lpad(CAST({seconds} % 60 AS STRING), 2, '0'), '.', lpad(CAST({remainder} AS STRING), {digits}, '0'))"
    )
    return f"CASE WHEN {number} BETWEEN 0 AND {86_400 * per_second - 1} THEN {text} END"
