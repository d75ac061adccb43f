"""The statements of ``include/sql``, filled in: identifiers and text quoted by one function each, nothing undefined."""

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.settings import find_product_folder
from tidegate.sql import googlesql

if TYPE_CHECKING:
    import jinja2

SQL_FOLDER = find_product_folder() / "include" / "sql"
Filters = dict[str, Callable[..., Any]]


@cache
def _build_environment(dialect: str) -> "jinja2.Environment":
    import jinja2  # a twentieth of a process's start, and a flush without work renders nothing

    loader = jinja2.FileSystemLoader([SQL_FOLDER / dialect, SQL_FOLDER / "shared"])
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False)
    filters: Filters = import_module(f"tidegate.adapters.{dialect}.sql_filters").FILTERS
    quoted = filters["quoted"]
    environment.filters |= {
        **filters,
        "ours": lambda name: quoted(f"_tidegate_{name}"),  # a column beside the user's, whose prefix no user column has
        "path": lambda leaf: ".".join(map(quoted, leaf)),  # to a struct's field
    }
    return environment


class SqlFiles:
    """The statements of one dialect: its folder of ``include/sql`` and ``shared``, with its adapter's filters.

    `projects`: BigQuery's names for catalogs; SQL names a table by its project.
    """

    def __init__(self, dialect: str, projects: Mapping[str, str] | None = None) -> None:
        self._dialect = dialect
        self._projects = projects

    @cached_property
    def _environment(self) -> "jinja2.Environment":
        shared = _build_environment(self._dialect)
        if not self._projects:
            return shared
        environment = shared.overlay()
        environment.filters = {**shared.filters, "name": self._quote_in_project}
        return environment

    def _quote_in_project(self, table: str) -> str:
        catalog, dot, table_path = table.partition(".")
        project = googlesql.quote((self._projects or {}).get(catalog, catalog))
        return f"{project}.{googlesql.quote_name(table_path)}" if dot else project

    def render(self, statement: str, **values: Any) -> str:
        """Fill in ``<statement>.sql``; `jinja2.UndefinedError` names a missing value."""
        return self._environment.get_template(f"{statement}.sql").render(**values).strip()
