"""Flink SQL as a pipeline: a Kafka table, an Iceberg table or catalog, and the INSERT between them."""

from typing import Any

from tidegate.config.destinations.registry import SPARK_DESTINATION
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import VALUE_FORMATS
from tidegate.migration.connector_config import Choices, ConnectorConfig
from tidegate.migration.draft import Draft, PositionSource, SettingsLedger, Translation
from tidegate.migration.flink.statements import FlinkInsert, FlinkItem, FlinkScript, FlinkTable, parse_script
from tidegate.migration.kafka_connect.catalog_settings import choose_catalog_name, plan_catalog
from tidegate.migration.kafka_connect.converters import REGISTRY
from tidegate.migration.kafka_connect.worker_settings import start_draft
from tidegate.redaction import is_secret_name
from tidegate.sinks.world import World
from tidegate.spec.source import METADATA_TYPES, name_cast, to_file_form
from tidegate.sql.spark import quote

DESTINATION = SPARK_DESTINATION.name
KAFKA_CONNECTORS = ("upsert-kafka", "kafka")
CATALOG_WORDS = ("type", "connector", "catalog-name", "catalog-database", "catalog-table", "property-version",
                 "default-database", "catalog-type")  # fmt: skip
TABLE_OPTIONS = ("write.", "format-version", "upsert-enabled", "sink.", "commit.", "history.", "read.")
FORMATS = {"avro-confluent": "avro", "raw": "raw", "csv": "csv"}
CHANGE_EVENTS = ("debezium", "canal", "maxwell", "ogg")
STARTS = "a table with rows goes on at the position: see position"
CSV_OPTIONS = {"field-delimiter": "delimiter", "quote-character": "quote", "escape-character": "escape",
               "null-literal": "null_literal"}  # fmt: skip
IGNORED = {
    "json.ignore-parse-errors": "source.errors.tolerance: all sets bad records aside; nothing vanishes",
    "json.fail-on-missing-field": "NOT NULL in value.schema",
    "json.timestamp-format.standard": "both forms are read",
    "json.map-null-key.mode": "a key of a map is never NULL in JSON",
    "json.encode.decimal-as-plain-number": "it decides how records are written",
    "debezium-json.schema-include": "seen in each record",
    "debezium-json.ignore-parse-errors": "source.errors.tolerance: all sets bad records aside",
    "csv.ignore-parse-errors": "source.errors.tolerance: all sets bad records aside",
}
CHECKPOINTS = (
    "Flink commits the group's offsets when a checkpoint is complete, and the table at about the same time. Stop the "
    "job with a savepoint, and see that the newest snapshot's flink.max-committed-checkpoint-id is that checkpoint."
)
NO_GROUP = (
    "upsert-kafka keeps its offsets in Flink's checkpoints, and the table has no properties.group.id. The "
    "topics are read again from their begin: upserts and deletes by key end with the same rows."
)


def translate_flink_sql(config: ConnectorConfig, choices: Choices, _: World) -> Translation:
    script = parse_script(config.statements)
    ledger = SettingsLedger(_list_settings(script))
    inserts = _choose_inserts(script, ledger)
    source_name = script.complete(inserts[0].source)
    source = script.tables[source_name]
    first = _find_sink(script, inserts[0])
    name = choices.name or first[-1].rpartition(".")[2]
    catalog = choices.catalog or choose_catalog_name(first[0])
    draft = start_draft(name, choices, f"Imported from {config.kind}: {source_name}", catalog)
    is_upsert = _plan_kafka_table(ledger.below(f"TABLE {source_name}."), draft, source)
    draft.data["tables"] = [_plan_sink(script, ledger, draft, insert, is_upsert=is_upsert) for insert in inserts]
    draft.data["merge"] = {"interval": "1m"}
    ledger.drop_below("SET ", "a setting of Flink's job; Airflow and Spark have their own")
    for name in ledger.list_names("statement "):
        if name.split()[1].upper() in ("CREATE", "USE") and "DATABASE" in name.upper():
            ledger.drop(name, "a namespace is made with its first table")
        else:
            ledger.refuse(name, "a statement without a part in the pipeline")
    for name in ledger.list_names("TABLE "):
        if name.endswith(".WATERMARK"):
            ledger.drop(name, "tables need no watermark; history and sequence_by name a column of their own")
    group = source.options.get("properties.group.id", "")
    position = PositionSource(
        groups=(group,) if group else (),
        repeats=CHECKPOINTS if group else "",
        reason=NO_GROUP
        if is_upsert
        else "the Kafka table has no properties.group.id: say where to begin in source.start",
        from_begin=is_upsert,
    )
    return Translation(kind=config.kind, connector=name, draft=draft, settings=ledger.list_reports(), position=position)


