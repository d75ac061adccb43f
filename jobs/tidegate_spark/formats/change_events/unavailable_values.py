"""Placeholders that a change-event connector sends for large values that did not change: told apart from values."""

import base64
import hashlib
import json
from uuid import UUID

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.conditions import reads_any
from tidegate.sql.spark import quote, render_columns, render_literal

from tidegate_spark.fields.protobuf import encode_zigzag
from tidegate_spark.formats.decoded import DELETE, ROW, DecodedValue

KEPT_COLUMN = "kept"
WAY_OUT = "have the source send all columns (PostgreSQL: REPLICA IDENTITY FULL; GoldenGate: NOCOMPRESSUPDATES)"
# of the event that inserts the row of a new key where a key has changed, as Debezium sends it behind a delete
OLD_KEY_HEADER = "__debezium.oldkey"


def reads_old_key_header(table: StageTable) -> bool:
    """Whether a header may tell that a row is that of another key: of flattened events, too."""
    return bool(table.unchanged) and bool(table.value.unavailable)


def mark_unavailable_values(decoded: DataFrame, decoded_value: DecodedValue, table: StageTable) -> DataFrame:
    """Add `kept`, the names of the columns that hold a placeholder or are left out, and put NULL in `value_struct`."""
    if not table.unchanged:
        return decoded
    conditions = _list_conditions(decoded_value, table, "value_struct")
    is_ordered = bool(table.sequence) or table.has_history
    refusals = _list_refusals(conditions, decoded_value, table, is_ordered=is_ordered)
    if refusals:
        cases = " ".join(f"WHEN {condition} THEN {reason}" for condition, reason in refusals)
        decoded = decoded.withColumn("value_reason", F.expr(f"coalesce(value_reason, CASE {cases} END)"))
    # such a record is bad: what the column would keep may arrive later
    if is_ordered:
        return decoded
    names = [*(column.name for column in table.value_columns), *table.metadata]
    values = {name: f"value_struct.{quote(name)}" for name in names}
    values |= {
        n: f"CASE WHEN NOT coalesce({sql}, false) THEN {values[n]} END" for n, sql in conditions.items() if n in values
    }
    elements = ", ".join(
        f"CASE WHEN {condition} THEN {render_literal(name)} END" for name, condition in conditions.items()
    )
    return decoded.withColumns(
        {
            KEPT_COLUMN: F.expr(f"array_compact(array({elements}))"),
            "value_struct": F.expr(f"CASE WHEN value_struct IS NOT NULL THEN struct({render_columns(values)}) END"),
        }
    )


def _list_conditions(decoded_value: DecodedValue, table: StageTable, struct: str) -> dict[str, str]:
    types = {column.name: column.type for column in table.value_columns}
    text = table.value.unavailable or ""
    absent = {n: f"({struct} IS NOT NULL AND {sql})" for n, sql in decoded_value.absent_columns.items()}
    return {n: absent.get(n) or render_is_placeholder(f"{struct}.{quote(n)}", types[n], text) for n in table.unchanged}


def render_lacks_value_of(sql: str, decoded_value: DecodedValue, table: StageTable) -> str:
    """Return SQL that tells whether a value that `sql` reads is not in the event; empty if each always is."""
    # a table that keeps no value is not to take one that is left out for NULL either
    conditions = {**decoded_value.absent_columns, **_list_conditions(decoded_value, table, ROW)}
    lacking = [part for name, part in conditions.items() if reads_any(sql, [name])]
    return " OR ".join(f"coalesce({part}, false)" for part in lacking)


def _list_refusals(
    conditions: dict[str, str], decoded_value: DecodedValue, table: StageTable, *, is_ordered: bool
) -> list[tuple[str, str]]:
    refusals = []
    for name, sql in conditions.items():
        if is_ordered or name.casefold() in table.grouped:
            reason = (
                f"the value of {name} is not in the event, as it did not change, and sequence_by, sequence_groups or "
                f"history cannot tell what to keep; {WAY_OUT}"
            )
            refusals.append((sql, render_literal(reason)))
    # the row of the other key has what would be kept
    header = f"exists(headers, h -> h.key = '{OLD_KEY_HEADER}')"
    moves = [f"coalesce({header}, false)"] if reads_old_key_header(table) else []
    moves += [f"({decoded_value.previous_key}) IS NOT NULL"] if decoded_value.previous_key else []
    for name, sql in conditions.items() if moves and not is_ordered else ():
        reason = (
            f"the row has another key now, and the value of {name} is not in the event, as it did not change: the row "
            f"of the new key would lose it; {WAY_OUT}"
        )
        refusals.append((f"({' OR '.join(moves)}) AND {sql}", render_literal(reason)))
    return refusals


