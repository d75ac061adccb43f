"""The user's projection of decoded rows, with at most one row of each dimension table beside a record."""

from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, format_type, parse_type
from tidegate.spec.projection import RECORD_FIELDS, Projection, Selected
from tidegate.sql.spark import quote, quote_name, render_literal

from tidegate_spark.fields.conditions import render_first_reason
from tidegate_spark.fields.lossless import render_lacks_required
from tidegate_spark.fields.written_values import MOMENTS, render_year_range
from tidegate_spark.formats.change_events.unavailable_values import KEPT_COLUMN, WAY_OUT
from tidegate_spark.formats.decoded import DELETE, NO_CHANGE
from tidegate_spark.stage.value import FAILURE_TEXT, render_attempt

RECORD = "_tidegate"
ROW = "_tidegate_row"
MATCH_COUNT = "_tidegate_matches"
ROW_NUMBER = "_tidegate_number"
FAILURE = "_tidegate_failed"


def project_rows(decoded: DataFrame, table: StageTable) -> DataFrame:
    """Put what `select` makes into `value_struct`; a row of which it cannot be made gets a `value_reason`.

    Deletes, rows that are not wanted and bad ones are left as they are.
    """
    select = table.select
    if select is None or table.keys_only:
        return decoded
    is_row = (
        f"change <> '{NO_CHANGE}' AND op <> '{DELETE}' AND is_wanted AND key_reason IS NULL AND value_reason IS NULL"
    )
    whole = decoded.selectExpr(f"struct(*) AS {RECORD}", f"CASE WHEN {is_row} THEN value_struct END AS {ROW}")
    rows = whole.selectExpr(RECORD, f"{ROW} IS NOT NULL AS {ROW}", *_list_record_columns(table, select)).alias(
        select.alias
    )
    for dimension in select.dimensions:
        pinned = dimension.snapshot_id
        version = "WHERE false" if pinned is None else f"VERSION AS OF {pinned}"
        there = decoded.sparkSession.sql(f"SELECT * FROM {quote_name(dimension.table)} {version}")
        rows = rows.join(there.alias(dimension.alias), F.expr(f"({ROW}\nAND ({dimension.on}\n))"), "left")
    several = ""
    if select.dimensions:
        rows = _count_matches(rows)
        names = " or ".join(dimension.table for dimension in select.dimensions)
        ambiguity = render_literal(f"select: more than one row of {names} matches; one at most may")
        several = f"WHEN {MATCH_COUNT} > 1 THEN {ambiguity}"
    rows = rows.withColumn(FAILURE, F.expr(f"CASE WHEN {ROW} THEN {render_failure(select.columns)} END"))
    struct = ", ".join(f"{render_selected_column(c)} AS {quote(c.name)}" for c in select.columns)
    reason = render_first_reason(several, _render_unusable_case(select, table), render_misfit_cases(select.columns))
    projected_rows = rows.selectExpr(
        f"{RECORD}.*",
        f"CASE WHEN {FAILURE} IS NOT NULL THEN {FAILURE} WHEN {ROW} THEN {reason} END AS select_reason",
        f"CASE WHEN {ROW} AND {FAILURE} IS NULL THEN struct({struct}) END AS selected",
    )
    faults = render_fault_reason(select.columns, "selected", f"{quote(select.alias)}.`timestamp`")
    return projected_rows.withColumns(
        {"value_reason": F.expr(f"coalesce(value_reason, select_reason, {faults})"), "value_struct": F.expr("selected")}
    )


def _list_record_columns(table: StageTable, select: Projection) -> list[str]:
    keys = [f"{RECORD}.key_struct{f'.{quote(f)}' if f is not None else ''} AS {quote(name)}" for name, f in select.keys]
    key_names = {name.casefold() for name, _ in select.keys}
    names = [c.name for c in table.value_columns] + list(table.metadata)
    values = [f"{ROW}.{quote(name)} AS {quote(name)}" for name in names if name.casefold() not in key_names]
    column_names = key_names | {name.casefold() for name in names}
    record_columns = [
        f"{RECORD}.{field.name} AS {field.name}" for field in RECORD_FIELDS if field.name not in column_names
    ]
    return [*keys, *values, *record_columns]


def _count_matches(rows: DataFrame) -> DataFrame:
    place = ", ".join(f"{RECORD}.{name}" for name in ("topic", "partition", "offset", "row_number"))
    counted_rows = rows.withColumns(
        {
            ROW_NUMBER: F.expr(f"row_number() OVER (PARTITION BY {place} ORDER BY {RECORD}.offset)"),
            MATCH_COUNT: F.expr(f"count(1) OVER (PARTITION BY {place})"),
        }
    )
    return counted_rows.where(f"{ROW_NUMBER} = 1")


