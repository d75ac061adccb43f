"""Debezium Server with its Iceberg sink: it writes tables by itself, so the events must go through Kafka first."""

import re
from typing import Any

from tidegate.config.destinations.registry import SPARK_DESTINATION
from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import DEBEZIUM_SINK_TYPE, Choices, ConnectorConfig
from tidegate.migration.draft import Draft, PositionSource, SettingsLedger, Transform, Translation
from tidegate.migration.kafka_connect.catalog_settings import choose_catalog_name, plan_catalog
from tidegate.migration.kafka_connect.table_settings import (
    MADE_COLUMNS,
    NEW_FIELDS,
    complete_records,
    note_new_fields,
    parse_partitions,
)
from tidegate.migration.kafka_connect.worker_settings import start_draft
from tidegate.migration.transforms.record_plan import FILL_IN, RecordPlan, build_own_cell
from tidegate.migration.transforms.single_message_transforms import DELETE_OPTIONS, plan_added_fields, use_change_events
from tidegate.sinks.world import World
from tidegate.spec.source import METADATA_TYPES, split_cast

SINK = "debezium.sink.iceberg."
PLAIN_NAME = re.compile(r"[\w.\\]+")
STAYS = "it stays as it is in Debezium, which goes on to read the database"
NO_TOPIC = (
    "Debezium Server writes the tables itself: there is no topic in between, and its position is a place in the "
    "database's log. "
    "Stop it, keep its offset storage, and let Debezium produce to Kafka from there (debezium.sink.type=kafka with the "
    "same debezium.source.*, or a Debezium connector): the new topics begin where it stopped, so read them "
    "from their begin."
)
UPSERT_IS_UNSET = (
    "upsert and delete: no setting says whether the table has one row for each key (true) or one for each change "
    "(false); the default of debezium.sink.iceberg.upsert was true once and is false in newer versions. With "
    "upsert-keep-deletes, which is the default, add deletes: soft and deleted_column: is_deleted."
)
DEFAULT_FIELDS = "op,table,source.ts_ms,source.ts_ns,db,ts_ms,ts_ns"
TIME_COLUMNS = {"__ts_ms", "__source_ts_ms"}  # milliseconds of the event, of which the server makes times
ADDED_COLUMNS = (
    "The columns that Debezium Server adds by default. __ts_ns is NULL in new rows: no metadata word tells it."
)
TABLE_NAME_WORDS = {
    "table-namespace", "table-prefix", "destination-regexp", "destination-regexp-replace",
    "destination-lowercase-table-names", "destination-uppercase-table-names",
}  # fmt: skip
WITHOUT_MEANING = {
    "upsert-op-field": "the change event itself says what it does",
    "upsert-use-dv": "Spark decides how deletes are written",
    "upsert-dedup-column": "offsets order the events of a key; use tables[].sequence_by where they do not",
    "create-identifier-fields": "a table that exists keeps its identifier fields; a new one gets them by key.schema",
    "table-mapper": "tables[].name",
    "openlineage-enabled": "lineage is not a setting of the pipeline",
    "write.format.default": "Spark writes Parquet; set the table's property where it is another format",
}
SINK_WORDS = {
    *TABLE_NAME_WORDS, *WITHOUT_MEANING, "upsert", "upsert-keep-deletes", "catalog-name", "partition-by",
    "allow-field-addition", "excluded-columns", "preserve-required-property", "nested-as-variant", "format-version",
}  # fmt: skip


