  SELECT * FROM (
    SELECT *,
      COUNTIF({{ "op" | ours }} = 'd') OVER (
        PARTITION BY {% include "_key.sql" %}
        ORDER BY {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS {{ "later_deletes" | ours }}
    FROM (
{% include "_staged.sql" %}
    )
  )
  WHERE {{ "later_deletes" | ours }} = 0
