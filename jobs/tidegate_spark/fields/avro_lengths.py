"""Checks lengths and counts in Avro bytes before a decoder reserves memory for them.

The module travels to the workers by value, so it imports nothing of the product; `pyarrow` is there. Avro's Java
decoder reserves what a record announces: ten corrupt bytes ask for gigabytes and end the JVM, for every pipeline.
"""

import json
from collections.abc import Callable
from typing import Any

HEADER_BYTES = 5  # the magic byte and four bytes of schema id
NAMED_TYPES = ("record", "error", "enum", "fixed")
FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
MAX_VARINT_BYTES = 10

Skip = Callable[[bytes, int], int]


class _LengthError(Exception):
    """The bytes announce more than there is."""


def build_length_checker(schemas: dict[str, str]) -> Callable[[Any], Any]:
    """Return a function of an Arrow array of bytes: whether each fits the schema of its id; `""`: bytes without one."""
    import pyarrow as pa

    def check(values: pa.Array) -> pa.Array:
        walks = {number: compile_skip(json.loads(text)) for number, text in schemas.items()}
        return pa.array([None if v is None else fits_schema(v, walks) for v in values.to_pylist()], pa.bool_())

    return check


def fits_schema(value: bytes, walks: dict[str, Skip]) -> bool:
    """Whether every length and count is covered by bytes that follow; what follows the record does not matter."""
    walk = walks.get("")
    at = 0
    if walk is None:
        walk = walks.get(str(int.from_bytes(value[1:HEADER_BYTES], "big")))
        at = HEADER_BYTES
    if walk is None:
        return False
    try:
        return walk(value, at) <= len(value)
    except (_LengthError, RecursionError):
        return False


def compile_skip(schema: Any, skips: dict[str, Skip] | None = None) -> Skip:
    """Return a function that steps over one value of the schema: (bytes, offset) to the offset behind it."""
    skips = {} if skips is None else skips
    if isinstance(schema, list):
        return _compile_union([compile_skip(branch, skips) for branch in schema])
    word = schema if isinstance(schema, str) else schema["type"]
    if not isinstance(word, str):
        return compile_skip(word, skips)
    if word == "array":
        return _compile_blocks(compile_skip(schema["items"], skips))
    if word == "map":
        value = compile_skip(schema["values"], skips)
        return _compile_blocks(lambda data, at: value(data, _skip_bytes(data, at)))
    return _compile_named(schema, skips) if word in NAMED_TYPES else _compile_simple(word, skips)


def _compile_named(schema: Any, skips: dict[str, Skip]) -> Skip:
    parts: list[Skip] = []

    def skip_parts(data: bytes, at: int) -> int:
        for part in parts:
            at = part(data, at)
        return at

    skip: Skip = skip_parts
    if schema["type"] == "enum":
        skip = _skip_varint
    elif schema["type"] == "fixed":
        skip = _compile_fixed(int(schema["size"]))
    name = str(schema["name"])
    space = schema.get("namespace")
    skips[f"{space}.{name}" if space and "." not in name else name] = skip  # before its fields: they may name it
    skips.setdefault(name.rsplit(".", 1)[-1], skip)
    parts += [compile_skip(field["type"], skips) for field in schema.get("fields", ())]
    return skip


def _compile_simple(word: str, skips: dict[str, Skip]) -> Skip:
    if word in ("string", "bytes"):
        return _skip_bytes
    if word in ("int", "long"):
        return _skip_varint
    if word in FIXED_SIZES:
        return _compile_fixed(FIXED_SIZES[word])
    return skips[word if word in skips else word.rsplit(".", 1)[-1]]


def _compile_fixed(size: int) -> Skip:
    return lambda data, at: at + size


def _compile_union(parts: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        branch, at = read_long(data, at)
        if not 0 <= branch < len(parts):
            raise _LengthError
        return parts[branch](data, at)

    return skip


def _compile_blocks(item: Skip) -> Skip:
    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = read_long(data, at)
            if count < 0:  # followed by the block's size in bytes
                count, (_, at) = -count, read_long(data, at)
            if count == 0:
                return at
            if count > max(len(data) - at, 0):  # no type that a table has takes less than a byte
                raise _LengthError
            for _ in range(count):
                at = item(data, at)

    return skip


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if not 0 <= length <= len(data) - at:
        raise _LengthError
    return at + length


def _skip_varint(data: bytes, at: int) -> int:
    return read_long(data, at)[1]


def read_long(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place in range(MAX_VARINT_BYTES):
        if at >= len(data):
            raise _LengthError
        byte = data[at]
        number |= (byte & 0x7F) << (7 * place)
        at += 1
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise _LengthError
