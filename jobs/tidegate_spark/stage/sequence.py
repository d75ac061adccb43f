"""The sequence of a record: the struct of columns by which records of one key are ordered before their offsets are."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.column import Column
from tidegate.spec.projection import BESIDE, Selected
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.json.connect import ConnectFields
from tidegate_spark.fields.json.objects import CORRUPT, Fields, read_objects, the_object
from tidegate_spark.formats.decoded import DELETE, NOTHING, FoundValue
from tidegate_spark.formats.json import units_of
from tidegate_spark.stage.projection import FAILED, WHOLE, find_failing, find_misfits, typed
from tidegate_spark.stage.value import metadata_of

UNREADABLE = "the row before the delete does not fit the columns of sequence_by"
SOURCES = "its_sources"


def with_sequence(decoded: DataFrame, found: FoundValue, table: StageTable) -> DataFrame:
    """Add `sequence` to decoded records, for tables that are ordered by one; it is NULL for a delete that carries none.

    An upsert always has one, be its columns NULL. A delete has one if its record shows at least one of the columns that
    come from the value, the event's own metadata among them, or if all are of Kafka's metadata. A lone tombstone shows
    none of the value. Where `select` makes a column, what it is made of is looked at.
    """
    if not table.sequence:
        return decoded
    needed = _needed(table)
    metadata = metadata_of(found, table)
    own = [name for name in needed if table.metadata.get(name, "value.").startswith("value.")]
    if table.has_history:
        parts = {n: metadata.get(table.metadata.get(n, ""), f"row_struct.{quoted(n)}") for n in needed}
        shown = "row_struct IS NOT NULL" if own and _made(table) else "true"
        sourced = decoded.withColumn(SOURCES, F.expr(_struct(parts)))
        return _with_time(_with_made(sourced, table, shown), table)
    carried = _carried(table, needed)
    if carried.columns and table.value.format == "debezium-json":
        decoded = _with_before(decoded, carried)
        picked = (value.rpartition(" AS ")[0] for value in carried.values("ordered_row"))
        values = dict(zip((c.name for c in carried.columns), picked, strict=True))
    else:
        values = {c.name: _shown(c.name, found) for c in carried.columns}
    parts = {name: values.get(name) or metadata[table.metadata[name]] for name in needed}
    shown = " OR ".join(f"{SOURCES}.{quoted(name)} IS NOT NULL" for name in own) or "true"
    sourced = decoded.withColumn(SOURCES, F.expr(_struct(parts)))
    return _with_made(sourced, table, f"op <> '{DELETE}' OR {shown}")


def _made(table: StageTable) -> dict[str, Selected]:
    """The columns of the sequence that `select` makes."""
    columns = table.select.columns if table.select is not None else ()
    return {c.name: c for c in columns if c.is_made and c.name in table.sequence}


def _needed(table: StageTable) -> tuple[str, ...]:
    """The record's columns of which the sequence is made, key columns and what is beside them apart."""
    made = _made(table)
    keys = {name.casefold() for name, _ in table.select.keys} if table.select is not None else set()
    known = {name.casefold(): name for name in (*(c.name for c in table.value_columns), *table.metadata)}
    read = [r for name in table.sequence for r in (made[name].reads if name in made else (name,))]
    return tuple(dict.fromkeys(known[r.casefold()] for r in read if r.casefold() in known.keys() - keys))


def _struct(parts: dict[str, str]) -> str:
    return f"struct({', '.join(f'{sql} AS {quoted(name)}' for name, sql in parts.items()) or 'true AS _tidegate_0'})"


