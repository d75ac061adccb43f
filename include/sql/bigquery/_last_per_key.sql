{% if guarded is defined %}  SELECT s.* FROM (
{% endif %}  SELECT {{ "row" | ours }}.* FROM (
    SELECT ARRAY_AGG({{ "record" | ours }} ORDER BY {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC LIMIT 1)[OFFSET(0)] AS {{ "row" | ours }}
    FROM (
{% include "_staged.sql" %}
    ) AS {{ "record" | ours }}
    GROUP BY {% include "_key.sql" %}
  )
{%- if guarded is defined %}
  ) AS s{% include "_no_later_record.sql" %}
{%- endif %}
