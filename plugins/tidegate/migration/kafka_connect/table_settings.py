"""What the sources share of a table: its row made of the record, its partitions, and durations in YAML's words."""

import re
from collections.abc import Iterable
from typing import Any

from tidegate.migration.draft import Draft
from tidegate.migration.transforms.record_plan import NEEDS_SCHEMA, RecordPlan
from tidegate.sinks.world import TableShape, World
from tidegate.sql.spark import quote

COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")
TRANSFORM_PATTERN = re.compile(r"(year|month|day|hour|bucket|truncate)s?\(\s*([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)")
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000


def format_milliseconds(milliseconds: int) -> str:
    """A number of milliseconds as a duration of the pipeline file, rounded up to a second."""
    number = max(milliseconds, SECOND_MS)
    for length, unit in ((HOUR_MS, "h"), (MINUTE_MS, "m")):
        if number % length == 0:
            return f"{number // length}{unit}"
    return f"{-(-number // SECOND_MS)}s"


def parse_partitions(text: str) -> list[str]:
    """Partition fields in Iceberg's words, ``day(ts), bucket(id, 16)``, as a pipeline file has them."""
    return [_translate_partition(part.strip()) for part in COMMA_OUTSIDE_PARENTHESES.split(text) if part.strip()]


def _translate_partition(part: str) -> str:
    match = TRANSFORM_PATTERN.fullmatch(part)
    if match is None:
        return part
    name, column, width = match.groups()
    return f"{name}({width}, {column})" if width else f"{name}s({column})"


def complete_records(draft: Draft, plan: RecordPlan, world: World) -> None:
    """Put key, value, metadata and the SELECT into the draft; a schema that it needs is looked up in the table."""
    source, tables = draft.data["source"], draft.data["tables"]
    value = _build_part(plan.value, "value")
    if plan.key:
        source["key"] = _build_part(plan.key, (plan.key.get("fields") or ["key"])[0])
    source["value"] = value
    if plan.metadata:
        source["metadata"] = dict(plan.metadata)
    select = plan.build_select()
    for index, table in enumerate(tables):
        if select:
            table["select"] = select
        if plan.delete_when:
            table["delete_when"] = plan.delete_when
        if select and not plan.is_typed:
            _add_schema(draft, plan, world, index)


def _build_part(part: dict[str, Any], column: str) -> dict[str, Any]:
    column_part = {name: value for name, value in part.items() if name != "type"}
    return column_part | ({"schema": f"{column} {part['type']}"} if "type" in part else {})


def _add_schema(draft: Draft, plan: RecordPlan, world: World, index: int) -> None:
    """The value's fields are the table's columns without those that this file makes."""
    source, table = draft.data["source"], draft.data["tables"][index]
    shape = world.describe_table(table["name"])
    if shape is None:
        draft.fill_in(("source", "value"), f"schema: ..., because {NEEDS_SCHEMA}.")
        return
    schema = format_schema(shape, _list_made_columns(plan), {new: old for old, new in plan.renamed.items()})
    if len(draft.data["tables"]) == 1:
        source["value"]["schema"] = schema
    else:
        table["value"] = {**source["value"], "schema": schema}
    draft.check(
        ("tables", index, "select" if "select" in table else "name"),
        f"value.schema was taken from the columns of {table['name']}: a field that only the transform reads is "
        "missing.",
    )


def _list_made_columns(plan: RecordPlan) -> set[str]:
    own_columns = {*plan.dropped, *plan.list_replaced_fields()}
    return {name.casefold() for name in (*plan.metadata, *plan.computed) if name not in own_columns}


def format_schema(shape: TableShape, left_out: Iterable[str], renamed_columns: dict[str, str] | None = None) -> str:
    """A table's columns as Spark DDL, without some of them; `renamed_columns` gives a column its name in the record."""
    hidden_columns, names = set(left_out), renamed_columns or {}
    return ", ".join(
        f"{_quote_where_needed(names.get(column.name, column.name))} {column.type}"
        for column in shape.columns
        if column.name.casefold() not in hidden_columns
    )


def _quote_where_needed(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else quote(name)
