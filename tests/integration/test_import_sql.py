"""What an import writes as SQL gives, on real Spark, the rows that the former sink kept."""

import json
import random
from typing import Any

import connect_transforms as connect
import pytest
import yaml
from sink_configs import format_json
from tidegate.migration.connector_config import Choices, read_config
from tidegate.migration.draft import Translation
from tidegate.migration.report import format_pipeline_file
from tidegate.migration.translate import translate
from tidegate.sinks.world import UnreachableWorld

SEED = 20260701
CHAINS = 40
FLINK = """
CREATE TABLE src (id BIGINT, status STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
  'topic' = 't', 'key.format' = 'json', 'value.format' = 'json', 'properties.bootstrap.servers' = 'b:9092');
CREATE TABLE sink (id BIGINT, status STRING) WITH ('connector' = 'iceberg', 'catalog-name' = 'lake',
  'catalog-type' = 'rest', 'uri' = 'http://r:8181', 'catalog-database' = 'shop');
"""
STATUSES = {1: "open (new)", 2: "open(new)", 3: "a , b", 4: "o.example.com", 5: "007", 6: r"\d+", 7: "it's", 8: "a\nb"}
AVRO_SINK = {
    "name": "sink", "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "topics": "orders",
    "iceberg.tables": "shop.orders", "iceberg.catalog.type": "rest", "iceberg.catalog.uri": "http://rest:8181",
    "value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": "http://r",
}  # fmt: skip


def read_table(translation: Translation) -> dict[str, Any]:
    """The first table of the file, as YAML reads it back."""
    table: dict[str, Any] = yaml.safe_load(format_pipeline_file(translation))["tables"][0]
    return table


def import_text(text: str) -> Translation:
    return translate(read_config(text, "connector"), Choices(), UnreachableWorld())


@pytest.mark.repeats("unit/tidegate/migration/test_flink.py::test_condition_keeps_texts_and_names")
def test_rows_that_flinks_condition_keeps_are_kept(spark: Any) -> None:
    spark.createDataFrame(list(STATUSES.items()), "id BIGINT, status STRING").createOrReplaceTempView("flink_record")
    kept = {
        "o.status = 'open (new)'": {1},
        "o.status IN ('a , b', 'o.example.com')": {3, 4},
        r"REGEXP(o.status, '^\d+$')": {5},
        r"o.status = '\d+' OR o.status = 'it''s'": {6, 7},
        "o.status = 'a\nb' -- a comment\n": {8},
    }
    for condition, ids in kept.items():
        table = read_table(import_text(f"{FLINK} INSERT INTO sink SELECT o.id, o.status FROM src o WHERE {condition}"))
        rows = spark.sql(f"SELECT id FROM flink_record WHERE {table['when']}").collect()
        assert {row["id"] for row in rows} == ids, table["when"]


def test_rows_of_a_chain_of_transforms_are_the_sinks(spark: Any) -> None:
    """Chains that are folded whole; a schema has the fields, as in Avro."""
    chances = random.Random(SEED)
    records = [connect.VALUES, {**connect.VALUES, "a": None, "d": "44"}]
    schema = ", ".join(f"{name} STRING" for name in connect.OWN_FIELDS)
    frame = spark.createDataFrame([tuple(record.values()) for record in records], schema)
    frame.createOrReplaceTempView("record")
    checked = 0
    while checked < CHAINS:
        steps = connect.choose_chain(chances)
        written = [connect.apply(steps, record, has_schema=True) for record in records]
        translation = import_text(format_json({**AVRO_SINK, **connect.list_settings(steps)}))
        select = read_table(translation).get("select", "SELECT * FROM record")
        if "not mapped" in [setting.outcome for setting in translation.settings]:
            continue
        rows = [row.asDict() for row in spark.sql(select).collect()]
        assert [drop_nulls(row) for row in rows] == [drop_nulls(row) for row in written], json.dumps(steps)
        checked += 1


def drop_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
