"""Checks of the columns, the key and the records of a pipeline against its table, before a batch is merged.

Spark reads UUIDs as text, and knows neither bytes of one length nor a maximum length. One value that does not fit would
fail the merge of its whole batch, so each value is checked while it is staged; one that fails makes its record bad.
"""

import json
from collections.abc import Iterable, Iterator

from tidegate.errors import ConfigurationError, GiveUp, IncompatibleSchema
from tidegate.model import resource_names
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import FolderLimit, TableState
from tidegate.schema.data_types import (
    MAX_PRECISION,
    PRIMITIVE_NAMES,
    UUID_FORM,
    Array,
    Column,
    DataType,
    Map,
    MaxLength,
    Primitive,
    Struct,
    format_type,
    has_leaf,
    parse_type,
)
from tidegate.schema.evolution import (
    ELEMENT,
    VALUE,
    ChangeKind,
    EvolutionRules,
    Path,
    find_own_path,
    find_schema_changes,
    replace_map_types,
    to_struct,
)
from tidegate.spec.table import DeleteMode, Table, TableMode
from tidegate.sql.spark import quote, quote_name, render_literal
from tidegate.table.columns import find_key_field, list_key_columns, list_key_leaves, list_staged_columns
from tidegate.table.session import TableSession


def check_filled(table: TableSession, deciding: Iterable[str]) -> None:
    """Raise `IncompatibleSchema` if a column that finds or decides rows was dropped and added again, empty."""
    state = table.require_state()
    # each key would get a second row, or an older record would win
    for path in (*list_key_leaves(table.resolved), *((name,) for name in deciding)) if state.emptied_columns else ():
        own_path = find_own_path(state.struct, path)
        if own_path in state.emptied_columns:
            raise IncompatibleSchema(
                f"{table.prefix} column={'.'.join(own_path)}: somebody has dropped it and "
                "added it again, so its earlier rows have NULL there: records would not find them, or older records "
                "would overwrite them; nothing was written; fill it in all rows, e.g. from an older snapshot of the "
                "table, or write to another table"
            )


KEY_PROPERTY = "key"
DECIDED_BY_PROPERTY = "decided-by"
ROW_MARKS_PROPERTY = "row-marks"


def check_compatible(table: TableSession, ranges: Ranges) -> None:
    """Raise `IncompatibleSchema`, with the first offset of the batch, before anything is read or written."""
    if table.state is None:
        return
    check_mergeable(table)
    spec = table.resolved
    state = table.state
    rules = EvolutionRules(spec.add_columns, spec.widen, spec.relax)
    try:
        columns = table.columns if state.has_maps else replace_map_types(table.columns)
        find_schema_changes(table.name, state.struct, columns, rules)
    except IncompatibleSchema as error:
        busy = [(topic, partition, start) for topic, partition, start, end in ranges if end > start]
        first = "; the first record that it concerns: topic={} partition={} offset={}".format(*busy[0]) if busy else ""
        raise IncompatibleSchema(f"pipeline={table.pipeline.name} {error}{first}") from None


def check_is_destination(place: str, state: TableState | None) -> None:
    """Raise `GiveUp` if the destination is a table that the product made for itself."""
    if state is not None and state.kind:
        raise GiveUp(
            f"{place}: the table is one of Tidegate's own, kind={state.kind}, of another pipeline or destination; "
            "nothing was changed; rename this destination in the pipeline file"
        )


def check_mergeable(table: TableSession) -> None:
    """Raise `IncompatibleSchema` if names are ambiguous, the key finds no rows any more, or Iceberg cannot merge."""
    spec = table.resolved
    state = table.require_state()
    _check_spelled_alike(table)
    check_key_unchanged(table)
    if spec.mode == TableMode.APPEND:
        return
    if state.takes_any_schema:
        name = "write.spark.accept-any-schema"
        raise IncompatibleSchema(
            f"{table.prefix} {name}=true: Spark finds no column of a merge into a table with this property, which is "
            "for writers that append with mergeSchema; nothing was written; run ALTER TABLE "
            f"{quote_name(table.name)} UNSET TBLPROPERTIES ('{name}'), or write to another table"
        )
    columns = (*state.columns, *table.columns)
    # Iceberg has columns of its own in Spark, and knows no type for a partition without its column
    reserved_column = next(
        (column.name for column in columns if column.name.casefold() in state.reserved_columns), None
    )
    if reserved_column is not None:
        raise IncompatibleSchema(
            f"{table.prefix} column={reserved_column}: Iceberg keeps this name for a "
            "column of its own in Spark, and cannot merge into a table that has it too; nothing was written; give the "
            "column another name, by select, in metadata or as deleted_column, or rename it in the table"
        )
    if state.dropped_partition and not state.rewrites_files:
        raise IncompatibleSchema(
            f"{table.prefix} partition={state.dropped_partition}: the column of a "
            "partition that the table has, or had, was dropped, and Iceberg cannot merge on read there any more; "
            "nothing was written; set write.merge.mode of the table to copy-on-write, or write to another table"
        )


def _check_spelled_alike(table: TableSession) -> None:
    state = table.require_state()
    declared_struct = to_struct(table.columns)
    for path, own_path in _list_own_paths(declared_struct, state.struct):
        declared_name = path[-1]
        table_name = own_path[-1]
        # Spark compares lower(), where ß is not ss
        if declared_name.casefold() == table_name.casefold() and declared_name.lower() != table_name.lower():
            raise IncompatibleSchema(
                f"{table.prefix} column={'.'.join(path)}: the table has "
                f"{'.'.join(own_path)}, which differs in more than case, and nobody can tell whether one column is "
                "meant; nothing was written; write the name alike in the pipeline file, or rename one of the two"
            )


def build_row_properties(table: TableSession) -> dict[str, str]:
    spec = table.resolved
    if not spec.key.fields:
        return {}
    key_properties = {
        KEY_PROPERTY: [[c.name, c.type, c.nullable] for c in _list_declared_key(spec)],
        DECIDED_BY_PROPERTY: _list_deciding(spec),
        ROW_MARKS_PROPERTY: _list_marks(spec),
    }
    pipeline = table.pipeline.name
    return {
        resource_names.name_pipeline_property(pipeline, name): json.dumps(value)
        for name, value in key_properties.items()
        if value
    }


def _list_deciding(table: Table) -> list[str]:
    return [*table.sequence_by, *(sequence for sequence, _ in table.sequence_groups), *_list_marks(table)]


def _list_marks(table: Table) -> list[str]:
    # columns that no record fills
    flag = (table.deleted_column,) if table.deletes == DeleteMode.SOFT else ()
    return [*flag, *(table.history.columns if table.history else ())]


def check_key_unchanged(table: TableSession) -> None:
    """Raise `IncompatibleSchema` if existing rows could no longer be found by the key.

    A key may gain nullable columns, relax required ones and widen.
    """
    spec = table.resolved
    state = table.require_state()
    _check_names_kept(table)
    _check_marks_kept(table)
    _check_history_is_begun(table)
    has_rows = state.snapshot_id is not None and state.total_records != 0
    if has_rows and spec.topic_column.casefold() not in {"", *(column.name.casefold() for column in state.columns)}:
        raise IncompatibleSchema(
            f"{table.prefix} column={spec.topic_column}: the topic is a part of the key, and the table's rows have no "
            "column for it, so they would never be found; nothing was written; write to another table"
        )
    mark = state.marks.get(resource_names.name_pipeline_property(table.pipeline.name, KEY_PROPERTY))
    if mark is None or spec.mode == TableMode.APPEND:
        return
    before = [Column(*column) for column in json.loads(mark)]
    now = _list_declared_key(table.resolved)
    if has_rows:
        _check_key_there(table, before)
        _check_deciding_there(table)
        check_filled(table, _list_deciding(table.resolved))
    previous_columns = {column.name.casefold(): column for column in before}
    for column in now:
        old = previous_columns.pop(column.name.casefold(), None)
        if old is None and not column.nullable:
            raise _describe_key_change(table, f"column={column.name} is new and required: earlier rows have none")
        if old is None and spec.upsert and state.struct.identifier_fields:
            fields = ", ".join(sorted(state.struct.identifier_fields))
            raise IncompatibleSchema(
                f"{table.prefix} column={column.name}: it is new in the key, and the table's identifier fields "
                f"{fields} would name several rows; nothing was written; drop them with ALTER TABLE … DROP IDENTIFIER "
                "FIELDS, or set the key back"
            )
        if old is not None:
            _check_column(table, old, column)
    if previous_columns:
        dropped_names = ", ".join(column.name for column in previous_columns.values())
        raise _describe_key_change(table, f"column={dropped_names} is no longer part of it")