def render_is_placeholder(value: str, kind: str, placeholder: str) -> str:
    text = render_literal(placeholder)
    codes = ", ".join(map(str, placeholder.encode()))
    as_object = render_literal(json.dumps({placeholder: placeholder}, separators=(",", ":")))
    binary = f"CAST({text} AS BINARY)"
    days = ", ".join(f"date_from_unix_date({code})" for code in placeholder.encode())
    forms = {
        "STRING": f"{value} IN ({text}, {as_object})",
        "BINARY": f"{value} = {binary}",
        "ARRAY<STRING>": f"{value} IN (array({text}), array({render_literal(hash_placeholder(placeholder))}))",
        "ARRAY<BINARY>": f"{value} = array({binary})",
        "ARRAY<DATE>": f"{value} = array({days})",
        "MAP<STRING, STRING>": f"map_keys({value}) = array({text})",
    }
    return forms.get(kind, f"{value} = CAST(array({codes}) AS {kind})")


def list_placeholder_bytes(placeholder: str, lists: bool, encoded: bool) -> tuple[bytes, ...]:
    """Return what the bytes of a record with the placeholder contain: JSON's forms and Avro's.

    `lists` adds those of lists, `encoded` the other ways of writing bytes than base64.
    """
    utf8 = placeholder.encode()
    digits = utf8.hex().encode()
    other_ways = (base64.urlsafe_b64encode(utf8), digits, digits.upper()) if encoded else ()
    text = (utf8, *dict.fromkeys((base64.b64encode(utf8), *other_ways)))
    if not lists:
        return text
    return (
        *text,
        ",".join(map(str, utf8)).encode(),
        b"".join(map(encode_zigzag, utf8)),
        hash_placeholder(placeholder).encode(),
    )


def hash_placeholder(placeholder: str) -> str:
    digest = hashlib.md5(placeholder.encode(), usedforsecurity=False).digest()
    return str(UUID(bytes=digest, version=3))


def add_old_key_deletes(fated: DataFrame, decoded_value: DecodedValue, table: StageTable) -> DataFrame:
    """Add the deletes of old keys, each with its record's place and sequence, as the record's second row.

    They pass every condition on the row, as deletes of missing rows do nothing. Tables that take no deletes keep the
    old row.
    """
    if table.ignore_deletes:
        return fated
    rows = "CASE WHEN moved_from_key IS NOT NULL AND fate IN ('staged', 'filtered') THEN array(false, true) END"
    moved_key = f"CASE WHEN is_old_key_wanted THEN {decoded_value.previous_key} END"
    records = fated.selectExpr("*", f"{moved_key} AS moved_from_key").selectExpr(
        "*", f"explode(coalesce({rows}, array(false))) AS is_old_key"
    )
    # what belongs to the old key is set last: it is read from the columns that it replaces
    changed_columns = {
        "record_fate": "CASE WHEN moved_from_key IS NOT NULL AND fate = 'filtered' THEN 'staged' ELSE record_fate END",
        "fate": "CASE WHEN is_old_key THEN 'staged' ELSE fate END",
        "key_struct": "CASE WHEN is_old_key THEN moved_from_key ELSE key_struct END",
        "value_struct": "CASE WHEN NOT is_old_key THEN value_struct END",
        "op": f"CASE WHEN is_old_key THEN '{DELETE}' ELSE op END",
        "row_number": "CASE WHEN is_old_key THEN row_number + 1L ELSE row_number END",
    }
    if table.stages_kept:
        changed_columns[KEPT_COLUMN] = f"CASE WHEN is_old_key THEN slice({KEPT_COLUMN}, 1, 0) ELSE {KEPT_COLUMN} END"
    return records.withColumns({name: F.expr(sql) for name, sql in changed_columns.items()})
