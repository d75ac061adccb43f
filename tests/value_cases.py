"""What becomes of a value, format by format and type by type, at the edges: the table that the documentation shows."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgpack

HEAD = """# Format values

What each written value becomes: the column's value, or `bad` if the record is bad. A test writes each of them in
each of the formats. The rules are in [formats](formats.md).
"""
BAD, DELETE = "bad", "a delete"
NOTHING = ""  # what is written of a field that is not there


@dataclass(frozen=True)
class Case:
    """What is written for a column of a type, and what lands there.

    `unit` is the column's timestamp_unit, `option` another one of the format, as the file has it.
    """

    edge: str
    type: str
    text: str
    value: Any
    unit: str | None = None
    option: str | None = None


AT = datetime(2026, 2, 28, 10, 0, tzinfo=UTC)
LONG_DECIMAL, LAST_TIME = "1234567890123456789012345678.0123456789", datetime(9999, 12, 31, 23, 59, 59, 999999)
FAR = "8410000000000000000000.00"  # Java prints this double as 8.409999999999999E21
NTZ, TIME = "TIMESTAMP_NTZ", "TIMESTAMP"
# the hour after Berlin's clocks were put forward, and the first of the two that they show when they are put back
SPRING, AUTUMN = datetime(2026, 3, 29, 1, 0, tzinfo=UTC), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
# what Java reads as other zones than people mean: BST is Asia/Dhaka, ART is Cairo, and CET has a summer time
ABBREVIATED = (
    "2026-07-01T10:00:00 BST", "2026-07-01 10:00 AST", "2026-07-01T10:00:00.5ART", "2026-07-01T10:00:00 CET",
    "2026-07-01T10:00:00 EST5EDT",
)  # fmt: skip
BEFORE = datetime(1969, 12, 31, 23, 59, 59, 999999)
LENIENT, TRUNCATE = "json.numbers: lenient", "nanoseconds: truncate"
HEX, URL_SAFE = "json.binary: hex", "json.binary: base64-url-safe"

# JSON's own values, in json, debezium-json, maxwell-json and ogg-json
JSON = (
    Case("precision", "DECIMAL(20,2)", "123456789012345678.12", Decimal("123456789012345678.12")),
    Case("precision", "DECIMAL(38,10)", LONG_DECIMAL, Decimal(LONG_DECIMAL)),
    Case("precision", "DECIMAL(5,2)", "123.450", Decimal("123.45")),
    Case("precision", "DECIMAL(5,2)", '"123.45"', Decimal("123.45")),
    Case("precision", "DECIMAL(5,2)", "1.5E+2", Decimal("150.00")),
    Case("precision", "DECIMAL(38,10)", "1E-7", Decimal("0.0000001000")),
    Case("precision", "DECIMAL(5,2)", "0E-10", Decimal("0.00")),
    Case("precision", "DECIMAL(5,2)", "1230E-2", Decimal("12.30")),
    Case("precision", "DECIMAL(5,2)", '"-120.0e-3"', Decimal("-0.12")),
    Case("precision", "DECIMAL(5,2)", "123E-3", BAD),
    Case("precision", "DECIMAL(5,2)", "123.456", BAD),
    Case("precision", "DECIMAL(38,0)", "1.5", BAD),
    Case("precision", "DECIMAL(38,0)", '"1.5"', BAD),
    Case("precision", "DECIMAL(38,10)", "0.00000000001", BAD),
    Case("precision", "DECIMAL(38,10)", "1.23456789012345678901e2", BAD),
    Case("precision", "DECIMAL(5,2)", "-123.4500", Decimal("-123.45")),
    Case("range", "STRUCT<a: DOUBLE, b: DOUBLE>", '{"a": 1e308, "b": "-Infinity"}', (1e308, float("-inf"))),
    Case("overflow", "ARRAY<FLOAT>", "[1e39]", BAD),
    Case("precision", "DECIMAL(2,2)", "0.25", Decimal("0.25")),
    Case("precision", "DECIMAL(2,2)", "0.255", BAD),
    Case("precision", "DECIMAL(12,2)", "12345678.91", Decimal("12345678.91")),
    Case("precision", "DECIMAL(12,6)", "0.000125", Decimal("0.000125")),
    Case("precision", "DECIMAL(38,2)", "841e19", Decimal(FAR)),
    Case("precision", "DECIMAL(38,2)", "9007199254740993e3", Decimal("9007199254740993000.00")),
    Case("precision", "STRUCT<a: ARRAY<DECIMAL(38,2)>>", '{"a": [841e19, 2]}', ([Decimal(FAR), Decimal("2.00")],)),
    Case("precision", "DECIMAL(5,2)", "0.30000000000000000000", Decimal("0.30")),
    Case("precision", "DECIMAL(5,2)", "0.1000000000000000055", BAD),
    Case("precision", "DECIMAL(5,2)", "1e-400", BAD),
    Case("precision", "DECIMAL(5,2)", '"1e-999999999"', BAD),
    Case("precision", "ARRAY<DECIMAL(5,2)>", "[0.1000000000000000055]", BAD),
    Case("overflow", "DECIMAL(5,2)", "1234.5", BAD),
    Case("overflow", "DECIMAL(38,0)", "1e40", BAD),
    Case("wrong type", "DECIMAL(5,2)", '"12a"', BAD),
    Case("wrong type", "DECIMAL(5,2)", "true", BAD),
    Case("wrong type", "DECIMAL(2,2)", '""', BAD),
    Case("blanks", "DECIMAL(5,2)", '" 12"', BAD),
    Case("blanks", "DECIMAL(5,2)", r'"12\n"', BAD),
    Case("precision", "STRUCT<a: DECIMAL(20,2)>", '{"a": 123456789012345678.12}', (Decimal("123456789012345678.12"),)),
    Case("precision", "ARRAY<DECIMAL(38,0)>", "[1.5]", BAD),
    Case("precision", "MAP<STRING, DECIMAL(3,1)>", '{"a": 1.25}', BAD),
    Case("text of a number", "STRING", "19.90", "19.90"),
    Case("text of a number", "STRING", "1e5", "1e5"),
    Case("text of a number", "STRING", "-0", "-0"),
    Case("text of a number", "STRING", "-0.0", "-0.0"),
    Case("text of a number", "STRUCT<a: STRING, b: INT, c: DOUBLE>", '{"a": -0, "b": -0, "c": 1.5}', ("-0", 0, 1.5)),
    Case("text of a number", "ARRAY<STRING>", "[0, -0, 1.50]", ["0", "-0", "1.50"]),
    Case("text of a number", "MAP<STRING, STRING>", '{"a": -0}', {"a": "-0"}),
    Case("text of an object", "STRING", '{"a": [-0, 0]}', '{"a":[-0,0]}'),
    Case("repeated name", "STRUCT<a: INT, b: DECIMAL(5,2)>", '{"a": 1, "b": 0.5, "a": 2}', (2, Decimal("0.50"))),
    Case("repeated name", "ARRAY<STRUCT<a: INT>>", '[{"a": 1, "a": null}]', [(None,)]),
    Case("repeated name", "STRING", '{"a": 1, "a": 2}', '{"a":1,"a":2}'),
    Case("text of an object", "STRING", '{"a": NaN, "b": "NaN"}', '{"a":NaN,"b":"NaN"}'),
    Case("text of an object", "STRING", "[-Infinity, 1.50]", "[-Infinity,1.50]"),
    Case("text of an object", "ARRAY<STRING>", '[{"a": Infinity}]', ['{"a":Infinity}']),
    Case("text of an object", "STRUCT<a: STRING, b: DOUBLE>", '{"a": [NaN], "b": NaN}', ("[NaN]", float("nan"))),
    Case("wrong type", "STRUCT<a: STRING, b: STRING>", '{"a": [NaN], "b": NaN}', BAD),
    Case("wrong type", "ARRAY<STRING>", "[1.50, INF]", BAD),
    # a text that is a word in quotes is what Spark makes of the bare word, too
    Case("text in quotes", "STRING", r'"\"NaN\""', '"NaN"'),
    Case("text in quotes", "ARRAY<STRING>", r'["\"-Infinity\"", "x"]', ['"-Infinity"', "x"]),
    Case("text in quotes", "STRUCT<a: STRING, b: DOUBLE>", r'{"a": "\"INF\"", "b": NaN}', ('"INF"', float("nan"))),
    # what stands before a number in the second reading
    Case("control character", "STRUCT<a: STRING, b: STRING>", r'{"a": "{\u0016", "b": 1.50}', ("{\x16", "1.50")),
    Case("control character", "MAP<STRING, STRING>", r'{"\u0016a": 1.50}', {"\x16a": "1.50"}),
    Case("range", "BIGINT", "-0", 0),
    Case("range", "DECIMAL(5,2)", "-0", Decimal("0.00")),
    Case("text of a number", "STRING", "1e400", "1e400"),
    Case("text of a number", "STRING", "123456789012345678901234567890.10", "123456789012345678901234567890.10"),
    Case("text", "STRING", '"19.90"', "19.90"),
    Case("text", "STRING", r'"\u0016\u00161.50 \\u0016"', "\x16\x161.50 \\u0016"),
    Case("text of an object", "STRING", '{"b": 19.90, "a": "1.50"}', '{"b":19.90,"a":"1.50"}'),
    Case("text of an object", "STRUCT<a: STRING, b: DOUBLE>", '{"a": 1.50, "b": 2.5}', ("1.50", 2.5)),
    Case("scale and bytes", "DECIMAL(5,2)", '{"scale": 2, "value": "MDk="}', Decimal("123.45")),
    Case("scale and bytes", "DECIMAL(38,0)", '{"scale": -3, "value": "//4="}', Decimal("-2000")),
    Case("scale and bytes", "DECIMAL(5,2)", '{"scale": 3, "value": "MDk="}', BAD),
    Case("scale and bytes", "DECIMAL(5,2)", '{"scale": -2147483648, "value": "MDk="}', BAD),
    Case("scale and bytes", "DECIMAL(4,2)", '{"scale": 2, "value": "MDk="}', BAD),
    Case("scale and bytes", "DECIMAL(5,2)", '{"scale": 2, "value": "MDk=", "x": 1}', BAD),
    Case("scale and bytes", "DECIMAL(5,2)", '{"scale": 2, "value": "***"}', BAD),
    Case(
        "scale and bytes",
        "ARRAY<DECIMAL(5,2)>",
        '[{"scale": 1, "value": "Bw=="}, 2]',
        [Decimal("0.70"), Decimal("2.00")],
    ),
    Case("text of an object", "STRING", '{"scale": 2, "value": "MDk="}', '{"scale":2,"value":"MDk="}'),
    *(
        Case("text of a number", kind, text, value, option=LENIENT)
        for kind, text, value in (
            ("INT", '"7"', 7),
            ("INT", '"-007"', -7),
            ("INT", "7", 7),
            ("INT", "null", None),
            ("INT", '"2147483648"', BAD),
            ("INT", '" 12 "', BAD),
            ("INT", '""', BAD),
            ("INT", '"1e3"', BAD),
            ("INT", '"7.0"', BAD),
            ("INT", "7.0", BAD),
            ("INT", "true", BAD),
            ("TINYINT", '"128"', BAD),
            ("BIGINT", '"9223372036854775807"', 2**63 - 1),
            ("BIGINT", "9223372036854775807", 2**63 - 1),
            ("BIGINT", "9223372036854775808", BAD),
            ("BIGINT", "[7]", BAD),
            ("DOUBLE", '"1e3"', 1000.0),
            ("DOUBLE", '"0.1"', 0.1),
            ("DOUBLE", "0.1", 0.1),
            ("DOUBLE", "1e400", BAD),
            ("DOUBLE", '"1e400"', BAD),
            ("DOUBLE", '"-Infinity"', float("-inf")),
            ("DOUBLE", '" 12 "', BAD),
            ("DOUBLE", '""', BAD),
            ("DOUBLE", '"0x10"', BAD),
            ("FLOAT", '"1e39"', BAD),
            ("FLOAT", "1.5", 1.5),
            ("DECIMAL(5,2)", '"1e2"', Decimal("100.00")),
            ("DECIMAL(5,2)", '""', BAD),
            ("ARRAY<INT>", '["7", 8, null]', [7, 8, None]),
            ("MAP<STRING, BIGINT>", '{"a": "7x"}', BAD),
            ("STRUCT<a: BIGINT, b: STRING>", '{"a": "7", "b": "8"}', (7, "8")),
        )
    ),
    *(
        Case("bytes", kind, text, value, option=option)
        for option, kind, text, value in (
            (None, "BINARY", '"/+A="', b"\xff\xe0"),
            (None, "BINARY", '"cafe"', b"q\xa7\xde"),
            (None, "BINARY", '"_-A="', BAD),
            (None, "BINARY", '"caf"', BAD),
            (None, "BINARY", "12", BAD),
            (HEX, "BINARY", '"cafe"', b"\xca\xfe"),
            (HEX, "BINARY", '"00CAFE"', b"\x00\xca\xfe"),
            (HEX, "BINARY", '""', b""),
            (HEX, "BINARY", "null", None),
            (HEX, "BINARY", '"caf"', BAD),
            (HEX, "BINARY", '"0xca"', BAD),
            (HEX, "BINARY", r'"ca\n"', BAD),
            (HEX, "BINARY", '"yv4="', BAD),
            (HEX, "BINARY", "1234", BAD),
            (HEX, "ARRAY<BINARY>", '["00", null, "ff"]', [b"\x00", None, b"\xff"]),
            (HEX, "MAP<STRING, BINARY>", '{"a": "f"}', BAD),
            (HEX, "STRUCT<a: BINARY, b: STRING>", '{"a": "ff", "b": "1.50"}', (b"\xff", "1.50")),
            (URL_SAFE, "BINARY", '"_-A="', b"\xff\xe0"),
            (URL_SAFE, "BINARY", '"_-A"', b"\xff\xe0"),
            (URL_SAFE, "BINARY", '"/+A="', BAD),
            (URL_SAFE, "BINARY", '"_"', BAD),
            (URL_SAFE, "BINARY", "1234", BAD),
            (URL_SAFE, "ARRAY<STRUCT<a: BINARY>>", '[{"a": "_-A="}]', [(b"\xff\xe0",)]),
        )
    ),
    *(
        Case("precision", kind, text, value, unit, TRUNCATE)
        for kind, text, value, unit in (
            (TIME, '"2026-02-28T10:00:00.123456789Z"', AT.replace(microsecond=123456), None),
            (TIME, '"2026-02-28T10:00:00Z"', AT, None),
            (NTZ, '"1969-12-31T23:59:59.9999999"', BEFORE, None),
            (NTZ, '"2026-02-28T10:00:00.1234567+05:00"', BAD, None),
            (TIME, '"+10000-01-01T00:00:00.1234567Z"', BAD, None),
            (TIME, '"12:30:00.1234567"', BAD, None),
            (TIME, "1772272800000000999", AT, "nanos"),
            (NTZ, "-1", BEFORE, "nanos"),
            (NTZ, "-9223372036854775808", datetime(1677, 9, 21, 0, 12, 43, 145224), "nanos"),
            (TIME, "1772272800.5", BAD, "nanos"),
            ("ARRAY<TIMESTAMP_NTZ>", '["1969-12-31T23:59:59.9999999", null]', [BEFORE, None], None),
            ("MAP<STRING, TIMESTAMP_NTZ>", '{"a": -1}', {"a": BEFORE}, "nanos"),
            ("STRUCT<a: TIMESTAMP_NTZ>", '{"a": "1969-12-31T23:59:59.9999999"}', (BEFORE,), None),
        )
    ),
    Case("text of a number", "INT", r'"7\n"', BAD, option=LENIENT),
    Case("text of a number", "DOUBLE", r'"7\n"', BAD, option=LENIENT),
    Case("invalid Unicode", "STRING", r'"\ud800"', BAD),
    Case("invalid Unicode", "STRING", r'"\ud83d\ude00?"', "\U0001f600?"),
    Case("overflow", "DOUBLE", "1e400", BAD),
    Case("overflow", "FLOAT", "1e39", BAD),
    Case("overflow", "STRUCT<a: DOUBLE, b: DOUBLE>", '{"a": 1e400, "b": "-Infinity"}', BAD),
    Case("range", "STRUCT<a: DOUBLE, b: DOUBLE>", '{"a": "Infinity", "b": 1e300}', (float("inf"), 1e300)),
    Case("overflow", "ARRAY<DOUBLE>", '[1e400, "Infinity"]', BAD),
    Case("overflow", "ARRAY<FLOAT>", '["-Infinity", 1e39]', BAD),
    Case("range", "ARRAY<DOUBLE>", '[1e300, "Infinity", null]', [1e300, float("inf"), None]),
    Case("overflow", "MAP<STRING, DOUBLE>", '{"a": 1e400, "b": "-Infinity"}', BAD),
    Case("range", "MAP<STRING, DOUBLE>", '{"1e400": "-Infinity"}', {"1e400": float("-inf")}),
    Case("overflow", "ARRAY<STRUCT<a: DOUBLE>>", '[{"a": "Infinity"}, {"a": -1e400}]', BAD),
    Case("overflow", "STRUCT<s: STRUCT<a: DOUBLE>, a: DOUBLE>", '{"s": {"a": 1e400}, "a": "Infinity"}', BAD),
    Case("overflow", "STRUCT<a: STRING, b: DOUBLE>", '{"a": "Infinity", "b": 1e400}', BAD),
    Case("range", "STRUCT<a: STRING, b: DOUBLE>", '{"a": 1e400, "b": "Infinity"}', ("1e400", float("inf"))),
    Case("duplicate key", "MAP<STRING, INT>", '{"a": 1, "b": 1, "a": 2}', BAD),
    *(
        Case("another case", kind, text, value)
        for kind, text, value in (
            ("STRUCT<a: INT>", '{"A": 1}', BAD),
            ("STRUCT<a: INT, b: STRING>", '{"A": 1, "b": "x"}', BAD),
            ("STRUCT<a: INT, b: STRING>", r'{"\u0041": 1, "b": "x"}', BAD),
            ("STRUCT<a: INT, b: STRING>", '{"b": "A", "c": {"A": 1}}', (None, "A")),
            ("STRUCT<a: INT, b: STRING>", '{"a": null, "A": 1}', (None, None)),
            ("STRUCT<a: INT, b: STRING>", '{"a": 1, "B": null}', BAD),
            ("STRUCT<Größe: INT, b: INT>", '{"GRÖSSE": 1, "b": 1}', (None, 1)),
            ("STRUCT<Größe: INT, b: INT>", '{"GRößE": 1, "b": 1}', BAD),
            ("STRUCT<s: STRUCT<a: INT>, t: STRUCT<A: INT>>", '{"s": {"A": 1}, "t": {"A": 2}}', BAD),
            ("STRUCT<s: STRUCT<a: INT>, t: STRUCT<A: INT>>", '{"s": {"a": null}, "t": {"A": 2}}', ((None,), (2,))),
            ("ARRAY<STRUCT<a: INT, b: INT>>", '[{"a": 1, "b": 2}, {"A": 1, "b": 2}]', BAD),
            ("ARRAY<STRUCT<a: INT, b: INT>>", '[{"a": 1}, null, {"b": 2}]', [(1, None), None, (None, 2)]),
            ("MAP<STRING, STRUCT<a: INT>>", '{"x": {"A": 1}}', BAD),
            ("MAP<STRING, STRUCT<a: INT>>", '{"A": {"a": 1}, "a": null}', {"A": (1,), "a": None}),
            ("MAP<STRING, ARRAY<STRUCT<a: STRUCT<b: INT>>>>", '{"x": [{"a": {"B": 1}}]}', BAD),
        )
    ),
    *(
        Case("unknown fields", kind, text, value)
        for kind, text, value in (
            ("STRUCT<a: INT>", '{"x": 1}', BAD),
            ("STRUCT<a: INT>", "{}", (None,)),
            ("STRUCT<a: INT>", '{"a": null, "x": 1}', (None,)),
            ("STRUCT<a: INT, b: INT>", '{"a": 1, "x": 1}', (1, None)),
            ("STRUCT<s: STRUCT<a: INT>>", '{"s": {"x": NaN}}', BAD),
            ("ARRAY<STRUCT<a: INT>>", '[{"a": 1}, {"x": 1}]', BAD),
            ("MAP<STRING, STRUCT<a: DECIMAL(5,2)>>", '{"x": {"y": 1.5}}', BAD),
        )
    ),
    *(
        Case("underflow", kind, text, value, option=option)
        for kind, text, value, option in (
            ("DOUBLE", "1e-400", BAD, None),
            ("DOUBLE", "0e-400", 0.0, None),
            ("DOUBLE", "-0.0", -0.0, None),
            ("DOUBLE", "5e-324", 5e-324, None),
            ("DOUBLE", f"0.{'0' * 330}1", BAD, None),
            ("DOUBLE", f"0.{'0' * 330}", 0.0, None),
            ("FLOAT", "-1.5E-50", BAD, None),
            ("FLOAT", f"0.{'0' * 45}1", BAD, None),
            ("ARRAY<DOUBLE>", "[1.5, 1e-400]", BAD, None),
            ("MAP<STRING, FLOAT>", '{"a": 1e-46}', BAD, None),
            ("STRUCT<a: DOUBLE, b: STRING>", '{"a": 0, "b": 1e-400}', (0.0, "1e-400"), None),
            ("DOUBLE", '"1e-400"', BAD, LENIENT),
        )
    ),
    *(
        Case("precision", kind, text, value, option=option)
        for kind, text, value, option in (
            ("DOUBLE", "9007199254740993", BAD, None),
            ("DOUBLE", "9007199254740992", 2.0**53, None),
            ("DOUBLE", "-9007199254740993", BAD, None),
            ("DOUBLE", "9007199254740993.0", 2.0**53, None),
            ("DOUBLE", "9223372036854775807", BAD, None),
            ("DOUBLE", "18446744073709551616", 2.0**64, None),
            ("DOUBLE", "9223372036854776000", 2.0**63, None),
            ("DOUBLE", "NaN", float("nan"), None),
            ("FLOAT", "123456789", BAD, None),
            ("FLOAT", "16777216", 2.0**24, None),
            ("FLOAT", "16777217", BAD, None),
            ("FLOAT", "16777217.0", 2.0**24, None),
            ("ARRAY<STRUCT<a: DOUBLE>>", '[{"a": 9007199254740993}]', BAD, None),
            ("MAP<STRING, FLOAT>", '{"a": 16777217}', BAD, None),
            (
                "STRUCT<a: DOUBLE, b: BIGINT>",
                '{"a": 1e20, "b": 9007199254740993}',
                (1e20, 9007199254740993),
                None,
            ),
            ("DOUBLE", '"9007199254740993"', BAD, LENIENT),
            ("FLOAT", "16777217", BAD, LENIENT),
            ("DOUBLE", '"9007199254740992"', 2.0**53, LENIENT),
        )
    ),
    Case("invalid Unicode", "MAP<STRING, INT>", r'{"\ud800": 1}', BAD),
    Case("invalid Unicode", "ARRAY<MAP<STRING, INT>>", r'[{"a\udc00": 1}]', BAD),
    Case("invalid Unicode", "MAP<STRING, INT>", r'{"\ud83d\ude00?": 1}', {"\U0001f600?": 1}),
    Case("duplicate key", "STRUCT<m: MAP<STRING, STRING>>", '{"m": {"a": "x", "a": "x"}}', BAD),
    Case("precision", "DOUBLE", "0.1", 0.1),
    Case("wrong type", "DOUBLE", '"1.5x"', BAD),
    Case("overflow", "TINYINT", "128", BAD),
    Case("wrong type", "TINYINT", '"7"', BAD),
    Case("wrong type", "ARRAY<SMALLINT>", '[1, "7"]', BAD),
    Case("range", "STRUCT<a: SMALLINT, b: STRING>", '{"a": -32768, "b": -0}', (-32768, "-0")),
    Case("range", "INT", "2147483647", 2147483647),
    Case("overflow", "INT", "2147483648", BAD),
    Case("wrong type", "INT", "1.5", BAD),
    Case("wrong type", "INT", '"7"', BAD),
    Case("range", "BIGINT", "-9223372036854775808", -(2**63)),
    Case("overflow", "BIGINT", "9223372036854775808", BAD),
    Case("wrong type", "BOOLEAN", '"yes"', BAD),
    Case("wrong type", "ARRAY<INT>", "7", BAD),
    Case("null", "INT", "null", None),
    Case("null", "DECIMAL(5,2)", "null", None),
    Case("null", "DATE", "null", None),
    Case("null", "STRUCT<a: INT NOT NULL>", '{"a": null}', BAD),
    *(
        Case("missing", kind, NOTHING, None)
        for kind in (
            "BIGINT",
            "DECIMAL(5,2)",
            "DOUBLE",
            "STRING",
            "BINARY",
            "BOOLEAN",
            "DATE",
            TIME,
            NTZ,
            "ARRAY<INT>",
            "MAP<STRING, INT>",
            "STRUCT<a: INT>",
        )
    ),
    Case("missing", "STRUCT<a: INT, b: STRING>", '{"b": "x"}', (None, "x")),
    Case("missing", "STRUCT<a: INT NOT NULL, b: STRING>", '{"b": "x"}', BAD),
    Case("missing", "ARRAY<STRUCT<a: INT NOT NULL, b: INT>>", '[{"a": 1}, {"b": 2}]', BAD),
    Case("missing", "MAP<STRING, STRUCT<a: INT NOT NULL, b: INT>>", '{"x": {"b": 2}}', BAD),
    Case("range", "DATE", '"0001-01-01"', date(1, 1, 1)),
    Case("range", "DATE", '"+10000-01-01"', BAD),
    Case("range", "DATE", '"0000-12-31"', BAD),
    Case("wrong type", "DATE", '"2026-02-30"', BAD),
    Case("wrong type", "DATE", '"20260101"', BAD),
    Case("part of a time", "DATE", '"2026-02-28T10:00:00"', BAD),
    Case("time zone", "DATE", '"2026-02-28Z"', date(2026, 2, 28)),
    Case("time zone", TIME, '"2026-02-28T11:00:00+01:00"', AT),
    Case("time zone", TIME, '"2026-02-28T11:00:00 Europe/Berlin"', AT),
    *(
        Case("time zone", TIME, f'"{text}"', AT)
        for text in ("2026-02-28T11:00:00 UTC+01:00", "2026-02-28 10:00 GMT", "2026-02-28T10:00:00 Etc/UTC")
    ),
    *(Case("zone abbreviation", TIME, f'"{text}"', BAD) for text in ABBREVIATED),
    Case("zone abbreviation", "STRUCT<a: TIMESTAMP>", '{"a": "2026-07-01T10:00:00 BST"}', BAD),
    Case("minutes", TIME, '"2026-02-28T10:00Z"', AT),
    Case("minutes", TIME, '"2026-02-28T11:00+01:00"', AT),
    Case("minutes", TIME, '"2026-02-28 11:00 Europe/Berlin"', AT),
    Case("minutes", TIME, '"2026-03-29T02:30 Europe/Berlin"', BAD),
    Case("minutes", TIME, '"2026-02-28T10:00"', AT),
    Case("minutes", NTZ, '"2026-02-28T10:00Z"', AT.replace(tzinfo=None)),
    Case("minutes", NTZ, '"2026-02-28T10:00+05:00"', BAD),
    Case("minutes", TIME, '"2026-02-28T10Z"', BAD),
    Case("skipped time", TIME, '"2026-03-29T02:30:00 Europe/Berlin"', BAD),
    Case("skipped time", TIME, '"2026-09-27 02:30:00.5 Pacific/Auckland"', BAD),
    Case("skipped time", TIME, '"2026-03-29T03:00:00 Europe/Berlin"', SPRING),
    Case("skipped time", "STRUCT<a: TIMESTAMP>", '{"a": "2026-03-29T02:30:00Europe/Berlin"}', BAD),
    Case("skipped time", "ARRAY<TIMESTAMP>", '["2026-03-29T02:30:00 Europe/Paris"]', BAD),
    Case("skipped time", "MAP<STRING, TIMESTAMP>", '{"a": "2026-03-29T02:30:00 Europe/Berlin"}', BAD),
    Case("repeated time", TIME, '"2026-10-25T02:30:00 Europe/Berlin"', AUTUMN),
    Case("time zone", NTZ, '"2026-02-28T10:00:00Z"', AT.replace(tzinfo=None)),
    Case("time zone", NTZ, '"2026-02-28T10:00:00+05:00"', BAD),
    Case("range", NTZ, '"9999-12-31T23:59:59.999999"', LAST_TIME),
    Case("range", NTZ, '"+10000-01-01T00:00:00"', BAD),
    Case("range", TIME, '"+294247-01-01T00:00:00Z"', BAD),
    Case("range", TIME, '"12345-01-01T00:00:00Z"', BAD),
    Case("range", TIME, '"9999-12-31T23:30:00-01:00"', BAD),
    Case("date alone", TIME, '"2026-02-28"', AT.replace(hour=0)),
    Case("part of a time", TIME, '"2026-02-28 10"', BAD),
    Case("part of a time", TIME, '"12:30"', BAD),
    Case("part of a time", TIME, '"2026"', BAD),
    Case("wrong type", TIME, '"20260101"', BAD),
    Case("precision", TIME, '"2026-02-28T10:00:00.123456789Z"', BAD),
    Case("time unit", TIME, "1772272800000", BAD),
    Case("time unit", TIME, "1772272800", AT, "seconds"),
    Case("time unit", TIME, "1772272800000", AT, "millis"),
    Case("time unit", NTZ, "1772272800000000", AT.replace(tzinfo=None), "micros"),
    Case("time unit", TIME, "1772272800000000000", AT, "nanos"),
    Case("time unit", TIME, "1772272800000000001", BAD, "nanos"),
    Case("time unit", TIME, "9223372036854775807", BAD, "millis"),
    Case("time unit", TIME, "1772272800.5", BAD, "seconds"),
    Case("wrong type", TIME, '"1772272800"', BAD, "seconds"),
    Case("wrong type", "ARRAY<TIMESTAMP>", '["1772272800"]', BAD, "seconds"),
)
DEBEZIUM, DATA, CONNECT_DATA = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
MILLIS = "1772272800000"
# numbers and bytes that mean what Kafka Connect's schema in the envelope says of the field, or of the parts in it
CONNECT = tuple(
    Case(edge, kind, text, value, unit, f"schema: {meaning}")
    for edge, kind, meaning, text, value, unit in (
        ("time unit", TIME, DEBEZIUM + "Timestamp", MILLIS, AT, None),
        ("time unit", TIME, DEBEZIUM + "Timestamp", MILLIS, AT, "micros"),
        ("time unit", NTZ, DEBEZIUM + "MicroTimestamp", MILLIS + "001", AT.replace(microsecond=1, tzinfo=None), None),
        ("time unit", TIME, DEBEZIUM + "NanoTimestamp", MILLIS + "000000", AT, None),
        ("time unit", NTZ, CONNECT_DATA + "Timestamp", "-1", datetime(1969, 12, 31, 23, 59, 59, 999000), None),
        ("time unit", TIME, "org.example.Instant", MILLIS, BAD, None),
        ("time unit", TIME, "org.example.Instant", MILLIS, AT, "millis"),
        ("precision", TIME, DEBEZIUM + "NanoTimestamp", MILLIS + "000001", BAD, None),
        ("precision", TIME, DEBEZIUM + "Timestamp", MILLIS + ".5", BAD, None),
        ("range", NTZ, DEBEZIUM + "Timestamp", "-62135596800000", datetime(1, 1, 1), None),
        ("range", NTZ, DEBEZIUM + "Timestamp", "-62135596800001", BAD, None),
        ("range", NTZ, DEBEZIUM + "MicroTimestamp", "253402300799999999", LAST_TIME, None),
        ("range", NTZ, DEBEZIUM + "MicroTimestamp", "253402300800000000", BAD, None),
        ("overflow", TIME, DEBEZIUM + "Timestamp", "9223372036854775808", BAD, None),
        ("wrong type", TIME, DEBEZIUM + "Date", "20000", BAD, None),
        ("wrong type", TIME, DEBEZIUM + "MicroTime", "1000", BAD, "micros"),
        ("wrong type", TIME, DEBEZIUM + "Timestamp", '"soon"', BAD, None),
        ("time zone", TIME, DEBEZIUM + "ZonedTimestamp", '"2026-02-28T11:00:00+01:00"', AT, None),
        ("range", "DATE", DEBEZIUM + "Date", "-719162", date(1, 1, 1), None),
        ("range", "DATE", CONNECT_DATA + "Date", "2932896", date(9999, 12, 31), None),
        ("range", "DATE", CONNECT_DATA + "Date", "2932897", BAD, None),
        ("precision", "DATE", DEBEZIUM + "Date", "0.5", BAD, None),
        ("wrong type", "DATE", DEBEZIUM + "Timestamp", "0", BAD, None),
        ("unchanged", "INT", DEBEZIUM + "Time", "86399999", 86_399_999, None),
        ("overflow", "INT", DEBEZIUM + "MicroTime", "86399999999", BAD, None),
        ("precision", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=2", '"MDk="', Decimal("123.45"), None),
        ("precision", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=3", '"Bdw="', BAD, None),
        ("precision", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=3", '"A+k="', BAD, None),
        ("precision", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=2", "12.5", Decimal("12.50"), None),
        ("overflow", "DECIMAL(4,2)", CONNECT_DATA + "Decimal scale=2", '"MDk="', BAD, None),
        ("wrong type", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=2", '"***"', BAD, None),
        ("wrong type", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=x", '"MDk="', BAD, None),
        ("wrong type", "STRING", CONNECT_DATA + "Decimal scale=4294967298", '"MDk="', BAD, None),
        ("precision", "DECIMAL(5,2)", CONNECT_DATA + "Decimal", '"MDk="', BAD, None),
        ("wrong type", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=2", '""', BAD, None),
        ("unchanged", "STRING", CONNECT_DATA + "Decimal scale=2", '"//4="', "-0.02", None),
        ("unchanged", "STRING", DATA + "VariableScaleDecimal", '{"scale": -3, "value": "DA=="}', "12000", None),
        ("unchanged", "STRING", DATA + "Json", '"{\\"a\\": 1.50}"', '{"a": 1.50}', None),
        ("null", TIME, DEBEZIUM + "Timestamp", "null", None, None),
        ("null", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=2", "null", None, None),
        ("missing", TIME, DEBEZIUM + "Timestamp", NOTHING, None, None),
        ("missing", "DECIMAL(5,2)", CONNECT_DATA + "Decimal scale=2", NOTHING, None, None),
        ("time unit", "ARRAY<TIMESTAMP_NTZ>", DEBEZIUM + "Timestamp", "[0, null, -1]",
         [datetime(1970, 1, 1), None, datetime(1969, 12, 31, 23, 59, 59, 999000)], None),
        ("range", "ARRAY<DATE>", DEBEZIUM + "Date", "[0, 2932897]", BAD, None),
        ("precision", "MAP<STRING, DECIMAL(5,2)>", CONNECT_DATA + "Decimal scale=2", '{"a": "MDk="}',
         {"a": Decimal("123.45")}, None),
        ("time unit", "STRUCT<a: TIMESTAMP_NTZ, b: BIGINT>", DEBEZIUM + "NanoTimestamp", '{"a": 1000, "b": 1000}',
         (datetime(1970, 1, 1, 0, 0, 0, 1), 1000), None),
        ("wrong type", "STRUCT<a: DATE>", DEBEZIUM + "Timestamp", '{"a": 0}', BAD, None),
    )
)  # fmt: skip
# texts, in csv, canal-json and string
TEXT = (
    Case("precision", "DECIMAL(38,10)", LONG_DECIMAL, Decimal(LONG_DECIMAL)),
    Case("precision", "DECIMAL(5,2)", "123.450", Decimal("123.45")),
    Case("precision", "DECIMAL(5,2)", "1.005", BAD),
    Case("precision", "DECIMAL(38,0)", "1.5", BAD),
    Case("overflow", "DECIMAL(5,2)", "1234.5", BAD),
    Case("wrong type", "DECIMAL(5,2)", "NaN", BAD),
    Case("blanks", "DECIMAL(5,2)", " 12", BAD),
    Case("blanks", "DECIMAL(5,2)", "12\n", BAD),
    Case("blanks", "INT", "7\n", BAD),
    Case("blanks", "DOUBLE", "1.5\n", BAD),
    Case("text of a number", "STRING", "19.90", "19.90"),
    Case("overflow", "TINYINT", "128", BAD),
    Case("wrong type", "INT", "1.0", BAD),
    Case("range", "BIGINT", "-9223372036854775808", -(2**63)),
    Case("overflow", "BIGINT", "9223372036854775808", BAD),
    Case("range", "DOUBLE", "Infinity", float("inf")),
    Case("overflow", "DOUBLE", "1e309", BAD),
    Case("underflow", "DOUBLE", "1e-400", BAD),
    Case("underflow", "DOUBLE", "0e-400", 0.0),
    Case("underflow", "FLOAT", "-1e-46", BAD),
    Case("precision", "DOUBLE", "9007199254740993", BAD),
    Case("precision", "DOUBLE", "9007199254740992", 2.0**53),
    Case("precision", "DOUBLE", "18446744073709551616", 2.0**64),
    Case("precision", "DOUBLE", "9007199254740993.0", 2.0**53),
    Case("precision", "FLOAT", "123456789", BAD),
    Case("precision", "FLOAT", "123456784", 123456784.0),
    Case("wrong type", "DOUBLE", "1.5d", BAD),
    Case("wrong type", "BOOLEAN", "yes", BAD),
    Case("range", "DATE", "0001-01-01", date(1, 1, 1)),
    Case("range", "DATE", "+10000-01-01", BAD),
    Case("wrong type", "DATE", "20260101", BAD),
    Case("time zone", TIME, "2026-02-28T11:00:00+01:00", AT),
    Case("time zone", TIME, "2026-02-28T10:00:00 UTC", AT),
    *(Case("zone abbreviation", TIME, text, BAD) for text in ABBREVIATED),
    Case("minutes", TIME, "2026-02-28T10:00Z", AT),
    Case("skipped time", TIME, "2026-03-29T02:30:00 Europe/Berlin", BAD),
    Case("repeated time", TIME, "2026-10-25T02:30:00 Europe/Berlin", AUTUMN),
    Case("time zone", NTZ, "2026-02-28T10:00:00+05:00", BAD),
    Case("range", NTZ, "9999-12-31 23:59:59.999999", LAST_TIME),
    Case("range", TIME, "+294247-01-01T00:00:00Z", BAD),
    Case("part of a time", TIME, "12:30", BAD),
    Case("wrong type", TIME, "20260101", BAD),
    Case("time unit", TIME, "1772272800000", BAD),
    Case("precision", TIME, "2026-02-28T10:00:00.1234567Z", BAD),
    Case("precision", TIME, "2026-02-28T10:00:00.1234567Z", AT.replace(microsecond=123456), option=TRUNCATE),
    Case("precision", NTZ, "1969-12-31 23:59:59.9999999", BEFORE, option=TRUNCATE),
    Case("precision", TIME, "12:30:00.1234567", BAD, option=TRUNCATE),
)
# bytes, in hexadecimal, as keys and values of format raw
LITTLE = "raw.endianness: little"
RAW = (
    Case("unchanged", "BINARY", "00ff", b"\x00\xff"),
    Case("unchanged", "BINARY", "", b""),
    Case("number", "BOOLEAN", "01", True),
    Case("number", "BOOLEAN", "00", False),
    Case("wrong type", "BOOLEAN", "02", BAD),
    Case("range", "TINYINT", "80", -128),
    Case("range", "SMALLINT", "7fff", 2**15 - 1),
    Case("range", "SMALLINT", "8000", -(2**15)),
    Case("range", "INT", "ffffffff", -1),
    Case("range", "INT", "80000000", -(2**31)),
    Case("number", "INT", "00000102", 258),
    Case("byte order", "INT", "02010000", 258, option=LITTLE),
    Case("byte order", "SMALLINT", "feff", -2, option=LITTLE),
    Case("range", "BIGINT", "7fffffffffffffff", 2**63 - 1),
    Case("range", "BIGINT", "8000000000000000", -(2**63)),
    Case("range", "BIGINT", "fffffffffffffffe", -2),
    Case("byte order", "BIGINT", "0201000000000000", 258, option=LITTLE),
    Case("length", "BIGINT", "00000102", BAD),
    Case("length", "BIGINT", "", BAD),
    Case("length", "INT", "0000000000000102", BAD),
    Case("length", "DOUBLE", "3fc00000", BAD),
    Case("number", "FLOAT", "3fc00000", 1.5),
    Case("number", "DOUBLE", "3fb999999999999a", 0.1),
    Case("number", "DOUBLE", "8000000000000000", -0.0),
    Case("range", "DOUBLE", "7fefffffffffffff", 1.7976931348623157e308),
    Case("range", "DOUBLE", "fff0000000000000", float("-inf")),
    Case("range", "FLOAT", "7fc00000", float("nan")),
    Case("byte order", "DOUBLE", "9a9999999999b93f", 0.1, option=LITTLE),
    Case("byte order", "FLOAT", "0000c03f", 1.5, option=LITTLE),
    *(Case("missing", kind, NOTHING, DELETE) for kind in ("BINARY", "BIGINT")),
)
# bytes as text: base64 in csv, each byte a character of ISO-8859-1 in canal-json
CSV_HEX = "csv.binary: hex"
CSV = (
    Case("bytes", "BINARY", "/+A=", b"\xff\xe0"),
    Case("wrong type", "BINARY", "\xff\xe0", BAD),
    Case("bytes", "BINARY", "cafe", b"\xca\xfe", option=CSV_HEX),
    Case("bytes", "BINARY", "/+A=", BAD, option=CSV_HEX),
    Case("bytes", "BINARY", "_-A=", b"\xff\xe0", option="csv.binary: base64-url-safe"),
    *(Case("null", kind, "", None) for kind in ("INT", "STRING", "DECIMAL(5,2)", TIME)),
    *(Case("missing", kind, NOTHING, BAD) for kind in ("INT", "STRING")),
)
# the whole key or value
STRING = (
    Case("unchanged", "STRING", "Zoë 😀", "Zoë 😀"),
    Case("unchanged", "STRING", "", ""),
    Case("unchanged", "STRING", " a,b\r\n", " a,b\r\n"),
    Case("null", "STRING", "null", "null"),
    Case("null", "INT", "null", BAD),
    Case("range", "INT", "+7", 7),
    Case("wrong type", "INT", "", BAD),
    Case("wrong type", "INT", " 7", BAD),
    Case("wrong type", "INT", "7,8", BAD),
    Case("wrong type", "DECIMAL(5,2)", "", BAD),
    Case("wrong type", "DECIMAL(2,2)", "", BAD),
    Case("unchanged", "BOOLEAN", "TRUE", True),
    Case("wrong type", "BOOLEAN", "1", BAD),
    Case("range", "DOUBLE", "NaN", float("nan")),
    Case("overflow", "FLOAT", "1e39", BAD),
    *(Case("missing", kind, NOTHING, DELETE) for kind in ("STRING", "INT")),
)
CANAL = (
    *(Case("missing", kind, NOTHING, None) for kind in ("INT", "STRING", "DECIMAL(5,2)", TIME)),
    Case("bytes", "BINARY", "\xff\xe0", b"\xff\xe0"),
    Case("bytes", "BINARY", "AQI=", b"AQI="),
    Case("wrong type", "BINARY", "\u20ac", BAD),
)
# what producers other than Canal write there: Flink's canal-json has numbers and words of JSON
CANAL_JSON = (
    Case("null", "INT", "null", None),
    Case("text of a number", "STRING", "1.50", "1.50"),
    Case("text of a number", "STRING", "-0", "-0"),
    Case("text of a number", "STRING", "1e400", "1e400"),
    Case("text of a number", "STRING", "9007199254740993", "9007199254740993"),
    Case("text of an object", "STRING", '{"a": 1.50}', '{"a":1.50}'),
    Case("text", "STRING", '"1.50"', "1.50"),
    Case("text", "STRING", "true", "true"),
    Case("invalid Unicode", "STRING", r'"\ud800"', BAD),
    Case("invalid Unicode", "STRING", r'"\ud83d\ude00?"', "😀?"),
    Case("invalid Unicode", "BINARY", r'"\udc00"', BAD),
    Case("text of an object", "STRING", '{"a": NaN}', '{"a":NaN}'),
    Case("wrong type", "STRING", "NaN", BAD),
    Case("precision", "DECIMAL(38,2)", "841e19", Decimal(FAR)),
    Case("precision", "DECIMAL(38,2)", "9007199254740993e3", Decimal("9007199254740993000.00")),
    Case("precision", "DECIMAL(5,2)", "0.1000000000000000055", BAD),
    Case("range", "DOUBLE", "1.5e3", 1500.0),
    Case("overflow", "DOUBLE", "1e400", BAD),
    Case("range", "BIGINT", "9223372036854775807", 2**63 - 1),
    Case("wrong type", "BIGINT", "1.0", BAD),
    Case("precision", "TIMESTAMP", '"2026-02-28 10:00:00.123456"', AT.replace(microsecond=123456)),
)


def encode_msgpack(value: Any) -> str:
    """A value as MessagePack writes it, in hexadecimal."""
    return bytes(msgpack.packb(value)).hex()


SECONDS, packed_time = int(AT.timestamp()), msgpack.Timestamp(-1, 999999000)
# MessagePack's own values, in hexadecimal
MSGPACK = (
    *(
        Case(edge, kind, encode_msgpack(raw_value), value, unit, option)
        for edge, kind, raw_value, value, unit, option in (
            ("null", "INT", None, None, None, None),
            ("null", "MAP<STRING, INT>", None, None, None, None),
            ("unchanged", "BOOLEAN", True, True, None, None),
            ("wrong type", "BOOLEAN", 1, BAD, None, None),
            ("range", "TINYINT", -128, -128, None, None),
            ("overflow", "TINYINT", 128, BAD, None, None),
            ("overflow", "SMALLINT", -(2**15) - 1, BAD, None, None),
            ("range", "INT", 2**31 - 1, 2**31 - 1, None, None),
            ("overflow", "INT", 2**31, BAD, None, None),
            ("wrong type", "INT", 7.0, BAD, None, None),
            ("wrong type", "INT", "7", BAD, None, None),
            ("wrong type", "INT", True, BAD, None, None),
            ("range", "BIGINT", -(2**63), -(2**63), None, None),
            ("range", "BIGINT", 2**63 - 1, 2**63 - 1, None, None),
            ("overflow", "BIGINT", 2**63, BAD, None, None),
            ("overflow", "BIGINT", 2**64 - 1, BAD, None, None),
            ("range", "DECIMAL(20,0)", 2**64 - 1, Decimal(2**64 - 1), None, None),
            ("precision", "DECIMAL(5,2)", 0.25, Decimal("0.25"), None, None),
            ("precision", "DECIMAL(5,2)", 0.1, BAD, None, None),
            ("precision", "DECIMAL(5,2)", "123.450", Decimal("123.45"), None, None),
            ("precision", "DECIMAL(5,2)", "123.456", BAD, None, None),
            ("blanks", "DECIMAL(5,2)", " 12", BAD, None, None),
            ("blanks", "MAP<DECIMAL(5,2), INT>", {"12\n": 1}, BAD, None, None),
            ("precision", "DECIMAL(38,10)", LONG_DECIMAL, Decimal(LONG_DECIMAL), None, None),
            ("overflow", "DECIMAL(5,2)", 1000, BAD, None, None),
            ("overflow", "DECIMAL(38,0)", 1e300, BAD, None, None),
            ("wrong type", "DECIMAL(5,2)", float("nan"), BAD, None, None),
            ("wrong type", "DECIMAL(5,2)", True, BAD, None, None),
            ("wrong type", "DECIMAL(5,2)", '{"scale": 2, "value": "MDk="}', BAD, None, None),
            ("precision", "DOUBLE", 0.1, 0.1, None, None),
            ("precision", "DOUBLE", 2**53, float(2**53), None, None),
            ("precision", "DOUBLE", 2**53 + 1, BAD, None, None),
            ("range", "DOUBLE", float("-inf"), float("-inf"), None, None),
            ("range", "DOUBLE", float("nan"), float("nan"), None, None),
            ("wrong type", "DOUBLE", "Infinity", BAD, None, None),
            ("precision", "FLOAT", 1.5, 1.5, None, None),
            ("precision", "FLOAT", 0.1, BAD, None, None),
            ("overflow", "FLOAT", 1e39, BAD, None, None),
            ("precision", "FLOAT", 2**24 + 1, BAD, None, None),
            ("unchanged", "STRING", "Zoë 😀", "Zoë 😀", None, None),
            ("text of a number", "STRING", 19, BAD, None, None),
            ("wrong type", "STRING", b"Zoe", BAD, None, None),
            ("bytes", "BINARY", b"\x00\xff", b"\x00\xff", None, None),
            ("wrong type", "BINARY", "Zoe", BAD, None, None),
            ("range", "DATE", "0001-01-01", date(1, 1, 1), None, None),
            ("wrong type", "DATE", "2026-02-30", BAD, None, None),
            ("time unit", "DATE", 86400, BAD, "seconds", None),
            ("wrong type", "DATE", msgpack.Timestamp(SECONDS), BAD, None, None),
            ("range", TIME, msgpack.Timestamp(SECONDS), AT, None, None),
            ("precision", TIME, msgpack.Timestamp(SECONDS, 123456000), AT.replace(microsecond=123456), None, None),
            ("precision", TIME, msgpack.Timestamp(SECONDS, 123456789), BAD, None, None),
            ("precision", TIME, msgpack.Timestamp(SECONDS, 123456789), AT.replace(microsecond=123456), None, TRUNCATE),
            ("precision", NTZ, msgpack.Timestamp(-1, 999999999), BEFORE, None, TRUNCATE),
            ("range", NTZ, msgpack.Timestamp(253402300799, 999999000), LAST_TIME, None, None),
            ("range", NTZ, msgpack.Timestamp(253402300800), BAD, None, None),
            ("range", TIME, msgpack.Timestamp(-62135596801), BAD, None, None),
            ("time zone", TIME, "2026-02-28T11:00:00+01:00", AT, None, None),
            *(("zone abbreviation", TIME, text, BAD, None, None) for text in ABBREVIATED),
            ("minutes", TIME, "2026-02-28T11:00+01:00", AT, None, None),
            ("skipped time", TIME, "2026-03-29T02:30:00 Europe/Berlin", BAD, None, None),
            ("repeated time", TIME, "2026-10-25T02:30:00 Europe/Berlin", AUTUMN, None, None),
            ("time zone", NTZ, "2026-02-28T10:00:00+05:00", BAD, None, None),
            ("part of a time", TIME, "12:30", BAD, None, None),
            ("time unit", TIME, SECONDS, BAD, None, None),
            ("time unit", TIME, SECONDS * 1000, AT, "millis", None),
            ("time unit", TIME, str(SECONDS), BAD, "seconds", None),
            ("wrong type", TIME, float(SECONDS), BAD, "seconds", None),
            ("other extension type", TIME, msgpack.ExtType(5, b"\x00\x00\x00\x01"), BAD, None, None),
            ("other extension type", "BINARY", msgpack.ExtType(5, b"\x00\x01"), BAD, None, None),
            ("unchanged", "ARRAY<SMALLINT>", [1, None, -7], [1, None, -7], None, None),
            ("overflow", "ARRAY<SMALLINT>", [2**15], BAD, None, None),
            ("wrong type", "ARRAY<INT>", 7, BAD, None, None),
            ("precision", "ARRAY<DECIMAL(5,2)>", [1, "0.50"], [Decimal("1.00"), Decimal("0.50")], None, None),
            ("precision", "ARRAY<TIMESTAMP_NTZ>", [msgpack.Timestamp(-1, 999999000)], [BEFORE], None, None),
            ("unchanged", "STRUCT<a: INT, b: STRING>", {"b": "x", "c": [1]}, (None, "x"), None, None),
            ("another case", "STRUCT<a: INT, b: STRING>", {"A": 1, "b": "x"}, BAD, None, None),
            ("null", "STRUCT<a: INT NOT NULL>", {"a": None}, BAD, None, None),
            ("null", "ARRAY<STRUCT<a: INT NOT NULL>>", [{"a": 1}, {}], BAD, None, None),
            (
                "unchanged",
                "MAP<STRING, TIMESTAMP_NTZ>",
                {"a": msgpack.Timestamp(-1, 999999000)},
                {"a": BEFORE},
                None,
                None,
            ),
            ("unchanged", "MAP<INT, STRING>", {7: "x", -1: None}, {7: "x", -1: None}, None, None),
            ("unchanged", "MAP<TINYINT, INT>", {-128: 1}, {-128: 1}, None, None),
            ("unchanged", "MAP<BINARY, INT>", {b"\x00": 1}, {b"\x00": 1}, None, None),
            ("unchanged", "MAP<DECIMAL(20,0), INT>", {2**64 - 1: 1}, {Decimal(2**64 - 1): 1}, None, None),
            ("unchanged", "MAP<DATE, INT>", {"2026-02-28": 1}, {date(2026, 2, 28): 1}, None, None),
            ("overflow", "MAP<INT, STRING>", {2**31: "x"}, BAD, None, None),
            ("wrong type", "MAP<INT, STRING>", {"7": "x"}, BAD, None, None),
            ("wrong type", "MAP<STRING, INT>", {7: 1}, BAD, None, None),
            ("wrong type", "MAP<DATE, INT>", {"2026-02-30": 1}, BAD, None, None),
            ("null", "MAP<STRING, INT>", {None: 1}, BAD, None, None),
            ("duplicate key", "MAP<DECIMAL(5,2), INT>", {"1.50": 1, 1.5: 2}, BAD, None, None),
            ("overflow", "MAP<DECIMAL(5,2), INT>", {"1e999999999": 1}, BAD, None, None),
            ("wrong type", "MAP<DECIMAL(5,2), INT>", {"1_0": 1}, BAD, None, None),
        )
    ),
    *(
        Case(edge, kind, text, BAD)
        for edge, kind, text in (
            ("duplicate key", "MAP<STRING, INT>", "82a16101a16101"),
            ("duplicate key", "STRUCT<a: INT>", "82a16101a16101"),
            ("invalid Unicode", "STRING", "a2c328"),
            ("invalid Unicode", "STRING", "a3eda080"),
            ("length", TIME, "d4ff00"),
            ("precision", TIME, "c70cff" + "ffffffff" + "0000000000000001"),
            ("length", "STRING", "dbffffffff61"),
            ("length", "BINARY", "c6ffffffff61"),
            ("length", "ARRAY<INT>", "ddffffffff01"),
            ("length", "MAP<STRING, INT>", "dfffffffffa16101"),
            ("length", "INT", "cd01"),
            ("unknown type", "INT", "c1"),
            ("bytes after the end", "INT", "0101"),
        )
    ),
    *(Case("missing", kind, NOTHING, None) for kind in ("INT", "STRING", TIME, "ARRAY<INT>", "MAP<STRING, INT>")),
    Case("missing", "STRUCT<a: INT NOT NULL, b: INT>", encode_msgpack({"b": 1}), BAD),
)


def encode_zigzag(number: int) -> str:
    """A number as Avro writes an int or a long, in hexadecimal."""
    remainder, encoded = (number << 1) ^ (number >> 63) if number < 0 else number << 1, []
    remainder &= 2**64 - 1
    while remainder > 0x7F:
        encoded.append(remainder & 0x7F | 0x80)
        remainder >>= 7
    return bytes([*encoded, remainder]).hex()


def encode_text(text: str) -> str:
    """A text as Avro writes it, in hexadecimal."""
    return encode_zigzag(len(text.encode())) + text.encode().hex()


def build_logical_type(type: Any, meaning: str, **options: Any) -> Any:
    return {"type": type, "logicalType": meaning, **options}


AVRO_TYPES: dict[str, Any] = {
    **{word: word for word in ("boolean", "int", "long", "float", "double", "string", "bytes")},
    "null or int": ["null", "int"],
    "int, default 5": "int",
    "int or string": ["int", "string"],
    "int or long": ["int", "long"],
    "enum": {"type": "enum", "name": "E", "symbols": ["OPEN", "SHUT"]},
    "fixed of 2 bytes": {"type": "fixed", "name": "F", "size": 2},
    "decimal(5,2)": build_logical_type("bytes", "decimal", precision=5, scale=2),
    "decimal(64,2)": build_logical_type("bytes", "decimal", precision=64, scale=2),
    "decimal(10,2), fixed of 16 bytes": build_logical_type(
        "fixed", "decimal", precision=10, scale=2, size=16, name="Amount"
    ),
    "array of decimal(18,0)": {"type": "array", "items": build_logical_type("bytes", "decimal", precision=18)},
    "uuid": build_logical_type("string", "uuid"),
    "date": build_logical_type("int", "date"),
    "time-millis": build_logical_type("int", "time-millis"),
    "time-micros": build_logical_type("long", "time-micros"),
    **{
        word: build_logical_type("long", word)
        for word in ("timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis",
                     "local-timestamp-micros", "local-timestamp-nanos")
    },
    "Connect's Timestamp": {"type": "long", "connect.name": CONNECT_DATA + "Timestamp"},
    "Debezium's Date": {"type": "int", "connect.name": DEBEZIUM + "Date"},
    "Debezium's ZonedTimestamp": {"type": "string", "connect.name": DEBEZIUM + "ZonedTimestamp"},
    **{
        f"{type} as {word}": build_logical_type(type, word, **options)
        for type, word, options in (
            ("string", "decimal", {"precision": 5, "scale": 2}), ("string", "timestamp-millis", {}),
            ("string", "date", {}), ("int", "timestamp-millis", {}), ("int", "time-micros", {}), ("long", "date", {}),
            ("double", "timestamp-micros", {}), ("bytes", "decimal", {}),
        )
    },
    "decimal of scale 3 and precision 2": build_logical_type("bytes", "decimal", precision=2, scale=3),
    "decimal(30,2), fixed of 4 bytes": build_logical_type(
        "fixed", "decimal", precision=30, scale=2, size=4, name="Few"
    ),
    "string as Connect's Timestamp": {"type": "string", "connect.name": CONNECT_DATA + "Timestamp"},
    "array of string as timestamp-millis": {
        "type": "array", "items": build_logical_type("string", "timestamp-millis"),
    },
    "array of int": {"type": "array", "items": "int"},
    "map of int": {"type": "map", "values": "int"},
    "record of null or int": {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": ["null", "int"]}]},
}  # fmt: skip
AVRO_DEFAULTS = {"null or int": None, "int, default 5": 5}
YEAR_10000 = 253402300800
LAST_SECOND = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
# the bytes of a field in Avro, in hexadecimal; one that is missing is of a version without it
AVRO = tuple(
    Case(edge, kind, text, value, option=option)
    for edge, kind, text, value, option in (
        ("unchanged", "boolean", "01", True, None),
        ("length", "boolean", "", BAD, None),
        ("bytes after the end", "boolean", "0100", BAD, None),
        ("range", "int", encode_zigzag(2**31 - 1), 2**31 - 1, None),
        ("range", "int", encode_zigzag(-(2**31)), -(2**31), None),
        ("overflow", "int", encode_zigzag(2**31), BAD, None),
        ("overflow", "int", encode_zigzag(-(2**40)), BAD, None),
        ("range", "long", encode_zigzag(2**63 - 1), 2**63 - 1, None),
        ("range", "long", encode_zigzag(-(2**63)), -(2**63), None),
        ("length", "long", "80", BAD, None),
        ("range", "double", "ffffffffffffef7f", 1.7976931348623157e308, None),
        ("range", "double", "000000000000f8ff", float("nan"), None),
        ("range", "float", "000080ff", float("-inf"), None),
        ("length", "double", "0000c03f", BAD, None),
        ("unchanged", "string", "0a5a6fc3ab21", "Zoë!", None),
        ("invalid Unicode", "string", "04c328", BAD, None),
        ("length", "string", "feffffff0f61", BAD, None),
        ("length", "string", "01", BAD, None),
        ("unchanged", "bytes", "0400ff", b"\x00\xff", None),
        ("unchanged", "fixed of 2 bytes", "00ff", b"\x00\xff", None),
        ("length", "fixed of 2 bytes", "00", BAD, None),
        ("null", "null or int", "00", None, None),
        ("unchanged", "null or int", "020e", 7, None),
        ("unknown type", "null or int", "04", BAD, None),
        ("unknown type", "null or int", "01", BAD, None),
        ("unchanged", "int or string", "0202" + "61", (None, "a"), None),
        ("unchanged", "int or string", "000e", (7, None), None),
        ("unchanged", "int or long", "02" + encode_zigzag(2**40), 2**40, None),
        ("unchanged", "enum", "02", "SHUT", None),
        ("unknown symbol", "enum", "04", BAD, None),
        ("precision", "decimal(5,2)", "043039", Decimal("123.45"), None),
        ("overflow", "decimal(5,2)", "060186a0", BAD, None),
        ("length", "decimal(5,2)", "00", BAD, None),
        ("overflow", "decimal(5,2)", "12" + (2**64 + 5).to_bytes(9, "big").hex(), BAD, None),
        ("overflow", "decimal(5,2)", "12" + (-(2**64) - 5).to_bytes(9, "big", signed=True).hex(), BAD, None),
        ("overflow", "decimal(10,2), fixed of 16 bytes", (2**64 + 5).to_bytes(16, "big").hex(), BAD, None),
        ("precision", "decimal(10,2), fixed of 16 bytes", (12345).to_bytes(16, "big").hex(), Decimal("123.45"), None),
        ("overflow", "array of decimal(18,0)", "0212" + (2**64 + 5).to_bytes(9, "big").hex() + "00", BAD, None),
        (
            "range",
            "array of decimal(18,0)",
            "0210" + (1 - 10**18).to_bytes(8, "big", signed=True).hex() + "00",
            [Decimal(1 - 10**18)],
            None,
        ),
        ("range", "decimal(64,2)", "20" + (10**38 - 1).to_bytes(16, "big").hex(), Decimal("9" * 36 + ".99"), None),
        ("overflow", "decimal(64,2)", "20" + (10**38).to_bytes(16, "big").hex(), BAD, None),
        ("unchanged", "uuid", "0461" + "62", "ab", None),
        ("range", "date", encode_zigzag(-719162), date(1, 1, 1), None),
        ("range", "date", encode_zigzag(2932896), date(9999, 12, 31), None),
        ("range", "date", encode_zigzag(2932897), BAD, None),
        ("range", "time-millis", encode_zigzag(86_399_999), "23:59:59.999", None),
        ("range", "time-millis", encode_zigzag(86_400_000), BAD, None),
        ("range", "time-micros", encode_zigzag(-1), BAD, None),
        ("time unit", "timestamp-millis", encode_zigzag(SECONDS * 1000), AT, None),
        ("range", "timestamp-millis", encode_zigzag(YEAR_10000 * 1000), BAD, None),
        ("overflow", "timestamp-millis", encode_zigzag(2**63 - 1), BAD, None),
        ("time unit", "timestamp-micros", encode_zigzag(SECONDS * 10**6 + 1), AT.replace(microsecond=1), None),
        ("time unit", "timestamp-nanos", encode_zigzag(SECONDS * 10**9), AT, None),
        ("precision", "timestamp-nanos", encode_zigzag(1), BAD, None),
        ("precision", "local-timestamp-nanos", encode_zigzag(-1), BEFORE, TRUNCATE),
        ("precision", "local-timestamp-nanos", encode_zigzag(-1), BAD, None),
        ("range", "local-timestamp-micros", encode_zigzag(YEAR_10000 * 10**6 - 1), LAST_TIME, None),
        ("range", "local-timestamp-micros", encode_zigzag(YEAR_10000 * 10**6), BAD, None),
        ("time unit", "local-timestamp-millis", encode_zigzag(SECONDS * 1000), AT.replace(tzinfo=None), None),
        ("time unit", "Connect's Timestamp", encode_zigzag(SECONDS * 1000), AT.replace(tzinfo=None), None),
        ("time unit", "Debezium's Date", encode_zigzag(1), date(1970, 1, 2), None),
        ("time zone", "Debezium's ZonedTimestamp", "32" + b"2026-02-28T11:00:00+01:00".hex(), AT, None),
        *(("zone abbreviation", "Debezium's ZonedTimestamp", encode_text(text), BAD, None) for text in ABBREVIATED),
        ("blanks", "Debezium's ZonedTimestamp", encode_text("2026-07-01T10:00:00 BST "), BAD, None),
        ("minutes", "Debezium's ZonedTimestamp", "22" + b"2026-02-28T10:00Z".hex(), AT, None),
        ("wrong type", "Debezium's ZonedTimestamp", "08" + b"soon".hex(), BAD, None),
        ("range", "Debezium's ZonedTimestamp", "3c" + b"+294247-01-10T04:00:25.200000Z".hex(), BAD, None),
        ("range", "Debezium's ZonedTimestamp", "2a" + b"10000-01-01T00:00:00Z".hex(), BAD, None),
        ("range", "Debezium's ZonedTimestamp", "28" + b"0000-12-31T23:59:59Z".hex(), BAD, None),
        ("range", "Debezium's ZonedTimestamp", "28" + b"9999-12-31T23:59:59Z".hex(), LAST_SECOND, None),
        ("part of a time", "Debezium's ZonedTimestamp", "0c" + b"12:30Z".hex(), BAD, None),
        # a logical type on another type than its own is none
        ("logical type", "string as timestamp-millis", encode_text("hello"), "hello", None),
        ("logical type", "string as date", encode_text("2026-02-28"), "2026-02-28", None),
        ("logical type", "string as decimal", encode_text("1.255"), "1.255", None),
        ("logical type", "string as Connect's Timestamp", encode_text("hello"), "hello", None),
        ("logical type", "int as timestamp-millis", "0e", 7, None),
        ("logical type", "int as time-micros", "01", -1, None),
        ("logical type", "long as date", encode_zigzag(2**40), 2**40, None),
        ("logical type", "double as timestamp-micros", "000000000000f83f", 1.5, None),
        ("logical type", "bytes as decimal", "043039", b"09", None),
        ("logical type", "decimal of scale 3 and precision 2", "043039", b"09", None),
        ("logical type", "decimal(30,2), fixed of 4 bytes", "00003039", b"\x00\x0009", None),
        ("logical type", "array of string as timestamp-millis", "020a68656c6c6f00", ["hello"], None),
        ("unchanged", "array of int", "040e1000", [7, 8], None),
        ("unchanged", "array of int", "03040e1000", [7, 8], None),
        ("length", "array of int", "feffffff0f", BAD, None),
        ("overflow", "array of int", "02" + encode_zigzag(2**31) + "00", BAD, None),
        ("unchanged", "map of int", "0202610e00", {"a": 7}, None),
        ("duplicate key", "map of int", "0402610e02611000", {"a": 8}, None),
        ("invalid Unicode", "map of int", "0202c30e00", BAD, None),
        ("length", "map of int", "02", BAD, None),
        ("null", "record of null or int", "00", (None,), None),
        *(("missing", kind, NOTHING, BAD, None) for kind in ("int", "string", "timestamp-nanos", "enum")),
        ("missing", "null or int", NOTHING, None, None),
        ("missing", "int, default 5", NOTHING, 5, None),
    )
)
# the bytes of a message of one field, `v`, with number 1, in hexadecimal; types are Protobuf's. A field that is missing
# is of a version that does not have it
NUMBER_64 = "80808080808001"  # 2 to the power of 42
PROTOBUF = (
    *(
        Case(edge, kind, text, value)
        for edge, kind, text, value in (
            ("range", "int32", "08ffffffff07", 2**31 - 1),
            ("range", "int32", "0880808080f8ffffffff01", -(2**31)),
            ("null", "int32", "", 0),
            ("overflow", "int32", "08" + NUMBER_64, BAD),
            ("overflow", "int32", "088080808008", BAD),
            ("wrong type", "int32", "0a0161", BAD),
            ("bytes after the end", "int32", "080700", BAD),
            ("length", "int32", "08", BAD),
            ("another field", "int32", "08071005", 7),
            ("repeated field", "int32", "08070808", 8),
            ("range", "sint32", "08ffffffff0f", -(2**31)),
            ("overflow", "sint32", "08" + NUMBER_64, BAD),
            ("range", "sfixed32", "0d00000080", -(2**31)),
            ("wrong type", "sfixed32", "0807", BAD),
            ("range", "int64", "0880808080808080808001", -(2**63)),
            ("range", "sint64", "08ffffffffffffffffff01", -(2**63)),
            ("range", "uint32", "08ffffffff0f", 2**32 - 1),
            ("overflow", "uint32", "08ffffffffffffffffff01", BAD),
            ("range", "fixed32", "0dffffffff", 2**32 - 1),
            ("range", "uint64", "08ffffffffffffffffff01", Decimal(2**64 - 1)),
            ("range", "fixed64", "09ffffffffffffffff", Decimal(2**64 - 1)),
            ("range", "double", "09ffffffffffffef7f", 1.7976931348623157e308),
            ("range", "double", "09000000000000f8ff", float("nan")),
            ("wrong type", "double", "0d0000c03f", BAD),
            ("range", "float", "0d000080ff", float("-inf")),
            ("unchanged", "bool", "0801", True),
            ("wrong type", "bool", "0a0101", BAD),
            ("unchanged", "string", "0a055a6fc3ab21", "Zoë!"),
            ("invalid Unicode", "string", "0a02c328", BAD),
            ("length", "string", "0affffffff0761", BAD),
            ("wrong type", "string", "0807", BAD),
            ("unchanged", "bytes", "0a0200ff", b"\x00\xff"),
            ("null", "optional int32", "", None),
            ("unchanged", "optional int32", "0800", 0),
            ("null", "required int32", "", BAD),
            ("unchanged", "enum", "0801", "OPEN"),
            ("alias", "enum", "0802", "SHUT"),
            ("unknown symbol", "enum", "0807", BAD),
            ("overflow", "enum", "088180808010", BAD),
            ("unchanged", "closed enum", "0801", "OPEN"),
            ("null", "closed enum", "", None),
            ("unknown symbol", "closed enum", "0807", BAD),
            ("unchanged", "repeated int32", "0a0307ac02", [7, 300]),
            ("not packed", "repeated int32", "080708ac02", [7, 300]),
            ("overflow", "repeated int32", "0a0807" + NUMBER_64, BAD),
            ("wrong type", "repeated string", "0a01610807", BAD),
            ("unchanged", "map<string, int32>", "0a050a01611007", {"a": 7}),
            ("missing part", "map<string, int32>", "0a00", {"": 0}),
            ("duplicate key", "map<string, int32>", "0a050a016110070a050a01611008", {"a": 8}),
            ("wrong type", "map<string, int32>", "0a060a0161120178", BAD),
            ("overflow", "map<string, int32>", "0a0b0a016110" + NUMBER_64, BAD),
            ("unchanged", "message", "0a020807", (7,)),
            ("in two parts", "message", "0a0208070a00", (7,)),
            ("overflow", "message", "0a0808" + NUMBER_64, BAD),
            ("wrong type", "message", "0a030a0161", BAD),
            ("unchanged", "group", "0b08070c", (7,)),
            ("length", "group", "0b0807", BAD),
            ("wrong type", "group", "0a020807", BAD),
            ("null", "Int32Value", "", None),
            ("unchanged", "Int32Value", "0a00", 0),
            ("overflow", "Int32Value", "0a0808" + NUMBER_64, BAD),
            ("range", "Timestamp", "0a0d08ff82d1ffaf0710988cebdc03", LAST_TIME.replace(tzinfo=UTC)),
            ("range", "Timestamp", "0a07088083d1ffaf07", BAD),
            ("range", "Timestamp", "0a0b088092b8c398feffffff01", datetime(1, 1, 1, tzinfo=UTC)),
            ("precision", "Timestamp", "0a021001", BAD),
            ("overflow", "Timestamp", "0a06108094ebdc03", BAD),
            ("wrong type", "Timestamp", "0a030a0161", BAD),
            ("range", "Duration", "0a0b08ffffffffffffffffff01", -1_000_000),
            ("overflow", "Duration", "0a0a08ffffffffffffffff7f", BAD),
            ("unchanged", "Struct", "0a0b0a090a016112041a02c3ab", '{"a": "ë"}'),
            ("wrong type", "Struct", "0a100a0e0a01611209" + "11000000000000f87f", BAD),
            ("null", "Value", "0a020800", "null"),
            *(("missing", kind, NOTHING, None) for kind in ("int32", "string", "message", "enum", "Timestamp")),
            *(("missing", kind, NOTHING, None) for kind in ("repeated int32", "map<string, int32>")),
        )
    ),
)
GROUPS = {
    "json, debezium-json, maxwell-json, ogg-json; json and debezium-json in an envelope without a schema": JSON,
    "json and debezium-json with the envelope's schema": CONNECT,
    "csv, canal-json, string": TEXT,
    "csv": CSV,
    "canal-json": CANAL,
    "canal-json with values of JSON": CANAL_JSON,
    "string": STRING,
    "raw": RAW,
    "avro": AVRO,
    "msgpack": MSGPACK,
    "protobuf": PROTOBUF,
}


def render_table() -> str:
    """The cases as the documentation shows them."""
    lines: list[str] = []
    for formats, cases in GROUPS.items():
        lines += ["", f"| {formats}: column | case | written | becomes |", "| --- | --- | --- | --- |"]
        lines += _render_lines(cases)
    return "\n".join(lines[1:])


def _render_lines(cases: Iterable[Case]) -> Iterable[str]:
    ordered_cases = sorted(cases, key=lambda case: (case.type, case.edge))
    for case in ordered_cases:
        unit = f", `timestamp_unit: {case.unit}`" if case.unit else ""
        unit += f", `{case.option}`" if case.option else ""
        outcome_text = case.value if case.value in (BAD, DELETE) else f"`{_format_value(case.value)}`"
        written_text = "nothing" if case.edge == "missing" and case.text == NOTHING else f"`{_format_value(case.text)}`"
        yield f"| `{case.type}`{unit} | {case.edge} | {written_text} | {outcome_text} |"


def render_page() -> str:
    """The manual's page ``format-values.md``."""
    return f"{HEAD}\n{render_table()}\n"


def _format_value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return f"({', '.join(map(_format_value, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_format_value(name)}: {_format_value(element)}' for name, element in value.items())}}}"
    if isinstance(value, bytes):
        return repr(value)[1:].replace("'", '"')
    is_hidden = isinstance(value, str) and not value.isprintable()
    return value.encode("unicode_escape").decode() if is_hidden else str(value)
