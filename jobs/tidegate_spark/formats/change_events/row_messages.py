"""Messages that hold several rows, each with its own key: how canal-json and maxwell-json are taken apart."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.conditions import NO_REASON, render_first_reason
from tidegate_spark.fields.json.inner_parts import render_inner_reason
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.json.reasons import (
    MISFIT_REASON,
    render_missing_cases,
    render_no_column_case,
    render_respelled_case,
)
from tidegate_spark.formats.decoded import DELETE, NO_CHANGE, DecodedValue, render_truncate_case
from tidegate_spark.formats.json import let_grow

UPDATE = "u"
OLD_NAMES = "z.old_names"
# of a message that holds one row; a delete shows no row to conditions
FIRST_ROW = f"(CASE WHEN get(changes, 0).op <> '{DELETE}' THEN get(changes, 0).row END)"
# few updates have one: the others need not be taken apart once more
MAY_SHOW_NULL = f"event_op = '{UPDATE}' AND contains(value_text, 'null')"


class MessageShape(NamedTuple):
    """How the rows of a message are read: all columns and the key's alone, and in SQL where its rows are.

    `text` and `row` are the first row as JSON text and parsed, `places` the fields of the message that may hold it, and
    `old_rows` the JSON text of its rows before.
    """

    rows: Fields
    keys: Fields
    text: str
    row: str
    places: tuple[str, ...]
    old_rows: str


def render_metadata_fields(fields: Mapping[str, str], table: StageTable) -> str:
    """Return the fields of a message that hold metadata of the table, from all `fields` by the word of `metadata`."""
    return "".join(f", {sql}" for word, sql in fields.items() if f"value.{word}" in table.metadata.values())


def decode_row_messages(
    records: DataFrame, table: StageTable, shape: MessageShape, metadata: Mapping[str, str], is_truncate: str = "false"
) -> DecodedValue:
    """Decode records that have `event_op`, `datas`, `olds` and `own_reason` beside them.

    `datas` and `olds` are arrays of raw rows. An update that moves a row to another key deletes the old one too. A
    record with one bad row is bad as a whole. `is_truncate` is a condition.
    """
    rows = shape.rows
    keys = shape.keys
    reasons = (
        f"transform(changes, c -> coalesce({rows.render_reason('c.row', 'the value')}, "
        f"{_render_key_reason(keys, 'c.row')}))"
    )
    judged = (
        _add_old_keys(records, keys, shape.old_rows)
        .selectExpr("*", f"{_render_changes(rows, keys)} AS changes")
        .selectExpr("*", f"coalesce(own_reason, get(filter({reasons}, r -> r IS NOT NULL), 0)) AS located_reason")
        .selectExpr("*", "posexplode_outer(CASE WHEN located_reason IS NULL THEN changes END) AS (position, found)")
    )
    doubts = rows.render_doubts(f"(CASE WHEN located_reason IS NULL THEN row ELSE {FIRST_ROW} END)")
    typed_columns = rows.render_values("row")
    columns = {column.name: typed_columns[column.name] for column in table.value_columns}
    truncates = render_truncate_case(is_truncate, table)
    unlocated = f"WHEN located_reason IS NOT NULL THEN '{UPDATE}' {truncates}"
    change = f"CASE {unlocated} ELSE coalesce(found.op, '{NO_CHANGE}') END AS change"
    return DecodedValue(
        records=judged.selectExpr("*", "found.row AS row", f"{_render_key_row(keys)} AS key_row", change),
        columns=columns,
        reason=NO_REASON,
        key=keys.render_struct("key_row"),
        key_reason=NO_REASON,
        key_presence="true",
        metadata=metadata,
        row_number="CAST(coalesce(position, 0) AS BIGINT)",
        columns_before=columns,
        has_several_rows=True,
        row_count="coalesce(size(changes), 0)",
        doubts=doubts,
        columns_of_unlocated=rows.render_values(FIRST_ROW),
        truncate_condition=is_truncate if table.value.applies_truncates else None,
    )


def _render_key_row(keys: Fields) -> str:
    """Return the row whose key is the record's: also of a bad message of one row, if that has its whole key."""
    if not keys.columns:
        return "found.row"
    only_row = "get(changes, 0).row"
    key_reason = f"coalesce({keys.render_reason(only_row, 'the value')}, {_render_key_reason(keys, only_row)})"
    # of a value that does not fit what cannot be parsed is NULL, and the rest is there
    is_read = " AND ".join(f"NOT ({keys.render_is_null(only_row, column)})" for column in keys.columns)
    is_told = f"own_reason IS NULL OR (own_reason LIKE '{MISFIT_REASON}%' AND {is_read})"
    has_key = f"({is_told}) AND size(changes) = 1 AND {key_reason} IS NULL"
    return f"CASE WHEN located_reason IS NULL THEN found.row WHEN {has_key} THEN {only_row} END"


