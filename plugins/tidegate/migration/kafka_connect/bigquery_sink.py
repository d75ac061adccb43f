"""The BigQuery sink of Kafka Connect: a table for each topic, its key, its partitions, and its position."""

import re
from typing import Any

from tidegate.config.destinations.registry import DESTINATIONS, SPARK_DESTINATION
from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import Choices, ConnectorConfig
from tidegate.migration.draft import Draft, PositionSource, SettingsLedger, Translation
from tidegate.migration.kafka_connect.catalog_settings import escape_variables
from tidegate.migration.kafka_connect.converters import plan_converter
from tidegate.migration.kafka_connect.table_settings import (
    complete_records,
    declare_disjoint_keys,
    format_milliseconds,
    note_new_fields,
)
from tidegate.migration.kafka_connect.worker_settings import (
    find_connect_group,
    find_reset,
    note_worker_settings,
    plan_topics,
    start_draft,
)
from tidegate.migration.transforms.record_plan import RecordPlan, compute
from tidegate.migration.transforms.single_message_transforms import plan_transforms
from tidegate.schema.data_types import Struct, parse_type
from tidegate.sinks.world import World

WAREHOUSE = next(d for d in DESTINATIONS.values() if d is not SPARK_DESTINATION)
INGESTION_TIME = WAREHOUSE.partition_columns[0]
DAY_MS = 86_400_000
DEFAULT_INTERVAL_MS = 60_000  # of the sink, and of a pipeline
GROUP_REFERENCE = re.compile(r"\$(\d+|\{\w+\})")
SINGLE_VALUE_FORMATS = ("string", "raw")
CATALOG_NAME = "dwh"
GOOGLE = "google_cloud_default"
TOO_FAST = "each flush is a load job, and BigQuery takes 1500 of them for one table a day"
NO_THREADS = "Spark writes files, and one load job brings in a batch: there are no writing threads and no queue"
RETRIES = "a failed step is tried again by Airflow"
REPEATS = (
    "A sink that did not end cleanly may have written rows after the offsets that it committed: it would have written "
    "them twice itself. Stop it by its REST address, and wait until it has stopped."
)
WITHOUT_MEANING = {
    "queueSize": NO_THREADS, "threadPoolSize": NO_THREADS, "maxWriteSize": NO_THREADS, "bufferSize": NO_THREADS,
    "useStorageWriteApi": NO_THREADS, "commitInterval": NO_THREADS, "enableBatchMode": NO_THREADS,
    "batchLoadIntervalSec": NO_THREADS, "gcsFolderName": "staging has its own folders",
    "autoCreateBucket": "the bucket of the catalog's staging must be there",
    "bigQueryRetry": RETRIES, "bigQueryRetryWait": RETRIES, "max.retries": RETRIES, "enableRetries": RETRIES,
    "trackPutAttempts": RETRIES, "concurrentSchemaUpdateMaxRetries": RETRIES,
    "concurrentSchemaUpdateRetryWaitMs": RETRIES, "mediateConcurrentSchemaUpdates": RETRIES,
    "avroDataCacheSize": "schemas are read once for each batch",
    "schemaRetriever": "columns come from the registry, the pipeline file or the table",
    "schemaRegistryLocation": "the registry is named beside the format",
    "schemaRegistryClient.basic.auth.credentials.source": "the registry is named beside the format",
    "runtimeProvider": "it is a label for Google's statistics",
    "ignoreUnknownFields": "a field that no column names is counted and left out",
    "convertDoubleSpecialValues": "NaN and infinities are values of DOUBLE",
    "allowSchemaUnionization": "columns that a record lacks stay in the table in any case",
    "bigQueryPartitionDecorator": "rows get their partition by create.partition_by",
}  # fmt: skip
OF_TYPES = (
    "decimalHandlingMode", "variableScaleDecimalHandlingMode", "convertDebeziumVariableScaleDecimal",
    "convertDebeziumTimestampToInteger",
)  # fmt: skip


