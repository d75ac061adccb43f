"""Chooses the translator of a configuration."""

import re
from collections.abc import Callable
from dataclasses import replace

from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import Choices, ConnectorConfig, SourceKind
from tidegate.migration.draft import SettingOutcome, SettingReport, Translation
from tidegate.migration.flink.flink_sql import translate_flink_sql
from tidegate.migration.kafka_connect.bigquery_sink import translate_bigquery_sink
from tidegate.migration.kafka_connect.debezium_server import translate_debezium_server
from tidegate.migration.kafka_connect.iceberg_sink import translate_iceberg_sink
from tidegate.sinks.world import World

UNSET = "it is null: as if it were not given"

TRANSLATORS: dict[SourceKind, Callable[[ConnectorConfig, Choices, World], Translation]] = {
    SourceKind.BIGQUERY_SINK: translate_bigquery_sink,
    SourceKind.APACHE_ICEBERG_SINK: translate_iceberg_sink,
    SourceKind.TABULAR_ICEBERG_SINK: translate_iceberg_sink,
    SourceKind.DEBEZIUM_SERVER: translate_debezium_server,
    SourceKind.FLINK_SQL: translate_flink_sql,
}


def translate(config: ConnectorConfig, choices: Choices, world: World) -> Translation:
    try:
        translation = TRANSLATORS[config.kind](config, choices, world)
    except re.error as fault:
        raise ConfigurationError(
            f"pattern={fault.pattern!r}: not a regular expression that Python reads: {fault}; name topics and tables "
            "with --topic and --table, and correct the setting in a copy of the configuration"
        ) from None
    unset = tuple(SettingReport(name, SettingOutcome.NOT_NEEDED, reason=UNSET) for name in config.unset)
    return replace(translation, settings=(*translation.settings, *unset))
