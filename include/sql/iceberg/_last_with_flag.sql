  SELECT * FROM (
    SELECT *,
      max(struct({% if in_turn is defined %}{{ "batch" | ours }}, {% endif %}{{ "offset" | ours }}, {{ "i" | ours }}, {{ "op" | ours }})) OVER (
        PARTITION BY {% include "_key.sql" %}
      ).{{ "op" | ours }} = 'd' AS {{ flag | quoted }},
      row_number() OVER (
        PARTITION BY {% include "_key.sql" %}
        ORDER BY {{ "op" | ours }} = 'd', {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC
      ) AS {{ "rank" | ours }}
    FROM (
{% include "_staged_newest.sql" %}
    )
  )
  WHERE {{ "rank" | ours }} = 1
