"""The fields that no column holds, gathered over a batch: how many records have each, and a type that would hold it."""

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_outcome import UNKNOWN_FIELDS
from tidegate.model.unknown_fields import MAX_NAME_CHARACTERS, MAX_NAMED_FIELDS, UnknownField, UnknownFields

WHOLE = "WHOLE"  # a number without a fraction, beyond BIGINT
KIND = (
    f"CASE WHEN schema_of_variant(x.value) RLIKE '^DECIMAL[(][0-9]+,0[)]' THEN '{WHOLE}' "
    "ELSE regexp_extract(schema_of_variant(x.value), '^[A-Z]+', 0) END"
)
# a field may stand several times in one record, inside of lists: it counts once
FIRST = "i = array_position(transform(kinds, k -> k.path), x.path) - 1"
PLAIN_TYPES = {
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "DECIMAL": "DOUBLE",
    WHOLE: "DECIMAL(38,0)",
    "BOOLEAN": "BOOLEAN",
}


def gather_unknown_fields(records: DataFrame, number: int) -> UnknownFields:
    """The most frequent fields of the records' `unknown_fields`; `number` is how many records these are."""
    kinds = f"array_distinct(transform({UNKNOWN_FIELDS}, x -> struct(x.path AS path, {KIND} AS kind)))"
    fields = records.selectExpr(f"{kinds} AS kinds").selectExpr(
        f"inline(transform(kinds, (x, i) -> struct(x.path, x.kind, {FIRST} AS is_first)))"
    )
    by_name = fields.groupBy("path").agg(
        F.expr("count_if(is_first)").alias("records"), F.expr("collect_set(kind)").alias("kinds")
    )
    named = by_name.selectExpr("*", "sum(records) OVER () AS total").orderBy("records", "path", ascending=[False, True])
    rows = named.limit(MAX_NAMED_FIELDS).collect()
    found = tuple(UnknownField(row.path[:MAX_NAME_CHARACTERS], row.records, choose_type(row.kinds)) for row in rows)
    total = rows[0].total if rows else 0
    return UnknownFields(number, found, total - sum(field.records for field in found))


def choose_type(kinds: Collection[str]) -> str:
    """A column's type that holds values of these kinds: a text holds all of them."""
    types = {PLAIN_TYPES.get(kind, "ARRAY<STRING>" if kind == "ARRAY" else "STRING") for kind in kinds}
    if types == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return types.pop() if len(types) == 1 else "STRING"
