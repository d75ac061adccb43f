"""Which columns a destination table has, and from which part of a record each one comes."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.formats.registry import get_format
from tidegate.model.table_state import TableState
from tidegate.schema.data_types import (
    Array,
    Column,
    DataType,
    Map,
    Primitive,
    Struct,
    drop_forms,
    find_full_name_twice,
    format_type,
    parse_type,
)
from tidegate.schema.evolution import add_old_names, to_struct
from tidegate.schema.inferred_types import overlay_columns
from tidegate.schema.wire_format import KEYLESS, OTHER_IDS, PLACES, WIRE
from tidegate.spec.projection import (
    Projection,
    Selected,
    find_derived_columns,
    list_passed_columns,
    list_unusable_columns,
    resolve_projection,
)
from tidegate.spec.source import METADATA_TYPES
from tidegate.spec.table import DeleteMode, Table
from tidegate.sql.spark import quote


def find_retracting_answers(table: Table) -> tuple[str, ...]:
    """Return the answers of `when`, as text, for which a record deletes its key's row."""
    if table.when is None or table.when_false == "ignore":
        return ()
    # in partial updates NULL may only say that the record lacks what the condition reads
    return ("false",) if table.partial_updates else ("false", "null")


def find_grouped(table: Table) -> tuple[str, ...]:
    return tuple(name.casefold() for sequence, columns in table.sequence_groups for name in (sequence, *columns))


def find_sequences(table: Table, columns: Iterable[str]) -> dict[str, str]:
    """Return the sequence column of each grouped column of the destination; `ConfigurationError` if it lacks one."""
    find = build_column_finder(table, "sequence_groups", columns)
    return {find(n): find(sequence) for sequence, members in table.sequence_groups for n in (sequence, *members)}


def build_column_finder(table: Table, setting: str, columns: Iterable[str]) -> Callable[[str], str]:
    """Return a function that finds a name of `setting` among `columns`, without case or under the column's new name.

    It raises `ConfigurationError` if there is no such column.
    """
    get_own_name = table.target_schema.get_own_name if table.target_schema else str
    own_names = {name.casefold(): name for name in columns}

    def find(name: str) -> str:
        column = own_names.get(get_own_name(name).casefold())
        if column is None:
            raise ConfigurationError(
                f"table={table.name}: {name} of {setting} is no column of the table beside its key; there are "
                f"{', '.join(own_names.values())}"
            )
        return column

    return find


MAY_BE_UNCHANGED = (
    *("STRING", "BINARY", "MAP<STRING, STRING>"),
    *(f"ARRAY<{kind}>" for kind in ("STRING", "BINARY", "SMALLINT", "INT", "BIGINT", "DATE")),
)


def resolve_columns(table: Table, state: TableState | None) -> Table:
    """Add what the destination holds to `table`; without a value schema, the destination's columns become it."""
    if state is None:
        return table
    if table.value.adds_columns:
        return _resolve_growing(table, state)
    if table.value.columns is not None or table.select is not None:
        return replace(table, target_schema=state.struct)
    columns = _list_found_columns(table, state)
    return replace(table, value=replace(table.value, columns=columns), target_schema=state.struct)


def _list_found_columns(table: Table, state: TableState) -> tuple[Column, ...]:
    product_names = [*table.metadata, *([table.deleted_column] if table.deletes == DeleteMode.SOFT else [])]
    product_names += [*(table.history.columns if table.history else ()), *([table.key.into] if table.key.into else [])]
    product_columns = {state.struct.find_name(name) for name in product_names}
    own_columns = {c.name: c for c in state.columns}
    fields = add_old_names(state.struct).fields
    # one that was renamed may come under its old names too, and so is required under none
    renamed_columns = {state.struct.find_name(name) for name, _ in fields if name not in own_columns}
    own_columns |= {c.name: replace(c, nullable=True) for c in state.columns if c.name in renamed_columns}
    return tuple(
        _adopt_found_type(own_columns.get(name), name, inner)
        for name, inner in fields
        if state.struct.find_name(name) not in product_columns
    )


