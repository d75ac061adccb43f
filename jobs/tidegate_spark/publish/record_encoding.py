"""A publication's rows as records: key and value in bytes, headers, timestamp and topic."""

import json
from importlib import import_module
from types import ModuleType

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import SchemaKind, get_format
from tidegate.jobs.publish_job import PublishJob
from tidegate.model.publication_progress import RunMode
from tidegate.sql.spark import quote, quote_name, render_literal, render_once

from tidegate_spark.fields.json.objects import render_exact_from_json, render_object
from tidegate_spark.publish.encoders.record_part import (
    Problem,
    RecordPart,
    WrittenColumn,
    list_text_problems,
    render_problem,
)

FIRST_MILLISECOND = "1L"
TIME_TYPES = (T.TimestampType, T.TimestampNTZType, T.DateType)
# equal values of these, and no others, have equal bytes in a record
HASHED_TYPES = (T.IntegralType, T.StringType, T.BooleanType, T.BinaryType, T.DecimalType, *TIME_TYPES)
RecordFields = list[tuple[str, str]]  # a column of the result, and its name in the record


def encode_rows(spark: SparkSession, rows: DataFrame, job: PublishJob) -> DataFrame:
    """Return topic, key, value, headers, timestamp (milliseconds), `problem`: why a row makes no record, or NULL.

    And `key_hash`, which `render_key_hash` explains, or NULL. `ConfigurationError` names a missing column.
    """
    names = {name.lower(): name for name in rows.schema.names}
    for name in (*job.key.fields, *job.metadata.columns):
        if name.lower() not in names:
            raise ConfigurationError(
                f"publication={job.publication}: column={name} is not in the result; there are: "
                f"{', '.join(rows.schema.names)}; correct key.fields, metadata or sql"
            )
    left_out = {name.lower() for name in job.metadata.columns}
    if job.value.fields_include == "EXCEPT_KEY":
        left_out |= {name.lower() for name in job.key.fields}
    value = [(name, name) for name in rows.schema.names if name.lower() not in left_out]
    if not value:
        raise ConfigurationError(
            f"publication={job.publication}: no column is left for the value; use fields_include: ALL"
        )
    topic = f"CAST({quote(job.metadata.topic)} AS STRING)" if job.metadata.topic else render_literal(job.topics[0])
    parts = {} if job.is_append else {"key": describe_key(rows, job)}
    parts["value"] = _describe_part(rows, job, "value", value)
    header_problem = _render_header_problem(rows, job.metadata.headers)
    headers = f"IF({header_problem} IS NULL, {_render_headers(rows, job.metadata.headers)}, NULL)"
    problems = [*(render_part_problem(spark, part) for part in parts.values()), header_problem]
    return rows.select(
        F.expr(topic).alias("topic"),
        *(encode_part(spark, part).alias(name) for name, part in parts.items()),
        F.expr(headers).alias("headers"),
        F.expr(_render_timestamp(rows, job.metadata.timestamp)).alias("timestamp"),
        F.expr(f"coalesce({', '.join(problems)})").alias("problem"),
        F.expr(render_key_hash(rows, job) or "CAST(NULL AS BIGINT)").alias("key_hash"),
    )


def render_key_hash(rows: DataFrame, job: PublishJob) -> str | None:
    """Render a number that is equal for rows with equal keys, or None where one key may stand for several values."""
    types = {field.name.lower(): field.dataType for field in rows.schema}
    key_format = get_format(job.key.format)
    # of NULL and the value that stands for it, a line and many messages make the same bytes
    is_exact = not key_format.is_positional and key_format.schema != SchemaKind.PROTOBUF
    if not job.key.fields or not is_exact:
        return None
    if not all(isinstance(types[name.lower()], HASHED_TYPES) for name in job.key.fields):
        return None
    return f"xxhash64({', '.join(map(quote, job.key.fields))})"


def describe_key(rows: DataFrame, job: PublishJob) -> RecordPart:
    return _describe_part(rows, job, "key", [(name, name.removeprefix(job.key.prefix)) for name in job.key.fields])


def _describe_part(rows: DataFrame, job: PublishJob, name: str, fields: RecordFields) -> RecordPart:
    part = job.key if name == "key" else job.value
    types = {field.name.lower(): field.dataType for field in rows.schema}
    columns = tuple(WrittenColumn(column, types[column.lower()], field) for column, field in fields)
    return RecordPart(part=name, format=part.format, options=part.options, topics=job.topics, columns=columns)


def _render_headers(rows: DataFrame, column: str | None) -> str:
    # a map's entries in the order of their keys, a list as it is
    nothing = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
    if column is None:
        return nothing
    kind = _get_type(rows, column)
    is_map = isinstance(kind, T.MapType)
    element = kind.elementType if isinstance(kind, T.ArrayType) else None
    if not is_map and not (isinstance(element, T.StructType) and element.names == ["key", "value"]):
        raise ConfigurationError(f"metadata.headers={column}: it must be a MAP or an ARRAY<STRUCT<key, value>>")
    entries = f"array_sort(map_entries({quote(column)}))" if is_map else quote(column)
    value = kind.valueType if is_map else kind.elementType["value"].dataType
    if not isinstance(value, (T.BinaryType, T.StringType)):
        raise ConfigurationError(
            f"metadata.headers={column}: its values are {value.simpleString()}, and must be text or bytes; cast them "
            "to STRING in sql"
        )
    header_sql = "named_struct('key', CAST(e.key AS STRING), 'value', CAST(e.value AS BINARY))"
    return f"coalesce(transform({entries}, e -> {header_sql}), {nothing})"


