{%- set row = "row_sequence" | ours -%}
{% set newest = "newest" | ours %}  SELECT s.*,
    s.{{ "reset" | ours }} IS NOT NULL AS {{ "is_reset" | ours }},
    coalesce(s.{{ "last" | ours }}.op = 'd', true)
      OR coalesce(s.{{ "reset" | ours }}.at > s.{{ "last" | ours }}.at, false) AS {{ "ends_deleted" | ours }},
    {%- if deletes %}
    CASE WHEN s.{{ "is_row" | ours }} AND coalesce(s.{{ "sequence" | ours }} >= t.sequence, true) THEN s.{{ "sequence" | ours }} END AS {{ row }},
    CASE WHEN coalesce(s.{{ "last" | ours }}.sequence >= t.sequence, true) THEN s.{{ "last" | ours }}.sequence END AS {{ newest }}
    {%- else %}
    CASE WHEN s.{{ "is_row" | ours }} THEN s.{{ "sequence" | ours }} END AS {{ row }},
    s.{{ "last" | ours }}.sequence AS {{ newest }}
    {%- endif %}
  FROM (
{% include "_sequenced.sql" %}
  ) s
  {%- if deletes %}
  LEFT JOIN {{ ("remembered" | ours) if is_live is defined else deletes | name }}{% if is_remembered is defined %}.{{ branch | quoted }}{% endif %} t ON {% include "_on_key.sql" %}
  {%- endif %}
