"""json in its usual spelling: read by short expressions. A record that may be spelled otherwise is told, not judged."""

from pyspark.sql import DataFrame
from tidegate.formats.registry import get_format
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Primitive, parse_type
from tidegate.sql.spark import quote

from tidegate_spark.fields.conditions import render_any
from tidegate_spark.fields.json.inner_parts import render_inner_doubt
from tidegate_spark.fields.json.keys import PLAIN_KEY_COLUMN, render_plain_key
from tidegate_spark.fields.json.objects import (
    CORRUPT_COLUMN,
    Fields,
    render_from_json,
    render_is_not_object,
    render_object,
)
from tidegate_spark.fields.json.reasons import render_takes_own_spelling
from tidegate_spark.formats.decoded import DELETE, ROW, UPSERT, DecodedKey, DecodedValue, render_null_fields
from tidegate_spark.formats.json import get_reading_rules, list_key_fields, list_known_fields, list_unknown_fields

UNUSUAL = "unusual"  # in place of a reason: the record is to be decoded by its format itself
PLAIN_TYPES = ("BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP")


def can_read_plainly(table: StageTable) -> bool:
    """Whether values are JSON objects of flat columns, and keys, if they are read, one value of a plain type."""
    formats = (table.key, table.value)
    return (
        all(get_format(format_name.format).has_plain_pass and not format_name.options for format_name in formats)
        and not table.key.from_value
        and not table.value.adds_columns
        and bool(table.value_columns)
        and (not table.key_columns or render_plain_key(list_key_fields(table).columns, "key_text") is not None)
        and all(
            isinstance(kind, Primitive) and (kind.name in PLAIN_TYPES or kind.decimal is not None)
            for kind in (parse_type(column.type) for column in table.value_columns)
        )
    )


def decode_plain_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """Decode the rows that the format would find, with `UNUSUAL` as the reason of all other records."""
    fields = Fields(table.value_columns, get_reading_rules(table))
    keys = list_key_fields(table).columns
    plain_key = [f"{render_plain_key(keys, 'key_text')} AS {PLAIN_KEY_COLUMN}"] if keys else []
    parsed_records = records.selectExpr(
        "*", *plain_key, f"{render_from_json('value_text', fields.inner)} AS j"
    ).selectExpr("*", f"{render_object('j')} AS row")
    doubts = [
        "NOT is_valid_utf8(value_text)",
        render_is_not_object("value_text"),
        "row IS NULL",
        f"j.{CORRUPT_COLUMN} IS NOT NULL",
        fields.render_is_reprinted("row", is_flat=True),
        render_inner_doubt("row", fields),
        f"({fields.render_is_empty('row')})",
        render_takes_own_spelling(fields, list_known_fields(table), "row"),
    ]
    changes = parsed_records.selectExpr(
        "*",
        f"CASE WHEN value_text IS NULL THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        f"CASE WHEN value_text IS NOT NULL AND ({render_any(doubts)}) THEN '{UNUSUAL}' END AS located_reason",
        *list_unknown_fields(table, "row", list_known_fields(table), [()]),
    )
    row_doubts = [fields.render_is_lossy("row", column, ROW) for column in fields.columns]
    row_doubts += [fields.render_is_null("row", column) for column in fields.columns if not column.nullable]
    return DecodedValue(
        records=changes,
        columns=fields.render_values("row"),
        reason=f"CASE WHEN {render_any(row_doubts) or 'false'} THEN '{UNUSUAL}' END",
        key=f"struct({render_null_fields(keys)})",
        key_reason=f"'{UNUSUAL}'",
        key_presence="true",
    )


def decode_plain_key(records: DataFrame, table: StageTable) -> DecodedKey:
    name = quote(list_key_fields(table).columns[0].name)
    reason = f"CASE WHEN {PLAIN_KEY_COLUMN} IS NULL THEN '{UNUSUAL}' END"
    return DecodedKey(records, f"struct({PLAIN_KEY_COLUMN} AS {name})", reason)
