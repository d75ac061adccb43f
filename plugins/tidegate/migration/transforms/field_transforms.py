"""Transforms of fields, keys and topics: here columns of `metadata` and `select`, words of the key, and tables."""

import re

from tidegate.migration.draft import Draft
from tidegate.migration.transforms.record_plan import RecordPlan
from tidegate.migration.transforms.transform import Transform
from tidegate.sql.spark import quote, render_literal

CAST_TYPES = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float32": "FLOAT",
    "float64": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING",
}  # fmt: skip
UNITS = {"seconds": "seconds", "milliseconds": "millis", "microseconds": "micros", "nanoseconds": "nanos"}
EPOCH_FUNCTIONS = {"seconds": "unix_seconds", "milliseconds": "unix_millis", "microseconds": "unix_micros"}
OF_KEY = "it changes the record's key; say in source.key what the key columns are"


def plan_insert_field(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """Where the record lay, and a fixed text, as columns."""
    if transform.is_of_key:
        transform.refuse_all(OF_KEY)
        return
    for word in ("topic", "partition", "offset", "timestamp"):
        column = transform.get(f"{word}.field").rstrip("!?")
        if column:
            plan.metadata[column] = word
            transform.map(f"{word}.field", f"source.metadata.{column}: {word}")
    column = transform.get("static.field").rstrip("!?")
    if column:
        plan.computed[column] = f"CAST({render_literal(transform.get('static.value'))} AS STRING)"
        for option in ("static.field", "static.value"):
            transform.map(option, f"tables[].select ... AS {column}")
    transform.drop("replace.null.with.default", "a NULL stays NULL")
    transform.map("type", "source.metadata, tables[].select")


def plan_replace_field(transform: Transform, plan: RecordPlan, __: Draft) -> None:
    """Fields left out, kept or renamed."""
    if transform.is_of_key:
        transform.refuse_all(OF_KEY)
        return
    excluded = [*transform.list_items("exclude"), *transform.list_items("blacklist")]
    included = [*transform.list_items("include"), *transform.list_items("whitelist")]
    plan.dropped += excluded
    plan.kept = included or plan.kept
    for pair in transform.list_items("renames"):
        old, _, new = pair.partition(":")
        plan.renamed[old] = new
    reason = "" if plan.is_typed else "a field that no column names is left out in any case"
    for option in ("exclude", "blacklist"):
        transform.map(option, "tables[].select: * EXCEPT (...)", reason)
    for option in ("include", "whitelist", "renames"):
        transform.map(option, "tables[].select")
    transform.drop("replace.null.with.default", "a NULL stays NULL")
    transform.map("type", "tables[].select")


def plan_mask_field(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """A fixed value in place of a field's own."""
    if transform.is_of_key:
        transform.refuse_all(OF_KEY)
        return
    value = render_literal(transform.get("replacement"))
    for column in transform.list_items("fields"):
        plan.computed[column] = f"CAST({value} AS STRING)"
        plan.dropped.append(column)
        draft.check(
            ("tables",), f"The column {column} is masked as a STRING: correct the CAST where it has another type."
        )
    transform.map_all("tables[].select", "CAST(... AS STRING) for each field")


def plan_cast(transform: Transform, plan: RecordPlan, __: Draft) -> None:
    """Fields of another type: of typed formats by CAST, of JSON by the column's type."""
    spec = [pair.rpartition(":") for pair in transform.list_items("spec")]
    unknown = [kind for name, _, kind in spec if kind not in CAST_TYPES or not name]
    if transform.is_of_key or unknown:
        transform.refuse_all(
            OF_KEY if transform.is_of_key else f"spec: only fields with one of {', '.join(CAST_TYPES)}"
        )
        return
    if plan.is_typed:
        for name, _, kind in spec:
            plan.computed[name] = f"CAST({quote(name)} AS {CAST_TYPES[kind]})"
        transform.map_all("tables[].select: CAST")
        return
    lenient = [name for name, _, kind in spec if kind.startswith(("int", "float"))]
    if lenient:
        plan.value.setdefault("json", {})["numbers"] = dict.fromkeys(lenient, "lenient")
    transform.map_all("source.value.json.numbers", "JSON is read into the column's own type; numbers in quotes too")
    transform.drop("replace.null.with.default", "a NULL stays NULL")


def plan_timestamp(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """A time from a number or a text, or the other way."""
    column, target = transform.get("field"), transform.get("target.type")
    pattern, unit = transform.get("format"), transform.get("unix.precision", "milliseconds")
    if transform.is_of_key or not column or unit not in UNITS:
        transform.refuse_all(
            OF_KEY if transform.is_of_key else "it names no field; convert the whole value in the schema"
        )
        return
    if target in ("Timestamp", "Date") and not pattern and not plan.is_typed:
        plan.value.setdefault("timestamp_unit", {})[column] = UNITS[unit]
        transform.map_all(
            "source.value.timestamp_unit", f"{column}: {UNITS[unit]}; the column's own type is the target"
        )
        return
    expression = _convert_time(quote(column), target, pattern, unit)
    if not expression:
        transform.refuse_all(
            f"target.type={target}: write the conversion in tables[].select (docs/transforms.md, Timestamps)"
        )
        return
    plan.computed[column] = expression
    transform.map_all("tables[].select", f"{column}; see docs/transforms.md, Timestamps")


def _convert_time(field: str, target: str, pattern: str, unit: str) -> str:
    if target in ("Timestamp", "Date"):
        kind = target.upper()
        if pattern:
            return f"CAST(to_timestamp({field}, {render_literal(pattern)}) AS {kind})"
        return f"CAST(timestamp_{UNITS[unit]}({field}) AS {kind})" if unit != "nanoseconds" else ""
    if target == "unix" and not pattern and unit in EPOCH_FUNCTIONS:
        return f"CAST({EPOCH_FUNCTIONS[unit]}({field}) AS BIGINT)"
    if target == "string" and pattern:
        return f"CAST(date_format({field}, {render_literal(pattern)}) AS STRING)"
    return ""


def plan_copy_value(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """A field under a second name."""
    plan.computed[transform.get("target.field")] = quote(transform.get("source.field"))
    transform.map_all("tables[].select")


def plan_value_to_key(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """The key is made of the value's fields."""
    plan.key = {"from": "value", "fields": transform.list_items("fields")}
    transform.drop("replace.null.with.default", "a NULL stays NULL")
    transform.map_all("source.key.from: value, source.key.fields")


def plan_extract_field(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """One field in place of a struct: of a key it names the key column."""
    field = transform.get("field")
    if transform.is_of_key:
        plan.key["fields"] = [field]
        transform.map_all(f"source.key.fields: [{field}]")
    else:
        transform.refuse_all(
            f"the row lies below {field}; name its fields in value.schema, and write {field}.a, {field}.b in "
            "tables[].select"
        )


def plan_hoist_field(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """A name for a bare key."""
    if transform.is_of_key:
        plan.key["fields"] = [transform.get("field")]
        transform.map_all(f"source.key.fields: [{transform.get('field')}]")
    else:
        transform.refuse_all("a whole value as one column: use format string or raw, or STRUCT in tables[].select")


def plan_regex_router(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """Another name for a topic: it decides the table where the sink names tables by topics."""
    regex, replacement = transform.get("regex"), transform.get("replacement")
    try:
        re.compile(regex)
    except re.error:
        transform.refuse_all("its regex is not one that Python reads; name the tables in tables[].name yourself")
        return
    plan.topic_renames.append((regex, replacement))
    transform.map_all("tables[].name", "where the sink names a table by its topic; else it has no effect on the table")


def plan_filter(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """Records left out: tombstones by `delete: false`; others by a condition that the user writes."""
    kind, negated = transform.get_predicate("type").rpartition(".")[2], transform.is_true("negate")
    if kind == "RecordIsTombstone" and not negated:
        plan.ignores_tombstones = True
        transform.map_all("tables[].delete: false", "records without a value change nothing")
        return
    transform.refuse_all(f"which records it leaves out ({kind or 'its condition'}) must be written in tables[].when")
    draft.to_fill_in.append(f"tables[].when: the records that the transform {transform.alias} leaves out")
