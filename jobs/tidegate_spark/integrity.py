"""Fields that stand in the key and in the value of one record: equal, or the record is bad."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs import StageTable
from tidegate.spark_sql import literal, quoted


def verified(decoded: DataFrame, table: StageTable) -> DataFrame:
    """Give `value_reason` to records whose `key_struct` and `row_struct` differ in a field of `verified`.

    A field that the value leaves out is NULL there, and so differs from one that the key has. A delete, or a record
    without a key, has nothing to compare.
    """
    if not table.verified:
        return decoded
    cases = " ".join(_case(name) for name in table.verified)
    differs = f"CASE WHEN key IS NULL OR row_struct IS NULL THEN NULL {cases} END"
    return decoded.withColumn("value_reason", F.expr(f"coalesce(value_reason, {differs})"))


def _case(name: str) -> str:
    told = literal(f"the key and the value differ in field {name}")
    return f"WHEN NOT (key_struct.{quoted(name)} <=> row_struct.{quoted(name)}) THEN {told}"
