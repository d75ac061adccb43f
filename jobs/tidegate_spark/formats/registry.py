"""Which module reads which format: the words of the pipeline file."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.spec.formats import SEVERAL_ROWS

from tidegate_spark.formats import avro, csv, json, protobuf, raw, text
from tidegate_spark.formats.change_events import canal, debezium_avro, debezium_json, maxwell, ogg
from tidegate_spark.formats.decoded import FoundKey, FoundValue

KEYS: dict[str, Callable[[DataFrame, StageTable], FoundKey]] = {
    "json": json.read,
    "avro": avro.read,
    "protobuf": protobuf.read,
    "string": text.read,
    "raw": raw.read,
    "csv": csv.read,
}
VALUES: dict[str, Callable[[DataFrame, StageTable], FoundValue]] = {
    "json": json.located,
    "avro": avro.located,
    "protobuf": protobuf.located,
    "debezium-avro": debezium_avro.located,
    "string": text.located,
    "raw": raw.located,
    "csv": csv.located,
    "debezium-json": debezium_json.located,
    "canal-json": canal.located,
    "maxwell-json": maxwell.located,
    "ogg-json": ogg.located,
}


def with_key_object(records: DataFrame, table: StageTable) -> DataFrame:
    """Parse the key before the value is, where that saves a copy of each record; its format reads it from there."""
    is_read = bool(table.key_columns) and not table.key.from_value and table.value.format not in SEVERAL_ROWS
    if table.key.format != "json" or not is_read:
        return records
    return json.with_key_object(records, table)


def key_format(table: StageTable) -> Callable[[DataFrame, StageTable], FoundKey]:
    """The function that reads the table's keys."""
    return KEYS[table.key.format]


def value_format(table: StageTable) -> Callable[[DataFrame, StageTable], FoundValue]:
    """The function that locates the rows in the table's values."""
    return VALUES[table.value.format]
