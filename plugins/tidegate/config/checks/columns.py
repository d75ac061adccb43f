"""Checks that the columns a record turns into fit together, those of partitions included."""

import re
from collections.abc import Iterable, Mapping

from tidegate.config.checks.formats import check_times_of_key
from tidegate.config.checks.select import check_select, check_types_of_select
from tidegate.config.checks.source import check_key_columns, check_value
from tidegate.config.destinations.declared_columns import UNKNOWN_TYPE, find_record_columns, find_type
from tidegate.config.destinations.registry import DESTINATIONS
from tidegate.config.models.formats import KeyModel, ValueModel
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.ddl import find_condition_paths, parse_columns
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.formats.registry import get_format
from tidegate.schema.data_types import PRIMITIVE_NAMES, Column, DataType, Primitive, Struct, format_type
from tidegate.schema.evolution import to_struct
from tidegate.spec.projection import RECORD_FIELDS
from tidegate.sql.spark import STEP_REGEX, split_name_or_path, split_path, unquote, unquote_path
from tidegate.table.columns import find_key_names


def check_into(key: KeyModel, into: str, in_value: Mapping[str, Column], path: KeyPath, findings: Problems) -> None:
    """Whether `key.into` can be a column of its own."""
    if not into.strip():
        findings.add(path, "empty; name the struct column, or leave it out")
    if not key.fields:
        findings.add(path, "nothing to put into it; give key.fields, the fields of the struct")
    if key.prefix:
        findings.add(path, "key.prefix has no meaning for the fields of one struct; keep one of the two")
    if into.casefold() in in_value:
        findings.add(path, f"{in_value[into.casefold()].name} is a column of the value too; choose another name")


def check_source_of_key(
    key: KeyModel, value: ValueModel, columns: tuple[Column, ...] | None, path: KeyPath, findings: Problems
) -> None:
    """Problems of `key.from`; `columns` are the value's, None where they are not declared."""
    from_path = (*path, "from")
    if key.from_ == "record":
        if "from_" in key.model_fields_set and get_format(value.format).holds_several_rows:
            rows = f"messages of format {value.format} hold rows, and the key is taken from each"
            findings.add(from_path, f"{rows}; write value, or leave it out")
        return
    if not key.fields:
        findings.add(from_path, "no field to take from the value; give key.fields")
    for word in sorted(key.model_fields_set & {"format", "json_", "avro", "protobuf", "csv"}):
        findings.add((*path, word.rstrip("_")), "the record's key is not read with key.from: value; leave it out")
    if get_format(value.format).only_column is not None:
        findings.add(from_path, f"a value of format {value.format} has no fields; use another format, or from: record")
    if value.fields_include == "EXCEPT_KEY":
        findings.add(
            from_path, "value.fields_include: EXCEPT_KEY says that the value lacks the key; keep one of the two"
        )
    if get_format(value.format).is_positional:
        names = {column.name for column in columns or ()}
        for index, name in enumerate(key.fields if columns is not None else ()):
            if name not in names:
                findings.add((*path, "fields", index), "not a column of value.schema, where key.from looks for it")


def check_integrity(key: KeyModel, value: ValueModel, paths: tuple[KeyPath, KeyPath], findings: Problems) -> None:
    """`verify_integrity` needs a field in key and value, of one type."""
    verify: KeyPath = ("source", "verify_integrity")
    if not key.fields:
        findings.add(verify, "there is no key to compare with the value; give key.fields, or leave it out")
        return
    if key.from_ == "value":
        findings.add(verify, "key.from: value takes the key from the value, so nothing can differ; keep one of the two")
        return
    if value.fields_include == "EXCEPT_KEY":
        clash = "EXCEPT_KEY says that the value lacks what verify_integrity compares"
        findings.add((*paths[1], "fields_include"), f"{clash}; keep one of the two")
        return
    types = {column.name: column.type for column in _try_parse_columns(value.schema_)}
    if types and not set(key.fields) & set(types):
        findings.add(verify, "no field of the key is in value.schema, so nothing can differ; add it there")
    for column in (
        _try_parse_columns(key.schema_) if key.prefix or key.into else ()
    ):  # else they are one column, checked as such
        value_type = types.get(column.name, column.type)
        if column.name in key.fields and value_type != column.type:
            clash = f"verify_integrity cannot compare {column.name}: {column.type} here, {value_type} in value.schema"
            findings.add((*paths[0], "schema"), f"{clash}; use one type")


def _try_parse_columns(ddl: str | None) -> tuple[Column, ...]:
    try:
        return parse_columns(ddl) if ddl is not None else ()
    except ValueError:
        return ()  # said where the schema is checked


