"""What the sources share of a table: its row made of the record, its partitions, and durations in YAML."""

import re
from collections.abc import Mapping
from typing import Any

from tidegate.formats.registry import get_format
from tidegate.migration.draft import Draft, SettingsLedger
from tidegate.migration.transforms.record_plan import FILL_IN, NEEDS_SCHEMA, RecordPlan
from tidegate.sinks.world import World
from tidegate.spec.source import to_file_form
from tidegate.sql.spark import quote

COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")
TRANSFORM_PATTERN = re.compile(r"(year|month|day|hour|bucket|truncate)s?\(\s*([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)")
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
NEW_FIELDS = (
    "records in JSON make columns only where no transform, condition, route or partition of a new table reads them, so "
    "a field that no column names is counted and left out: add its column to the table, or to value.schema"
)
MADE_COLUMNS = "types come from the records' values; a later value that its column does not hold makes its record bad"


def format_milliseconds(milliseconds: int) -> str:
    """As a duration of the pipeline file, rounded up to a second."""
    number = max(milliseconds, SECOND_MS)
    for length, unit in ((HOUR_MS, "h"), (MINUTE_MS, "m")):
        if number % length == 0:
            return f"{number // length}{unit}"
    return f"{-(-number // SECOND_MS)}s"


def parse_partitions(text: str) -> list[str]:
    """From Iceberg's ``day(ts), bucket(id, 16)`` to the pipeline file's entries."""
    partitions = []
    for part in filter(None, map(str.strip, COMMA_OUTSIDE_PARENTHESES.split(text))):
        if match := TRANSFORM_PATTERN.fullmatch(part):
            name, column, width = match.groups()
            partitions.append(f"{name}({width}, {column})" if width else f"{name}s({column})")
        else:
            partitions.append(part)
    return partitions


def note_new_fields(  # noqa: PLR0913 - the two facts of a sink, by name
    ledger: SettingsLedger, plan: RecordPlan, name: str, target: str, *, can_add: bool, default: bool = False
) -> None:
    """Account for a switch with which the sink adds columns for new fields of a record.

    - `can_add`: no condition, no route and no partition of a new table reads the record.
    - `default`: what the sink does without the switch.
    """
    is_read = bool(plan.when or plan.delete_when or plan.missing) or plan.row.is_changed
    record_format = get_format(plan.value.get("format", "json"))
    if not ledger.is_true(name, default=default) or plan.row.is_typed:
        ledger.map(name, target)
    elif can_add and record_format.reads_by_name and "json" not in plan.value and not is_read:
        plan.value["unknown_fields"] = "add"
        ledger.check(name, f"source.value.unknown_fields: add, {target}", MADE_COLUMNS)
    else:
        ledger.refuse(name, NEW_FIELDS)


def complete_records(draft: Draft, plan: RecordPlan, world: World) -> None:
    """Put key, value, metadata and the SELECT into the draft; a schema that it needs is looked up in the table."""
    source = draft.data["source"]
    if plan.key:
        source["key"] = _build_part(plan.key, (plan.key.get("fields") or ["key"])[0])
    source["value"] = _build_part(plan.value, "value")
    if plan.metadata:
        source["metadata"] = {column: to_file_form(word) for column, word in plan.metadata.items()}
    _check_keys(draft, plan)
    for index, table in enumerate(draft.data["tables"]):
        _complete_table(draft, plan, world, index)
        if plan.delete_when:
            table["delete_when"] = plan.delete_when
        if plan.when:
            table["when"] = plan.when
        if plan.value.get("unknown_fields") == "add":
            _complete_growing_table(draft, table, table.get("key", plan.key), world)


def declare_disjoint_keys(draft: Draft, table: dict[str, Any], index: int) -> None:
    """Let several topics feed the table, which the user has to check."""
    table["disjoint_keys"] = True
    draft.check(
        ("tables", index, "disjoint_keys"),
        "Several topics feed this table: make sure that no two have the same key, or write by-topic.",
    )