def _resolve_growing(table: Table, state: TableState) -> Table:
    found_columns = _list_found_columns(table, state)
    by_name = {column.name.casefold(): column for column in found_columns}
    declared_columns = table.value.columns or ()
    typed_names = {column.name for column in (*declared_columns, *(table.key.columns or ()))}
    untyped_names = [name for name in table.key.fields if name not in typed_names]
    found_types = {name: by_name.get((table.key.prefix + name).casefold()) for name in untyped_names}
    own_names = {table.key.prefix + name for name in table.key.fields} | {column.name for column in declared_columns}
    taken = {name.casefold() for name in own_names}
    columns = (*declared_columns, *(column for column in found_columns if column.name.casefold() not in taken))
    key_columns = (Column(name, column.type) for name, column in found_types.items() if column is not None)
    return replace(
        table,
        key=replace(table.key, columns=(*(table.key.columns or ()), *key_columns)),
        value=replace(table.value, columns=columns),
        target_schema=state.struct,
    )


def list_fixed_names(table: Table) -> tuple[str, ...]:
    """Return the names, case-folded, of what the file names itself: fields of records make no such columns."""
    keys = (*table.key.fields, *(table.key.prefix + name for name in table.key.fields), table.key.into or "")
    own_names = (*table.metadata, table.deleted_column, *(table.history.columns if table.history else ()))
    declared_names = (column.name for column in table.value.columns or ())
    return tuple(sorted({name.casefold() for name in (*keys, *own_names, *declared_names) if name}))


def _adopt_found_type(column: Column | None, name: str, data_type: DataType) -> Column:
    unchanged = column is not None and parse_type(column.type) == drop_forms(data_type)
    return column if column is not None and unchanged else Column(name, format_type(data_type))


def list_key_columns(table: Table) -> tuple[Column, ...]:
    """Return the key as the destination has it: a column for each field, or one struct if `into` names it."""
    flat = list_flat_key_columns(table)
    if table.key.into is None or not flat:
        return (*flat, *_list_topic_columns(table))
    fields = ", ".join(f"{quote(c.name)}: {c.type}" for c in flat)
    return (Column(table.key.into, f"STRUCT<{fields}>"),)


def list_staged_key_columns(table: Table) -> tuple[Column, ...]:
    flat = (Column(c.name.removeprefix(table.key.prefix), c.type) for c in list_flat_key_columns(table))
    return (*flat, *_list_topic_columns(table))


def _list_topic_columns(table: Table) -> tuple[Column, ...]:
    return (Column(table.topic_column, "STRING", nullable=False),) if table.topic_column else ()


def list_flat_key_columns(table: Table) -> tuple[Column, ...]:
    """Return the key's fields with their prefix.

    A type that the key lacks is taken from the value field of that name.
    """
    declared_columns = {c.name: c for c in (*(table.value.columns or ()), *(table.key.columns or ()))}
    missing = [name for name in table.key.fields if name not in declared_columns]
    if missing:
        raise ConfigurationError(
            f"key.fields={missing} of table={table.name} have no type: name them in key.schema or value.schema"
        )
    return tuple(Column(table.key.prefix + name, declared_columns[name].type) for name in table.key.fields)


def list_record_key_columns(table: Table) -> tuple[Column, ...]:
    """Return the key's fields as a record must have them: NOT NULL if `key.schema` says so."""
    # the destination's column may stay nullable, so that its schema need not change for that
    required_names = {c.name for c in table.key.columns or () if not c.nullable}
    flat = zip(table.key.fields, list_flat_key_columns(table), strict=True)
    return tuple(replace(column, nullable=name not in required_names) for name, column in flat)


