MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
{% include "_last_per_key.sql" %}
) s
ON {% include "_on_key.sql" %}
