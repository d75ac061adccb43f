"""Every type of PostgreSQL that Debezium sends: the column that a user declares for it, and what must land there.

`landed` is SQL over PostgreSQL's own column that gives what the destination has to hold; `adapt` changes in Python what
SQL cannot say, `read` takes what landed apart where its order has no meaning. `values` are one at the type's limits and
one that is unusual; NULL is always the third.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

EXTENSIONS = ("hstore", "citext", "ltree")
MADE_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE DOMAIN positive AS numeric(8,3) CHECK (VALUE > 0)",
)


class Kind(NamedTuple):
    """One type: as PostgreSQL has it, as the pipeline file declares it, and two values as SQL."""

    type: str
    column: str
    values: tuple[str, str]
    landed: str = "{}"
    adapt: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


def encode_bits(text: str) -> bytes:
    """As Debezium sends them: little-endian, without bytes that are zero at the end."""
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little").rstrip(b"\0")


def encode_unscaled(number: Any) -> bytes:
    digits = int(str(number).replace(".", ""))
    return digits.to_bytes((digits.bit_length() + 8) // 8, "big", signed=True)


def parse_point(text: str) -> dict[str, Any]:
    x, y = (float(part) for part in text.strip("()").split(","))
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None}


UUIDS = ("0d5ea2d8-1d9c-4c60-8c4b-3f2f5e6f7a8b", "ffffffff-ffff-ffff-ffff-ffffffffffff")
MICROS = "(extract(epoch from {}) * 1000000)::bigint"
POINT = "STRUCT<x: DOUBLE, y: DOUBLE, wkb: BINARY, srid: INT>"

KINDS: dict[str, Kind] = {
    "small": Kind("smallint", "INT", ("-32768", "32767")),
    "whole": Kind("integer", "INT", ("-2147483648", "2147483647")),
    "big": Kind("bigint", "BIGINT", ("-9223372036854775808", "9223372036854775807")),
    "flag": Kind("boolean", "BOOLEAN", ("true", "false")),
    "single": Kind("real", "FLOAT", ("0.1", "'-Infinity'"), "{}::double precision"),
    "precise": Kind("double precision", "DOUBLE", ("1.7976931348623157e308", "4.9e-324")),
    "not_a_number": Kind("double precision", "DOUBLE", ("'NaN'", "'Infinity'"), "{}::text", float),
    "amount": Kind("numeric(12,2)", "DECIMAL(12,2)", ("-9999999999.99", "0.00")),
    "any_amount": Kind("numeric", "DECIMAL(38,10)", ("1234567890123456789012345678.0123456789", "-0.000000001")),
    "most": Kind("numeric(38,0)", "DECIMAL(38,0)", ("9" * 38, "-1")),
    "beyond": Kind("numeric(60,2)", "BINARY", (f"{'9' * 58}.99", f"-{'9' * 58}.99"), adapt=encode_unscaled),
    "domain": Kind("positive", "DECIMAL(8,3)", ("99999.999", "0.001")),
    # the snapshot reads money as a double: larger amounts are rounded there
    "price": Kind("money", "DECIMAL(19,2)", ("'-45035996273704.95'", "'1234.56'"), "{}::numeric"),
    "padded": Kind("char(3)", "STRING", ("'a'", "''"), "{} || repeat(' ', 3 - length({}))"),
    "short": Kind("varchar(20)", "STRING", ("'日本 😀 ''\\'", "''")),
    "body": Kind("text", "STRING", (r"E'a\nb\tc\\'", "'__debezium'")),
    "any_case": Kind("citext", "STRING", ("'Ci'", "''")),
    "tree": Kind("ltree", "STRING", ("'a.b.c'", "'a'")),
    "one_char": Kind('"char"', "STRING", ("'x'", "'~'")),
    "bytes": Kind("bytea", "BINARY", (r"'\x00ff10'", r"'\x'"), adapt=bytes),
    "bit": Kind("bit", "BOOLEAN", ("B'1'", "B'0'"), "({} = B'1')"),
    "bits": Kind("bit(9)", "BINARY", ("B'100000001'", "B'000000010'"), "{}::text", encode_bits),
    "most_bits": Kind("bit(64)", "BINARY", (f"B'{'1' * 64}'", f"B'{'01' * 32}'"), "{}::text", encode_bits),
    "doc": Kind("json", "STRING", ("""'{"b": 1,  "a": [1.50]}'""", "'null'"), "{}::text"),
    "binary_doc": Kind("jsonb", "STRING", ("""'{"b": 1,  "a": [1.50]}'""", "'null'"), "{}::text"),
    "uuid": Kind("uuid", "STRING", (f"'{UUIDS[0]}'", f"'{UUIDS[1]}'"), "{}::text"),
    "page": Kind("xml", "STRING", ("'<a b=\"ü\">1</a>'", "'<a/>'"), "{}::text"),
    "feeling": Kind("mood", "STRING", ("'happy'", "'sad'"), "{}::text"),
    "words": Kind("text[]", "ARRAY<STRING>", ("""'{a,NULL,"b c"}'""", "'{}'")),
    "numbers": Kind("int[]", "ARRAY<INT>", ("'{1,NULL,-3}'", "'{}'")),
    "big_numbers": Kind("bigint[]", "ARRAY<BIGINT>", ("'{9223372036854775807}'", "'{}'")),
    "amounts": Kind("numeric(20,2)[]", "ARRAY<DECIMAL(20,2)>", ("'{1.25,NULL,-3}'", "'{}'")),
    "any_amounts": Kind("numeric[]", "ARRAY<DECIMAL(38,10)>", ("'{1.5,NULL,-3.0000000001}'", "'{}'")),
    "days": Kind("date[]", "ARRAY<DATE>", ("'{0001-01-01,NULL,9999-12-31}'", "'{}'")),
    "moments": Kind("timestamp[]", "ARRAY<TIMESTAMP_NTZ>", ("'{2026-01-01 01:02:03.456789,NULL}'", "'{}'")),
    "zoned_moments": Kind("timestamptz[]", "ARRAY<TIMESTAMP>", ("'{2026-01-01 01:02:03.456789+02}'", "'{}'")),
    "uuids": Kind("uuid[]", "ARRAY<STRING>", (f"'{{{UUIDS[0]}}}'", "'{}'"), "{}::text[]"),
    "flags": Kind("boolean[]", "ARRAY<BOOLEAN>", ("'{t,f,NULL}'", "'{}'")),
    "doubles": Kind("double precision[]", "ARRAY<DOUBLE>", ("'{1.5,NULL,-Infinity}'", "'{}'")),
    "docs": Kind("jsonb[]", "ARRAY<STRING>", ("""ARRAY['{"a": 1}'::jsonb]""", "'{}'"), "{}::text[]"),
    "feelings": Kind("mood[]", "ARRAY<STRING>", ("'{sad,happy}'", "'{}'"), "{}::text[]"),
    "blobs": Kind("bytea[]", "ARRAY<BINARY>", (r"ARRAY['\x01ff'::bytea]", "'{}'"), adapt=lambda v: list(map(bytes, v))),
    "range": Kind("int4range", "STRING", ("'[1,10)'", "'empty'"), "{}::text"),
    "big_range": Kind("int8range", "STRING", ("'(,10)'", "'empty'"), "{}::text"),
    "number_range": Kind("numrange", "STRING", ("'[1.50,2.5]'", "'(,)'"), "{}::text"),
    "time_range": Kind("tsrange", "STRING", ("'[2026-01-01,2026-01-02)'", "'(,)'"), "{}::text"),
    "zoned_range": Kind("tstzrange", "STRING", ("'[2026-01-01,2026-01-02)'", "'(,)'"), "{}::text"),
    "day_range": Kind("daterange", "STRING", ("'[2026-01-01,2026-01-03)'", "'empty'"), "{}::text"),
    "pairs": Kind("hstore", "STRING", ("'a=>1,b=>NULL'", "''"), "hstore_to_json({})", adapt=dict, read=json.loads),
    "address": Kind("inet", "STRING", ("'10.0.0.1/8'", "'2001:db8::1'"), "abbrev({})"),
    "network": Kind("cidr", "STRING", ("'10.0.0.0/8'", "'2001:db8::/32'"), "{}::text"),
    "card": Kind("macaddr", "STRING", ("'08:00:2b:01:02:03'", "'00:00:00:00:00:00'"), "{}::text"),
    "long_card": Kind("macaddr8", "STRING", ("'08:00:2b:01:02:03:04:05'", "'08002b0102030406'"), "{}::text"),
    "span": Kind("interval", "BIGINT", ("'3 days 04:05:06.789012'", "'-1 second'"), MICROS),
    "day": Kind("date", "DATE", ("'0001-01-01'", "'9999-12-31'")),
    "clock": Kind("time", "BIGINT", ("'23:59:59.999999'", "'24:00:00'"), MICROS),
    "rough_clock": Kind("time(3)", "INT", ("'23:59:59.999'", "'00:00:00'"), "(extract(epoch from {}) * 1000)::int"),
    "zoned_clock": Kind(
        "timetz", "STRING", ("'10:00:00.123456+02'", "'00:00:00+15:59'"), "({} AT TIME ZONE 'UTC')::time::text || 'Z'"
    ),
    "at": Kind("timestamp", "TIMESTAMP_NTZ", ("'1583-01-01'", "'9999-12-31 23:59:59.999999'")),
    "rough_at": Kind("timestamp(3)", "TIMESTAMP_NTZ", ("'1969-12-31 23:59:59.999'", "'2026-01-01 01:02:03.456'")),
    "zoned_at": Kind("timestamptz", "TIMESTAMP", ("'1583-01-01 00:00:00+00'", "'9999-12-31 23:59:59.999999+00'")),
    "place": Kind("point", POINT, ("'(1.5,-2.5)'", "'(0,0)'"), "{}::text", parse_point),
    "search": Kind("tsvector", "STRING", ("'a fat cat'", "''"), "{}::text"),
    "object": Kind("oid", "BIGINT", ("4294967295", "0")),
}  # fmt: skip


def create(table: str) -> list[str]:
    """Statements that make the types and the table."""
    extensions = [f"CREATE EXTENSION {name}" for name in EXTENSIONS]
    columns = ", ".join(f'"{name}" {kind.type}' for name, kind in KINDS.items())
    return [*extensions, *MADE_TYPES, f"CREATE TABLE {table} (id bigint PRIMARY KEY, n int, {columns})"]


def insert(table: str, id: int, value_index: int) -> str:
    """A row of each type's value of that number."""
    names = ", ".join(f'"{name}"' for name in KINDS)
    values = ", ".join(kind.values[value_index] for kind in KINDS.values())
    return f"INSERT INTO {table} (id, n, {names}) VALUES ({id}, {id}, {values})"


def render_schema() -> str:
    """The pipeline file's schema."""
    return ", ".join(["id BIGINT", "n INT", *(f"`{name}` {kind.column}" for name, kind in KINDS.items())])


def compute_rows(query: Callable[[str], list[tuple[Any, ...]]], table: str) -> list[dict[str, Any]]:
    """What the destination has to hold for what PostgreSQL holds now."""
    columns = ", ".join(kind.landed.replace("{}", f'"{name}"') for name, kind in KINDS.items())
    adapters = (int, int, *(kind.adapt for kind in KINDS.values()))
    rows = query(f"SELECT id, n, {columns} FROM {table} ORDER BY id")
    names = ("id", "n", *KINDS)
    value_rows = ([None if v is None else adapt(v) for adapt, v in zip(adapters, row, strict=True)] for row in rows)
    return [dict(zip(names, row, strict=True)) for row in value_rows]


def read(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the destination holds, in the same form."""
    readers = {name: kind.read for name, kind in KINDS.items()}
    return [
        {name: readers[name](v) if name in readers and v is not None else v for name, v in row.items()} for row in rows
    ]