def _render_header_problem(rows: DataFrame, column: str | None) -> str:
    if column is None:
        return render_problem(())
    is_map = isinstance(_get_type(rows, column), T.MapType)
    keys = f"map_keys({quote(column)})" if is_map else f"transform({quote(column)}, e -> e.key)"
    missing = f"has a header without a key in {column}; leave it out in sql"
    unreadable = f"has a header whose key is no UTF-8 in {column}; correct it in sql"
    return render_problem(
        [
            Problem(f"exists({keys}, k -> k IS NULL)", missing),
            Problem(f"exists({keys}, k -> NOT is_valid_utf8(CAST(k AS STRING)))", unreadable),
        ]
    )


def _get_type(rows: DataFrame, column: str) -> T.DataType:
    return next(field.dataType for field in rows.schema if field.name.lower() == column.lower())


def _render_timestamp(rows: DataFrame, column: str | None) -> str:
    """Return milliseconds since 1970. `ConfigurationError` for a number: its unit is unknown."""
    if column is None:
        return "CAST(NULL AS BIGINT)"
    kind = _get_type(rows, column)
    if not isinstance(kind, TIME_TYPES):
        raise ConfigurationError(
            f"metadata.timestamp={column} is {kind.simpleString()}, and no TIMESTAMP or DATE; make one of it in sql, "
            "e.g. timestamp_millis of a number, or CAST a text"
        )
    millis = f"unix_millis(CAST({quote(column)} AS TIMESTAMP))"
    return f"CASE WHEN {millis} = 0 THEN {FIRST_MILLISECOND} ELSE {millis} END"


EVENT_BEGIN = '{"after":'
AFTER_END = ',"before":'
ROW_KIND_HEADER = "tidegate.row-kind"
ROW_KINDS = {"c": "+I", "r": "+I", "u": "+U", "d": "-D"}  # in Flink's words


def is_change_event(job: PublishJob) -> bool:
    return get_format(job.value.format).is_change_event


def render_is_event_of(event: str, row: str) -> str:
    """Whether the bytes of `event` are an event of `wrap_in_events` after which the row is this one."""
    begin = f"concat({_render_bytes(EVENT_BEGIN)}, {row}, {_render_bytes(AFTER_END)})"
    return f"coalesce(startswith({event}, {begin}), false)"


def render_row_of_event(event: str) -> str:
    # not get_json_object, which writes a decimal anew as a double; a topic may hold rows that are no events
    parsed = render_exact_from_json(f"CAST({event} AS STRING)", "after: STRING, op: STRING")
    row = "CASE WHEN b.op IS NOT NULL AND startswith(b.after, '{') THEN b.after END"
    return f"CAST({render_once(render_once(parsed, render_object('b')), row)} AS BINARY)"


def wrap_in_events(spark: SparkSession, changes: DataFrame, job: PublishJob) -> DataFrame:
    """Make a change event of each value, with the row `before` it.

    A delete whose earlier row is unknown keeps NULL as its value.
    """
    # the first run produces rows as it reads them: what their readers hold is unknown
    inserted = "r" if job.position.mode == RunMode.EVERYTHING else "c"
    operation = f"CASE WHEN kind = 'deleted' THEN 'd' WHEN before IS NULL THEN '{inserted}' ELSE 'u' END"
    parts = [
        _render_bytes(EVENT_BEGIN),
        "IF(op = 'd', null_row, value)",
        _render_bytes(AFTER_END),
        "IF(op IN ('u', 'd'), before, null_row)",
        """CAST(concat(',"op":"', op, '","ts_ms":', unix_millis(current_timestamp())) AS BINARY)""",
        _render_bytes(f',"source":{_describe_source(spark, job)}}}'),
    ]
    kinds = ", ".join(f"{render_literal(op)}, {render_literal(kind)}" for op, kind in ROW_KINDS.items())
    header = f"named_struct('key', '{ROW_KIND_HEADER}', 'value', CAST(element_at(map({kinds}), op) AS BINARY))"
    events = changes.selectExpr("*", f"{operation} AS op", f"{_render_bytes('null')} AS null_row")
    value = f"concat({', '.join(parts)}) AS value"
    headers = f"concat(coalesce(headers, array()), array({header})) AS headers"
    return events.selectExpr("topic", "key", value, headers, "timestamp", "problem", "kind", "copies")


def _describe_source(spark: SparkSession, job: PublishJob) -> str:
    _, *namespace, table = job.table.split(".")
    snapshot = f"{quote_name(job.table)}.snapshots WHERE snapshot_id = {job.position.to}"
    committed = spark.sql(f"SELECT unix_millis(committed_at) AS ms FROM {snapshot}").collect()
    place = {"connector": "tidegate", "name": job.publication, "db": ".".join(namespace), "table": table}
    source = {**place, "snapshot_id": job.position.to, "ts_ms": committed[0].ms}
    return json.dumps(source, separators=(",", ":"))


def _render_bytes(text: str) -> str:
    return f"CAST({render_literal(text)} AS BINARY)"


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
