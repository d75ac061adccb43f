"""protobuf: messages of any schema id, each decoded with its writer's descriptor, in batches outside of the JVM."""

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.schema.protobuf import Shape, make_truncated_shape
from tidegate.schema.wire_format import KEYLESS
from tidegate.sql.spark import quote, render_columns, render_literal

from tidegate_spark.fields import arrow_decoder, protobuf
from tidegate_spark.fields.conditions import NO_REASON, render_first_reason
from tidegate_spark.formats.decoded import (
    TOMBSTONE_DELETES,
    DecodedKey,
    DecodedValue,
    locate_columns,
    render_cast_type,
    render_null_fields,
    render_required_cases,
)
from tidegate_spark.formats.json import list_key_fields, list_truncated_names
from tidegate_spark.formats.wire_format import render_refused_cases

# the server's workers do not have the product's code: these modules go with the function
cloudpickle.register_pickle_by_value(arrow_decoder)
cloudpickle.register_pickle_by_value(protobuf)


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    columns = list_key_fields(table).columns
    decoded = records.withColumn("kp", _decode_part("key", table.key.options, columns))
    reason = f"coalesce(kp.reason, {_render_required_reason('key', 'kp.row', columns)})"
    return DecodedKey(decoded, f"struct({render_columns(_render_values('kp.row', columns))})", reason)


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """A value is an upsert, no value is a delete; a value of no bytes is a message in which nothing is set."""
    names = {f["name"] for f in table.value.options["shape"]["fields"]}
    keys = list_key_fields(table).columns
    has_keys = bool(keys) and all(key.name in names for key in keys)
    columns = (*table.value_columns, *(keys if has_keys else ()))
    decoded = _decode_part("value", table.value.options, columns, list_truncated_names(table))
    changes = records.withColumn("p", decoded).selectExpr("*", TOMBSTONE_DELETES, "p.reason AS located_reason")
    keyless = render_refused_cases("value", table.value.options.get(KEYLESS, {}))
    # the key's own schema may declare a type that does not hold the value's field
    lossy = " ".join(
        f"WHEN p.row.{quote(name)} IS NOT NULL AND {value} IS NULL "
        f"THEN {render_literal(f'the key field {name} does not fit its column without loss')}"
        for name, value in _render_values("p.row", keys).items()
    )
    return DecodedValue(
        records=changes,
        columns=_render_values("p.row", table.value_columns),
        reason=NO_REASON,
        null_reason=_render_required_reason("value", "p.row", table.value_columns),
        key=f"struct({render_columns(_render_values('p.row', keys)) if has_keys else render_null_fields(keys)})",
        key_reason=_render_required_reason("key", "p.row", keys, f"{keyless} {lossy}") if has_keys else NO_REASON,
        key_presence="p.row IS NOT NULL" if has_keys else "false",
        doubts={column.name: "p.reason IS NOT NULL" for column in table.value_columns},
    )


def _decode_part(
    part: str, options: dict[str, Any], columns: tuple[Column, ...], truncated: frozenset[str] = frozenset()
) -> Any:
    names = {column.name for column in columns}
    fields = [
        {**field, "shape": make_truncated_shape(field["shape"])} if field["name"].casefold() in truncated else field
        for field in options["shape"]["fields"]
        if field["name"] in names
    ]
    shape: Shape = {"kind": "message", "fields": fields}
    # as a text it would be sent to the server to be read
    result_type = from_arrow_type(arrow_decoder.build_result_type(protobuf.to_arrow_type(shape)))
    return F.arrow_udf(protobuf.build_decoder({**options, "shape": shape}, part), result_type)(F.col(part))


def _render_required_reason(part_name: str, at: str, columns: tuple[Column, ...], more: str = "") -> str:
    return render_first_reason(more, render_required_cases(f"the {part_name}", columns, locate_columns(at, columns)))


def _render_values(at: str, columns: tuple[Column, ...]) -> dict[str, str]:
    return {c.name: f"try_cast({at}.{quote(c.name)} AS {render_cast_type(c.type)})" for c in columns}
