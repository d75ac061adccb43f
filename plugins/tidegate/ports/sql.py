"""The port that renders SQL statements."""

from typing import Any, Protocol


class Sql(Protocol):
    """The statements of ``include/sql``."""

    def render(self, statement: str, **values: Any) -> str:
        """The text of ``<statement>.sql`` with `values` filled in; a value that it needs and lacks is an error."""
        ...
