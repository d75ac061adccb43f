"""Whole configurations become pipeline files that `validate` accepts, and every setting is accounted for."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from sink_configs import APACHE, BIGQUERY_PROPERTIES, DEBEZIUM_SERVER, FLINK_SQL, SECRET, TABULAR, format_json
from tidegate.config.pipeline_file import load_pipeline
from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import Choices, parse_properties, read_config
from tidegate.migration.draft import Translation
from tidegate.migration.position import apply_position, find_position
from tidegate.migration.report import describe_import, format_catalog_entry, format_pipeline_file, format_translation
from tidegate.migration.translate import translate
from tidegate.model.resource_names import name_intermediate_table
from tidegate.schema.data_types import Column
from tidegate.sinks.world import TableShape, UnreachableWorld
from tidegate.wiring.proposed_files import check_files

FULL = {
    "bigquery": BIGQUERY_PROPERTIES,
    "tabular": format_json(TABULAR),
    "apache": format_json(APACHE),
    "debezium": DEBEZIUM_SERVER,
    "flink": FLINK_SQL,
}
REGISTRY = {"registry": "schema_registry_default"}
CHOICES = Choices(key_fields=("id",))


class KnownTables(UnreachableWorld):
    """Every table has the same columns."""

    def __init__(self, *columns: Column) -> None:
        self.shape = TableShape(columns)

    def describe_table(self, name: str) -> TableShape | None:
        return self.shape


def translate_text(text: str, choices: Choices = CHOICES, world: Any = None) -> Translation:
    used = world or UnreachableWorld()
    translation = translate(read_config(text, "connector"), choices, used)
    apply_position(translation.draft, find_position(translation.position, translation.draft, used))
    return translation


def read_pipeline(translation: Translation) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(format_pipeline_file(translation))
    return data


def list_outcomes(translation: Translation) -> dict[str, str]:
    return {setting.name: str(setting.outcome) for setting in translation.settings}


@pytest.mark.parametrize("kind", FULL)
def test_no_setting_falls_through_and_no_secret_shows(kind: str, include: Path) -> None:
    translation = translate_text(FULL[kind])
    setting_names = set(read_config(FULL[kind], "connector").settings)
    assert {setting.name for setting in translation.settings} >= setting_names
    options = re.findall(r"'([\w.-]+)'\s*=", FULL[kind]) if kind == "flink" else []
    assert {
        name for name in options if not any(setting.name.endswith(name) for setting in translation.settings)
    } == set()
    assert all(setting.target or setting.reason for setting in translation.settings)
    position = find_position(translation.position, translation.draft, UnreachableWorld())
    data = describe_import(translation, position, [], is_in_file=False)
    assert SECRET not in format_translation(data, translation.settings) + repr(data) + repr(translation)


def test_secrets_of_headers_and_of_an_addresss_options_go_into_the_catalogs_connection(include: Path) -> None:
    config = {**APACHE, "iceberg.catalog.type": "rest", "iceberg.catalog.uri": f"http://h:8181/api?token={SECRET}&x=1"}
    config |= {"iceberg.catalog.header.Authorization": f"Bearer {SECRET}", "iceberg.catalog.header.X-Api-Key": SECRET}
    translation = translate_text(format_json(config))
    entry = yaml.safe_load(format_catalog_entry(translation.draft))[translation.draft.catalog_name]
    assert entry["properties"]["uri"] == "http://h:8181/api?x=1"
    targets = {setting.name: setting.target for setting in translation.settings}
    for name in ("Authorization", "X-Api-Key"):
        assert targets[f"iceberg.catalog.header.{name}"] == "catalogs.yaml: connection"
    notes = repr(translation.draft.connections)
    assert "header.Authorization in its extra" in notes
    assert "header.X-Api-Key in its extra" in notes
    assert SECRET not in repr(entry) + repr(translation)


def test_key_fields_are_those_of_the_tables_struct_and_not_of_the_structs_in_it() -> None:
    kind = "STRUCT<`a``b`: STRUCT<x: INT, y: INT>, id: BIGINT, m: MAP<STRING, STRUCT<z: INT>>>"
    config = {
        "name": "sink",
        "connector.class": "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector",
        "topics": "orders",
        "project": "p",
    }
    text = json.dumps({**config, "defaultDataset": "d", "kafkaKeyFieldName": "k", "deleteEnabled": "true"})
    data = read_pipeline(translate_text(text, Choices(), KnownTables(Column("k", kind), Column("n", "INT"))))
    assert data["source"]["key"]["fields"] == ["a`b", "id", "m"]


def test_partitions_of_flink_keep_the_names_that_need_backquotes() -> None:
    columns = "id BIGINT, `the day` DATE, `a``b` INT, PRIMARY KEY (id) NOT ENFORCED"
    script = f"""
        CREATE TABLE orders ({columns}) WITH ('connector' = 'upsert-kafka', 'topic' = 'orders',
          'properties.bootstrap.servers' = 'b:9092', 'key.format' = 'json', 'value.format' = 'json');
        CREATE TABLE lake ({columns}) PARTITIONED BY (id, `the day`, `a``b`)
          WITH ('connector' = 'iceberg', 'catalog-name' = 'c', 'catalog-database' = 'shop');
        INSERT INTO lake SELECT * FROM orders;
    """
    (table,) = read_pipeline(translate_text(script))["tables"]
    assert table["create"]["partition_by"] == ["id", "`the day`", "`a``b`"]


@pytest.mark.parametrize("kind", FULL)
def test_validate_accepts_what_is_made_of_a_whole_configuration(kind: str, include: Path) -> None:
    (include / "catalogs.yaml").unlink()
    translation = translate_text(FULL[kind])
    problems, _ = check_files(
        include, translation.draft.name, format_pipeline_file(translation), format_catalog_entry(translation.draft)
    )
    assert problems == ()


def test_bigquery_sink_becomes_a_table_for_each_topic() -> None:
    translation = translate_text(BIGQUERY_PROPERTIES)
    pipeline = read_pipeline(translation)
    assert pipeline["source"] == {
        "kafka": "kafka_default",
        "topics": ["shop.orders", "shop.customers"],
        "start": "group",
        "group": "connect-kcbq-shop",
        "key": {
            "format": "avro",
            "avro": REGISTRY,
            "fields": ["id"],
            "into": "kafka_key",
        },
        "value": {"format": "avro", "avro": REGISTRY},
        "errors": {"tolerance": "all", "topic": "dlq-shop"},
    }
    orders, customers = pipeline["tables"]
    assert (orders["name"], orders["topics"]) == ("dwh.shop.shop_orders", ["shop.orders"])
    assert (customers["name"], customers["topics"]) == ("dwh.shop.shop_customers", ["shop.customers"])
    assert (orders["upsert"], orders["delete"]) == (True, True)
    assert orders["create"] == {
        "partition_by": ["months(created_at)"],
        "cluster_by": ["customer_id", "region"],
        "properties": {"partition_expiration_days": 90},
    }
    assert orders["evolve"] == {"add_columns": True, "widen": False, "relax": True}
    assert "AS `kafka_data`" in orders["select"]
    assert pipeline["merge"] == {
        "interval": "90s",
        "records_threshold": 100000,
        "intermediate_suffix": "_tmp_kcbq",
    }
    assert translation.draft.catalog == {
        "type": "bigquery",
        "project": "my-project",
        "connection": "google_cloud_default",
        "staging": "gs://shop-staging/tidegate",
    }
    assert {note.id for note in translation.draft.connections} == {
        "kafka_default",
        "schema_registry_default",
        "google_cloud_default",
    }
    assert "not mapped" not in list_outcomes(translation).values()


@pytest.mark.parametrize(
    ("suffix", "name"),
    [
        (None, "shop_orders_kcbq-shop_tmp"),
        ("Stage", "shop_orders_kcbq-shop_Stage"),
        ("_tmp", "shop_orders_kcbq-shop__tmp"),
        ("2-a.b", "shop_orders_kcbq-shop_2_a_b"),
    ],
)
def test_intermediate_tables_end_as_those_of_the_bigquery_sink(suffix: str | None, name: str, include: Path) -> None:
    """The sink: `<table>_<suffix>_<task>_<UUID>_<milliseconds>`, where each other sign becomes an underscore."""
    lines = [line for line in BIGQUERY_PROPERTIES.splitlines() if not line.startswith("intermediateTableSuffix")]
    text = "\n".join([*lines, f"intermediateTableSuffix={suffix}"] if suffix else lines)
    translation = translate_text(text)
    (include / "catalogs.yaml").write_text(format_catalog_entry(translation.draft))
    path = include / "pipelines" / f"{translation.draft.name}.yaml"
    path.write_text(format_pipeline_file(translation))
    pipeline = load_pipeline(path)
    assert name_intermediate_table(pipeline, pipeline.tables[0]).removeprefix("dwh.shop.") == name


@pytest.mark.parametrize(
    ("settings", "partitions", "partition_time"),
    [
        ({}, ["days(_PARTITIONTIME)"], "wall-clock"),
        ({"bigQueryMessageTimePartitioning": "true"}, ["days(_PARTITIONTIME)"], None),
        ({"timestampPartitionFieldName": "ordered_at", "timePartitioningType": "MONTH"}, ["months(ordered_at)"], None),
        ({"timePartitioningType": "NONE"}, None, None),
    ],
)
def test_partitions_of_the_bigquery_sink_are_those_that_the_manual_names(
    settings: dict[str, str], partitions: list[str] | None, partition_time: str | None
) -> None:
    names = ("bigQueryMessageTimePartitioning", "timestampPartitionFieldName", "timePartitioningType")
    config = {name: value for name, value in parse_properties(BIGQUERY_PROPERTIES).items() if name not in names}
    pipeline = read_pipeline(translate_text(format_json(config | settings)))
    assert pipeline["merge"].get("partition_time") == partition_time
    assert {str(table["create"].get("partition_by")) for table in pipeline["tables"]} == {str(partitions)}


def test_tabular_iceberg_sink_keeps_its_keys_routes_and_branch() -> None:
    translation = translate_text(format_json(TABULAR), Choices())
    pipeline = read_pipeline(translation)
    assert pipeline["source"]["key"] == {"from": "value", "fields": ["id"]}
    assert pipeline["source"]["value"] == {"format": "json"}
    orders, europe = pipeline["tables"]
    assert orders == {
        "name": "lakehouse.shop.orders",
        "route": {"field": "region", "pattern": ".*"},
        "branch": "staging",
        "create": {
            "partition_by": ["days(at)", "bucket(16, id)", "region"],
            "properties": {"write.parquet.compression-codec": "zstd"},
        },
        "upsert": True,
        "delete": True,
        "delete_when": "upper(left(`_op`, 1)) = 'D'",
    }
    assert europe["key"] == {"from": "value", "fields": ["id", "region"]}
    assert pipeline["merge"] == {"interval": "1m"}
    assert translation.draft.catalog == {
        "type": "iceberg",
        "connection": "lakehouse_catalog",
        "properties": {
            "type": "sql",
            "uri": "postgresql+psycopg2://db:5432/cat?sslmode=require",
            "warehouse": "s3://lake/wh",
            "s3.region": "eu-central-1",
        },
    }
    assert translation.position.groups == ("cg-shop", "connect-orders-sink")
    outcomes = list_outcomes(translation)
    unmapped_names = {name for name, outcome in outcomes.items() if outcome == "not mapped"}
    assert unmapped_names == {
        "iceberg.hadoop.fs.s3a.connection.maximum",
        "iceberg.tables.evolve-schema-enabled",
        "some.new.option",
    }
    assert outcomes["iceberg.table.gone.partition-by"] == "not needed"


def test_apache_iceberg_sink_appends_and_its_transforms_become_one_select() -> None:
    translation = translate_text(format_json(APACHE), Choices())
    pipeline = read_pipeline(translation)
    (events,) = pipeline["tables"]
    assert "key" not in pipeline["source"]
    assert (events["upsert"], events["delete"]) == (False, False)
    assert events["create"] == {"enabled": False}
    assert events["evolve"] == {"add_columns": False, "widen": False, "relax": False}
    assert pipeline["source"]["metadata"] == {"origin": "topic"}
    assert events["select"].strip().split("\n") == [
        "SELECT",
        "  * EXCEPT (`email`, `password_hash`, `usr`),",
        "  CAST(named_struct('topic', topic, 'partition', partition, 'offset', offset, 'timestamp', "
        "unix_millis(timestamp)) AS STRUCT<topic: STRING, partition: INT, offset: BIGINT, timestamp: BIGINT>) "
        "AS `_kafka_metadata`,",
        "  CAST(CASE WHEN `email` IS NOT NULL THEN 'hidden' END AS STRING) AS `email`,",
        "  `usr` AS `user_name`,",
        "  CAST('connect' AS STRING) AS `loaded_by`",
        "FROM record",
    ]
    assert pipeline["source"]["value"] == {"format": "protobuf", "protobuf": {"registry": "http://registry:8081"}}
    assert translation.position.control is not None
    assert translation.position.control.property == "kafka.connect.offsets.control-iceberg.connect-events-sink"
    assert list_outcomes(translation)["iceberg.tables.default-id-columns"] == "not needed"
    assert list_outcomes(translation)["transforms.unused.type"] == "not needed"


def test_schema_that_a_select_needs_is_read_from_the_table_or_is_to_be_filled_in(include: Path) -> None:
    config = {
        **APACHE,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "meta,mask",
        "transforms.meta.nested": "false",
    }
    blind = translate_text(format_json(config), Choices())
    assert [text.split(":")[0] for text in blind.draft.to_fill_in] == ["schema"]
    known = translate_text(
        format_json(config),
        Choices(),
        KnownTables(
            Column("id", "BIGINT"),
            Column("email", "STRING"),
            Column("_kafka_metadata_topic", "STRING"),
            Column("_kafka_metadata_timestamp", "BIGINT"),
        ),
    )
    assert read_pipeline(known)["source"]["value"] == {"format": "json", "schema": "id BIGINT, email STRING"}
    assert known.draft.to_fill_in == []
    (include / "catalogs.yaml").unlink()
    text, entry = format_pipeline_file(known), format_catalog_entry(known.draft)
    assert check_files(include, "events-sink", text, entry)[0] == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("{not json", "not JSON"),
        ("a=b", "neither connector.class nor debezium.sink.type"),
        ("connector.class=io.x.S3SinkConnector", "connector.class=io.x.S3SinkConnector: this sink is not understood"),
        ("connector.class=org.apache.iceberg.connect.IcebergSinkConnector", "--connector NAME"),
        ('{"name": "a", "config": {"tasks": [1]}}', "setting=tasks is an object or a list"),
    ],
)
def test_what_is_no_configuration_is_refused_with_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as error_info:
        read_config(text, "connector.json")
    assert reason in str(error_info.value)
    assert str(error_info.value).startswith("config=connector.json: ")


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# c\n! c\na = 1\nb:2\nc 3\nd=x\\\n   y\ne\\:f=g\\u0041\n\nh=\ni=a=b\n"
    expected = {"a": "1", "b": "2", "c": "3", "d": "xy", "e:f": "gA", "h": "", "i": "a=b"}
    assert parse_properties(text) == expected


def test_tables_that_records_name_must_be_given() -> None:
    config = {k: v for k, v in APACHE.items() if k != "iceberg.tables" and not k.startswith("transforms")}
    config |= {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "tbl"}
    with pytest.raises(ConfigurationError, match=r"--table namespace\.table"):
        translate_text(format_json(config))
    pipeline = read_pipeline(translate_text(format_json(config), Choices(tables=("app.a", "app.b"))))
    assert [(t["name"], t["route"]) for t in pipeline["tables"]] == [
        ("lake.app.a", {"field": "tbl"}),
        ("lake.app.b", {"field": "tbl"}),
    ]


def test_columns_that_debezium_adds_have_the_type_that_the_sink_gives_them() -> None:
    config = parse_properties(BIGQUERY_PROPERTIES)
    config |= {"transforms": "unwrap", "transforms.unwrap.add.fields": "op,ts_ms,source.ts_ms,ts_ns"}
    config |= {"transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
    translation = translate_text(format_json(config))
    source = read_pipeline(translation)["source"]
    assert source["metadata"] == {
        "__op": "value.op",
        "__ts_ms": {"from": "value.ingestion-timestamp", "type": "BIGINT"},
        "__source_ts_ms": {"from": "value.source.timestamp", "type": "BIGINT"},
    }
    reasons = {setting.name: setting.reason for setting in translation.settings}
    assert "columns __ts_ns: no metadata word tells them" in reasons["transforms.unwrap.add.fields"]
    server = DEBEZIUM_SERVER.replace("source.ts_ns,ts_ms", "source.ts_ms,ts_ms")
    source = read_pipeline(translate_text(server))["source"]
    assert [source["metadata"][name] for name in ("__source_ts_ms", "__ts_ms")] == [
        "value.source.timestamp",
        "value.ingestion-timestamp",
    ]


def test_debezium_server_reads_from_kafka_from_the_begin_of_new_topics() -> None:
    translation = translate_text(DEBEZIUM_SERVER)
    pipeline = read_pipeline(translation)
    source = pipeline["source"]
    assert (source["topics"], source["start"]) == (["pg.inventory.customers", "pg.inventory.orders"], "earliest")
    assert source["key"] == {"format": "json", "fields": ["id"]}
    assert source["value"] == {"format": "debezium-json"}
    assert source["metadata"] == {
        "__op": "value.op",
        "__table": "value.source.table",
        "__source_ts_ns": "value.source.ts_ns",
        "__ts_ms": "value.ingestion-timestamp",
    }
    customers, orders = pipeline["tables"]
    assert (customers["name"], customers["topics"]) == ("lake.shop.cdc_inventory_customers", ["pg.inventory.customers"])
    assert orders == {
        "name": "lake.shop.cdc_inventory_orders",
        "topics": ["pg.inventory.orders"],
        "upsert": True,
        "delete": True,
        "create": {"partition_by": ["days(created_at)", "bucket(8, id)"]},
    }
    outcomes = list_outcomes(translation)
    assert {name for name, outcome in outcomes.items() if outcome == "not mapped"} == {
        "debezium.sink.iceberg.allow-field-addition",
    }
    assert "there is no topic in between" in translation.position.reason


def test_debezium_servers_tables_of_format_3_are_named() -> None:
    translation = translate_text(DEBEZIUM_SERVER.replace("debezium.sink.iceberg.format-version=2", ""))
    assert any(
        "create.format_version is 3, as Debezium Server makes tables unless format-version=2" in text
        for text in translation.draft.to_check
    )
    with pytest.raises(ConfigurationError, match=r"debezium\.sink\.type=kafka: only"):
        translate_text(DEBEZIUM_SERVER.replace("debezium.sink.type=iceberg", "debezium.sink.type=kafka"))


def test_flink_insert_becomes_select_when_and_key() -> None:
    translation = translate_text(FLINK_SQL, Choices())
    pipeline = read_pipeline(translation)
    source = pipeline["source"]
    assert (source["topics"], source["start"], source["group"]) == (["shop.orders"], "group", "flink-orders")
    assert source["key"] == {"format": "json", "fields": ["id"], "schema": "`id` BIGINT NOT NULL"}
    assert source["value"] == {
        "format": "avro",
        "avro": REGISTRY,
        "schema": "`id` BIGINT NOT NULL, `customer` STRING, `amount` DECIMAL(12,2), "
        "`lines` ARRAY<STRUCT<`sku`: STRING, `n`: INT>>, `at` TIMESTAMP",
    }
    assert source["metadata"] == {"kafka_ts": "timestamp"}
    (orders,) = pipeline["tables"]
    assert orders["select"].strip().split("\n") == [
        "SELECT",
        "  `id`,",
        "  `customer` AS `customer_name`,",
        "  CAST(amount * 2 AS DECIMAL(12,2)) AS `total`,",
        "  `at`",
        "FROM record",
    ]
    assert (orders["when"], orders["when_false"]) == ("amount > 0 AND customer <> 'a;b'", "delete")
    assert orders["create"] == {"partition_by": ["customer_name"], "properties": {"format-version": "2"}}
    assert (orders["upsert"], orders["delete"]) == (True, True)
    assert translation.draft.catalog == {
        "type": "iceberg",
        "connection": "lake_catalog",
        "properties": {"type": "rest", "uri": "http://rest:8181", "warehouse": "s3://lake/wh"},
    }
    outcomes = list_outcomes(translation)
    assert {name for name, outcome in outcomes.items() if outcome == "not mapped"} == {
        "INSERT INTO lake.shop.totals",
        "TABLE orders_in.column amount_text",
    }
    assert outcomes["TABLE orders_in.WATERMARK"] == "not needed"


def test_flink_table_with_its_own_catalog_and_no_group_reads_from_the_begin(include: Path) -> None:
    script = """
        CREATE TABLE users (id INT, name VARCHAR(10), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='upsert-kafka',
          'topic'='app.users', 'properties.bootstrap.servers'='b:9092', 'key.format'='raw', 'value.format'='json');
        CREATE TABLE sink (id INT, name STRING) WITH ('connector'='iceberg', 'catalog-name'='hive_prod',
          'catalog-type'='hive', 'uri'='thrift://h:9083', 'warehouse'='hdfs://nn/wh', 'catalog-database'='app',
          'catalog-table'='users');
        INSERT INTO sink SELECT * FROM users
    """
    translation = translate_text(script, Choices())
    pipeline = read_pipeline(translation)
    assert pipeline["source"]["start"] == "earliest"
    assert pipeline["source"]["value"] == {"format": "json", "schema": "`id` INT, `name` STRING"}
    assert pipeline["tables"] == [{"name": "hive_prod.app.users", "upsert": True, "delete": True}]
    assert "put a REST catalog before the Hive metastore" in format_catalog_entry(translation.draft)
    assert list_outcomes(translation)["TABLE sink.catalog-type"] == "not mapped"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("CREATE TABLE a (x INT) WITH ('connector'='kafka', 'topic'='t')", "no INSERT INTO <Iceberg table>"),
        ("CREATE TABLE a (x INTERVAL DAY) WITH ('connector'='kafka')", "type INTERVAL has no counterpart"),
        ("CREATE TABLE a (x INT WITH ('connector'='kafka')", ") is missing"),
        ("CREATE TABLE a WITH ('connector')", "= is missing behind connector"),
    ],
)
def test_script_that_is_no_pipeline_is_refused_with_its_statement(script: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as error_info:
        translate_text(script)
    assert reason in str(error_info.value)


PLAIN_JSON = "value.converter=org.apache.kafka.connect.json.JsonConverter\nvalue.converter.schemas.enable=false\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (BIGQUERY_PROPERTIES + PLAIN_JSON.replace("=false", "=true"), "allowNewBigQueryFields"),
        (format_json(TABULAR), "iceberg.tables.evolve-schema-enabled"),
        (DEBEZIUM_SERVER, "debezium.sink.iceberg.allow-field-addition"),
    ],
    ids=("bigquery", "tabular", "debezium"),
)
def test_new_fields_of_json_are_not_said_to_become_columns(text: str, name: str) -> None:
    (setting,) = [setting for setting in translate_text(text).settings if setting.name == name]
    assert str(setting.outcome) == "not mapped"
    assert "a field that no column names is counted and left out" in setting.reason


def test_new_fields_of_plain_json_become_columns() -> None:
    """If no transform makes another row of the record, and no condition or route reads it."""
    words = ("route", "cdc-field")
    settings = {name: value for name, value in TABULAR["config"].items() if not any(word in name for word in words)}
    unrouted = {**TABULAR, "config": {**settings, "iceberg.tables": "shop.orders"}}
    unchanged = BIGQUERY_PROPERTIES.replace("kafkaDataFieldName=kafka_data\n", "")
    for text, name in (
        (unchanged + PLAIN_JSON, "allowNewBigQueryFields"),
        (format_json(unrouted), "iceberg.tables.evolve-schema-enabled"),
    ):
        translation = translate_text(text)
        (setting,) = [setting for setting in translation.settings if setting.name == name]
        assert str(setting.outcome) == "to check"
        assert setting.target.startswith("source.value.unknown_fields: add, tables[].evolve")
        pipeline = read_pipeline(translation)
        assert pipeline["source"]["value"]["unknown_fields"] == "add"
        assert all(table.get("evolve", {}).get("add_columns", True) for table in pipeline["tables"])
    assert any("key.schema" in line or "schema: the types of the key" in line for line in translation.draft.to_check)
    (existing,) = read_pipeline(translate_text(format_json(unrouted), world=KnownTables(Column("at", "DATE"))))[
        "tables"
    ]
    assert existing["create"] == {"properties": {"write.parquet.compression-codec": "zstd"}}, "it has its partitions"


@pytest.mark.parametrize("switch", ["debezium.sink.iceberg.allow-field-addition=true\n", ""], ids=["set", "by default"])
def test_new_fields_behind_debezium_server_become_columns_of_tables_that_are_there(include: Path, switch: str) -> None:
    """Those have their partitions, by columns that the file does not declare."""
    text = DEBEZIUM_SERVER.replace("debezium.sink.iceberg.allow-field-addition=true\n", switch)
    columns = (Column("id", "BIGINT"), Column("created_at", "TIMESTAMP"))
    translation = translate_text(text, world=KnownTables(*columns))
    pipeline = read_pipeline(translation)
    assert pipeline["source"]["value"] == {"format": "debezium-json", "unknown_fields": "add"}
    assert [table.get("create") for table in pipeline["tables"]] == [None, None]
    assert check_files(include, "pg", format_pipeline_file(translation), "")[0] == ()
    assert {str(each.outcome) for each in translation.settings if "addition" in each.name} <= {"to check"}
    assert any(
        text.startswith("Debezium Server adds columns for new fields; here too") for text in translation.draft.to_check
    )
    refusing = DEBEZIUM_SERVER.replace("field-addition=true", "field-addition=false")
    refused = read_pipeline(translate_text(refusing, world=KnownTables(*columns)))
    assert (refused["source"]["value"], refused["tables"][0]["evolve"]["add_columns"]) == (
        {"format": "debezium-json"},
        False,
    )


def test_new_fields_of_a_registry_format_become_columns() -> None:
    translation = translate_text(BIGQUERY_PROPERTIES)
    assert list_outcomes(translation)["allowNewBigQueryFields"] == "mapped"
    assert read_pipeline(translation)["tables"][0]["evolve"]["add_columns"]


def test_names_that_the_sink_sanitizes_are_not_mapped() -> None:
    translation = translate_text(BIGQUERY_PROPERTIES.replace("sanitizeFieldNames=false", "sanitizeFieldNames=true"))
    assert list_outcomes(translation)["sanitizeFieldNames"] == "not mapped"
    assert any(text.startswith("sanitizeFieldNames:") for text in translation.draft.to_check)


def test_offsets_of_a_sink_that_loads_files_later_are_no_position() -> None:
    """They are committed when the files are in the bucket: rows of files that are not loaded yet would be lost."""
    plain = translate_text(BIGQUERY_PROPERTIES.replace("enableBatchLoad=", "enableBatchLoad=true"))
    assert plain.position.ahead == ""  # a topic of that name; this sink has none
    text = BIGQUERY_PROPERTIES.replace("enableBatchLoad=", "gcsFolderName=waiting\nenableBatchLoad=shop.customers")
    translation = translate_text(text)
    assert "wait until gs://shop-staging/waiting has no file of it" in translation.position.ahead
    assert read_pipeline(translation)["source"]["start"] == "FILL-IN"
    assert list_outcomes(translation)["enableBatchLoad"] == "not mapped"


def test_upsert_that_debezium_server_leaves_to_its_version_is_to_be_filled_in(include: Path) -> None:
    """Two tables: each of them is refused by `validate` until somebody says what it holds."""
    (include / "catalogs.yaml").unlink()
    translation = translate_text(DEBEZIUM_SERVER.replace("debezium.sink.iceberg.upsert=true", ""))
    assert any(text.startswith("upsert and delete: no setting says") for text in translation.draft.to_fill_in)
    text, entry = format_pipeline_file(translation), format_catalog_entry(translation.draft)
    problems, _ = check_files(include, "pg", text, entry)
    places = [f"tables[{index}].{word}" for index in (0, 1) for word in ("upsert", "delete")]
    assert [problem.partition(": ")[2] for problem in problems] == [
        f"{place}=<FILL-IN>: must be true or false" for place in places
    ]


def change_bigquery(**changes: str) -> str:
    return format_json(parse_properties(BIGQUERY_PROPERTIES) | changes)


def find_setting(translation: Translation, name: str) -> tuple[str, str, str]:
    (setting,) = [setting for setting in translation.settings if setting.name == name]
    return str(setting.outcome), setting.target, setting.reason


def report_import(translation: Translation) -> dict[str, Any]:
    position = find_position(translation.position, translation.draft, UnreachableWorld())
    return describe_import(translation, position, [], is_in_file=False)


@pytest.mark.parametrize(
    ("changes", "name", "merge", "difference"),
    [
        ({"mergeIntervalMs": "30000"}, "mergeIntervalMs", {"interval": "1m", "records_threshold": 100_000}, "1500"),
        (
            {"mergeRecordsThreshold": "5"},
            "mergeRecordsThreshold",
            {"interval": "90s", "records_threshold": 1000},
            "1500",
        ),
    ],
    ids=("interval", "threshold"),
)
def test_pace_that_bigquery_does_not_take_is_the_next_one_that_it_takes(
    include: Path, changes: dict[str, str], name: str, merge: dict[str, Any], difference: str
) -> None:
    """Else the file has a value that the import chose itself, and that `validate` refuses."""
    (include / "catalogs.yaml").unlink()
    translation = translate_text(change_bigquery(**changes))
    assert read_pipeline(translation)["merge"] == merge | {"intermediate_suffix": "_tmp_kcbq"}
    outcome, _, reason = find_setting(translation, name)
    assert (outcome, difference in reason) == ("to check", True)
    entry = format_catalog_entry(translation.draft)
    assert check_files(include, translation.draft.name, format_pipeline_file(translation), entry)[0] == ()
    assert any(text.startswith(f"{name}: merge.") for text in report_import(translation)["to_check"])


def test_setting_with_another_meaning_is_to_check_and_not_under_mapped() -> None:
    """Of JSON, new fields get their types from values; deletes of Debezium Server have another column."""
    unchanged = BIGQUERY_PROPERTIES.replace("kafkaDataFieldName=kafka_data\n", "") + PLAIN_JSON
    kept = DEBEZIUM_SERVER.replace("upsert-keep-deletes=false", "upsert-keep-deletes=true")
    appended = DEBEZIUM_SERVER.replace("iceberg.upsert=true", "iceberg.upsert=false")
    for text, name, words in (
        (unchanged, "allowNewBigQueryFields", "types come from the records' values"),
        (kept, "debezium.sink.iceberg.upsert-keep-deletes", "the sink wrote __deleted"),
        (DEBEZIUM_SERVER, "debezium.transforms.unwrap.delete.tombstone.handling.mode", "__deleted"),
        (appended, "debezium.sink.iceberg.upsert", "it appended deletes as rows too"),
    ):
        translation = translate_text(text)
        outcome, _, reason = find_setting(translation, name)
        assert (outcome, words in reason) == ("to check", True), name
        report = format_translation(report_import(translation), translation.settings)
        mapped, _, rest = report.partition("\nto check\n")
        assert f"  {name}:" not in mapped
        assert f"  {name}:" in rest


def test_lines_of_the_report_are_longer_than_comments_of_the_file() -> None:
    line = "merge " * 19 + "a"  # 117 characters with its indent
    data = report_import(translate_text(BIGQUERY_PROPERTIES)) | {"to_check": [line]}
    assert f"\n  {line}" in format_translation(data, ())


def test_defaults_of_a_schema_that_transforms_put_in_the_place_of_null_are_to_check() -> None:
    mask = {
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "email",
    }
    said = "the schema's default in the place of a NULL"
    typed = translate_text(change_bigquery(**mask))
    assert [text for text in typed.draft.to_check if said in text] == [
        f"tables[].select: mask puts {said}, as Kafka Connect's transforms do by default; here a NULL stays NULL."
    ]
    option = "transforms.mask.replace.null.with.default"
    assert find_setting(translate_text(change_bigquery(**mask, **{option: "true"})), option)[0] == "to check"
    without = translate_text(change_bigquery(**mask, **{option: "false"}))
    plain = translate_text(format_json(parse_properties(BIGQUERY_PROPERTIES + PLAIN_JSON) | mask))
    assert find_setting(without, option)[0] == "not needed"
    assert not [text for each in (without, plain) for text in each.draft.to_check if said in text]


def test_table_of_a_topic_that_is_not_there_behind_the_transforms_is_to_check() -> None:
    """The connector looks a topic up under its new name: the entry of the old name gives no table."""
    router = {
        "transforms": "router",
        "transforms.router.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.router.regex": "shop[.](.*)",
        "transforms.router.replacement": "$1",
        "topic2TableMap": "orders:all_orders,shop.customers:all_customers",
    }
    translation = translate_text(change_bigquery(**router))
    assert [table["name"] for table in read_pipeline(translation)["tables"]] == [
        "dwh.shop.all_orders",
        "dwh.shop.customers",
    ]
    outcome, _, reason = find_setting(translation, "topic2TableMap")
    assert outcome == "to check"
    assert "shop.customers:all_customers" in reason
    assert "orders:all_orders," not in reason
    both = translate_text(change_bigquery(**router | {"topic2TableMap": "orders:all_orders,customers:all"}))
    assert find_setting(both, "topic2TableMap")[0] == "mapped"


def test_key_of_each_topic_is_its_own_where_the_tables_tell_it_and_to_check_where_not() -> None:
    class TablesWithKeys(UnreachableWorld):
        def describe_table(self, name: str) -> TableShape | None:
            field = "order_id" if name.endswith("orders") else "customer_id"
            return TableShape((Column("kafka_key", f"STRUCT<{field}: BIGINT>"),))

    translation = translate_text(BIGQUERY_PROPERTIES, Choices(), TablesWithKeys())
    pipeline = read_pipeline(translation)
    assert pipeline["source"]["key"]["fields"] == ["order_id"]
    assert [table.get("key", {}).get("fields") for table in pipeline["tables"]] == [None, ["customer_id"]]
    said = "One key for the topics shop.orders, shop.customers"
    assert not any(text.startswith(said) for text in translation.draft.to_check)
    assert any(text.startswith(said) for text in translate_text(BIGQUERY_PROPERTIES).draft.to_check)


def test_field_of_a_transform_that_a_table_lacks_is_to_check() -> None:
    """The connector passes over it; a select makes a column of it."""
    mask = {
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "email",
    }
    plain = parse_properties(BIGQUERY_PROPERTIES + PLAIN_JSON) | mask
    columns = (Column("id", "BIGINT"), Column("created_at", "TIMESTAMP"))
    lacking = translate_text(format_json(plain), world=KnownTables(*columns))
    said = [text for text in lacking.draft.to_check if "email" in text and "lacks" in text]
    assert [text.partition(" ")[0] for text in said] == ["table=dwh.shop.shop_orders", "table=dwh.shop.shop_customers"]
    having = translate_text(format_json(plain), world=KnownTables(*columns, Column("email", "STRING")))
    assert not any("lacks" in text for text in having.draft.to_check)
    unknown = translate_text(change_bigquery(**mask))
    assert any(text.startswith("The transforms read the fields email of 2 topics") for text in unknown.draft.to_check)


@pytest.mark.parametrize("dynamic", ["false", None], ids=["false", "unset"])
def test_sink_without_tables_that_names_none_by_records_is_said_in_its_own_words(dynamic: str | None) -> None:
    config = {name: value for name, value in TABULAR["config"].items() if name != "iceberg.tables"}
    config |= {"iceberg.tables.dynamic-enabled": dynamic} if dynamic else {}
    with pytest.raises(ConfigurationError, match=r"^iceberg\.tables: missing, and .*dynamic-enabled is not true"):
        translate_text(format_json({**TABULAR, "config": config}), Choices())
    named = {**TABULAR["config"], "iceberg.tables.dynamic-enabled": "false"}
    translation = translate_text(format_json({**TABULAR, "config": named}), Choices())
    assert find_setting(translation, "iceberg.tables.dynamic-enabled") == (
        "not needed",
        "",
        "the tables are those of iceberg.tables",
    )
