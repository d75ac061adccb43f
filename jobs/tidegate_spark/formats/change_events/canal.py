"""canal-json: several rows per message, every value as text; changes of a schema are ignored."""

from dataclasses import replace

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column, DataType, Primitive
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.avro import render_timestamp
from tidegate_spark.fields.json.objects import (
    Fields,
    ReadingRules,
    render_exact_from_json,
    render_from_json,
    render_object,
)
from tidegate_spark.fields.json.reasons import render_unreadable_cases
from tidegate_spark.fields.json.text import NON_FINITE_PATTERN, render_part
from tidegate_spark.fields.lossless import render_is_changed
from tidegate_spark.fields.text import render_conversion, render_is_lossy
from tidegate_spark.formats.change_events.row_messages import (
    MessageShape,
    decode_row_messages,
    render_lacking_cases,
    render_metadata_fields,
)
from tidegate_spark.formats.decoded import DecodedValue, render_is_unkept, render_truncate_reason
from tidegate_spark.formats.json import list_key_fields, list_known_columns, list_truncated_names, list_unknown_fields

OPERATION = "CASE e.type WHEN 'INSERT' THEN 'c' WHEN 'UPDATE' THEN 'u' WHEN 'DELETE' THEN 'd' END"
# a statement whose rows follow (MySQL: binlog_rows_query_log_events); the end of a transaction; TiCDC's word on time
ROWLESS_TYPES = ("QUERY", "XACOMMIT", "TIDB_WATERMARK")
# With GTIDs Canal makes a message of each one, of no table and under the type that stands for none (UPDATE, mostly).
# Whatever else such a message may tell of, an XA transaction that was rolled back is none of it.
IS_OF_NO_TABLE = "(e.table = '' AND e.type <> 'XAROLLBACK')"
METADATA = {
    "database": "e.database",
    "table": "e.table",
    "sql-type": "e.sqlType",
    "pk-names": "e.pkNames",
    "ingestion-timestamp": render_timestamp("e.ts", "millis", "TIMESTAMP"),
    "event-timestamp": render_timestamp("e.es", "millis", "TIMESTAMP"),
}
# a number with a fraction is no BIGINT, and nothing stands in the message that was read then
UNKEPT = {
    word: render_is_unkept(
        f"coalesce(CAST(e.{name} AS STRING), {render_part('value_text', f'$.{name}')})", METADATA[word]
    )
    for word, name in (("ingestion-timestamp", "ts"), ("event-timestamp", "es"))
}
ROW_TEXT = render_part("value_text", "$.data[0]")  # all rows of a message have the same columns
OLD_ROWS = render_part("value_text", "$.old")
ROW_NAMES = (
    f"transform(from_json({render_part('value_text', '$.data')}, 'ARRAY<MAP<STRING, STRING>>'), "
    "d -> array_sort(map_keys(d)))"
)
ROWS_DIFFER = f"size(datas) > 1 AND coalesce(size(array_distinct({ROW_NAMES})) > 1, true)"
# a number with a point, an exponent, or a sign before zero, or a word for one, that stands in no quotes
BARE_NUMBER_PATTERN = (
    r"[:,\[\s](?:-0|-?[0-9]++(?:[.][0-9]++(?:[eE][+-]?[0-9]++)?|[eE][+-]?[0-9]++)"
    rf"|{NON_FINITE_PATTERN})[\s,\]}}]"
)
IS_TRUNCATE = "coalesce(e.type = 'TRUNCATE', false)"
LATIN = r"\A[\x00-\xff]*\z"
METADATA_FIELDS = {
    "database": "database: STRING",
    "sql-type": "sqlType: MAP<STRING, INT>",
    "pk-names": "pkNames: ARRAY<STRING>",
    "ingestion-timestamp": "ts: BIGINT",
    "event-timestamp": "es: BIGINT",
}


