"""Columns that a batch's records make: for each field that no column holds, one that holds all of its values.

They depend on the batch's values alone, not on their order, so that each retry finds the same ones. Values are known by
the kinds that Spark's VARIANT has for them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from unicodedata import category

from tidegate.schema.data_types import (
    Array,
    Column,
    DataType,
    Map,
    Primitive,
    Struct,
    format_type,
    iterate_types,
    parse_type,
)
from tidegate.sql.spark import unquote

ELEMENT_STEP = "[]"
# a field as `UnknownField` names it, then the names inside of it
Steps = tuple[str, ...]
Kinds = Mapping[Steps, Set[str]]
STEP_PATTERN = re.compile(r"`(?:[^`]|``)*`|[^.`]+")
TEXT = Primitive("STRING")
WHOLE = "WHOLE"  # a number without a fraction, beyond BIGINT
# of BigQuery, and of Iceberg
RESERVED_BEGINS = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier", "_change_")
RESERVED_NAMES = ("_file", "_pos", "_spec_id", "_row_id", "_deleted", "_last_updated_sequence_number")
NAME_MARKS = frozenset(" &%=+:'<>#")
MAX_NAME_CHARACTERS = 300
DECIMALS = {"double": "DOUBLE", "decimal": "DECIMAL(38,9)", "string": "STRING"}  # the scale of BigQuery's NUMERIC


@dataclass(frozen=True)
class Infer:
    """Which types columns get that records make: for numbers with a fraction (double, decimal, string), and for
    objects (struct, string). `max_new_columns` is how many fields a batch may add, also inside of structs.
    """

    decimals: str = "double"
    objects: str = "struct"
    max_new_columns: int = 100


@dataclass(frozen=True)
class GrownColumns:
    """Columns that are new, or hold new fields inside; `fields` counts all of these."""

    columns: tuple[Column, ...] = ()
    fields: int = 0


def overlay_columns(columns: Iterable[Column], grown_columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns, each as it is after it has grown, and behind them those that are new."""
    by_name = {column.name.casefold(): column for column in columns}
    return tuple((by_name | {column.name.casefold(): column for column in grown_columns}).values())


def grow_columns(columns: Sequence[Column], fixed: Set[str], kinds: Kinds, infer: Infer) -> GrownColumns:
    """Return what `columns` need, to hold values of these `kinds` too.

    Fields whose names no column has make none, nor do those inside of the `fixed` columns (case-folded names).
    """
    grown_columns = {column.name: column for column in columns if column.name.casefold() not in fixed}
    taken = fixed | {column.name.casefold() for column in columns}
    kinds = _join_spellings(kinds)
    changed = dict[str, Column]()
    fields = 0
    for place in sorted({steps[0] for steps in kinds}):
        names = split_place(place)
        data_type = infer_type(kinds, (place,), infer)
        if data_type is None or not all(map(is_column_name, names)):
            continue
        if len(names) == 1:
            grown_type = None if names[0].casefold() in taken else data_type
        else:
            column = grown_columns.get(names[0])
            grown_type = None if column is None else _grow_type(parse_type(column.type), names[1:], data_type)
        if grown_type is not None:
            changed[names[0]] = grown_columns[names[0]] = Column(names[0], format_type(grown_type))
            fields += sum(isinstance(part, Primitive) for part in iterate_types(data_type, with_keys=False))
    return GrownColumns(tuple(changed.values()), fields)


def _join_spellings(kinds: Kinds) -> Kinds:
    # fields of a record whose names differ only in case fill one column
    spellings: dict[str, str] = {}
    joined: dict[Steps, Set[str]] = {}
    for steps, own_kinds in sorted(kinds.items()):
        place = steps[0] if len(split_place(steps[0])) > 1 else spellings.setdefault(steps[0].casefold(), steps[0])
        own_steps = (place, *steps[1:])
        joined[own_steps] = joined.get(own_steps, frozenset()) | own_kinds
    return joined


def split_place(place: str) -> tuple[str, ...]:
    """Split the name of an `UnknownField` into its steps, without backquotes; a step may hold blanks, or be empty."""
    return tuple(map(unquote, STEP_PATTERN.findall(place))) or ("",)


def infer_type(kinds: Kinds, steps: Steps, infer: Infer) -> DataType | None:
    """Return the type of the field at `steps`; None if it holds nothing yet.

    `kinds` are those of each field, and of what lies in it: BIGINT, WHOLE, DECIMAL, DOUBLE, BOOLEAN, STRING, OBJECT or
    ARRAY. Values of several kinds become text, which holds each as it is written.
    """
    own_kinds = kinds.get(steps, frozenset())
    if own_kinds == {"OBJECT"}:
        return TEXT if infer.objects == "string" else _infer_struct(kinds, steps, infer)
    if own_kinds == {"ARRAY"}:
        element = infer_type(kinds, (*steps, ELEMENT_STEP), infer)
        # BigQuery has no lists of lists
        return element and Array(TEXT if isinstance(element, Array) else element)
    return Primitive(_infer_leaf(own_kinds, infer)) if own_kinds else None


def _infer_leaf(kinds: Set[str], infer: Infer) -> str:
    if len(kinds) == 1 and kinds <= {"BIGINT", "BOOLEAN"}:
        return next(iter(kinds))
    if kinds <= {"BIGINT", WHOLE}:
        return "DECIMAL(38,0)"
    return DECIMALS[infer.decimals] if kinds <= {"BIGINT", WHOLE, "DECIMAL", "DOUBLE"} else "STRING"


def _infer_struct(kinds: Kinds, steps: Steps, infer: Infer) -> DataType | None:
    names = sorted({other[len(steps)] for other in kinds if len(other) > len(steps) and other[: len(steps)] == steps})
    types = {name: infer_type(kinds, (*steps, name), infer) for name in names}
    fields = tuple((name, kind) for name, kind in types.items() if kind is not None)
    if not fields:
        return None
    has_clash = len({name.casefold() for name, _ in fields}) < len(fields)
    return TEXT if has_clash or not all(is_column_name(name) for name, _ in fields) else Struct(fields)


def is_column_name(name: str) -> bool:
    """Whether each destination takes it for a column: BigQuery knows letters, digits and few marks, and no symbols."""
    is_reserved = name.casefold().startswith(RESERVED_BEGINS) or name.casefold() in RESERVED_NAMES
    has_name = bool(name.strip()) and len(name) <= MAX_NAME_CHARACTERS
    # letters, marks that belong to one, digits, underscores, dashes
    known = (char in NAME_MARKS or category(char)[0] in "LMN" or category(char) in ("Pc", "Pd") for char in name)
    return has_name and not is_reserved and all(known)


def _grow_type(data_type: DataType, names: Sequence[str], new_type: DataType) -> DataType | None:
    """Return the type with a new field at `names`, through lists and values of maps; None if none can be there."""
    match data_type:
        case Array(element):
            grown_type = _grow_type(element, names, new_type)
            return grown_type and replace(data_type, element=grown_type)
        case Map(_, value):
            grown_type = _grow_type(value, names, new_type)
            return grown_type and replace(data_type, value=grown_type)
        case Struct(fields) if len(names) == 1:
            is_taken = data_type.find_name(names[0]) is not None
            return None if is_taken else replace(data_type, fields=(*fields, (names[0], new_type)))
        case Struct(fields):
            types = dict(fields)
            grown_type = _grow_type(types[names[0]], names[1:], new_type) if names[0] in types else None
            return grown_type and replace(data_type, fields=tuple((types | {names[0]: grown_type}).items()))
    return None