def translate_bigquery_sink(config: ConnectorConfig, choices: Choices, world: World) -> Translation:
    ledger = SettingsLedger(config.settings)
    plan = RecordPlan()
    description = f"Imported from {config.name}: {config.kind}"
    draft = start_draft(config.name, choices, description, choices.catalog or CATALOG_NAME)
    note_worker_settings(ledger, draft)
    _plan_project(ledger, draft)
    topics = plan_topics(ledger, draft, choices, world)
    if not topics:
        raise ConfigurationError(
            f"topics.regex={ledger.get('topics.regex')}: the sink has a table for each topic, and no setting names the "
            "topics; give them with --topic, or the brokers with --brokers"
        )
    plan_converter(ledger, draft, plan, "value")
    upserts = ledger.is_true("upsertEnabled")
    deletes = ledger.is_true("deleteEnabled")
    if upserts or deletes:
        plan_converter(ledger, draft, plan, "key")
    plan_transforms(ledger, draft, plan)
    draft.data["tables"] = _plan_tables(ledger, draft, plan, topics)
    takes_deletes = deletes and not plan.ignores_tombstones
    for table in draft.data["tables"]:
        table |= {"upsert": upserts, "delete": takes_deletes}
    ledger.map("upsertEnabled", f"tables[].upsert: {str(upserts).lower()}")
    ledger.map("deleteEnabled", f"tables[].delete: {str(takes_deletes).lower()}")
    _plan_merge(ledger, draft, writes_keys=upserts or deletes)
    _note_creation(ledger, draft, plan)
    _note_keys(ledger, draft, plan, choices, world)
    _plan_kafka_data(ledger, plan)
    complete_records(draft, plan, world)
    ledger.drop_each(WITHOUT_MEANING)
    _refuse_options(ledger, draft)
    position = PositionSource(
        groups=(find_connect_group(ledger, config.name),),
        reset=find_reset(ledger),
        repeats="" if upserts or deletes else REPEATS,
        ahead=_find_loads(ledger, topics),
    )
    return Translation(
        kind=config.kind, connector=config.name, draft=draft, settings=ledger.list_reports(), position=position
    )


def _find_loads(ledger: SettingsLedger, topics: list[str]) -> str:
    """Why the group's offsets are ahead of the tables, and what must be empty first; empty where they are not."""
    loaded = [topic for topic in ledger.list_items("enableBatchLoad") if topic in topics]
    if not loaded:
        ledger.drop("enableBatchLoad", "it names none of the connector's topics")
        return ""
    place = "/".join(("gs:/", ledger.get("gcsBucketName"), ledger.get("gcsFolderName"))).rstrip("/")
    reason = (
        f"enableBatchLoad={','.join(loaded)}: the connector commits offsets when its files are in {place}, and loads "
        "these later, so that the switch would lose the rows of files that are still there; pause the connector "
        f"(PUT /connectors/NAME/pause), wait until {place} has no file of it, stop it, and run the command again with "
        "a copy of the configuration without enableBatchLoad"
    )
    ledger.refuse("enableBatchLoad", f"{place} must be empty before the switch: see position")
    return reason


