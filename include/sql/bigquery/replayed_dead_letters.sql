-- What is staged as bad again stays, with today's reason; every other dead letter of these offsets has been read.
MERGE INTO {{ table | name }} AS t
USING (
  SELECT topic, `partition`, `offset`, bad.stage, bad.class AS error_class, bad.message
  FROM {{ source | name }}
  WHERE batch_number = {{ batch }} AND attempt = {{ attempt | text }} AND op = 'bad'
) AS s
ON t.`table` = {{ target | text }} AND t.topic = s.topic AND t.`partition` = s.`partition` AND t.`offset` = s.`offset`
WHEN MATCHED THEN UPDATE SET stage = s.stage, error_class = s.error_class, message = s.message
WHEN NOT MATCHED BY SOURCE AND t.`table` = {{ target | text }} AND t.replayed_at IS NULL AND (
{%- for topic, partition, start, end in ranges %}
  {{ "OR " if not loop.first }}(t.topic = {{ topic | text }} AND t.`partition` = {{ partition }} AND t.`offset` >= {{ start }} AND t.`offset` < {{ end }})
{%- endfor %}
) THEN UPDATE SET replayed_at = CURRENT_TIMESTAMP()