def list_identifier_columns(table: Table) -> tuple[str, ...]:
    """The key columns of a table that is created, if no two of its rows have one key and no part of a key is missing.

    Iceberg wants identifier fields required, and no fractions. A key in one struct has none.
    """
    columns = (*list_record_key_columns(table), *_list_topic_columns(table))
    has_one_row_a_key = table.upsert and table.history is None and table.key.into is None
    if not has_one_row_a_key or table.create.force_optional:
        return ()
    types = [parse_type(column.type) for column in columns if not column.nullable]
    fit = [kind for kind in types if isinstance(kind, Primitive) and kind.name not in ("FLOAT", "DOUBLE")]
    return tuple(column.name for column in columns) if len(fit) == len(columns) else ()


def list_key_leaves(table: Table) -> tuple[tuple[str, ...], ...]:
    """Return the paths that a key is compared by: key columns, and of structs their fields."""
    return tuple(
        path for c in list_key_columns(table) for path in _iterate_leaves((c.name,), parse_type(c.type), table)
    )


def _iterate_leaves(path: tuple[str, ...], data_type: DataType, table: Table) -> tuple[tuple[str, ...], ...]:
    if isinstance(data_type, Array | Map):
        raise ConfigurationError(
            f"key column={'.'.join(path)} of table={table.name} is an array or a map: rows cannot be found by it; "
            "choose other key.fields"
        )
    if isinstance(data_type, Struct):
        return tuple(leaf for name, inner in data_type.fields for leaf in _iterate_leaves((*path, name), inner, table))
    return (path,)


def list_verified_fields(table: Table) -> tuple[str, ...]:
    key_columns = list_flat_key_columns(replace(table, key=replace(table.key, prefix="")))
    key_types = {c.name.casefold(): c.type for c in key_columns}
    shared_columns = [c for c in list_value_columns(table) if c.name.casefold() in key_types]
    for column in shared_columns:
        key_type = key_types[column.name.casefold()]
        if key_type != column.type:
            raise ConfigurationError(
                f"verify_integrity of table={table.name} cannot compare {column.name}: {key_type} in the key, "
                f"{column.type} in the value; use one type in key.schema and value.schema"
            )
    return tuple(column.name for column in shared_columns)


def list_value_columns(table: Table) -> tuple[Column, ...]:
    columns = table.value.columns
    if table.value.adds_columns:
        columns = overlay_columns(columns or (), table.value.added)
    if columns is None:
        raise ConfigurationError(
            f"value.schema of table={table.name} is missing and there is no table to take it from: add value.schema"
        )
    if table.value.fields_include == "EXCEPT_KEY":
        key = table.key
        left_out = find_key_names(key.fields, key.prefix, key.into, [c.name for c in key.columns or ()])
        return tuple(c for c in columns if c.name not in left_out)
    return columns


def find_key_names(fields: Sequence[str], prefix: str, into: str | None, stated: Collection[str]) -> set[str]:
    """Return the columns that EXCEPT_KEY leaves out of the value: the key's, and fields that only give it a type."""
    of_key = {into} if into is not None else {prefix + name for name in fields}
    return of_key | {name for name in fields if name not in stated}


def list_unavailable_columns(table: Table) -> tuple[str, ...]:
    """Return the value's columns in which the source may leave out, or mark, a value that did not change."""
    leaves_out = get_format(table.value.format).may_leave_out
    # without upsert there is no row whose value can be kept
    if (table.value.unavailable is None and not leaves_out) or not table.upsert:
        return ()
    key_names = {c.name for c in list_key_columns(table)}
    if leaves_out:
        return tuple(c.name for c in list_value_columns(table) if c.name not in key_names)
    return tuple(c.name for c in list_value_columns(table) if c.type in MAY_BE_UNCHANGED and c.name not in key_names)


def stages_kept_columns(table: Table) -> bool:
    is_ordered = bool(table.sequence_by) or table.history is not None
    # NULL says so in partial updates; with an order such a record is bad
    return bool(list_unavailable_columns(table)) and not table.partial_updates and not is_ordered


