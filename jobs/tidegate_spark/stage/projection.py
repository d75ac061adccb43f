"""The user's projection of decoded rows, with at most one row of each dimension table beside a record."""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_job import StageTable
from tidegate.spec.projection import BESIDE, Dimension, Projection, Selected
from tidegate.sql.spark import literal, quoted, quoted_name

from tidegate_spark.formats.change_events.unavailable_values import KEPT
from tidegate_spark.formats.decoded import DELETE, NOTHING
from tidegate_spark.stage.value import FAILS, attempted

WHOLE, ROW, MATCHES, NUMBER = "_tidegate", "_tidegate_row", "_tidegate_matches", "_tidegate_number"
FAILED = "_tidegate_failed"


def projected(decoded: DataFrame, table: StageTable) -> DataFrame:
    """Put what `select` makes into `value_struct`; a row of which it cannot be made gets a `value_reason`.

    Deletes, rows that are not wanted and bad ones are left as they are.
    """
    asked = table.select
    if asked is None or table.keys_only:
        return decoded
    is_row = f"change <> '{NOTHING}' AND op <> '{DELETE}' AND is_wanted AND key_reason IS NULL AND value_reason IS NULL"
    whole = decoded.selectExpr(f"struct(*) AS {WHOLE}", f"CASE WHEN {is_row} THEN value_struct END AS {ROW}")
    shown = whole.selectExpr(WHOLE, f"{ROW} IS NOT NULL AS {ROW}", *_record(table, asked)).alias(asked.alias)
    for dimension in asked.dimensions:
        shown = shown.join(_rows(decoded, dimension), F.expr(f"({ROW}\nAND ({dimension.on}\n))"), "left")
    several = ""
    if asked.dimensions:
        shown, several = _numbered(shown), f"WHEN {MATCHES} > 1 THEN {literal(_told(asked))}"
    shown = shown.withColumn(FAILED, F.expr(f"CASE WHEN {ROW} THEN {find_failing(asked.columns)} END"))
    struct = ", ".join(f"{typed(c)} AS {quoted(c.name)}" for c in asked.columns)
    reasons = f"{several} {_unusable(asked, table)} {find_misfits(asked.columns)}".strip()
    reason = f"CASE {reasons} END" if reasons else "CAST(NULL AS STRING)"
    made = shown.selectExpr(
        f"{WHOLE}.*",
        f"CASE WHEN {FAILED} IS NOT NULL THEN {FAILED} WHEN {ROW} THEN {reason} END AS select_reason",
        f"CASE WHEN {ROW} AND {FAILED} IS NULL THEN struct({struct}) END AS selected",
    )
    return made.withColumns(
        {"value_reason": F.expr("coalesce(value_reason, select_reason)"), "value_struct": F.expr("selected")}
    )


def _record(table: StageTable, asked: Projection) -> list[str]:
    """The columns of a decoded row as `select` sees them."""
    keys = [f"{WHOLE}.key_struct{f'.{quoted(f)}' if f is not None else ''} AS {quoted(name)}" for name, f in asked.keys]
    own = {name.casefold() for name, _ in asked.keys}
    names = [c.name for c in table.value_columns] + list(table.metadata)
    values = [f"{ROW}.{quoted(name)} AS {quoted(name)}" for name in names if name.casefold() not in own]
    taken = own | {name.casefold() for name in names}
    beside = [f"{WHOLE}.{field.name} AS {field.name}" for field in BESIDE if field.name not in taken]
    return [*keys, *values, *beside]


def _rows(decoded: DataFrame, dimension: Dimension) -> DataFrame:
    """The dimension's rows at the pinned snapshot."""
    pinned = dimension.snapshot_id
    version = "WHERE false" if pinned is None else f"VERSION AS OF {pinned}"
    session = decoded.sparkSession
    return session.sql(f"SELECT * FROM {quoted_name(dimension.table)} {version}").alias(dimension.alias)


def _numbered(shown: DataFrame) -> DataFrame:
    """One row for each row of the record, with the number of rows that the joins made of it."""
    place = ", ".join(f"{WHOLE}.{name}" for name in ("topic", "partition", "offset", "row_number"))
    counted = shown.withColumns(
        {
            NUMBER: F.expr(f"row_number() OVER (PARTITION BY {place} ORDER BY {WHOLE}.offset)"),
            MATCHES: F.expr(f"count(1) OVER (PARTITION BY {place})"),
        }
    )
    return counted.where(f"{NUMBER} = 1")


def _told(asked: Projection) -> str:
    return f"select: more than one row of {' or '.join(d.table for d in asked.dimensions)} matches; one at most may"


def typed(column: Selected) -> str:
    """SQL text: the column's value as its type, NULL where that cannot hold it."""
    return f"try_cast((\n{column.sql}\n) AS {column.type})"


def find_failing(columns: Iterable[Selected]) -> str:
    """SQL text: the first expression that Spark cannot work out for a record, as a reason; NULL where it can all."""
    computed = (column for column in columns if column.is_computed)
    cases = (f"WHEN {attempted(c.sql)} IS NULL THEN {literal(f'select: {c.name} {FAILS}')}" for c in computed)
    found = " ".join(cases)
    return f"CASE {found} END" if found else "CAST(NULL AS STRING)"


def find_misfits(columns: Iterable[Selected]) -> str:
    """Cases, each with its reason, for values that are there and that their type cannot hold."""
    cases = []
    for column in columns:
        if column.is_checked:
            told = literal(f"select: {column.name} is not a {column.type}")
            cases.append(f"WHEN (\n{column.sql}\n) IS NOT NULL AND {typed(column)} IS NULL THEN {told}")
    return " ".join(cases)


def _unusable(asked: Projection, table: StageTable) -> str:
    if not asked.unusable or table.sequence or table.has_history:
        return ""
    names = ", ".join(literal(name) for name in asked.unusable)
    told = literal(
        f"select: the event leaves out a value that did not change, and select needs it: {', '.join(asked.unusable)}; "
        "have the source send all columns (REPLICA IDENTITY FULL)"
    )
    return f"WHEN arrays_overlap({WHOLE}.{KEPT}, array({names})) THEN {told}"
