"""Which types Spark casts to which: a cast that it refuses fails with the first record."""

from collections.abc import Mapping

from tidegate.schema.data_types import BINARY_NUMBERS, PRIMITIVE_NAMES, Array, DataType, Map, Primitive, Struct

INTEGERS = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
NUMBERS = {*BINARY_NUMBERS, "DECIMAL"}
TIMES = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
Targets = Mapping[str, set[str]]  # beside STRING, to which everything is cast
TARGETS: Targets = {
    "BOOLEAN": {"BOOLEAN", *NUMBERS},
    **{number: {"BOOLEAN", *NUMBERS, "TIMESTAMP"} for number in NUMBERS},
    "STRING": {*PRIMITIVE_NAMES, "DECIMAL"},
    "BINARY": {"BINARY"},
    "DATE": TIMES,
    "TIMESTAMP": TIMES | NUMBERS,
    "TIMESTAMP_NTZ": TIMES,
}
PART_TARGETS: Targets = {  # Spark's older rules hold for what is inside of a list, a map or a struct
    **TARGETS,
    "BOOLEAN": {"BOOLEAN", *NUMBERS, "TIMESTAMP"},
    **{number: {"BOOLEAN", *NUMBERS, "TIMESTAMP", "BINARY"} for number in INTEGERS},
    **{time: {"BOOLEAN", *NUMBERS, *TIMES} for time in ("DATE", "TIMESTAMP")},
}


def can_cast(source: DataType, target: DataType, targets: Targets = TARGETS) -> bool:
    """Whether Spark may cast one type to the other; True also where that is not known."""
    match source, target:
        case Primitive(), Primitive():
            known_targets = targets.get(source.name.partition("(")[0])
            return known_targets is None or target.name.partition("(")[0] in {"STRING", *known_targets}
        case Array(element), Array(target_element):
            return can_cast(element, target_element, PART_TARGETS)
        case Map(key, value), Map(target_key, target_value):
            return _can_cast_key(key, target_key) and can_cast(value, target_value, PART_TARGETS)
        case Struct(fields), Struct(target_fields) if len(fields) == len(target_fields):
            pairs = zip(fields, target_fields, strict=True)
            return all(can_cast(one, other, PART_TARGETS) for (_, one), (_, other) in pairs)
        case Primitive(), _:
            return source.name.partition("(")[0] not in targets
    return target == Primitive("STRING")


def _can_cast_key(source: DataType, target: DataType) -> bool:
    """A key is never NULL, which a text that is no number would become."""
    may_be_null = source == Primitive("STRING") and target not in (Primitive("STRING"), Primitive("BINARY"))
    return not may_be_null and can_cast(source, target, PART_TARGETS)
