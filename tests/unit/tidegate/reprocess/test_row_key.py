"""The key of a row as a person writes it."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import build_table
from tidegate.errors import ConfigurationError
from tidegate.reprocess.row_key import parse_row_key
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat
from tidegate.spec.table import Table


def build(*columns: Column, **options: Any) -> Table:
    names = tuple(column.name for column in columns)
    return replace(build_table(), key=KeyFormat(format="json", fields=names, columns=columns, **options))


ONE = build(Column("Id", "BIGINT"))
TEXT = build(Column("name", "STRING"))
TWO = build(Column("Id", "BIGINT"), Column("part", "STRING"))


@pytest.mark.parametrize(
    ("table", "text", "key"),
    [
        (ONE, "7", {"Id": 7}), (ONE, '{"id": 7}', {"Id": 7}), (ONE, "null", {"Id": None}), (ONE, "7.0", {"Id": 7}),
        (TEXT, "007", {"name": "007"}), (TEXT, '{"name": "007"}', {"name": "007"}), (TEXT, "7", {"name": "7"}),
        (TWO, '{"PART": null, "Id": 9007199254740993}', {"Id": 9007199254740993, "part": None}),
        (build(Column("at", "DATE")), "2026-01-02", {"at": "2026-01-02"}),
        (build(Column("n", "DECIMAL(38,2)")), "12345678901234567890.10", {"n": "12345678901234567890.10"}),
        (build(Column("n", "DECIMAL(38,2)")), "1e3", {"n": "1000"}),
        (build(Column("n", "DECIMAL(3,2)")), "0", {"n": "0"}),
        (build(Column("n", "DECIMAL(3,2)")), '"-9.9900"', {"n": "-9.9900"}),
        (build(Column("n", "DECIMAL(3,2)")), "0e99999999", {"n": "0"}),
        (build(Column("n", "TINYINT")), "-128", {"n": -128}), (ONE, "9223372036854775807", {"Id": 2**63 - 1}),
        (build(Column("at", "TIMESTAMP")), "2026-01-02T03:04:05.123456Z", {"at": "2026-01-02T03:04:05.123456Z"}),
        (build(Column("at", "TIMESTAMP_NTZ")), "2026-01-02T03:04:05.123456", {"at": "2026-01-02T03:04:05.123456"}),
        (build(Column("at", "TIMESTAMP")), "2026-01-02 03:04", {"at": "2026-01-02 03:04"}),
        (build(Column("At", "TIMESTAMP")), "2026-01-02T03:04Z", {"At": "2026-01-02T03:04:00Z"}),
        (build(Column("at", "TIMESTAMP")), "2026-01-02 03:04+02:00", {"at": "2026-01-02 03:04:00+02:00"}),
        (build(Column("b", "BINARY")), "AP8=", {"b": "AP8="}), (TEXT, "[" * 100_000, {"name": "[" * 100_000}),
        (build(Column("n", "DOUBLE")), "0.5", {"n": 0.5}), (build(Column("b", "BOOLEAN")), "true", {"b": True}),
        (build(Column("n", "DOUBLE")), "NaN", {"n": "NaN"}), (TEXT, "NaN", {"name": "NaN"}),
        (TEXT, "12e34567890123456789012", {"name": "12e34567890123456789012"}),  # no number of Python
        (build(Column("n", "FLOAT")), '{"n": "-Infinity"}', {"n": "-Infinity"}),
        (build(Column("id", "BIGINT"), into="K"), '{"k": {"ID": 3}}', {"K": {"id": 3}}),
        (build(Column("id", "BIGINT"), prefix="k_"), "3", {"k_id": 3}),
    ],
)  # fmt: skip
def test_key_is_read_by_column(table: Table, text: str, key: dict[str, Any]) -> None:
    assert parse_row_key(table, text) == key


@pytest.mark.parametrize(
    ("table", "text", "message"),
    [
        (TWO, "7", "the key has columns=Id, part; write a JSON object"), (TWO, '{"Id": 7}', "the fields are Id, part"),
        (ONE, "seven", "column=Id takes a BIGINT"), (ONE, '"7"', "column=Id takes a BIGINT"),
        (ONE, "7.5", "takes a BIGINT"),
        (ONE, "true", "takes a BIGINT"), (TWO, '{"Id": 7, "part": 7}', "column=part takes a STRING"),
        (build(Column("id", "BIGINT"), into="K"), '{"K": 3}', "the fields of column=K are id"),
        (ONE, "1e9999999", "takes a BIGINT"), (ONE, "1e99999999999999999999", "takes a BIGINT"),
        (TWO, '{"Id": 1e99999999999999999999, "part": "x"}', "the key has columns=Id, part; write a JSON object"),
        (ONE, "1e-9999999", "takes a BIGINT"),
        (ONE, "1e20", "takes a BIGINT"), (ONE, "[" * 100_000, "takes a BIGINT"),
        (ONE, '{"Id":' * 100_000, "takes a BIGINT"), (ONE, "9223372036854775808", "takes a BIGINT"),
        (build(Column("n", "TINYINT")), "300", "takes a TINYINT"),
        (build(Column("n", "FLOAT")), "1e39", "takes a FLOAT"),
        (build(Column("n", "DOUBLE")), "1e9999999", "takes a DOUBLE"),
        (build(Column("n", "DOUBLE")), '"nan"', "a DOUBLE"), (build(Column("n", "DOUBLE")), '"0.5"', "a DOUBLE"),
        (ONE, "NaN", "takes a BIGINT"), (build(Column("n", "DECIMAL(3,2)")), "Infinity", "takes a DECIMAL"),
        (build(Column("n", "DECIMAL(3,2)")), "abc", "takes a DECIMAL"),
        (build(Column("n", "DECIMAL(3,2)")), "10", "takes a DECIMAL"),
        (build(Column("n", "DECIMAL(3,2)")), "0.001", "takes a DECIMAL"),
        (build(Column("n", "DECIMAL(38,2)")), "1e9999999", "takes a DECIMAL"),
        (build(Column("at", "DATE")), "notadate", "takes a DATE"),
        (build(Column("at", "DATE")), "2026-02-30", "a DATE"),
        (build(Column("at", "TIMESTAMP")), "20260102T030405", "takes a TIMESTAMP"),
        (build(Column("at", "TIMESTAMP_NTZ")), "2026-01-02T03:04:05Z", "takes a TIMESTAMP_NTZ"),
        (build(Column("b", "BINARY")), "0xg", "takes a BINARY"),
        (build(Column("b", "BINARY")), "AP8=!", "takes a BINARY"),
        (ONE, '{"ID": 1, "id": 2}', "one of them twice"), (ONE, '{"Id": 1, "Id": 2}', "one of them twice"),
        (build(), "7", "its rows have no key"),
    ],
)  # fmt: skip
def test_key_that_is_not_the_tables_is_refused(table: Table, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_row_key(table, text)
