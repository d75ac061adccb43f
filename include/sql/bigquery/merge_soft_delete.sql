-- The last record of each key says whether the row counts as deleted, its last upsert what stands in it: a row that
-- comes and goes within one batch is left as it would be by two.
MERGE INTO {{ target | name }} AS t
USING (
{% include "_last_with_flag.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN UPDATE SET t.{{ flag | quoted }} = TRUE
WHEN MATCHED THEN UPDATE SET
{%- for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }},
{%- endfor %}
  t.{{ flag | quoted }} = s.{{ "ends_deleted" | ours }}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
