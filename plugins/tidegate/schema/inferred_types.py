"""The column that holds all values of a field, by the kinds that Spark's VARIANT has for them.

It is the same wherever batches are cut as long as each part of a batch has values of the same kinds.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from tidegate.schema.data_types import Array, DataType, Primitive, Struct

ELEMENT_STEP = "[]"
Steps = tuple[str, ...]
TEXT = Primitive("STRING")
WHOLE = "WHOLE"  # a number without a fraction, beyond BIGINT
DECIMALS = {"double": "DOUBLE", "decimal": "DECIMAL(38,9)", "string": "STRING"}  # the scale of BigQuery's NUMERIC


@dataclass(frozen=True)
class Infer:
    """Which types columns get that records add: of numbers with a fraction (double, decimal, string), and of objects
    (struct, string). `max_new_columns` is how many fields a batch may add, also inside of structs."""

    decimals: str = "double"
    objects: str = "struct"
    max_new_columns: int = 100


def infer_type(kinds: Mapping[Steps, Set[str]], steps: Steps, infer: Infer) -> DataType | None:
    """The type of the field at `steps`; None where it holds nothing yet.

    `kinds` are those of each field, and of what lies in it: BIGINT, WHOLE, DECIMAL, DOUBLE, BOOLEAN, STRING, OBJECT or
    ARRAY. Values of several kinds become text, which holds each as it is written.
    """
    own_kinds = kinds.get(steps, frozenset())
    if not own_kinds:
        return None
    if own_kinds == {"OBJECT"}:
        return TEXT if infer.objects == "string" else _infer_struct(kinds, steps, infer)
    if own_kinds == {"ARRAY"}:
        element = infer_type(kinds, (*steps, ELEMENT_STEP), infer)
        # BigQuery has no lists of lists
        return element if element is None else Array(TEXT if isinstance(element, Array) else element)
    return Primitive(_infer_leaf(own_kinds, infer))


def _infer_leaf(kinds: Set[str], infer: Infer) -> str:
    if len(kinds) == 1 and kinds <= {"BIGINT", "BOOLEAN"}:
        return next(iter(kinds))
    if kinds <= {"BIGINT", WHOLE}:
        return "DECIMAL(38,0)"
    return DECIMALS[infer.decimals] if kinds <= {"BIGINT", WHOLE, "DECIMAL", "DOUBLE"} else "STRING"


def _infer_struct(kinds: Mapping[Steps, Set[str]], steps: Steps, infer: Infer) -> DataType | None:
    names = sorted({other[-1] for other in kinds if other[:-1] == steps})
    if has_clashing_names(names):
        return TEXT
    types = {name: infer_type(kinds, (*steps, name), infer) for name in names}
    fields = tuple((name, kind) for name, kind in types.items() if kind is not None)
    return Struct(fields) if fields else None


def has_clashing_names(names: Iterable[str]) -> bool:
    """Whether no struct can have all of these names: some differ only in case, or one is no name."""
    ready = list(names)
    return len({name.casefold() for name in ready}) < len(ready) or not all(map(is_column_name, ready))


def is_column_name(name: str) -> bool:
    """Whether each destination takes it for a column: BigQuery knows none of these characters."""
    return bool(name.strip()) and name.isprintable() and not set(name) & set('!"$()*,./;?@[\\]^`{|}~')
