"""What is made of decoded records: the user's projection of a row, and the columns that order the records of a key.

Beside a record there is at most one row of each dimension table. The sequence orders records of one key before their
offsets do.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Array, Column, DataType, Map, Primitive, Struct, parse_type
from tidegate.spec.projection import RECORD_COLUMNS, Projection, Selected
from tidegate.sql.spark import quote, quote_name, render_columns, render_literal

from tidegate_spark.fields.conditions import render_first_reason
from tidegate_spark.fields.json.connect import ConnectFields
from tidegate_spark.fields.lossless import render_lacks_required
from tidegate_spark.fields.written_values import MOMENTS, render_year_range
from tidegate_spark.formats.change_events.unavailable_values import KEPT_COLUMN, WAY_OUT
from tidegate_spark.formats.decoded import DELETE, NO_CHANGE, DecodedValue, render_cast_type
from tidegate_spark.formats.json import get_reading_rules
from tidegate_spark.stage.value import FAILURE_TEXT, render_attempt, render_metadata

RECORD = "_tidegate"
ROW = "_tidegate_row"
MATCH_COUNT = "_tidegate_matches"
ROW_NUMBER = "_tidegate_number"
FAILURE = "_tidegate_failed"
SOURCES_COLUMN = "its_sources"


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
    struct = {c.name: render_selected_column(c) for c in select.columns}
    cases = (several, _render_unusable_case(select, table))
    faults = _render_fault_reason(select.columns, "selected", f"{quote(select.alias)}.`timestamp`")
    return _add_made_struct(rows, "selected", struct, select.columns, cases).withColumns(
        {
            "value_reason": F.expr(f"coalesce(value_reason, selected_reason, {faults})"),
            "value_struct": F.expr("selected"),
        }
    )


def _add_made_struct(
    rows: DataFrame, name: str, struct: Mapping[str, str], columns: Collection[Selected], cases: Sequence[str] = ()
) -> DataFrame:
    """Return the records, each with the `struct` of that name, NULL unless `ROW` holds of it.

    Beside it is a reason: an expression of the `columns` fails, one of the `cases` holds, or a type does not fit.
    """
    failing_rows = rows.withColumn(FAILURE, F.expr(f"CASE WHEN {ROW} THEN {_render_failure(columns)} END"))
    reason = render_first_reason(*cases, _render_misfit_cases(columns))
    return failing_rows.selectExpr(
        f"{RECORD}.*",
        f"CASE WHEN {FAILURE} IS NOT NULL THEN {FAILURE} WHEN {ROW} THEN {reason} END AS {name}_reason",
        f"CASE WHEN {ROW} AND {FAILURE} IS NULL THEN struct({render_columns(struct)}) END AS {name}",
    )


def _list_record_columns(table: StageTable, select: Projection) -> list[str]:
    keys = [f"{RECORD}.key_struct{f'.{quote(f)}' if f is not None else ''} AS {quote(name)}" for name, f in select.keys]
    key_names = {name.casefold() for name, _ in select.keys}
    names = [c.name for c in table.value_columns] + list(table.metadata)
    values = [f"{ROW}.{quote(name)} AS {quote(name)}" for name in names if name.casefold() not in key_names]
    column_names = key_names | {name.casefold() for name in names}
    record_columns = [
        f"{RECORD}.{column.name} AS {column.name}" for column in RECORD_COLUMNS if column.name not in column_names
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
    return f"try_cast((\n{column.sql}\n) AS {render_cast_type(column.type)})"


def _render_failure(columns: Iterable[Selected]) -> str:
    """Return the first expression that fails for a record, as a reason; else NULL."""
    computed = (column for column in columns if column.is_computed)
    return render_first_reason(
        *(
            f"WHEN {render_attempt(c.sql)} IS NULL THEN {render_literal(f'select: {c.name} {FAILURE_TEXT}')}"
            for c in computed
        )
    )


def _render_misfit_cases(columns: Iterable[Selected]) -> str:
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


def _render_fault_reason(columns: Iterable[Selected], struct: str, record_time: str = "") -> str:
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
    strict_value = f"CAST((\n{column.sql}\n) AS {render_cast_type(column.type)})"
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


def add_sequence(decoded: DataFrame, decoded_value: DecodedValue, table: StageTable) -> DataFrame:
    """Add `sequence` to decoded records, for tables that are ordered by one; NULL for a delete that carries none.

    An upsert always has one, be its columns NULL. A delete has one if its record shows a column of the value, or if all
    columns are of Kafka's metadata; a lone tombstone shows none.
    """
    if not table.sequence:
        return decoded
    needed = _list_needed_columns(table)
    metadata = render_metadata(decoded_value, table)
    needed_columns = [name for name in needed if table.metadata.get(name, "value.").startswith("value.")]
    if table.has_history:
        parts = {n: metadata.get(table.metadata.get(n, ""), f"row_struct.{quote(n)}") for n in needed}
        has_sources = "row_struct IS NOT NULL" if needed_columns and _find_computed_columns(table) else "true"
        sourced = decoded.withColumn(SOURCES_COLUMN, F.expr(_render_struct(parts)))
        return _require_version_time(_add_sequence_column(sourced, table, has_sources), table)
    types = {c.name: c.type for c in table.value_columns}
    columns = tuple(Column(name, types[name]) for name in needed if name not in table.metadata)
    carried = ConnectFields(columns, get_reading_rules(table))
    if carried.columns and decoded_value.add_ordered_row is not None:
        decoded = decoded_value.add_ordered_row(decoded, carried)
        values = carried.render_values("ordered_row")
    else:
        values = {c.name: f"row_struct.{quote(c.name)}" for c in carried.columns}
        for name, before in decoded_value.columns_before.items():  # a delete may show the row before it
            if name in values:
                values[name] = f"CASE WHEN change = '{DELETE}' THEN {before} ELSE {values[name]} END"
    parts = {name: values.get(name) or metadata[table.metadata[name]] for name in needed}
    has_sources = " OR ".join(f"{SOURCES_COLUMN}.{quote(name)} IS NOT NULL" for name in needed_columns) or "true"
    sourced = decoded.withColumn(SOURCES_COLUMN, F.expr(_render_struct(parts)))
    return _add_sequence_column(sourced, table, f"op <> '{DELETE}' OR {has_sources}")


def _find_computed_columns(table: StageTable) -> dict[str, Selected]:
    columns = table.select.columns if table.select is not None else ()
    return {c.name: c for c in columns if c.is_derived and c.name in table.sequence}


def _list_needed_columns(table: StageTable) -> tuple[str, ...]:
    derived_columns = _find_computed_columns(table)
    keys = {name.casefold() for name, _ in table.select.keys} if table.select is not None else set()
    columns = {name.casefold(): name for name in (*(c.name for c in table.value_columns), *table.metadata)}
    read = [r for name in table.sequence for r in (derived_columns[name].reads if name in derived_columns else (name,))]
    return tuple(dict.fromkeys(columns[r.casefold()] for r in read if r.casefold() in columns.keys() - keys))


def _render_struct(parts: dict[str, str]) -> str:
    return f"struct({render_columns(parts) or 'true AS _tidegate_0'})"


def _add_sequence_column(sourced: DataFrame, table: StageTable, has_sources: str) -> DataFrame:
    derived_columns = _find_computed_columns(table)
    if not derived_columns or table.select is None:
        names = ", ".join(f"{SOURCES_COLUMN}.{quote(name)} AS {quote(name)}" for name in table.sequence)
        return sourced.withColumn("sequence", F.expr(f"CASE WHEN {has_sources} THEN struct({names}) END"))
    usable = f"change <> '{NO_CHANGE}' AND is_wanted AND key_reason IS NULL AND value_reason IS NULL"
    keys = [f"key_struct{f'.{quote(f)}' if f is not None else ''} AS {quote(name)}" for name, f in table.select.keys]
    needed = _list_needed_columns(table)
    column_names = {name.casefold() for name in (*needed, *(name for name, _ in table.select.keys))}
    record_columns = [column.name for column in RECORD_COLUMNS if column.name not in column_names]
    columns = [*keys, *(f"{SOURCES_COLUMN}.{quote(name)} AS {quote(name)}" for name in needed), *record_columns]
    frame = sourced.selectExpr(f"struct(*) AS {RECORD}", f"{usable} AND ({has_sources}) AS {ROW}", *columns)
    parts = {
        n: render_selected_column(derived_columns[n]) if n in derived_columns else quote(n) for n in table.sequence
    }
    made = derived_columns.values()
    aliased = frame.alias(table.select.alias)
    ordered_records = _add_made_struct(aliased, "sequence", parts, made)
    faults = _render_fault_reason(made, "sequence")
    return ordered_records.withColumn("value_reason", F.expr(f"coalesce(value_reason, sequence_reason, {faults})"))


def _require_version_time(ordered_records: DataFrame, table: StageTable) -> DataFrame:
    first = table.sequence[0]
    reason = render_literal(f"{first} is NULL, and with history it says from when on a row holds")
    is_row = f"op <> '{DELETE}' AND change <> '{NO_CHANGE}' AND is_wanted"
    untimed = f"CASE WHEN {is_row} AND sequence.{quote(first)} IS NULL THEN {reason} END"
    return ordered_records.withColumn("value_reason", F.expr(f"coalesce(value_reason, {untimed})"))
