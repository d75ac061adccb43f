-- How many records are bad today that no dead letter names: the table may have their rows.
SELECT count(*) FROM {{ source | name }} VERSION AS OF {{ snapshot_id }} r
WHERE {% include "_parts.sql" %} AND op = 'bad' AND bad.stage IN ('key', 'value')
{%- if letters %} AND NOT EXISTS (
  SELECT 1 FROM {{ letters | name }} VERSION AS OF {{ letters_snapshot_id }} l
  WHERE l.`table` = {{ target | text }} AND l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset AND l.replayed_by IS NULL
    AND {% include "_of_this_topic.sql" %}
)
{%- endif %}