def _check_names_kept(table: TableSession) -> None:
    spec = table.resolved
    state = table.require_state()
    declared_fields = to_struct(table.columns).fields
    keys = {name.casefold() for name in spec.key_columns} if spec.remembers else set[str]()
    named_columns = {
        name: kind for name, kind in declared_fields if spec.history is not None or name.casefold() in keys
    }
    ordered_fields = {name: Primitive("") for name in spec.sequence_by if name not in named_columns}
    for path, own_path in _list_own_paths(Struct(tuple((ordered_fields | named_columns).items())), state.struct):
        if own_path[-1].casefold() != path[-1].casefold():
            raise IncompatibleSchema(
                f"{table.prefix} column={'.'.join(own_path)}: somebody renamed it in the table, from "
                f"{'.'.join(path)}, and with sequence_by or history such a column keeps its name; nothing was written; "
                "rename it back in the table (ALTER TABLE … RENAME COLUMN), or use its new name in the pipeline file "
                "and in the records"
            )


def _list_own_paths(
    declared_type: DataType, own_type: DataType, above: Path = (), at: Path = ()
) -> Iterator[tuple[Path, Path]]:
    match declared_type, own_type:
        case Struct(), Struct():
            types = dict(own_type.fields)
            for name, inner in declared_type.fields:
                own_name = own_type.find_name(name)
                if own_name is not None:
                    yield (*above, name), (*at, own_name)
                    yield from _list_own_paths(inner, types[own_name], (*above, name), (*at, own_name))
        case Array(), Array():
            yield from _list_own_paths(declared_type.element, own_type.element, (*above, ELEMENT), (*at, ELEMENT))
        case Map(), Map():
            yield from _list_own_paths(declared_type.value, own_type.value, (*above, VALUE), (*at, VALUE))


def _check_key_there(table: TableSession, before: list[Column]) -> None:
    state = table.require_state()
    key = to_struct(before)
    existing_paths = {path for path, _ in _list_own_paths(key, state.struct)}
    # somebody has dropped a part of the key, or renamed it in a table without a name mapping
    missing = [path for path, _ in _list_own_paths(key, key) if path not in existing_paths]
    if missing:
        raise IncompatibleSchema(
            f"{table.prefix} column={'.'.join(missing[0])}: the table has it no more, and its rows were written by "
            "this part of the key: it was dropped, or renamed in a table without a name mapping; nothing was written; "
            "rename it back, or add it and fill it in all rows, or write to another table"
        )


def _check_deciding_there(table: TableSession) -> None:
    state = table.require_state()
    written_with = _read_names(table, DECIDED_BY_PROPERTY)
    for name in _list_deciding(table.resolved):
        # it would be added as NULL, to which any record is newer
        if name.casefold() in written_with and state.struct.find_name(name) is None:
            raise IncompatibleSchema(
                f"{table.prefix} column={name}: the table has it no more, and existing rows were written with it: with "
                "NULL in its place older records would overwrite them, or deleted rows come back; nothing was "
                "written; add it and fill it in all rows, or write to another table"
            )


def _read_names(table: TableSession, mark: str) -> dict[str, str]:
    mark_property = resource_names.name_pipeline_property(table.pipeline.name, mark)
    names = json.loads(table.require_state().marks.get(mark_property, "[]"))
    return {name.casefold(): name for name in names}


def _check_marks_kept(table: TableSession) -> None:
    spec = table.resolved
    state = table.require_state()
    if spec.mode == TableMode.APPEND or state.snapshot_id is None or state.total_records == 0:
        return
    mark_columns = {state.struct.find_name(name) for name in _list_marks(table.resolved)}
    for name in _read_names(table, ROW_MARKS_PROPERTY).values():
        # a row that is marked as deleted would stay so when it comes back
        if (own_name := state.struct.find_name(name)) is not None and own_name not in mark_columns:
            raise IncompatibleSchema(
                f"{table.prefix} column={own_name}: existing rows were written with "
                "it, and this file sets it no more: rows that are marked as deleted would stay so when they come back, "
                "or lose their mark, and versions of a key be overwritten; nothing was written; set deletes, "
                "deleted_column and history back, or rename it in the table to the name that the file has now, or "
                "delete the rows that are not current and drop it, or write to another table"
            )


