"""Checks the `select` of a table: its columns must exist, and columns that identify rows must come through it."""

import re
from collections.abc import Mapping

from tidegate.config.destinations.registry import get_destination, list_titles
from tidegate.config.models.table_entry import TableEntry, find_type
from tidegate.config.parsing.problems import suggest_closest
from tidegate.config.parsing.select_statement import parse_select
from tidegate.formats.registry import get_format
from tidegate.schema.data_types import (
    BINARY_NUMBERS,
    PRIMITIVE_NAMES,
    Array,
    DataType,
    Map,
    Primitive,
    Struct,
    format_type,
    parse_type,
)
from tidegate.spec.pipeline import Catalog
from tidegate.spec.projection import RECORD_COLUMNS, Item, Select, find_derived_columns, list_passed_columns
from tidegate.sql.spark import PATH_REGEX, split_path

INTEGERS = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
NUMBERS = {*BINARY_NUMBERS, "DECIMAL"}
TIMES = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
Targets = Mapping[str, set[str]]  # beside STRING, to which everything is cast
TARGETS: Targets = {
    "BOOLEAN": {"BOOLEAN", *NUMBERS},
    **{number: {"BOOLEAN", *NUMBERS, "TIMESTAMP"} for number in NUMBERS},
    "STRING": {*PRIMITIVE_NAMES, "DECIMAL"},
    "BINARY": {"BINARY"},
    "DATE": TIMES,
    "TIMESTAMP": TIMES | NUMBERS,
    "TIMESTAMP_NTZ": TIMES,
}
PART_TARGETS: Targets = {  # Spark's older rules hold for what is inside of a list, a map or a struct
    **TARGETS,
    "BOOLEAN": {"BOOLEAN", *NUMBERS, "TIMESTAMP"},
    **{number: {"BOOLEAN", *NUMBERS, "TIMESTAMP", "BINARY"} for number in INTEGERS},
    **{time: {"BOOLEAN", *NUMBERS, *TIMES} for time in ("DATE", "TIMESTAMP")},
}


def can_cast(source: DataType, target: DataType, targets: Targets = TARGETS) -> bool:
    """Whether Spark may cast one type to the other; True also where that is unknown."""
    match source, target:
        case Primitive(), Primitive():
            known_targets = targets.get(source.name.partition("(")[0])
            return known_targets is None or target.name.partition("(")[0] in {"STRING", *known_targets}
        case Array(element), Array(target_element):
            return can_cast(element, target_element, PART_TARGETS)
        case Map(key, value), Map(target_key, target_value):
            return _can_cast_key(key, target_key) and can_cast(value, target_value, PART_TARGETS)
        case Struct(fields), Struct(target_fields) if len(fields) == len(target_fields):
            pairs = zip(fields, target_fields, strict=True)
            return all(can_cast(one, other, PART_TARGETS) for (_, one), (_, other) in pairs)
        case Primitive(), _:
            return source.name.partition("(")[0] not in targets
    return target == Primitive("STRING")


def _can_cast_key(source: DataType, target: DataType) -> bool:
    # a key is never NULL, which a text that is no number would become
    may_be_null = source == Primitive("STRING") and target not in (Primitive("STRING"), Primitive("BINARY"))
    return not may_be_null and can_cast(source, target, PART_TARGETS)


def check_select(entry: TableEntry, record: set[str] | None) -> set[str] | None:
    """The names of the table's columns as `select` makes them, without case; None without a usable one.

    `record`: names of a decoded record's columns, None where the pipeline file does not tell them.
    """
    table = entry.table
    if table.select is not None:
        entry.findings.run_check((*entry.path, "select"), parse_select, table.select)
    select = entry.select
    if select is None:
        return None
    if record is not None:
        known_columns = record | {column.name for column in RECORD_COLUMNS}
        reads = [name for item in select.items for name in (*item.reads, *item.excluded_columns)]
        for name in dict.fromkeys((*reads, *select.reads)):
            if name.casefold() not in known_columns:
                entry.add("select", f"{name} is not a column of the record; {suggest_closest(name, known_columns)}")
        sequence_columns = {name.casefold() for name in table.sequence_by} - set(find_derived_columns(select))
        passed_columns = list_passed_columns(select, record)
        for setting, names in (("key.fields", {*entry.key_names}), ("sequence_by", sequence_columns)):
            if changed := ", ".join(sorted(names & record - passed_columns)):
                problem = f"leaves out or changes {changed} of {setting}, by which rows are found and ordered"
                entry.add("select", f"{problem}; select such columns as they are")
    columns = _list_derived_columns(select, record or set())
    _check_derived_columns(entry, columns)
    return set(columns)


