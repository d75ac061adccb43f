"""How the double of Spark decodes one record: its key, its row, and what becomes of it."""

import json
import re
from collections.abc import Callable
from typing import Any

from tidegate.jobs.stage_job import StageTable
from tidegate.spec.projection import Projection
from tidegate.spec.table import Route

from fakes.broker import Record
from fakes.folded import replace_placeholders
from fakes.grown_values import fit_row
from fakes.lake import MemoryDestination
from fakes.tables import Row

BAD = "not JSON"  # a key or value that no format can read
TRUNCATE = {"op": "t"}  # a value that says that the source table was emptied


class RecordDecoder:
    """Decodes records; `conditions` and `selects` say what SQL texts mean."""

    def __init__(self, destination: MemoryDestination) -> None:
        self.destination = destination
        self.conditions: dict[str, Callable[[Any], bool]] = {}
        self.selects: dict[str, Callable[..., Row]] = {}

    def decode_record(self, table: StageTable, topic: str, partition: int, record: Record) -> tuple[str, Row]:
        place = {"topic": topic, "partition": partition, "offset": record.offset}
        source = record.value if record.key is None else record.key
        if table.value.applies_truncates and record.value == TRUNCATE:
            row = {"key": None, "value": None, "op": "t", "kept": [], "sequence": None}
            return "staged", {**row, **place, "i": 0, "timestamp": record.timestamp}
        if BAD in (record.key, record.value) or (table.key_columns and source is None):
            return "bad", {**place, "reason": "not readable"}
        prefix = table.key.prefix
        key = {c.name: source.get(c.name.removeprefix(prefix)) for c in table.key_columns}
        value = None if record.value is None else {c.name: record.value.get(c.name) for c in table.value_columns}
        misfits: list[str] = []
        if value is not None and table.value.adds_columns:
            value, misfits = fit_row(table, record.value)
        value_fields = {
            name: field_value
            for name, field_value in (value or {}).items()
            if field_value is not None or name not in key
        }
        visible_fields = {**place, **dict.fromkeys(value or ()), **key, **value_fields}
        is_retracted = value is not None and self._is_retracted(table, visible_fields)
        is_delete = value is None or (
            table.delete_when is not None and self.conditions[table.delete_when](visible_fields)
        )
        is_delete = is_delete or is_retracted
        misfit = _find_misfit(table, record, key, None if is_delete else value)
        misfit = f"the value does not fit, fields: {', '.join(misfits)}" if misfits else misfit
        if misfit:
            made = [name for name in misfits if name.casefold() not in table.fixed]
            return "bad", {**place, "reason": misfit, "columns": made}
        if value is not None and not self._is_chosen(table, visible_fields, is_retracted):
            return "filtered", {}
        fate = _judge_name(table, None if value is None else visible_fields)
        if fate or (is_delete and table.ignore_deletes):
            return fate or "ignored", {**place, "reason": "names no table"} if fate == "bad" else {}
        metadata_values = {name: {**place, "timestamp": record.timestamp}.get(k) for name, k in table.metadata.items()}
        decoded_value, unchanged_columns = (None, []) if is_delete else replace_placeholders(table, value or {})
        output_value = None if decoded_value is None else {**decoded_value, **metadata_values}
        if table.select is not None and output_value is not None and not table.keys_only:
            output_value = self._select_values(
                table.select, {**place, "timestamp": record.timestamp, **output_value, **key}
            )
        row = {"key": key, "value": output_value, "op": "d" if is_delete else "u"}
        row["kept"] = unchanged_columns
        row["sequence"] = _get_sequence(table, is_delete, {**(value or {}), **metadata_values})
        return "staged", {**row, **place, "i": 0, "timestamp": record.timestamp}

    def _select_values(self, projection: Projection, visible_fields: Row) -> Row:
        """A row made by what the test says the text means, with the dimensions' rows at their pinned snapshots."""
        snapshots = {
            d.alias: self.destination.tables[d.table].snapshots.get(d.snapshot_id) for d in projection.dimensions
        }
        dimension_rows = {
            alias: [] if snapshot is None else list(snapshot.rows) for alias, snapshot in snapshots.items()
        }
        selected_values = self.selects[projection.text](visible_fields, **dimension_rows)
        return {column.name: selected_values.get(column.name) for column in projection.columns}

    def _is_retracted(self, table: StageTable, visible_fields: Row) -> bool:
        """Whether the condition's answer makes the record a delete."""
        return bool(table.retracts) and json.dumps(self.conditions[table.when](visible_fields)) in table.retracts

    def _is_chosen(self, table: StageTable, visible_fields: Row, is_retracted: bool) -> bool:
        """Whether a row meets the table's condition, or is retracted by it, and the route."""
        if table.when is not None and not is_retracted and not self.conditions[table.when](visible_fields):
            return False
        return table.route is None or _is_routed(table.route, visible_fields)


def _judge_name(table: StageTable, visible_fields: Row | None) -> str | None:
    """Bad where names are looked for and the row makes none, filtered where it names another table."""
    if table.naming is None or visible_fields is None:
        return None
    table_name = table.naming.name_of(visible_fields)
    if table.naming.name is None:
        return "bad" if table_name is None else None
    return None if table_name == table.naming.name else "filtered"


def _find_misfit(table: StageTable, record: Record, key: Row, value: Row | None) -> str | None:
    """Why a record that can be read is bad all the same."""
    for name in table.verified if record.key is not None and record.value is not None else ():
        if key[table.key.prefix + name] != record.value.get(name):
            return f"the key and the value differ in field {name}"
    _, unchanged_columns = replace_placeholders(table, value or {})
    if table.has_history and table.sequence and value is not None and value.get(table.sequence[0], 0) is None:
        return f"{table.sequence[0]} is NULL"
    unchanged_columns = (
        unchanged_columns
        if table.sequence or table.has_history
        else [name for name in unchanged_columns if name.casefold() in table.grouped]
    )
    return f"the value of {unchanged_columns[0]} is not in the event" if unchanged_columns else None


def has_placeholder(table: StageTable, record: Record) -> bool:
    """Whether the placeholder of an unchanged value is somewhere in the record's value."""
    return table.value.unavailable is not None and table.value.unavailable in json.dumps(record.value)


def _get_sequence(table: StageTable, is_delete: bool, row: Row) -> list[Any] | None:
    sequence_values = [row.get(name) for name in table.sequence if name not in table.metadata]
    has_sequence = not sequence_values or any(value is not None for value in sequence_values)
    has_sequence = has_sequence or table.has_history
    return [row.get(name) for name in table.sequence] if table.sequence and (has_sequence or not is_delete) else None


def _is_routed(route: Route, visible_fields: Row) -> bool:
    value = visible_fields.get(route.field)
    if value is None:
        return False
    return str(value) in route.names if route.pattern is None else re.fullmatch(route.pattern, str(value)) is not None