def render_selected_column(column: Selected) -> str:
    """Return the column's value as its type, NULL if that cannot hold it; so is a part of it."""
    return f"try_cast((\n{column.sql}\n) AS {_format_cast_type(column)})"


def _format_cast_type(column: Selected) -> str:
    return format_type(parse_type(column.type))


def render_failure(columns: Iterable[Selected]) -> str:
    """Return the first expression that fails for a record, as a reason; else NULL."""
    computed = (column for column in columns if column.is_computed)
    return render_first_reason(
        *(
            f"WHEN {render_attempt(c.sql)} IS NULL THEN {render_literal(f'select: {c.name} {FAILURE_TEXT}')}"
            for c in computed
        )
    )


def render_misfit_cases(columns: Iterable[Selected]) -> str:
    """Return cases, each with its reason, for values that their type, or that of a part, cannot hold."""
    cases = []
    for column in columns:
        kind = parse_type(column.type)
        if column.is_checked:
            reason = render_literal(f"select: {column.name} is not a {column.type.replace('`', '')}")
            cases.append(f"WHEN (\n{column.sql}\n) IS NOT NULL AND {_render_is_misfit(column, kind)} THEN {reason}")
        if column.is_computed and (lacks := render_lacks_required(render_selected_column(column), kind)):
            reason = f"select: {column.name} lacks a part that is NOT NULL in {column.type.replace('`', '')}"
            cases.append(f"WHEN {lacks} THEN {render_literal(reason)}")
    return " ".join(cases)


def render_fault_reason(columns: Iterable[Selected], struct: str, record_time: str = "") -> str:
    """Return what readers of tables could not read of the computed columns in the `struct`, as a reason; or NULL.

    A column's own times and texts were judged when the record was decoded; the `record_time` was not.
    """
    cases = []
    for column in (column for column in columns if column.is_computed or column.sql == record_time):
        value = f"{struct}.{quote(column.name)}"
        kind = parse_type(column.type)
        far, no_text = (_render_any_leaf(value, kind, judge) for judge in (_render_is_far, _render_is_no_text))
        far_reason = render_literal(f"select: {column.name} is outside of the years 1 to 9999")
        text_reason = render_literal(f"select: {column.name} is not valid UTF-8")
        faults = ((far, far_reason), (no_text, text_reason))
        cases += [f"WHEN {fault} THEN {reason}" for fault, reason in faults if fault]
    return render_first_reason(*cases)


def _render_is_far(value: str, leaf: Primitive) -> str | None:
    if leaf.name not in MOMENTS:
        return None
    return f"coalesce({value} NOT BETWEEN {render_year_range(leaf.name)}, false)"


def _render_is_no_text(value: str, leaf: Primitive) -> str | None:
    return f"coalesce(NOT is_valid_utf8({value}), false)" if leaf.name == "STRING" else None


def _render_any_leaf(
    value: str, kind: DataType, judge: Callable[[str, Primitive], str | None], depth: int = 0
) -> str | None:
    each = f"_tidegate_{depth}"
    match kind:
        case Primitive():
            return judge(value, kind)
        case Struct(fields):
            parts = [_render_any_leaf(f"{value}.{quote(name)}", inner, judge, depth) for name, inner in fields]
            return " OR ".join(part for part in parts if part) or None
        case Array(element):
            sides = [(value, element)]
        case Map(key, inner):
            sides = [(f"map_keys({value})", key), (f"map_values({value})", inner)]
    leaves = ((elements, _render_any_leaf(each, side, judge, depth + 1)) for elements, side in sides)
    conditions = [f"coalesce(exists({elements}, {each} -> {leaf}), false)" for elements, leaf in leaves if leaf]
    return " OR ".join(conditions) or None


def _render_is_misfit(column: Selected, kind: DataType) -> str:
    # for a list, a map or a struct `try_cast` gives one with NULL in it; only `CAST` fails
    if isinstance(kind, Primitive):
        return f"{render_selected_column(column)} IS NULL"
    strict_value = f"CAST((\n{column.sql}\n) AS {_format_cast_type(column)})"
    return f"{render_attempt(strict_value)} IS NULL"


def _render_unusable_case(select: Projection, table: StageTable) -> str:
    if not select.unusable_columns or table.sequence or table.has_history:
        return ""
    names = ", ".join(render_literal(name) for name in select.unusable_columns)
    reason = render_literal(
        "select: the event leaves out a value that did not change, and select needs it: "
        f"{', '.join(select.unusable_columns)}; {WAY_OUT}"
    )
    return f"WHEN arrays_overlap({RECORD}.{KEPT_COLUMN}, array({names})) THEN {reason}"
