"""Single-message transforms of Kafka Connect, folded one by one, in the order in which the connector applies them.

One that cannot be folded is reported as not mapped. If it leaves columns out, or makes another row, the user must fill
in the select: the file must not show what the sink does not.
"""

import re
from collections.abc import Callable

from tidegate.formats.registry import FORMATS, SOURCE_TYPES
from tidegate.migration.draft import Draft, SettingsLedger, Transform
from tidegate.migration.transforms.record_plan import FILL_IN, Cell, RecordPlan, build_own_cell, compute
from tidegate.spec.projection import RECORD_COLUMNS
from tidegate.spec.source import METADATA_TYPES, name_cast, split_cast
from tidegate.sql.spark import quote, render_literal

Plan = Callable[[Transform, RecordPlan, Draft], None]

HEADERS_ONLY = "headers become columns by source.metadata alone"
STAYS_NULL = "a NULL stays NULL"
DEFAULTS = "replace.null.with.default"
DEFAULT_OF_SCHEMA = "the schema's default in the place of a NULL"
READ_DEFAULTS = ("InsertField", "ReplaceField", "MaskField", "ValueToKey")
OF_KEY = "it changes the record's key; say in source.key what the key columns are"
KEY_IS_NOT_READ = "the sink does not read the record's key"
ROUTED = "name the tables in tables[], each with its topics"
TYPES_OF_PLACE = {column.name: column.type for column in RECORD_COLUMNS}
FIELDS_OF_SOURCE = ("table", "schema", *SOURCE_TYPES)
ONLY_WITH_PREFIX = ("snapshot", "ts_us", "ts_ns")
# a field that Debezium adds -> the metadata word of the same type
ADDED_FIELDS = {
    "op": "value.op",
    "db": "value.source.database",
    "source.db": "value.source.database",
    "ts_ms": name_cast("value.ingestion-timestamp", "BIGINT"),
    "source.ts_ms": name_cast("value.source.timestamp", "BIGINT"),
    **{f"source.{name}": f"value.source.{name}" for name in FIELDS_OF_SOURCE},
    **{name: f"value.source.{name}" for name in FIELDS_OF_SOURCE if name not in ONLY_WITH_PREFIX},
}
EMPTY_VALUES = {
    "STRING": "''", "BOOLEAN": "false",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"), "0"),
}  # fmt: skip


# ---- where the record lay, and fixed texts


