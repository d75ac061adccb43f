"""Checks that the columns a record turns into fit together, those of partitions included."""

import re
from collections.abc import Mapping

from tidegate.config.checks.formats import check_times_of_key
from tidegate.config.checks.select import check_select, check_types_of_select
from tidegate.config.checks.source import check_key_columns, check_value
from tidegate.config.destinations.registry import DESTINATIONS
from tidegate.config.models.pipeline import PipelineModel
from tidegate.config.models.table_entry import UNKNOWN_TYPE, TableEntry, find_type
from tidegate.config.parsing.ddl import find_condition_paths
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.formats.registry import get_format
from tidegate.schema.data_types import Column, Primitive, Struct, format_type
from tidegate.schema.evolution import to_struct
from tidegate.spec.projection import RECORD_COLUMNS
from tidegate.sql.spark import PATH_REGEX, split_name_or_path, split_path, unquote, unquote_path

COLUMN_REGEX = rf"\s*({PATH_REGEX})\s*"
PARTITION_PATTERN = re.compile(
    rf"(?:(?:years?|months?|days?|hours?)\({COLUMN_REGEX}\)|(?:bucket|truncate)\(\s*[1-9]\d*\s*,{COLUMN_REGEX}\)|{COLUMN_REGEX})",
    re.IGNORECASE,
)
ColumnsByName = Mapping[str, Column]
PLACE_COLUMNS = {"topic", "partition", "offset"}
PARTITION_EXAMPLE = "write a column, days(c), hours(c), bucket(16, c) or truncate(8, c), in quotes"


def check_columns(model: PipelineModel, entries: list[TableEntry], findings: Problems) -> None:
    """Clashes of columns, for each table with the key and value that feed it."""
    check_key_columns(model.source.key, ("source", "key"), findings)
    check_value(model.source.value, ("source", "value"), findings, model.source.metadata)
    for entry in entries:
        check_key_columns(entry.key, entry.key_path, findings)
        check_value(entry.value, entry.value_path, findings, model.source.metadata)
        check_times_of_key(entry.key, entry.value, entry.value_path, findings)
        _check_key(entry)
        if model.source.verify_integrity:
            _check_integrity(entry)
        _check_columns_of_table(entry)


def _check_key(entry: TableEntry) -> None:
    in_value = {column.name.casefold(): column for column in entry.value_columns or ()}
    if entry.value.fields_include == "EXCEPT_KEY" and not entry.key.fields:
        problem = "there is no key to leave out; give key.fields or use ALL"
        entry.findings.add((*entry.value_path, "fields_include"), problem)
    if entry.key.into is not None:
        _check_into(entry, entry.key.into, in_value)
    else:
        _check_key_columns(entry, in_value)
    _check_key_types(entry)
    _check_source_of_key(entry)


def _check_into(entry: TableEntry, into: str, in_value: ColumnsByName) -> None:
    findings = entry.findings
    path = (*entry.key_path, "into")
    if not into.strip():
        findings.add(path, "empty; name the struct column, or leave it out")
    if not entry.key.fields:
        findings.add(path, "nothing to put into it; give key.fields, the fields of the struct")
    if entry.key.prefix:
        findings.add(path, "key.prefix has no meaning for the fields of one struct; keep one of the two")
    if into.casefold() in in_value:
        findings.add(path, f"{in_value[into.casefold()].name} is a column of the value too; choose another name")


def _check_key_columns(entry: TableEntry, in_value: ColumnsByName) -> None:
    # a value column of a key column's name is that column: it needs that type, unless the key has a prefix
    findings = entry.findings
    prefix = entry.key.prefix
    types = {column.name: column.type for column in entry.key_columns or ()}
    for name in entry.key.fields:
        same_column = in_value.get((prefix + name).casefold())
        if same_column and same_column.name != prefix + name:
            problem = f"{prefix + name} and the value's {same_column.name} differ only in case, and no table holds both"
            findings.add((*entry.key_path, "fields"), f"{problem}; write them alike, or use key.prefix")
        elif same_column and prefix:
            problem = f"{same_column.name} is a column of the value too; choose another prefix"
            findings.add((*entry.key_path, "prefix"), problem)
        elif same_column and types.get(name, same_column.type) != same_column.type:
            clash = f"{name} is {types[name]} here and {same_column.type} in value.schema, but one column"
            findings.add((*entry.key_path, "schema"), f"{clash}; use one type, or key.prefix")


