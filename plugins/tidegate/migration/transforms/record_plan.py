"""How a sink sees a record, in Tidegate's words: formats of key and value, metadata columns, and the row made of it."""

from dataclasses import dataclass, field
from typing import Any

from tidegate.sql.spark import quote

MAX_LINE_LENGTH = 80
NEEDS_SCHEMA = (
    "select needs value.schema: every field of the value that the row is made of, as Spark DDL; no setting has them"
)


@dataclass
class RecordPlan:
    """What is known of the records so far; each converter and transform adds to it.

    `computed` are columns with the SQL that computes them. `kept` are the only fields that remain, None for all.
    `topic_renames` are patterns with their replacements, in Java's syntax. `is_typed`: the format knows its fields
    without a schema in the file.
    """

    key: dict[str, Any] = field(default_factory=dict)
    value: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    kept: list[str] | None = None
    topic_renames: list[tuple[str, str]] = field(default_factory=list)
    delete_when: str = ""
    ignores_tombstones: bool = False
    is_change_event: bool = False
    is_typed: bool = False

    def build_select(self) -> str:
        """The SELECT that makes the row; empty where the record is the row."""
        if not (self.computed or self.renamed or self.kept is not None or (self.dropped and self.is_typed)):
            return ""
        computed = [f"{expression} AS {quote(column)}" for column, expression in self.computed.items()]
        renamed_columns = [f"{quote(old)} AS {quote(new)}" for old, new in self.renamed.items()]
        if self.kept is not None:
            replaced_columns = {*self.computed, *self.renamed, *self.dropped}
            stay = dict.fromkeys([*self.key.get("fields", []), *self.kept, *self.metadata])
            return _join([*(quote(name) for name in stay if name not in replaced_columns), *renamed_columns, *computed])
        replaced_names = dict.fromkeys([*self.dropped, *self.renamed, *self.list_replaced_fields()])
        star = f"* EXCEPT ({', '.join(map(quote, replaced_names))})" if replaced_names else "*"
        return _join([star, *renamed_columns, *computed])

    def list_replaced_fields(self) -> list[str]:
        """Columns that are computed in place of the record's own field."""
        return [column for column, expression in self.computed.items() if quote(column) in expression]


def _join(columns: list[str]) -> str:
    line = f"SELECT {', '.join(columns)} FROM record"
    return line if len(line) <= MAX_LINE_LENGTH else "SELECT\n  " + ",\n  ".join(columns) + "\nFROM record"
