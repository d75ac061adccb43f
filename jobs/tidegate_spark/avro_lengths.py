"""Lengths and counts in Avro bytes, held to what can be true before a decoder reserves memory for them.

Avro's Java decoder reserves what a record announces: ten corrupt bytes ask for gigabytes and end the JVM, for every
pipeline of that server. Its own limits are settings of the JVM, see `tidegate.avro_limits`. Where a server was started
without them, each record is walked through on Python workers first. What they run travels there by value.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidegate.avro_limits import JAVA_OPTIONS, LIMITS, has_limits
from tidegate.jobs import StageJob, StageTable

log = logging.getLogger(__name__)

HEADER = 5  # the magic byte and four bytes of schema id
AVRO = ("avro", "debezium-avro")
CHECK = "check_lengths"
NAMED = ("record", "error", "enum", "fixed")
FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}
MAX_VARINT_BYTES = 10

Skip = Callable[[bytes, int], int]


class _Broken(Exception):
    """The bytes announce more than there is."""


def guard_lengths(spark: Any, job: StageJob) -> StageJob:
    """The job as this server can run it: where its JVMs lack Avro's limits, Avro records are walked through first."""
    finder = [job.finder] if job.finder else []
    if not any(part.format in AVRO for table in (*job.tables, *finder) for part in (table.key, table.value)):
        return job
    is_local = str(spark.conf.get("spark.master", "")).startswith("local")
    if has_limits(str(spark.conf.get(JAVA_OPTIONS[0 if is_local else 1], "") or "")):
        return job
    log.warning(
        "Avro records are checked on Python workers, which costs several times the CPU: set %s in %s of this server",
        " ".join(f"-D{name}={value}" for name, value in LIMITS.items()), " and ".join(JAVA_OPTIONS),
    )  # fmt: skip
    tables = tuple(with_length_check(table) for table in job.tables)
    return replace(job, tables=tables, finder=with_length_check(job.finder) if job.finder else None)


def with_length_check(table: StageTable) -> StageTable:
    """The table with Avro records walked through before they are decoded."""
    key, value = table.key, table.value
    if key.format in AVRO:
        key = replace(key, options={**key.options, CHECK: True})
    if value.format in AVRO:
        value = replace(value, options={**value.options, CHECK: True})
    return replace(table, key=key, value=value)


def length_checker(schemas: dict[str, str]) -> Callable[[Any], Any]:
    """A function of an Arrow array of bytes: whether each fits the schema of its id; `""` is for bytes without one.

    By its hints Spark knows what kind of function it is.
    """
    import pyarrow as pa

    def check(values: pa.Array) -> pa.Array:
        walks = {number: compiled(json.loads(text)) for number, text in schemas.items()}
        return pa.array([None if v is None else fits_schema(v, walks) for v in values.to_pylist()], pa.bool_())

    return check


def fits_schema(value: bytes, walks: dict[str, Skip]) -> bool:
    """Whether every length and count in the bytes is covered by bytes that follow; what follows the record is free."""
    walk, at = walks.get(""), 0
    if walk is None:
        walk, at = walks.get(str(int.from_bytes(value[1:HEADER], "big"))), HEADER
    if walk is None:
        return False
    try:
        return walk(value, at) <= len(value)
    except (_Broken, RecursionError):
        return False


def compiled(schema: Any, named: dict[str, Skip] | None = None) -> Skip:
    """A function that steps over one value of the schema: (bytes, offset) to the offset behind it."""
    named = {} if named is None else named
    if isinstance(schema, list):
        return _skip_union([compiled(branch, named) for branch in schema])
    word = schema if isinstance(schema, str) else schema["type"]
    if not isinstance(word, str):
        return compiled(word, named)
    if word == "array":
        return _skip_blocks(compiled(schema["items"], named))
    if word == "map":
        value = compiled(schema["values"], named)
        return _skip_blocks(lambda data, at: value(data, _skip_bytes(data, at)))
    return _skip_named(schema, named) if word in NAMED else _skip_simple(word, named)


def _skip_named(schema: Any, named: dict[str, Skip]) -> Skip:
    parts: list[Skip] = []
    skip = _skip_all(parts)
    if schema["type"] == "enum":
        skip = _skip_varint
    elif schema["type"] == "fixed":
        skip = _skip_fixed(int(schema["size"]))
    short = str(schema["name"]).rsplit(".", 1)[-1]
    named[short] = named[str(schema["name"])] = skip  # before its fields: they may name it
    parts += [compiled(field["type"], named) for field in schema.get("fields", ())]
    return skip


def _skip_simple(word: str, named: dict[str, Skip]) -> Skip:
    if word in ("string", "bytes"):
        return _skip_bytes
    if word in ("int", "long"):
        return _skip_varint
    if word in FIXED:
        return _skip_fixed(FIXED[word])
    return named[word if word in named else word.rsplit(".", 1)[-1]]


def _skip_fixed(size: int) -> Skip:
    return lambda data, at: at + size


def _skip_all(parts: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        for part in parts:
            at = part(data, at)
        return at

    return skip


def _skip_union(parts: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        branch, at = read_long(data, at)
        if not 0 <= branch < len(parts):
            raise _Broken
        return parts[branch](data, at)

    return skip


def _skip_blocks(item: Skip) -> Skip:
    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = read_long(data, at)
            if count < 0:  # followed by the block's size in bytes
                count, (_, at) = -count, read_long(data, at)
            if count == 0:
                return at
            if count > max(len(data) - at, 0):  # no type that a table has takes less than a byte
                raise _Broken
            for _ in range(count):
                at = item(data, at)

    return skip


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if not 0 <= length <= len(data) - at:
        raise _Broken
    return at + length


def _skip_varint(data: bytes, at: int) -> int:
    return read_long(data, at)[1]


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and the offset behind it."""
    number = 0
    for place in range(MAX_VARINT_BYTES):
        if at >= len(data):
            raise _Broken
        byte = data[at]
        number |= (byte & 0x7F) << (7 * place)
        at += 1
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise _Broken
