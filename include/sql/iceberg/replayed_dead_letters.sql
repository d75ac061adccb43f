-- What is staged as bad again stays, with today's reason; every other dead letter of these offsets has been read.
-- One that a person has discarded meanwhile stays discarded.
MERGE INTO {{ table | name }} t
USING (
  SELECT topic, partition, offset, bad.stage, bad.class AS error_class, bad.message,
    {% include "_topic_id.sql" %} AS topic_id
  FROM {{ source | name }} VERSION AS OF {{ snapshot_id }}
  WHERE {% include "_parts.sql" %} AND op = 'bad'
) s
ON t.`table` = {{ target | text }} AND t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset
AND (t.topic_id = s.topic_id OR (t.topic_id IS NULL AND s.topic_id IS NULL))
WHEN MATCHED AND t.replayed_at IS NULL THEN UPDATE SET t.stage = s.stage, t.error_class = s.error_class, t.message = s.message
WHEN NOT MATCHED BY SOURCE AND t.`table` = {{ target | text }} AND t.replayed_at IS NULL AND (
{%- for topic, partition, start, end in ranges %}
  {{ "OR " if not loop.first }}(t.topic = {{ topic | text }} AND t.partition = {{ partition }} AND t.offset >= {{ start }} AND t.offset < {{ end }} {%- if ids.get(topic) %} AND t.topic_id = {{ ids[topic] | text }} {%- else %} AND t.topic_id IS NULL {%- endif %})
{%- endfor %}
) THEN UPDATE SET t.replayed_at = current_timestamp(), t.replayed_by = {{ attempt | text }}