def _check_history_is_begun(table: TableSession) -> None:
    spec = table.resolved
    state = table.require_state()
    has_rows = state.recorded_position is not None if state.total_records is None else state.total_records != 0
    if spec.history is None or state.snapshot_id is None or not has_rows:
        return
    written_with = _read_names(table, DECIDED_BY_PROPERTY)
    missing = [name for name in spec.history.columns if state.struct.find_name(name) is None]
    # a row without a begin is no version: each change of its key would add it once more
    if missing and not any(name.casefold() in written_with for name in missing):
        raise IncompatibleSchema(
            f"{table.prefix} column={missing[0]}: the table has rows, and none says since "
            "when it holds, as rows of history do; nothing was written; add the columns "
            f"{', '.join(missing)} and fill them, or write to another table"
        )


def check_same_fields(table: str, state: TableState, columns: tuple[Column, ...]) -> None:
    current_types = dict(state.struct.fields)
    for name, expected_type in to_struct(columns).fields:
        current = current_types.get(state.struct.get_own_name(name))
        if (
            isinstance(expected_type, Struct)
            and isinstance(current, Struct)
            and _list_field_names(expected_type) != _list_field_names(current)
        ):
            raise IncompatibleSchema(
                f"table={table} column={name}: incompatible change from type={format_type(current)} to "
                f"type={format_type(expected_type)}"
            )


def _list_field_names(struct: Struct) -> list[str]:
    return [name.casefold() for name, _ in struct.fields]


def _check_column(table: TableSession, old: Column, new: Column) -> None:
    change = f"column={new.name} from type={_describe_column(old)} to type={_describe_column(new)}"
    if old.nullable and not new.nullable:
        raise _describe_key_change(table, change)
    try:
        changes = find_schema_changes(
            table.name, to_struct([Column(old.name, old.type)]), [Column(new.name, new.type)], EvolutionRules()
        )
    except IncompatibleSchema:
        raise _describe_key_change(table, change) from None
    if any(change.kind is ChangeKind.ADD for change in changes):
        raise _describe_key_change(table, change)


def _describe_column(column: Column) -> str:
    return column.type if column.nullable else f"{column.type} NOT NULL"


def _describe_key_change(table: TableSession, change: str) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"{table.prefix}: incompatible change of the key: {change}; nothing was written; "
        "a key may gain nullable columns, relax and widen; set it back, or write to another table"
    )


def _list_declared_key(table: Table) -> list[Column]:
    declared_columns = (*(table.value.columns or ()), *(table.key.columns or ()))
    required_names = {table.key.prefix + c.name for c in declared_columns if not c.nullable} | {table.topic_column}
    return [Column(c.name, c.type, c.name not in required_names) for c in list_key_columns(table)]


UUID_PATTERN = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"
Limit = tuple[str, str]  # a reason that begins with the column's name, and SQL that is true where it holds


def check_adopted_types(declared_table: Table, table: Table) -> None:
    """Raise `ConfigurationError` if a column is taken from the destination, and Spark cannot hold its values."""

    def is_unknown(leaf: Primitive) -> bool:
        precision, _ = leaf.decimal or (0, 0)
        return precision > MAX_PRECISION or (leaf.decimal is None and leaf.name not in PRIMITIVE_NAMES)

    adopted = table.value.columns if declared_table.value.columns is None else None
    for column in adopted or ():
        if has_leaf(parse_type(column.type), is_unknown):
            raise ConfigurationError(
                f"table={table.name} column={column.name}: records cannot be read as its type={column.type}, and "
                "value.schema is left out; nothing was read; write value.schema, with the columns that records fill, "
                "and give this one a type that goes into the table's, or leave it out"
            )


def list_key_limits(table: Table, folder_limits: Iterable[FolderLimit] = ()) -> tuple[Limit, ...]:
    target = table.target_schema
    types = dict(target.fields) if target is not None else {}
    limits = list[Limit]()
    columns = list_key_columns(table) if table.key.fields else ()
    for column in (c for c in columns if c.name != table.topic_column):  # its limits are those of the value
        field = find_key_field(table, column.name)
        expr = "key_struct" if field is None else f"key_struct.{quote(field)}"
        kind = parse_type(column.type)
        own_name = target.get_own_name(column.name) if target is not None else column.name
        if own_name in types:
            limits += _list_limits(expr, kind, types[own_name], column.name)
        limits += _list_folder_limits(expr, kind, (own_name,), folder_limits)
    return tuple(limits)


