"""What a stage job does where records make columns: kinds of values, and rows that are the same for each cut."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import LACKING_COLUMNS
from tidegate.schema.data_types import Array, DataType, Struct, parse_type
from tidegate.schema.inferred_types import ELEMENT_STEP, Steps, grow_columns

KINDS = {int: "BIGINT", str: "STRING", float: "DOUBLE", bool: "BOOLEAN", dict: "OBJECT", list: "ARRAY"}
FITTING = {"BIGINT": int, "INT": int, "DOUBLE": (int, float), "BOOLEAN": bool, "STRING": object}


def drop_hollow(value: Any) -> Any:
    """The value, with None in place of all that holds no scalar."""
    if isinstance(value, dict):
        inner = {name: drop_hollow(field) for name, field in value.items()}
        return inner if any(field is not None for field in inner.values()) else None
    if isinstance(value, list):
        elements = [drop_hollow(element) for element in value]
        return elements if any(element is not None for element in elements) else None
    return value


def find_lacking_columns(table: StageTable, values: Iterable[Any]) -> dict[str, Any]:
    """For the outcome: what the values hold beside the columns."""
    kinds: dict[Steps, set[str]] = {}
    columns = Struct(tuple((column.name, parse_type(column.type)) for column in table.value_columns))
    for value in values:
        known = {column.name.removeprefix(table.key.prefix): None for column in table.key_columns}
        own_fields = {name: field for name, field in value.items() if name not in known}
        _note_unknown(kinds, respell(table, own_fields), columns, "")
    lacking = grow_columns(table.value_columns, set(table.fixed), kinds, table.value.infer)
    return {LACKING_COLUMNS: asdict(lacking)} if lacking.fields else {}


def respell(table: StageTable, fields: dict[str, Any]) -> dict[str, Any]:
    """With the columns' own spelling of names at the top."""
    own_names = {column.name.casefold(): column.name for column in table.value_columns}
    return {own_names.get(name.casefold(), name): field for name, field in fields.items()}


def _note_unknown(kinds: dict[Steps, set[str]], value: Any, known: DataType, path: str) -> None:
    if isinstance(known, Array) and isinstance(value, list):
        for element in value:
            _note_unknown(kinds, element, known.element, path)
    if not isinstance(known, Struct) or not isinstance(value, dict):
        return
    types = dict(known.fields)
    for name, field in value.items():
        if name in types:
            _note_unknown(kinds, field, types[name], f"{path}{name}.")
        else:
            _note_kinds(kinds, drop_hollow(field), (f"{path}{name}",))


def _note_kinds(kinds: dict[Steps, set[str]], value: Any, steps: Steps) -> None:
    if value is None:
        return
    kinds.setdefault(steps, set()).add(KINDS[type(value)])
    for name, inner in value.items() if isinstance(value, dict) else ():
        _note_kinds(kinds, inner, (*steps, name))
    for element in value if isinstance(value, list) else ():
        _note_kinds(kinds, element, (*steps, ELEMENT_STEP))


def fit_row(table: StageTable, fields: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The row, and the names of columns that do not hold what the record has."""
    fields = respell(table, fields)
    row: dict[str, Any] = {}
    misfits = []
    for column in table.value_columns:
        try:
            row[column.name] = fit_value(fields.get(column.name), parse_type(column.type))
        except ValueError:
            misfits.append(column.name)
    return row, misfits


def fit_value(value: Any, data_type: DataType) -> Any:
    """The value as a column of that type holds it; raises `ValueError` if it cannot."""
    value = drop_hollow(value)
    match data_type:
        case _ if value is None:
            return None
        case Struct(fields) if isinstance(value, dict):
            return drop_hollow({name: fit_value(value.get(name), inner) for name, inner in fields})
        case Array(element) if isinstance(value, list):
            return drop_hollow([fit_value(inner, element) for inner in value])
        case Struct() | Array():
            raise ValueError(value)
        case _ if not isinstance(value, FITTING[data_type.name]):
            raise ValueError(value)
    return str(value) if data_type.name == "STRING" else value
