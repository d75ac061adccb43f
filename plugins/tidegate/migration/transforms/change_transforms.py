"""Transforms that take change events apart, or tell where a record lay: here a value's format and metadata do it."""

from tidegate.formats.registry import FORMATS
from tidegate.migration.draft import Draft
from tidegate.migration.transforms.record_plan import RecordPlan
from tidegate.migration.transforms.transform import Transform
from tidegate.sql.spark import quote, render_literal

# a field that Debezium adds -> the metadata word of the same type
ADDED_FIELDS = {
    "op": "value.op", "table": "value.source.table", "source.table": "value.source.table",
    "db": "value.source.database", "source.db": "value.source.database", "schema": "value.source.schema",
    "source.schema": "value.source.schema", "lsn": "value.source.lsn", "source.lsn": "value.source.lsn",
    "pos": "value.source.pos", "source.pos": "value.source.pos", "file": "value.source.file",
    "source.file": "value.source.file", "txId": "value.source.txId", "source.txId": "value.source.txId",
    "scn": "value.source.scn", "source.scn": "value.source.scn", "source.snapshot": "value.source.snapshot",
    "source.ts_us": "value.source.ts_us", "source.ts_ns": "value.source.ts_ns",
    "row": "value.source.row", "source.row": "value.source.row", "commit_lsn": "value.source.commit_lsn",
    "source.commit_lsn": "value.source.commit_lsn", "change_lsn": "value.source.change_lsn",
    "source.change_lsn": "value.source.change_lsn", "event_serial_no": "value.source.event_serial_no",
    "source.event_serial_no": "value.source.event_serial_no",
}  # fmt: skip
ROUTED = "name the tables in tables[], each with its topics"


def plan_unwrap(transform: Transform, plan: RecordPlan, draft: Draft) -> None:
    """ExtractNewRecordState: the value is a change event, which its format reads by itself."""
    if not use_change_events(transform, plan):
        return
    transform.map("type", f"source.value.format: {plan.value['format']}", "deletes included")
    prefix = transform.get("add.fields.prefix", "__")
    for option in ("add.fields", "add.headers"):
        plan_added_fields(transform, plan, option, prefix)
    transform.map("add.fields.prefix", "source.metadata")
    transform.drop("add.headers.prefix", "headers become columns by source.metadata alone")
    for option in ("drop.tombstones", "drop.deletes"):
        transform.drop(option, "a delete event deletes; the tombstone behind it changes nothing more")
    for option in ("delete.handling.mode", "delete.tombstone.handling.mode"):
        _plan_delete_handling(transform, draft, option)
    transform.drop("operation.header", "use value.op in source.metadata where a column needs it")
    if transform.get("route.by.field"):
        transform.refuse("route.by.field", ROUTED)


def use_change_events(transform: Transform, plan: RecordPlan) -> bool:
    """Choose Debezium's format of the same encoding; False, with every option noted, where there is none."""
    encoding = plan.value.get("format", "json")
    name = f"debezium-{encoding}"
    if name not in FORMATS or plan.value.get("json", {}).get("registry"):
        transform.refuse_all(
            f"Debezium's events in {encoding}{' with a registry' if name in FORMATS else ''} are not read; take the "
            "event apart in tables[].select and delete_when (docs/transforms.md, Unwrap change events)"
        )
        return False
    plan.value.pop("json", None)  # the envelope's schema is seen in each record
    plan.value["format"], plan.is_change_event = name, True
    plan.is_typed = bool(FORMATS[name].schema)
    return True


def plan_added_fields(transform: Transform, plan: RecordPlan, option: str, prefix: str) -> None:
    """Debezium's added fields as metadata columns of the same name and type."""
    if option == "add.headers":
        transform.drop(option, "headers become columns by source.metadata alone")
        return
    untyped: list[str] = []
    for field in transform.list_items(option):
        name, _, new_name = field.partition(":")
        column = f"{prefix}{(new_name or name).replace('.', '_')}"
        if name in ADDED_FIELDS:
            plan.metadata[column] = ADDED_FIELDS[name]
        else:
            untyped.append(column)
    transform.map(option, "source.metadata")
    if untyped:
        transform.refuse(
            option,
            f"columns {', '.join(untyped)}: no metadata word has their type (a number of milliseconds is a TIMESTAMP "
            "here: value.source.timestamp, value.ingestion-timestamp); new rows have NULL there; read them under "
            "another column's name",
        )


def _plan_delete_handling(transform: Transform, draft: Draft, option: str) -> None:
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


def plan_dms(transform: Transform, _: RecordPlan, draft: Draft) -> None:
    """AWS DMS: the row lies under `data`; its fields stand in no setting."""
    transform.refuse_all(
        "the fields below `data` stand in no setting; copy the example of docs/transforms.md, DMS envelope"
    )
    draft.to_fill_in.append("value.schema, when, delete_when and select of the DMS envelope (docs/transforms.md)")


def plan_kafka_metadata(transform: Transform, plan: RecordPlan, _: Draft) -> None:
    """Where the record lay, as columns `_kafka_metadata_topic` and so on, or as one struct."""
    name = transform.get("field_name", "_kafka_metadata")
    extra = transform.get("external_field").partition(",")
    if transform.is_true("nested"):
        _plan_nested_metadata(plan, name, extra)
        transform.map_all("tables[].select", f"the struct {name}")
        return
    plan.metadata |= {f"{name}_topic": "topic", f"{name}_partition": "partition", f"{name}_offset": "offset"}
    plan.computed[f"{name}_timestamp"] = "CAST(unix_millis(timestamp) AS BIGINT)"
    if extra[1]:
        plan.computed[f"{name}_{extra[0]}"] = f"CAST({render_literal(extra[2])} AS STRING)"
    transform.map_all("source.metadata, tables[].select", f"columns {name}_topic, _partition, _offset and _timestamp")


def _plan_nested_metadata(plan: RecordPlan, name: str, extra: tuple[str, str, str]) -> None:
    values = "'topic', topic, 'partition', partition, 'offset', offset, 'timestamp', unix_millis(timestamp)"
    types = "topic: STRING, partition: INT, offset: BIGINT, timestamp: BIGINT"
    if extra[1]:
        values += f", {render_literal(extra[0])}, {render_literal(extra[2])}"
        types += f", {quote(extra[0])}: STRING"
    plan.computed[name] = f"CAST(named_struct({values}) AS STRUCT<{types}>)"


def refuse_router(transform: Transform, _: RecordPlan, __: Draft) -> None:
    """Debezium's router gives topics other names, by which a sink chooses tables."""
    transform.refuse_all(ROUTED)
