"""Reads a sink's configuration from text: Java properties, or the JSON of Connect's REST API."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.errors import ConfigurationError

ESCAPE_PATTERN = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
ENTRY_PATTERN = re.compile(r"((?:\\.|[^\\=:\s])+)\s*(?:[=:]\s*|\s)?(.*)", re.DOTALL)
DDL_PATTERN = re.compile(r"\bCREATE\s+(TEMPORARY\s+)?(TABLE|CATALOG)\b", re.IGNORECASE)


class SourceKind(StrEnum):
    """The systems whose configuration can be translated."""

    BIGQUERY_SINK = "BigQuery sink for Kafka Connect"
    APACHE_ICEBERG_SINK = "Iceberg sink for Kafka Connect (Apache)"
    TABULAR_ICEBERG_SINK = "Iceberg sink for Kafka Connect (Tabular)"
    DEBEZIUM_SERVER = "Debezium Server with its Iceberg sink"
    FLINK_SQL = "Flink SQL"


CONNECTOR_CLASSES = {
    "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector": SourceKind.BIGQUERY_SINK,
    "org.apache.iceberg.connect.IcebergSinkConnector": SourceKind.APACHE_ICEBERG_SINK,
    "io.tabular.iceberg.connect.IcebergSinkConnector": SourceKind.TABULAR_ICEBERG_SINK,
}
SHORT_CLASSES = {"BigQuerySinkConnector": SourceKind.BIGQUERY_SINK}
DEBEZIUM_SINK_TYPE = "debezium.sink.type"


@dataclass(frozen=True)
class ConnectorConfig:
    """One connector: its name, its sink, and its settings as text. Never print the settings: they contain secrets."""

    kind: SourceKind
    name: str = ""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    statements: str = field(default="", repr=False)
    unset: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the user adds to the configuration: names, and what no setting says. Empty means: not given."""

    name: str = ""
    catalog: str = ""
    kafka: str = ""
    tables: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    key_fields: tuple[str, ...] = ()
    brokers: str = ""


def read_config(text: str, origin: str, worker: str = "", connector: str = "") -> ConnectorConfig:
    """Parse the configuration in `text`; `origin` names it in messages.

    `worker`: text of a Connect worker's properties. `connector`: the name if the configuration lacks it.
    `ConfigurationError` if it is no configuration, or one of an unknown sink; the message never repeats a value.
    """
    stripped = text.lstrip("\ufeff \t\r\n")
    if not stripped:
        raise ConfigurationError(f"config={origin}: it is empty; give a connector's configuration")
    if stripped.startswith("{"):
        name, settings, unset = _parse_json(stripped, origin)
    elif DDL_PATTERN.search(stripped):
        return ConnectorConfig(SourceKind.FLINK_SQL, statements=text)
    else:
        name = ""
        settings = parse_properties(text)
        unset = ()
    settings = _read_worker_settings(worker) | settings
    kind = _find_kind(settings, origin)
    name = connector or name or settings.get("name", "").strip()
    if not name and kind in CONNECTOR_CLASSES.values():
        raise ConfigurationError(
            f"config={origin}: it has no name, and the consumer group with the connector's position is called by it; "
            "give it with --connector NAME"
        )
    return ConnectorConfig(kind, name, settings, unset=unset)


def _read_worker_settings(worker: str) -> dict[str, str]:
    """What a connector without settings of its own takes from its worker: converters, and those of its consumer."""
    settings = {}
    for name, value in parse_properties(worker).items():
        if name.startswith(("key.converter", "value.converter")):
            settings[name] = value
        elif name.startswith("consumer."):
            settings[f"consumer.override.{name.removeprefix('consumer.')}"] = value
    return settings


def _parse_json(text: str, origin: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    try:
        data = json.loads(text)
    except ValueError as fault:
        raise ConfigurationError(f"config={origin}: not JSON: {fault}; correct it") from None
    inner = data.get("config") if isinstance(data.get("config"), dict) else data
    name = data.get("name", "") if inner is not data else ""
    nested = [key for key, value in inner.items() if isinstance(value, dict | list)]
    if nested:
        raise ConfigurationError(
            f"config={origin}: setting={nested[0]} is an object or a list, and a connector's settings are texts; "
            'give {"name": ..., "config": {...}} or the inner object alone'
        )
    unset = tuple(key for key, value in inner.items() if value is None)
    settings = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in inner.items()
        if value is not None
    }
    return str(name), settings, unset


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties: comments, continued lines, escapes, `=`, `:` or a blank between name and value."""
    settings: dict[str, str] = {}
    pending_line = ""
    for line in text.lstrip("\ufeff").splitlines():
        part = line.lstrip()
        if not pending_line and (not part or part[0] in "#!"):
            continue
        pending_line += part
        if (len(pending_line) - len(pending_line.rstrip("\\"))) % 2:
            pending_line = pending_line[:-1]
            continue
        settings |= _parse_entry(pending_line)
        pending_line = ""
    return settings | _parse_entry(pending_line)


def _parse_entry(line: str) -> dict[str, str]:
    match = ENTRY_PATTERN.fullmatch(line)
    return {} if match is None else {_unescape(match[1]): _unescape(match[2])}


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        word = match[1]
        return chr(int(word[1:], 16)) if len(word) == 5 else ESCAPES.get(word, word)

    return ESCAPE_PATTERN.sub(replace, text)


def _find_kind(settings: Mapping[str, str], origin: str) -> SourceKind:
    if DEBEZIUM_SINK_TYPE in settings:
        return SourceKind.DEBEZIUM_SERVER
    known = ", ".join(CONNECTOR_CLASSES)
    name = settings.get("connector.class", "").strip()
    if not name:
        raise ConfigurationError(
            f"config={origin}: it has neither connector.class nor {DEBEZIUM_SINK_TYPE}, and no CREATE TABLE; "
            f"give a sink's configuration: {known}, Debezium Server's application.properties, or Flink SQL"
        )
    kind = CONNECTOR_CLASSES.get(name) or SHORT_CLASSES.get(name.rpartition(".")[2])
    if kind is None:
        raise ConfigurationError(
            f"config={origin}: connector.class={name}: this sink is not understood; those that are: {known}"
        )
    return kind
