"""The statements of ``include/sql``, filled in: identifiers and text quoted by one function each, nothing undefined."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from tidegate.adapters.bigquery.table_layout import get_partition_unit, render_partition_clause, render_table_options
from tidegate.adapters.bigquery.type_mapping import render_comparable, render_from_value, to_bigquery_type
from tidegate.merge.scd2_statements import render_comparable as comparable_in_spark
from tidegate.sql import googlesql, spark

SQL_FOLDER = Path(__file__).parents[3] / "include" / "sql"
Filters = dict[str, Callable[..., Any]]


def _build_naming_filters(quoted: Callable[[str], str]) -> Filters:
    """Columns of our own beside the user's, which cannot be called the same, and the way to what lies in a struct."""

    def path(leaf: Iterable[str]) -> str:
        return ".".join(quoted(name) for name in leaf)

    return {"quoted": quoted, "ours": lambda name: quoted(f"_tidegate_{name}"), "path": path}


FILTERS: dict[str, Filters] = {
    "iceberg": {
        **_build_naming_filters(spark.quote),
        "name": spark.quote_name,
        "text": spark.render_literal,
        "comparable": comparable_in_spark,
    },
    "bigquery": {
        **_build_naming_filters(googlesql.quote),
        "name": googlesql.quote_name,
        "text": googlesql.render_literal,
        "type": to_bigquery_type,
        "from_value": render_from_value,
        "comparable": render_comparable,
        "partition": render_partition_clause,
        "partition_unit": get_partition_unit,
        "options": render_table_options,
    },
}


@cache
def _build_environment(dialect: str) -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(SQL_FOLDER / dialect)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters |= FILTERS[dialect]
    return environment


class SqlFiles:
    """The statements of one dialect, `iceberg` or `bigquery`.

    `projects` are BigQuery's names for catalogs: a table's name begins with its catalog, in SQL with the project.
    """

    def __init__(self, dialect: str, projects: Mapping[str, str] | None = None) -> None:
        self._environment = _build_environment(dialect)
        if projects:
            self._environment = self._environment.overlay()
            self._environment.filters = {**self._environment.filters, "name": _build_project_filter(projects)}

    def render(self, statement: str, **values: Any) -> str:
        """Fill in ``<statement>.sql``; `jinja2.UndefinedError` names a value that is missing."""
        return self._environment.get_template(f"{statement}.sql").render(**values).strip()


def _build_project_filter(projects: Mapping[str, str]) -> Callable[[str], str]:
    def name(table: str) -> str:
        catalog, dot, rest = table.partition(".")
        project = googlesql.quote(projects.get(catalog, catalog))
        return f"{project}.{googlesql.quote_name(rest)}" if dot else project

    return name
