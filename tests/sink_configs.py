"""Configurations of other systems' sinks as people run them: every setting that matters, with secrets to look for."""

import json
from typing import Any

SECRET = "geheim"

BIGQUERY_PROPERTIES = f"""
# the shop's warehouse
name=kcbq-shop
connector.class=com.wepay.kafka.connect.bigquery.BigQuerySinkConnector
tasks.max=3
topics=shop.orders,shop.customers
project=my-project
defaultDataset=shop
keyfile=/opt/{SECRET}.json
keySource = FILE
autoCreateTables=true
autoCreateBucket=false
gcsBucketName=shop-staging
enableBatchLoad=
sanitizeTopics=true
sanitizeFieldNames=false
allowNewBigQueryFields=true
allowBigQueryRequiredFieldRelaxation=true
allowSchemaUnionization=false
allBQFieldsNullable=false
upsertEnabled=true
deleteEnabled=true
kafkaKeyFieldName=kafka_key
kafkaDataFieldName=kafka_data
mergeIntervalMs=90000
mergeRecordsThreshold=100000
intermediateTableSuffix=tmp_kcbq
bigQueryPartitionDecorator=false
bigQueryMessageTimePartitioning=false
timestampPartitionFieldName=created_at
timePartitioningType=MONTH
partitionExpirationMs=7776000000
clusteringPartitionFieldNames=customer_id,region
convertDoubleSpecialValues=false
convertDebeziumTimestampToInteger=false
avroDataCacheSize=100
queueSize=1000
threadPoolSize=10
bigQueryRetry=3
bigQueryRetryWait=1000
max.retries=10
enableRetries=true
key.converter=io.confluent.connect.avro.AvroConverter
key.converter.schema.registry.url=https://registry:8081
key.converter.basic.auth.credentials.source=USER_INFO
key.converter.basic.auth.user.info=user:{SECRET}
value.converter=io.confluent.connect.avro.AvroConverter
value.converter.schema.registry.url=https://registry:8081
value.converter.basic.auth.credentials.source=USER_INFO
value.converter.basic.auth.user.info=user:{SECRET}
value.converter.enhanced.avro.schema.support=true
errors.tolerance=all
errors.deadletterqueue.topic.name=dlq-shop
errors.deadletterqueue.topic.replication.factor=3
errors.deadletterqueue.context.headers.enable=true
errors.log.enable=true
errors.log.include.messages=false
consumer.override.security.protocol=SASL_SSL
consumer.override.sasl.mechanism=PLAIN
consumer.override.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="connect" password="{SECRET}";
consumer.override.max.poll.records=5000
consumer.override.auto.offset.reset=earliest
"""

TABULAR: dict[str, Any] = {
    "name": "orders-sink",
    "config": {
        "name": "orders-sink",
        "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
        "tasks.max": 2,
        "topics": "shop.orders",
        "iceberg.tables": "shop.orders,shop.orders_eu",
        "iceberg.tables.route-field": "region",
        "iceberg.table.shop.orders.route-regex": ".*",
        "iceberg.table.shop.orders_eu.route-regex": "eu|uk",
        "iceberg.table.shop.orders_eu.id-columns": "id,region",
        "iceberg.table.shop.orders.partition-by": "day(at), bucket(id, 16), region",
        "iceberg.table.gone.partition-by": "day(at)",
        "iceberg.tables.upsert-mode-enabled": True,
        "iceberg.tables.default-id-columns": "id",
        "iceberg.tables.cdc-field": "_op",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.evolve-schema-enabled": "true",
        "iceberg.tables.auto-create-props.write.parquet.compression-codec": "zstd",
        "iceberg.tables.default-commit-branch": "staging",
        "iceberg.control.topic": "control-shop",
        "iceberg.control.group-id": "cg-shop",
        "iceberg.control.commit.interval-ms": "60000",
        "iceberg.control.commit.timeout-ms": "30000",
        "iceberg.control.commit.threads": "4",
        "iceberg.catalog": "lakehouse",
        "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "iceberg.catalog.uri": f"jdbc:postgresql://db:5432/cat?user=u&password={SECRET}&sslmode=require",
        "iceberg.catalog.jdbc.user": "u",
        "iceberg.catalog.jdbc.password": SECRET,
        "iceberg.catalog.warehouse": "s3a://lake/wh",
        "iceberg.catalog.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "iceberg.catalog.client.region": "eu-central-1",
        "iceberg.catalog.s3.access-key-id": f"AKIA-{SECRET}",
        "iceberg.catalog.s3.secret-access-key": SECRET,
        "iceberg.hadoop.fs.s3a.connection.maximum": "100",
        "iceberg.kafka.security.protocol": "SASL_SSL",
        "iceberg.kafka.sasl.jaas.config": f'x required password="{SECRET}";',
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": False,
        "some.new.option": SECRET,
    },
}

