"""The fields that no column holds, counted over a batch: how many records have each, and a type that would hold it."""

import json
from collections import Counter
from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_outcome import UNKNOWN_FIELDS
from tidegate.model.unknown_fields import MAX_NAME_CHARACTERS, MAX_NAMED_FIELDS, UnknownField, UnknownFields
from tidegate.schema.inferred_types import ELEMENT_STEP, WHOLE, Steps

# 1.0 is a decimal without digits behind its point, and no whole number: the next one may be 1.5
KIND = (
    "CASE WHEN schema_of_variant(x.value) RLIKE '^DECIMAL[(][0-9]+,0[)]' "
    f"AND try_variant_get(x.value, '$', 'BIGINT') IS NULL THEN '{WHOLE}' "
    "ELSE regexp_extract(schema_of_variant(x.value), '^[A-Z]+', 0) END"
)
# a field may stand several times in one record, inside of lists
NAME = f"left(x.path, {MAX_NAME_CHARACTERS})"
KINDS = f"array_distinct(transform({UNKNOWN_FIELDS}, x -> struct({NAME} AS path, {KIND} AS kind)))"
FIRST = "i = array_position(transform(kinds, k -> k.path), x.path) - 1"
# Records of one topic have few sets of such fields. So many of them Spark counts exactly while they pass.
MAX_SETS = 1_000
MAX_SET_CHARACTERS = 10_000  # a larger set would cost memory in this number
MAX_DEPTH = 10  # of objects and lists in a field: what lies deeper is text
MAX_PLACES = 20_000  # of all fields and what lies in them, each with its kinds
PLACES_TYPE = "ARRAY<STRUCT<steps: ARRAY<STRING>, value: VARIANT>>"
CHILDREN = (
    "CASE WHEN startswith(schema_of_variant(p.value), 'OBJECT') "
    "THEN transform(map_entries(try_variant_get(p.value, '$', 'MAP<STRING, VARIANT>')), "
    "e -> named_struct('steps', array_append(p.steps, e.key), 'value', e.value)) "
    "WHEN startswith(schema_of_variant(p.value), 'ARRAY') "
    "THEN transform(try_variant_get(p.value, '$', 'ARRAY<VARIANT>'), "
    f"e -> named_struct('steps', array_append(p.steps, '{ELEMENT_STEP}'), 'value', e)) "
    f"ELSE CAST(array() AS {PLACES_TYPE}) END"
)
PLAIN_TYPES = {
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "DECIMAL": "DOUBLE",
    WHOLE: "DECIMAL(38,0)",
    "BOOLEAN": "BOOLEAN",
}


def render_count_of_sets(condition: str) -> str:
    """SQL of an aggregate: JSON of the sets of fields that records have for which the condition holds, with counts."""
    own_set = f"get(filter(array(to_json(array_sort({KINDS}))), s -> length(s) <= {MAX_SET_CHARACTERS}), 0)"
    return f"to_json(approx_top_k(CASE WHEN {condition} THEN {own_set} END, {MAX_SETS}, {MAX_SETS}))"


def sum_sets(sets: str, number: int) -> UnknownFields | None:
    """The fields of these sets, in so many records; None if sets were too many or too large to count them exactly."""
    entries = json.loads(sets)  # of records without such a set it has no item
    counted_sets = [(entry["item"], entry["count"]) for entry in entries if "item" in entry]
    if sum(count for _, count in counted_sets) != number:
        return None
    records = Counter[str]()
    kinds = dict[str, set[str]]()
    for own_set, count in counted_sets:
        fields = json.loads(own_set)
        records.update(dict.fromkeys((field["path"] for field in fields), count))
        for field in fields:
            kinds.setdefault(field["path"], set()).add(field["kind"])
    names = sorted(records, key=lambda name: (-records[name], name))
    named = tuple(UnknownField(name, records[name], choose_type(kinds[name])) for name in names[:MAX_NAMED_FIELDS])
    return UnknownFields(number, named, sum(records[name] for name in names[MAX_NAMED_FIELDS:]))


def gather_unknown_fields(records: DataFrame, number: int) -> UnknownFields:
    """The most frequent fields of the records' `unknown_fields`; `number` is how many records these are."""
    fields = records.selectExpr(f"{KINDS} AS kinds").selectExpr(
        f"inline(transform(kinds, (x, i) -> struct(x.path, x.kind, {FIRST} AS is_first)))"
    )
    by_name = fields.groupBy("path").agg(
        F.expr("count_if(is_first)").alias("records"), F.expr("collect_set(kind)").alias("kinds")
    )
    rows = by_name.orderBy("records", "path", ascending=[False, True]).limit(MAX_NAMED_FIELDS).collect()
    found = tuple(UnknownField(row.path, row.records, choose_type(row.kinds)) for row in rows)
    if len(found) < MAX_NAMED_FIELDS:
        return UnknownFields(number, found)
    # read once more: a window over all names would bring them together in one task
    total = by_name.agg(F.sum("records")).first()[0]
    return UnknownFields(number, found, total - sum(field.records for field in found))


def choose_type(kinds: Collection[str]) -> str:
    """A column's type that holds values of these kinds: a text holds all of them."""
    types = {PLAIN_TYPES.get(kind, "ARRAY<STRING>" if kind == "ARRAY" else "STRING") for kind in kinds}
    if types == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    return types.pop() if len(types) == 1 else "STRING"


def gather_kinds(records: DataFrame) -> dict[Steps, set[str]]:
    """The kinds of the values of each field in the records' `unknown_fields`, and of what lies inside of it.

    Of more than `MAX_PLACES` those that lie deepest are left out: that is too many for columns.
    """
    own_places = f"transform({UNKNOWN_FIELDS}, x -> named_struct('steps', array(x.path), 'value', x.value))"
    levels = records.selectExpr(f"CAST({own_places} AS {PLACES_TYPE}) AS level0")
    for depth in range(1, MAX_DEPTH):  # column by column: Spark would write one expression of all levels anew for each
        levels = levels.selectExpr("*", f"flatten(transform(level{depth - 1}, p -> {CHILDREN})) AS level{depth}")
    kinds_of_levels = (f"transform(level{depth}, x -> struct(x.steps, {KIND} AS kind))" for depth in range(MAX_DEPTH))
    places = levels.selectExpr(f"inline(array_distinct(concat({', '.join(kinds_of_levels)})))").distinct()
    kinds: dict[Steps, set[str]] = {}
    ordered = places.where("kind <> 'VOID'").orderBy(F.expr("size(steps)"), "steps", "kind")
    for row in ordered.limit(MAX_PLACES).collect():
        own_kinds = kinds.setdefault(tuple(row.steps), set())
        own_kinds.add(row.kind)
        if len(row.steps) == MAX_DEPTH and row.kind in ("OBJECT", "ARRAY"):
            own_kinds.add("STRING")  # nobody has looked into it
    return kinds
