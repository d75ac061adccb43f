"""Pipelines and tables as a test asks for them."""

from typing import Any

from tidegate.schema.data_types import Column
from tidegate.schema.inferred_types import Infer
from tidegate.spec.pipeline import Merge, Pipeline
from tidegate.spec.source import KeyFormat, Source, ValueFormat
from tidegate.spec.table import Table


def build_table(name: str = "lake.shop.orders", mode: str = "upsert_delete", **settings: Any) -> Table:
    """A destination with key `id` and a value of `id, name`, unless told otherwise."""
    upsert, delete = mode in ("upsert", "upsert_delete"), mode in ("delete", "upsert_delete")
    keys = settings.pop("keys", ("id",))
    columns = settings.pop("columns", (*(Column(k, "STRING") for k in keys), Column("name", "STRING")))
    key = KeyFormat(fields=tuple(keys), prefix=settings.pop("prefix", ""), columns=settings.pop("key_columns", None))
    unavailable = settings.pop("unavailable", None)
    fields_include, options = settings.pop("fields_include", "ALL"), settings.pop("options", {})
    value = ValueFormat(
        columns=columns, fields_include=fields_include, unavailable=unavailable, options=options,
        unknown_fields=settings.pop("unknown_fields", "warn"), infer=settings.pop("infer", Infer()),
    )  # fmt: skip
    return Table(name, settings.pop("topics", ("orders",)), key, value, upsert, delete, **settings)


def build_pipeline(*tables: Table, name: str = "shop", **settings: Any) -> Pipeline:
    """A pipeline over these tables; `source` and everything else of `Pipeline` may be given by name."""
    tables = tables or (build_table(),)
    topics = tuple(dict.fromkeys(topic for table in tables for topic in table.topics))
    source_settings = {"kafka": "kafka_default", "topics": topics, "topic_pattern": None, "group": f"tidegate-{name}"}
    source = Source(**{**source_settings, **settings.pop("source", {})})
    merge = Merge(max_records=settings.pop("max_records", 1_000_000))
    return Pipeline(name, source, tables, merge=merge, **settings)
