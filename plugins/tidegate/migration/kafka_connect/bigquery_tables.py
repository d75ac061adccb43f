"""The BigQuery sink's settings of its tables: names by topics, partitions, the key's column, and Kafka's data."""

import re
from typing import Any

from tidegate.config.destinations.registry import DESTINATIONS, SPARK_DESTINATION
from tidegate.migration.connector_config import Choices
from tidegate.migration.draft import Draft
from tidegate.migration.settings_ledger import SettingsLedger
from tidegate.migration.transforms.record_plan import RecordPlan
from tidegate.schema.data_types import Struct, parse_type
from tidegate.sinks.world import World

INGESTION_TIME = next(d for d in DESTINATIONS.values() if d is not SPARK_DESTINATION).partition_columns[0]
DAY_MS = 86_400_000
GROUP_REFERENCE = re.compile(r"\$(\d+|\{\w+\})")
SINGLE_VALUE_FORMATS = ("string", "raw")


def plan_tables(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, topics: list[str]) -> list[dict[str, Any]]:
    """One table for each topic; topics that lead to one table share an entry."""
    tables: dict[str, list[str]] = {}
    for topic in topics:
        tables.setdefault(f"{draft.catalog_name}.{_name_table(ledger, plan, topic)}", []).append(topic)
    for name in ("topic2TableMap", "defaultDataset", "sanitizeTopics", "datasets"):
        ledger.map(name, "tables[].name")
    if "topic_pattern" in draft.data["source"]:
        draft.data["source"]["topics"] = sorted(topics)
        del draft.data["source"]["topic_pattern"]
        draft.check(
            ("source", "topics"),
            "The topics that matched topics.regex. A new one needs a table of its own in this file.",
        )
    entries: list[dict[str, Any]] = []
    for index, (name, feeding) in enumerate(tables.items()):
        entries.append({"name": name} | ({"topics": feeding} if len(topics) > 1 else {}))
        if len(feeding) > 1 and (ledger.is_true("upsertEnabled") or ledger.is_true("deleteEnabled")):
            entries[-1]["disjoint_keys"] = True
            draft.check(
                ("tables", index, "disjoint_keys"),
                "Several topics feed this table: make sure that no two have the same key.",
            )
    return entries


def _name_table(ledger: SettingsLedger, plan: RecordPlan, topic: str) -> str:
    """``dataset.table``, as the sink makes it of a topic."""
    mapped = dict(pair.partition(":")[::2] for pair in ledger.list_items("topic2TableMap"))
    table_name = topic
    for regex, replacement in plan.topic_renames:
        match = re.fullmatch(regex, table_name)
        if match is not None:
            table_name = match.expand(GROUP_REFERENCE.sub(lambda m: f"\\g<{m[1].strip('{}')}>", replacement))
    datasets = dict(pair.partition("=")[::2] for pair in ledger.list_items("datasets"))
    dataset = ledger.get("defaultDataset") or next(
        (name for pattern, name in datasets.items() if re.fullmatch(pattern, topic)), "FILL_IN"
    )
    if mapped:
        return f"{dataset}.{mapped.get(table_name, table_name)}"
    before, _, table = table_name.rpartition(":")
    return f"{before or dataset}.{_sanitize(table) if ledger.is_true('sanitizeTopics') else table}"


def _sanitize(name: str) -> str:
    cleaned = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return cleaned if re.match(r"[a-zA-Z_]", cleaned) else f"_{cleaned}"


