{%- from "_at_least.sql" import at_least, columns_at_least %}
{%- set newest = "newest" | ours %}
{%- set last = "s." ~ ("last" | ours) -%}
{% set row = "row_sequence" | ours %}  SELECT s.*,
    s.{{ "reset" | ours }} IS NOT NULL AS {{ "is_reset" | ours }},
    COALESCE({{ last }}.op = 'd', TRUE) OR COALESCE(s.{{ "reset" | ours }}.place > {{ last }}.place, FALSE) AS {{ "ends_deleted" | ours }},
    {%- if deletes %}
    IF(s.{{ "is_row" | ours }} AND (t.sequence IS NULL OR {{ at_least("s." ~ ("sequence" | ours), "t.sequence", sequence) }}), s.{{ "sequence" | ours }}, NULL) AS {{ row }},
    IF(t.sequence IS NULL OR {{ at_least(last ~ ".sequence", "t.sequence", sequence) }}, {{ last }}.sequence, NULL) AS {{ newest }}
    {%- else %}
    IF(s.{{ "is_row" | ours }}, s.{{ "sequence" | ours }}, NULL) AS {{ row }},
    {{ last }}.sequence AS {{ newest }}
    {%- endif %}
  FROM (
{% include "_sequenced.sql" %}
  ) AS s
  {%- if deletes %}
  LEFT JOIN {{ deletes | name }} AS t ON {% include "_on_key.sql" %}
  {%- endif %}
