-- The last record of each key decides: a delete removes the row, anything else writes it.
MERGE INTO {{ target | name }} AS t
USING ({% include "_last_per_key.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN DELETE
{%- if values %}
WHEN MATCHED THEN {% include "_update.sql" %}
{%- endif %}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
