"""The layout of a BigQuery table, as `create` in the pipeline file declares it, and what changes in its columns."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.adapters.bigquery.types import to_bigquery_schema
from tidegate.errors import ConfigurationError, GiveUp, IncompatibleSchema
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import ChangeKind, Path, SchemaChange
from tidegate.spec.table import Create
from tidegate.sql.googlesql import quote, render_literal
from tidegate.sql.spark import unquote

INGESTION_TIME_COLUMN = "_PARTITIONTIME"
Field = dict[str, Any]
MAX_CLUSTERING_COLUMNS = 4
MAX_DESCRIPTION_CHARACTERS = 16_384
MAX_SHOWN_CHARACTERS = 60  # of a property that is refused
_TRANSFORM_PATTERN = re.compile(r"(?:(year|month|day|hour)s?\s*\(\s*(.+?)\s*\)|([^()]+))", re.IGNORECASE)
_TRUNC_FUNCTIONS = {"DATE": "DATE_TRUNC", "TIMESTAMP": "TIMESTAMP_TRUNC", "TIMESTAMP_NTZ": "DATETIME_TRUNC"}
_PARTITION_ADVICE = "write hours(c), days(c), months(c) or years(c) of a DATE or TIMESTAMP column, or of _PARTITIONTIME"


@dataclass(frozen=True)
class Partitioning:
    """A time column, or the ingestion time, and the unit of a partition: HOUR, DAY, MONTH or YEAR.

    `numbers`: the starts of the partitions of a table that a user has partitioned by integer ranges.
    """

    column: str
    unit: str
    numbers: range | None = None

    def render_partition_start(self, kind: str, alias: str = "") -> str:
        """SQL text: the beginning of a row's partition, for a column of this Spark type; NULL for none."""
        column = INGESTION_TIME_COLUMN if self.of_ingestion else quote(self.column)
        if self.numbers is not None:
            first = self.numbers.start
            end = self.numbers.stop
            step = self.numbers.step
            value = f"{alias}{column}"
            return f"IF({value} BETWEEN {first} AND {end - 1}, {value} - MOD({value} - {first}, {step}), NULL)"
        if kind == "DATE" and self.unit == "DAY":
            return f"{alias}{column}"
        if kind == "TIMESTAMP":
            return render_timestamp_start(f"{alias}{column}", self.unit)
        return f"{_TRUNC_FUNCTIONS[kind]}({alias}{column}, {self.unit})"

    @property
    def of_ingestion(self) -> bool:
        """Whether no column of the table says where a row lies."""
        return self.column == INGESTION_TIME_COLUMN


def render_timestamp_start(value: str, unit: str) -> str:
    """SQL text: the beginning of the hour, day, month or year of a TIMESTAMP, in UTC, as partitions begin."""
    # a project may have another zone as its default (default_time_zone)
    return f"TIMESTAMP_TRUNC({value}, {unit}, 'UTC')"


def parse_partitioning(partition_by: Iterable[str]) -> Partitioning | None:
    """What `create.partition_by` asks for; `ConfigurationError` where BigQuery has nothing like it."""
    transforms = tuple(partition_by)
    if not transforms:
        return None
    if len(transforms) > 1:
        raise ConfigurationError(f"partition_by={list(transforms)}: BigQuery partitions by one column; keep one")
    match = _TRANSFORM_PATTERN.fullmatch(transforms[0].strip())
    if match is None:
        raise ConfigurationError(f"partition_by={transforms[0]}: BigQuery has no such partitions; {_PARTITION_ADVICE}")
    column = unquote((match[2] or match[3]).strip())
    return Partitioning(
        INGESTION_TIME_COLUMN if column.upper() == INGESTION_TIME_COLUMN else column, (match[1] or "day").upper()
    )


def render_partition_clause(partition_by: Iterable[str], columns: Iterable[Column]) -> str:
    """The text after PARTITION BY; `ConfigurationError` for a column that is no time."""
    partitioning = parse_partitioning(partition_by)
    if partitioning is None:
        return ""
    if partitioning.of_ingestion:
        truncation = f"TIMESTAMP_TRUNC({INGESTION_TIME_COLUMN}, {partitioning.unit})"
        return "_PARTITIONDATE" if partitioning.unit == "DAY" else truncation
    types = {column.name.casefold(): column for column in columns}
    column = types.get(partitioning.column.casefold())
    if column is None or column.type not in _TRUNC_FUNCTIONS:
        kind = column.type if column else "unknown"
        raise ConfigurationError(f"partition_by column={partitioning.column} type={kind}: no time; {_PARTITION_ADVICE}")
    if column.type == "DATE" and partitioning.unit == "HOUR":
        raise ConfigurationError(
            f"partition_by column={partitioning.column}: a DATE has no hours; use days({partitioning.column})"
        )
    name = quote(column.name)
    unit = partitioning.unit
    return name if (column.type, unit) == ("DATE", "DAY") else f"{_TRUNC_FUNCTIONS[column.type]}({name}, {unit})"


