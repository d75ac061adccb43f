"""Records that cannot be used, and that the table's conditions leave to another table: none of this table's bad ones.

One topic may hold the records of many tables, and this table's columns and key fit only its own. So of a bad record
each part of the conditions is asked once more, if all that it reads could be read; a record of which no part can be
asked stays bad.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.spec.source import split_cast
from tidegate.sql.conditions import reads_any, split_conjunction
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.formats.change_events.unavailable_values import render_lacks_value_of
from tidegate_spark.formats.decoded import DELETE, ROW, DecodedValue
from tidegate_spark.stage.value import (
    PLACES,
    locate_key_columns,
    render_attempt,
    render_metadata,
    render_route,
    render_table_name,
)

RECORD = "_tidegate"


@dataclass(frozen=True)
class _Part:
    sql: str
    row_columns: tuple[str, ...]
    key_columns: tuple[str, ...]
    metadata: tuple[str, ...]


def has_conditions(table: StageTable) -> bool:
    return bool(_list_parts(table))


def mark_foreign_records(judged: DataFrame, decoded_value: DecodedValue, table: StageTable) -> DataFrame:
    """Add `is_foreign`: the record has a `reason`, and by a part of the conditions it is another table's."""
    parts = _list_parts(table)
    known_names = [f"_tidegate_known_{number}" for number in range(len(parts))]
    shown = judged.selectExpr(
        f"struct(*) AS {RECORD}",
        *(f"{_render_is_known(p, decoded_value, table)} AS {n}" for p, n in zip(parts, known_names, strict=True)),
        *(f"{sql} AS {quote(name)}" for name, sql in _list_shown_columns(decoded_value, table).items()),
    )
    answers = (f"CASE WHEN {n} THEN {render_attempt(p.sql)} END" for p, n in zip(parts, known_names, strict=True))
    # a delete shows no row, so the part must be false
    no_answers = f"'false', CASE WHEN {RECORD}.change <> '{DELETE}' THEN 'null' END"
    verdicts = (f"coalesce({answer} IN ({no_answers}), false)" for answer in answers)
    return shown.selectExpr(f"{RECORD}.*", f"{' OR '.join(verdicts)} AS is_foreign")


def _list_parts(table: StageTable) -> list[_Part]:
    conditions = split_conjunction(table.when) if table.when is not None and not table.retracts else []
    route = render_route(table.route)
    conditions += [route] if route else []
    if table.naming is not None and table.naming.name is not None:
        conditions.append(f"{render_table_name(table.naming)} = {render_literal(table.naming.name)}")
    groups = ([c.name for c in table.value_columns], [*locate_key_columns(table)], [*table.metadata])
    return [_Part(sql, *(tuple(n for n in group if reads_any(sql, [n])) for group in groups)) for sql in conditions]


def _list_shown_columns(decoded_value: DecodedValue, table: StageTable) -> dict[str, str]:
    metadata = render_metadata(decoded_value, table)
    keys = locate_key_columns(table)
    columns = keys | {name: metadata[word] for name, word in table.metadata.items()}
    for name in (c.name for c in table.value_columns):
        own_value = _render_own_value(name, decoded_value)
        columns[name] = f"coalesce({own_value}, {keys[name]})" if name in keys else own_value
    names = {name.casefold() for name in columns}
    return columns | {name: name for name in PLACES if name not in names}


def _render_own_value(name: str, decoded_value: DecodedValue) -> str:
    located = decoded_value.columns_of_unlocated.get(name)
    own_value = f"{ROW}.{quote(name)}"
    return f"CASE WHEN located_reason IS NULL THEN {own_value} ELSE {located} END" if located else own_value


def _render_is_known(part: _Part, decoded_value: DecodedValue, table: StageTable) -> str:
    # in a message that was not located NULL may be what could not be read
    conditions = ["reason IS NOT NULL", f"NOT {decoded_value.concerns_all}"]
    if part.row_columns:
        # by another row of the record, or by the key that it leaves, it may be this table's all the same
        conditions += [f"change <> '{DELETE}'", f"(located_reason IS NULL OR {decoded_value.row_count} <= 1)"]
        conditions += [f"({decoded_value.previous_key}) IS NULL"] if decoded_value.previous_key else []
    if lacking := render_lacks_value_of(part.sql, decoded_value, table):
        conditions.append(f"NOT ({lacking})")
    optional_columns = {c.name for c in table.value_columns if c.nullable}
    for name in part.row_columns:
        may_be_null = "located_reason IS NULL" if name in optional_columns else "false"
        if name in part.key_columns:
            may_be_null += f" AND {_render_is_key_known(decoded_value, table)}"
        conditions.append(f"(({_render_own_value(name, decoded_value)}) IS NOT NULL OR {may_be_null})")
        doubts = (decoded_value.doubts.get(other, "true") for other in table.names_of.get(name, (name,)))
        conditions.append(f"NOT ({' OR '.join(doubts)})")
    if set(part.key_columns) - set(part.row_columns):
        conditions.append(_render_is_key_known(decoded_value, table))
    for word, _ in (split_cast(table.metadata[name]) for name in part.metadata):
        name = word.removeprefix("value.")
        if word.startswith("value.") and name in decoded_value.metadata:
            conditions.append(f"(({decoded_value.metadata[name]}) IS NOT NULL OR located_reason IS NULL)")
            conditions.append(f"NOT coalesce({decoded_value.lossy_metadata.get(name, 'false')}, false)")
    return " AND ".join(conditions)


def _render_is_key_known(decoded_value: DecodedValue, table: StageTable) -> str:
    is_own = "false" if table.key.from_value or decoded_value.has_several_rows else "key IS NOT NULL"
    return f"(key_reason IS NULL AND ({is_own} OR located_reason IS NULL))"
