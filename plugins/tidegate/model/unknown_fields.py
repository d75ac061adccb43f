"""Fields of a batch's records that no column holds: counted by their names, each with the column that would hold it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.sql.spark import quote_if_needed

MAX_NAMED_FIELDS = 20  # each staged batch has them in its summary, in catalogs and in the results of tasks
MAX_NAME_CHARACTERS = 100
MAX_SHOWN_FIELDS = 5


@dataclass(frozen=True)
class UnknownField:
    """A field by its path, `a.b` inside of a struct: in how many records it holds something, and a type for it.

    A step of the path that has a dot itself stands in backquotes.
    """

    name: str
    records: int
    type: str

    @property
    def is_nested(self) -> bool:
        """Whether it lies inside of a column."""
        return "." in self.name and not (self.name.startswith("`") and self.name.find("`.") < 0)

    @property
    def ddl(self) -> str:
        """The column that would hold it, as `value.schema` has it."""
        name = self.name if self.name.startswith("`") else quote_if_needed(self.name)
        return f"{_make_printable(name)} {self.type}"


@dataclass(frozen=True)
class UnknownFields:
    """What a batch's rows have beside their columns; null, {} and [] say nothing, and are not counted.

    - `records`: those with any such field. `fields`: the most frequent ones.
    - `others`: how often the fields occur that are not named.
    """

    records: int
    fields: tuple[UnknownField, ...] = ()
    others: int = 0

    def describe(self) -> str:
        """A sentence: the fields, and the line of the pipeline file that would declare them."""
        shown = self.fields[:MAX_SHOWN_FIELDS]
        counts = [f"{_make_printable(field.name)} ({field.records})" for field in shown]
        hidden = len(self.fields) - len(shown)
        counts += [f"{hidden} other fields"] if hidden else []
        counts += [f"fields that are not named ({self.others})"] if self.others else []
        columns = ", ".join(field.ddl for field in shown if not field.is_nested)
        declare = (
            f"add {columns} to value.schema" if columns else "declare them inside of their columns in value.schema"
        )
        return (
            f"no column holds the fields {', '.join(counts)} of records={self.records}; {declare}, or set "
            "value.unknown_fields: ignore"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; fields as ``{name: [records, type]}``."""
        return {
            "records": self.records,
            "fields": {field.name: [field.records, field.type] for field in self.fields},
            "others": self.others,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "UnknownFields":
        fields = tuple(UnknownField(name, records, kind) for name, (records, kind) in data["fields"].items())
        return cls(data["records"], fields, data["others"])


def _make_printable(name: str) -> str:
    """The name in one line: records have made it up."""
    return name if name.isprintable() else name.encode("unicode_escape").decode()
