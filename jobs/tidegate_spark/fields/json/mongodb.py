"""Debezium's events of MongoDB: rows and keys are texts of extended JSON, and are read as what they hold."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import literal

from tidegate_spark.fields.json.extended import is_one_value, plain
from tidegate_spark.fields.json.objects import not_an_object
from tidegate_spark.fields.json.text import bound

ROWS = ("before", "after")
MAY_BE_TEXT = r'"(?:before|after)"\s*+:\s*+"'
NAME = "id"  # of the one field that a key has
EVENT = "op STRING, ts_ms BIGINT, source MAP<STRING, STRING>, before VARIANT, after VARIANT"


def with_documents(records: DataFrame, table: StageTable) -> DataFrame:
    """Put the rows that are texts into `value_text` as objects; other events stay as they are.

    An event with a text that is no object stays too, and does not fit any columns.
    """
    body = "coalesce(get_json_object(value_text, '$.payload'), value_text)"
    schema = """'"schema":', coalesce(get_json_object(value_text, '$.schema'), 'null'), ',', """
    kept = schema if "value.schema" in table.metadata.values() else ""
    rows = ", ".join(f"""'"{row}":', {_object(f"b.{row}")}, ','""" for row in ROWS)
    others = "to_json(struct(b.op AS op, b.ts_ms AS ts_ms, b.source AS source), map('ignoreNullFields', 'false'))"
    made = f"concat('{{', {kept}{rows}, substring({others}, 2))"
    event = bound(f"from_json({body}, {literal(EVENT)})", f"CASE WHEN {_has_text('b')} THEN {made} END")
    text = f"CASE WHEN value_text RLIKE {literal(MAY_BE_TEXT)} THEN coalesce({event}, value_text) ELSE value_text END"
    return records.withColumn("value_text", F.expr(text))


def has_text_row() -> str:
    """A condition: a row of the event is a text; only to be asked of events that fit no columns."""
    paths = [f"$.{path}{row}" for path in ("", "payload.") for row in ROWS]
    found = (f"try_variant_get(try_parse_json(value_text), '{path}', 'VARIANT')" for path in paths)
    return f"({' OR '.join(map(_is_text, found))})"


def document_key(table: StageTable) -> str:
    """SQL: the key's text with its one field as plain JSON; it may be called `_id`, as in the row, too."""
    fields = table.key.fields
    name = literal(f'{{"{"_id" if fields == ("_id",) else NAME}":')
    body = "coalesce(get_json_object(key_text, '$.payload'), key_text)"
    inside = f"CASE WHEN {_is_text('b.id')} THEN try_variant_get(b.id, '$', 'STRING') END"
    text = bound(f"from_json({body}, 'id VARIANT')", inside)
    made = f"CASE WHEN {is_one_value('b')} THEN concat({name}, {plain('b')}, '}}') ELSE '{{' END"
    return bound(text, f"CASE WHEN b IS NULL THEN {plain('key_text')} ELSE {made} END")


def _has_text(event: str) -> str:
    return " OR ".join(_is_text(f"{event}.{row}") for row in ROWS)


def _is_text(variant: str) -> str:
    return f"coalesce(schema_of_variant({variant}) = 'STRING', false)"


def _object(variant: str) -> str:
    """The row as an object's text; NULL where it is a text of something else."""
    text = f"try_variant_get({variant}, '$', 'STRING')"
    whole = bound(text, f"CASE WHEN NOT ({not_an_object('b')}) AND {is_one_value('b')} THEN {plain('b')} END")
    return f"CASE WHEN {_is_text(variant)} THEN {whole} ELSE coalesce(to_json({variant}), 'null') END"