def _list_derived_columns(select: Select, record: set[str]) -> list[str]:
    derived_columns = [item.name.casefold() for item in select.items if item.name is not None]
    stars = (item for item in select.items if item.name is None)
    # one that is made twice is there twice
    return derived_columns + [
        name for star in stars for name in sorted(record - {column.casefold() for column in star.excluded_columns})
    ]


def _check_derived_columns(entry: TableEntry, columns: list[str]) -> None:
    table = entry.table
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        entry.add("select", f"makes two columns of one name: {', '.join(twice)}; rename one with AS")
    if table.deletes == "soft" and table.deleted_column.casefold() in columns:
        problem = f"makes the column {table.deleted_column}, which soft deletes set; name another with AS"
        entry.add("select", problem)
    for name in entry.history_names:
        if name.casefold() in columns:
            problem = f"makes the column {name}, which history adds; name another with AS, or in history_columns"
            entry.add("select", problem)


def check_types_of_select(entry: TableEntry, record: Struct) -> None:
    """Missing fields, and casts that Spark refuses; `record` has the known types."""
    if entry.select is None:
        return
    for item in (item for item in entry.select.items if not item.is_joined):
        column = item.path or _find_cast_column(item, entry.select.alias)
        data_type = find_type(record, column, in_expression=True) if column else None
        if isinstance(data_type, str):
            entry.add("select", f"{'.'.join(column)}: {data_type}")
        elif item.path and isinstance(find_type(record, item.path), str):
            entry.add("select", f"{'.'.join(column)} is part of a list or map; write CAST(... AS TYPE) AS name")
        elif data_type is not None and item.sql and not can_cast(data_type, parse_type(item.type)):
            problem = f"{'.'.join(column)} is {format_type(data_type)}, which Spark casts to no {item.type}"
            remedy = "cast it to another type, or its parts one by one, e.g. by transform or map_from_entries"
            entry.add("select", f"{problem}; {remedy}")


def _find_cast_column(item: Item, alias: str) -> tuple[str, ...]:
    """The path of the record's column that is cast; empty for anything else."""
    if not re.fullmatch(PATH_REGEX, item.sql):
        return ()
    steps = split_path(item.sql)
    return steps[1:] if len(steps) > 1 and steps[0].casefold() == alias.casefold() else steps


def check_selects(entries: list[TableEntry], catalogs: Mapping[str, Catalog | str]) -> None:
    """Dimension tables that cannot be joined, and records with unknown columns."""
    own_tables = {entry.table.name.casefold() for entry in entries}
    for entry in entries:
        if entry.select is None:
            continue
        if entry.value.schema_ is None and not get_format(entry.value.format).describes_itself:
            problem = "needs value.schema: the table's columns are made by it, so they do not tell the record's"
            entry.add("select", problem)
        for dimension in entry.select.dimensions:
            catalog = catalogs.get(dimension.table.partition(".")[0])
            if not isinstance(catalog, Catalog) or not get_destination(catalog).is_joinable:
                titles = list_titles(lambda destination: destination.is_joinable)
                entry.add("select", f"joins {dimension.table}, which is in no {titles} catalog of catalogs.yaml")
            elif dimension.table.casefold() in own_tables:
                problem = f"joins {dimension.table}, a table of this pipeline"
                reason = "what it holds depends on where batches are cut; write it with another pipeline"
                entry.add("select", f"{problem}: {reason}")
