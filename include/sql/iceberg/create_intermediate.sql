CREATE TABLE IF NOT EXISTS {{ table | name }} (
  key STRUCT<{% for column in keys %}{{ column.name | quoted }}: {{ column.type }}{{ ", " if not loop.last }}{% endfor %}>,
  value STRUCT<{% for column in values %}{{ column.name | quoted }}: {{ column.type }}{{ ", " if not loop.last }}{% endfor %}>,
  {%- if sequence %}
  sequence STRUCT<{% for column in sequence %}{{ column.name | quoted }}: {{ column.type }}{{ ", " if not loop.last }}{% endfor %}>,
  {%- endif %}
  {%- if dead_letters %}
  bad STRUCT<key: BINARY, value: BINARY, headers: ARRAY<STRUCT<key: STRING, value: BINARY>>, stage: STRING, class: STRING, message: STRING>,
  {%- endif %}
  {%- if kept %}
  kept ARRAY<STRING>,
  {%- endif %}
  op STRING,
  topic STRING,
  partition INT,
  offset BIGINT,
  timestamp TIMESTAMP,
  partition_time TIMESTAMP,
  i BIGINT,
  batch_number BIGINT,
  attempt STRING
)
USING iceberg
PARTITIONED BY (batch_number)
TBLPROPERTIES (
  'format-version' = '2',
{%- for key, value in own.properties.items() %}
  {{ key | text }} = {{ value | text }},
{%- endfor %}
  'tidegate.shape' = {{ shape | text }},
  'tidegate.highest-batch' = '{{ batch }}',
  'write.distribution-mode' = 'none',
{#- a larger dictionary of keys or values costs more than it saves, as the rows of a batch are read once #}
  'write.parquet.dict-size-bytes' = '4096',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '3',
{#- ten years: the snapshot of a batch that waits tells its ranges, and other tools expire those of five days #}
  'history.expire.max-snapshot-age-ms' = '315360000000',
  'commit.retry.num-retries' = '10'
{%- for key, value in properties.items() %},
  {{ key | text }} = {{ value | text }}
{%- endfor %}
)