APACHE: dict[str, Any] = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "name": "events-sink",
    "topics": "app.clicks,app.views",
    "iceberg.tables": "app.events",
    "iceberg.tables.default-id-columns": "id",
    "iceberg.catalog": "lake",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://rest:8181",
    "iceberg.catalog.credential": f"id:{SECRET}",
    "iceberg.catalog.warehouse": "main",
    "iceberg.catalog.oauth2-server-uri": "http://idp/token",
    "value.converter": "io.confluent.connect.protobuf.ProtobufConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
    "transforms": "router,meta,mask,drop,stamp,only",
    "transforms.router.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.router.regex": "app\\.(.*)",
    "transforms.router.replacement": "$1",
    "transforms.meta.type": "org.apache.iceberg.connect.transforms.KafkaMetadataTransform",
    "transforms.meta.nested": "true",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "email",
    "transforms.mask.replacement": "hidden",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.drop.exclude": "password_hash",
    "transforms.drop.renames": "usr:user_name",
    "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.stamp.topic.field": "origin",
    "transforms.stamp.static.field": "loaded_by",
    "transforms.stamp.static.value": "connect",
    "transforms.only.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.only.predicate": "blank",
    "transforms.unused.type": "org.apache.kafka.connect.transforms.Flatten$Value",
    "predicates": "blank",
    "predicates.blank.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}


def format_json(config: dict[str, Any]) -> str:
    return json.dumps(config)


DEBEZIUM_SERVER = f"""
debezium.sink.type=iceberg
debezium.sink.iceberg.upsert=true
debezium.sink.iceberg.upsert-keep-deletes=false
debezium.sink.iceberg.table-namespace=shop
debezium.sink.iceberg.table-prefix=cdc_
debezium.sink.iceberg.catalog-name=lake
debezium.sink.iceberg.type=rest
debezium.sink.iceberg.uri=http://rest:8181
debezium.sink.iceberg.warehouse=s3a://lake/wh
debezium.sink.iceberg.io-impl=org.apache.iceberg.aws.s3.S3FileIO
debezium.sink.iceberg.s3.access-key-id=AKIA-{SECRET}
debezium.sink.iceberg.s3.secret-access-key={SECRET}
debezium.sink.iceberg.format-version=2
debezium.sink.iceberg.allow-field-addition=true
debezium.sink.iceberg.partition-by=day(created_at), bucket(id, 8)
debezium.sink.iceberg.write.format.default=parquet
debezium.sink.iceberg.destination-regexp=pg\\\\.(.*)
debezium.sink.iceberg.destination-regexp-replace=$1
debezium.sink.batch.batch-size-wait=MaxBatchSizeWait
debezium.sink.batch.batch-size-wait.max-wait-ms=60000
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.offset.storage=io.debezium.server.iceberg.offset.IcebergOffsetBackingStore
debezium.source.offset.flush.interval.ms=0
debezium.source.database.hostname=db
debezium.source.database.user=debezium
debezium.source.database.password={SECRET}
debezium.source.topic.prefix=pg
debezium.source.table.include.list=inventory.customers,inventory.orders
debezium.format.value=json
debezium.format.key=json
debezium.transforms=unwrap
debezium.transforms.unwrap.type=io.debezium.transforms.ExtractNewRecordState
debezium.transforms.unwrap.add.fields=op,table,source.ts_ns,ts_ms
debezium.transforms.unwrap.delete.tombstone.handling.mode=rewrite
quarkus.log.level=INFO
quarkus.http.port=8088
"""

FLINK_SQL = f"""
-- the shop's orders; a semicolon in a comment ; ends nothing
SET 'execution.checkpointing.interval' = '60 s';
CREATE CATALOG lake WITH (
  'type' = 'iceberg', 'catalog-type' = 'rest', 'uri' = 'http://rest:8181',
  'warehouse' = 's3://lake/wh', 's3.secret-access-key' = '{SECRET}', 'clients' = '5'
);
CREATE DATABASE IF NOT EXISTS lake.shop;
CREATE TABLE orders_in (
  `id` BIGINT NOT NULL,
  customer STRING,
  amount DECIMAL(12, 2),
  lines ARRAY<ROW<sku STRING, n INT>>,
  at TIMESTAMP_LTZ(3),
  kafka_ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  amount_text AS CAST(amount AS STRING),
  WATERMARK FOR at AS at - INTERVAL '5' SECOND,
  PRIMARY KEY (`id`) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'shop.orders',
  'properties.bootstrap.servers' = 'broker:9092',
  'properties.group.id' = 'flink-orders',
  'properties.security.protocol' = 'SASL_SSL',
  'properties.sasl.jaas.config' = 'x required password="{SECRET}";',
  'key.format' = 'json',
  'value.format' = 'avro-confluent',
  'value.avro-confluent.url' = 'http://registry:8081',
  'value.avro-confluent.basic-auth.user-info' = 'u:{SECRET}',
  'value.fields-include' = 'ALL',
  'sink.parallelism' = '2'
);
CREATE TABLE lake.shop.orders (
  id BIGINT NOT NULL, customer_name STRING, total DECIMAL(12, 2), at TIMESTAMP_LTZ(6), PRIMARY KEY (id) NOT ENFORCED
) PARTITIONED BY (customer_name) WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');
INSERT INTO lake.shop.orders
SELECT o.id, o.customer, o.amount * 2, o.at FROM orders_in AS o WHERE o.amount > 0 AND o.customer <> 'a;b';
INSERT INTO lake.shop.totals SELECT customer, sum(amount) FROM orders_in GROUP BY customer;
"""
