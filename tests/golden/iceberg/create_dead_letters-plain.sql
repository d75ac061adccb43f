CREATE TABLE IF NOT EXISTS `lake`.`shop`.`tidegate_shop_dead_letters` (
  topic STRING,
  partition INT,
  offset BIGINT,
  timestamp TIMESTAMP,
  key BINARY,
  value BINARY,
  headers ARRAY<STRUCT<key: STRING, value: BINARY>>,
  stage STRING,
  error_class STRING,
  message STRING,
  batch BIGINT,
  attempt STRING,
  `table` STRING,
  written_at TIMESTAMP,
  replayed_at TIMESTAMP,
  topic_id STRING,
  replayed_by STRING
)
USING iceberg
PARTITIONED BY (`table`)
TBLPROPERTIES (
  'format-version' = '2',
  'tidegate.kind' = 'dead_letters',
  'tidegate.pipeline' = 'shop',
  'tidegate.format' = '1',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '10',
  'commit.retry.num-retries' = '10'
)