def _plan_project(ledger: SettingsLedger, draft: Draft) -> None:
    project = escape_variables(ledger.get("project"))
    bucket = ledger.get("gcsBucketName")
    draft.catalog |= {"type": WAREHOUSE.name, "project": project or "FILL-IN", "connection": GOOGLE}
    ledger.map("project", f"catalogs.yaml: {draft.catalog_name}.project")
    if not project:
        draft.to_fill_in.append(f"catalogs.yaml, {draft.catalog_name}.project")
    draft.catalog["staging"] = f"gs://{bucket or 'FILL-IN'}/tidegate"
    draft.catalog_comments[("project",)] = "Add location, e.g. EU, where the dataset lies outside of the US."
    draft.to_check.append(
        f"catalogs.yaml, {draft.catalog_name}: add location, where the dataset lies outside of the US."
    )
    if bucket:
        ledger.map("gcsBucketName", f"catalogs.yaml: {draft.catalog_name}.staging")
    else:
        draft.catalog_comments[("staging",)] = "FILL IN: a bucket in which Spark leaves Parquet for load jobs."
        draft.to_fill_in.append(f"catalogs.yaml, {draft.catalog_name}.staging: a bucket for load jobs")
    secrets = ("keyfile", "keySource", "credentials", "useCredentialsProjectId")
    ledger.map_each(secrets, f"catalogs.yaml: {draft.catalog_name}.connection", f"connection {GOOGLE} holds it")
    draft.need_connection(GOOGLE, "the service account's key as keyfile_dict or key_path in its extra; without a "
                                  "key leave `connection` out of catalogs.yaml")  # fmt: skip


def _note_keys(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, choices: Choices, world: World) -> None:
    if draft.data["tables"][0]["upsert"] or draft.data["tables"][0]["delete"]:
        _plan_key(ledger, draft, plan, choices, world)
        return
    ledger.drop_below("key.converter", "without upsertEnabled and deleteEnabled rows have no key")
    if ledger.has("kafkaKeyFieldName"):
        ledger.refuse(
            "kafkaKeyFieldName",
            "a column with the key of rows that have none: it stays as it is, and new rows have NULL there; with "
            "upserts it is source.key.into",
        )


def _plan_merge(ledger: SettingsLedger, draft: Draft, *, writes_keys: bool) -> None:
    asked_interval = ledger.read_number("mergeIntervalMs", str(DEFAULT_INTERVAL_MS))
    asked_records = ledger.read_number("mergeRecordsThreshold", "-1")
    interval = DEFAULT_INTERVAL_MS if 0 < asked_interval < 1000 * WAREHOUSE.min_interval_seconds else asked_interval
    records = max(asked_records, WAREHOUSE.min_records_threshold) if asked_records > 0 else asked_records
    # a sink without keys writes as it reads: the pipeline has its own default
    if not writes_keys:
        asked_interval = interval = DEFAULT_INTERVAL_MS
        asked_records = records = -1
    merge: dict[str, Any] = {"interval": -1 if interval == -1 else format_milliseconds(interval)}
    if records != -1:
        merge["records_threshold"] = records
    for name, target, is_slower in (
        ("mergeIntervalMs", f"merge.interval: {merge['interval']}", interval != asked_interval),
        ("mergeRecordsThreshold", f"merge.records_threshold: {records}", records != asked_records),
    ):
        if is_slower:
            ledger.check(name, target, TOO_FAST)
        else:
            ledger.map(name, target)
    suffix = ledger.get("intermediateTableSuffix")
    if suffix and writes_keys:
        merge["intermediate_suffix"] = _replace_letters(f"_{suffix}")
        ledger.map(
            "intermediateTableSuffix",
            f"merge.intermediate_suffix: {merge['intermediate_suffix']}",
            "the name is <table>_<pipeline><suffix>, one for each table, and none for each task and start; drop the "
            "connector's own intermediate tables after the switch",
        )
    ledger.drop("intermediateTableSuffix", "without upsertEnabled and deleteEnabled the connector makes no such tables")
    draft.data["merge"] = merge


def _refuse_options(ledger: SettingsLedger, draft: Draft) -> None:
    if ledger.is_true("sanitizeFieldNames"):
        ledger.refuse(
            "sanitizeFieldNames",
            "the connector wrote a field like order-id into order_id, and here a column has its field's name; select "
            "such fields AS the table's columns in tables[].select",
        )
        draft.check(
            ("tables",),
            "sanitizeFieldNames: fields whose names have other letters than a-z, 0-9 and _ are not read into the "
            "columns that the connector made of them.",
        )
    ledger.drop("sanitizeFieldNames", "a column has its field's name")
    ledger.map_each(
        OF_TYPES, "value.schema", "declare the column's type in value.schema; a table that exists decides it"
    )
    ledger.refuse(
        "preserveKafkaTopicPartitionOffset",
        "a router's old names of topics: source.metadata has the record's own topic, partition and offset",
    )