def find_names_of_columns(table: Table) -> dict[str, tuple[str, ...]]:
    """Return for each value column that comes under several names all of these, the table's own name first."""
    if table.target_schema is None or table.select is not None:
        return {}
    names_by_column: dict[str, list[str]] = {}
    for column in list_value_columns(table):
        own_name = table.target_schema.get_own_name(column.name)
        names_by_column.setdefault(own_name, []).append(column.name)
    several = ((own_name, names) for own_name, names in names_by_column.items() if len(names) > 1)
    ordered = (sorted(names, key=lambda name: name.casefold() != own_name.casefold()) for own_name, names in several)
    return {name: tuple(names) for names in ordered for name in names}


def list_metadata_columns(table: Table) -> tuple[Column, ...]:
    return tuple(Column(name, METADATA_TYPES[key]) for name, key in table.metadata.items())


# options that a registry's versions give: how to read records. A new version changes no row that is staged
VERSION_OPTIONS = {
    *("reader", "writers", "refused", "written", "changed", "shape", "ids", "kinds"),
    *(WIRE, OTHER_IDS, PLACES, KEYLESS),
}


def compute_shape(table: Table) -> str:
    parts = (list_key_columns(table), list_value_columns(table), table.metadata, table.key.format, table.value.format)
    conditions = (table.value.time_rules, str(table.mode), table.when, table.route, table.delete_when)
    updates = (str(table.deletes), table.partial_updates, table.folds_records, list_unavailable_columns(table))
    template = (table.naming.template,) if table.naming else ()
    options = (_list_file_options(table.key.options), _list_file_options(table.value.options))
    text = repr((*parts, *options, *conditions, *updates, *table.sequence_by, *template))
    text += repr([(c.name, c.sql, c.type) for c in _list_selected_columns(table)]) if table.select else ""
    text += repr([d.on for d in table.select.dimensions]) if table.select else ""
    text += repr(table.history) if table.history else ""
    text += " key from value" if table.key.from_value else ""
    text += repr(table.sequence_groups) if table.sequence_groups else ""
    text += repr(find_retracting_answers(table)) if table.when_false == "delete" else ""
    text += " dead letters" if table.errors.max_dead_letters is not None else ""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _list_file_options(options: dict[str, Any]) -> dict[str, Any]:
    if PLACES not in options:  # of no registry
        return options
    return {name: value for name, value in options.items() if name not in VERSION_OPTIONS}


def list_destination_columns(table: Table) -> tuple[Column, ...]:
    """Return the destination's columns in order: the record's, or those that `select` makes, then flag and versions.

    `ConfigurationError` if two names differ only by case.
    """
    data = list_record_columns(table) if table.select is None else list_staged_columns(table)
    flag = (Column(table.deleted_column, "BOOLEAN"),) if table.deletes == DeleteMode.SOFT else ()
    columns = (*data, *flag, *list_version_columns(table))
    names: dict[str, str] = {}
    for column in columns:
        other_name = names.setdefault(column.name.casefold(), column.name)
        if other_name is not column.name:
            raise ConfigurationError(
                f"table={table.name} would have two columns of one name: {other_name} and {column.name}, and names are "
                "compared without case; write them alike, use key.prefix, or choose another name in metadata"
            )
    if twice := find_full_name_twice(to_struct(columns)):
        raise ConfigurationError(
            f"table={table.name} would have {twice} twice, as a column and as a part of one, and no table holds both; "
            "give one of the two another name, e.g. in select"
        )
    return columns


def list_version_columns(table: Table) -> tuple[Column, ...]:
    """Return the columns of a version's begin, end and currency; empty without history."""
    if table.history is None:
        return ()
    sequence_columns = list_sequence_columns(table)
    axis = sequence_columns[0].type if sequence_columns else "TIMESTAMP"
    begin, end, current = table.history.columns
    return Column(begin, axis), Column(end, axis), Column(current, "BOOLEAN")