def _list_settings(script: FlinkScript) -> dict[str, str]:
    settings = {f"TABLE {name}.{key}": v for name, table in script.tables.items() for key, v in table.options.items()}
    settings |= {f"CATALOG {name}.{key}": v for name, options in script.catalogs.items() for key, v in options.items()}
    settings |= {f"TABLE {name}.WATERMARK": "" for name, table in script.tables.items() if table.watermark}
    settings |= {
        f"TABLE {n}.column {c.name}": c.name for n, t in script.tables.items() for c in t.columns if c.is_computed
    }
    settings |= {f"INSERT INTO {script.complete(insert.target)}": "" for insert in script.inserts}
    settings |= {f"SET {name}": value for name, value in script.settings.items()}
    return settings | {f"statement {text}": "" for text in script.others}


def _choose_inserts(script: FlinkScript, ledger: SettingsLedger) -> list[FlinkInsert]:
    """The inserts that a pipeline can do; they read one Kafka table."""
    chosen_inserts = list[FlinkInsert]()
    for insert in script.inserts:
        name = f"INSERT INTO {script.complete(insert.target)}"
        source = script.tables.get(script.complete(insert.source))
        if insert.problem:
            ledger.refuse(name, f"{insert.problem}; keep this statement in Flink, or write it as tables[].select")
        elif source is None or source.options.get("connector") not in KAFKA_CONNECTORS:
            ledger.refuse(name, f"it reads {insert.source}, which is no Kafka table of this script")
        elif chosen_inserts and script.complete(chosen_inserts[0].source) != script.complete(insert.source):
            ledger.refuse(name, "it reads another table than the first INSERT: import it alone, with --name")
        else:
            chosen_inserts.append(insert)
            ledger.map(name, "tables[]")
    if not chosen_inserts:
        raise ConfigurationError(
            "statements: no INSERT INTO <Iceberg table> SELECT ... FROM <Kafka table> that makes one row of each "
            "record; give CREATE TABLE of both and the INSERT; joins and aggregates stay in Flink"
        )
    return chosen_inserts


def _find_sink(script: FlinkScript, insert: FlinkInsert) -> tuple[str, str, str]:
    """Catalog, prefix of its options in the ledger, and ``namespace.table`` of an INSERT's target."""
    target = script.complete(insert.target)
    table, (head, _, table_path) = script.tables.get(target), target.partition(".")
    if table is not None and table.options.get("connector") == DESTINATION:
        database = table.options.get("catalog-database", "default_database")
        table_name = table.options.get("catalog-table") or target.rpartition(".")[2]
        return table.options.get("catalog-name", ""), f"TABLE {target}.", f"{database}.{table_name}"
    if script.catalogs.get(head, {}).get("type") == DESTINATION:
        return head, f"CATALOG {head}.", table_path
    raise ConfigurationError(
        f"INSERT INTO {target}: it is no Iceberg table of this script; give its CREATE TABLE with "
        f"'connector'='{DESTINATION}', or CREATE CATALOG with 'type'='{DESTINATION}'"
    )


def _plan_sink(
    script: FlinkScript, ledger: SettingsLedger, draft: Draft, insert: FlinkInsert, *, is_upsert: bool
) -> dict[str, Any]:
    _, prefix, name = _find_sink(script, insert)
    catalog = ledger.below(prefix)
    catalog.map_each(CATALOG_WORDS, "tables[].name, catalogs.yaml")
    sink = script.tables.get(script.complete(insert.target), FlinkTable(name))
    if "type" not in draft.catalog:
        table_options = [option for option in sink.options if option.startswith(TABLE_OPTIONS)]
        plan_catalog(catalog, draft, (*CATALOG_WORDS, *table_options), "catalog-type")
    entry: dict[str, Any] = {"name": f"{draft.catalog_name}.{name}", "upsert": is_upsert, "delete": is_upsert}
    select = _build_select(insert, sink, script.tables[script.complete(insert.source)])
    if select:
        entry["select"] = select
        draft.check(("tables",), "Functions of Flink SQL may have another name in Spark SQL: read each select.")
    if insert.condition:
        entry["when"] = insert.condition
        entry |= {"when_false": "delete"} if is_upsert else {}
        draft.check(("tables",), "The WHERE is Flink's text: read it as Spark SQL.")
    create = _plan_creation(ledger.below(f"TABLE {script.complete(insert.target)}."), sink)
    return {**entry, "create": create} if create else entry