def list_value_limits(table: Table, folder_limits: Iterable[FolderLimit] = ()) -> tuple[Limit, ...]:
    target = table.target_schema
    staged_schema = to_struct(list_staged_columns(table))
    limits = [] if target is None else [*_list_field_limits("value_struct", staged_schema, target, "")]
    for name, kind in staged_schema.fields:
        own_name = target.get_own_name(name) if target is not None else name
        limits += _list_folder_limits(f"value_struct.{quote(name)}", kind, (own_name,), folder_limits)
    return tuple(limits)


def _list_folder_limits(
    expr: str, kind: DataType, path: tuple[str, ...], folder_limits: Iterable[FolderLimit]
) -> Iterator[Limit]:
    if isinstance(kind, Struct):
        for name, inner in kind.fields:
            yield from _list_folder_limits(f"{expr}.{quote(name)}", inner, (*path, name), folder_limits)
    if not isinstance(kind, Primitive) or kind.name not in ("STRING", "BINARY"):
        return
    own_path = [name.casefold() for name in path]
    for limit in folder_limits:
        if [name.casefold() for name in limit.column] == own_path:
            counted = expr if limit.width is None else f"substring({expr}, 1, {limit.width})"
            text = counted if kind.name == "STRING" else f"base64({counted})"
            yield (
                f"{'.'.join(path)}: its value names the folder of a partition, and is too long for that: "
                f"limit={limit.max_bytes} bytes, percent-encoded",
                f"octet_length({expr}) * 4 > {limit.max_bytes} AND length(url_encode({text})) > {limit.max_bytes}",
            )


def _list_field_limits(expr: str, staged_struct: Struct, target: Struct, above: str, depth: int = 0) -> Iterator[Limit]:
    types = dict(target.fields)
    for name, kind in staged_struct.fields:
        own_name = target.find_name(name)
        if own_name is not None:
            yield from _list_limits(f"{expr}.{quote(name)}", kind, types[own_name], f"{above}{name}", depth)


def _list_limits(expr: str, staged_type: DataType, target: DataType, name: str, depth: int = 0) -> Iterator[Limit]:
    each = f"e{depth}"
    match staged_type, target:
        case Struct(), Struct():
            yield from _list_field_limits(expr, staged_type, target, f"{name}.", depth)
        case Array(), Array():
            yield from _list_each(expr, each, _list_limits(each, staged_type.element, target.element, name, depth + 1))
        case Map(), Map():
            inner = _list_limits(each, staged_type.value, target.value, name, depth + 1)
            yield from _list_each(f"map_values({expr})", each, inner)
        case Map(), Array(Struct() as entry):
            types = dict(entry.fields)
            for part, item in (("key", staged_type.key), ("value", staged_type.value)):
                if (own_name := entry.find_name(part)) is not None:
                    inner = _list_limits(each, item, types[own_name], name, depth + 1)
                    yield from _list_each(f"map_{part}s({expr})", each, inner)
        case Primitive("STRING" | "BINARY" as kind), Primitive(form=MaxLength(limit)):
            function, unit = ("char_length", "characters") if kind == "STRING" else ("octet_length", "bytes")
            yield (
                f"{name}: longer than {limit} {unit}, which the table's column allows",
                f"{function}({expr}) > {limit}",
            )
        case Primitive("STRING"), Primitive() if target.form == UUID_FORM:
            yield (
                f"{name}: not a UUID, which the table's column holds",
                f"NOT {expr} RLIKE {render_literal(UUID_PATTERN)}",
            )
        case Primitive("BINARY"), Primitive() if isinstance(target.form, int):
            reason = f"{name}: not {target.form} bytes, which the table's column holds"
            yield reason, f"octet_length({expr}) <> {target.form}"


def _list_each(values: str, each: str, limits: Iterable[Limit]) -> Iterator[Limit]:
    return ((reason, f"exists({values}, {each} -> coalesce({sql}, false))") for reason, sql in limits)
