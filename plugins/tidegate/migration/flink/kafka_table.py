"""A Kafka table of Flink SQL: topics, formats, key, schema and metadata of the pipeline's source."""

from typing import Any

from tidegate.formats.registry import VALUE_FORMATS
from tidegate.migration.draft import Draft
from tidegate.migration.flink.statements import FlinkTable
from tidegate.migration.kafka_connect.converters import REGISTRY
from tidegate.migration.settings_ledger import SettingsLedger
from tidegate.redaction import is_secret_name
from tidegate.sql.spark import quote

FORMATS = {"avro-confluent": "avro", "raw": "raw", "csv": "csv"}
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
    "csv.disable-quote-character": "quotes always count",
    "csv.allow-comments": "there are no comments",
}


def plan_kafka_table(ledger: SettingsLedger, draft: Draft, table: FlinkTable, prefix: str) -> bool:
    """Fill the draft's source; whether rows are upserted by a key."""
    options, source = table.options, draft.data["source"]
    is_upsert = options["connector"] == "upsert-kafka" or _is_change_event(options)
    ledger.map(f"{prefix}connector", "tables[].upsert, tables[].delete" if is_upsert else "tables[].upsert: false")
    for word, key in (("topic", "topics"), ("topic-pattern", "topic_pattern")):
        if word in options:
            source[key] = options[word] if key == "topic_pattern" else [t.strip() for t in options[word].split(";")]
            ledger.map(f"{prefix}{word}", f"source.{key}")
    keys = _list_keys(table)
    if keys:
        source["key"] = _plan_part(ledger, draft, table, prefix, "key")
        source["key"] |= {"fields": [name.removeprefix(options.get("key.fields-prefix", "")) for name in keys]}
        source["key"]["schema"] = _format_schema(table, set(keys), options.get("key.fields-prefix", ""))
    if options.get("key.fields-prefix"):
        source["key"]["prefix"] = options["key.fields-prefix"]
    source["value"] = _plan_part(ledger, draft, table, prefix, "value")
    without_key = options.get("value.fields-include", "ALL").upper() == "EXCEPT_KEY"
    if without_key:
        source["value"]["fields_include"] = "EXCEPT_KEY"
    hidden_columns = set(keys) if without_key else set()
    own_columns = {column.name for column in table.columns if column.is_physical and column.name not in hidden_columns}
    source["value"]["schema"] = _format_schema(table, own_columns, "")
    metadata = {column.name: column.metadata for column in table.columns if column.metadata}
    if metadata:
        source["metadata"] = metadata
    for word in ("key.fields", "key.fields-prefix", "value.fields-include"):
        ledger.map(f"{prefix}{word}", f"source.{word.replace('-', '_')}")
    _note_rest(ledger, draft, table, prefix)
    return is_upsert


def _is_change_event(options: dict[str, str]) -> bool:
    name = options.get("value.format") or options.get("format", "")
    return name.startswith(("debezium", "canal", "maxwell", "ogg"))


def _list_keys(table: FlinkTable) -> list[str]:
    if table.primary_key:
        return list(table.primary_key)
    return [name.strip() for name in table.options.get("key.fields", "").split(";") if name.strip()]


def _format_schema(table: FlinkTable, names: set[str], prefix: str) -> str:
    return ", ".join(
        f"{quote(column.name.removeprefix(prefix))} {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in table.columns
        if column.name in names
    )


def _plan_part(ledger: SettingsLedger, draft: Draft, table: FlinkTable, prefix: str, side: str) -> dict[str, Any]:
    """The format of keys or values with its options; without one of its own the key has JSON."""
    options = table.options
    word = f"{side}.format" if f"{side}.format" in options or side == "key" else "format"
    format_name = options.get(word, "json")
    name = FORMATS.get(format_name, format_name.removesuffix("-confluent"))
    part: dict[str, Any] = {"format": name if name in VALUE_FORMATS else "json"}
    if name in VALUE_FORMATS:
        ledger.map(f"{prefix}{word}", f"source.{side}.format: {name}")
    else:
        ledger.refuse(
            f"{prefix}{word}", f"the format {format_name} is not known; set source.{side}.format (docs/formats.md)"
        )
        draft.fill_in(("source", side), f"format: what Flink's {format_name} reads.")
    below = f"{side}." if f"{side}.format" in options else ""
    if format_name.endswith("-confluent"):
        part["avro"] = _plan_registry(ledger, draft, f"{prefix}{below}{format_name}.", side)
    for option, reason in IGNORED.items():
        ledger.drop(f"{prefix}{below}{option}", reason)
    for option, key in CSV_OPTIONS.items():
        if f"{below}csv.{option}" in options:
            part.setdefault("csv", {})[key] = options[f"{below}csv.{option}"]
            ledger.map(f"{prefix}{below}csv.{option}", f"source.{side}.csv.{key}")
    if f"{below}raw.endianness" in options:
        part["raw"] = {"endianness": options[f"{below}raw.endianness"].removesuffix("-endian")}
        ledger.map(f"{prefix}{below}raw.endianness", f"source.{side}.raw.endianness")
    return part


def _plan_registry(ledger: SettingsLedger, draft: Draft, prefix: str, side: str) -> dict[str, str]:
    names = ledger.list_names(prefix)
    url, subject = ledger.get(f"{prefix}url"), ledger.get(f"{prefix}subject")
    other_names = [name for name in names if name not in (f"{prefix}url", f"{prefix}subject")]
    options = {"registry": REGISTRY if other_names or "@" in url else url}
    if subject:
        options["subject"] = subject
        ledger.map(f"{prefix}subject", f"source.{side}.avro.subject")
    ledger.map(f"{prefix}url", f"source.{side}.avro.registry")
    for name in other_names:
        ledger.map(name, f"source.{side}.avro.registry", f"connection {REGISTRY} holds it")
        draft.need_connection(REGISTRY, "the registry's address as host, and its log-in")
    return options


def _note_rest(ledger: SettingsLedger, draft: Draft, table: FlinkTable, prefix: str) -> None:
    """Account for the settings of Kafka's client and of Flink's connector, and for computed columns."""
    for name in table.options:
        setting = f"{prefix}{name}"
        if name.startswith("properties."):
            _note_property(ledger, draft, setting, name.removeprefix("properties."), table.options[name])
        elif name.startswith("scan."):
            ledger.drop(setting, STARTS if "startup" in name else "every flush is bounded by the log as it finds it")
        elif name.startswith("sink."):
            ledger.drop(setting, "how Flink writes to Kafka; this table is read")
    for column in table.columns:
        if column.expression:
            ledger.refuse(
                f"{prefix}column {column.name}",
                "a computed column: write it in tables[].select, with CAST(... AS type)",
            )


def _note_property(ledger: SettingsLedger, draft: Draft, setting: str, name: str, value: str) -> None:
    """Account for one property of Kafka's own client."""
    match name:
        case "group.id":
            ledger.map(setting, "source.start", "the group that holds Flink's offsets; the pipeline has one of its own")
        case "isolation.level":
            draft.data["source"]["isolation"] = value
            ledger.map(setting, "source.isolation")
        case "bootstrap.servers":
            ledger.map(setting, "source.kafka", "the connection holds it")
        case "auto.offset.reset":
            ledger.drop(setting, STARTS)
        case _:
            ledger.map(setting, "source.kafka", "the connection holds it")
            draft.need_connection("kafka_default", f"{'the log-in' if is_secret_name(name) else name} in its extra")