def list_record_columns(table: Table) -> tuple[Column, ...]:
    """Return the columns of a decoded record: key columns that the value lacks, the value's, metadata."""
    values = list_value_columns(table)
    keys = list_key_columns(table)
    in_value = {c.name for c in values} | {table.topic_column}
    by_key = {c.name: c for c in keys}
    ahead = tuple(c for c in keys if c.name not in in_value)
    return (*ahead, *(by_key.get(c.name, c) for c in values), *list_metadata_columns(table))


def list_staged_columns(table: Table) -> tuple[Column, ...]:
    if table.select is None:
        return (*list_value_columns(table), *list_metadata_columns(table))
    return tuple(Column(c.name, c.type, c.nullable) for c in _list_selected_columns(table))


def _list_selected_columns(table: Table) -> tuple[Selected, ...]:
    assert table.select is not None
    record = list_record_columns(table)
    place = f"table={table.name}"
    columns = resolve_projection(table.select, record, place)
    passed_columns = list_passed_columns(table.select, [c.name for c in record])
    ordered_columns = passed_columns | set(find_derived_columns(table.select))
    usable_columns = {"key.fields": passed_columns, "sequence_by": ordered_columns}
    for setting, names in {"key.fields": table.key_columns, "sequence_by": table.sequence_by}.items():
        # rows are found and ordered by columns that select leaves as they are
        changed_columns = [name for name in names if name.casefold() not in usable_columns[setting]]
        if changed_columns:
            raise ConfigurationError(
                f"{place}: select leaves out or changes {', '.join(changed_columns)} of {setting}, by which rows are "
                "found and ordered; select such columns as they are"
            )
    return columns


def build_projection(table: Table) -> Projection | None:
    if table.select is None:
        return None
    keys = [c.name for c in list_key_columns(table) if c.name != table.topic_column]
    parts = tuple((name, find_key_field(table, name)) for name in keys)
    unavailable_columns = {name.casefold(): name for name in list_unavailable_columns(table)}
    read_columns = dict.fromkeys(name.casefold() for name in list_unusable_columns(table.select))
    bad = tuple(unavailable_columns[name] for name in read_columns if name in unavailable_columns)
    columns = _list_selected_columns(table)
    select = table.select
    return Projection(select.text, select.alias, columns, parts, dimensions=select.dimensions, unusable_columns=bad)


def find_key_field(table: Table, column: str) -> str | None:
    """Return the field of the staged key that a key column comes from; None if one column is the whole key."""
    if table.key.into is not None:
        return None
    return column if column == table.topic_column else column.removeprefix(table.key.prefix)


def list_sequence_columns(table: Table) -> tuple[Column, ...]:
    columns_by_name = {c.name.casefold(): c for c in (*list_value_columns(table), *list_metadata_columns(table))}
    names = {name.casefold() for name in table.sequence_by}
    derived = find_derived_columns(table.select) if table.select else {}
    items = tuple(item for name, item in derived.items() if name in names)
    if table.select and items:
        sequence = replace(table.select, items=items)
        columns = resolve_projection(sequence, list_record_columns(table), f"table={table.name}")
        columns_by_name |= {c.name.casefold(): Column(c.name, c.type) for c in columns}
    missing = [name for name in table.sequence_by if name.casefold() not in columns_by_name]
    if missing:
        raise ConfigurationError(
            f"sequence_by={missing} of table={table.name} are no columns of the value or of metadata, and select "
            "makes none of them of the record: add them there"
        )
    return tuple(columns_by_name[name.casefold()] for name in table.sequence_by)


def list_deletes_columns(table: Table) -> tuple[Column, ...]:
    items = ", ".join(f"{quote(c.name)}: {c.type}" for c in list_sequence_columns(table))
    place = (Column("topic", "STRING"), Column("partition", "INT"), Column("offset", "BIGINT"))
    keys = (Column(c.name, c.type) for c in list_key_columns(table))
    return (*keys, Column("sequence", f"STRUCT<{items}>"), *place, Column("timestamp", "TIMESTAMP"))
