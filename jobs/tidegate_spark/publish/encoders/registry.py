"""Which module writes which format: the one that the format's description names."""

from importlib import import_module

from pyspark.sql import Column, SparkSession
from tidegate.formats.registry import get_format

from tidegate_spark.publish.encoders.record_part import RecordPart

ENCODERS_PACKAGE = "tidegate_spark.publish.encoders"


def encode_part(spark: SparkSession, part: RecordPart) -> Column:
    """The key or value in bytes, NULL for no row.

    A schema that a registry has to know is registered here, on the driver; a second call finds it there. Errors:
    ConfigurationError for columns that the format cannot hold, GiveUp where the registry refuses the schema.
    """
    module = import_module(f"{ENCODERS_PACKAGE}.{get_format(part.format).encoder}")
    encoded: Column = module.encode(spark, part)
    return encoded
