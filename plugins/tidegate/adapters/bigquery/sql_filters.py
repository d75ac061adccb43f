"""The filters of the statements that BigQuery runs."""

from collections.abc import Callable
from typing import Any

from tidegate.adapters.bigquery.schema import (
    get_partition_unit,
    render_note,
    render_partition_clause,
    render_table_options,
)
from tidegate.adapters.bigquery.types import (
    render_comparable,
    render_from_key,
    render_from_value,
    render_time_as,
    to_bigquery_type,
    to_cast_type,
    to_column_type,
)
from tidegate.sql import googlesql

FILTERS: dict[str, Callable[..., Any]] = {
    "quoted": googlesql.quote,
    "name": googlesql.quote_name,
    "text": googlesql.render_literal,
    "note": render_note,
    "type": to_bigquery_type,
    "cast_type": to_cast_type,
    "column_type": to_column_type,
    "time_as": render_time_as,
    "from_key": render_from_key,
    "from_value": render_from_value,
    "comparable": render_comparable,
    "partition": render_partition_clause,
    "partition_unit": get_partition_unit,
    "options": render_table_options,
}