def _with_made(sourced: DataFrame, table: StageTable, shown: str) -> DataFrame:
    """Add `sequence` out of `its_sources`, where they are `shown`; what cannot be made is a `value_reason`."""
    made = _made(table)
    if not made or table.select is None:
        names = ", ".join(f"{SOURCES}.{quoted(name)} AS {quoted(name)}" for name in table.sequence)
        return sourced.withColumn("sequence", F.expr(f"CASE WHEN {shown} THEN struct({names}) END"))
    usable = f"change <> '{NOTHING}' AND is_wanted AND key_reason IS NULL AND value_reason IS NULL"
    keys = [f"key_struct{f'.{quoted(f)}' if f is not None else ''} AS {quoted(name)}" for name, f in table.select.keys]
    needed = _needed(table)
    taken = {name.casefold() for name in (*needed, *(name for name, _ in table.select.keys))}
    beside = [field.name for field in BESIDE if field.name not in taken]
    columns = [*keys, *(f"{SOURCES}.{quoted(name)} AS {quoted(name)}" for name in needed), *beside]
    frame = sourced.selectExpr(f"struct(*) AS {WHOLE}", f"{usable} AND ({shown}) AS _tidegate_usable", *columns)
    known = f"CASE WHEN _tidegate_usable THEN {find_failing(made.values())} END"
    frame = frame.alias(table.select.alias).withColumn(FAILED, F.expr(known))
    misfits = find_misfits(made.values())
    reason = f"CASE {misfits} END" if misfits else "CAST(NULL AS STRING)"
    parts = ", ".join(f"{typed(made[n]) if n in made else quoted(n)} AS {quoted(n)}" for n in table.sequence)
    ordered = frame.selectExpr(
        f"{WHOLE}.*",
        f"CASE WHEN {FAILED} IS NOT NULL THEN {FAILED} WHEN _tidegate_usable THEN {reason} END AS sequence_reason",
        f"CASE WHEN _tidegate_usable AND {FAILED} IS NULL THEN struct({parts}) END AS sequence",
    )
    return ordered.withColumn("value_reason", F.expr("coalesce(value_reason, sequence_reason)"))


def _with_time(ordered: DataFrame, table: StageTable) -> DataFrame:
    """Of records whose first column of `sequence` is the time of a version, an upsert has one.

    The row before a delete says when that one began, so it is left out: the delete has no time of its own unless
    metadata tell it.
    """
    first = table.sequence[0]
    told = literal(f"{first} is NULL, and with history it says from when on a row holds")
    is_row = f"op <> '{DELETE}' AND change <> '{NOTHING}' AND is_wanted"
    untimed = f"CASE WHEN {is_row} AND sequence.{quoted(first)} IS NULL THEN {told} END"
    return ordered.withColumn("value_reason", F.expr(f"coalesce(value_reason, {untimed})"))


def _shown(name: str, found: FoundValue) -> str:
    """A column of the row that a record shows: a delete may show the one before it."""
    row = f"row_struct.{quoted(name)}"
    return f"CASE WHEN change = '{DELETE}' THEN {found.before[name]} ELSE {row} END" if name in found.before else row


def _carried(table: StageTable, needed: tuple[str, ...]) -> ConnectFields:
    """Those of the columns that come from the value."""
    types = {c.name: c.type for c in table.value_columns}
    columns = tuple(Column(name, types[name]) for name in needed if name not in table.metadata)
    return ConnectFields(columns, units_of(table))


def _with_before(decoded: DataFrame, carried: Fields) -> DataFrame:
    """Add `ordered_row`: the row of a change event, for a delete event the one before it, parsed for deletes alone."""
    event = f"before: {carried.text_struct}"
    wanted = f"change = '{DELETE}' AND value IS NOT NULL AND value_reason IS NULL"
    places = [(carried, ".before"), (carried, ".payload.before")]
    found = (
        read_objects(decoded, "bj", f"{event}, payload: STRUCT<{event}>", places, wanted)
        .selectExpr("*", f"{the_object('bj')} AS b")
        .selectExpr("*", "coalesce(b.payload.before, b.before) AS before_row")
    )
    reason = (
        f"CASE WHEN value_reason IS NOT NULL THEN value_reason WHEN bj.{CORRUPT} IS NOT NULL THEN '{UNREADABLE}' "
        f"WHEN bj IS NOT NULL THEN {carried.reason('before_row', 'before')} END"
    )
    return found.withColumns(
        {
            "ordered_row": F.expr(f"CASE WHEN change = '{DELETE}' THEN before_row ELSE {carried.picked('row')} END"),
            "value_reason": F.expr(reason),
        }
    )
