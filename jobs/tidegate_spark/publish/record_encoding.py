"""A publication's rows as records: key and value in bytes, headers, timestamp and topic, by Spark's own writers."""

import json
import struct

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType
from tidegate.errors import ConfigurationError
from tidegate.jobs.publish_job import REGISTRY_CONF, PublishJob
from tidegate.sql.spark import literal, quoted

from tidegate_spark.formats.csv import spelling
from tidegate_spark.publish.avro_encoding import record_name, record_schema
from tidegate_spark.publish.protobuf_encoding import Subjects, protobuf
from tidegate_spark.publish.schema_registration import registered
from tidegate_spark.session import private

# Spark would cut times to milliseconds and leave NULL fields out.
JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
CSV = {key: form for key, form in JSON.items() if key != "ignoreNullFields"}
Fields = list[tuple[str, str]]  # a column of the result, and its name in the record


def encoded(spark: SparkSession, rows: DataFrame, job: PublishJob) -> DataFrame:
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
    topic = f"CAST({quoted(job.metadata.topic)} AS STRING)" if job.metadata.topic else literal(job.topics[0])
    return rows.select(
        F.expr(topic).alias("topic"),
        _encoded(spark, rows, job, "key", key).alias("key"),
        _encoded(spark, rows, job, "value", value).alias("value"),
        F.expr(_headers(rows, job.metadata.headers)).alias("headers"),
        F.expr(_timestamp(job.metadata.timestamp)).alias("timestamp"),
    )


def _encoded(spark: SparkSession, rows: DataFrame, job: PublishJob, what: str, fields: Fields) -> Column:
    part = job.key if what == "key" else job.value
    if part.format != "protobuf":
        return F.expr(_bytes(spark, rows, job, what, fields))
    subjects, settings = _subjects(job, what), json.loads(private(spark, REGISTRY_CONF))[what]
    typed = [(name, rows.schema[column].dataType) for column, name in fields]
    name = record_name(job.topics[0], what)
    return protobuf(_struct(fields), typed, name, Subjects(subjects, part.options.get("message"), settings))


def _struct(fields: Fields) -> str:
    return f"named_struct({', '.join(f'{literal(name)}, {quoted(column)}' for column, name in fields)})"


def _subjects(job: PublishJob, what: str) -> list[str]:
    subject = (job.key if what == "key" else job.value).options.get("subject")
    return [subject] if subject else [f"{topic}-{what}" for topic in job.topics]


def _bytes(spark: SparkSession, rows: DataFrame, job: PublishJob, what: str, fields: Fields) -> str:
    part = job.key if what == "key" else job.value
    form, options = part.format, part.options
    if form in ("string", "raw"):
        if len(fields) != 1:
            raise ConfigurationError(
                f"{what}.format={form}: it takes one column, and there are {len(fields)}; use json"
            )
        column = quoted(fields[0][0])
        is_binary = isinstance(rows.schema[fields[0][0]].dataType, BinaryType)
        return column if is_binary else f"CAST(CAST({column} AS STRING) AS BINARY)"
    if form == "avro":
        return _avro(spark, rows, job, what, fields)
    if form == "csv":
        words = {**CSV, **spelling(options), "nullValue": options.get("null_literal") or ""}
        return f"CAST(to_csv({_struct(fields)}, {_map(words)}) AS BINARY)"
    return f"CAST({as_json(_struct(fields))} AS BINARY)"


def as_json(row: str) -> str:
    """A struct as text that tells all of it."""
    return f"to_json({row}, {_map(JSON)})"


def _avro(spark: SparkSession, rows: DataFrame, job: PublishJob, what: str, fields: Fields) -> str:
    """Confluent's form: a zero byte, the schema's id in four, then Avro; without a registry Avro alone."""
    options = (job.key if what == "key" else job.value).options
    given = options.get("schema")
    typed = [(name, rows.schema[column].dataType) for column, name in fields]
    schema = given or json.dumps(record_schema(record_name(job.topics[0], what), typed))
    plain = f"to_avro({_struct(fields)}, {literal(schema)})"
    if given:
        return plain
    settings = json.loads(private(spark, REGISTRY_CONF))[what]
    header = struct.pack(">bI", 0, registered(settings, _subjects(job, what), schema))
    return f"concat(X'{header.hex()}', {plain})"


def _map(options: dict[str, str]) -> str:
    return f"map({', '.join(f'{literal(name)}, {literal(value)}' for name, value in options.items())})"


def _headers(rows: DataFrame, column: str | None) -> str:
    """A list of key and value in bytes: a map's entries in the order of their keys, a list as it is."""
    nothing = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
    if column is None:
        return nothing
    kind = rows.schema[column].dataType
    listed = f"array_sort(map_entries({quoted(column)}))" if isinstance(kind, MapType) else quoted(column)
    element = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(kind, MapType) and not (isinstance(element, StructType) and element.names == ["key", "value"]):
        raise ConfigurationError(f"metadata.headers={column}: it must be a MAP or an ARRAY<STRUCT<key, value>>")
    made = "named_struct('key', CAST(e.key AS STRING), 'value', CAST(e.value AS BINARY))"
    return f"coalesce(transform({listed}, e -> {made}), {nothing})"


def _timestamp(column: str | None) -> str:
    return f"unix_millis(CAST({quoted(column)} AS TIMESTAMP))" if column else "CAST(NULL AS BIGINT)"
