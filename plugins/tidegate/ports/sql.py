"""The port that renders SQL statements."""

from typing import Any, Protocol


class Sql(Protocol):
    """The statements of ``include/sql``."""

    def render(self, statement: str, **values: Any) -> str:
        """Fill in one statement; a value that is missing is an error."""
        ...
