-- The dead letters of this table at the places of the key's records.
WITH records AS (
{% include "_of_one_key.sql" %}
)
SELECT to_json(collect_list(named_struct(
  'topic', topic, 'partition', partition, 'offset', offset, 'topic_id', topic_id, 'stage', stage,
  'reason', left(message, {{ max_characters }}), 'written_at_ms', unix_millis(written_at), 'over_at_ms', unix_millis(replayed_at),
  'replayed_by', replayed_by
))) FROM {{ letters | name }} VERSION AS OF {{ letters_snapshot_id }} l LEFT SEMI JOIN records r
ON l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset
WHERE l.`table` = {{ target | text }}
