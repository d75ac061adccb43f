"""debezium-avro: change events whose envelope is an Avro record."""

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.avro import branches, is_record, named_types, resolved
from tidegate.spec.record_metadata import SOURCE
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.avro import timestamp
from tidegate_spark.formats.avro import AvroFields, decode_record, field_nodes, found_fields, undecodable, values_of
from tidegate_spark.formats.change_events.debezium_json import KEY_THERE, change, moved_key, not_understood
from tidegate_spark.formats.decoded import FoundValue
from tidegate_spark.formats.json import key_fields


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """`op` decides what a record is; a tombstone is a delete."""
    options = table.value.options
    schema = json.loads(options["reader"])
    decoded = decode_record(records, "value", options, "a").selectExpr("*", "a.op AS event_op")
    found = decoded.selectExpr(
        "*",
        f"{change(table)} AS change",
        f"CASE WHEN value IS NULL THEN NULL {undecodable('value', 'a', options)} "
        f"{not_understood('a.after', table)} END AS located_reason",
        "coalesce(a.after, a.before) AS kv",
    )
    fields = AvroFields(_row_fields(schema), named_types(schema))
    located_rows = found_fields(found, table, ("a.after", "kv"), fields)
    return replace(
        located_rows,
        moved=_moved(table, fields),
        key_there=KEY_THERE,
        metadata=_metadata(schema),
        before=values_of("a.before", table.value_columns, fields),
    )


def _moved(table: StageTable, fields: AvroFields) -> str | None:
    """The key in `before`, where a record whose key is taken from the value changes a field of it.

    A row of the key alone has NULL in its other fields, so NULL there says nothing.
    """
    keys = key_fields(table).columns
    if not keys or any(column.name not in fields.by_name for column in keys):
        return None
    old, new = values_of("a.before", keys, fields), values_of("a.after", keys, fields)
    return moved_key([(c.name, old[c.name], new[c.name], "false") for c in keys], "a.before", table)


def _metadata(schema: dict[str, Any]) -> dict[str, str]:
    """What the event tells about itself, as far as its schema has the fields."""
    names, fields = named_types(schema), field_nodes(schema)
    sources = [resolved(branch, names) for branch in branches(fields.get("source", []))]
    inner = {name for node in sources if is_record(node) for name in field_nodes(node)}
    there = {name: f"a.source.{quoted(name)}" for name in inner}
    tables = [there[name] for name in ("table", "collection") if name in there]
    pairs = ", ".join(f"{literal(name)}, CAST({sql} AS STRING)" for name, sql in sorted(there.items()))
    properties = f"CASE WHEN a.source IS NOT NULL THEN map_filter(map({pairs}), (k, v) -> v IS NOT NULL) END"
    no_time, no_text = "CAST(NULL AS BIGINT)", "CAST(NULL AS STRING)"
    return {
        "ingestion-timestamp": timestamp("a.ts_ms" if "ts_ms" in fields else no_time, "millis", "TIMESTAMP"),
        "source.timestamp": timestamp(there.get("ts_ms", no_time), "millis", "TIMESTAMP"),
        "source.database": there.get("db", no_text),
        "source.schema": there.get("schema", no_text),
        "source.table": f"coalesce({', '.join([*tables, no_text])})",
        "source.properties": properties if there else "CAST(NULL AS MAP<STRING, STRING>)",
        "op": "event_op",
        **{f"source.{n}": f"try_cast(CAST({there.get(n, no_text)} AS STRING) AS {k})" for n, k in SOURCE.items()},
    }


def _row_fields(schema: dict[str, Any]) -> dict[str, Any]:
    names, fields = named_types(schema), field_nodes(schema)
    rows = [resolved(branch, names) for part in ("before", "after") for branch in branches(fields[part])]
    return field_nodes(next(node for node in reversed(rows) if is_record(node)))