def _plan_creation(ledger: SettingsLedger, sink: FlinkTable) -> dict[str, Any]:
    properties: dict[str, str] = {}
    for name, value in sink.options.items():
        if name in ("write.upsert.enabled", "upsert-enabled"):
            ledger.map(name, "tables[].upsert")
        elif name == "format-version" and value not in ("1", "2"):
            ledger.refuse(name, "write tables[].create.format_version: 3 for a table that is still to be made")
        elif name.startswith("sink."):
            ledger.drop(name, "how Flink's tasks write")
        elif name.startswith(TABLE_OPTIONS):
            properties[name] = value
            ledger.map(name, f"tables[].create.properties.{name}", "for a table that is still to be made")
    create = {"partition_by": list(sink.partitions), "properties": properties}
    return {key: value for key, value in create.items() if value}


def _build_select(insert: FlinkInsert, sink: FlinkTable, source: FlinkTable) -> str:
    physical = [column for column in sink.columns if not column.is_computed]
    names = list(insert.columns) or [column.name for column in physical]
    types = {column.name: column.type for column in physical}
    items = list(insert.items)
    if [item.sql for item in items] == ["*"]:
        read = [column.name for column in source.columns]
        if not names or names == read:
            return ""
        items = [FlinkItem(quote(name), column=name) for name in read]
    # Flink inserts by place: each expression goes into the sink's column of that number
    columns = [
        _format_column(item, names[index] if index < len(names) else item.alias or item.column, types)
        for index, item in enumerate(items)
    ]
    return "SELECT\n  " + ",\n  ".join(columns) + "\nFROM record"


def _format_column(item: FlinkItem, target: str, types: dict[str, str]) -> str:
    if item.column:
        return quote(item.column) + (f" AS {quote(target)}" if target != item.column else "")
    sql = f"CAST({item.sql} AS {types[target]})" if target in types else item.sql
    return f"{sql} AS {quote(target)}" if target else sql


def _plan_kafka_table(ledger: SettingsLedger, draft: Draft, table: FlinkTable) -> bool:
    """Fill the draft's source; returns whether rows are upserted by a key."""
    options = table.options
    source = draft.data["source"]
    value_format = options.get("value.format") or options.get("format", "")
    is_upsert = options["connector"] == "upsert-kafka" or value_format.startswith(CHANGE_EVENTS)
    ledger.map("connector", "tables[].upsert, tables[].delete" if is_upsert else "tables[].upsert: false")
    for word, key in (("topic", "topics"), ("topic-pattern", "topic_pattern")):
        if word in options:
            source[key] = options[word] if key == "topic_pattern" else [t.strip() for t in options[word].split(";")]
            ledger.map(word, f"source.{key}")
    key_fields = [name.strip() for name in options.get("key.fields", "").split(";") if name.strip()]
    keys = list(table.primary_key) or key_fields
    key_prefix = options.get("key.fields-prefix", "")
    if keys:
        source["key"] = _plan_part(ledger, draft, table, "key")
        source["key"] |= {"fields": [name.removeprefix(key_prefix) for name in keys]}
        source["key"]["schema"] = _format_schema(table, set(keys), key_prefix)
        source["key"] |= {"prefix": key_prefix} if key_prefix else {}
    source["value"] = _plan_part(ledger, draft, table, "value")
    hidden_columns: set[str] = set()
    if options.get("value.fields-include", "ALL").upper() == "EXCEPT_KEY":
        source["value"]["fields_include"] = "EXCEPT_KEY"
        hidden_columns = set(keys)
    own_columns = {column.name for column in table.columns if not (column.metadata or column.is_computed)}
    source["value"]["schema"] = _format_schema(table, own_columns - hidden_columns, "")
    metadata = dict[str, Any]()
    for column in (column for column in table.columns if column.metadata):
        word = name_cast(column.metadata, column.type)  # with its type where that may be declared
        metadata[column.name] = to_file_form(word if word in METADATA_TYPES else column.metadata)
    if metadata:
        source["metadata"] = metadata
    ledger.map("key.fields", "source.key.fields")
    ledger.map("key.fields-prefix", "source.key.prefix")
    ledger.map("value.fields-include", "source.value.fields_include")
    _note_rest(ledger, draft, table)
    return is_upsert