def note_creation(ledger: SettingsLedger, draft: Draft) -> None:
    """Partitions, clusters and evolution, the same for each table."""
    create: dict[str, Any] = {}
    if not ledger.is_true("autoCreateTables", default=True):
        create["enabled"] = False
    partition = _find_partition(ledger)
    if partition:
        create["partition_by"] = [partition]
    clusters = ledger.list_items("clusteringPartitionFieldNames")
    if clusters:
        create["cluster_by"] = clusters
    properties = _read_properties(ledger, partition)
    if properties:
        create["properties"] = properties
    if ledger.is_true("allBQFieldsNullable"):
        create["force_optional"] = True
    adds = ledger.is_true("allowNewBigQueryFields")
    relaxes = ledger.is_true("allowBigQueryRequiredFieldRelaxation")
    evolve = {"add_columns": adds, "widen": False, "relax": relaxes}
    for table in draft.data["tables"]:
        table.update({"create": create} if create else {})
        table.update({"evolve": evolve})
    ledger.map("autoCreateTables", "tables[].create.enabled")
    for name in ("timestampPartitionFieldName", "timePartitioningType"):
        ledger.map(name, f"tables[].create.partition_by: [{partition}]")
    ledger.map("clusteringPartitionFieldNames", "tables[].create.cluster_by")
    ledger.map("partitionExpirationMs", "tables[].create.properties.partition_expiration_days")
    ledger.map("allBQFieldsNullable", "tables[].create.force_optional")
    ledger.map("allowNewBigQueryFields", "tables[].evolve.add_columns")
    ledger.map("allowBigQueryRequiredFieldRelaxation", "tables[].evolve.relax")


def _find_partition(ledger: SettingsLedger) -> str:
    """Tables are partitioned by day of their ingestion unless a field, another length or NONE is named."""
    kind = ledger.get("timePartitioningType", "DAY").casefold()
    column = ledger.get("timestampPartitionFieldName") or INGESTION_TIME
    return "" if kind == "none" else f"{kind}s({column})"


def _read_properties(ledger: SettingsLedger, partition: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if ledger.get("partitionExpirationMs") and partition:
        days = ledger.read_number("partitionExpirationMs", "0") / DAY_MS
        properties["partition_expiration_days"] = int(days) if days.is_integer() else days
    if INGESTION_TIME in partition and not ledger.is_true("bigQueryMessageTimePartitioning"):
        properties["partition_time"] = "wall_clock"
    return properties


def plan_key(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, choices: Choices, world: World) -> None:
    """The key's columns: all of the record's key in one column, or what a transform or the user names."""
    column = ledger.get("kafkaKeyFieldName")
    ledger.map("kafkaKeyFieldName", f"source.key.into: {column}")
    is_bare = plan.key.get("format") in SINGLE_VALUE_FORMATS and not plan.key.get("from")
    if is_bare:
        plan.key["fields"] = [column or "key"]
        ledger.map("kafkaKeyFieldName", f"source.key.fields: [{column}]", "the key is one value")
        return
    fields = list(choices.key_fields) or plan.key.get("fields") or _read_key_fields(draft, world, column)
    plan.key["fields"] = fields
    if column:
        plan.key["into"] = column
    if not fields:
        draft.fill_in(
            ("source", "key"),
            "fields: the fields of the record's key (--key a,b), and schema where the table does not exist; "
            "no setting has them.",
        )


def _read_key_fields(draft: Draft, world: World, column: str) -> list[str]:
    """The fields of the struct that holds the key, where the table can be looked at."""
    shape = world.describe_table(draft.data["tables"][0]["name"]) if column else None
    types = (
        [parse_type(column_shape.type) for column_shape in shape.columns if column_shape.name == column]
        if shape
        else []
    )
    return [name for data_type in types if isinstance(data_type, Struct) for name, *_ in data_type.fields]


def plan_kafka_data(ledger: SettingsLedger, plan: RecordPlan) -> None:
    """A struct of topic, partition, offset and the time of the insert."""
    column = ledger.get("kafkaDataFieldName")
    if not column:
        return
    plan.computed[column] = (
        "CAST(named_struct('topic', topic, 'partition', CAST(partition AS BIGINT), 'offset', offset, "
        "'insertTime', current_timestamp()) "
        "AS STRUCT<topic: STRING, partition: BIGINT, offset: BIGINT, insertTime: TIMESTAMP>)"
    )
    ledger.map(
        "kafkaDataFieldName", f"tables[].select ... AS {column}", "a struct of topic, partition, offset and insertTime"
    )
