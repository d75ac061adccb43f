"""Debezium's events of MongoDB: rows and keys are texts of extended JSON, and are read as what they hold."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import render_literal

from tidegate_spark.fields.json.extended import render_is_one_value, render_plain_json
from tidegate_spark.fields.json.objects import render_is_not_object
from tidegate_spark.fields.json.text import render_once

ROW_FIELDS = ("before", "after")
TEXT_ROW_PATTERN = r'"(?:before|after)"\s*+:\s*+"'
KEY_FIELD = "id"  # of the one field that a key has
EVENT_DDL = "op STRING, ts_ms BIGINT, source MAP<STRING, STRING>, before VARIANT, after VARIANT"


def unwrap_documents(records: DataFrame, table: StageTable) -> DataFrame:
    """Put the rows that are texts into `value_text` as objects; other events stay as they are.

    An event with a text that is no object stays too, and does not fit any columns.
    """
    body = "coalesce(get_json_object(value_text, '$.payload'), value_text)"
    schema = """'"schema":', coalesce(get_json_object(value_text, '$.schema'), 'null'), ',', """
    schema_field = schema if "value.schema" in table.metadata.values() else ""
    rows = ", ".join(f"""'"{row}":', {_render_document(f"b.{row}")}, ','""" for row in ROW_FIELDS)
    metadata_json = (
        "to_json(struct(b.op AS op, b.ts_ms AS ts_ms, b.source AS source), map('ignoreNullFields', 'false'))"
    )
    event_json = f"concat('{{', {schema_field}{rows}, substring({metadata_json}, 2))"
    event = render_once(
        f"from_json({body}, {render_literal(EVENT_DDL)})", f"CASE WHEN {_render_has_text('b')} THEN {event_json} END"
    )
    text = (
        f"CASE WHEN value_text RLIKE {render_literal(TEXT_ROW_PATTERN)} THEN coalesce({event}, value_text) "
        f"ELSE value_text END"
    )
    return records.withColumn("value_text", F.expr(text))


def render_has_text_row() -> str:
    """A condition: a row of the event is a text; only to be asked of events that fit no columns."""
    paths = [f"$.{path}{row}" for path in ("", "payload.") for row in ROW_FIELDS]
    rows = (f"try_variant_get(try_parse_json(value_text), '{path}', 'VARIANT')" for path in paths)
    return f"({' OR '.join(map(_render_is_text, rows))})"


def render_document_key(table: StageTable) -> str:
    """SQL: the key's text with its one field as plain JSON; it may be called `_id`, as in the row, too."""
    fields = table.key.fields
    name = render_literal(f'{{"{"_id" if fields == ("_id",) else KEY_FIELD}":')
    body = "coalesce(get_json_object(key_text, '$.payload'), key_text)"
    inside = f"CASE WHEN {_render_is_text('b.id')} THEN try_variant_get(b.id, '$', 'STRING') END"
    text = render_once(f"from_json({body}, 'id VARIANT')", inside)
    key_json = f"CASE WHEN {render_is_one_value('b')} THEN concat({name}, {render_plain_json('b')}, '}}') ELSE '{{' END"
    return render_once(text, f"CASE WHEN b IS NULL THEN {render_plain_json('key_text')} ELSE {key_json} END")


def _render_has_text(event: str) -> str:
    return " OR ".join(_render_is_text(f"{event}.{row}") for row in ROW_FIELDS)


def _render_is_text(variant: str) -> str:
    return f"coalesce(schema_of_variant({variant}) = 'STRING', false)"


def _render_document(variant: str) -> str:
    """The row as an object's text; NULL where it is a text of something else."""
    text = f"try_variant_get({variant}, '$', 'STRING')"
    whole = render_once(
        text,
        f"CASE WHEN NOT ({render_is_not_object('b')}) AND {render_is_one_value('b')} THEN {render_plain_json('b')} END",
    )
    return f"CASE WHEN {_render_is_text(variant)} THEN {whole} ELSE coalesce(to_json({variant}), 'null') END"
