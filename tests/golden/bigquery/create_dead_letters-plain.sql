CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`tidegate_shop_dead_letters` (
  topic STRING,
  `partition` INT64,
  `offset` INT64,
  `timestamp` TIMESTAMP,
  key BYTES,
  value BYTES,
  headers ARRAY<STRUCT<key STRING, value BYTES>>,
  stage STRING,
  error_class STRING,
  message STRING,
  batch INT64,
  attempt STRING,
  `table` STRING,
  written_at TIMESTAMP,
  replayed_at TIMESTAMP,
  topic_id STRING,
  replayed_by STRING
)
CLUSTER BY `table`, topic
OPTIONS (labels = [('tidegate-kind', 'dead_letters'), ('tidegate-owner', 'c4d120e671bb8a328fbc44f3e88fedc3a03c827c'), ('tidegate-format', '1')])
