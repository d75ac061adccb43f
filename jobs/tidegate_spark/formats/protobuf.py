"""protobuf: messages of any schema id, each decoded with its writer's descriptor, in batches outside of the JVM."""

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql.pandas.types import from_arrow_type
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.column import Column
from tidegate.schema.protobuf import Shape
from tidegate.sql.spark import quoted

from tidegate_spark.fields import protobuf_decoder
from tidegate_spark.formats.decoded import DELETE, NO_REASON, UPSERT, FoundKey, FoundValue
from tidegate_spark.formats.json import key_fields

# the server's workers do not have the product's code: this module goes with the function
cloudpickle.register_pickle_by_value(protobuf_decoder)


def read(records: DataFrame, table: StageTable) -> FoundKey:
    """A key: a message with the key's fields."""
    columns = key_fields(table).columns
    decoded = records.withColumn("kp", _decoded("key", table.key.options, columns))
    return FoundKey(decoded, f"struct({', '.join(_fields('kp.row', columns))})", "kp.reason")


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """A value is an upsert, no value is a delete; a value of no bytes is a message in which nothing is set."""
    names, keys = {f["name"] for f in table.value.options["shape"]["fields"]}, key_fields(table).columns
    there = bool(keys) and all(key.name in names for key in keys)
    wanted = (*table.value_columns, *(keys if there else ()))
    found = records.withColumn("p", _decoded("value", table.value.options, wanted)).selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        "p.reason AS located_reason",
    )
    missing = ", ".join(f"CAST(NULL AS {key.type}) AS {quoted(key.name)}" for key in keys)
    return FoundValue(
        records=found,
        columns=tuple(_fields("p.row", table.value_columns)),
        reason=NO_REASON,
        key=f"struct({', '.join(_fields('p.row', keys)) if there else missing})",
        key_reason=NO_REASON,
        key_there="p.row IS NOT NULL" if there else "false",
    )


def _decoded(part: str, options: dict[str, Any], columns: tuple[Column, ...]) -> Any:
    """The message in the bytes of `part`: a struct of `row`, with just these columns, and `reason`."""
    names = {column.name for column in columns}
    fields = [field for field in options["shape"]["fields"] if field["name"] in names]
    shape: Shape = {"kind": "message", "fields": fields}
    made = from_arrow_type(protobuf_decoder.made_type(shape))  # as a text it would be sent to the server to be read
    return F.arrow_udf(protobuf_decoder.decoder({**options, "shape": shape}, part), made)(F.col(part))


def _fields(at: str, columns: tuple[Column, ...]) -> list[str]:
    return [f"CAST({at}.{quoted(c.name)} AS {c.type}) AS {quoted(c.name)}" for c in columns]
