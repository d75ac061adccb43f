CREATE TABLE IF NOT EXISTS {{ table | name }} (
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
{%- for key, value in own.properties.items() %}
  {{ key | text }} = {{ value | text }},
{%- endfor %}
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '10',
  'commit.retry.num-retries' = '10'
)
