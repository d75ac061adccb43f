"""What the pipeline file says of how values are written: units of times, numbers as text, bytes, and dates in days."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.schema.data_types import Column, DataType, make_counted, make_encoded, make_lenient, make_truncated

from tidegate_spark.fields.encodings import BASE64

Units = str | Mapping[str, str] | None
Words = str | Mapping[str, str] | None  # for all columns, or for each by its name


@dataclass(frozen=True)
class ReadingRules:
    """How values are read: the unit of times, whether numbers may be text (lenient), how bytes are written."""

    units: Units
    numbers: Words = None
    binary: Words = None
    truncated: frozenset[str] = frozenset()  # columns, case-folded, whose times are cut
    counts_days: bool = False

    def mark_type(self, data_type: DataType, column: Column) -> DataType:
        marked_type = make_lenient(data_type) if find_word(self.numbers, column) == "lenient" else data_type
        encoding = find_word(self.binary, column)
        marked_type = make_encoded(marked_type, encoding) if encoding and encoding != BASE64 else marked_type
        marked_type = make_counted(marked_type) if self.counts_days else marked_type
        return make_truncated(marked_type) if column.name.casefold() in self.truncated else marked_type


def find_word(words: Words, column: Column) -> str | None:
    if words is None or isinstance(words, str):
        return words
    return {name.casefold(): word for name, word in words.items()}.get(column.name.casefold())
