"""json: one object with the columns as fields; NULL fields are written."""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.errors import ConfigurationError
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.publish.encoders.record_part import RecordPart, render_map

# Spark would cut times to milliseconds and leave NULL fields out.
TIME_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
JSON_OPTIONS = {"ignoreNullFields": "false", **TIME_OPTIONS}
# keys that Spark would write as what it keeps of them: days, microseconds, the place of bytes in memory
CONVERTED_KEYS = (T.DateType, T.TimestampType, T.TimestampNTZType, T.BinaryType)
KEYS_OF_PARTS = (T.ArrayType, T.MapType, T.StructType)


def encode(_: SparkSession, part: RecordPart) -> Column:
    """UTF-8, without white space between fields; keys of maps are written as values of their type are.

    `ConfigurationError` for keys of parts.
    """
    fields = (
        f"{render_literal(c.name_in_record)}, {_render_with_text_keys(quote(c.name), c.type, c.name)}"
        for c in part.columns
    )
    row = f"named_struct({', '.join(fields)})"
    return F.expr(f"CAST({render_json(row)} AS BINARY)")


def render_json(row: str) -> str:
    return f"to_json({row}, {render_map(JSON_OPTIONS)})"


def _render_with_text_keys(value: str, kind: T.DataType, path: str, depth: int = 0) -> str:
    if not _has_other_keys(kind):
        return value
    element = f"_tidegate_{depth}"
    if isinstance(kind, T.StructType):
        parts = (
            f"{render_literal(f.name)}, "
            f"{_render_with_text_keys(f'{value}.{quote(f.name)}', f.dataType, f'{path}.{f.name}', depth)}"
            for f in kind.fields
        )
        return f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(parts)}) END"
    if isinstance(kind, T.ArrayType):
        return f"transform({value}, {element} -> {_render_with_text_keys(element, kind.elementType, path, depth + 1)})"
    assert isinstance(kind, T.MapType)
    if isinstance(kind.keyType, KEYS_OF_PARTS):
        raise ConfigurationError(
            f"column={path} is {kind.simpleString()}, and names in JSON are texts; turn its keys into texts in sql"
        )
    keys = f"transform(map_keys({value}), {element} -> {_render_key(element, kind.keyType)})"
    inner = f"transform(map_values({value}), {element} -> "
    return f"map_from_arrays({keys}, {inner}{_render_with_text_keys(element, kind.valueType, path, depth + 1)}))"


def _has_other_keys(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_has_other_keys(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _has_other_keys(kind.elementType)
    is_map = isinstance(kind, T.MapType)
    return is_map and (isinstance(kind.keyType, CONVERTED_KEYS + KEYS_OF_PARTS) or _has_other_keys(kind.valueType))


def _render_key(key: str, kind: T.DataType) -> str:
    if isinstance(kind, T.BinaryType):
        return f"base64({key})"
    if isinstance(kind, T.TimestampType):
        return f"date_format({key}, {render_literal(TIME_OPTIONS['timestampFormat'])})"
    if isinstance(kind, T.TimestampNTZType):
        return f"date_format({key}, {render_literal(TIME_OPTIONS['timestampNTZFormat'])})"
    return f"CAST({key} AS STRING)"
