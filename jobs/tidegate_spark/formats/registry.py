"""Which module reads which format: the one that the format's description names."""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from pyspark.sql import DataFrame
from tidegate.formats.registry import get_format
from tidegate.jobs.stage_job import StageTable

from tidegate_spark.formats.decoded import DecodedKey, DecodedValue

FORMATS_PACKAGE = "tidegate_spark.formats"
DecodeKey = Callable[[DataFrame, StageTable], DecodedKey]
DecodeValue = Callable[[DataFrame, StageTable], DecodedValue]


def add_key_object(records: DataFrame, table: StageTable) -> DataFrame:
    """Parse the key before the value, if that saves a copy of each record; its format reads it from there."""
    is_read = bool(table.key_columns) and not table.key.from_value
    if not is_read or get_format(table.value.format).holds_several_rows:
        return records
    parse: Callable[[DataFrame, StageTable], DataFrame] | None
    parse = getattr(find_decoder(table.key.format), "add_key_object", None)
    return records if parse is None else parse(records, table)


def get_key_decoder(table: StageTable) -> DecodeKey:
    decode: DecodeKey = find_decoder(table.key.format).decode_key
    return decode


def get_value_decoder(table: StageTable) -> DecodeValue:
    decode: DecodeValue = find_decoder(table.value.format).decode_value
    return decode


def find_decoder(name: str) -> ModuleType:
    return import_module(f"{FORMATS_PACKAGE}.{get_format(name).module}")
