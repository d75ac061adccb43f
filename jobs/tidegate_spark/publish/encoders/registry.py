"""Which module writes which format: the one that the format's description names."""

from importlib import import_module
from types import ModuleType

from pyspark.sql import Column, SparkSession
from tidegate.formats.registry import get_format

from tidegate_spark.publish.encoders.record_part import RecordPart, list_text_problems, render_problem

ENCODERS_PACKAGE = "tidegate_spark.publish.encoders"


def encode_part(spark: SparkSession, part: RecordPart) -> Column:
    """The key or value in bytes, NULL for no row, and for one that `render_part_problem` names.

    A schema that a registry has to know is registered here, on the driver; a second call finds it there. Errors:
    ConfigurationError for columns that the format cannot hold, GiveUp where the registry refuses the schema.
    """
    encoded: Column = _import_encoder(part).encode(spark, part)
    return encoded


def render_part_problem(spark: SparkSession, part: RecordPart) -> str:
    """SQL text: why the format cannot write the row, NULL where it can."""
    list_problems = getattr(_import_encoder(part), "list_problems", None)
    own_problems = list_problems(spark, part) if list_problems is not None else ()
    keeps_bytes = get_format(part.format).only_column == "BINARY"
    return render_problem([*(() if keeps_bytes else list_text_problems(part)), *own_problems])


def build_part_header(spark: SparkSession, part: RecordPart) -> bytes | None:
    """What stands before each key or value of a format with a registry, b"" without one; None for other formats."""
    build_header = getattr(_import_encoder(part), "build_header", None)
    return None if build_header is None else bytes(build_header(spark, part))


def _import_encoder(part: RecordPart) -> ModuleType:
    return import_module(f"{ENCODERS_PACKAGE}.{get_format(part.format).encoder}")