def translate_debezium_server(config: ConnectorConfig, choices: Choices, world: World) -> Translation:
    ledger = SettingsLedger(config.settings)
    plan = RecordPlan(key={"format": "json"}, value={"format": "json"})
    kind = ledger.get(DEBEZIUM_SINK_TYPE)
    if kind != SPARK_DESTINATION.name:
        raise ConfigurationError(f"{DEBEZIUM_SINK_TYPE}={kind}: only Debezium Server's Iceberg sink is understood")
    name = config.name or ledger.get("debezium.source.topic.prefix") or "debezium"
    sink = ledger.below(SINK)
    catalog = choices.catalog or choose_catalog_name(sink.get("catalog-name"))
    draft = start_draft(name, choices, f"Imported from {name}: {config.kind}", catalog)
    ledger.map(DEBEZIUM_SINK_TYPE, "source.topics", "Debezium must produce to Kafka: see position")
    topics = _plan_topics(ledger, draft, choices)
    _plan_events(ledger, draft, plan)
    draft.data["tables"] = [_plan_table(sink, draft, topic, several=len(topics) > 1) for topic in topics]
    _check_defaults(sink, draft, plan, world)
    _plan_keys(draft, plan, choices, world)
    plan_catalog(sink, draft, SINK_WORDS.union(sink.list_names("partition-by.")))
    sink.drop_each(WITHOUT_MEANING)
    complete_records(draft, plan, world)
    draft.data["merge"] = {"interval": "1m"}
    ledger.drop_below("debezium.source.", STAYS)
    batches = "a batch is what waits when a flush begins: merge.interval, merge.max_records"
    ledger.drop_below("debezium.sink.batch.", batches)
    for prefix in ("quarkus.", "debezium.predicates", "debezium.engine."):
        ledger.drop_below(prefix, "a setting of the server's own process")
    position = PositionSource(reason=NO_TOPIC, from_begin=True)
    return Translation(kind=config.kind, connector=name, draft=draft, settings=ledger.list_reports(), position=position)


def _plan_topics(ledger: SettingsLedger, draft: Draft, choices: Choices) -> list[str]:
    prefix = ledger.get("debezium.source.topic.prefix")
    tables = ledger.list_items("debezium.source.table.include.list")
    table_names = [name.replace("\\.", ".") for name in tables]
    is_plain = all(PLAIN_NAME.fullmatch(name) for name in tables)
    topics = list(choices.topics) or ([f"{prefix}.{name}" for name in table_names] if prefix and is_plain else [])
    if not topics:
        raise ConfigurationError(
            "debezium.source.table.include.list: no setting names the tables one by one; give the topics that Debezium "
            "will produce to with --topic <topic.prefix>.<schema>.<table>"
        )
    source_names = ("debezium.source.topic.prefix", "debezium.source.table.include.list")
    ledger.map_each(source_names, "source.topics", "keep it in Debezium")
    draft.data["source"]["topics"] = topics
    draft.check(("source", "topics"), "The topics that Debezium will produce to; they need not exist yet.")
    return topics


def _plan_events(ledger: SettingsLedger, draft: Draft, plan: RecordPlan) -> None:
    unwrap = Transform(ledger, "unwrap", "debezium.transforms.")
    # the sink flattens events; in Kafka they are whole, and the format reads them
    use_change_events(unwrap, plan)
    name = "debezium.transforms.unwrap.add.fields"
    fields = ledger if ledger.has(name) else SettingsLedger({name: DEFAULT_FIELDS})
    plan_added_fields(Transform(fields, "unwrap", "debezium.transforms."), plan, "add.fields", "__")
    for column in TIME_COLUMNS.intersection(plan.metadata):
        word, _ = split_cast(plan.metadata[column])
        plan.metadata[column] = word
        plan.row.put(column, build_own_cell(column, METADATA_TYPES[word]))
    if fields is not ledger:
        draft.check(("source", "metadata"), ADDED_COLUMNS)
    for option in DELETE_OPTIONS:
        if "rewrite" in unwrap.get(option):
            unwrap.check(option, "tables[].deletes", "the column __deleted that it made is NULL in new rows")
    whole_events = "let Debezium produce whole events: the format reads the row, its operation and its source"
    ledger.drop_below("debezium.transforms", whole_events)
    target = f"source.value.format: {plan.value['format']}"
    ledger.map_each(ledger.list_names("debezium.format."), target, "let Debezium produce JSON with schemas to Kafka")


def _check_defaults(sink: SettingsLedger, draft: Draft, plan: RecordPlan, world: World) -> None:
    for index in range(len(draft.data["tables"]) if not sink.has("upsert") else 0):
        draft.fill_in(("tables", index, "upsert"), UPSERT_IS_UNSET)
    name = "allow-field-addition"
    is_laid_out = any("create" in table and not world.describe_table(table["name"]) for table in draft.data["tables"])
    note_new_fields(sink, plan, name, "tables[].evolve", can_add=not is_laid_out, default=True)
    if plan.value.get("unknown_fields") == "add":
        draft.check(("source", "value"), f"Debezium Server adds columns for new fields; here too, and {MADE_COLUMNS}.")
    elif not sink.has(name) and not plan.row.is_typed:
        draft.check(("source", "value"), f"Debezium Server adds columns for new fields; here {NEW_FIELDS}.")


