"""A publication's rows as records: key and value in bytes, headers, timestamp and topic, by Spark's own writers."""

import json
import struct

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType
from tidegate.errors import ConfigurationError
from tidegate.jobs.publish_job import REGISTRY_CONF, PublishJob
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.formats.csv import to_spark_options
from tidegate_spark.publish.avro_encoding import build_record_name, build_record_schema
from tidegate_spark.publish.protobuf_encoding import Subjects, encode_protobuf
from tidegate_spark.publish.schema_registration import register_schema
from tidegate_spark.session import read_private_conf

# Spark would cut times to milliseconds and leave NULL fields out.
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
CSV_OPTIONS = {key: form for key, form in JSON_OPTIONS.items() if key != "ignoreNullFields"}
RecordFields = list[tuple[str, str]]  # a column of the result, and its name in the record


def encode_rows(spark: SparkSession, rows: DataFrame, job: PublishJob) -> DataFrame:
    """Columns topic, key, value, headers and timestamp (milliseconds). ConfigurationError names a missing column."""
    names = {name.casefold(): name for name in rows.schema.names}
    for name in (*job.key.fields, *job.metadata.columns):
        if name.casefold() not in names:
            raise ConfigurationError(
                f"publication={job.publication}: column={name} is not in the result; there are: "
                f"{', '.join(rows.schema.names)}; correct key.fields, metadata or sql"
            )
    key = [(name, name.removeprefix(job.key.prefix)) for name in job.key.fields]
    left_out = {name.casefold() for name in job.metadata.columns}
    if job.value.fields_include == "EXCEPT_KEY":
        left_out |= {name.casefold() for name in job.key.fields}
    value = [(name, name) for name in rows.schema.names if name.casefold() not in left_out]
    if not value:
        raise ConfigurationError(
            f"publication={job.publication}: no column is left for the value; use fields_include: ALL"
        )
    topic = f"CAST({quote(job.metadata.topic)} AS STRING)" if job.metadata.topic else render_literal(job.topics[0])
    return rows.select(
        F.expr(topic).alias("topic"),
        _encode_part(spark, rows, job, "key", key).alias("key"),
        _encode_part(spark, rows, job, "value", value).alias("value"),
        F.expr(_render_headers(rows, job.metadata.headers)).alias("headers"),
        F.expr(_render_timestamp(job.metadata.timestamp)).alias("timestamp"),
    )


def _encode_part(spark: SparkSession, rows: DataFrame, job: PublishJob, what: str, fields: RecordFields) -> Column:
    part = job.key if what == "key" else job.value
    if part.format != "protobuf":
        return F.expr(_render_bytes(spark, rows, job, what, fields))
    subjects, settings = _list_subjects(job, what), json.loads(read_private_conf(spark, REGISTRY_CONF))[what]
    typed = [(name, rows.schema[column].dataType) for column, name in fields]
    name = build_record_name(job.topics[0], what)
    return encode_protobuf(
        _render_struct(fields), typed, name, Subjects(subjects, part.options.get("message"), settings)
    )


def _render_struct(fields: RecordFields) -> str:
    return f"named_struct({', '.join(f'{render_literal(name)}, {quote(column)}' for column, name in fields)})"


def _list_subjects(job: PublishJob, what: str) -> list[str]:
    subject = (job.key if what == "key" else job.value).options.get("subject")
    return [subject] if subject else [f"{topic}-{what}" for topic in job.topics]


def _render_bytes(spark: SparkSession, rows: DataFrame, job: PublishJob, what: str, fields: RecordFields) -> str:
    part = job.key if what == "key" else job.value
    form, options = part.format, part.options
    if form in ("string", "raw"):
        if len(fields) != 1:
            raise ConfigurationError(
                f"{what}.format={form}: it takes one column, and there are {len(fields)}; use json"
            )
        column = quote(fields[0][0])
        is_binary = isinstance(rows.schema[fields[0][0]].dataType, BinaryType)
        return column if is_binary else f"CAST(CAST({column} AS STRING) AS BINARY)"
    if form == "avro":
        return _render_avro(spark, rows, job, what, fields)
    if form == "csv":
        words = {**CSV_OPTIONS, **to_spark_options(options), "nullValue": options.get("null_literal") or ""}
        return f"CAST(to_csv({_render_struct(fields)}, {_render_map(words)}) AS BINARY)"
    return f"CAST({render_json(_render_struct(fields))} AS BINARY)"


def render_json(row: str) -> str:
    """A struct as text that tells all of it."""
    return f"to_json({row}, {_render_map(JSON_OPTIONS)})"


def _render_avro(spark: SparkSession, rows: DataFrame, job: PublishJob, what: str, fields: RecordFields) -> str:
    """Confluent's form: a zero byte, the schema's id in four, then Avro; without a registry Avro alone."""
    options = (job.key if what == "key" else job.value).options
    configured_schema = options.get("schema")
    typed = [(name, rows.schema[column].dataType) for column, name in fields]
    schema = configured_schema or json.dumps(build_record_schema(build_record_name(job.topics[0], what), typed))
    plain = f"to_avro({_render_struct(fields)}, {render_literal(schema)})"
    if configured_schema:
        return plain
    settings = json.loads(read_private_conf(spark, REGISTRY_CONF))[what]
    header = struct.pack(">bI", 0, register_schema(settings, _list_subjects(job, what), schema))
    return f"concat(X'{header.hex()}', {plain})"


def _render_map(options: dict[str, str]) -> str:
    return f"map({', '.join(f'{render_literal(name)}, {render_literal(value)}' for name, value in options.items())})"


def _render_headers(rows: DataFrame, column: str | None) -> str:
    """A list of key and value in bytes: a map's entries in the order of their keys, a list as it is."""
    nothing = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
    if column is None:
        return nothing
    kind = rows.schema[column].dataType
    listed = f"array_sort(map_entries({quote(column)}))" if isinstance(kind, MapType) else quote(column)
    element = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(kind, MapType) and not (isinstance(element, StructType) and element.names == ["key", "value"]):
        raise ConfigurationError(f"metadata.headers={column}: it must be a MAP or an ARRAY<STRUCT<key, value>>")
    made = "named_struct('key', CAST(e.key AS STRING), 'value', CAST(e.value AS BINARY))"
    return f"coalesce(transform({listed}, e -> {made}), {nothing})"


def _render_timestamp(column: str | None) -> str:
    return f"unix_millis(CAST({quote(column)} AS TIMESTAMP))" if column else "CAST(NULL AS BIGINT)"
