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
        (build(Column("n", "DOUBLE")), "0.5", {"n": 0.5}), (build(Column("b", "BOOLEAN")), "true", {"b": True}),
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
        (build(), "7", "its rows have no key"),
    ],
)  # fmt: skip
def test_key_that_is_not_the_tables_is_refused(table: Table, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_row_key(table, text)
