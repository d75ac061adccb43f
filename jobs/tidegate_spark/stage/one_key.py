"""The records of one key: its rows, and beside them those of its records that make none, with the reason.

Keys are decoded first where they have bytes of their own, so that values of other keys are read and not decoded.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.formats.registry import get_format
from tidegate.jobs.stage_job import StageTable
from tidegate.model.offsets import Ranges
from tidegate.sql.spark import quote

from tidegate_spark.fields.json.keys import PLAIN_KEY_COLUMN, render_plain_key
from tidegate_spark.formats.decoded import DecodedKey, add_key_object, get_key_decoder, get_value_decoder
from tidegate_spark.formats.json import list_key_fields
from tidegate_spark.formats.plain_json import decode_plain_key
from tidegate_spark.formats.wire_format import normalize_wire_format
from tidegate_spark.stage.key import keep_every_record
from tidegate_spark.stage.record_pass import PassCounts, add_texts, count_unusual, decode, list_aggregates, render_key

SENT_KEY = "sent_key"  # the key's bytes, while `key` is the decoded one
# a record that makes no row has in `bad` the stage key, value, filtered or ignored, and the reason
ROWLESS_CONDITION = "NOT (fate = 'staged')"
ROWLESS_STRUCT = (
    "named_struct('key', CAST(NULL AS BINARY), 'value', CAST(NULL AS BINARY), 'headers', slice(headers, 1, 0), "
    "'stage', CASE WHEN fate IN ('filtered', 'ignored') THEN fate ELSE failed_stage END, 'class', fate, "
    "'message', reason)"
)


class KeyCounts:
    """The counts of a pass over one key's records; records of other keys count as filtered."""

    def __init__(self) -> None:
        self.all, self.read_ones, self.own = PassCounts(), PassCounts(), PassCounts()

    def read(self, written_rows: DataFrame) -> dict[str, Any]:
        """Return the counts, after `written_rows` were written; empty if the server lost them."""
        every, read_ones, own = (part.read(written_rows) for part in (self.all, self.read_ones, self.own))
        if not every or not read_ones or not own:
            return {}
        others = every["read"] - own["read"]
        return {**read_ones, **own, "read": every["read"], "filtered": own["filtered"] + others}


def build_key_pass(
    ranges: Ranges, table: StageTable, records: DataFrame, *, is_plain: bool
) -> tuple[KeyCounts, DataFrame]:
    """Return the records of the key, and those whose key cannot be read, and the counts; as `build_pass` does."""
    counts = KeyCounts()
    texts = add_texts(keep_every_record(records))
    candidates = _leave_other_keys(counts, texts, table, is_plain=is_plain)
    # Spark pushes no condition through an observation, and would not end to plan one inside of the decoding
    decoded = counts.read_ones.observe(decode(candidates, table, is_plain=is_plain), [count_unusual()])
    # the reason is that of the value alone, if it holds the key and cannot be read at all
    has_no_key = f"(key_reason IS NOT NULL OR ({_render_lacks_key(table)}))"
    is_unreadable = f"{has_no_key} AND fate IN ('bad', 'dead_lettered')"
    own_records = _mark_own(decoded, table).where(f"(key_reason IS NULL AND is_own) OR ({is_unreadable})")
    staged_by = F.expr(f"CASE WHEN {is_unreadable} THEN 'key' ELSE failed_stage END")
    return counts, counts.own.observe(own_records.withColumn("failed_stage", staged_by), list_aggregates(ranges, table))


def _render_lacks_key(table: StageTable) -> str:
    """Return the condition that no column of the key is known of a record whose key comes from its value."""
    names = (quote(column.name.removeprefix(table.key.prefix)) for column in table.key_columns)
    lacking = " AND ".join(f"key_struct.{name} IS NULL" for name in names)
    return lacking if _is_key_of_value(table) else f"key IS NULL AND {lacking}"


def _is_key_of_value(table: StageTable) -> bool:
    return table.key.from_value or get_format(table.value.format).holds_several_rows


def _leave_other_keys(counts: KeyCounts, records: DataFrame, table: StageTable, *, is_plain: bool) -> DataFrame:
    every = [F.expr("count(1)").alias("read")]
    if not _has_own_key(records, table):
        return counts.all.observe(records, every)
    key = _decode_key(records, table, is_plain=is_plain)
    keyed = key.records.selectExpr("*", f"{key.struct} AS key_struct", f"{key.reason} AS early_reason")
    marked = _mark_own(counts.all.observe(keyed, every), table)
    return marked.where("key IS NULL OR early_reason IS NOT NULL OR is_own").select(*records.columns)


def _has_own_key(records: DataFrame, table: StageTable) -> bool:
    """Whether the key's bytes alone tell which rows a record is for."""
    if _is_key_of_value(table):
        return False
    parsed_records = add_key_object(normalize_wire_format(records, table), table)
    # an event that changes the key also deletes the former one
    return get_value_decoder(table)(parsed_records, table).previous_key is None


def _decode_key(records: DataFrame, table: StageTable, *, is_plain: bool) -> DecodedKey:
    if not is_plain:
        return get_key_decoder(table)(add_key_object(normalize_wire_format(records, table), table), table)
    keys = list_key_fields(table).columns
    plain_key = f"{render_plain_key(keys, 'key_text')} AS {PLAIN_KEY_COLUMN}"
    return decode_plain_key(records.selectExpr("*", plain_key), table)


def _mark_own(records: DataFrame, table: StageTable) -> DataFrame:
    named_keys = records.withColumn(SENT_KEY, F.col("key")).withColumn("key", F.expr(render_key(table)))
    marked = named_keys.withColumn("is_own", F.expr(f"key IS NOT NULL AND ({table.of_key})"))
    return marked.withColumn("key", F.col(SENT_KEY)).drop(SENT_KEY)
