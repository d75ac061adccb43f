-- Append, and a delete removes its key's earlier rows: in the table, and in the batch before it.
MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
  SELECT * FROM (
    SELECT *,
      max(CASE WHEN {{ "op" | ours }} = 'd' THEN struct({{ "offset" | ours }}, {{ "i" | ours }}) END) OVER (
        PARTITION BY {% include "_key.sql" %}
      ) AS {{ "last_delete" | ours }}
    FROM (
{% include "_staged.sql" %}
    )
  )
  WHERE {{ "last_delete" | ours }} IS NULL
     OR struct({{ "offset" | ours }}, {{ "i" | ours }}) >= {{ "last_delete" | ours }}
) s
ON s.{{ "op" | ours }} = 'd' AND {% include "_on_key.sql" %}
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
