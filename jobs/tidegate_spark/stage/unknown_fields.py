"""The fields that no column holds, gathered over a batch: how many records have each, and a type that would hold it."""

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_outcome import UNKNOWN_FIELDS
from tidegate.model.unknown_fields import MAX_NAME_CHARACTERS, MAX_NAMED_FIELDS, UnknownField, UnknownFields
from tidegate.schema.data_types import format_type
from tidegate.schema.inferred_types import ELEMENT_STEP, WHOLE, Infer, Steps, infer_type

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
MAX_DEPTH = 10  # of objects and lists in a field: what lies deeper is text
MAX_PLACES = 10_000  # in all fields, each with its kinds
CHILD_TYPE = "ARRAY<STRUCT<steps: ARRAY<STRING>, value: VARIANT>>"
CHILDREN = (
    "CASE kind WHEN 'OBJECT' THEN transform(map_entries(try_variant_get(value, '$', 'MAP<STRING, VARIANT>')), "
    "e -> named_struct('steps', array_append(steps, e.key), 'value', e.value)) "
    "ELSE transform(try_variant_get(value, '$', 'ARRAY<VARIANT>'), "
    f"e -> named_struct('steps', array_append(steps, '{ELEMENT_STEP}'), 'value', e)) END"
)


def gather_unknown_fields(records: DataFrame, number: int, most: int = MAX_NAMED_FIELDS) -> UnknownFields:
    """The most frequent fields of the records' `unknown_fields`, `most` of them at most; `number` is how many records
    these are.
    """
    kinds = f"array_distinct(transform({UNKNOWN_FIELDS}, x -> struct(x.path AS path, {KIND} AS kind)))"
    fields = records.selectExpr(f"{kinds} AS kinds").selectExpr(
        f"inline(transform(kinds, (x, i) -> struct(x.path, x.kind, {FIRST} AS is_first)))"
    )
    by_name = fields.groupBy("path").agg(
        F.expr("count_if(is_first)").alias("records"), F.expr("collect_set(kind)").alias("kinds")
    )
    named = by_name.selectExpr("*", "sum(records) OVER () AS total").orderBy("records", "path", ascending=[False, True])
    rows = named.limit(most).collect()
    found = tuple(UnknownField(row.path[:MAX_NAME_CHARACTERS], row.records, choose_type(row.kinds)) for row in rows)
    total = rows[0].total if rows else 0
    return UnknownFields(number, found, total - sum(field.records for field in found))


def choose_type(kinds: Collection[str]) -> str:
    """A column's type that holds values of these kinds: a text holds all of them."""
    types = {PLAIN_TYPES.get(kind, "ARRAY<STRING>" if kind == "ARRAY" else "STRING") for kind in kinds}
    if types == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return types.pop() if len(types) == 1 else "STRING"


def infer_unknown_fields(records: DataFrame, number: int, infer: Infer) -> UnknownFields:
    """`gather_unknown_fields` with the types of the columns that are to be added, by all values of the batch; none for
    a field in which nothing lies yet.

    It looks level by level at what lies in objects and lists: so no record's nesting, and no number of names, takes
    memory of the driver. With more than `MAX_PLACES` places the rest counts as fields that are not named.
    """
    unknown = gather_unknown_fields(records, number, infer.max_new_columns + 1)
    level = records.selectExpr(f"inline({UNKNOWN_FIELDS})").selectExpr("array(path) AS steps", "value").persist()
    kinds: dict[Steps, set[str]] = {}
    try:
        values = level
        for _ in range(MAX_DEPTH):
            values = values.selectExpr("struct(value) AS x", "steps").selectExpr("steps", "x.value", f"{KIND} AS kind")
            places = values.where("kind <> 'VOID'").groupBy("steps", "kind").count().limit(MAX_PLACES + 1).collect()
            for row in places:
                kinds.setdefault(tuple(row.steps), set()).add(row.kind)
            if len(places) > MAX_PLACES:
                return UnknownFields(number, unknown.fields, unknown.others + len(places))
            if not {"OBJECT", "ARRAY"} & {row.kind for row in places}:
                break
            children = values.where("kind IN ('OBJECT', 'ARRAY')").selectExpr(f"CAST({CHILDREN} AS {CHILD_TYPE}) AS c")
            values = children.selectExpr("inline(c)")
        else:
            _make_deepest_texts(kinds)
    finally:
        level.unpersist()
    fields = []
    for field in unknown.fields:
        kind = infer_type(kinds, (field.name,), infer)
        fields.append(UnknownField(field.name, field.records, "" if kind is None else format_type(kind)))
    return UnknownFields(number, tuple(fields), unknown.others)


def _make_deepest_texts(kinds: dict[Steps, set[str]]) -> None:
    """Nobody has looked into these objects and lists."""
    for steps, own_kinds in kinds.items():
        if len(steps) == MAX_DEPTH and own_kinds & {"OBJECT", "ARRAY"}:
            own_kinds.add("STRING")
