"""Pipeline files as tests write them: the smallest one, and pieces to put a mistake into."""

from pathlib import Path

import pytest
from tidegate.config.pipeline_file import load_pipeline
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Pipeline

CATALOGS = """
lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:////x/c.db', warehouse: 'file:///x'}}
dwh: {type: bigquery, project: p}
secretive: {type: iceberg, properties: {type: sql, uri: 'postgresql://u:geheim@h/db', warehouse: 'file:///x'}}
"""
MINIMAL = "source: {topics: [t]}\ntables: [{name: lake.shop.orders}]\n"


def load(include: Path, text: str, name: str = "orders.yaml") -> Pipeline:
    path = include / "pipelines" / name
    path.write_text(text)
    return load_pipeline(path)


def find_problems(include: Path, text: str, name: str = "orders.yaml") -> list[str]:
    with pytest.raises(ConfigurationError) as error_info:
        load(include, text, name)
    return [line.replace(f"{include}/", "") for line in error_info.value.problems]


def render_source(options: str = "", tables: str = "[{name: lake.shop.orders}]") -> str:
    return f"source: {{topics: [t]{', ' + options if options else ''}}}\ntables: {tables}\n"


def render_table(options: str) -> str:
    return render_source(tables=f"[{{name: lake.shop.orders, {options}}}]")
