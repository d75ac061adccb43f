{#- The rows of the table that nothing staged has to do with, and what the merge would make of the others. Blocks:
    `changes`, the source of the merge; `found`, which of a change's rows replace the table's; `value`, `deleted`, `stays`. -#}
WITH
{% include "_live_batches.sql" %}
{{ "changes" | ours }} AS (
  SELECT *, TRUE AS {{ "is_change" | ours }} FROM (
{% block changes required %}{% endblock %}
  )
)
SELECT
  {%- for column in columns %} t.{{ column | quoted }}{{ "," if not loop.last }}{% endfor %}
FROM {{ target | name }} AS t
{%- if leaves is defined %}
LEFT JOIN {{ "changes" | ours }} AS s ON {% block found %}{% endblock %}{% include "_on_key.sql" %}
WHERE s.{{ "is_change" | ours }} IS NULL
{%- endif %}
UNION ALL
SELECT
  {%- for column in columns %}
  {% if column in keys | map("first") %}s.{{ column | quoted }}
  {%- elif column == flag %}{% block deleted %}{% endblock %}
  {%- elif column in values %}{% block value scoped %}s.{{ column | quoted }}{% endblock %}
  {%- elif asks_rows %}t.{{ column | quoted }}
  {%- else %}NULL
  {%- endif %} AS {{ column | quoted }}{{ "," if not loop.last }}
  {%- endfor %}
FROM {{ "changes" | ours }} AS s
{%- if asks_rows %}
LEFT JOIN (SELECT *, TRUE AS {{ "there" | ours }} FROM {{ target | name }}) AS t ON {% include "_on_key.sql" %}
{%- endif %}
WHERE {% block stays %}s.{{ "op" | ours }} <> 'd'{% endblock %}