def _plan_table(sink: SettingsLedger, draft: Draft, topic: str, *, several: bool) -> dict[str, Any]:
    name = f"{draft.catalog_name}.{sink.get('table-namespace', 'default')}.{_name_table(sink, topic)}"
    upserts: bool | str = sink.is_true("upsert") if sink.has("upsert") else FILL_IN
    keeps = sink.is_true("upsert-keep-deletes", default=True)
    table: dict[str, Any] = {"name": name} | ({"topics": [topic]} if several else {})
    table |= {"upsert": upserts, "delete": upserts}
    if upserts is True and keeps:
        table |= {"deletes": "soft", "deleted_column": "is_deleted"}
    sink.map_each(TABLE_NAME_WORDS, "tables[].name")
    sink.map("catalog-name", f"catalogs.yaml: {draft.catalog_name}")
    target = f"tables[].upsert, tables[].delete: {str(upserts).lower()}"
    if upserts:
        sink.map("upsert", target)
    else:
        sink.check("upsert", target, "it appended deletes as rows too; here a table that is appended to has none")
    if keeps:
        difference = (
            "the sink wrote __deleted; here the BOOLEAN column is is_deleted, and __deleted is NULL in new rows"
        )
        sink.check("upsert-keep-deletes", "tables[].deletes: soft", difference)
    else:
        sink.map("upsert-keep-deletes", "tables[].deletes: hard")
    return {**table, **_plan_creation(sink, draft, topic)}


def _name_table(sink: SettingsLedger, topic: str) -> str:
    # as the sink's own mapper does
    table_name = topic
    if sink.get("destination-regexp"):
        replacement = re.sub(r"\$(\d+)", r"\\\1", sink.get("destination-regexp-replace"))
        table_name = re.sub(sink.get("destination-regexp"), replacement, topic)
    name = f"{sink.get('table-prefix')}{table_name.replace('.', '_')}"
    if sink.is_true("destination-uppercase-table-names"):
        return name.upper()
    return name.lower() if sink.is_true("destination-lowercase-table-names") else name


def _plan_creation(sink: SettingsLedger, draft: Draft, topic: str) -> dict[str, Any]:
    own_setting = f"partition-by.{topic}"
    default = "partition-by"
    partitions = parse_partitions(sink.get(own_setting) or sink.get(default))
    entry: dict[str, Any] = {"create": {"partition_by": partitions}} if partitions else {}
    sink.map_each((own_setting, default), "tables[].create.partition_by", "for a table that is still to be made")
    adds = sink.is_true("allow-field-addition", default=True)
    entry |= {} if adds else {"evolve": {"add_columns": False, "widen": False, "relax": False}}
    excluded = "leave the columns out of value.schema, or of Debezium's events (column.exclude.list)"
    sink.refuse("excluded-columns", excluded)
    sink.refuse("preserve-required-property", "NOT NULL in value.schema makes a required column")
    sink.refuse("nested-as-variant", "there is no variant type before format 3; declare STRUCT, MAP or STRING")
    version = sink.get("format-version", "3")
    if version == "2":
        sink.map("format-version", "tables[].create.format_version: 2 is the default")
        return entry
    sink.map("format-version", "tables[].create.format_version: 3")
    entry["create"] = {**entry.get("create", {}), "format_version": 3}
    text = (
        "create.format_version is 3, as Debezium Server makes tables unless format-version=2 is set; set it to 2 for "
        "engines that do not read format 3."
    )
    if text not in draft.to_check:
        draft.to_check.append(text)
    return entry


def _plan_keys(draft: Draft, plan: RecordPlan, choices: Choices, world: World) -> None:
    plan.key |= {"fields": list(choices.key_fields)}
    for index, table in enumerate(draft.data["tables"]):
        shape = None if choices.key_fields else world.describe_table(table["name"])
        fields = list(choices.key_fields) or list(shape.identifiers if shape else ())
        if not fields and table["upsert"]:
            draft.fill_in(("source", "key"), "fields: the primary key's columns (--key a,b); the table tells none.")
        elif index == 0:
            plan.key["fields"] = fields
        # one that differs stands beside its own table
        elif fields != plan.key["fields"]:
            table["key"] = {"format": "json", "fields": fields}
