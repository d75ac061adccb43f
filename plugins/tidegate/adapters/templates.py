"""The statements of ``include/sql``, filled in: identifiers and text quoted by one function each, nothing undefined."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from tidegate.spark_sql import literal, quoted, quoted_name

SQL_FOLDER = Path(__file__).parents[3] / "include" / "sql"


def ours(name: str) -> str:
    """A column of our own beside the user's, which cannot be called the same."""
    return quoted(f"_tidegate_{name}")


def path(leaf: Iterable[str]) -> str:
    """A column, or what lies in a struct, by the names on the way to it."""
    return ".".join(quoted(name) for name in leaf)


@cache
def _environment(dialect: str) -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(SQL_FOLDER / dialect)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters |= {"quoted": quoted, "name": quoted_name, "text": literal, "ours": ours, "path": path}
    return environment


class SqlFiles:
    """The statements of one dialect, `iceberg` or `bigquery`."""

    def __init__(self, dialect: str) -> None:
        self._environment = _environment(dialect)

    def render(self, statement: str, **values: Any) -> str:
        """Fill in ``<statement>.sql``; `jinja2.UndefinedError` names a value that is missing."""
        return self._environment.get_template(f"{statement}.sql").render(**values).strip()
