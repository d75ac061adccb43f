"""Which module reads which format: the words of the pipeline file."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from tidegate.jobs import StageTable

from tidegate_spark.formats import avro, canal, csv, debezium, debezium_avro, maxwell, objects, protobuf, text
from tidegate_spark.formats.found import FoundKey, FoundValue

KEYS: dict[str, Callable[[DataFrame, StageTable], FoundKey]] = {
    "json": objects.read,
    "avro": avro.read,
    "protobuf": protobuf.read,
    "string": text.read,
    "raw": text.read_raw,
    "csv": csv.read,
}
VALUES: dict[str, Callable[[DataFrame, StageTable], FoundValue]] = {
    "json": objects.located,
    "avro": avro.located,
    "protobuf": protobuf.located,
    "debezium-avro": debezium_avro.located,
    "string": text.located,
    "raw": text.located_raw,
    "csv": csv.located,
    "debezium-json": debezium.located,
    "canal-json": canal.located,
    "maxwell-json": maxwell.located,
}


def key_format(table: StageTable) -> Callable[[DataFrame, StageTable], FoundKey]:
    """The function that reads the table's keys."""
    return KEYS[table.key.format]


def value_format(table: StageTable) -> Callable[[DataFrame, StageTable], FoundValue]:
    """The function that locates the rows in the table's values."""
    return VALUES[table.value.format]