def _plan_tables(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, topics: list[str]) -> list[dict[str, Any]]:
    tables: dict[str, list[str]] = {}
    for topic in topics:
        tables.setdefault(f"{draft.catalog_name}.{_name_table(ledger, plan, topic)}", []).append(topic)
    ledger.map_each(("topic2TableMap", "defaultDataset", "sanitizeTopics", "datasets"), "tables[].name")
    renamed = {_rename_topic(plan, topic) for topic in topics}
    unused = [pair for pair in ledger.list_items("topic2TableMap") if pair.partition(":")[0] not in renamed]
    if unused:
        reason = f"{', '.join(unused)}: no topic has this name behind the transforms, so that the entry names no table"
        ledger.check("topic2TableMap", "tables[].name", reason)
    if "topic_pattern" in draft.data["source"]:
        draft.data["source"]["topics"] = sorted(topics)
        del draft.data["source"]["topic_pattern"]
        draft.check(
            ("source", "topics"),
            "The topics that matched topics.regex. A new one needs a table of its own in this file.",
        )
    # topics that lead to one table share an entry
    entries: list[dict[str, Any]] = []
    for index, (name, feeding) in enumerate(tables.items()):
        entries.append({"name": name} | ({"topics": feeding} if len(topics) > 1 else {}))
        if len(feeding) > 1 and (ledger.is_true("upsertEnabled") or ledger.is_true("deleteEnabled")):
            declare_disjoint_keys(draft, entries[-1], index)
    return entries


def _rename_topic(plan: RecordPlan, topic: str) -> str:
    name = topic
    for regex, replacement in plan.topic_renames:
        match = re.fullmatch(regex, name)
        if match is not None:
            name = match.expand(GROUP_REFERENCE.sub(lambda m: f"\\g<{m[1].strip('{}')}>", replacement))
    return name


def _name_table(ledger: SettingsLedger, plan: RecordPlan, topic: str) -> str:
    mapped = dict(pair.partition(":")[::2] for pair in ledger.list_items("topic2TableMap"))
    table_name = _rename_topic(plan, topic)
    datasets = dict(pair.partition("=")[::2] for pair in ledger.list_items("datasets"))
    dataset = ledger.get("defaultDataset") or next(
        (name for pattern, name in datasets.items() if re.fullmatch(pattern, topic)), "FILL_IN"
    )
    if mapped:
        return f"{dataset}.{mapped.get(table_name, table_name)}"
    before, _, table = table_name.rpartition(":")
    if ledger.is_true("sanitizeTopics"):
        table = _replace_letters(table)
        table = table if re.match(r"[a-zA-Z_]", table) else f"_{table}"
    return f"{before or dataset}.{table}"