def _check_key_types(entry: TableEntry) -> None:
    key = entry.key
    has_registry = key.json_ is not None and key.json_.registry is not None
    is_described = get_format(key.format).describes_itself or has_registry
    if key.schema_ is not None or is_described or entry.value_columns is None:
        return
    names = {column.name for column in entry.value_columns}
    for index, name in enumerate(key.fields):
        if name not in names:
            problem = "has no type: it is not in value.schema, and there is no key.schema"
            entry.findings.add((*entry.key_path, "fields", index), problem)


def _check_source_of_key(entry: TableEntry) -> None:
    key = entry.key
    findings = entry.findings
    value_format = get_format(entry.value.format)
    from_path = (*entry.key_path, "from")
    if key.from_ == "record":
        if "from_" in key.model_fields_set and value_format.holds_several_rows:
            rows = f"messages of format {value_format.name} hold rows, and the key is taken from each"
            findings.add(from_path, f"{rows}; write value, or leave it out")
        return
    if not key.fields:
        findings.add(from_path, "no field to take from the value; give key.fields")
    for word in sorted(key.model_fields_set & {"format", "json_", "avro", "protobuf", "csv"}):
        problem = "the record's key is not read with key.from: value; leave it out"
        findings.add((*entry.key_path, word.rstrip("_")), problem)
    if value_format.only_column is not None:
        problem = f"a value of format {value_format.name} has no fields; use another format, or from: record"
        findings.add(from_path, problem)
    if entry.value.fields_include == "EXCEPT_KEY":
        problem = "value.fields_include: EXCEPT_KEY says that the value lacks the key; keep one of the two"
        findings.add(from_path, problem)
    if value_format.is_positional and entry.value_columns is not None:
        names = {column.name for column in entry.value_columns}
        for index, name in enumerate(key.fields):
            if name not in names:
                problem = "not a column of value.schema, where key.from looks for it"
                findings.add((*entry.key_path, "fields", index), problem)


def _check_integrity(entry: TableEntry) -> None:
    """`verify_integrity` needs a field in key and value, of one type."""
    key = entry.key
    findings = entry.findings
    verify: KeyPath = ("source", "verify_integrity")
    if not key.fields:
        findings.add(verify, "there is no key to compare with the value; give key.fields, or leave it out")
        return
    if key.from_ == "value":
        findings.add(verify, "key.from: value takes the key from the value, so nothing can differ; keep one of the two")
        return
    if entry.value.fields_include == "EXCEPT_KEY":
        clash = "EXCEPT_KEY says that the value lacks what verify_integrity compares"
        findings.add((*entry.value_path, "fields_include"), f"{clash}; keep one of the two")
        return
    types = {column.name.casefold(): column.type for column in entry.value_columns or ()}
    if types and not {name.casefold() for name in key.fields} & set(types):
        findings.add(verify, "no field of the key is in value.schema, so nothing can differ; add it there")
    # without a prefix they are one column, checked as such
    for column in (entry.key_columns or ()) if key.prefix or key.into else ():
        value_type = types.get(column.name.casefold(), column.type)
        if column.name in key.fields and value_type != column.type:
            clash = f"verify_integrity cannot compare {column.name}: {column.type} here, {value_type} in value.schema"
            findings.add((*entry.key_path, "schema"), f"{clash}; use one type")


