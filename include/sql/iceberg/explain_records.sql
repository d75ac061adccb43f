-- The newest records of the key, and what became of each; how many there are, and from how many partitions they come.
WITH records AS (
{% include "_of_one_key.sql" %}
)
SELECT to_json(named_struct(
  'count', count_if(fate <> 'key'),
  'count_ahead', count_if(fate <> 'key' AND batch_number <> {{ batch }}),
  'partitions', count(DISTINCT CASE WHEN fate = 'staged' AND batch_number = {{ batch }} THEN struct(topic, partition) END),
  'unreadable', count_if(fate = 'key'),
  'unreadable_at', min(CASE WHEN fate = 'key' THEN concat_ws(':', topic, partition, offset) END),
  'records', collect_list(CASE WHEN fate <> 'key' AND rank <= {{ max_records }} THEN named_struct(
    'topic', topic, 'partition', partition, 'offset', offset, 'i', i, 'at_ms', unix_millis(timestamp),
    'is_ahead', batch_number <> {{ batch }}, 'fate', fate, 'op', op, 'reason', left(bad.message, {{ max_characters }}),
    'value', left(to_json(value), {{ max_characters }})
  ) END)
))
FROM (
  SELECT *, row_number() OVER (PARTITION BY fate = 'key', batch_number ORDER BY offset DESC, i DESC) AS rank FROM records
)
