  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY {% include "_key.sql" %}
      ORDER BY {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC
    ) AS {{ "rank" | ours }}
    FROM (
{% include "_staged.sql" %}
    )
  ){{ " s" if guarded is defined }}
  WHERE {{ "rank" | ours }} = 1
  {%- if guarded is defined %}
{% include "_no_later_record.sql" %}
  {%- endif %}