def plan_insert_field(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """Where the record lay, and a fixed text, as columns."""
    for word in TYPES_OF_PLACE:
        column = transform.get(f"{word}.field").rstrip("!?")
        if not column:
            continue
        if _insert_place(plan, column, word):
            transform.map(f"{word}.field", f"source.metadata.{column}: {word}")
        else:
            transform.refuse(f"{word}.field", f"the record has a field {word} of its own; write it in tables[].select")
    column = transform.get("static.field").rstrip("!?")
    if column:
        plan.row.put(column, compute(render_literal(transform.get("static.value")), "STRING"))
        transform.map_each(("static.field", "static.value"), f"tables[].select ... AS {column}")
    transform.map("type", "source.metadata, tables[].select")


def _insert_place(plan: RecordPlan, column: str, word: str) -> bool:
    """A column of the record's topic, partition, offset or time; False where a field of that name hides it."""
    # a metadata column would be read from a field of the column's name, if the record has, or had, one
    if not plan.row.is_known(column):
        plan.metadata[column] = word
        plan.row.put(column, build_own_cell(column, TYPES_OF_PLACE[word]))
        return True
    if plan.row.is_known(word):
        return False
    plan.row.put(column, compute(word, TYPES_OF_PLACE[word]))
    return True


def plan_kafka_metadata(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """Where the record lay, as columns `_kafka_metadata_topic` and so on, or as one struct."""
    name = transform.get("field_name", "_kafka_metadata")
    extra_name, _comma, extra_value = transform.get("external_field").partition(",")
    if any(plan.row.is_known(word) for word in TYPES_OF_PLACE):
        transform.refuse_all("the record has a field called topic, partition, offset or timestamp of its own")
        return
    if transform.is_true("nested"):
        values = "'topic', topic, 'partition', partition, 'offset', offset, 'timestamp', unix_millis(timestamp)"
        types = "topic: STRING, partition: INT, offset: BIGINT, timestamp: BIGINT"
        if extra_value:
            values += f", {render_literal(extra_name)}, {render_literal(extra_value)}"
            types += f", {quote(extra_name)}: STRING"
        plan.row.put(name, compute(f"named_struct({values})", f"STRUCT<{types}>"))
        transform.map_rest("tables[].select", f"the struct {name}")
        return
    for word in ("topic", "partition", "offset"):
        _insert_place(plan, f"{name}_{word}", word)
    plan.row.put(f"{name}_timestamp", compute("unix_millis(timestamp)", "BIGINT"))
    if extra_value:
        plan.row.put(f"{name}_{extra_name}", compute(render_literal(extra_value), "STRING"))
    transform.map_rest("source.metadata, tables[].select", f"columns {name}_topic, _partition, _offset and _timestamp")


# ---- columns left out, renamed, masked, copied


def plan_replace_field(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    excluded = [*transform.list_items("exclude"), *transform.list_items("blacklist")]
    included = [*transform.list_items("include"), *transform.list_items("whitelist")]
    renamed = {old: new for old, _colon, new in (pair.partition(":") for pair in transform.list_items("renames"))}
    problem = plan.row.replace_fields(excluded, included, renamed)
    if problem:
        transform.refuse_all(f"{problem}; write the columns in tables[].select")
        return
    transform.map_each(("exclude", "blacklist"), "tables[].select: * EXCEPT (...)")
    transform.map_each(("include", "whitelist", "renames", "type"), "tables[].select")


def plan_mask_field(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """A fixed value in place of a field's own; NULL stays NULL."""
    masked: dict[str, Cell] = {}
    for column in transform.list_items("fields"):
        cell = plan.row.find(column)
        if cell is None:
            continue
        kind = cell.type or "STRING"
        text = transform.get("replacement")
        value = EMPTY_VALUES.get(kind)
        if text and value is not None and kind != "BOOLEAN":
            value = render_literal(text)
        if value is None:
            transform.refuse_all(f"{column} is a {kind} here; write the mask in tables[].select")
            return
        masked[column] = compute(f"CASE WHEN {cell.sql} IS NOT NULL THEN {value} END", kind, cell.reads)
        if not cell.type:
            draft.check(
                ("tables",), f"The column {column} is masked as a STRING: correct the CAST where it has another type."
            )
    for column, cell in masked.items():
        plan.row.put(column, cell)
    transform.map_rest("tables[].select", "CAST(... AS type) for each field")


def plan_copy_value(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """A column under a second name, as it is at this moment."""
    cell = plan.row.find(transform.get("source.field")) or compute("NULL", "STRING")
    plan.row.put(transform.get("target.field"), cell)
    transform.map_rest("tables[].select")


# ---- the key


def plan_value_to_key(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    names = transform.list_items("fields")
    cells = [plan.row.find(name) for name in names]
    changed = [name for name, cell in zip(names, cells, strict=True) if cell is None or cell.field in plan.metadata
               or cell.field != name]  # fmt: skip
    if changed:
        transform.refuse_all(f"{changed[0]} is no field of the value, unchanged, where it becomes the key; {OF_KEY}")
        return
    plan.key = {"from": "value", "fields": names}
    transform.map_rest("source.key.from: value, source.key.fields")


def plan_extract_field(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """One field in place of a struct: of a key it names the key column."""
    field = transform.get("field")
    if not transform.is_of_key:
        transform.refuse_all(
            f"the row lies below {field}; name its fields in value.schema, and write {field}.a, {field}.b in "
            "tables[].select"
        )
        return
    plan.key["fields"] = [field]
    transform.map_rest(f"source.key.fields: [{field}]")


def plan_hoist_field(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """A name for a bare key."""
    field = transform.get("field")
    if not transform.is_of_key:
        transform.refuse_all("a whole value as one column: use format string or raw, or STRUCT in tables[].select")
    elif plan.key.get("fields", [field]) != [field]:
        transform.refuse_all(OF_KEY)
    else:
        plan.key["fields"] = [field]
        transform.map_rest(f"source.key.fields: [{field}]")


# ---- change events

DELETE_OPTIONS = ("delete.handling.mode", "delete.tombstone.handling.mode")
SECOND_DELETE = "a delete event deletes; the tombstone behind it changes nothing more"
WITHOUT_USE_IN_EVENTS = {
    "add.headers.prefix": HEADERS_ONLY,
    "drop.tombstones": SECOND_DELETE,
    "drop.deletes": SECOND_DELETE,
    "operation.header": "use value.op in source.metadata where a column needs it",
}


def plan_unwrap(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """ExtractNewRecordState: the value is a change event, which its format reads by itself."""
    if not use_change_events(transform, plan):
        return
    transform.map("type", f"source.value.format: {plan.value['format']}", "deletes included")
    prefix = transform.get("add.fields.prefix", "__")
    for option in ("add.fields", "add.headers"):
        plan_added_fields(transform, plan, option, prefix)
    transform.map("add.fields.prefix", "source.metadata")
    transform.drop_each(WITHOUT_USE_IN_EVENTS)
    for option in DELETE_OPTIONS:
        _plan_delete_handling(transform, option)
    if transform.get("route.by.field"):
        transform.refuse("route.by.field", ROUTED)


def use_change_events(transform: Transform, plan: RecordPlan) -> bool:
    """Choose Debezium's format of the same encoding; False, with every option noted, where there is none."""
    encoding = plan.value.get("format", "json")
    name = f"debezium-{encoding}"
    if plan.row.is_changed:
        transform.refuse_all("another transform changes the event before it is taken apart; put this one first")
        return False
    if name not in FORMATS or plan.value.get("json", {}).get("registry"):
        transform.refuse_all(
            f"Debezium's events in {encoding}{' with a registry' if name in FORMATS else ''} are not read; take the "
            "event apart in tables[].select and delete_when (docs/transforms.md, Unwrap change events)"
        )
        return False
    plan.value.pop("json", None)  # the envelope's schema is seen in each record
    plan.value["format"] = name
    plan.is_change_event = True
    plan.row.is_typed = bool(FORMATS[name].schema)
    return True


def plan_added_fields(transform: Transform, plan: RecordPlan, option: str, prefix: str) -> None:
    """Debezium's added fields as metadata columns of the same name and type."""
    if option == "add.headers":
        transform.drop(option, HEADERS_ONLY)
        return
    untyped: list[str] = []
    types = FORMATS[plan.value["format"]].metadata
    for field in transform.list_items(option):
        name, _, new_name = field.partition(":")
        column = f"{prefix}{(new_name or name).replace('.', '_')}"
        if name in ADDED_FIELDS:
            plan.metadata[column] = ADDED_FIELDS[name]
            kind = METADATA_TYPES[ADDED_FIELDS[name]] if split_cast(ADDED_FIELDS[name])[0] in types else "STRING"
            plan.row.put(column, build_own_cell(column, kind))
        else:
            untyped.append(column)
    transform.map(option, "source.metadata")
    if untyped:
        transform.refuse(
            option,
            f"columns {', '.join(untyped)}: no metadata word tells them; new rows have NULL there; read what "
            "source.metadata has under another column's name",
        )


def _plan_delete_handling(transform: Transform, option: str) -> None:
    mode = transform.get(option)
    if "rewrite" in mode:
        transform.refuse(
            option,
            f"{mode}: the transform keeps deleted rows with __deleted = 'true', a text; here delete events delete the "
            "row where tables[].delete is true; write deletes: soft to keep rows, with a BOOLEAN deleted_column of "
            "another name",
        )
    else:
        transform.map(option, "tables[].delete", f"{mode or 'default'}: see the table's delete")


def plan_debezium_transform(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """The Iceberg sink's own: the row of the event, and a struct `_cdc` beside it."""
    if not use_change_events(transform, plan):
        return
    transform.map("type", f"source.value.format: {plan.value['format']}")
    transform.refuse("cdc.target.pattern", ROUTED)
    draft.check(
        ("source", "value"),
        "The connector wrote a struct _cdc (op, ts, offset, source, target, key) beside each row. New rows have NULL "
        "there; source.metadata can write value.op, offset and value.source.timestamp into columns of other names.",
    )


# ---- topics and records


def plan_regex_router(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """Another name for a topic: it decides the table where the sink names tables by topics."""
    regex = transform.get("regex")
    replacement = transform.get("replacement")
    try:
        re.compile(regex)
    except re.error:
        transform.refuse_all("its regex is not one that Python reads; name the tables in tables[].name yourself")
        return
    plan.topic_renames.append((regex, replacement))
    transform.map_rest("tables[].name", "where the sink names a table by its topic; else it has no effect on the table")


def plan_filter(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """Records left out: tombstones by `delete: false`; others by a condition that the user writes."""
    kind = transform.get_predicate_type().rpartition(".")[2]
    if kind == "RecordIsTombstone" and not transform.is_true("negate"):
        plan.ignores_tombstones = True
        transform.map_rest("tables[].delete: false", "records without a value change nothing")
        return
    transform.refuse_all(f"which records it leaves out ({kind or 'its condition'}) must be written in tables[].when")
    plan.when = FILL_IN
    draft.to_fill_in.append(f"tables[].when: the records that the transform {transform.alias} leaves out")


# ---- all of them, in order

PLANS: dict[str, Plan] = {
    "ExtractNewRecordState": plan_unwrap,
    "DebeziumTransform": plan_debezium_transform,
    "KafkaMetadataTransform": plan_kafka_metadata,
    "InsertField": plan_insert_field,
    "ReplaceField": plan_replace_field,
    "MaskField": plan_mask_field,
    "CopyValue": plan_copy_value,
    "ValueToKey": plan_value_to_key,
    "ExtractField": plan_extract_field,
    "HoistField": plan_hoist_field,
    "RegexRouter": plan_regex_router,
    "Filter": plan_filter,
}
# those that can be applied to a key: it is read as source.key says
OF_KEY_TOO = ("ValueToKey", "ExtractField", "HoistField")
# those that see no value: whatever row the transforms before them have made, they do the same
OF_NO_VALUE = ("RegexRouter", "Filter")
# those without which a column has another type or unit, and shows nothing more
CONVERSIONS = ("Cast", "TimestampConverter", "ValueToKey")
WITHOUT_EFFECT = {
    "SetSchemaMetadata": "names of schemas have no meaning for the table",
    "DropHeaders": HEADERS_ONLY,
    "InsertHeader": HEADERS_ONLY,
    "HeaderFrom": HEADERS_ONLY,
}
ROUTERS = {
    "TimestampRouter": "a table for each time is not made; partition one table by the time with create.partition_by",
    "MessageTimestampRouter": "a table for each time is not made; partition one table by the time",
    "TopicRegexRouter": "name the tables in tables[].name",
    "ByLogicalTableRouter": ROUTED,
}
REASONS = ROUTERS | {
    "Cast": "a column has the type of value.schema, and value.json.numbers: lenient reads numbers in quotes; or write "
    "CAST in tables[].select",
    "TimestampConverter": "value.timestamp_unit reads a number as a time; else write timestamp_millis, to_timestamp or "
    "date_format in tables[].select (docs/transforms.md, Timestamps)",
    "Flatten": "name each field in tables[].select, e.g. customer.name AS customer_name (docs/transforms.md, Flatten)",
    "DmsTransform": "the fields below `data` stand in no setting; write value.schema, when, delete_when and select "
    "(docs/transforms.md, DMS envelope)",
    "JsonToMapTransform": "use from_json in tables[].select (docs/transforms.md, JSON in a string)",
    "MongoDebeziumTransform": "use the Debezium format for the value, with key.json.extended "
    "(docs/formats.md, MongoDB)",
}


def plan_transforms(ledger: SettingsLedger, draft: Draft, plan: RecordPlan) -> None:
    """Add the effects of the connector's transforms to the plan, and account for each of their settings."""
    aliases = ledger.list_items("transforms")
    ledger.map("transforms", "each transform below")
    for alias in aliases:
        _plan_transform(Transform(ledger, alias), plan, draft)
    for name in ledger.list_names("transforms."):
        if name.split(".")[1] not in aliases:
            ledger.drop(name, "it belongs to no transform in the list `transforms`, so the connector does not use it")
    used_predicates = {ledger.get(f"transforms.{alias}.predicate") for alias in aliases}
    ledger.map("predicates", "with the transforms that use them")
    for name in ledger.list_names("predicates."):
        if name.split(".")[1] not in used_predicates:
            ledger.drop(name, "no transform uses this predicate")
        else:
            ledger.map(name, "with the transform that uses it")


def _plan_transform(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    kind = transform.short_class
    known = PLANS.get(kind)
    if kind in WITHOUT_EFFECT:
        transform.drop_rest(WITHOUT_EFFECT[kind])
    elif (transform.is_of_key or kind == "ValueToKey") and not plan.key:
        transform.drop_rest(KEY_IS_NOT_READ)
    elif transform.is_of_key and kind not in OF_KEY_TOO:
        transform.refuse_all(OF_KEY)
    elif plan.lost_by and not transform.is_of_key and kind not in (*OF_NO_VALUE, *ROUTERS):
        transform.refuse_all(f"it changes the row that {plan.lost_by} makes, which is not in this file")
    elif transform.is_conditional and kind != "Filter":
        transform.refuse_all(
            "it is applied to some records alone (a predicate); write its effect as CASE WHEN ... in tables[].select"
        )
    elif known is not None:
        if kind in READ_DEFAULTS:
            _note_defaults(transform, plan, draft)
        known(transform, plan, draft)
        for option in ("predicate", "negate") if kind != "Filter" else ():
            transform.drop(option, "a tombstone has no value that could be changed")
    else:
        reason = REASONS.get(kind, "write what it does in tables[].select, when or route")
        transform.refuse_all(f"{kind or 'a transform without a type'}: {reason}")
    _note_missing(transform, plan, draft)
    transform.refuse_rest(f"an option of {kind} that is not mapped; see docs/transforms.md")


def _note_defaults(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """Account for a transform that reads the default of a field's schema where the field is NULL."""
    has_schema = plan.row.is_typed or plan.value.get("json", {}).get("envelope")
    if not has_schema or not transform.is_true(DEFAULTS, default=True):
        transform.drop(DEFAULTS, STAYS_NULL)
    elif transform.has(DEFAULTS):
        transform.check(DEFAULTS, "tables[].select", f"it puts {DEFAULT_OF_SCHEMA}; here {STAYS_NULL}")
    else:
        reason = "as Kafka Connect's transforms do by default"
        draft.check(
            ("tables",), f"tables[].select: {transform.alias} puts {DEFAULT_OF_SCHEMA}, {reason}; here {STAYS_NULL}."
        )


def _note_missing(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    if not transform.is_refused:
        return
    kind = transform.short_class
    draft.check(("tables",), f"The transform {transform.alias} ({kind}) is not in this file.")
    if kind in (*OF_NO_VALUE, *CONVERSIONS, *ROUTERS) or not transform.is_refused_whole:
        return
    plan.missing.append(transform.alias)
    if not transform.is_of_key:
        plan.lost_by = plan.lost_by or transform.alias
