"""debezium-avro: change events whose envelope is an Avro record."""

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from tidegate.formats.registry import SOURCE_TYPES
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.avro import Names, collect_named_types, is_record, list_branches, resolve_name
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.avro import render_timestamp
from tidegate_spark.formats.avro import (
    AvroFields,
    decode_fields,
    decode_record,
    get_field_schemas,
    render_undecodable_cases,
    render_values,
)
from tidegate_spark.formats.change_events.debezium_json import (
    IS_TRUNCATE,
    KEY_PRESENCE,
    render_change,
    render_old_key,
    render_unknown_event_cases,
)
from tidegate_spark.formats.decoded import DecodedValue, render_is_unkept
from tidegate_spark.formats.json import list_key_fields, list_truncated_names


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    options = table.value.options
    schema = json.loads(options["reader"])
    decoded = decode_record(records, "value", options, "a").selectExpr("*", "a.op AS event_op")
    changes = decoded.selectExpr(
        "*",
        f"{render_change(table)} AS change",
        f"CASE WHEN value IS NULL THEN NULL {render_undecodable_cases('value', 'a', options)} "
        f"{render_unknown_event_cases('a.after', table)} END AS located_reason",
        "coalesce(a.after, a.before) AS kv",
    )
    names = collect_named_types(schema)
    envelope = get_field_schemas(schema)
    source_fields = _find_source_fields(envelope, names)
    metadata = _render_metadata(envelope, source_fields)
    parts = [envelope[name] for name in ("after", "before")]
    rows = [resolve_name(branch, names) for part in parts for branch in reversed(list_branches(part))]
    row_fields = get_field_schemas(next(node for node in rows if is_record(node)))
    fields = AvroFields(row_fields, names, list_truncated_names(table))
    located_rows = decode_fields(changes, table, ("a.after", "kv"), fields)
    return replace(
        located_rows,
        previous_key=_render_old_key_of_row(table, fields),
        key_presence=KEY_PRESENCE,
        truncate_condition=IS_TRUNCATE if table.value.applies_truncates else None,
        metadata=metadata,
        lossy_metadata=_render_unkept(envelope, source_fields, metadata),
        is_tombstone="value IS NULL",
        columns_before=render_values("a.before", table.value_columns, fields),
    )


def _render_old_key_of_row(table: StageTable, fields: AvroFields) -> str | None:
    # a row of the key alone has NULL in its other fields, so NULL there says nothing
    keys = list_key_fields(table).columns
    if not keys or any(column.name not in fields.by_name for column in keys):
        return None
    old = render_values("a.before", keys, fields)
    new = render_values("a.after", keys, fields)
    return render_old_key([(c.name, old[c.name], new[c.name], "false") for c in keys], "a.before", table)


def _render_unkept(envelope: dict[str, Any], source_fields: dict[str, str], metadata: dict[str, str]) -> dict[str, str]:
    words = {"source.timestamp": (source_fields.get("ts_ms"), "TIMESTAMP")}
    words |= {f"source.{name}": (source_fields.get(name), kind) for name, kind in SOURCE_TYPES.items()}
    if "ts_ms" in envelope:
        words["ingestion-timestamp"] = ("a.ts_ms", "TIMESTAMP")
    return {
        word: render_is_unkept(f"CAST({sql} AS STRING)", metadata[word], kind)
        for word, (sql, kind) in words.items()
        if sql is not None
    }


def _find_source_fields(envelope: dict[str, Any], names: Names) -> dict[str, str]:
    sources = [resolve_name(branch, names) for branch in list_branches(envelope.get("source", []))]
    inner = {name for node in sources if is_record(node) for name in get_field_schemas(node)}
    return {name: f"a.source.{quote(name)}" for name in inner}


def _render_metadata(envelope: dict[str, Any], source_fields: dict[str, str]) -> dict[str, str]:
    tables = [source_fields[name] for name in ("table", "collection") if name in source_fields]
    pairs = ", ".join(f"{render_literal(name)}, CAST({sql} AS STRING)" for name, sql in sorted(source_fields.items()))
    properties = f"CASE WHEN a.source IS NOT NULL THEN map_filter(map({pairs}), (k, v) -> v IS NOT NULL) END"
    no_time = "CAST(NULL AS BIGINT)"
    no_text = "CAST(NULL AS STRING)"
    return {
        "ingestion-timestamp": render_timestamp("a.ts_ms" if "ts_ms" in envelope else no_time, "millis", "TIMESTAMP"),
        "source.timestamp": render_timestamp(source_fields.get("ts_ms", no_time), "millis", "TIMESTAMP"),
        "source.database": source_fields.get("db", no_text),
        "source.schema": source_fields.get("schema", no_text),
        "source.table": f"coalesce({', '.join([*tables, no_text])})",
        "source.properties": properties if source_fields else "CAST(NULL AS MAP<STRING, STRING>)",
        "op": "event_op",
        **{
            f"source.{n}": f"try_cast(CAST({source_fields.get(n, no_text)} AS STRING) AS {k})"
            for n, k in SOURCE_TYPES.items()
        },
    }
