"""The filters of the statements that Spark runs on Iceberg tables."""

from collections.abc import Callable
from typing import Any

from tidegate.merge.scd2_statements import render_spark_comparable
from tidegate.sql import spark

FILTERS: dict[str, Callable[..., Any]] = {
    "quoted": spark.quote,
    "name": spark.quote_name,
    "text": spark.render_literal,
    "comparable": render_spark_comparable,
}
