"""Which module writes which format: the one that the format's description names."""

from importlib import import_module
from types import ModuleType

from pyspark.sql import Column, SparkSession
from tidegate.formats.registry import get_format

from tidegate_spark.publish.encoders.record_part import RecordPart, list_text_problems, render_problem

ENCODERS_PACKAGE = "tidegate_spark.publish.encoders"


def encode_part(spark: SparkSession, part: RecordPart) -> Column:
    """Return the key or value in bytes, NULL for no row, and for one that `render_part_problem` names.

    Registers a schema if needed, on the driver; a second call finds it there. `ConfigurationError` for columns that the
    format cannot hold, `GiveUp` if the registry refuses the schema.
    """
    encoded: Column = _import_encoder(part).encode(spark, part)
    return encoded


def render_part_problem(spark: SparkSession, part: RecordPart) -> str:
    """Return why the format cannot write the row, NULL if it can."""
    list_problems = getattr(_import_encoder(part), "list_problems", None)
    own_problems = list_problems(spark, part) if list_problems is not None else ()
    keeps_bytes = get_format(part.format).only_column == "BINARY"
    return render_problem([*(() if keeps_bytes else list_text_problems(part)), *own_problems])


def build_part_header(spark: SparkSession, part: RecordPart) -> bytes | None:
    """Return what stands before each key or value of a format with a registry, b"" without one; else None."""
    build_header = getattr(_import_encoder(part), "build_header", None)
    return None if build_header is None else bytes(build_header(spark, part))


def _import_encoder(part: RecordPart) -> ModuleType:
    return import_module(f"{ENCODERS_PACKAGE}.{get_format(part.format).encoder}")