def _check_columns_of_table(entry: TableEntry) -> None:
    table = entry.table
    in_value = set(entry.value_types or ())
    record_names = in_value | set(entry.own_key_names)
    _check_metadata_names(entry, record_names)
    staged_columns = in_value - {name.casefold() for name in entry.left_out} | set(entry.metadata_words)
    if in_value and not staged_columns and table.select is None:
        problem = "leaves no column of the value, and a staged row needs one; name another in value.schema, or use ALL"
        entry.findings.add((*entry.value_path, "fields_include"), problem)
    record_columns, _ = entry.find_record_columns()
    struct = to_struct((*RECORD_COLUMNS, *(declared.column for declared in record_columns)))
    # what records make is no column before some record has made it
    is_known = entry.value_columns is not None or entry.value.unknown_fields == "add"
    known_columns = record_names | set(entry.metadata_words)
    if is_known and table.route is not None:
        _check_route_field(entry, table.route.field, staged_columns | PLACE_COLUMNS, struct)
    if is_known:
        _check_conditions(entry, known_columns | PLACE_COLUMNS, struct)
    columns = check_select(entry, known_columns if entry.value_columns is not None else None)
    check_types_of_select(entry, struct)
    if is_known:
        _check_layout(entry, (columns or known_columns) | {name.casefold() for name in entry.history_names})


def _check_metadata_names(entry: TableEntry, record_names: set[str]) -> None:
    used_names = set[str]()
    for column in entry.model.source.metadata:
        path: KeyPath = ("source", "metadata", column)
        if column.casefold() in record_names:
            problem = f"{entry.table.name} has a column of this name already; choose another"
            entry.findings.add(path, problem)
        if not column:
            entry.findings.add(path, "a column has a name; give one")
        if column.casefold() in used_names:
            entry.findings.add(path, "differs from another one only in case; choose another name")
        used_names.add(column.casefold())


def _check_route_field(entry: TableEntry, field: str, known_columns: set[str], record: Struct) -> None:
    steps = split_name_or_path(field)
    if steps[0].casefold() not in known_columns:
        entry.add(("route", "field"), f"not a column of the value; {suggest_closest(steps[0], known_columns)}")
    elif isinstance(problem := find_type(record, steps, in_expression=True), str):
        entry.add(("route", "field"), problem)


def _check_conditions(entry: TableEntry, known_columns: set[str], record: Struct) -> None:
    for word, condition in (("when", entry.table.when), ("delete_when", entry.table.delete_when)):
        if condition is None:
            continue
        if kind := _find_other_type(record, condition):
            entry.add(word, f"{kind}, and a condition is true or false; compare it, e.g. with = or IS NULL")
        for steps in find_condition_paths(condition):
            if steps[0].casefold() not in known_columns:
                problem = f"{steps[0]} is not a column of the record; {suggest_closest(steps[0], known_columns)}"
                entry.add(word, problem)
            elif isinstance(found := find_type(record, steps, in_expression=True), str):
                entry.add(word, f"{'.'.join(steps)}: {found}")


def _find_other_type(record: Struct, condition: str) -> str | None:
    """The type of a condition that is just a column, and no BOOLEAN; None for any other."""
    is_column = re.fullmatch(PATH_REGEX, condition.strip())
    data_type = find_type(record, split_path(condition)) if is_column else None
    if data_type is None or isinstance(data_type, str) or data_type in (Primitive("BOOLEAN"), Primitive(UNKNOWN_TYPE)):
        return None
    return format_type(data_type)


def _check_layout(entry: TableEntry, columns: set[str]) -> None:
    for index, text in enumerate(entry.table.create.partition_by):
        match = PARTITION_PATTERN.fullmatch(text.strip())
        path = ("create", "partition_by", index)
        if match is None:
            entry.add(path, f"not a partition; {PARTITION_EXAMPLE}")
        else:
            _check_known(entry, next(group for group in match.groups() if group), columns, path)
    for index, name in enumerate(entry.table.create.cluster_by):
        _check_known(entry, unquote_path(name), columns, ("create", "cluster_by", index))


def _check_known(entry: TableEntry, name: str, columns: set[str], path: KeyPath) -> None:
    undeclared_columns = (column for destination in DESTINATIONS.values() for column in destination.partition_columns)
    known_columns = columns | {column.casefold() for column in undeclared_columns}  # judged by the one that has them
    own_name = unquote(name.strip())
    steps = split_path(name)
    is_field = len(steps) > 1 and steps[0].casefold() in columns
    if own_name.casefold() not in known_columns and not is_field:
        entry.add(path, f"{own_name} is not a column of the table; {suggest_closest(own_name, columns)}")
