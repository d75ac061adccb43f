-- Only keys without a later record up to the table's position; of those, only the ones that have no row get one.
MERGE INTO {{ target | name }} AS t
USING ({% include "_last_per_key.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN DELETE
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