def _format_schema(table: FlinkTable, names: set[str], prefix: str) -> str:
    return ", ".join(
        f"{quote(column.name.removeprefix(prefix))} {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in table.columns
        if column.name in names
    )


def _plan_part(ledger: SettingsLedger, draft: Draft, table: FlinkTable, side: str) -> dict[str, Any]:
    has_own = f"{side}.format" in table.options
    word = f"{side}.format" if has_own or side == "key" else "format"
    # a key without a format of its own has JSON
    format_name = table.options.get(word, "json")
    name = FORMATS.get(format_name, format_name.removesuffix("-confluent"))
    part: dict[str, Any] = {"format": name if name in VALUE_FORMATS else "json"}
    if name in VALUE_FORMATS:
        ledger.map(word, f"source.{side}.format: {name}")
    else:
        problem = f"the format {format_name} is not known; set source.{side}.format (docs/formats.md)"
        ledger.refuse(word, problem)
        draft.fill_in(("source", side), f"format: what Flink's {format_name} reads.")
    below = f"{side}." if has_own else ""
    own = ledger.below(below)
    if format_name.endswith("-confluent"):
        part["avro"] = _plan_registry(own.below(f"{format_name}."), draft, side)
    own.drop_each(IGNORED)
    for option, key in CSV_OPTIONS.items():
        if own.has(f"csv.{option}"):
            part.setdefault("csv", {})[key] = table.options[f"{below}csv.{option}"]  # a delimiter may be a blank
            own.map(f"csv.{option}", f"source.{side}.csv.{key}")
    if own.has("raw.endianness"):
        part["raw"] = {"endianness": own.get("raw.endianness").removesuffix("-endian")}
        own.map("raw.endianness", f"source.{side}.raw.endianness")
    return part


def _plan_registry(ledger: SettingsLedger, draft: Draft, side: str) -> dict[str, str]:
    url = ledger.get("url")
    subject = ledger.get("subject")
    secrets = [word for word in ledger.list_names() if word not in ("url", "subject")]
    ledger.map("url", f"source.{side}.avro.registry")
    ledger.map("subject", f"source.{side}.avro.subject")
    ledger.map_each(secrets, f"source.{side}.avro.registry", f"connection {REGISTRY} holds it")
    if secrets:
        draft.need_connection(REGISTRY, "the registry's address as host, and its log-in")
    return {"registry": REGISTRY if secrets or "@" in url else url} | ({"subject": subject} if subject else {})


def _note_rest(ledger: SettingsLedger, draft: Draft, table: FlinkTable) -> None:
    for name, value in table.options.items():
        word = name.removeprefix("properties.")
        if name == "properties.group.id":
            ledger.map(name, "source.start", "the group that holds Flink's offsets; the pipeline has one of its own")
        elif name == "properties.isolation.level":
            draft.data["source"]["isolation"] = value
            ledger.map(name, "source.isolation")
        elif name == "properties.auto.offset.reset" or name.startswith("scan.startup"):
            ledger.drop(name, STARTS)
        elif name.startswith("properties."):
            ledger.map(name, "source.kafka", "the connection holds it")
            if word != "bootstrap.servers":
                draft.need_connection("kafka_default", f"{'the log-in' if is_secret_name(word) else word} in its extra")
        elif name.startswith("scan."):
            ledger.drop(name, "every flush is bounded by the log as it finds it")
        elif name.startswith("sink."):
            ledger.drop(name, "how Flink writes to Kafka; this table is read")
    for column in table.columns:
        ledger.refuse(f"column {column.name}", "a computed column: write it in tables[].select, with CAST(... AS type)")
