"""Which module reads which format: the words of the pipeline file."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.spec.formats import SEVERAL_ROWS

from tidegate_spark.formats import avro, csv, json, protobuf, raw, text
from tidegate_spark.formats.change_events import canal, debezium_avro, debezium_json, maxwell, ogg
from tidegate_spark.formats.decoded import DecodedKey, DecodedValue

KEY_DECODERS: dict[str, Callable[[DataFrame, StageTable], DecodedKey]] = {
    "json": json.decode_key,
    "avro": avro.decode_key,
    "protobuf": protobuf.decode_key,
    "string": text.decode_key,
    "raw": raw.decode_key,
    "csv": csv.decode_key,
}
VALUE_DECODERS: dict[str, Callable[[DataFrame, StageTable], DecodedValue]] = {
    "json": json.decode_value,
    "avro": avro.decode_value,
    "protobuf": protobuf.decode_value,
    "debezium-avro": debezium_avro.decode_value,
    "string": text.decode_value,
    "raw": raw.decode_value,
    "csv": csv.decode_value,
    "debezium-json": debezium_json.decode_value,
    "canal-json": canal.decode_value,
    "maxwell-json": maxwell.decode_value,
    "ogg-json": ogg.decode_value,
}


def add_key_object(records: DataFrame, table: StageTable) -> DataFrame:
    """Parse the key before the value is, where that saves a copy of each record; its format reads it from there."""
    is_read = bool(table.key_columns) and not table.key.from_value and table.value.format not in SEVERAL_ROWS
    if table.key.format != "json" or not is_read:
        return records
    return json.add_key_object(records, table)


def get_key_decoder(table: StageTable) -> Callable[[DataFrame, StageTable], DecodedKey]:
    """The function that reads the table's keys."""
    return KEY_DECODERS[table.key.format]


def get_value_decoder(table: StageTable) -> Callable[[DataFrame, StageTable], DecodedValue]:
    """The function that locates the rows in the table's values."""
    return VALUE_DECODERS[table.value.format]
