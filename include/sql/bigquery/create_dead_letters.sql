CREATE TABLE IF NOT EXISTS {{ table | name }} (
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
OPTIONS (labels = [{% include "_mark.sql" %}])
