-- The last record of each key says whether the row counts as deleted, its last upsert what stands in it: a row that
-- comes and goes within one batch is left as it would be by two.
MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
{% include "_last_with_flag.sql" %}
) s
ON {% include "_on_key.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN UPDATE SET t.{{ flag | quoted }} = true
{%- with values = values + [flag] %}
WHEN MATCHED THEN {% include "_update.sql" %}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
{%- endwith %}
