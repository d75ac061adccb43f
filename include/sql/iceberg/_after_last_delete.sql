  SELECT * FROM (
    SELECT *,
      max(CASE WHEN {{ "op" | ours }} = 'd' THEN struct({% if in_turn is defined %}{{ "batch" | ours }}, {% endif %}{{ "offset" | ours }}, {{ "i" | ours }}) END) OVER (
        PARTITION BY {% include "_key.sql" %}
      ) AS {{ "last_delete" | ours }}
    FROM (
{% include "_staged.sql" %}
    )
  )
  WHERE {{ "last_delete" | ours }} IS NULL
     OR struct({% if in_turn is defined %}{{ "batch" | ours }}, {% endif %}{{ "offset" | ours }}, {{ "i" | ours }}) >= {{ "last_delete" | ours }}
