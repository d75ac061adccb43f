-- A table that is only appended to: of each key that has no row, its last record.
MERGE INTO {{ target | name }} AS t
USING ({% include "_last_per_key.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
