"""What becomes of other systems' settings: the part of the manual's page that the import's own ledgers write.

The translators of `tidegate import` run on the example configurations of the tests, with settings added that those
lack. Each setting is a row: the key that has its meaning, or why there is none.
"""

import re
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate.migration.connector_config import Choices, SourceKind, read_config
from tidegate.migration.draft import SettingOutcome, SettingReport
from tidegate.migration.kafka_connect import bigquery_sink, debezium_server, iceberg_sink, worker_settings
from tidegate.migration.transforms import single_message_transforms as transforms
from tidegate.migration.translate import translate
from tidegate.sinks.world import UnreachableWorld

ROOT = Path(__file__).parents[2]
CONFIGS = runpy.run_path(str(ROOT / "tests" / "sink_configs.py"))
HEADING = "## Names in other systems\n"
CHOICES = Choices(key_fields=("id",), topics=("shop.orders",), tables=("shop.orders", "shop.orders_eu"))
KEY_PATTERN = re.compile(r"(?:\b(?:source|tables\[\]|merge|value)\.[\w.\[\]-]+|\bcatalogs\.yaml)(?<![.-])")
# names that only the examples have
PLACEHOLDERS = (("shop.orders_eu", "TABLE"), ("shop.orders", "TABLE"), ("TABLE orders_in", "Kafka table: "),
                ("TABLE lake.TABLE", "Iceberg table: "), ("CATALOG lake", "catalog: "), (": .", ": "))  # fmt: skip
OUTCOME_ORDER = tuple(SettingOutcome)
WORKER = dict.fromkeys(worker_settings.WITHOUT_MEANING, "1") | {
    "errors.deadletterqueue.topic.name": "dlq-shop",
    "errors.tolerance": "all",
    "consumer.override.isolation.level": "read_committed",
}

FLINK_OPTIONS = """
CREATE TABLE orders_in (k_id BIGINT, line STRING, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH (
  'connector' = 'kafka', 'topic-pattern' = 'shop.*', 'properties.isolation.level' = 'read_committed',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'properties.auto.offset.reset' = 'latest',
  'key.format' = 'raw', 'key.raw.endianness' = 'little-endian', 'key.fields' = 'k_id', 'key.fields-prefix' = 'k_',
  'value.fields-include' = 'EXCEPT_KEY', 'value.format' = 'csv', 'value.csv.field-delimiter' = ';',
  'value.csv.quote-character' = '"', 'value.csv.escape-character' = '/', 'value.csv.null-literal' = 'n/a',
  'value.csv.ignore-parse-errors' = 'true', 'value.json.fail-on-missing-field' = 'true'
);
CREATE TABLE lake.shop.orders (k_id BIGINT, line STRING, ts TIMESTAMP_LTZ(6)) WITH (
  'connector' = 'iceberg', 'catalog-name' = 'lake', 'catalog-type' = 'rest', 'uri' = 'http://rest:8181',
  'catalog-database' = 'shop', 'catalog-table' = 'orders'
);
INSERT INTO lake.shop.orders SELECT * FROM orders_in;
"""


@dataclass(frozen=True)
class Example:
    """A configuration of the tests; `added` settings are shown too, those in `without` are left out of it."""

    text: str
    added: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def list_reports(self) -> tuple[SettingReport, ...]:
        """What the import reports of each setting."""
        config = read_config(self.text, "example")
        given = {name: value for name, value in config.settings.items() if name not in self.without}
        return translate(replace(config, settings={**self.added, **given}), CHOICES, UnreachableWorld()).settings