def _render_days(text: str) -> str:
    days = float(text)
    if not 0 < days < math.inf:
        raise ValueError(text)
    return str(days)


def _render_description(text: str) -> str:
    if len(text) > MAX_DESCRIPTION_CHARACTERS:
        raise ValueError(text)
    return render_literal(text)


def render_note(text: str) -> str:
    """A backfill's note as a table's description; `GiveUp` if it is too long."""
    if len(text) > MAX_DESCRIPTION_CHARACTERS:
        raise GiveUp(
            f"the note of this backfill, with the offsets of each table and partition, has characters={len(text)}, and "
            f"a table's description in BigQuery holds {MAX_DESCRIPTION_CHARACTERS}; nothing was staged; name fewer "
            "tables or partitions in one backfill (--table, --range)"
        )
    return render_literal(text)


def _render_boolean(text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.upper()


OPTION_RENDERERS: dict[str, Callable[[str], str]] = {
    "partition_expiration_days": _render_days,
    "require_partition_filter": _render_boolean,
    "description": _render_description,
    "friendly_name": render_literal,
    "kms_key_name": render_literal,
}
# Tidegate's own properties, which are no options of the table, and the words that each takes
PRODUCT_PROPERTIES = {"partition_column": ("mutable", "immutable")}


def render_table_options(properties: Mapping[str, str]) -> list[str]:
    """`ConfigurationError` for an unknown property, or a wrong value."""
    options = []
    for name, value in properties.items():
        if name in PRODUCT_PROPERTIES:
            if value not in PRODUCT_PROPERTIES[name]:
                raise ConfigurationError(
                    f"property {name}={value}: not a known word; use {' or '.join(PRODUCT_PROPERTIES[name])}"
                )
            continue
        if name not in OPTION_RENDERERS:
            names = ", ".join(sorted([*OPTION_RENDERERS, *PRODUCT_PROPERTIES]))
            raise ConfigurationError(f"property {name}={value}: not one of BigQuery's tables; use one of {names}")
        try:
            options.append(f"{name} = {OPTION_RENDERERS[name](value)}")
        except ValueError:
            shown = value if len(value) <= MAX_SHOWN_CHARACTERS else f"{value[:MAX_SHOWN_CHARACTERS]}…"
            raise ConfigurationError(f"property {name}={shown}: not a value that BigQuery takes for it") from None
    return options


def get_partition_unit(create: Create | None) -> str | None:
    """The unit for ingestion-time partitions by the record's time; None for other tables."""
    partitioning = parse_partitioning(create.partition_by) if create else None
    if create is None or partitioning is None or not partitioning.of_ingestion:
        return None
    return None if create.partition_time == "wall-clock" else partitioning.unit


def find_collated_texts(schema: Iterable[Mapping[str, Any]], *above: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths of the texts that BigQuery compares by a collation, as without case; `schema` from the REST API."""
    for field in schema:
        path = (*above, str(field["name"]))
        if field.get("collation"):
            yield path, str(field["collation"])
        yield from find_collated_texts(field.get("fields", ()), *path)


def check_widens(name: str, change: SchemaChange) -> None:
    """`IncompatibleSchema` for a change that BigQuery has no statement for."""
    if len(change.path) > 1:
        raise IncompatibleSchema(
            f"table={name} column={'.'.join(change.path)}: BigQuery widens no field inside a column: "
            f"{change.before} to {change.type}; nothing was written; copy the table with the wider type"
        )


def apply_change(fields: list[Field], change: SchemaChange) -> None:
    """Add or relax one field, in place."""
    *above, last = _list_field_names(fields, change.path)
    for step in above:
        fields = _find_field(fields, step).setdefault("fields", [])
    if change.kind is ChangeKind.ADD:
        fields += to_bigquery_schema([Column(last, change.type)])
    else:
        _find_field(fields, last)["mode"] = "NULLABLE"


def _list_field_names(fields: list[Field], path: Path) -> Iterator[str]:
    is_in_array = False
    for step in path:
        # the step into an array is no field, though a field may have its name
        if is_in_array:
            is_in_array = False
            continue
        yield step
        field = next((field for field in fields if field["name"] == step), {})
        fields = field.get("fields", [])
        is_in_array = field.get("mode") == "REPEATED"


def _find_field(fields: list[Field], name: str) -> Field:
    return next(field for field in fields if field["name"] == name)