COLUMN_REGEX = rf"\s*((?:{STEP_REGEX})(?:\.(?:{STEP_REGEX}))*)\s*"
PARTITION_PATTERN = re.compile(
    rf"(?:(?:years?|months?|days?|hours?)\({COLUMN_REGEX}\)|(?:bucket|truncate)\(\s*[1-9]\d*\s*,{COLUMN_REGEX}\)|{COLUMN_REGEX})",
    re.IGNORECASE,
)
ColumnsByName = dict[str, Column]
RECORD_COLUMNS = tuple(Column(field.name, field.type) for field in RECORD_FIELDS)
PARTITION_EXAMPLE = "write a column, days(c), hours(c), bucket(16, c) or truncate(8, c), in quotes"


def check_columns(model: PipelineModel, findings: Problems) -> None:
    """Clashes of columns, for each table with the key and value that feed it."""
    check_key_columns(model.source.key, ("source", "key"), findings)
    check_value(model.source.value, ("source", "value"), findings, model.source.metadata)
    for index, table in enumerate(model.tables):
        _check_table(model, table, ("tables", index), findings)


def _check_table(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    key, key_path = (table.key, (*path, "key")) if table.key else (model.source.key, ("source", "key"))
    value, value_path = (table.value, (*path, "value")) if table.value else (model.source.value, ("source", "value"))
    if value.fields_include == "EXCEPT_KEY" and not key.fields:
        findings.add((*value_path, "fields_include"), "there is no key to leave out; give key.fields or use ALL")
    key_columns = check_key_columns(key, key_path, findings)
    value_columns = check_value(value, value_path, findings, model.source.metadata)
    check_times_of_key(key, value, value_path, findings)
    in_value = {column.name.casefold(): column for column in value_columns or ()}
    _check_key_columns(key, key_columns, in_value, key_path, findings)
    _check_key_types(key, value_columns, key_path, findings)
    check_source_of_key(key, value, value_columns, key_path, findings)
    if model.source.verify_integrity:
        check_integrity(key, value, (key_path, value_path), findings)
    record_names = set(in_value) | _list_key_names(key)
    _check_metadata_names(model, table.name, record_names, findings)
    metadata_columns = {name.casefold() for name in model.source.metadata}
    staged_columns = set(in_value) - _find_left_out(key, key_columns, value) | metadata_columns
    if value_columns and not staged_columns and table.select is None:
        problem = "leaves no column of the value, and a staged row needs one; name another in value.schema, or use ALL"
        findings.add((*value_path, "fields_include"), problem)
    record_columns, _ = find_record_columns(model, table, path)
    struct = to_struct((*RECORD_COLUMNS, *(declared.column for declared in record_columns)))
    # what records make is no column before some record has made it
    is_known = value_columns is not None or value.unknown_fields == "add"
    if is_known and table.route is not None:
        _check_route_field(table.route.field, staged_columns, struct, path, findings)
    known_columns = record_names | {name.casefold() for name in model.source.metadata}
    if is_known:
        _check_conditions(table, known_columns, struct, path, findings)
    topic_column = table.find_topic_in_key(model.source.metadata)
    keys = _list_key_names(key) | ({topic_column.casefold()} if topic_column else set())
    columns = check_select(table, known_columns if value_columns is not None else None, keys, path, findings)
    check_types_of_select(table, struct, path, findings)
    if is_known:
        versions = set(table.history_columns.model_dump().values()) if table.history == "scd2" else set()
        _check_layout(table, (columns or known_columns) | {name.casefold() for name in versions}, path, findings)


def _find_left_out(key: KeyModel, key_columns: Iterable[Column] | None, value: ValueModel) -> set[str]:
    if value.fields_include != "EXCEPT_KEY":
        return set()
    stated = [column.name for column in key_columns or ()]
    return {name.casefold() for name in find_key_names(key.fields, key.prefix, key.into, stated)}


def _check_metadata_names(model: PipelineModel, table: str, record_names: set[str], findings: Problems) -> None:
    metadata_names: set[str] = set()
    for column in model.source.metadata:
        if column.casefold() in record_names:
            message = f"{table} has a column of this name already; choose another"
            findings.add(("source", "metadata", column), message)
        if not column:
            findings.add(("source", "metadata", column), "a column has a name; give one")
        if column.casefold() in metadata_names:
            findings.add(("source", "metadata", column), "differs from another one only in case; choose another name")
        metadata_names.add(column.casefold())


def _check_key_columns(
    key: KeyModel,
    declared_columns: tuple[Column, ...] | None,
    in_value: ColumnsByName,
    path: KeyPath,
    findings: Problems,
) -> None:
    if key.into is not None:
        check_into(key, key.into, in_value, (*path, "into"), findings)
        return
    # a value column of a key column's name is that column: it needs that type, unless the key has a prefix
    types = {column.name: column.type for column in declared_columns or ()}
    for name in key.fields:
        same_column = in_value.get((key.prefix + name).casefold())
        if same_column and same_column.name != key.prefix + name:
            problem = (
                f"{key.prefix + name} and the value's {same_column.name} differ only in case, and no table holds both"
            )
            findings.add((*path, "fields"), f"{problem}; write them alike, or use key.prefix")
        elif same_column and key.prefix:
            findings.add((*path, "prefix"), f"{same_column.name} is a column of the value too; choose another prefix")
        elif same_column and types.get(name, same_column.type) != same_column.type:
            clash = f"{name} is {types[name]} here and {same_column.type} in value.schema, but one column"
            findings.add((*path, "schema"), f"{clash}; use one type, or key.prefix")


def _check_key_types(key: KeyModel, in_value: tuple[Column, ...] | None, path: KeyPath, findings: Problems) -> None:
    has_registry = key.json_ is not None and key.json_.registry is not None
    is_described = get_format(key.format).describes_itself or has_registry
    if key.schema_ is not None or is_described or in_value is None:
        return
    names = {column.name for column in in_value}
    for index, name in enumerate(key.fields):
        if name not in names:
            findings.add((*path, "fields", index), "has no type: it is not in value.schema, and there is no key.schema")


def _list_key_names(key: KeyModel) -> set[str]:
    if key.into is not None:
        return {key.into.casefold()}
    return {(key.prefix + name).casefold() for name in key.fields}


def _check_layout(table: TableModel, columns: set[str], path: KeyPath, findings: Problems) -> None:
    for index, text in enumerate(table.create.partition_by):
        match = PARTITION_PATTERN.fullmatch(text.strip())
        partition_path = (*path, "create", "partition_by", index)
        if match is None:
            findings.add(partition_path, f"not a partition; {PARTITION_EXAMPLE}")
        else:
            _check_known(next(group for group in match.groups() if group), columns, partition_path, findings)
    for index, name in enumerate(table.create.cluster_by):
        _check_known(unquote_path(name), columns, (*path, "create", "cluster_by", index), findings)


def _check_route_field(field: str, columns: set[str], record: Struct, path: KeyPath, findings: Problems) -> None:
    known_columns = columns | {"topic", "partition", "offset"}
    steps = split_name_or_path(field)
    if steps[0].casefold() not in known_columns:
        findings.add(
            (*path, "route", "field"), f"not a column of the value; {suggest_closest(steps[0], known_columns)}"
        )
    elif missing := _find_missing_field(record, steps):
        findings.add((*path, "route", "field"), f"{missing} is no field of a struct; correct it")


def _check_conditions(table: TableModel, columns: set[str], record: Struct, path: KeyPath, findings: Problems) -> None:
    known_columns = columns | {"topic", "partition", "offset"}
    for word, condition in (("when", table.when), ("delete_when", table.delete_when)):
        kind = None if condition is None else _find_other_type(record, condition)
        if kind is not None:
            findings.add((*path, word), f"{kind}, and a condition is true or false; compare it, e.g. with = or IS NULL")
        for steps in find_condition_paths(condition) if condition is not None else ():
            if steps[0].casefold() not in known_columns:
                problem = f"{steps[0]} is not a column of the record; {suggest_closest(steps[0], known_columns)}"
                findings.add((*path, word), problem)
            elif missing := _find_missing_field(record, steps):
                findings.add((*path, word), f"{'.'.join(steps)}: {missing} is no field of a struct; correct it")


def _find_other_type(record: Struct, condition: str) -> str | None:
    """The type of a condition that is just a column, and no BOOLEAN; None for any other."""
    is_column = re.fullmatch(rf"(?:{STEP_REGEX})(?:\.(?:{STEP_REGEX}))*", condition.strip())
    data_type = find_type(record, split_path(condition)) if is_column else None
    if data_type is None or isinstance(data_type, str) or data_type in (Primitive("BOOLEAN"), Primitive(UNKNOWN_TYPE)):
        return None
    return format_type(data_type)


def _find_missing_field(record: Struct, steps: tuple[str, ...]) -> str | None:
    """The first step that leads to nothing; None where that is unknown."""
    data_type: DataType = record
    for step in steps:
        name = data_type.find_name(step) if isinstance(data_type, Struct) else None
        if name is None or not isinstance(data_type, Struct):
            is_known = isinstance(data_type, Struct) or format_type(data_type) in PRIMITIVE_NAMES
            return step if is_known and data_type is not record else None
        data_type = dict(data_type.fields)[name]
    return None


def _check_known(name: str, columns: set[str], path: KeyPath, findings: Problems) -> None:
    undeclared_columns = (column for destination in DESTINATIONS.values() for column in destination.partition_columns)
    known_columns = columns | {column.casefold() for column in undeclared_columns}  # judged by the one that has them
    own_name = unquote(name.strip())
    steps = split_path(name)
    is_field = len(steps) > 1 and steps[0].casefold() in columns
    if own_name.casefold() not in known_columns and not is_field:
        findings.add(path, f"{own_name} is not a column of the table; {suggest_closest(own_name, columns)}")
