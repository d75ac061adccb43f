-- A place in the log is one dead letter for each table: writing it again changes nothing, another attempt's takes over.
MERGE INTO {{ table | name }} t
USING (
  SELECT
    topic, partition, offset, timestamp, bad.key, bad.value, bad.headers, bad.stage, bad.class AS error_class, bad.message,
    batch_number AS batch, attempt, {{ target | text }} AS `table`,
    current_timestamp() AS written_at, CAST(NULL AS TIMESTAMP) AS replayed_at
  FROM {{ source | name }} VERSION AS OF {{ snapshot_id }}
  WHERE batch_number = {{ batch }} AND attempt = {{ attempt | text }} AND op = 'bad'
) s
ON t.`table` = {{ target | text }} AND t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset
WHEN MATCHED AND t.attempt <> s.attempt THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *
