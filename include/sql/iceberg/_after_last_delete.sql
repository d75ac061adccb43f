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