class TextFields(Fields):
    """`Fields` whose values all are text."""

    def get_type(self, column: Column) -> DataType:
        return Primitive("STRING")

    @property
    def inner(self) -> str:
        return ", ".join(f"{quote(column.name)}: STRING" for column in self.columns)

    def render_values(self, struct: str) -> dict[str, str]:
        return {c.name: _render_converted(f"{struct}.{quote(c.name)}", c) for c in self.columns}

    def render_is_lossy(self, struct: str, column: Column, conversion: str | None = None) -> str | None:
        text = f"{struct}.{quote(column.name)}"
        changed_text = f"({text} IS NOT NULL AND ({render_is_changed(text, 'STRING', self.text)}))"
        if _is_bytes(column):
            return f"({text} IS NOT NULL AND NOT {text} RLIKE {render_literal(LATIN)} OR {changed_text})"
        if column.type.upper() == "STRING":
            return changed_text
        truncates = column.name.casefold() in self.rules.truncated
        return render_is_lossy(text, column.type, truncates=truncates)

    def render_is_null(self, struct: str, column: Column) -> str:
        return f"{struct}.{quote(column.name)} IS NULL"


def _is_bytes(column: Column) -> bool:
    return column.type.upper() == "BINARY"


def _render_converted(text: str, column: Column) -> str:
    # Canal writes each byte as its character of ISO-8859-1
    latin = f"CASE WHEN {text} RLIKE {render_literal(LATIN)} THEN encode({text}, 'ISO-8859-1') END"
    return latin if _is_bytes(column) else render_conversion(text, column.type)


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    rules = ReadingRules(truncated=list_truncated_names(table))
    fields = TextFields(list_known_columns(table), rules)
    keys = TextFields(list_key_fields(table).columns)
    old = f", old: ARRAY<{keys.text_struct}>" if keys.columns else ""
    shape = MessageShape(fields, keys, text=ROW_TEXT, row="get(datas, 0)", places=(), old_rows=OLD_ROWS)
    metadata = render_metadata_fields(METADATA_FIELDS, table)
    inside = f"type: STRING, isDdl: BOOLEAN, data: ARRAY<{fields.text_struct}>{old}, table: STRING{metadata}"
    # Canal itself writes no number that Spark prints anew
    has_number = f"value_text RLIKE {render_literal(BARE_NUMBER_PATTERN)}"
    exact = render_exact_from_json("value_text", inside)
    message = f"CASE WHEN {has_number} THEN {exact} ELSE {render_from_json('value_text', inside)} END"
    parsed_records = records.selectExpr("*", f"{message} AS j")
    events = parsed_records.selectExpr("*", f"{render_object('j')} AS e")
    rowless = f"(e.type IN ({', '.join(map(render_literal, ROWLESS_TYPES))}) OR {IS_OF_NO_TABLE})"
    read = events.selectExpr(
        "*",
        f"CASE WHEN NOT coalesce(e.isDdl, false) THEN {OPERATION} END AS event_op",
        "e.data AS datas",
        *(["e.old AS olds"] if old else []),
    ).selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN NULL {render_unreadable_cases('j', render_literal('data'))} "
        f"WHEN {IS_TRUNCATE} THEN {render_truncate_reason(table)} "
        f"WHEN e.isDdl OR {rowless} AND coalesce(size(datas), 0) < 1 THEN NULL "
        "WHEN event_op IS NULL THEN concat('the message has an unknown type=', coalesce(e.type, 'none')) "
        "WHEN coalesce(size(datas), 0) < 1 THEN concat('the message has no data: type=', e.type) "
        "WHEN exists(datas, d -> d IS NULL) THEN concat('the message has null in place of a row: type=', e.type) "
        f"WHEN {ROWS_DIFFER} THEN concat('the rows of the message do not have the same columns: type=', e.type) "
        f"{render_lacking_cases(table, shape)} END AS own_reason",
        *list_unknown_fields(table, "datas", fields, [("data",)], is_list=True),
    )
    return replace(
        decode_row_messages(read, table, shape, METADATA, IS_TRUNCATE),
        lossy_metadata=UNKEPT,
        concerns_all="coalesce(e.type = 'XAROLLBACK', false)",
    )
