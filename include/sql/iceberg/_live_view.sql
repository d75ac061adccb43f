{#- The rows of the table that nothing staged has to do with, and what the merge would make of the others. Blocks:
    `changes`, the source of the merge; `found`, which of a change's rows replace the table's; `value`, `deleted`, `stays`. -#}
WITH
{% include "_live_batches.sql" %}
{{ "changes" | ours }} AS (
{% block changes required %}{% endblock %}
)
SELECT
  {%- for column in columns %} t.{{ column | quoted }}{{ "," if not loop.last }}{% endfor %}
FROM {{ "rows" | ours }} t
{%- if leaves is defined %}
LEFT ANTI JOIN {{ "changes" | ours }} s ON {% block found %}{% endblock %}{% include "_on_key.sql" %}
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
FROM {{ "changes" | ours }} s
{%- if asks_rows %}
LEFT JOIN (
  SELECT t.*, true AS {{ "there" | ours }} FROM {{ "rows" | ours }} t LEFT SEMI JOIN {{ "changes" | ours }} s ON {% include "_on_key.sql" %}
) t ON {% include "_on_key.sql" %}
{%- endif %}
WHERE {% block stays %}s.{{ "op" | ours }} <> 'd'{% endblock %}
{%- if not replaces %}
-- a batch that is published between the look at the position and the look at the table would be here twice
AND (
  SELECT CASE WHEN max_by(l.latest_snapshot_id, l.timestamp) = max(r.snapshot_id) THEN true
    ELSE raise_error('the table has changed while this query was planned: run it again') END
  FROM {{ target | name }}.metadata_log_entries l CROSS JOIN {{ target | name }}.refs r
  WHERE r.name = 'main'
)
{%- endif %}
