MERGE INTO {{ target | name }} AS t
USING (
{% include "_last_per_key.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
