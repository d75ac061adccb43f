"""Corrupt records made by Spark itself: each is a seed that was cut, bent, doubled or spliced, the same ones each time.

`python -m fuzzing FORMAT NUMBER` (tests on the path) decodes so many on a running stack and tells what became of them;
a third word, a number, is where to begin: other records than those of another run.
"""

import sys
from typing import Any

from fuzz_seeds import build_key_seeds, build_option_seeds, build_value_seeds
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

ROUNDS = 2  # what one change makes of a record, the next one changes again
# What decoders stumble over: lengths that no record has, endless nesting, numbers at and beyond every end, half texts.
TOKENS = [
    b"\x80\xbe\xc7\x94\x0e", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 9, b"\x00" * 40, b"\x80",
    b"[" * 3000, b'{"a":' * 1500, b"{" * 10, b'"', b"\\", b"\\ud800", b"\xed\xa0\x80", b"\xf0\x9f", b"\x00", b"1e400",
    b"-1e-400", b"9" * 400, b"NaN", b"Infinity", b"null", b"true", b"-0.0", b"99999999999999999999", b"0.1" * 9,
    b'"99999-01-01T00:00:00Z"', b'"-0001-01-01"', b'"2026-02-30"', b'"24:00:00"', b",", b"\r\n", b"}", b"]", b":",
    b"\xdf\xff\xff\xff\xff", b"\xdd\x7f\xff\xff\xff", b"\xc9\xff\xff\xff\xff\xff", b"\xdb\xff", b"\x91" * 3000, b"\xc1",
    b'"id"', b'"op":"x"', b'"after":null', b'"data":[null]', b'"data":{}', b'"ts":9223372036854775807', b"\t",
    b" " * 300, b'"2026-03-29T02:30:00 Europe/Berlin"', b"-INF", b'{"a": NaN}', b"\x0b\x0c", b"\xff\xff\xff\xff\x1f",
]  # fmt: skip
FORMATS = (
    "json", "json-schema", "debezium-json", "mongodb", "canal-json", "maxwell-json", "ogg-json", "csv", "string",
    "avro", "debezium-avro", "protobuf", "msgpack", *build_option_seeds(), *build_key_seeds(),
)  # fmt: skip
GOOD_VALUE = b'{"x": 1}'  # beside a key that is bent


def build_fuzzed_table(name: str) -> tuple[StageTable, list[bytes], str]:
    """The table of a format, good bytes of it, and whether they are a record's key or its value."""
    key, key_columns, part, key_formats = KeyFormat(), tuple[Column, ...](), "value", build_key_seeds()
    if name in key_formats:
        key, key_columns, good = key_formats[name]
        columns, part = (Column("x", "INT"),), "key"
        value = ValueFormat("json", columns)
    else:
        value, columns, good = build_option_seeds()[name] if name in build_option_seeds() else build_value_seeds(name)
    table = StageTable(
        intermediate="i", attempt="a", key=key, key_columns=key_columns, value=value, value_columns=columns,
        metadata={}, ignore_deletes=False, when=None, route=None, delete_when=None, summary={}, property="p",
    )  # fmt: skip
    return table, good, part


def corrupt_records(spark: Any, good: list[bytes], part: str, number: int, begin: int = 0) -> Any:
    """`number` keys or values, derived from their number only, from `begin` on: every eighth is an unchanged seed."""

    def render_array(name: str, values: list[bytes]) -> str:
        parts = ", ".join(f"X'{part.hex()}'" for part in values)
        return f"array({parts}) AS {name}"

    frame = spark.range(begin, begin + number).selectExpr(
        "id", render_array("seeds", good), render_array("tokens", TOKENS)
    )
    frame = frame.selectExpr("*", f"element_at(seeds, int(pmod(xxhash64(id, 's'), {len(good)})) + 1) AS v")
    for turn in range(ROUNDS):

        def draw(salt: str, below: str, turn: int = turn) -> str:
            return f"int(pmod(xxhash64(id, '{salt}', {turn}), greatest({below}, 1)))"

        frame = frame.selectExpr(
            "id", "seeds", "tokens", "v", f"{draw('p', 'length(v) + 1')} + 1 AS p", f"{draw('n', '12')} AS n",
            f"element_at(tokens, {draw('t', str(len(TOKENS)))} + 1) AS t",
            f"element_at(seeds, {draw('o', str(len(good)))} + 1) AS o", f"{draw('c', '8')} AS c",
            f"unhex(lpad(hex({draw('b', '256')}), 2, '0')) AS b",
        ).selectExpr("id", "seeds", "tokens", """CASE c
            WHEN 0 THEN v
            WHEN 1 THEN substring(v, 1, p - 1)
            WHEN 2 THEN concat(substring(v, 1, p - 1), b, substring(v, p + 1))
            WHEN 3 THEN concat(substring(v, 1, p - 1), t, substring(v, p))
            WHEN 4 THEN concat(substring(v, 1, p - 1), t, substring(v, p + n))
            WHEN 5 THEN concat(substring(v, 1, p - 1), substring(v, p), substring(v, p))
            WHEN 6 THEN concat(substring(v, 1, p - 1), substring(o, p))
            ELSE concat(substring(v, 1, p - 1), substring(v, p + n)) END AS v""")  # fmt: skip
    key, value = ("v", f"X'{GOOD_VALUE.hex()}'") if part == "key" else ("CAST(NULL AS BINARY)", "v")
    return frame.selectExpr(
        f"{key} AS key", f"{value} AS value", "'t' AS topic", "0 AS partition", "id AS offset",
        "current_timestamp() AS timestamp", "0 AS timestampType",
    ).selectExpr("*", "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text")  # fmt: skip


def count_outcomes(spark: Any, name: str, number: int, begin: int = 0) -> dict[str, int]:
    """What became of so many records of a format, each decoded to its last value."""
    from tidegate_spark.stage.job import decode

    table, good, part = build_fuzzed_table(name)
    decoded = decode(corrupt_records(spark, good, part, number, begin), table)
    absent = " OR ".join(f"key_struct.`{c.name}` IS NULL" for c in table.key_columns) or "false"
    (row,) = decoded.selectExpr(
        "count(DISTINCT offset) AS records",
        "count_if(reason IS NOT NULL) AS bad",
        "count_if(reason IS NULL AND value_struct IS NOT NULL) AS rows",
        f"count_if(reason IS NULL AND (value_struct IS NULL AND change = 'u' OR {absent})) AS lost",
        "count_if(reason = '') AS unsaid",
        "count(hash(to_json(struct(value_struct, key_struct, op)))) AS read",
    ).collect()
    return dict(row.asDict())


if __name__ == "__main__":
    import os

    from tidegate_spark.session import close, connect_session

    session = connect_session(os.environ["SPARK_REMOTE"], {})
    chosen = FORMATS if sys.argv[1] == "all" else sys.argv[1].split(",")
    for each in chosen:
        print(each, count_outcomes(session, each, *map(int, sys.argv[2:])), flush=True)
    close(session)
