"""Tables with history: one row for each version of a key, and the memory of changes from which rows are laid out."""

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.ports.session import Sql
from tidegate.schema.data_types import Array, Column, DataType, Map, Primitive, Struct, format_type, parse_type
from tidegate.schema.evolution import render_aligned, to_struct
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.sql.spark import quote
from tidegate.table.columns import list_destination_columns, list_sequence_columns, list_version_columns

# a delete without an ordering column of these types falls back on its record's time, which is always there
TIME_TYPES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")
RESERVED_PREFIX = "_tidegate_"
TypedColumn = tuple[str, DataType | None]  # a column's name and type, None if the type is not known


def list_change_columns(table: Table) -> tuple[Column, ...]:
    """Return the columns of the table of changes: the destination's, and each change's time and place in the log."""
    version_columns = {c.name for c in list_version_columns(table)}
    own_columns = tuple(
        Column(c.name, c.type) for c in list_destination_columns(table) if c.name not in version_columns
    )
    items = ", ".join(f"{quote(c.name)}: {c.type}" for c in list_sequence_columns(table))
    place = {"valid_from": list_version_columns(table)[0].type, "kind": "STRING", "topic": "STRING", "partition": "INT"}
    place |= {"offset": "BIGINT", "i": "BIGINT", "timestamp": "TIMESTAMP"}
    place |= {"sequence": f"STRUCT<{items}>"} if items else {}
    return (*own_columns, *(Column(RESERVED_PREFIX + name, data_type) for name, data_type in place.items()))


def list_destination_change_columns(table: Table) -> tuple[Column, ...]:
    """Return these columns with the destination's types: values are copied between the two without a cast."""
    destination_types = (
        {name.casefold(): format_type(kind) for name, kind in table.target_schema.fields} if table.target_schema else {}
    )
    columns = list_change_columns(table)
    return tuple(Column(c.name, destination_types.get(c.name.casefold(), c.type)) for c in columns)


def render_history_statements(
    sql: Sql, table: Table, staged_batch: StagedBatch, values: dict[str, Any]
) -> tuple[str, ...]:
    """Remember the batch's changes, then write the versions of its keys anew. `values` are those of any merge."""
    variables = list_layout_values(table, values)
    unused = ("compared", "written", "is_current")
    remembered = {name: value for name, value in variables.items() if name not in unused}
    remember = sql.render("remember_changes", **remembered, **list_change_values(table, staged_batch))
    return remember, sql.render("merge_history", **variables)


def list_layout_values(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of statements that lay out versions; `values` are those of any merge."""
    assert table.history is not None
    return {
        **values,
        "valid_from": table.history.valid_from,
        "valid_to": table.history.valid_to,
        "is_current": table.history.is_current,
        "changes": resource_names.name_changes_table(table),
        "sequence": [c.name for c in list_sequence_columns(table)],
        **_list_compared_columns(table, values["values"]),
        "change_expressions": _align_changes(table),
    }


def list_change_values(table: Table, staged_batch: StagedBatch) -> dict[str, Any]:
    """Return what statements need beside these where they find the changes that a batch has staged."""
    sequence_columns = list_sequence_columns(table)
    axis = sequence_columns[0].type if sequence_columns else "TIMESTAMP"
    # Kafka's own metadata is in every record. Fields of the value and its format's metadata may be missing in deletes.
    always = [name for name, word in table.metadata.items() if not word.startswith("value.")]
    untimed = bool(sequence_columns) and sequence_columns[0].name not in always and staged_batch.deletes > 0
    items = ", ".join(f"{quote(c.name)}: {c.type}" for c in sequence_columns)
    return {
        "axis_type": axis,
        "is_time": axis in TIME_TYPES,
        "asks_rows": untimed,
        "sequence_type": f"STRUCT<{items}>",
    }


def _align_changes(table: Table) -> dict[str, str]:
    # the union of both goes by place
    target = table.target_schema
    expressions = dict[str, str]()
    if target is None:
        return {}
    types = dict(target.fields)
    for name, kind in to_struct(list_destination_columns(table)).fields:
        own_name = target.find_name(name)
        plain = f"m.{quote(name)}"
        if own_name is not None and not isinstance(kind, Primitive):
            expressions[own_name] = render_aligned(plain, kind, types[own_name])
    return expressions


def _list_compared_columns(table: Table, columns: list[str]) -> dict[str, list[TypedColumn]]:
    types = {c.name.casefold(): parse_type(c.type) for c in list_destination_columns(table)}
    not_compared = {
        name.casefold() for name in (*table.sequence_by, *table.metadata, "topic", "partition", "offset", "timestamp")
    }
    # changes are equal if they differ only in when and from where they came
    stamps = not_compared - {c.name.casefold() for c in table.value.columns or ()}
    stamps |= {name.casefold() for name in table.sequence_by}
    pairs = [(name, types.get(name.casefold())) for name in columns]
    return {"written": pairs, "compared": [(name, kind) for name, kind in pairs if name.casefold() not in stamps]}


def render_spark_comparable(column: TypedColumn, of: str) -> str:
    """Return SQL by which a column of `of` is compared: of a map its sorted entries, as Spark compares no maps."""
    name, data_type = column
    text = f"{of}.{quote(name)}"
    return f"to_json(struct({text}))" if data_type is None else _render_entries(text, data_type)


def _render_entries(value: str, data_type: DataType, depth: int = 0) -> str:
    if not _has_map(data_type):
        return value
    each = f"{RESERVED_PREFIX}{depth}"
    match data_type:
        case Map(key, item):
            parts = (("key", key), ("value", item))
            entry = ", ".join(f"{_render_entries(f'{each}.{part}', kind, depth + 1)} AS {part}" for part, kind in parts)
            return f"sort_array(transform(map_entries({value}), {each} -> struct({entry})))"
        case Array(element):
            return f"transform({value}, {each} -> {_render_entries(each, element, depth + 1)})"
        case Struct(fields):
            inner = ((name, _render_entries(f"{value}.{quote(name)}", kind, depth + 1)) for name, kind in fields)
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(f'{v} AS {quote(n)}' for n, v in inner)}) END"
    return value


def _has_map(data_type: DataType) -> bool:
    match data_type:
        case Map():
            return True
        case Array(element):
            return _has_map(element)
        case Struct(fields):
            return any(_has_map(inner) for _, inner in fields)
    return False


def refuse_truncates(pipeline: Pipeline, feature: str) -> None:
    """Raise `GiveUp` for what reads a part of the log anew, if a truncate behind it has taken its rows."""
    table = next((table for table in pipeline.entries if table.value.applies_truncates), None)
    if table is not None:
        raise GiveUp(
            f"pipeline={pipeline.name} table={table.name}: {feature} does not know value.truncate: apply, and would "
            "bring back rows that a later truncate has taken; read the records again in order with rebase"
        )


def refuse_history(pipeline: Pipeline, tables: Iterable[Table], feature: str) -> None:
    """Raise `GiveUp` for what leaves records out by their key, if one of `tables` has history."""
    table = next((table for table in tables if table.history is not None), None)
    if table is not None:
        raise GiveUp(
            f"pipeline={pipeline.name} table={table.name}: {feature} does not know tables with history; name "
            "other tables, or read the records again with rebase: they find their place among the rows, and what is "
            "there already stays as it is"
        )