# settings that the examples lack, with values that the translators read
BIGQUERY_SETTINGS = dict.fromkeys(bigquery_sink.WITHOUT_MEANING, "1") | {
    "topic2TableMap": "shop.orders:orders",
    "decimalHandlingMode": "numeric",
    "variableScaleDecimalHandlingMode": "numeric",
    "convertDebeziumVariableScaleDecimal": "true",
    "preserveKafkaTopicPartitionOffset": "true",
    "datasets": ".*=shop",
    "credentials": "x",
    "useCredentialsProjectId": "false",
}
ICEBERG_SETTINGS = dict.fromkeys(iceberg_sink.WITHOUT_MEANING, "1") | {
    "iceberg.tables.default-partition-by": "day(at)",
    "iceberg.tables.schema-force-optional": "true",
    "iceberg.table.shop.orders.commit-branch": "staging",
    "iceberg.connect.group-id": "connect-orders",
    "iceberg.tables.write-props.write.target-file-size-bytes": "134217728",
}
DEBEZIUM_SETTINGS = {
    f"{debezium_server.SINK}{word}": "1"
    for word in (
        *debezium_server.WITHOUT_MEANING,
        "excluded-columns",
        "preserve-required-property",
        "nested-as-variant",
        "destination-lowercase-table-names",
    )
}
OF_NO_TABLE = ("some.new.option", "iceberg.table.gone.partition-by")  # of the tests' example, to be refused
TABULAR = CONFIGS["format_json"](CONFIGS["TABULAR"])
EXAMPLES: dict[SourceKind, tuple[Example, ...]] = {
    SourceKind.BIGQUERY_SINK: (
        Example(CONFIGS["BIGQUERY_PROPERTIES"], WORKER | BIGQUERY_SETTINGS),
        Example(
            CONFIGS["BIGQUERY_PROPERTIES"],
            {"topics.regex": "shop.*", "enableBatchLoad": "shop.orders", "sanitizeFieldNames": "true"},
            ("topics", "enableBatchLoad", "sanitizeFieldNames"),
        ),
    ),
    SourceKind.TABULAR_ICEBERG_SINK: (
        Example(TABULAR, WORKER | ICEBERG_SETTINGS, OF_NO_TABLE),
        Example(
            TABULAR, {"topics.regex": "shop.*", "iceberg.tables.dynamic-enabled": "true"}, ("topics", *OF_NO_TABLE)
        ),
    ),
    SourceKind.DEBEZIUM_SERVER: (Example(CONFIGS["DEBEZIUM_SERVER"], DEBEZIUM_SETTINGS),),
    SourceKind.FLINK_SQL: (Example(CONFIGS["FLINK_SQL"]), Example(FLINK_OPTIONS)),
}
# the Apache sink has the settings of Tabular's that begin alike
TITLES = {
    SourceKind.TABULAR_ICEBERG_SINK: "Iceberg sinks for Kafka Connect",
    SourceKind.DEBEZIUM_SERVER: "Debezium Server",
}


def expand_page(text: str) -> str:
    """The page with a table for each system below the heading of names."""
    if HEADING not in text:
        raise ValueError(f"heading={HEADING.strip()}: the page has none; the tables of names go below it")
    before, _, after = text.partition(HEADING)
    own, separator, rest = after.partition("\n## ")
    return f"{before}{HEADING}{own}\n{''.join(render_tables())}{separator}{rest}"


def render_tables() -> Iterator[str]:
    """The tables of settings, one for each sink, and that of single-message transforms."""
    for kind, examples in EXAMPLES.items():
        yield from _render_table(TITLES.get(kind, str(kind)), list_settings(examples))
    yield from _render_table("Single-message transforms", list_transforms())


def _render_table(title: str, descriptions: Mapping[str, str]) -> Iterator[str]:
    """Settings of which the same is said share a row."""
    names: dict[str, list[str]] = {}
    for name, text in descriptions.items():
        names.setdefault(text, []).append(f"`{name}`")
    yield f"\n### {title}\n\n| there | here |\n| --- | --- |\n"
    yield from (f"| {', '.join(dict.fromkeys(group))} | {text} |\n" for text, group in names.items())


def list_settings(examples: tuple[Example, ...]) -> dict[str, str]:
    """What becomes of each setting, what is mapped first; of two examples with a setting the first counts."""
    reports: dict[str, SettingReport] = {}
    for example in examples:
        for report in example.list_reports():
            if not report.name.startswith(("transforms.", "predicates.", "statement ")):
                reports.setdefault(report.name, report)
    ordered = sorted(reports.values(), key=lambda report: (OUTCOME_ORDER.index(report.outcome), report.name))
    return {_shorten(report.name): _describe(report) for report in ordered}


def list_transforms() -> dict[str, str]:
    """What the import does with each transform that it knows."""
    folded = {name: _escape(plan.__doc__ or "") for name, plan in transforms.PLANS.items()}
    without_effect = {name: f"not needed: {_escape(text)}" for name, text in transforms.WITHOUT_EFFECT.items()}
    by_hand = {name: f"not mapped: {_escape(text)}" for name, text in transforms.REASONS.items()}
    return dict(sorted((folded | without_effect | by_hand).items()))


def _shorten(name: str) -> str:
    for text, placeholder in PLACEHOLDERS:
        name = name.replace(text, placeholder)
    return name


def _describe(report: SettingReport) -> str:
    outcome = "" if report.outcome == SettingOutcome.MAPPED else str(report.outcome)
    target = KEY_PATTERN.sub(lambda key: f"`{key[0]}`", _escape(report.target))
    return ": ".join(filter(None, (outcome, target, _escape(report.reason))))


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").strip()
