"""Pipelines and tables as a test asks for them."""

from typing import Any

from tidegate.schema.column import Column
from tidegate.spec.formats import KeyFormat, ValueFormat
from tidegate.spec.pipeline import Merge, Pipeline
from tidegate.spec.runtime import UseWhen
from tidegate.spec.source import Source
from tidegate.spec.table import Table


def build_table(name: str = "lake.shop.orders", mode: str = "upsert_delete", **given: Any) -> Table:
    """A destination with key `id` and a value of `id, name`, unless told otherwise."""
    upsert, delete = mode in ("upsert", "upsert_delete"), mode in ("delete", "upsert_delete")
    keys = given.pop("keys", ("id",))
    columns = given.pop("columns", (*(Column(k, "STRING") for k in keys), Column("name", "STRING")))
    key = KeyFormat(fields=tuple(keys), prefix=given.pop("prefix", ""))
    unavailable = given.pop("unavailable", None)
    included, options = given.pop("fields_include", "ALL"), given.pop("options", {})
    value = ValueFormat(columns=columns, fields_include=included, unavailable=unavailable, options=options)
    return Table(name, given.pop("topics", ("orders",)), key, value, upsert, delete, **given)


def build_pipeline(*tables: Table, name: str = "shop", **given: Any) -> Pipeline:
    """A pipeline over these tables; `source` and everything else of `Pipeline` may be given by name."""
    tables = tables or (build_table(),)
    topics = tuple(dict.fromkeys(topic for table in tables for topic in table.topics))
    asked = {"kafka": "kafka_default", "topics": topics, "topic_pattern": None, "group": f"tidegate-{name}"}
    source = Source(**{**asked, **given.pop("source", {})})
    direct = UseWhen.AUTO if given.pop("direct", False) else UseWhen.NEVER
    merge = Merge(max_records=given.pop("max_records", 1_000_000), direct=direct)
    return Pipeline(name, source, tables, merge=merge, **given)
