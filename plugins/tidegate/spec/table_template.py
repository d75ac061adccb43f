"""Names of tables that records name themselves: a template such as ``lake.shop.{type}``, and what may stand in it.

A value becomes part of a name in lower case. Anything but letters, digits, dash and underscore is refused, so that a
value can never name a table outside of the template.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIELD_PATTERN = re.compile(r"\{([^{}]+)\}")
VALUE_PATTERN = "[a-z0-9_][a-z0-9_-]*"
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True)
class TableNaming:
    """How a record names its table. `namespaces` are those that it may name; `reserved` is a regular expression.

    `name` is the one table whose records are wanted, as ``namespace.table``; None for all.
    """

    template: str
    namespaces: tuple[str, ...]
    reserved: str
    name: str | None = None

    @property
    def namespace(self) -> str:
        """The template's part before the last dot that is not in braces."""
        return split_template(self.template)[0]

    @property
    def table(self) -> str:
        return split_template(self.template)[1]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(FIELD_PATTERN.findall(self.template)))

    def name_of(self, row: Mapping[str, Any]) -> str | None:
        """Return ``namespace.table`` for a row, None if its values make no such name. The job computes it in SQL."""
        values = {field: row.get(field) for field in self.fields}
        if any(value is None or not re.fullmatch(VALUE_PATTERN, str(value).lower()) for value in values.values()):
            return None
        parts = (self.namespace, self.table)
        namespace, table = (FIELD_PATTERN.sub(lambda m: str(values[m[1]]).lower(), part) for part in parts)
        if namespace not in self.namespaces or len(table) > MAX_NAME_CHARACTERS or re.fullmatch(self.reserved, table):
            return None
        return f"{namespace}.{table}"

    def makes(self, table: str) -> bool:
        pattern = "".join(
            VALUE_PATTERN if n % 2 else re.escape(part) for n, part in enumerate(FIELD_PATTERN.split(self.table))
        )
        return (
            bool(re.fullmatch(pattern, table))
            and len(table) <= MAX_NAME_CHARACTERS
            and not re.fullmatch(self.reserved, table)
        )


def split_template(template: str) -> tuple[str, str]:
    """Split ``namespace.table``; dots in braces belong to a field's name."""
    hidden_dots = FIELD_PATTERN.sub(lambda m: m[0].replace(".", "\0"), template)
    namespace, _, table = hidden_dots.rpartition(".")
    return namespace.replace("\0", "."), table.replace("\0", ".")


def is_template(name: str) -> bool:
    return "{" in name or "}" in name