def _replace_letters(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _note_creation(ledger: SettingsLedger, draft: Draft, plan: RecordPlan) -> None:
    create: dict[str, Any] = {}
    if not ledger.is_true("autoCreateTables", default=True):
        create["enabled"] = False
    # by day of ingestion unless a field, another length or NONE is set
    kind = ledger.get("timePartitioningType", "DAY").casefold()
    column = ledger.get("timestampPartitionFieldName") or INGESTION_TIME
    partition = "" if kind == "none" else f"{kind}s({column})"
    if partition:
        create["partition_by"] = [partition]
    clusters = ledger.list_items("clusteringPartitionFieldNames")
    if clusters:
        create["cluster_by"] = clusters
    if INGESTION_TIME in partition and not ledger.is_true("bigQueryMessageTimePartitioning"):
        draft.data["merge"]["partition_time"] = "wall-clock"
    if ledger.get("partitionExpirationMs") and partition:
        days = ledger.read_number("partitionExpirationMs", "0") / DAY_MS
        create["properties"] = {"partition_expiration_days": int(days) if days.is_integer() else days}
    if ledger.is_true("allBQFieldsNullable"):
        create["force_optional"] = True
    adds = ledger.is_true("allowNewBigQueryFields")
    relaxes = ledger.is_true("allowBigQueryRequiredFieldRelaxation")
    evolve = {"add_columns": adds, "widen": False, "relax": relaxes}
    for table in draft.data["tables"]:
        table.update({"create": create} if create else {})
        table.update({"evolve": evolve})
    ledger.map("autoCreateTables", "tables[].create.enabled")
    partitioning = ("timestampPartitionFieldName", "timePartitioningType")
    ledger.map_each(partitioning, f"tables[].create.partition_by: [{partition}]")
    ledger.map("bigQueryMessageTimePartitioning", "merge.partition_time")
    ledger.map("clusteringPartitionFieldNames", "tables[].create.cluster_by")
    ledger.map("partitionExpirationMs", "tables[].create.properties.partition_expiration_days")
    ledger.map("allBQFieldsNullable", "tables[].create.force_optional")
    note_new_fields(ledger, plan, "allowNewBigQueryFields", "tables[].evolve.add_columns", can_add=True)
    ledger.map("allowBigQueryRequiredFieldRelaxation", "tables[].evolve.relax")


def _plan_key(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, choices: Choices, world: World) -> None:
    column = ledger.get("kafkaKeyFieldName")
    ledger.map("kafkaKeyFieldName", f"source.key.into: {column}")
    is_bare = plan.key.get("format") in SINGLE_VALUE_FORMATS and not plan.key.get("from")
    if is_bare:
        plan.key["fields"] = [column or "key"]
        ledger.map("kafkaKeyFieldName", f"source.key.fields: [{column}]", "the key is one value")
        return
    given = list(choices.key_fields) or plan.key.get("fields")
    tables = draft.data["tables"]
    found = [] if given else [_read_key_fields(table["name"], world, column) for table in tables]
    fields = given or found[0]
    plan.key["fields"] = fields
    if column:
        plan.key["into"] = column
    for table, own_fields in zip(tables, found, strict=False):
        if own_fields and own_fields != fields:  # one that differs stands beside its own table
            table["key"] = plan.key | {"fields": own_fields}
    if len(tables) > 1 and fields and not all(found or [[]]):
        draft.check(
            ("source", "key"),
            f"One key for the topics {', '.join(draft.data['source']['topics'])}: where the key of a topic has other "
            "fields, write tables[].key.",
        )
    if not fields:
        draft.fill_in(
            ("source", "key"),
            "fields: the fields of the record's key (--key a,b), and schema where the table does not exist; "
            "no setting has them.",
        )


def _read_key_fields(table: str, world: World, column: str) -> list[str]:
    shape = world.describe_table(table) if column else None
    types = [parse_type(each.type) for each in (shape.columns if shape else ()) if each.name == column]
    return [name for data_type in types if isinstance(data_type, Struct) for name, *_ in data_type.fields]


def _plan_kafka_data(ledger: SettingsLedger, plan: RecordPlan) -> None:
    column = ledger.get("kafkaDataFieldName")
    if not column:
        return
    place = "'topic', topic, 'partition', CAST(partition AS BIGINT), 'offset', offset"
    types = "topic: STRING, partition: BIGINT, offset: BIGINT, insertTime: TIMESTAMP"
    plan.row.put(column, compute(f"named_struct({place}, 'insertTime', current_timestamp())", f"STRUCT<{types}>"))
    reason = "a struct of topic, partition, offset and insertTime"
    ledger.map("kafkaDataFieldName", f"tables[].select ... AS {column}", reason)
