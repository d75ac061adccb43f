"""What a record's fields hold, as text: also a key that is taken from rows, whose values have their own types."""

from datetime import date
from decimal import Decimal
from typing import Any

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