def render_lacking_cases(table: StageTable, shape: MessageShape, other_cases: str = "") -> str:
    """Return the last of `WHEN … THEN …` for a row that lacks all columns, or a key's field."""
    rows, keys, text, row, places, _ = shape
    alien = "" if table.value.adds_columns else render_no_column_case(text, row, rows, rows)
    alien = f"{alien} {render_respelled_case(text, row, rows)}"
    missing = render_missing_cases(text, row, keys, "the value") if keys.columns else ""
    lacks = f"CASE WHEN event_op IS NOT NULL THEN CASE {missing} END END" if missing else NO_REASON
    behind = f"coalesce({lacks}, CASE {other_cases} END)" if other_cases.strip() else lacks
    return f"{alien} ELSE {render_inner_reason(row, let_grow(rows, table), 'the value', places, behind)}"


def _render_key_reason(keys: Fields, row: str) -> str:
    required_columns = [column for column in keys.columns if not column.nullable]
    reasons = ((c, render_literal(f"the key field {c.name} is required and missing")) for c in required_columns)
    return render_first_reason(*(f"WHEN {keys.render_is_null(row, column)} THEN {text}" for column, text in reasons))


def _add_old_keys(records: DataFrame, keys: Fields, old_rows: str) -> DataFrame:
    # never NULL, so that it can be zipped with `datas`
    if not keys.columns:
        return records
    return records.selectExpr(
        "*",
        f"coalesce(olds, CAST(array() AS ARRAY<{keys.text_struct}>)) AS moved_from",
        f"coalesce(CASE WHEN {MAY_SHOW_NULL} THEN transform(from_json({old_rows}, 'ARRAY<MAP<STRING, STRING>>'), "
        "m -> map_keys(m)) END, CAST(array() AS ARRAY<ARRAY<STRING>>)) AS old_names",
    )


def _render_changes(rows: Fields, keys: Fields) -> str:
    if not keys.columns:
        each = f"transform(datas, d -> {_render_change('event_op', 'd')})"
        return f"CASE WHEN event_op IS NOT NULL THEN {each} END"
    names = {column.name for column in keys.columns}
    before_values = ", ".join(
        f"{render_literal(c.name)}, {_render_before(c.name, c.name in names)}" for c in rows.columns
    )
    two = (
        f"array({_render_change(render_literal(DELETE), f'named_struct({before_values})')}, "
        f"{_render_change('event_op', 'z.datas')})"
    )
    one_change = f"array({_render_change('event_op', 'z.datas')})"
    each = (
        f"CASE WHEN event_op = '{UPDATE}' AND ({render_keys_differ(keys, 'z.moved_from', 'z.datas', OLD_NAMES)}) THEN "
        f"{two} ELSE {one_change} END"
    )
    changes = f"flatten(transform(arrays_zip(datas, moved_from, old_names), z -> {each}))"
    return f"CASE WHEN event_op IS NOT NULL THEN {changes} END"


def render_keys_differ(keys: Fields, old: str, new: str, old_names: str) -> str:
    """Whether the row at `old` shows another key than the one at `new`. A field not in `old_names` did not change."""
    after = keys.render_values(new)
    return " OR ".join(
        f"NOT ({before} <=> {after[name]}) AND ({before} IS NOT NULL OR {_render_is_shown(old_names, name)})"
        for name, before in keys.render_values(old).items()
    )


def _render_is_shown(old_names: str, name: str) -> str:
    return f"coalesce(array_contains({old_names}, {render_literal(name)}), false)"


def _render_change(op: str, row: str) -> str:
    return f"named_struct('op', {op}, 'row', {row})"


def _render_before(name: str, is_key: bool) -> str:
    own_value = f"z.datas.{quote(name)}"
    old = f"z.moved_from.{quote(name)}"
    is_left_out = f"{old} IS NULL AND NOT {_render_is_shown(OLD_NAMES, name)}"
    return f"CASE WHEN {is_left_out} THEN {own_value} ELSE {old} END" if is_key else own_value