def _complete_growing_table(draft: Draft, table: dict[str, Any], key: dict[str, Any], world: World) -> None:
    """Let the layout of an existing table be its own: the file declares no column that it could name."""
    if world.describe_table(table["name"]):
        layout = table.get("create", {})
        for word in ("partition_by", "cluster_by"):
            layout.pop(word, None)
        if not layout:
            table.pop("create", None)
    elif key.get("fields"):
        draft.check(
            ("source", "key"),
            f"schema: the types of the key's fields, e.g. id BIGINT: table={table['name']} is made of the records, "
            "and its key has no types yet.",
        )


def _build_part(part: dict[str, Any], column: str) -> dict[str, Any]:
    column_part = {name: value for name, value in part.items() if name != "type"}
    return column_part | ({"schema": f"{column} {part['type']}"} if "type" in part else {})


def _check_keys(draft: Draft, plan: RecordPlan) -> None:
    keys = [plan.key, *(table["key"] for table in draft.data["tables"] if "key" in table)]
    is_of_value = plan.key.get("from") == "value"
    names = plan.list_key_columns() if not is_of_value else [name for key in keys for name in key.get("fields", [])]
    # a row whose key the transforms have changed cannot be found again
    for name in dict.fromkeys(names):
        cell = plan.row.find(name)
        if (cell is None and (is_of_value or plan.row.is_hidden(name))) or (cell and cell.field != name):
            draft.fill_in(
                ("source", "key"),
                f"fields: the transforms change or leave out the column {name}, and a key is the record's own; name "
                "fields that they leave as they are.",
            )


def _check_read_fields(draft: Draft, plan: RecordPlan, index: int, columns: Mapping[str, str]) -> None:
    """Note the fields that transforms read and a table may lack: a select needs them, the sink passes over them."""
    known = {name.casefold() for name in (*columns, *plan.list_made_columns())}
    made = plan.row.list_rendered()
    lacking = [name for name in made if name.casefold() not in known]
    tables = draft.data["tables"]
    if columns and lacking:
        draft.check(
            ("tables", index),
            f"table={tables[index]['name']} lacks {', '.join(lacking)}: take out of its select what its records do not "
            "have; the connector passed over it.",
        )
    elif not columns and made and index == len(tables) - 1 > 0:
        draft.check(
            ("tables",),
            f"The transforms read the fields {', '.join(made)} of {len(tables)} topics: take out of a table's select "
            "what its records do not have; the connector passed over it.",
        )


def _complete_table(draft: Draft, plan: RecordPlan, world: World, index: int) -> None:
    """Add the SELECT of a table, and the value's fields where the format lacks them: from the table's columns."""
    table = draft.data["tables"][index]
    if plan.missing:
        table["select"] = FILL_IN
        draft.fill_in(
            ("tables", index, "select"),
            f"the row of table={table['name']}: {', '.join(plan.missing)} leave out or change columns, and what they "
            "do is not in this file; a table without them would show what the connector does not.",
        )
        return
    fields: dict[str, str] | None = None
    columns: dict[str, str] = {}
    shape = None
    if plan.row.is_changed and not plan.row.is_typed:
        shape = world.describe_table(table["name"])
    if shape is not None:
        columns = {column.name: column.type for column in shape.columns}
        fields = plan.row.list_fields(columns, plan.list_made_columns()) or None
    select = plan.build_select(fields)
    if select:
        table["select"] = select
    _check_read_fields(draft, plan, index, columns)
    if not plan.row.is_changed or plan.row.is_typed:
        return
    if fields is None:
        draft.fill_in(("source", "value"), f"schema: ..., because {NEEDS_SCHEMA}.")
        return
    unread = {name.casefold() for name in columns} - {name.casefold() for name in (*fields, *plan.list_made_columns())}
    if not select and not unread:
        return
    schema = ", ".join(f"{name if PLAIN_NAME.fullmatch(name) else quote(name)} {kind}" for name, kind in fields.items())
    if len(draft.data["tables"]) == 1:
        draft.data["source"]["value"]["schema"] = schema
    else:
        table["value"] = {**draft.data["source"]["value"], "schema": schema}
    draft.check(
        ("tables", index, "select" if select else "name"),
        f"value.schema was taken from the columns of {table['name']}: read the types of the fields that transforms "
        "read.",
    )
