  SELECT s.* FROM (
    SELECT {{ "row" | ours }}.*, {{ "ends_deleted" | ours }} FROM (
      SELECT
        ARRAY_AGG({{ "record" | ours }} ORDER BY {{ "op" | ours }} = 'd', {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC LIMIT 1)[OFFSET(0)] AS {{ "row" | ours }},
        ARRAY_AGG({{ "op" | ours }} ORDER BY {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC LIMIT 1)[OFFSET(0)] = 'd' AS {{ "ends_deleted" | ours }}
      FROM (
{% include "_staged_newest.sql" %}
      ) AS {{ "record" | ours }}
      GROUP BY {% include "_key.sql" %}
    )
  ) AS s
