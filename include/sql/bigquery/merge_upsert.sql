-- Deletes were left out while staging, before the last record of each key was chosen.
MERGE INTO {{ target | name }} AS t
USING ({% include "_last_per_key.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
{%- if values %}
WHEN MATCHED THEN {% include "_update.sql" %}
{%- endif %}
WHEN NOT MATCHED THEN {% include "_insert.sql" %}
