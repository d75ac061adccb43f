CREATE TABLE IF NOT EXISTS {{ table | name }} (
  key STRUCT<{% for column in keys %}{{ column.name | quoted }} {{ column.type | type }}{{ ", " if not loop.last }}{% endfor %}>,
  value STRUCT<{% for column in values %}{{ column.name | quoted }} {{ column.type | type }}{{ ", " if not loop.last }}{% endfor %}>,
  {%- if sequence %}
  sequence STRUCT<{% for column in sequence %}{{ column.name | quoted }} {{ column.type | type }}{{ ", " if not loop.last }}{% endfor %}>,
  {%- endif %}
  {%- if dead_letters %}
  bad STRUCT<key BYTES, value BYTES, headers ARRAY<STRUCT<key STRING, value BYTES>>, stage STRING, class STRING, message STRING>,
  {%- endif %}
  {%- if kept %}
  kept ARRAY<STRING>,
  {%- endif %}
  op STRING,
  topic STRING,
  `partition` INT64,
  `offset` INT64,
  `timestamp` TIMESTAMP,
  partition_time TIMESTAMP,
  i INT64,
  batch_number INT64,
  attempt STRING
)
PARTITION BY RANGE_BUCKET(batch_number, GENERATE_ARRAY({{ batch }}, {{ batch + 9990 }}, 1))
OPTIONS (
  labels = [('tidegate_shape', {{ shape | text }}), ('tidegate_highest_batch', '{{ batch }}'), {% include "_mark.sql" %}],
  description = {{ properties.values() | join(" ") | note }},
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 30 DAY)
)
