"""Single-message transforms of Kafka Connect, one by one, in the order in which the connector applies them."""

from collections.abc import Callable

from tidegate.migration.draft import Draft
from tidegate.migration.settings_ledger import SettingsLedger
from tidegate.migration.transforms import change_transforms, field_transforms
from tidegate.migration.transforms.record_plan import RecordPlan
from tidegate.migration.transforms.transform import Transform

HEADERS_ONLY = "headers become columns by source.metadata alone"
Plan = Callable[[Transform, RecordPlan, Draft], None]
PLANS: dict[str, Plan] = {
    "ExtractNewRecordState": change_transforms.plan_unwrap,
    "DebeziumTransform": change_transforms.plan_debezium_transform,
    "DmsTransform": change_transforms.plan_dms,
    "KafkaMetadataTransform": change_transforms.plan_kafka_metadata,
    "ByLogicalTableRouter": change_transforms.refuse_router,
    "InsertField": field_transforms.plan_insert_field,
    "ReplaceField": field_transforms.plan_replace_field,
    "MaskField": field_transforms.plan_mask_field,
    "Cast": field_transforms.plan_cast,
    "TimestampConverter": field_transforms.plan_timestamp,
    "CopyValue": field_transforms.plan_copy_value,
    "ValueToKey": field_transforms.plan_value_to_key,
    "ExtractField": field_transforms.plan_extract_field,
    "HoistField": field_transforms.plan_hoist_field,
    "RegexRouter": field_transforms.plan_regex_router,
    "Filter": field_transforms.plan_filter,
}
WITHOUT_EFFECT = {
    "SetSchemaMetadata": "names of schemas have no meaning for the table",
    "DropHeaders": HEADERS_ONLY,
    "InsertHeader": HEADERS_ONLY,
    "HeaderFrom": HEADERS_ONLY,
}
REASONS = {
    "Flatten": "name each field in tables[].select, e.g. customer.name AS customer_name (docs/transforms.md, Flatten)",
    "TimestampRouter": "a table for each time is not made; partition one table by the time with create.partition_by",
    "JsonToMapTransform": "use from_json in tables[].select (docs/transforms.md, JSON in a string)",
    "MongoDebeziumTransform": "use the Debezium format for the value, with key.json.extended "
    "(docs/formats.md, MongoDB)",
    "MessageTimestampRouter": "a table for each time is not made; partition one table by the time",
    "TopicRegexRouter": "name the tables in tables[].name",
}


def plan_transforms(ledger: SettingsLedger, draft: Draft, plan: RecordPlan) -> None:
    """Add what the connector's transforms do to the plan, and note each of their settings."""
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
    known = PLANS.get(transform.short_class)
    if transform.is_conditional and transform.short_class != "Filter":
        transform.refuse_all(
            "it is applied to some records alone (a predicate); write its effect as CASE WHEN ... in tables[].select"
        )
    elif known is not None:
        known(transform, plan, draft)
        transform.refuse_rest(f"an option of {transform.short_class} that is not mapped; see docs/transforms.md")
    elif transform.short_class in WITHOUT_EFFECT:
        transform.drop_all(WITHOUT_EFFECT[transform.short_class])
    else:
        reason = REASONS.get(transform.short_class, "write what it does in tables[].select, when or route")
        transform.refuse_all(f"{transform.short_class or 'a transform without a type'}: {reason}")
    if transform.is_refused:
        draft.check(("tables",), f"The transform {transform.alias} ({transform.short_class}) is not in this file.")
