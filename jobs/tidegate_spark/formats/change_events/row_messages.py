"""Messages that hold several rows, each with its own key: how canal-json and maxwell-json are taken apart."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.column import Column
from tidegate.sql.spark import quote, render_literal, strip_alias

from tidegate_spark.fields.json.inner_parts import render_inner_reason
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.fields.json.presence import render_missing_cases, render_no_column_case, render_respelled_case
from tidegate_spark.formats.change_events.truncates import render_truncate_case
from tidegate_spark.formats.decoded import DELETE, NO_CHANGE, NO_REASON, DecodedValue
from tidegate_spark.formats.json import list_key_fields

UPDATE = "u"


def list_all_columns(table: StageTable) -> tuple[Column, ...]:
    """The value's columns, and the key's that the value lacks."""
    names = {column.name for column in table.value_columns}
    return (*table.value_columns, *(column for column in list_key_fields(table).columns if column.name not in names))


def decode_row_messages(
    records: DataFrame,
    table: StageTable,
    fields: tuple[Fields, Fields],
    metadata: Mapping[str, str],
    is_truncate: str = "false",
) -> DecodedValue:
    """What is found once `event_op`, `datas`, `olds` and `own_reason` stand beside each record.

    `datas` and `olds` are arrays of raw rows, read by the two `fields`: those of all columns and those of the key. An
    update that moves a row to another key deletes the old one too. A record with one bad row is bad as a whole.
    `is_truncate` is a condition for messages that say that the source table was emptied.
    """
    rows, keys = fields
    reasons = (
        f"transform(changes, c -> coalesce({rows.render_reason('c.row', 'the value')}, "
        f"{_render_key_reason(keys, 'c.row')}))"
    )
    judged = (
        _add_old_keys(records, keys)
        .selectExpr("*", f"{_render_changes(rows, keys)} AS changes")
        .selectExpr("*", f"coalesce(own_reason, get(filter({reasons}, r -> r IS NOT NULL), 0)) AS located_reason")
        .selectExpr("*", "posexplode_outer(CASE WHEN located_reason IS NULL THEN changes END) AS (position, found)")
    )
    typed = {c.name: sql for c, sql in zip(rows.columns, rows.render_values("row"), strict=True)}
    return DecodedValue(
        records=judged.selectExpr("*", "found.row AS row", f"{_render_row_change(is_truncate, table)} AS change"),
        columns=tuple(typed[column.name] for column in table.value_columns),
        reason=NO_REASON,
        key=keys.render_struct("row"),
        key_reason=NO_REASON,
        key_there="true",
        metadata=metadata,
        number="CAST(coalesce(position, 0) AS BIGINT)",
        before={column.name: strip_alias(typed[column.name], column.name) for column in table.value_columns},
        several=True,
        truncated=is_truncate if table.value.applies_truncates else None,
    )


def _render_row_change(is_truncate: str, table: StageTable) -> str:
    """A bad record changes nothing, and still must not be taken for one that does not want to."""
    truncates = render_truncate_case(is_truncate, table)
    return (
        f"CASE WHEN located_reason IS NOT NULL THEN '{UPDATE}' {truncates} ELSE coalesce(found.op, '{NO_CHANGE}') END"
    )


def render_lacking_cases(
    text: str, row: str, fields: tuple[Fields, Fields], places: tuple[str, ...], others: str = ""
) -> str:
    """The last of `WHEN … THEN …` for a row, in the object `text`, that has none of the columns, or lacks a field of
    the key; `others` stand behind. `fields` are those of all columns and those of the key. Each reason is planned once.
    """
    rows, keys = fields
    alien = f"{render_no_column_case(text, row, rows, rows)} {render_respelled_case(text, row, rows)}"
    missing = render_missing_cases(text, row, keys, "the value") if keys.columns else ""
    lacks = f"CASE WHEN event_op IS NOT NULL THEN CASE {missing} END END" if missing else NO_REASON
    behind = f"coalesce({lacks}, CASE {others} END)" if others.strip() else lacks
    return f"{alien} ELSE {render_inner_reason(row, rows, 'the value', places, behind)}"


def _render_key_reason(keys: Fields, row: str) -> str:
    """SQL text: which NOT NULL field of the key the row has no value for, NULL where it has all."""
    required = [column for column in keys.columns if not column.nullable]
    reasons = ((c, render_literal(f"the key field {c.name} is required and missing")) for c in required)
    cases = " ".join(f"WHEN {keys.render_is_null(row, column)} THEN {text}" for column, text in reasons)
    return f"CASE {cases} END" if cases else NO_REASON


def _add_old_keys(records: DataFrame, keys: Fields) -> DataFrame:
    """Add `moved_from`: `olds`, never NULL, so that it can be laid beside `datas`."""
    if not keys.columns:
        return records
    return records.selectExpr("*", f"coalesce(olds, CAST(array() AS ARRAY<{keys.text_struct}>)) AS moved_from")


def _render_changes(rows: Fields, keys: Fields) -> str:
    """ARRAY<STRUCT<op, row>> of a message; NULL for one that changes no row."""
    if not keys.columns:
        each = f"transform(datas, d -> {_render_change('event_op', 'd')})"
        return f"CASE WHEN event_op IN ('c', '{UPDATE}', '{DELETE}') THEN {each} END"
    names = {column.name for column in keys.columns}
    before = ", ".join(
        f"{render_literal(c.name)}, {_render_before(quote(c.name), c.name in names)}" for c in rows.columns
    )
    two = (
        f"array({_render_change(render_literal(DELETE), f'named_struct({before})')}, "
        f"{_render_change('event_op', 'z.datas')})"
    )
    one = f"array({_render_change('event_op', 'z.datas')})"
    each = (
        f"CASE WHEN event_op = '{UPDATE}' AND ({render_keys_differ(keys, 'z.moved_from', 'z.datas')}) THEN "
        f"{two} ELSE {one} END"
    )
    changes = f"flatten(transform(arrays_zip(datas, moved_from), z -> {each}))"
    return f"CASE WHEN event_op IN ('c', '{UPDATE}', '{DELETE}') THEN {changes} END"


def render_keys_differ(keys: Fields, old: str, new: str) -> str:
    """A condition: the row at `old` shows another key than the one at `new`."""
    pairs = zip(keys.columns, keys.render_values(old), keys.render_values(new), strict=True)
    both = ((strip_alias(before, c.name), strip_alias(after, c.name)) for c, before, after in pairs)
    return " OR ".join(f"coalesce({before} <> {after}, false)" for before, after in both)


def _render_change(op: str, row: str) -> str:
    return f"named_struct('op', {op}, 'row', {row})"


def _render_before(name: str, is_key: bool) -> str:
    return f"coalesce(z.moved_from.{name}, z.datas.{name})" if is_key else f"z.datas.{name}"
