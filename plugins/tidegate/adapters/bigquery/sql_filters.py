"""The filters of the statements that BigQuery runs."""

from collections.abc import Callable
from typing import Any

from tidegate.adapters.bigquery import schema, types
from tidegate.sql import googlesql

FILTERS: dict[str, Callable[..., Any]] = {
    "quoted": googlesql.quote,
    "name": googlesql.quote_name,
    "text": googlesql.render_literal,
    "note": schema.render_note,
    "type": types.to_bigquery_type,
    "cast_type": types.to_cast_type,
    "column_type": types.to_column_type,
    "time_as": types.render_time_as,
    "from_key": types.render_from_key,
    "from_value": types.render_from_value,
    "comparable": types.render_comparable,
    "partition": schema.render_partition_clause,
    "partition_unit": schema.get_partition_unit,
    "options": schema.render_table_options,
}
