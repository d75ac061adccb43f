"""What a record's fields hold, as text: also a key that is taken from rows, whose values have their own types."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row
from tidegate.schema.data_types import Column
from tidegate_spark.fields.record_explanation import _FieldExplanation


class KeyOfRows(_FieldExplanation):
    """The decoder's answer about a key from rows: typed, though text is asked for."""

    def __init__(self, *values: Any) -> None:
        self._values = values

    def _decode_row(self, part: str, columns: tuple[Column, ...], *expressions: str) -> Row:
        struct = Row(**dict(zip((column.name for column in columns), self._values, strict=True)))
        return Row(why=None, struct=struct)


def test_typed_values_of_a_key_from_rows_are_described_as_text() -> None:
    columns = (Column("Id", "BIGINT"), Column("at", "DATE"), Column("amount", "DECIMAL(9,2)"), Column("name", "STRING"))
    fields = KeyOfRows(7, date(2026, 1, 2), Decimal("1.50"), "x").explain("key", columns, None, None)
    assert [(field.name, field.found) for field in fields] == [
        ("Id", "7"), ("at", "2026-01-02"), ("amount", "1.50"), ("name", "x"),
    ]  # fmt: skip


class Decodings(_FieldExplanation):
    """A record whose `refused` columns do not hold what it has; without any it is no row. Counts its decodings."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.count = refused, 0

    def _decode_row(self, part: str, columns: tuple[Column, ...], *expressions: str) -> Row:
        self.count += 1
        if expressions:
            texts = Row(**{column.name: None if column.name == "c0" else "x" for column in columns})
            return Row(why=None if self.refused else "not JSON", struct=texts)
        is_bad = not self.refused or any(column.name in self.refused for column in columns)
        return Row(why="does not fit" if is_bad else None)


@pytest.mark.parametrize(("refused", "most"), [(("c7",), 20), (("c7", "c150"), 36), ((), 1)])
def test_refused_columns_are_found_by_few_decodings(refused: tuple[str, ...], most: int) -> None:
    """Of what is no row at all, by one: else a wide table would be decoded once for each column."""
    record = Decodings(*refused)
    assert record.find_refused([Column(f"c{number}", "BIGINT") for number in range(200)]) == refused
    assert record.count <= most
