-- Append, and a delete removes its key's earlier rows: in the table, and in the batch before it.
MERGE INTO {{ target | name }} AS t
USING (
{% include "_after_last_delete.sql" %}
) AS s
ON s.{{ "op" | ours }} = 'd' AND {% include "_on_key.sql" %}{% include "_bounds.sql" %}
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
